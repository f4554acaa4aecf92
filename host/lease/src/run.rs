//! What the store keeps: a job, its runs, and each run's attempts.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{Attempt, DemandId, Digest, Fence, RunId, Token};
use crate::order::is_ahead;
use crate::policy::Terms;
use crate::time::{Millis, Slot};
use crate::write::{ENTRY, LastWrite};

/// Attempts kept per run. `not_after` makes copies of older claims harmless.
pub const ATTEMPTS_KEPT: usize = 1_000;

/// How long the id of a pruned on-demand run is remembered, so that a repeated trigger does not run twice.
pub const DEMAND_ID_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a hold that is over is remembered: its slots are not caught up.
pub const HOLD_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// One job as the store knows it.
///
/// A driver may load only the part of `runs` that an operation can touch: the run it names and all unfinished ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Job {
    /// Bumped by every change.
    pub revision: u64,
    /// The newest slot that ever started. Never forgotten, whatever is pruned (S10).
    pub newest_started: Option<Slot>,
    /// The newest slot that was refused because another run was live.
    pub newest_skipped: Option<Slot>,
    /// The fence of the last win.
    pub last_fence: Fence,
    /// When the job was first announced, or its schedule last changed.
    pub since: Option<Millis>,
    /// Identifies the schedule that was announced last.
    pub fingerprint: String,
    /// When a host last offered the job.
    pub last_offered: Option<Millis>,
    /// The largest [`Terms::bound`] of any winning claim.
    pub largest_bound: Duration,
    /// Set while someone holds the job back, and for [`HOLD_KEPT`] after that.
    pub hold: Option<Hold>,
    /// Bytes kept beside its runs: the sum of [`Run::stored`].
    pub stored: u64,
    /// The runs, oldest slot first.
    pub runs: BTreeMap<RunId, Run>,
    /// On-demand runs that were pruned, and when.
    pub gone: BTreeMap<DemandId, Millis>,
}

impl Job {
    /// The live run with the latest due time, `except` aside.
    pub fn newest_live(&self, now: Millis, except: Option<&RunId>) -> Option<&RunId> {
        let live = self.runs.iter().filter(|(id, run)| Some(*id) != except && run.live(now));
        live.max_by_key(|(id, run)| (run.due, *id)).map(|(id, _)| id)
    }
}

/// A job held back: none of its slots starts. What runs goes on, and what is asked for on demand starts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hold {
    /// From when on, by the store's clock; none: an older version recorded it.
    #[serde(default)]
    pub since: Option<Millis>,
    /// By the store's clock, this millisecond excluded; none: until it is let go.
    pub until: Option<Millis>,
    /// Who and why, in words, for people.
    pub note: String,
}

impl Hold {
    /// Whether it is in force. One that ends by itself, or has ended, and that a clock that was ahead has begun, is not.
    pub fn holds(&self, now: Millis) -> bool {
        self.until.is_none_or(|until| !self.is_ahead(now) && now < until)
    }

    /// Whether nobody can ask for a slot of its time any more: it ended long ago, or a clock that was ahead has begun it.
    pub fn is_old(&self, now: Millis) -> bool {
        self.until.is_some_and(|until| self.is_ahead(now) || now > until + HOLD_KEPT)
    }

    fn is_ahead(&self, now: Millis) -> bool {
        self.since.is_some_and(|since| is_ahead(since, now))
    }

    /// Whether the slot was due while it was in force.
    pub fn covers(&self, slot: Slot) -> bool {
        self.since.is_some_and(|since| since <= slot.0) && self.holds(slot.0)
    }
}

/// Where a run stands. "Expired" is never stored: see [`Run::expired`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Asked for and not started yet (on-demand runs only).
    Pending,
    /// Started, and not known to have ended.
    Running,
    /// Ended well. Final.
    Success,
    /// Ended with an error, a trap or a broken limit. Final.
    Failed,
    /// Given up: attempts used up, a newer run started first, closed or cancelled. Final.
    Interrupted,
}

impl Status {
    /// Nothing changes a final status.
    pub fn is_final(self) -> bool {
        matches!(self, Status::Success | Status::Failed | Status::Interrupted)
    }

