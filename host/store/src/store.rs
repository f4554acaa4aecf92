//! The trait, what it passes around, and its errors.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use leasehold_lease::id::{Attempt, JobKey, RunKey, Token};
use leasehold_lease::op::{
    Accepted, Announce, Claim, ClaimAnswer, Finish, Heartbeat, HeartbeatAnswer, Release, Stamped, Trigger,
    TriggerAnswer,
};
use leasehold_lease::run::{Run, Status};
use leasehold_lease::time::{Millis, Slot};

/// A store of leases. All verbs are atomic per job and stamped with the store's own clock.
///
/// A future of these must not be dropped half-way by a caller that wants to know what happened: give up waiting, and
/// send the same operation again. Every verb is safe to repeat (S13).
#[async_trait]
pub trait LeaseStore: Send + Sync + 'static {
    /// Who this store is: made at random when the store is first used, and the same for ever and for all hosts.
    async fn identity(&self) -> Result<Identity, StoreError>;

    /// The store's clock.
    async fn now(&self) -> Result<Millis, StoreError>;

    /// Asks to start a run. See [`leasehold_lease::rules::claim`].
    async fn claim(&self, job: &JobKey, claim: &Claim) -> Result<Stamped<ClaimAnswer>, StoreError>;

    /// Renews many leases in one call, on a connection of its own. The answers stand in the order of the heartbeats.
    async fn heartbeats(&self, beats: &[(JobKey, Heartbeat)]) -> Result<Checked<Vec<HeartbeatAnswer>>, StoreError>;

    /// Records how a run ended. See [`leasehold_lease::rules::finish`].
    async fn finish(&self, job: &JobKey, finish: &Finish) -> Result<Stamped<Accepted>, StoreError>;

    /// Hands a run over. See [`leasehold_lease::rules::release`].
    async fn release(&self, job: &JobKey, release: &Release) -> Result<Stamped<Accepted>, StoreError>;

    /// Says which jobs a host offers. See [`leasehold_lease::rules::announce`]. The answers stand in the same order.
    async fn announce(&self, jobs: &[(JobKey, Announce)]) -> Result<Checked<Vec<AnnounceAnswer>>, StoreError>;

    /// Stores an on-demand run before it answers. See [`leasehold_lease::rules::trigger`].
    async fn trigger(&self, job: &JobKey, trigger: &Trigger) -> Result<Stamped<TriggerAnswer>, StoreError>;

    /// Pending, running and expired runs of these jobs, ordered by key, from after `after`, at most `limit`.
    async fn unfinished(
        &self,
        jobs: &[JobKey],
        after: Option<&RunKey>,
        limit: usize,
    ) -> Result<Checked<Vec<RunView>>, StoreError>;

    /// Reads many runs and decides nothing. The views stand in the order of the keys; none for an unknown run.
    async fn check(&self, runs: &[RunKey]) -> Result<Checked<Vec<Option<RunView>>>, StoreError>;

    /// What people look at: runs, newest first.
    async fn history(&self, query: &HistoryQuery) -> Result<Checked<Vec<RunView>>, StoreError>;

    /// All jobs the store has seen, ordered by key, without their runs.
    async fn jobs(&self) -> Result<Checked<Vec<JobView>>, StoreError>;

    /// Appends log lines of an attempt, once per `number`, which grows within the attempt. See
    /// [`leasehold_lease::rules::write`].
    async fn append_log(
        &self,
        run: &RunKey,
        token: &Token,
        number: u64,
        lines: &[LogLine],
    ) -> Result<Stamped<Accepted>, StoreError>;

    /// The log of a run, all its attempts, oldest first, after the entry with sequence number `after` (0: from the
    /// start), at most `limit`.
    async fn read_log(&self, run: &RunKey, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError>;

    /// Deletes what may be forgotten, and answers how many runs that was. See [`leasehold_lease::rules::prune`].
    async fn prune(&self, job: &JobKey, history_size: u32) -> Result<usize, StoreError>;
}

