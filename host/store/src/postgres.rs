//! PostgreSQL: a schema in a database that the hosts of a cluster share.
//!
//! A verb is one call of one plpgsql function, which locks the job, reads the server's clock and applies the rule: see
//! `functions/`. What arrives together shares a call and its commit. Heartbeats have a connection of their own. Every
//! connection comes back by itself, and each error says whether the effect may have happened.

mod address;
mod answer;
mod ask;
mod beats;
mod call;
mod connect;
mod error;
mod lane;
mod link;
mod notify;
mod rehearsal;
mod schema;
mod told;
mod upkeep;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use leasehold_lease::id::{JobKey, RunId, RunKey, TenantName};
use leasehold_lease::op::{
    Accepted, Announce, Cancel, CancelAnswer, Claim, ClaimAnswer, Close, CloseAnswer, Finish, Heartbeat,
    HeartbeatAnswer, Release, Stamped, Trigger, TriggerAnswer, Unblock, UnblockAnswer,
};
use leasehold_lease::run::Hold;
use leasehold_lease::time::Millis;
use leasehold_lease::write::{Write, Written};
use tokio::sync::broadcast;

pub use error::{ConnectError, PostgresError};

use self::address::{Address, Transport};
use self::answer::Read;
use self::call::{Function, Row};
use self::lane::Lane;
use self::link::Place;
use self::notify::Hints;
use crate::aside::Aside;
use crate::error::StoreError;
use crate::store::LeaseStore;
use crate::view::{
    AnnounceAnswer, Checked, Each, HistoryQuery, HostAnswer, HostOrders, HostRecord, HostReport, Identity, JobView,
    LogEntry, RunStanding, RunView,
};
use crate::wakeups::Wakeups;

/// Connections for claims, ends and what else changes a job. While one waits for its commit the other gathers. More
/// would share their commits less: with three or four, fewer pairs a second were measured.
const HOT: usize = 2;

/// Connections for heartbeats alone. Ten thousand are renewed by both at once.
const BEATS: usize = 2;

/// Connections for writes of handlers and for looking.
const REST: usize = 2;

/// Connections that one host opens at most: besides those, one for hearing and one for telling. (One that is made anew
/// is there twice for a moment; where the server has no room for that, the old one stays.)
const CONNECTIONS: usize = HOT + BEATS + REST + 2;

/// The longest namespace, in bytes.
const NAMESPACE_MAX: usize = 64;

/// A store in a PostgreSQL database. Dropping it closes its connections.
pub struct PostgresStore {
    identity: Identity,
    beats: Lane,
    hot: Lane,
    rest: Lane,
    wakeups: Arc<Wakeups>,
    hints: Option<Hints>,
    /// Where the connections for heartbeats live.
    _aside: Aside,
}

/// Reads an address without going there.
///
/// # Errors
///
/// What is wrong with it, without its password.
pub fn check_address(url: &str) -> Result<(), ConnectError> {
    Address::parse(url).map(|_| ())
}

impl PostgresStore {
    /// Connects to `url` (`postgres://USER:PASSWORD@HOST:PORT/DATABASE`), prepares the schema `leasehold` there and
    /// works in `namespace`. Behind a pooler that shares connections between transactions the URL carries
    /// `?pooler=transaction`: then no call needs anything of its session, and wake-ups stay within this process.
    ///
    /// The tasks that serve the connections live as long as the runtime this is called in. Those for heartbeats have a
    /// thread of their own.
    ///
    /// # Errors
    ///
    /// Each way in which the server is not there, does not let the user in or cannot serve has a variant, which says
    /// what to do.
    pub async fn connect(url: &str, namespace: &str) -> Result<PostgresStore, ConnectError> {
        let address = Address::parse(url)?;
        check_namespace(namespace)?;
        connect::prepare(&address).await?;
        let namespace = namespace.to_owned();
        let identity = settle_identity(&address, &namespace).await?;
        let place = Arc::new(Place { address, namespace, identity: Some(identity.clone()) });
        let aside = Aside::start().map_err(ConnectError::Thread)?;
        let wakeups = Arc::new(Wakeups::default());
        let hints = match place.address.transport {
            Transport::Prepared => Some(Hints::start(&place, wakeups.clone()).await?),
            // LISTEN would stay with a connection that another client gets next.
            Transport::Simple => None,
        };
        Ok(PostgresStore {
            identity,
            // A lease that is to be renewed waits for no connection.
            beats: Lane::connect(&place, BEATS, aside.runtime()).await?,
            hot: Lane::start_quick(&place, HOT),
            rest: Lane::start(&place, REST),
            _aside: aside,
            wakeups,
            hints,
        })
    }

