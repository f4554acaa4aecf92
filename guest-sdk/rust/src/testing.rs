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

/// A run as a host would hand it over: the first attempt of the job `test/job` at 2025-01-01T00:00:00Z. Resets the
/// double.
#[must_use]
pub fn run() -> Run {
    DOUBLE.take();
    let slot_ms = 1_735_689_600_000;
    Run {
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
    fn a_new_run_starts_from_scratch() {
        stop(StopReason::Lost);
        assert_eq!(call(&run(), b"[1]", copy).unwrap(), b"1");
    }
}
