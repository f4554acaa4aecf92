//! Redis and Valkey: one script a verb, and the server's clock.
//!
//! A script reads the time once, decides as [`leasehold_lease::rules`] does, and writes; the server runs nothing else
//! meanwhile, so every verb is atomic. All keys of a tenant share a hash tag, so a script may touch them all, and a
//! cluster shards by tenant. No key has a time to live: a lease is a number in a record, never a key that vanishes.
//!
//! The server answers before its replicas know and, by its settings, before its disk does: after a failover or a crash
//! it may have lost what it has acknowledged. A run is then unknown, its runner is refused and stops, and its slot may
//! run again. With `?wait=N` in the URL claims, ends, releases, writes and what people ask for (trigger, cancel, close,
//! unblock, hold, prune) count as done once N replicas know; until then they are [`StoreError::Unknown`]. Heartbeats,
//! announcements and what hosts say for people do not wait: losing one of them loses no run. What a server's settings
//! put at risk is told by [`RedisStore::warnings`].
//!
//! In a cluster the URL names any of its servers; that one must be there when a host starts, and wake-ups are heard
//! through it alone. Errors there say less: nearly every one leaves open whether the effect has happened.

mod answers;
mod batch;
mod call;
mod config;
mod decode;
mod error;
mod facts;
mod history;
mod keys;
mod link;
mod people;
mod reading;
mod record;
mod scripts;
mod server;
mod trouble;
mod unfinished;
mod verbs;
mod waiting;
mod writing;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use leasehold_lease::id::{JobKey, RunId, RunKey, TenantName};
use leasehold_lease::op::{
    Accepted, Announce, Cancel, CancelAnswer, Claim, ClaimAnswer, Close, CloseAnswer, Finish, Heartbeat,
    HeartbeatAnswer, Release, Stamped, Trigger, TriggerAnswer, Unblock, UnblockAnswer,
};
use leasehold_lease::run::Hold;
use leasehold_lease::time::Millis;
use leasehold_lease::write::{Write, Written};
use tokio::runtime::Handle;
use tokio::sync::broadcast;

use self::config::Config;
pub use self::error::ConnectError;
pub use self::facts::Warning;
use self::link::{Link, Purpose};
use self::scripts::{SCRIPTS, Scripts};
use self::server::Server;
use crate::aside::Aside;
use crate::error::StoreError;
use crate::store::LeaseStore;
use crate::view::{
    AnnounceAnswer, Checked, Each, HistoryQuery, HostAnswer, HostOrders, HostRecord, HostReport, Identity, JobView,
    LogEntry, RunStanding, RunView,
};

/// A store in a Redis or Valkey server, or in a cluster of them.
pub struct RedisStore {
    server: Arc<Server>,
    /// For all but heartbeats, and where changes wait for replicas but those.
    calls: Arc<Link>,
    /// For changes; the same as `calls` where they do not wait.
    changes: Arc<Link>,
    /// For heartbeats alone, so that nothing large is in front of them.
    beats: Arc<Link>,
    /// Where that connection lives.
    _aside: Aside,
    /// Hears what other hosts say.
    listening: Link,
    /// Tenants that this process has put into the registry.
    registered: Mutex<HashSet<TenantName>>,
    warnings: Vec<Warning>,
}

/// Reads an address without going there.
///
/// # Errors
///
/// What is wrong with it, without its password.
pub fn check_address(url: &str) -> Result<(), ConnectError> {
    Config::new(url, "any").map(|_| ())
}

impl RedisStore {
    /// Connects to `redis://[user:password@]host[:port][/db][?wait=N]` (`rediss://` for TLS). Everything lies under
    /// keys that begin with `leasehold:{namespace`, so several systems may share a server.
    ///
    /// The server is looked at first: one that cannot keep the store's promises is refused, one that makes them weaker
    /// is warned of. From then on the store connects anew by itself whenever the connection is lost.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] says what is wrong and what to do.
    pub async fn connect(url: &str, namespace: &str) -> Result<RedisStore, ConnectError> {
        RedisStore::with_scripts(url, namespace, &SCRIPTS).await
    }

    /// Whether a host has ever worked in this namespace. Changes nothing, where [`RedisStore::connect`] would make it.
    ///
    /// # Errors
    ///
    /// As those of [`RedisStore::connect`].
    pub async fn exists(url: &str, namespace: &str) -> Result<bool, ConnectError> {
        Server::exists(&Config::new(url, namespace)?).await
    }

    /// What people who run hosts on this server should know about it: for a host to tell at its start.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    async fn with_scripts(url: &str, namespace: &str, scripts: &'static Scripts) -> Result<RedisStore, ConnectError> {
        let config = Config::new(url, namespace)?;
        let (server, warnings) = Server::open(config, scripts).await?;
        let aside = Aside::start().map_err(|error| ConnectError::Thread(Arc::new(error)))?;
        let here = Handle::current();
        let calls = Arc::new(Link::new(server.clone(), Purpose::Calls, &here));
        let waits = server.config.wait > 0;
        let changes = if waits { Arc::new(Link::new(server.clone(), Purpose::Calls, &here)) } else { calls.clone() };
        let store = RedisStore {
            calls,
            changes,
            beats: Arc::new(Link::new(server.clone(), Purpose::Calls, aside.runtime())),
            listening: Link::new(server.clone(), Purpose::Listening, &here),
            _aside: aside,
            registered: Mutex::default(),
            server,
            warnings,
        };
        // Whoever has the store is woken from then on. A server that went away meanwhile comes back, or does not.
        tokio::join!(store.calls.settled(), store.changes.settled(), store.beats.settled(), store.listening.settled());
        Ok(store)
    }
}

