//! The trait: the verbs of a lease store.

use async_trait::async_trait;
use leasehold_lease::id::{JobKey, RunKey, TenantName};
use leasehold_lease::op::{
    Accepted, Announce, Cancel, CancelAnswer, Claim, ClaimAnswer, Close, CloseAnswer, Finish, Heartbeat,
    HeartbeatAnswer, Release, Stamped, Trigger, TriggerAnswer, Unblock, UnblockAnswer,
};
use leasehold_lease::run::Hold;
use leasehold_lease::time::Millis;
use leasehold_lease::write::{Write, Written};
use tokio::sync::broadcast;

use crate::error::StoreError;
use crate::view::{
    AnnounceAnswer, Checked, Each, HistoryQuery, HostAnswer, HostOrders, HostRecord, HostReport, Identity, JobView,
    LogEntry, RunStanding, RunView,
};

/// A store of leases. All verbs are atomic per job and stamped with the store's own clock.
///
/// A future of these must not be dropped half-way by a caller that wants to know what happened: give up waiting, and
/// send the same operation again. Every verb is safe to repeat (S13). Every call ends by itself: a driver bounds each
/// by [`CALL_LIMIT`](crate::CALL_LIMIT), and its error says whether the effect may have happened.
#[async_trait]
pub trait LeaseStore: Send + Sync + 'static {
    /// Who this store is: made at random when the store is first used, and the same for ever and for all hosts.
    async fn identity(&self) -> Result<Identity, StoreError>;

    /// The store's clock.
    async fn now(&self) -> Result<Millis, StoreError>;

    /// Asks to start a run. See [`leasehold_lease::rules::claim`].
    async fn claim(&self, job: &JobKey, claim: &Claim) -> Result<Stamped<ClaimAnswer>, StoreError>;

    /// Renews many leases in one call, on a connection of its own. The answers stand in the order of the heartbeats;
    /// one whose record cannot be read does not spoil the others.
    async fn heartbeats(&self, beats: &[(JobKey, Heartbeat)]) -> Result<Vec<Each<HeartbeatAnswer>>, StoreError>;

    /// Records how a run ended. See [`leasehold_lease::rules::finish`].
    async fn finish(&self, job: &JobKey, finish: &Finish) -> Result<Stamped<Accepted>, StoreError>;

    /// Hands a run over. See [`leasehold_lease::rules::release`].
    async fn release(&self, job: &JobKey, release: &Release) -> Result<Stamped<Accepted>, StoreError>;

    /// Writes a checkpoint, a value of the tenant's key-value space, or log lines, once per number and within the
    /// quota, while the attempt holds its run. See [`leasehold_lease::rules::write`].
    async fn write(&self, job: &JobKey, write: &Write) -> Result<Stamped<Written>, StoreError>;

    /// The run's checkpoint; none where it has saved none or has ended.
    async fn load_state(&self, run: &RunKey) -> Result<Option<Vec<u8>>, StoreError>;

    /// A value of the tenant's key-value space.
    async fn kv_get(&self, tenant: &TenantName, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// The tenant's keys that begin with `prefix`, in the order of their bytes, after `after`, at most `limit`.
    async fn kv_list(
        &self,
        tenant: &TenantName,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError>;

    /// The log of a run, all its attempts, oldest first, after the entry with sequence number `after` (0: from the
    /// start), at most `limit`.
    async fn read_log(&self, run: &RunKey, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError>;

    /// Says which jobs a host offers. See [`leasehold_lease::rules::announce`]. The answers stand in the same order;
    /// one whose record cannot be read does not spoil the others.
    async fn announce(&self, jobs: &[(JobKey, Announce)]) -> Result<Vec<Each<AnnounceAnswer>>, StoreError>;

    /// Stores an on-demand run before it answers. See [`leasehold_lease::rules::trigger`].
    async fn trigger(&self, job: &JobKey, trigger: &Trigger) -> Result<Stamped<TriggerAnswer>, StoreError>;

    /// Asks that a run should not go on. See [`leasehold_lease::rules::cancel`].
    async fn cancel(&self, job: &JobKey, cancel: &Cancel) -> Result<Stamped<CancelAnswer>, StoreError>;

    /// Gives up an orphan. See [`leasehold_lease::rules::close`].
    async fn close(&self, job: &JobKey, close: &Close) -> Result<Stamped<CloseAnswer>, StoreError>;

    /// Frees a job from a clock that was wrong. See [`leasehold_lease::rules::unblock`].
    async fn unblock(&self, job: &JobKey, unblock: &Unblock) -> Result<Stamped<UnblockAnswer>, StoreError>;

    /// Holds a job back, or lets it go. See [`leasehold_lease::rules::hold`].
    async fn hold(&self, job: &JobKey, hold: Option<&Hold>) -> Result<Stamped<()>, StoreError>;

    /// Pending, running and expired runs of all jobs of these tenants, ordered by key, from after `after`, at most
    /// `limit`.
    async fn unfinished(
        &self,
        tenants: &[TenantName],
        after: Option<&RunKey>,
        limit: usize,
    ) -> Result<Checked<Vec<RunStanding>>, StoreError>;

    /// Reads where many runs stand and decides nothing. The answers stand in the order of the keys.
    async fn check(&self, runs: &[RunKey]) -> Result<Checked<Vec<RunStanding>>, StoreError>;

    /// All that is kept of a run.
    async fn show(&self, run: &RunKey) -> Result<Checked<Option<RunView>>, StoreError>;

    /// What people look at: runs, [newest first](leasehold_lease::order::newest_first).
    async fn history(&self, query: &HistoryQuery) -> Result<Checked<Vec<RunView>>, StoreError>;

    /// Jobs the store has seen, without their runs, ordered by key, from after `after`, at most `limit`. One whose record
    /// cannot be read is left out.
    async fn jobs(&self, after: Option<&JobKey>, limit: usize) -> Result<Checked<Vec<JobView>>, StoreError>;

    /// One job; none where the store has never heard of it.
    async fn job(&self, job: &JobKey) -> Result<Checked<Option<JobView>>, StoreError>;

    /// Deletes what may be forgotten, and answers how many runs that was. See [`leasehold_lease::rules::prune`].
    async fn prune(&self, job: &JobKey, history_size: u32) -> Result<Stamped<usize>, StoreError>;

    /// Keeps what hosts were told, for people who ask why a run did or did not start: beside the records, without a
    /// revision, the newest [`ANSWERS_KEPT`](crate::ANSWERS_KEPT) of each job.
    async fn keep_answers(&self, told: &[HostAnswer]) -> Result<(), StoreError>;

    /// What hosts were told about a job or one of its runs, newest first, at most `limit`.
    async fn answers(
        &self,
        job: &JobKey,
        run: Option<&leasehold_lease::id::RunId>,
        limit: usize,
    ) -> Result<Vec<HostAnswer>, StoreError>;

    /// A host says that it is there, and learns what was asked of it. Never used to decide about a lease. Records of
    /// hosts not heard of for [`HOST_KEPT`](crate::HOST_KEPT) are dropped.
    async fn report_host(&self, report: &HostReport) -> Result<Checked<HostOrders>, StoreError>;

    /// The hosts, by name and instance.
    async fn hosts(&self) -> Result<Checked<Vec<HostRecord>>, StoreError>;

    /// A host says what it offers, as JSON: it is much, so it is said only when it has changed. It is kept beside the record
    /// of the host and dropped with it; of a host that was not heard of, nothing is kept.
    async fn keep_offers(&self, name: &str, instance: &str, offers: &str) -> Result<(), StoreError>;

    /// What this host said last that it offers; none where it has said nothing.
    async fn host_offers(&self, name: &str, instance: &str) -> Result<Option<String>, StoreError>;

    /// Asks hosts of this name to take nothing new, or to go on. Answers how many are known.
    async fn drain(&self, host: &str, drain: bool) -> Result<usize, StoreError>;

    /// Jobs that were released or triggered just now, where the store can tell. Only a hint, which may come late, twice
    /// or never: polling is what is promised.
    fn wakeups(&self) -> Option<broadcast::Receiver<JobKey>>;
}

/// Jobs that are asked for at a time where all are wanted: what each of five stores answers well within a call's time.
const JOBS_PAGE: usize = 500;

/// All jobs, page by page, ordered by key: as many calls as that takes, each with its own time. The clock is that of the
/// last one.
///
/// # Errors
///
/// Those of a page.
pub async fn all_jobs(store: &dyn LeaseStore) -> Result<Checked<Vec<JobView>>, StoreError> {
    let mut all: Vec<JobView> = Vec::new();
    loop {
        let Checked { now, answer } = store.jobs(all.last().map(|job| &job.key), JOBS_PAGE).await?;
        if answer.is_empty() {
            return Ok(Checked { now, answer: all });
        }
        all.extend(answer);
    }
}
