//! The run a handler works for.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::{Error, Result, host};

/// The run that this handler was started for, and the host's signal.
#[derive(Clone, Debug)]
pub struct Run {
    pub(crate) id: String,
    pub(crate) tenant: String,
    pub(crate) job: String,
    pub(crate) slot_ms: u64,
    pub(crate) attempt: u32,
    pub(crate) max_attempts: u32,
    pub(crate) fence: u64,
    pub(crate) reason: String,
    pub(crate) metadata: Vec<(String, String)>,
}

/// Why the handler must stop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The lease is lost: another host may be running this already. Do nothing more that has an effect.
    Lost,
    /// The host is ending and hands the run over.
    Stopping,
    /// Somebody cancelled the run.
    Cancelled,
    /// The run's time is nearly up.
    Deadline,
    /// A word that a newer host uses.
    Other(String),
}

impl Run {
    /// Names the run across all its attempts, unique among all stores and namespaces.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The tenant whose job this is.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The job's name within its tenant.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// The slot: when the run was due, to the millisecond. For an on-demand run, when it was asked for.
    pub fn slot(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.slot_ms)
    }

    /// The slot in milliseconds since the Unix epoch, UTC.
    pub fn slot_ms(&self) -> u64 {
        self.slot_ms
    }

    /// 1 for the first start; each takeover adds one.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// How many attempts the job's policy allows.
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// Grows strictly from win to win of a job. Hand it to systems that can refuse the older of two writers.
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// Why it was started: `schedule`, `catch-up`, `takeover` or `on-demand`; more words may come.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// What else the host says about the run.
    pub fn metadata(&self) -> &[(String, String)] {
        &self.metadata
    }

    /// False once the lease is lost, the host is stopping, the run was cancelled or its time is up. Costs nanoseconds.
    #[must_use]
    pub fn should_continue(&self) -> bool {
        host::should_continue()
    }

    /// For `?` before every side effect and in every long loop.
    ///
    /// # Errors
    ///
    /// [`Error::cancelled`] once [`Run::should_continue`] is false.
    pub fn ensure_continue(&self) -> Result<()> {
        if self.should_continue() { Ok(()) } else { Err(Error::cancelled()) }
    }

    /// Why [`Run::should_continue`] is false; `None` while it is true.
    #[must_use]
    pub fn stop_reason(&self) -> Option<StopReason> {
        host::stop_reason()
    }

    /// How long until the host interrupts this attempt by force, where that is known.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        host::remaining()
    }

    /// Waits, to the millisecond (rounded up).
    ///
    /// # Errors
    ///
    /// [`Error::cancelled`], at once, when the attempt must stop before the time is over.
    pub fn sleep(&self, time: Duration) -> Result<()> {
        if host::sleep(whole_millis(time)) { Ok(()) } else { Err(Error::cancelled()) }
    }

    /// A key for one named operation of this run (`charge-42`), the same in every attempt. Put it on requests whose
    /// receiver knows idempotency keys.
    #[must_use]
    pub fn idempotency_key(&self, operation: &str) -> String {
        host::idempotency_key(operation)
    }

    /// Says how far the run is. The newest report wins; `total` is `None` where nobody knows it.
    pub fn progress(&self, done: u64, total: Option<u64>, message: &str) {
        host::progress(done, total, message);
    }
}

impl StopReason {
    /// The host's word for it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Lost => "lost",
            Self::Stopping => "stopping",
            Self::Cancelled => "cancelled",
            Self::Deadline => "deadline",
            Self::Other(word) => word,
        }
    }
}

impl From<String> for StopReason {
    fn from(word: String) -> Self {
        match word.as_str() {
            "lost" => Self::Lost,
            "stopping" => Self::Stopping,
            "cancelled" => Self::Cancelled,
            "deadline" => Self::Deadline,
            _ => Self::Other(word),
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Rounded up, so that nobody waits for less than was asked.
fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, testing};

    #[test]
    fn a_stopped_run_refuses_to_go_on_and_says_why() {
        let run = testing::run();
        assert_eq!((run.should_continue(), run.stop_reason()), (true, None));
        run.ensure_continue().unwrap();

        testing::stop(StopReason::Lost);
        assert_eq!((run.should_continue(), run.stop_reason()), (false, Some(StopReason::Lost)));
        assert_eq!(run.ensure_continue().unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!(run.sleep(Duration::from_secs(3600)).unwrap_err().kind(), ErrorKind::Cancelled);
    }

    #[test]
    fn every_word_for_stopping_survives_the_way_there_and_back() {
        for word in ["lost", "stopping", "cancelled", "deadline", "a-word-of-next-year"] {
            assert_eq!(StopReason::from(word.to_string()).to_string(), word);
        }
        assert_eq!(StopReason::from("deadline".to_string()), StopReason::Deadline);
    }

    #[test]
    fn a_wait_is_never_shorter_than_asked() {
        assert_eq!(whole_millis(Duration::ZERO), 0);
        assert_eq!(whole_millis(Duration::from_nanos(1)), 1);
        assert_eq!(whole_millis(Duration::from_millis(20)), 20);
        assert_eq!(whole_millis(Duration::MAX), u64::MAX);
    }

    #[test]
    fn the_slot_is_a_point_in_time() {
        let run = testing::run();
        let since = run.slot().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(since, Duration::from_millis(run.slot_ms()));
    }
}