    /// The word that people and files use.
    pub fn word(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Running => "running",
            Status::Success => "success",
            Status::Failed => "failed",
            Status::Interrupted => "interrupted",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// One job at one slot, or one on-demand run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// See [`Status`].
    pub status: Status,
    /// The slot, or when the on-demand run was asked for.
    pub due: Millis,
    /// The lease of the current attempt lasts until here, this millisecond included. Store's clock.
    pub lease_end: Millis,
    /// The lease was given back, or may no longer be renewed.
    pub released: bool,
    /// Attempts won.
    pub starts: u32,
    /// Attempts handed over, which do not count against the limit.
    pub hand_overs: u32,
    /// The last attempts, oldest first, at most [`ATTEMPTS_KEPT`]. The last one is the current one.
    pub attempts: Vec<AttemptRecord>,
    /// When the run reached its final status.
    pub ended_at: Option<Millis>,
    /// How it ended, from the final status on.
    pub outcome: Option<Outcome>,
    /// The newest progress report.
    pub progress: Option<Progress>,
    /// What an on-demand run was asked to work on.
    pub payload: Option<Vec<u8>>,
    /// Someone asked for it to be cancelled: who and why.
    pub cancelled: Option<String>,
    /// Size of its checkpoint in bytes, while there is one. S15: none once the run is final.
    pub state_size: Option<u64>,
    /// Bytes of its log lines and output, each with [`crate::write::ENTRY`] more.
    pub kept_size: u64,
}

impl Run {
    /// A run that nobody has started.
    pub fn new(due: Millis, payload: Option<Vec<u8>>) -> Run {
        Run {
            status: Status::Pending,
            due,
            lease_end: Millis(0),
            released: false,
            starts: 0,
            hand_overs: 0,
            attempts: Vec::new(),
            ended_at: None,
            outcome: None,
            progress: None,
            payload,
            cancelled: None,
            state_size: None,
            kept_size: 0,
        }
    }

    /// Running, and its runner was alive recently.
    pub fn live(&self, now: Millis) -> bool {
        self.status == Status::Running && !self.released && now <= self.lease_end
    }

    /// Running by its status, and nobody is known to run it: a backup may take it over.
    pub fn expired(&self, now: Millis) -> bool {
        self.status == Status::Running && !self.live(now)
    }

    /// The newest attempt; none while pending.
    pub fn current(&self) -> Option<&AttemptRecord> {
        self.attempts.last()
    }

    /// Number of the newest attempt, 0 while pending.
    pub fn attempt(&self) -> Attempt {
        self.current().map_or(Attempt(0), |a| a.attempt)
    }

    /// Whether `token` is the one of the newest attempt. Only this token may change anything.
    pub fn is_current(&self, token: &Token) -> bool {
        self.current().is_some_and(|a| a.token == *token)
    }

    /// Bytes kept beside the record: checkpoint, log and output.
    pub fn stored(&self) -> u64 {
        self.kept_size + self.state_size.map_or(0, |size| size + ENTRY)
    }

    /// Starts that count against `max_attempts`.
    pub fn attempts_used(&self) -> u32 {
        // S3: 0 <= hand-overs <= starts.
        assert!(self.hand_overs <= self.starts, "more hand-overs than starts");
        self.starts - self.hand_overs
    }
}

/// One start of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    /// Its number.
    pub attempt: Attempt,
    /// Its secret.
    pub token: Token,
    /// Its fence.
    pub fence: Fence,
    /// The name of the host that won it. Shown to people, never used to decide.
    pub runner: String,
    /// The policy it was claimed with.
    pub terms: Terms,
    /// The plugin it was started with.
    pub digest: Option<Digest>,
    /// When it was won. Store's clock.
    pub started_at: Millis,
    /// When and how it ended; none while it may still run.
    pub ended: Option<(Millis, AttemptEnd)>,
    /// The newest write of its effects: checkpoints and the key-value space.
    pub last_write: LastWrite,
    /// The newest write of its log.
    pub last_log: LastWrite,
    /// What it used, from its finish or release on.
    pub usage: Option<Usage>,
}

