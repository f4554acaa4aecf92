//! The operations of the store and their answers. A refusal is an answer, not an error.

use std::time::Duration;

use crate::id::{Attempt, DemandId, Digest, Fence, RunId, Token};
use crate::policy::Terms;
use crate::run::{Hold, Outcome, Progress, Standing, Status, Usage};
use crate::time::{Millis, Slot};
use crate::write::{Around, Write, Written};

/// An answer with the store's clock and the job's revision when it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamped<A> {
    /// The store's clock.
    pub now: Millis,
    /// The job's revision after the operation.
    pub revision: u64,
    /// What the store decided.
    pub answer: A,
}

/// Why a host wants to start a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClaimKind {
    /// Its slot is due.
    Slot,
    /// Its slot was missed; `age` is how long ago it was due when the claim was first sent.
    CatchUp {
        /// Whole milliseconds.
        age: Duration,
    },
    /// Its runner died or handed over.
    Takeover,
    /// Someone asked for it.
    OnDemand,
}

impl ClaimKind {
    /// The word that people and records use.
    pub fn word(self) -> &'static str {
        match self {
            ClaimKind::Slot => "slot",
            ClaimKind::CatchUp { .. } => "catch-up",
            ClaimKind::Takeover => "takeover",
            ClaimKind::OnDemand => "on-demand",
        }
    }

    /// The first claim of a scheduled run: its slot is due now, or was while no host was up.
    pub fn is_of_slot(self) -> bool {
        matches!(self, ClaimKind::Slot | ClaimKind::CatchUp { .. })
    }

    /// How late such a claim may be, besides [`crate::policy::CLOCK_GRACE`]; none for claims that are never late.
    pub fn bound(self, terms: &Terms) -> Option<Duration> {
        match self {
            ClaimKind::Slot => Some(terms.max_late),
            ClaimKind::CatchUp { age } => Some(terms.catch_up.min(age.saturating_add(terms.max_late))),
            ClaimKind::Takeover | ClaimKind::OnDemand => None,
        }
    }
}

/// A request to start a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Which run.
    pub run: RunId,
    /// Why.
    pub kind: ClaimKind,
    /// New for every attempt, the same in every copy of this claim.
    pub token: Token,
    /// Who asks; shown to people.
    pub runner: String,
    /// The plugin it would start.
    pub digest: Option<Digest>,
    /// The claimer's policy.
    pub terms: Terms,
    /// The store time at which the claimer stops waiting for this copy. Past it nothing is won.
    pub not_after: Millis,
}

/// What a claim is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimAnswer {
    /// The claimer has the run.
    Won {
        /// The attempt it starts.
        attempt: Attempt,
        /// Its fence.
        fence: Fence,
        /// What an on-demand run works on.
        payload: Option<Vec<u8>>,
    },
    /// The run is in its final status.
    Ended(Status),
    /// Another attempt is live.
    Running {
        /// Its number.
        attempt: Attempt,
        /// Until when its runner counts as alive.
        lease_end: Millis,
    },
    /// Another run of the job is live and the claimer's policy is to skip.
    Overlap {
        /// The newest live run.
        with: RunId,
    },
    /// The token belongs to an attempt that is over.
    Stale,
    /// No such run, and this kind of claim creates none.
    None {
        /// The job's newest started slot.
        newest_started: Option<Slot>,
    },
    /// The slot is too long ago.
    Late,
    /// The slot is still ahead by the store's clock.
    Early,
    /// A newer slot has started, or the slot lies before what may be caught up.
    Superseded {
        /// The job's newest started slot.
        newest_started: Option<Slot>,
    },
    /// Someone holds the job back: its slots are skipped.
    Held {
        /// Until when; none: until it is let go.
        until: Option<Millis>,
    },
    /// The copy arrived after its `not_after`.
    Old,
}

impl ClaimAnswer {
    /// The word that people and records use.
    pub fn word(&self) -> &'static str {
        match self {
            ClaimAnswer::Won { .. } => "won",
            ClaimAnswer::Ended(_) => "ended",
            ClaimAnswer::Running { .. } => "running",
            ClaimAnswer::Overlap { .. } => "overlap",
            ClaimAnswer::Stale => "stale",
            ClaimAnswer::None { .. } => "none",
            ClaimAnswer::Late => "late",
            ClaimAnswer::Early => "early",
            ClaimAnswer::Superseded { .. } => "superseded",
            ClaimAnswer::Held { .. } => "held",
            ClaimAnswer::Old => "old",
        }
    }
}

/// A sign of life of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// Which run.
    pub run: RunId,
    /// The attempt's token.
    pub token: Token,
    /// The newest progress report, when there is a new one.
    pub progress: Option<Progress>,
}

/// What a heartbeat is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeartbeatAnswer {
    /// The lease is renewed.
    Renewed {
        /// Its new end.
        lease_end: Millis,
        /// Someone asked for the run to be cancelled: the handler is told, and the run ends as interrupted.
        cancelled: bool,
    },
    /// The attempt has lost the run.
    Refused,
}

/// The end of an attempt whose handler returned or failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finish {
    /// Which run.
    pub run: RunId,
    /// The attempt's token.
    pub token: Token,
    /// How it ended.
    pub outcome: Outcome,
    /// What it used.
    pub usage: Usage,
}

/// A hand-over: the lease ends at once and the attempt is not counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Which run.
    pub run: RunId,
    /// The attempt's token.
    pub token: Token,
    /// What it used.
    pub usage: Usage,
}