#[async_trait]
impl LeaseStore for RedisStore {
    async fn identity(&self) -> Result<Identity, StoreError> {
        // It was asked for when the first connection was made, and stays for ever.
        Ok(self.server.identity().clone())
    }

    async fn now(&self) -> Result<Millis, StoreError> {
        self.read_now().await
    }

    async fn claim(&self, job: &JobKey, claim: &Claim) -> Result<Stamped<ClaimAnswer>, StoreError> {
        self.do_claim(job, claim).await
    }

    async fn heartbeats(&self, beats: &[(JobKey, Heartbeat)]) -> Result<Vec<Each<HeartbeatAnswer>>, StoreError> {
        self.do_heartbeats(beats).await
    }

    async fn finish(&self, job: &JobKey, finish: &Finish) -> Result<Stamped<Accepted>, StoreError> {
        self.do_finish(job, finish).await
    }

    async fn release(&self, job: &JobKey, release: &Release) -> Result<Stamped<Accepted>, StoreError> {
        self.do_release(job, release).await
    }

    async fn write(&self, job: &JobKey, write: &Write) -> Result<Stamped<Written>, StoreError> {
        self.do_write(job, write).await
    }

    async fn load_state(&self, run: &RunKey) -> Result<Option<Vec<u8>>, StoreError> {
        self.read_state(run).await
    }

    async fn kv_get(&self, tenant: &TenantName, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.read_value(tenant, key).await
    }

    async fn kv_list(
        &self,
        tenant: &TenantName,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        self.read_keys(tenant, prefix, after, limit).await
    }

    async fn read_log(&self, run: &RunKey, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        self.read_log_lines(run, after, limit).await
    }

    async fn announce(&self, jobs: &[(JobKey, Announce)]) -> Result<Vec<Each<AnnounceAnswer>>, StoreError> {
        self.do_announce(jobs).await
    }

    async fn trigger(&self, job: &JobKey, trigger: &Trigger) -> Result<Stamped<TriggerAnswer>, StoreError> {
        self.do_trigger(job, trigger).await
    }

    async fn cancel(&self, job: &JobKey, cancel: &Cancel) -> Result<Stamped<CancelAnswer>, StoreError> {
        self.do_cancel(job, cancel).await
    }

    async fn close(&self, job: &JobKey, close: &Close) -> Result<Stamped<CloseAnswer>, StoreError> {
        self.do_close(job, close).await
    }

    async fn unblock(&self, job: &JobKey, unblock: &Unblock) -> Result<Stamped<UnblockAnswer>, StoreError> {
        self.do_unblock(job, unblock).await
    }

    async fn hold(&self, job: &JobKey, hold: Option<&Hold>) -> Result<Stamped<()>, StoreError> {
        self.do_hold(job, hold).await
    }

    async fn unfinished(
        &self,
        tenants: &[TenantName],
        after: Option<&RunKey>,
        limit: usize,
    ) -> Result<Checked<Vec<RunStanding>>, StoreError> {
        self.read_unfinished(tenants, after, limit).await
    }

    async fn check(&self, runs: &[RunKey]) -> Result<Checked<Vec<RunStanding>>, StoreError> {
        self.read_standings(runs).await
    }

    async fn show(&self, run: &RunKey) -> Result<Checked<Option<RunView>>, StoreError> {
        self.read_run(run).await
    }

    async fn history(&self, query: &HistoryQuery) -> Result<Checked<Vec<RunView>>, StoreError> {
        self.read_history(query).await
    }

    async fn jobs(&self, after: Option<&JobKey>, limit: usize) -> Result<Checked<Vec<JobView>>, StoreError> {
        self.read_jobs(after, limit).await
    }

    async fn job(&self, job: &JobKey) -> Result<Checked<Option<JobView>>, StoreError> {
        self.read_job(job).await
    }

    async fn prune(&self, job: &JobKey, history_size: u32) -> Result<Stamped<usize>, StoreError> {
        self.do_prune(job, history_size).await
    }

    async fn keep_answers(&self, told: &[HostAnswer]) -> Result<(), StoreError> {
        self.write_told(told).await
    }

    async fn answers(&self, job: &JobKey, run: Option<&RunId>, limit: usize) -> Result<Vec<HostAnswer>, StoreError> {
        self.read_told(job, run, limit).await
    }

    async fn report_host(&self, report: &HostReport) -> Result<Checked<HostOrders>, StoreError> {
        self.write_report(report).await
    }

    async fn hosts(&self) -> Result<Checked<Vec<HostRecord>>, StoreError> {
        self.read_hosts().await
    }

    async fn keep_offers(&self, name: &str, instance: &str, offers: &str) -> Result<(), StoreError> {
        self.write_offers(name, instance, offers).await
    }

    async fn host_offers(&self, name: &str, instance: &str) -> Result<Option<String>, StoreError> {
        self.read_offers(name, instance).await
    }

    async fn drain(&self, host: &str, drain: bool) -> Result<usize, StoreError> {
        self.write_drain(host, drain).await
    }

    fn wakeups(&self) -> Option<broadcast::Receiver<JobKey>> {
        Some(self.server.wakeups.subscribe())
    }
}

#[cfg(test)]
mod tests;
