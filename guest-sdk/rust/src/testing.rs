//! For the unit tests of a handler, on the native target: a run to hand it and a host that does as it is told.
//!
//! The host here is a double that belongs to the calling thread. It goes on until [`stop`] or [`stop_after`] says
//! otherwise, does not really wait in [`Run::sleep`], keeps state and key-values in memory, and remembers the latest progress. What is said through `log` or
//! `tracing` goes wherever the test has sent it.

use crate::host::DOUBLE;
use crate::http::{HttpError, Request, Response};
use crate::{Error, Input, Output, Result, Run, StopReason, payload};

/// The latest report of a handler under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// How much is done, in the handler's own unit.
    pub done: u64,
    /// How much there is, where the handler knows it.
    pub total: Option<u64>,
    /// What it said.
    pub message: String,
}

/// What the host says of a run; by default, that it is the first attempt of the job `test/job` at 2025-01-01T00:00:00Z.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// [`Run::id`].
    pub id: String,
    /// [`Run::tenant`].
    pub tenant: String,
    /// [`Run::job`].
    pub job: String,
    /// [`Run::slot_ms`].
    pub slot_ms: u64,
    /// [`Run::attempt`].
    pub attempt: u32,
    /// [`Run::max_attempts`].
    pub max_attempts: u32,
    /// [`Run::fence`].
    pub fence: u64,
    /// [`Run::reason`].
    pub reason: String,
    /// [`Run::metadata`].
    pub metadata: Vec<(String, String)>,
}

impl Default for Facts {
    fn default() -> Self {
        let slot_ms = 1_735_689_600_000;
        Self {
            id: "test-run".into(),
            tenant: "test".into(),
            job: "job".into(),
            slot_ms,
            attempt: 1,
            max_attempts: 3,
            fence: slot_ms * 1024 + 1,
            reason: "schedule".into(),
            metadata: Vec::new(),
        }
    }
}

/// A run as a host would hand it over, of which it says what is the default. Resets the double.
#[must_use]
pub fn run() -> Run {
    run_with(Facts::default())
}

/// A run of which the host says this. Resets the double.
#[must_use]
pub fn run_with(facts: Facts) -> Run {
    DOUBLE.take();
    let Facts { id, tenant, job, slot_ms, attempt, max_attempts, fence, reason, metadata } = facts;
    Run { id, tenant, job, slot_ms, attempt, max_attempts, fence, reason, metadata }
}

/// The same run as the host hands it to its next attempt, which has taken over: the checkpoint and all else that the double
/// keeps are there, and nothing asks it to stop.
#[must_use]
pub fn next_attempt(run: &Run) -> Run {
    DOUBLE.with_borrow_mut(|double| double.stop = None);
    Run { attempt: run.attempt + 1, fence: run.fence + 1, reason: "takeover".into(), ..run.clone() }
}

/// Calls a handler as the host does, with a payload of bytes.
///
/// # Errors
///
/// The handler's own, `bad-input` and `bad-output`.
pub fn call<I, O, E>(run: &Run, input: &[u8], handler: impl FnOnce(&Run, I) -> Result<O, E>) -> Result<Vec<u8>>
where
    I: Input,
    O: Output,
    E: Into<Error>,
{
    payload::call(run, input.to_vec(), handler)
}

/// From now on the handler must stop.
pub fn stop(reason: StopReason) {
    stop_after(0, reason);
}

/// The handler must stop once it has asked, or waited, `checks` more times.
pub fn stop_after(checks: u32, reason: StopReason) {
    DOUBLE.with_borrow_mut(|double| double.stop = Some((checks, reason)));
}

/// What [`Run::config`] answers for this key from now on.
pub fn set_config(key: &str, value: &str) {
    DOUBLE.with_borrow_mut(|double| double.config.insert(key.to_owned(), value.to_owned()));
}

/// What requests are answered from now on. Without this, every origin is denied.
pub fn answer_requests(answer: impl FnMut(&Request) -> Result<Response, HttpError> + 'static) {
    DOUBLE.with_borrow_mut(|double| double.http = Some(Box::new(answer)));
}

/// What the handler last reported.
#[must_use]
pub fn progress() -> Option<Progress> {
    DOUBLE.with_borrow(|double| double.progress.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(run: &Run, input: Vec<u32>) -> Result<usize> {
        for (done, _) in input.iter().enumerate() {
            run.ensure_continue()?;
            run.progress(done as u64 + 1, Some(input.len() as u64), "copied");
        }
        Ok(input.len())
    }

    #[test]
    fn a_handler_is_stopped_where_the_test_wants_it() {
        let run = run();
        stop_after(2, StopReason::Stopping);
        let error = call(&run, b"[1, 2, 3]", copy).unwrap_err();
        assert_eq!(error, Error::cancelled());
        let expected = Progress { done: 2, total: Some(3), message: "copied".into() };
        assert_eq!(progress(), Some(expected));
    }

    #[test]
    fn the_next_attempt_finds_what_the_one_before_has_saved() {
        let first = run_with(Facts { metadata: vec![("trace".into(), "7".into())], ..Facts::default() });
        first.save_state(&3).unwrap();
        stop(StopReason::Stopping);
        let next = next_attempt(&first);
        assert!(next.should_continue() && next.fence() > first.fence());
        assert_eq!((next.id(), next.attempt(), next.reason()), (first.id(), 2, "takeover"));
        assert_eq!(next.metadata(), [("trace".to_owned(), "7".to_owned())]);
        assert_eq!(next.load_state().unwrap(), Some(3));
    }

    #[test]
    fn a_new_run_starts_from_scratch() {
        stop(StopReason::Lost);
        assert_eq!(call(&run(), b"[1]", copy).unwrap(), b"1");
    }
}