/// What sets one store apart from all others, staging from production.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// 128 random bits as 32 hexadecimal digits, part of every run's name.
    pub id: String,
    /// 256 random bits from which idempotency keys are made. A secret between the hosts and the store.
    pub secret: [u8; 32],
}

impl Identity {
    /// A new one, for a store that is used for the first time.
    pub(crate) fn random() -> Result<Identity, getrandom::Error> {
        let (mut id, mut secret) = ([0; 16], [0; 32]);
        getrandom::fill(&mut id)?;
        getrandom::fill(&mut secret)?;
        Ok(Identity { id: id.iter().map(|byte| format!("{byte:02x}")).collect(), secret })
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Identity({}, ***)", self.id)
    }
}

/// An answer about many jobs, with the store's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked<A> {
    /// The store's clock.
    pub now: Millis,
    /// What was asked for.
    pub answer: A,
}

/// What a host learns when it announces a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnounceAnswer {
    /// Slots before this are not caught up.
    pub since: Millis,
    /// The newest slot that ever started.
    pub newest_started: Option<Slot>,
    /// The newest slot that was skipped.
    pub newest_skipped: Option<Slot>,
}

/// A run as the store knows it, with what its job knows about slots.
///
/// It carries the attempts' tokens, as the record does; `Token` neither prints nor belongs into any output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunView {
    /// Which run.
    pub key: RunKey,
    /// Its record.
    pub run: Run,
    /// The job's newest started slot.
    pub newest_started: Option<Slot>,
    /// The job's newest skipped slot.
    pub newest_skipped: Option<Slot>,
}

/// A job as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobView {
    /// Which job.
    pub key: JobKey,
    /// Bumped by every change.
    pub revision: u64,
    /// The newest slot that ever started.
    pub newest_started: Option<Slot>,
    /// The newest slot that was skipped.
    pub newest_skipped: Option<Slot>,
    /// Where catching up begins.
    pub since: Option<Millis>,
    /// When a host last offered it.
    pub last_offered: Option<Millis>,
    /// Unfinished runs.
    pub unfinished: u64,
    /// The newest run by due time, if any.
    pub last: Option<RunView>,
}

/// Which runs people want to see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryQuery {
    /// Of this job only.
    pub job: Option<JobKey>,
    /// In this status only.
    pub status: Option<Status>,
    /// Due at or after this.
    pub since: Option<Millis>,
    /// At most so many; 0 asks for none.
    pub limit: usize,
}

/// How severe a log line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Finest.
    Trace,
    /// For those who look for a fault.
    Debug,
    /// What happens normally.
    Info,
    /// Worth a look.
    Warn,
    /// Went wrong.
    Error,
}

/// One line that a handler logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// When, by the host's wall clock.
    pub at: Millis,
    /// How severe.
    pub level: LogLevel,
    /// Which part of the handler said it; `stdout` and `stderr` for what it printed.
    pub target: String,
    /// The text, as the guest gave it: escape it where it is shown.
    pub message: String,
    /// Named values.
    pub fields: Vec<(String, String)>,
}

/// A stored log line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// Grows within the run, from 1; hand it back as `after` to read on.
    pub sequence: u64,
    /// Which attempt said it.
    pub attempt: Attempt,
    /// The line.
    pub line: LogLine,
}

/// A store that did not answer. The variant says whether the effect may have happened.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing was sent: the effect has not happened.
    #[error("the store could not be reached while {doing}; nothing was changed")]
    NotSent {
        /// What the call wanted.
        doing: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The effect may or may not have happened: send the same again.
    #[error("the store did not answer while {doing}; it may or may not have been done")]
    Unknown {
        /// What the call wanted.
        doing: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store refused the call itself; sending it again will not help.
    #[error("the store refused {doing}")]
    Rejected {
        /// What the call wanted.
        doing: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