/// Where a run stands, as far as a backup needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// See [`Run::status`].
    pub status: Status,
    /// See [`Run::due`].
    pub due: Millis,
    /// See [`Run::lease_end`].
    pub lease_end: Millis,
    /// See [`Run::released`].
    pub released: bool,
    /// The newest attempt, 0 while pending.
    pub attempt: Attempt,
    /// The lease of the newest attempt, zero while pending.
    pub lease: Duration,
    /// Why it was given up, once it is interrupted.
    pub reason: Option<String>,
}

impl Standing {
    /// See [`Run::live`].
    pub fn live(&self, now: Millis) -> bool {
        self.status == Status::Running && !self.released && now <= self.lease_end
    }

    /// See [`Run::expired`].
    pub fn expired(&self, now: Millis) -> bool {
        self.status == Status::Running && !self.live(now)
    }
}

impl From<&Run> for Standing {
    fn from(run: &Run) -> Standing {
        let reason = match &run.outcome {
            Some(Outcome::Interrupted { reason }) => Some(reason.clone()),
            _ => None,
        };
        Standing {
            status: run.status,
            due: run.due,
            lease_end: run.lease_end,
            released: run.released,
            attempt: run.attempt(),
            lease: run.current().map_or(Duration::ZERO, |attempt| attempt.terms.lease),
            reason,
        }
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttemptEnd {
    /// The handler returned well.
    Success,
    /// The handler failed.
    Failed,
    /// The next attempt took the run over.
    Lost,
    /// Its host stopped and gave the run back.
    HandedOver,
    /// Its lease ran out and the run was given up.
    Expired,
    /// The run was cancelled.
    Cancelled,
}

impl AttemptEnd {
    /// The word that people and files use.
    pub fn word(self) -> &'static str {
        match self {
            AttemptEnd::Success => "success",
            AttemptEnd::Failed => "failed",
            AttemptEnd::Lost => "lost",
            AttemptEnd::HandedOver => "handed-over",
            AttemptEnd::Expired => "expired",
            AttemptEnd::Cancelled => "cancelled",
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The handler returned this output.
    Success {
        /// The output's bytes, or their beginning.
        output: Vec<u8>,
        /// The output was longer than what is kept.
        cut: bool,
    },
    /// The handler failed.
    Failed(Failure),
    /// The run was given up, for this reason.
    Interrupted {
        /// In words, for people.
        reason: String,
    },
}

impl Outcome {
    /// The status that goes with it.
    pub fn status(&self) -> Status {
        match self {
            Outcome::Success { .. } => Status::Success,
            Outcome::Failed(_) => Status::Failed,
            Outcome::Interrupted { .. } => Status::Interrupted,
        }
    }

    /// How the attempt that it ends has ended.
    pub fn attempt_end(&self) -> AttemptEnd {
        match self {
            Outcome::Success { .. } => AttemptEnd::Success,
            Outcome::Failed(_) => AttemptEnd::Failed,
            Outcome::Interrupted { .. } => AttemptEnd::Cancelled,
        }
    }

    /// Bytes that it counts against the tenant's quota.
    pub fn kept_size(&self) -> u64 {
        match self {
            Outcome::Success { output, .. } if !output.is_empty() => output.len() as u64 + ENTRY,
            _ => 0,
        }
    }
}

/// Why a handler failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// One stable word: `timeout`, `memory`, `trap`, or the handler's own.
    pub code: String,
    /// In words.
    pub message: String,
    /// What else is known: backtrace, the tail of stderr, the handler's details.
    pub details: Vec<(String, String)>,
    /// The handler's hint that another try may help. A failure is final all the same.
    pub retryable: bool,
}

/// How far a run is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Work done, in the handler's own unit.
    pub done: u64,
    /// All the work, where known.
    pub total: Option<u64>,
    /// In words.
    pub message: String,
}

/// What an attempt used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// From start to end, in ms.
    pub wall_ms: u64,
    /// On a processor, in ms.
    pub cpu_ms: u64,
    /// The largest sum of its memories and tables, in bytes.
    pub peak_memory: u64,
    /// Calls into the host.
    pub host_calls: u64,
    /// Bytes of log kept.
    pub log_bytes: u64,
    /// Bytes of its HTTP requests.
    #[serde(default)]
    pub http_sent: u64,
    /// Bytes of the responses to them.
    #[serde(default)]
    pub http_received: u64,
    /// Fuel burnt, where it was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
}
