//! The real host, over the bindings of the world `job`.

use std::time::Duration;

use crate::http::{HttpError, Request, Response};
use crate::{Error, ErrorKind, Run, StopReason, StorageError};

use bindings::leasehold::job::types::{ErrorInfo, HandlerError, RunInfo};
use bindings::leasehold::job::{config as host_config, http as host_http, kv, state};
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

pub(crate) fn load_state() -> Result<Option<Vec<u8>>, StorageError> {
    Ok(state::load()?)
}

pub(crate) fn save_state(data: &[u8]) -> Result<(), StorageError> {
    Ok(state::save(data)?)
}

pub(crate) fn kv_get(key: &str) -> Result<Option<Vec<u8>>, StorageError> {
    Ok(kv::get(key)?)
}

pub(crate) fn kv_set(key: &str, value: &[u8]) -> Result<(), StorageError> {
    Ok(kv::set(key, value)?)
}

pub(crate) fn kv_delete(key: &str) -> Result<bool, StorageError> {
    Ok(kv::delete(key)?)
}

pub(crate) fn kv_list(prefix: &str, after: Option<&str>, limit: u32) -> Result<Vec<String>, StorageError> {
    Ok(kv::list_keys(prefix, after, limit)?)
}

pub(crate) fn kv_compare_and_set(key: &str, expected: Option<&[u8]>, value: &[u8]) -> Result<bool, StorageError> {
    Ok(kv::compare_and_set(key, expected, value)?)
}

pub(crate) fn config(key: &str) -> Option<String> {
    host_config::get(key)
}

pub(crate) fn send(request: Request) -> Result<Response, HttpError> {
    let Request { method, url, headers, body, timeout } = request;
    let timeout_ms = timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
    let sent = host_http::send(&host_http::Request { method, url, headers, body, timeout_ms });
    let host_http::Response { status, headers, body } = sent?;
    Ok(Response { status, headers, body })
}

impl From<state::StateError> for StorageError {
    fn from(error: state::StateError) -> Self {
        match error {
            state::StateError::Lost => Self::Lost,
            state::StateError::TooLarge(limit) => Self::TooLarge(limit),
            state::StateError::Unavailable(why) => Self::Unavailable(why),
            state::StateError::Other(why) => Self::Other(why),
        }
    }
}

impl From<kv::KvError> for StorageError {
    fn from(error: kv::KvError) -> Self {
        match error {
            kv::KvError::Lost => Self::Lost,
            kv::KvError::TooLarge(limit) => Self::TooLarge(limit),
            kv::KvError::OverQuota(limit) => Self::OverQuota(limit),
            kv::KvError::Unavailable(why) => Self::Unavailable(why),
            kv::KvError::Other(why) => Self::Other(why),
        }
    }
}

impl From<host_http::HttpError> for HttpError {
    fn from(error: host_http::HttpError) -> Self {
        match error {
            host_http::HttpError::Lost => Self::Lost,
            host_http::HttpError::Uncertain => Self::Uncertain,
            host_http::HttpError::Denied(why) => Self::Denied(why),
            host_http::HttpError::Invalid(why) => Self::Invalid(why),
            host_http::HttpError::Unreachable(why) => Self::Unreachable(why),
            host_http::HttpError::Timeout => Self::Timeout,
            host_http::HttpError::TooLarge(limit) => Self::TooLarge(limit),
            host_http::HttpError::Other(why) => Self::Other(why),
        }
    }
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
        let answer = payload::call(&Run::from(run), input, handler).map_err(HandlerError::from);
        // The last line may have no end yet. Where nothing is printed to, there is nothing to do about it.
        let _ = std::io::Write::flush(&mut std::io::stdout());
        answer
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
