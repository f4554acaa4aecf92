//! A double of the host for unit tests on the native target; `testing` is its control panel.
//!
//! Its state belongs to a thread, as each test has one of its own.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

mod limits;

use crate::http::{HttpError, Request, Response};
use crate::testing::Progress;
use crate::{StopReason, StorageError};

#[derive(Default)]
pub(crate) struct Double {
    /// How many more times `should-continue` is true, and what it turns into.
    pub(crate) stop: Option<(u32, StopReason)>,
    pub(crate) progress: Option<Progress>,
    pub(crate) config: BTreeMap<String, String>,
    pub(crate) http: Option<Answers>,
    state: Option<Vec<u8>>,
    kv: BTreeMap<String, Vec<u8>>,
}

type Answers = Box<dyn FnMut(&Request) -> Result<Response, HttpError>>;

thread_local! {
    pub(crate) static DOUBLE: RefCell<Double> = RefCell::default();
}

pub(crate) fn should_continue() -> bool {
    DOUBLE.with_borrow_mut(|double| match &mut double.stop {
        None => true,
        Some((0, _)) => false,
        Some((left, _)) => {
            *left -= 1;
            true
        }
    })
}

pub(crate) fn stop_reason() -> Option<StopReason> {
    DOUBLE.with_borrow(|double| match &double.stop {
        Some((0, reason)) => Some(reason.clone()),
        _ => None,
    })
}

pub(crate) fn remaining() -> Option<Duration> {
    None
}

pub(crate) fn sleep(_ms: u64) -> bool {
    should_continue()
}

pub(crate) fn idempotency_key(operation: &str) -> String {
    format!("test:{operation}")
}

pub(crate) fn progress(done: u64, total: Option<u64>, message: &str) {
    let progress = Progress { done, total, message: message.to_owned() };
    DOUBLE.with_borrow_mut(|double| double.progress = Some(progress));
}

pub(crate) fn load_state() -> Result<Option<Vec<u8>>, StorageError> {
    Ok(DOUBLE.with_borrow(|double| double.state.clone()))
}

pub(crate) fn save_state(data: &[u8]) -> Result<(), StorageError> {
    limits::value(data)?;
    DOUBLE.with_borrow_mut(|double| double.state = Some(data.to_vec()));
    Ok(())
}

pub(crate) fn kv_get(key: &str) -> Result<Option<Vec<u8>>, StorageError> {
    limits::key(key)?;
    Ok(DOUBLE.with_borrow(|double| double.kv.get(key).cloned()))
}

pub(crate) fn kv_set(key: &str, value: &[u8]) -> Result<(), StorageError> {
    limits::key(key)?;
    limits::value(value)?;
    DOUBLE.with_borrow_mut(|double| double.kv.insert(key.to_owned(), value.to_vec()));
    Ok(())
}

pub(crate) fn kv_delete(key: &str) -> Result<bool, StorageError> {
    limits::key(key)?;
    Ok(DOUBLE.with_borrow_mut(|double| double.kv.remove(key)).is_some())
}

pub(crate) fn kv_list(prefix: &str, after: Option<&str>, limit: u32) -> Result<Vec<String>, StorageError> {
    limits::key(prefix)?;
    limits::key(after.unwrap_or_default())?;
    let limit = limits::listed(limit);
    let fits = |key: &&String| key.starts_with(prefix) && after.is_none_or(|after| key.as_str() > after);
    Ok(DOUBLE.with_borrow(|double| double.kv.keys().filter(fits).take(limit).cloned().collect()))
}

pub(crate) fn kv_compare_and_set(key: &str, expected: Option<&[u8]>, value: &[u8]) -> Result<bool, StorageError> {
    limits::value(value)?;
    if kv_get(key)?.as_deref() != expected {
        return Ok(false);
    }
    kv_set(key, value).map(|()| true)
}

pub(crate) fn config(key: &str) -> Option<String> {
    DOUBLE.with_borrow(|double| double.config.get(key).cloned())
}

pub(crate) fn send(request: Request) -> Result<Response, HttpError> {
    limits::url(&request.url)?;
    // Taken out meanwhile, so that the answer may use the double.
    let Some(mut answer) = DOUBLE.with_borrow_mut(|double| double.http.take()) else {
        return Err(HttpError::Denied(format!("{} is not granted", request.url)));
    };
    let answered = limits::request(&request).and_then(|()| answer(&request));
    DOUBLE.with_borrow_mut(|double| double.http = double.http.take().or(Some(answer)));
    answered
}

/// What `handler!` expands to refers to.
pub mod __private {
    use crate::{Error, Input, Output, Result, Run};

    /// Compiles for functions that can be handlers, and does nothing.
    pub fn check_shape<I: Input, O: Output, E: Into<Error>>(_: impl FnOnce(&Run, I) -> Result<O, E>) {}
}
