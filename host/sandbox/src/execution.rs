//! One running attempt as its owner sees it, and what is made of its guest's end.

use std::any::Any;
use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::panic::{self, AssertUnwindSafe};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use tokio::sync::{oneshot, watch};
use wasmtime::component::ResourceTableError;
use wasmtime::{Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::attempt::Attempt;
use crate::engine::MAX_FRAMES;
use crate::guest::{self, Called, LeaseLost, Stage};
use crate::imports::bindings::leasehold::job::types;
use crate::limits::{Breach, Limits};
use crate::memory::{MemoryFull, WantOfMemory};
use crate::outcome::{Ended, ErrorInfo, Failure, FailureKind, GuestEnd, HandlerError};
use crate::signal::{Force, Signal, StopReason};
use crate::text;

/// How far a guest says it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Done so far, in the guest's own unit.
    pub done: u64,
    /// Of how many, where the guest knows.
    pub total: Option<u64>,
    /// What it is doing, at most 1 KiB.
    pub message: String,
}

/// A running attempt: a future of its end.
///
/// It runs by itself, whether or not this is polled. Dropping it before the end forces the guest to end.
#[derive(Debug)]
#[must_use = "dropping an execution ends its guest by force"]
pub struct Execution {
    end: oneshot::Receiver<Ended>,
    signal: Signal,
    progress: watch::Receiver<Option<Progress>>,
}

impl Execution {
    pub(crate) fn new(
        end: oneshot::Receiver<Ended>,
        signal: Signal,
        progress: watch::Receiver<Option<Progress>>,
    ) -> Self {
        Execution { end, signal, progress }
    }

    /// The handle to stop the guest by.
    pub fn signal(&self) -> Signal {
        self.signal.clone()
    }

    /// The newest progress; reports in between are skipped.
    pub fn progress(&self) -> watch::Receiver<Option<Progress>> {
        self.progress.clone()
    }
}

impl Future for Execution {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        let stop = self.signal.reason();
        Pin::new(&mut self.end).poll(cx).map(|end| {
            end.unwrap_or_else(|_| {
                let message = "the sandbox was shut down while the guest was running".to_owned();
                let failure =
                    Failure { kind: FailureKind::Host, message, backtrace: Vec::new(), stderr: String::new() };
                Ended { end: GuestEnd::Failure(failure), stop, usage: Default::default() }
            })
        })
    }
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.signal.force();
    }
}

/// What the call of a guest came to: its end and why it had been asked to stop by then, or a panic of the host's.
pub(crate) type Outcome = Result<(Called, Option<StopReason>), Box<dyn Any + Send>>;