    /// Whether a host has ever worked in this namespace. Changes nothing, where [`PostgresStore::connect`] would make it.
    ///
    /// # Errors
    ///
    /// As those of [`PostgresStore::connect`].
    pub async fn exists(url: &str, namespace: &str) -> Result<bool, ConnectError> {
        let address = Address::parse(url)?;
        check_namespace(namespace)?;
        connect::exists(&address, namespace).await
    }

    /// Tells this process and other hosts that a job may have work. Whoever is answered after this may end at once.
    async fn wake(&self, job: &JobKey) {
        self.wakeups.wake(job);
        if let Some(hints) = &self.hints {
            hints.send(job).await;
        }
    }
}

/// A request about a job on the lane of those that share calls.
async fn on<A>(
    lane: &Lane,
    doing: &'static str,
    ask: String,
    read: impl FnOnce(&str) -> Read<A>,
) -> Result<Stamped<A>, StoreError> {
    let row = lane.request(doing, ask).await?;
    answer::stamped(&row, read).map_err(|error| lane.done_or_not(doing, error))
}

impl PostgresStore {
    /// Calls a function that writes beside the jobs' own records.
    async fn change<A>(
        &self,
        doing: &'static str,
        function: &'static Function,
        ask: String,
        read: impl FnOnce(Vec<Row>) -> Read<A>,
    ) -> Result<A, StoreError> {
        let rows = self.rest.call(doing, function, ask).await?;
        read(rows).map_err(|error| self.rest.done_or_not(doing, error))
    }

    /// Calls a function that only looks.
    async fn look<A>(
        &self,
        doing: &'static str,
        function: &'static Function,
        ask: String,
        read: impl FnOnce(Vec<Row>) -> Read<A>,
    ) -> Result<A, StoreError> {
        let rows = self.rest.call(doing, function, ask).await?;
        read(rows).map_err(|error| self.rest.unreadable(doing, error))
    }
}

#[async_trait]
impl LeaseStore for PostgresStore {
    async fn identity(&self) -> Result<Identity, StoreError> {
        Ok(self.identity.clone())
    }

    async fn now(&self) -> Result<Millis, StoreError> {
        self.look("reading the store's clock", &call::TELL_TIME, ask::time(), answer::time).await
    }

    async fn claim(&self, job: &JobKey, claim: &Claim) -> Result<Stamped<ClaimAnswer>, StoreError> {
        on(&self.hot, "claiming a run", ask::claim(job, claim), answer::claim).await
    }

    async fn heartbeats(&self, beats: &[(JobKey, Heartbeat)]) -> Result<Vec<Each<HeartbeatAnswer>>, StoreError> {
        beats::send(&self.beats, beats).await
    }

    async fn finish(&self, job: &JobKey, finish: &Finish) -> Result<Stamped<Accepted>, StoreError> {
        on(&self.hot, "recording the end of a run", ask::finish(job, finish), answer::accepted).await
    }

    async fn release(&self, job: &JobKey, release: &Release) -> Result<Stamped<Accepted>, StoreError> {
        let released = on(&self.hot, "handing a run over", ask::release(job, release), answer::accepted).await?;
        if released.answer == Accepted::Done {
            self.wake(job).await;
        }
        Ok(released)
    }

