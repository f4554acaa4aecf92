//! What an attempt is started with.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::effects::Effects;
use crate::limits::Limits;
use crate::log::{LogLevel, LogSink};

/// What the guest is told about its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFacts {
    /// Names the run across all its attempts, unique among all stores and namespaces.
    pub run_id: String,
    /// Whose job it is.
    pub tenant: String,
    /// The job's name within its tenant.
    pub job: String,
    /// When the run was due, in milliseconds since the Unix epoch, UTC.
    pub slot_ms: u64,
    /// 1 for the first start.
    pub attempt: u32,
    /// How many attempts the job's policy allows.
    pub max_attempts: u32,
    /// Grows strictly from win to win of the job.
    pub fence: u64,
    /// "schedule", "catch-up", "takeover" or "on-demand".
    pub reason: String,
    /// Further facts, as pairs.
    pub metadata: Vec<(String, String)>,
}

/// Everything one attempt is started with.
pub struct Invocation {
    /// What the guest is told about its run.
    pub run: RunFacts,
    /// The payload.
    pub input: Vec<u8>,
    /// What the attempt may use.
    pub limits: Limits,
    /// Bytes that the attempts of this tenant may hold together, on this host; none is a quarter of the host's
    /// [memory](crate::SandboxSettings::memory).
    pub tenant_memory: Option<usize>,
    /// Where log lines go.
    pub logs: Arc<dyn LogSink>,
    /// The least severe level that is kept; the guest is told, and lines below it are not counted.
    pub log_level: LogLevel,
    /// The key under which idempotency keys are made from the run's id and the operation's name. The same for all hosts that
    /// may execute attempts of the run, and secret, so that one tenant cannot compute another's keys.
    pub idempotency_secret: [u8; 32],
    /// What the attempt may do to the world outside.
    pub effects: Effects,
}

impl fmt::Debug for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither the payload nor the secret belongs into a log.
        f.debug_struct("Invocation")
            .field("run", &self.run)
            .field("input_bytes", &self.input.len())
            .field("limits", &self.limits)
            .field("log_level", &self.log_level)
            .field("effects", &self.effects)
            .finish_non_exhaustive()
    }
}

/// The time since some fixed instant, from a clock that only goes forward. The caller owns the clock.
pub type MonotonicClock = Arc<dyn Fn() -> Duration + Send + Sync>;