/// Waits for a call. H6: a panic in a host function ends it alone.
pub(crate) async fn outcome(call: impl Future<Output = (Called, Option<StopReason>)>) -> Outcome {
    let mut call = pin!(call);
    // What panicked is not polled again, only dropped.
    poll_fn(|cx| match panic::catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// The end of an attempt whose guest is gone.
pub(crate) fn ended(attempt: &Attempt, outcome: Outcome) -> Ended {
    attempt.log.finish();
    let (called, stop) = match outcome {
        // What stopped it is what had been said by then; but a loss overrides all, however late it comes.
        Ok((called, stop)) => (Ok(called), attempt.signal.reason().filter(|_| attempt.signal.is_lost()).or(stop)),
        Err(panic) => (Err(panic), attempt.signal.reason()),
    };
    Ended { end: judge(attempt, called), stop, usage: attempt.usage() }
}

/// The end of an attempt whose guest was not even tried.
pub(crate) fn not_started(attempt: &Attempt, kind: FailureKind, message: String) -> Ended {
    let end = GuestEnd::Failure(failure(attempt, kind, message, None));
    Ended { end, stop: attempt.signal.reason(), usage: attempt.usage() }
}

const MAX_MESSAGE: usize = 8 * 1024;
const MAX_PANIC: usize = 1024;
const MAX_FRAME_TEXT: usize = 256;
/// Honest names of generic Rust functions have up to some hundred bytes.
const MAX_MANGLED: usize = 4 * 1024;

fn judge(attempt: &Attempt, called: Result<Called, Box<dyn Any + Send>>) -> GuestEnd {
    match called {
        Ok(Called::Returned(Ok(output))) if output.len() > attempt.limits.output => {
            let message =
                format!("the output has {} bytes, more than the {} allowed", output.len(), attempt.limits.output);
            GuestEnd::Failure(failure(attempt, FailureKind::OutputTooLarge, message, None))
        }
        Ok(Called::Returned(Ok(output))) => GuestEnd::Output(output),
        Ok(Called::Returned(Err(error))) => GuestEnd::Error(handler_error(error, &attempt.limits)),
        Ok(Called::Failed(stage, error)) => {
            let (kind, message) = kind_of(attempt, &stage, &error);
            GuestEnd::Failure(failure(attempt, kind, message, error.downcast_ref::<WasmBacktrace>()))
        }
        Ok(Called::Dropped) => {
            let (kind, message) = interruption(attempt);
            GuestEnd::Failure(failure(attempt, kind, message + ", while it waited for the host", None))
        }
        // H6: even a fault of the host's own functions costs one run only.
        Err(panic) => {
            let message = format!("a host function panicked: {}", text::of_panic(panic.as_ref()));
            tracing::error!(message, "the host failed while it executed a guest");
            GuestEnd::Failure(failure(attempt, FailureKind::Host, message, None))
        }
    }
}

fn kind_of(attempt: &Attempt, stage: &Stage, error: &wasmtime::Error) -> (FailureKind, String) {
    let message = error.root_cause().to_string();
    if error.is::<LeaseLost>() {
        return (FailureKind::Lost, message);
    }
    if error.is::<WantOfMemory>() {
        return (FailureKind::NoResources, message);
    }
    if let Some(I32Exit(code)) = error.downcast_ref::<I32Exit>() {
        return (FailureKind::Exit, exit_message(*code, attempt.written.is_some()));
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => return interruption(attempt),
        Some(Trap::StackOverflow) if attempt.growth_refused().is_none() => return (FailureKind::Stack, message),
        Some(Trap::OutOfFuel) => {
            let limit = attempt.limits.fuel.unwrap_or(u64::MAX);
            return (FailureKind::Fuel, format!("the guest burnt all of its fuel, {limit}"));
        }
        _ => {}
    }
    match error.downcast_ref::<Breach>() {
        Some(Breach::Cpu { .. }) => return (FailureKind::Cpu, message),
        Some(Breach::Budget { .. }) => return (FailureKind::Budget, message),
        Some(Breach::Output { .. }) => return (FailureKind::OutputTooLarge, message),
        None => {}
    }
    if let Some(broken) = limit_of_the_engine(error, &message, &attempt.limits) {
        return broken;
    }
    // wasmtime's words for more than may be copied; nothing of it is what limits call fuel.
    if message.contains("fuel allocated for hostcalls") {
        return too_much_at_once(&attempt.limits, stage, error);
    }
    if let Some(full) = attempt.growth_refused() {
        return out_of_memory(attempt, full, error);
    }
    if guest::is_want_of_room(error) {
        return (FailureKind::NoResources, message);
    }
    match stage {
        Stage::Start if !error.is::<Trap>() => (FailureKind::Start, format!("{error:#}")),
        _ => (FailureKind::Trap, trap_message(error, message, &attempt.log.stderr_kept())),
    }
}

/// The guest wanted the host to copy more than it does.
fn too_much_at_once(limits: &Limits, stage: &Stage, error: &wasmtime::Error) -> (FailureKind, String) {
    // Without frames nothing of the guest was running: it is its result.
    if matches!(stage, Stage::Running) && !error.is::<WasmBacktrace>() {
        let limit = limits.output;
        return (FailureKind::OutputTooLarge, format!("the result is far larger than the {limit} bytes allowed"));
    }
    let limit = text::size(limits.hostcall_fuel());
    let message = format!(
        "the guest handed the host more in one call than the {limit} that are looked at; checkpoints, values, requests, \
         names and log lines may be far smaller only"
    );
    (FailureKind::CallTooLarge, message)
}

/// WASI's older way to exit keeps whether it was a success and drops the number: what comes as 1 may have been another.
fn exit_message(code: i32, is_command: bool) -> String {
    let how = match code {
        0 => "with success".to_owned(),
        1 => "with failure (exit code 1, or one that WASI did not pass on)".to_owned(),
        code => format!("with exit code {code}"),
    };
    if is_command { format!("the command ended {how}") } else { format!("the guest exited {how} instead of returning") }
}

/// Limits that wasmtime itself keeps. It has no types for most of these errors, so they are known by its words; no guest has
/// a say in those.
fn limit_of_the_engine(error: &wasmtime::Error, words: &str, limits: &Limits) -> Option<(FailureKind, String)> {
    let (handles, random) = (limits.handles, limits.random);
    let is_full = matches!(error.downcast_ref::<ResourceTableError>(), Some(ResourceTableError::Full));
    if is_full || words.ends_with("store handle limit exceeded") {
        let message = format!("the guest wanted to hold more than the {handles} handles it may have (handles_max)");
        return Some((FailureKind::Handles, message));
    }
    (words.starts_with("requested len ") && words.ends_with(&format!(" exceeds limit {random}"))).then(|| {
        let message = format!("the guest asked for more than {random} random bytes in one call (random_max)");
        (FailureKind::Random, message)
    })
}

/// Once growth was refused, whatever the guest fails by is a want of memory. Before any of its code has run, a full tenant or
/// host is none of its doing.
fn out_of_memory(attempt: &Attempt, full: MemoryFull, error: &wasmtime::Error) -> (FailureKind, String) {
    let why = match full {
        MemoryFull::Attempt => {
            let limit = text::size(attempt.limits.memory);
            format!("the guest wanted more than the {limit} of memory it may have (memory)")
        }
        MemoryFull::Tenant(limit) => format!(
            "the guest was refused memory, because all attempts of its tenant on this host may hold {} together \
             (tenant_memory)",
            text::size(limit)
        ),
        MemoryFull::Host(limit) => format!(
            "the guest was refused memory, because all guests of this host may hold {} together ([host] memory)",
            text::size(limit)
        ),
    };
    let kind = match full {
        MemoryFull::Tenant(_) | MemoryFull::Host(_) if !attempt.has_run() => FailureKind::NoResources,
        _ => FailureKind::Memory,
    };
    // Which trap a language makes of it says no more.
    let message = if error.is::<Trap>() { why } else { format!("{why}: {}", error.root_cause()) };
    (kind, message)
}

/// A guest that panics or aborts says why on standard error and then executes `unreachable`: what it said is told as well,
/// because the trap alone tells nobody anything.
fn trap_message(error: &wasmtime::Error, message: String, stderr: &str) -> String {
    match error.downcast_ref::<Trap>() {
        Some(Trap::UnreachableCodeReached) => {
            let panic = rust_panic(stderr).or_else(|| said_reason(stderr));
            match (panic, last_line(stderr)) {
                (Some(panic), _) => format!("{panic} ({message})"),
                (None, Some(line)) => format!("{message}; it said last: {line}"),
                (None, None) => message,
            }
        }
        Some(Trap::MemoryOutOfBounds) if error.downcast_ref::<WasmBacktrace>().is_some_and(recurses) => {
            format!(
                "{message}; functions call one another without end, it seems: the stack that lies in memory is full"
            )
        }
        _ => message,
    }
}

/// The backtrace is as long as can be, and made of few functions: Rust and C keep what they take addresses of on a stack in
/// memory, which ends before the stack of calls does.
fn recurses(trace: &WasmBacktrace) -> bool {
    let functions: BTreeSet<u32> = trace.frames().iter().map(|frame| frame.func_index()).collect();
    trace.frames().len() >= MAX_FRAMES && functions.len() * 2 <= trace.frames().len()
}

/// The last panic in standard error, where and why, as one line; without the advice that Rust adds.
fn rust_panic(stderr: &str) -> Option<String> {
    let panic = &stderr[stderr.rfind("panicked at ")?..];
    let lines = panic.lines().map(str::trim).take_while(|line| !line.starts_with("note: "));
    let line = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    Some(text::bound(&line, MAX_PANIC))
}

/// The last line by which Go or C's `assert` say why they end the program. Go indents the panic of a deferred function, and
/// its goroutines come behind it.
fn said_reason(stderr: &str) -> Option<String> {
    const BEGINNINGS: [&str; 3] = ["panic: ", "fatal error: ", "Assertion failed: "];
    let begins = |line: &&str| BEGINNINGS.iter().any(|beginning| line.starts_with(beginning));
    stderr.lines().map(str::trim).rfind(begins).map(|line| text::bound(line, MAX_PANIC))
}

fn last_line(stderr: &str) -> Option<String> {
    stderr.lines().map(str::trim).rfind(|line| !line.is_empty()).map(|line| text::bound(line, MAX_PANIC))
}

fn interruption(attempt: &Attempt) -> (FailureKind, String) {
    match attempt.signal.forced_by() {
        Some(Force::Timeout) => {
            let timeout = attempt.limits.timeout;
            (FailureKind::Timeout, format!("interrupted at its timeout of {timeout:?}"))
        }
        Some(Force::Caller) | None => {
            let reason = attempt.signal.reason().map_or(String::new(), |reason| format!(" ({reason})"));
            (FailureKind::Interrupted, format!("interrupted by the host{reason}"))
        }
    }
}

fn failure(attempt: &Attempt, kind: FailureKind, message: String, trace: Option<&WasmBacktrace>) -> Failure {
    Failure {
        kind,
        message: text::bound(&text::escape(&message), MAX_MESSAGE),
        backtrace: trace.map_or(Vec::new(), |trace| trace.frames().iter().map(frame).collect()),
        stderr: attempt.log.stderr_tail(),
    }
}

fn frame(frame: &wasmtime::FrameInfo) -> String {
    // Demangling takes the longer the longer a name is.
    let name = frame.func_name().map(|name| text::bound(name, MAX_MANGLED));
    // A frame is a line: a name of several lines would be as many frames.
    let one_line = |name: &str| text::escape(name).replace('\n', "\\u{a}");
    let shown = |name: String| text::bound(&one_line(&demangled(&name)), MAX_FRAME_TEXT);
    name.map_or_else(|| format!("function {}", frame.func_index()), shown)
}

/// Rust's own manglings; the hash at the end tells nobody anything.
fn demangled(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name))
}