/// Whether a finish or a release was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// It was, now or when it was sent the first time.
    Done,
    /// The attempt has lost the run: nothing changed.
    Refused,
}

/// What a driver is to do about a write, and what it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteAnswer {
    /// What the sender is told.
    pub written: Written,
    /// Carry the change out, in this transaction.
    pub carry_out: bool,
}

/// A host offers a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announce {
    /// Identifies schedule and zone.
    pub fingerprint: String,
}

/// A request for an on-demand run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trigger {
    /// The caller's id for it.
    pub id: DemandId,
    /// What to work on.
    pub payload: Option<Vec<u8>>,
    /// See [`crate::policy::Policy::pending_max`].
    pub pending_max: u32,
}

/// What a trigger is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TriggerAnswer {
    /// The run is stored.
    Stored,
    /// A run of this id exists, in this status.
    Exists(Status),
    /// A run of this id ended and was pruned.
    Ended,
    /// Too many are waiting.
    Full,
}

/// A wish that a run should not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancel {
    /// Which run.
    pub run: RunId,
    /// Who asks and why, in words, for people.
    pub reason: String,
}

/// What a cancel is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelAnswer {
    /// Nobody executed it: it is interrupted.
    Interrupted,
    /// Its runner is told with its next heartbeat.
    Told,
    /// It had ended already, with this status.
    Ended(Status),
    /// No such run.
    None,
}

/// How often hosts announce that they offer a job, whatever its lease: others, who do not know it, tell by that whether
/// somebody still does. A job with a short lease is not announced more often: each time costs the store a write.
pub const ANNOUNCE_EVERY: Duration = Duration::from_secs(30);

/// After how long without an announcement no host offers a job of this lease any more: two leases, and at least twice
/// [`ANNOUNCE_EVERY`].
pub fn unoffered_after(lease: Duration) -> Duration {
    lease.max(ANNOUNCE_EVERY) * 2
}

/// Gives up a run of a job that no host offers any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Close {
    /// Which run.
    pub run: RunId,
    /// For how long no host may have offered the job: see [`unoffered_after`].
    pub unoffered_for: Duration,
    /// In words, for people.
    pub reason: String,
}

impl Close {
    /// What a host asks of a run that its poll found, of a job that it does not offer: none where somebody executes the
    /// run or it has ended. `lease` is that of the tenant's jobs by this host's own configuration: a run that waits has
    /// none yet, and hosts may have another by now than the run was started with.
    pub fn of_orphan(run: &RunId, found: &Standing, lease: Duration, store_now: Millis) -> Option<Close> {
        if found.status.is_final() || found.live(store_now) {
            return None;
        }
        let unoffered_for = unoffered_after(found.lease.max(lease));
        let reason = format!("no host has offered its job for {} s", unoffered_for.as_secs());
        Some(Close { run: run.clone(), unoffered_for, reason })
    }
}

/// What a close is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseAnswer {
    /// The run is interrupted.
    Closed,
    /// A host executes it.
    Live,
    /// A host offered the job not long enough ago.
    Offered,
    /// It had ended already, with this status.
    Ended(Status),
    /// No such run.
    None,
}

/// Frees a job whose newest started slot lies in the store's future.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unblock {
    /// The newest slot of its schedule that is due; for a job without one, the present.
    pub newest_due: Slot,
}

/// What an unblock is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnblockAnswer {
    /// The job's slots can start again.
    Unblocked,
    /// Nothing stood in their way.
    NotBlocked,
    /// A run of a future slot is live: nothing changed.
    Live {
        /// Which one.
        run: RunId,
    },
}

/// Any operation on one job, for those who record and replay them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// See [`Claim`].
    Claim(Claim),
    /// See [`Heartbeat`].
    Heartbeat(Heartbeat),
    /// See [`Finish`].
    Finish(Finish),
    /// See [`Release`].
    Release(Release),
    /// See [`Write`].
    Write {
        /// The write.
        write: Write,
        /// What it found.
        around: Around,
    },
    /// See [`Announce`].
    Announce(Announce),
    /// See [`Trigger`].
    Trigger(Trigger),
    /// See [`Cancel`].
    Cancel(Cancel),
    /// See [`Close`].
    Close(Close),
    /// See [`Unblock`].
    Unblock(Unblock),
    /// Holds the job back, or lets it go.
    Hold(Option<Hold>),
    /// Deletes what may be forgotten.
    Prune {
        /// Final runs to keep.
        history_size: u32,
    },
}

/// The answer to an [`Op`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// To a claim.
    Claim(ClaimAnswer),
    /// To a heartbeat.
    Heartbeat(HeartbeatAnswer),
    /// To a finish or release.
    Accepted(Accepted),
    /// To a write.
    Write(WriteAnswer),
    /// To a trigger.
    Trigger(TriggerAnswer),
    /// To an announcement.
    Announced {
        /// Where catching up begins.
        since: Millis,
        /// See [`crate::run::Job::newest_started`].
        newest_started: Option<Slot>,
        /// See [`crate::run::Job::newest_skipped`].
        newest_skipped: Option<Slot>,
        /// See [`crate::run::Job::hold`].
        hold: Option<Hold>,
    },
    /// To a cancel.
    Cancel(CancelAnswer),
    /// To a close.
    Close(CloseAnswer),
    /// To an unblock.
    Unblock(UnblockAnswer),
    /// To a hold.
    Hold,
    /// To a prune: the runs that were deleted.
    Pruned(Vec<RunId>),
}
