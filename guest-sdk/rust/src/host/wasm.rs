//! The real host, over the bindings of the world `job`.

use std::time::Duration;

use crate::{Error, ErrorKind, Run, StopReason};

use bindings::leasehold::job::types::{ErrorInfo, HandlerError, RunInfo};
use bindings::leasehold::job::{control, progress as host_progress};

pub(crate) use bindings::leasehold::job::log;

/// Generated from the contract; `wit` is a link to the folder at the top of the repository.
#[allow(missing_docs, unreachable_pub, unsafe_code, clippy::all)]
mod bindings {
    wit_bindgen::generate!({
        path: "wit",
        world: "job",
        pub_export_macro: true,
        export_macro_name: "export",
    });
}

pub(crate) fn should_continue() -> bool {
    control::should_continue()
}

pub(crate) fn stop_reason() -> Option<StopReason> {
    control::stop_reason().map(StopReason::from)
}

pub(crate) fn remaining() -> Option<Duration> {
    control::remaining_ms().map(Duration::from_millis)
}

pub(crate) fn sleep(ms: u64) -> bool {
    control::sleep(ms)
}

pub(crate) fn idempotency_key(operation: &str) -> String {
    control::idempotency_key(operation)
}

pub(crate) fn progress(done: u64, total: Option<u64>, message: &str) {
    host_progress::update(done, total, message);
}

/// What `handler!` expands to refers to.
pub mod __private {
    pub use super::bindings::export;
    pub use super::bindings::exports;
    pub use super::bindings::exports::leasehold::job::handler::Guest;
    pub use super::bindings::leasehold::job::types::{HandlerError, RunInfo};

    use crate::{Error, Input, Output, Result, Run, logging, payload};

    /// One run, from the host's call to the host's answer.
    ///
    /// # Errors
    ///
    /// The handler's own, and those of reading its input and writing its output.
    pub fn handle<I, O, E>(
        run: RunInfo,
        input: Vec<u8>,
        handler: impl FnOnce(&Run, I) -> Result<O, E>,
    ) -> Result<Vec<u8>, HandlerError>
    where
        I: Input,
        O: Output,
        E: Into<Error>,
    {
        logging::start();
        payload::call(&Run::from(run), input, handler).map_err(HandlerError::from)
    }
}

impl From<RunInfo> for Run {
    fn from(run: RunInfo) -> Self {
        Self {
            id: run.run_id,
            tenant: run.tenant,
            job: run.job,
            slot_ms: run.slot_ms,
            attempt: run.attempt,
            max_attempts: run.max_attempts,
            fence: run.fence,
            reason: run.reason,
            metadata: run.metadata,
        }
    }
}

impl From<Error> for HandlerError {
    fn from(error: Error) -> Self {
        let (kind, code, message, details) = error.into_parts();
        let info = ErrorInfo { code, message, details };
        match kind {
            ErrorKind::Retryable => Self::Retryable(info),
            ErrorKind::Permanent => Self::Permanent(info),
            ErrorKind::Cancelled => Self::Cancelled,
        }
    }
}
