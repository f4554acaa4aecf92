//! What a store shows and is told, besides the operations of the rules.

use std::time::Duration;

use leasehold_lease::id::{Attempt, JobKey, RunKey, hex};
use leasehold_lease::log::LogLine;
use leasehold_lease::op::Stamped;
use leasehold_lease::order::is_ahead;
use leasehold_lease::run::{Hold, Outcome, Run, Standing, Status};
use leasehold_lease::time::{Millis, Slot};

use crate::error::StoreError;

/// How long a driver may work on one call, at most.
pub const CALL_LIMIT: Duration = Duration::from_secs(2);

/// Answers kept per job for people who ask why.
pub const ANSWERS_KEPT: usize = 1_000;

/// How long the record of a host that is not heard of is kept.
pub const HOST_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// The answer for one item of a batch, or why this one could not be answered.
pub type Each<A> = Result<Stamped<A>, StoreError>;

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
        Ok(Identity { id: hex(&id), secret })
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
    /// Set while someone holds the job back, and for a day after that: see [`Hold::holds`].
    pub hold: Option<Hold>,
}

/// Where a run stands, with what its job knows about slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunStanding {
    /// Which run.
    pub key: RunKey,
    /// Where it stands; none where the store knows no such run.
    pub standing: Option<Standing>,
    /// The job's newest started slot.
    pub newest_started: Option<Slot>,
    /// The job's newest skipped slot.
    pub newest_skipped: Option<Slot>,
}

/// A run as the store knows it, with all that is kept of it.
///
/// It carries the attempts' tokens, as the record does; `Token` neither prints nor belongs into any output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunView {
    /// Which run.
    pub key: RunKey,
    /// Its record.
    pub run: Run,
}

impl RunView {
    /// As [`JobView::last`] shows it.
    pub(crate) fn brief(mut self) -> RunView {
        self.run.payload = None;
        self.run.attempts.drain(..self.run.attempts.len().saturating_sub(1));
        if let Some(Outcome::Success { output, cut }) = &mut self.run.outcome {
            (*output, *cut) = (Vec::new(), true);
        }
        self
    }
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
    /// Identifies the schedule that was announced last.
    pub fingerprint: String,
    /// When a host last offered it.
    pub last_offered: Option<Millis>,
    /// Set while someone holds the job back, and for a day after that: see [`Hold::holds`].
    pub hold: Option<Hold>,
    /// Bytes kept beside its runs.
    pub stored: u64,
    /// Unfinished runs.
    pub unfinished: u64,
    /// The newest run, if any ([`newest_first`](leasehold_lease::order::newest_first)), without what may be large: its
    /// payload, its output (which reads as cut) and its older attempts.
    pub last: Option<RunView>,
}

impl JobView {
    /// A newest started slot in the store's future blocks a job until then: every slot before it is superseded.
    pub fn blocked_until(&self, now: Millis) -> Option<Slot> {
        self.newest_started.filter(|slot| is_ahead(slot.0, now))
    }
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
    /// At most this many; 0 asks for none.
    pub limit: usize,
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

/// What a host was told when it asked about a run, kept for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostAnswer {
    /// Which run.
    pub run: RunKey,
    /// The host's name.
    pub host: String,
    /// The store's clock when it answered.
    pub at: Millis,
    /// What the host asked for, in a word: "slot", "catch-up", "takeover", "on-demand".
    pub asked: String,
    /// The answer, in a word: "won", "overlap", "late".
    pub answer: String,
    /// More, in words.
    pub detail: String,
}

/// What a host says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostReport {
    /// This process among all: random, new at each start.
    pub instance: String,
    /// Its name, shown to people.
    pub name: String,
    /// The version of Leasehold it runs.
    pub version: String,
    /// Its wall clock minus the store's, in milliseconds.
    pub clock_offset_ms: i64,
    /// More for people, as JSON. It is said every few seconds, so it is short.
    pub details: String,
}

/// What was asked of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostOrders {
    /// It takes nothing new.
    pub drain: bool,
}

/// A host as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRecord {
    /// What it said last.
    pub report: HostReport,
    /// When it was heard of first, by the store's clock.
    pub first_seen: Millis,
    /// When it was heard of last, by the store's clock.
    pub last_seen: Millis,
    /// What was asked of it.
    pub orders: HostOrders,
}
