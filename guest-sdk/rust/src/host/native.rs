//! A double of the host for unit tests on the native target; `testing` is its control panel.
//!
//! Its state belongs to a thread, as each test has one of its own.

use std::cell::RefCell;
use std::time::Duration;

use crate::StopReason;
use crate::testing::Progress;

#[derive(Default)]
pub(crate) struct Double {
    /// How many more times `should-continue` is true, and what it turns into.
    pub(crate) stop: Option<(u32, StopReason)>,
    pub(crate) progress: Option<Progress>,
}

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

/// What `handler!` expands to refers to.
pub mod __private {
    use crate::{Error, Input, Output, Result, Run};

    /// Compiles for functions that can be handlers, and does nothing.
    pub fn check_shape<I: Input, O: Output, E: Into<Error>>(_: impl FnOnce(&Run, I) -> Result<O, E>) {}
}