fn handler_error(error: types::HandlerError, limits: &Limits) -> HandlerError {
    match error {
        types::HandlerError::Retryable(info) => HandlerError::Retryable(error_info(info, limits)),
        types::HandlerError::Permanent(info) => HandlerError::Permanent(error_info(info, limits)),
        types::HandlerError::Cancelled => HandlerError::Cancelled,
    }
}

fn error_info(info: types::ErrorInfo, limits: &Limits) -> ErrorInfo {
    let detail = |(key, value): (String, String)| {
        let key = text::bound(&key, limits.error_detail);
        let value = text::bound(&value, limits.error_detail - key.len());
        (key, value)
    };
    ErrorInfo {
        code: text::bound(&info.code, limits.error_code),
        message: text::bound(&info.message, limits.error_message),
        details: info.details.into_iter().take(limits.error_details).map(detail).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_one_line_of_place_and_reason_without_rust_s_advice() {
        let stderr = "thread 'main' (1) panicked at src/lib.rs:1:1:\nfirst\nnote: run with `RUST_BACKTRACE=1`\n\n\
                      thread 'main' (1) panicked at src/lib.rs:28:20:\nassertion `left == right` failed\n  left: 1\n \
                      right: 2\nnote: run with `RUST_BACKTRACE=1` to display a backtrace";
        let panic = "panicked at src/lib.rs:28:20: assertion `left == right` failed left: 1 right: 2";
        assert_eq!(rust_panic(stderr).as_deref(), Some(panic));
        assert_eq!(rust_panic("out of cheese"), None);
    }

    #[test]
    fn a_panic_s_message_is_bounded() {
        let long = rust_panic(&format!("panicked at src/lib.rs:1:1:\n{}", "ö".repeat(1_000))).expect("a panic");
        assert!(long.starts_with("panicked at src/lib.rs:1:1: ö") && long.ends_with('…'), "{long}");
        assert!(long.len() <= MAX_PANIC);
    }

    #[test]
    fn only_the_trap_that_ends_a_panic_is_told_as_one() {
        let told = |trap: Trap| trap_message(&trap.into(), "the trap".to_owned(), "panicked at a.rs:1:1:\nwhy");
        assert_eq!(told(Trap::UnreachableCodeReached), "panicked at a.rs:1:1: why (the trap)");
        assert_eq!(told(Trap::MemoryOutOfBounds), "the trap");
    }

    #[test]
    fn whatever_ends_by_unreachable_is_told_by_what_it_said() {
        let told = |stderr| trap_message(&Trap::UnreachableCodeReached.into(), "the trap".to_owned(), stderr);
        let go = "panic: first\n\tpanic: crash on purpose\n\ngoroutine 1 [running]:\nmain.main()\n\tmain.go:7 +0x12";
        assert_eq!(told(go), "panic: crash on purpose (the trap)");
        let assertion = "Assertion failed: n > 0 (plugin.c: handle: 12)\nand more";
        assert_eq!(told(assertion), "Assertion failed: n > 0 (plugin.c: handle: 12) (the trap)");
        assert_eq!(told("a line\n no cheese \n\n"), "the trap; it said last: no cheese");
        assert_eq!(told(""), "the trap");
    }
}