    async fn write(&self, job: &JobKey, write: &Write) -> Result<Stamped<Written>, StoreError> {
        let doing = "writing beside a run";
        let read = |rows: Vec<Row>| answer::stamped(answer::only(&rows)?, answer::written);
        self.change(doing, &call::WRITE, ask::write(job, write), read).await
    }

    async fn load_state(&self, run: &RunKey) -> Result<Option<Vec<u8>>, StoreError> {
        self.look("reading a checkpoint", &call::LOAD_STATE, ask::run(run), answer::some_bytes).await
    }

    async fn kv_get(&self, tenant: &TenantName, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.look("reading a value", &call::KV_GET, ask::kv_get(tenant, key), answer::some_bytes).await
    }

    async fn kv_list(
        &self,
        tenant: &TenantName,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let ask = ask::kv_list(tenant, prefix, after, limit);
        self.look("listing keys", &call::KV_LIST, ask, |rows| answer::all(&rows, answer::kv_key)).await
    }

    async fn read_log(&self, run: &RunKey, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        let ask = ask::read_log(run, after, limit);
        self.look("reading a log", &call::READ_LOG, ask, |rows| answer::all(&rows, answer::log_entry)).await
    }

    async fn announce(&self, jobs: &[(JobKey, Announce)]) -> Result<Vec<Each<AnnounceAnswer>>, StoreError> {
        upkeep::announce(&self.rest, jobs).await
    }

    async fn trigger(&self, job: &JobKey, trigger: &Trigger) -> Result<Stamped<TriggerAnswer>, StoreError> {
        let doing = "storing an on-demand run";
        let triggered = on(&self.hot, doing, ask::trigger(job, trigger), answer::trigger).await?;
        if triggered.answer == TriggerAnswer::Stored {
            self.wake(job).await;
        }
        Ok(triggered)
    }

    async fn cancel(&self, job: &JobKey, cancel: &Cancel) -> Result<Stamped<CancelAnswer>, StoreError> {
        on(&self.hot, "cancelling a run", ask::cancel(job, cancel), answer::cancel).await
    }

    async fn close(&self, job: &JobKey, close: &Close) -> Result<Stamped<CloseAnswer>, StoreError> {
        on(&self.hot, "closing an orphaned run", ask::close(job, close), answer::close).await
    }

    async fn unblock(&self, job: &JobKey, unblock: &Unblock) -> Result<Stamped<UnblockAnswer>, StoreError> {
        on(&self.hot, "unblocking a job", ask::unblock(job, unblock), answer::unblock).await
    }

    async fn hold(&self, job: &JobKey, hold: Option<&Hold>) -> Result<Stamped<()>, StoreError> {
        on(&self.hot, "pausing or resuming a job", ask::hold(job, hold), |_| Ok(())).await
    }

    async fn unfinished(
        &self,
        tenants: &[TenantName],
        after: Option<&RunKey>,
        limit: usize,
    ) -> Result<Checked<Vec<RunStanding>>, StoreError> {
        let ask = ask::unfinished(tenants, after, limit);
        let read = |rows| answer::sound("looking for unfinished runs", rows, answer::keyed_standing);
        self.look("looking for unfinished runs", &call::UNFINISHED, ask, read).await
    }

    async fn check(&self, runs: &[RunKey]) -> Result<Checked<Vec<RunStanding>>, StoreError> {
        let read = |rows| answer::standings(runs, rows);
        self.look("looking at runs", &call::CHECK_RUNS, ask::check(runs), read).await
    }

    async fn show(&self, run: &RunKey) -> Result<Checked<Option<RunView>>, StoreError> {
        let read = |rows| answer::maybe_one(rows, answer::whole_run);
        self.look("showing a run", &call::SHOW, ask::run(run), read).await
    }

    async fn history(&self, query: &HistoryQuery) -> Result<Checked<Vec<RunView>>, StoreError> {
        let read = |rows| answer::sound("reading the history", rows, answer::whole_run);
        self.look("reading the history", &call::HISTORY, ask::history(query), read).await
    }

    async fn jobs(&self, after: Option<&JobKey>, limit: usize) -> Result<Checked<Vec<JobView>>, StoreError> {
        let read = |rows| answer::sound("listing jobs", rows, answer::job);
        self.look("listing jobs", &call::LIST_JOBS, ask::jobs(after, limit), read).await
    }

    async fn job(&self, job: &JobKey) -> Result<Checked<Option<JobView>>, StoreError> {
        let read = |rows| answer::maybe_one(rows, answer::job);
        self.look("reading a job", &call::SHOW_JOB, ask::job(job), read).await
    }

    async fn prune(&self, job: &JobKey, history_size: u32) -> Result<Stamped<usize>, StoreError> {
        upkeep::prune(&self.rest, job, history_size).await
    }

    async fn keep_answers(&self, told: &[HostAnswer]) -> Result<(), StoreError> {
        self.change("keeping what hosts were told", &call::KEEP_TOLD, ask::keep_told(told), |_| Ok(())).await
    }

    async fn answers(&self, job: &JobKey, run: Option<&RunId>, limit: usize) -> Result<Vec<HostAnswer>, StoreError> {
        let read = |rows: Vec<Row>| answer::all(&rows, |said| answer::told(job, said));
        self.look("reading what hosts were told", &call::READ_TOLD, ask::told(job, run, limit), read).await
    }

    async fn report_host(&self, report: &HostReport) -> Result<Checked<HostOrders>, StoreError> {
        self.change("reporting a host", &call::REPORT_HOST, ask::report_host(report), answer::orders).await
    }

    async fn hosts(&self) -> Result<Checked<Vec<HostRecord>>, StoreError> {
        let read = |rows| answer::sound("listing hosts", rows, answer::host);
        self.look("listing hosts", &call::LIST_HOSTS, ask::time(), read).await
    }

    async fn keep_offers(&self, name: &str, instance: &str, offers: &str) -> Result<(), StoreError> {
        let ask = told::offers(name, instance, Some(offers));
        self.change("keeping what this host offers", &call::KEEP_OFFERS, ask, |_| Ok(())).await
    }

    async fn host_offers(&self, name: &str, instance: &str) -> Result<Option<String>, StoreError> {
        let ask = told::offers(name, instance, None);
        self.look("reading what a host offers", &call::HOST_OFFERS, ask, answer::some_text).await
    }

    async fn drain(&self, host: &str, drain: bool) -> Result<usize, StoreError> {
        let read = |rows: Vec<Row>| answer::count(answer::text("an answer", answer::only(&rows)?)?);
        self.change("draining a host", &call::DRAIN, ask::drain(host, drain), read).await
    }

    fn wakeups(&self) -> Option<broadcast::Receiver<JobKey>> {
        Some(self.wakeups.subscribe())
    }
}

/// A namespace is part of every key and of what people read.
fn check_namespace(namespace: &str) -> Result<(), ConnectError> {
    let refuse = |reason| Err(ConnectError::Namespace { namespace: namespace.to_owned(), reason });
    match namespace.len() {
        0 => refuse("it is empty"),
        1..=NAMESPACE_MAX if namespace.chars().all(|c| !c.is_control()) => Ok(()),
        1..=NAMESPACE_MAX => refuse("it has a control character"),
        _ => refuse("it is longer than 64 bytes"),
    }
}

/// Who this store is, made up when it is used for the first time.
async fn settle_identity(address: &Address, namespace: &str) -> Result<Identity, ConnectError> {
    let doing = "reading the store's identity";
    let new = Identity::random().map_err(ConnectError::Random)?;
    let failed = |source| ConnectError::Identity { server: address.shown.clone(), source };
    let place = Place { address: address.clone(), namespace: namespace.to_owned(), identity: None };
    let lane = Lane::start(&Arc::new(place), 1);
    let rows = lane.call(doing, &call::IDENTITY, ask::identity(&new)).await.map_err(failed)?;
    answer::identity(&rows).map_err(|error| failed(lane.unreadable(doing, error)))
}
