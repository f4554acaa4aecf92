//! What a guest does, and what it is recorded as.

mod support;

use std::sync::Arc;

use leasehold_sandbox::{FailureKind, GuestEnd, HandlerError, Limits, Progress, StopReason};
use support::*;

#[tokio::test]
async fn a_handler_s_output_is_the_end() {
    let ended = run(guest("", "(return (call $ok (local.get 14) (local.get 15)))"), Limits::default()).await;
    assert_eq!(output(&ended), b"{}");
    assert_eq!(ended.stop, None);
    assert_eq!(ended.usage.peak_memory, 2 * 65_536);
    assert!(ended.usage.wall > std::time::Duration::ZERO);
}

#[tokio::test]
async fn each_attempt_is_a_fresh_instance() {
    let sandbox = sandbox();
    let counts = "(global $n (mut i32) (i32.const 48))";
    let body = "(global.set $n (i32.add (global.get $n) (i32.const 1))) (i32.store8 (i32.const 2048) (global.get $n))
                (return (call $ok (i32.const 2048) (i32.const 1)))";
    let plugin = load(&sandbox, guest(counts, body)).await;
    for _ in 0..3 {
        let ended = sandbox.start(&plugin, invocation(Limits::default())).await;
        assert_eq!(output(&ended), b"1");
    }
}

#[tokio::test]
async fn a_handler_s_error_is_told_and_bounded() {
    // result: err(permanent({code: 100 bytes, message: 9000 bytes, details: []}))
    let body = "(memory.fill (i32.const 4096) (i32.const 120) (i32.const 9000))
        (i32.store8 (i32.const 16) (i32.const 1)) (i32.store8 (i32.const 20) (i32.const 1))
        (i32.store (i32.const 24) (i32.const 4096)) (i32.store (i32.const 28) (i32.const 100))
        (i32.store (i32.const 32) (i32.const 4096)) (i32.store (i32.const 36) (i32.const 9000))
        (i32.store (i32.const 40) (i32.const 0)) (i32.store (i32.const 44) (i32.const 0))
        (return (i32.const 16))";
    let ended = run(guest("", body), Limits::default()).await;
    let GuestEnd::Error(HandlerError::Permanent(info)) = &ended.end else { panic!("got {:?}", ended.end) };
    assert_eq!(info.code.len(), 64);
    assert!(info.message.starts_with("xxx") && info.message.len() <= 8 * 1024, "{} bytes", info.message.len());
}

#[tokio::test]
async fn a_trap_is_a_trap_with_a_backtrace() {
    let ended = run(guest("(func $inner (unreachable))", "(call $inner)"), Limits::default()).await;
    let failure = failure(&ended);
    assert_eq!(failure.kind, FailureKind::Trap);
    assert!(failure.message.contains("unreachable"), "{}", failure.message);
    let names: Vec<_> = failure.backtrace.iter().map(String::as_str).collect();
    assert_eq!(names[..2], ["inner", "handle"], "{names:?}");
}

#[tokio::test]
async fn a_name_of_several_lines_is_one_frame_of_a_backtrace() {
    let inner = "(func $inner (@name \"inner\\0d\\0aleasehold: ok\\1b[31m\") (unreachable))";
    let ended = run(guest(inner, "(call $inner)"), Limits::default()).await;
    let frame = &failure(&ended).backtrace[0];
    assert!(frame.starts_with("inner") && frame.contains("leasehold: ok"), "{frame}");
    assert!(!frame.chars().any(char::is_control), "{frame:?}");
}

#[tokio::test]
async fn refused_memory_alone_is_no_failure() {
    let body = "(drop (memory.grow (i32.const 60000)))";
    assert_eq!(output(&run(guest("", body), Limits::default()).await), b"done");
}

#[tokio::test]
async fn more_memory_at_the_start_than_allowed_is_memory() {
    let ended = run(guest("", ""), Limits { memory: 65_536, ..Limits::default() }).await;
    assert_eq!(failure(&ended).kind, FailureKind::Memory, "{}", failure(&ended));
}

#[tokio::test]
async fn a_payload_beyond_the_limit_is_not_started() {
    let ended = run(guest("", ""), Limits { payload: 1, ..Limits::default() }).await;
    assert_eq!(failure(&ended).kind, FailureKind::Start);
    assert_eq!(ended.usage.host_calls, 0);
}

#[tokio::test]
async fn an_invalid_result_fails_the_run_and_not_the_host() {
    let ended = run(guest("", "(return (call $ok (i32.const 0) (i32.const -1)))"), Limits::default()).await;
    assert_eq!(failure(&ended).kind, FailureKind::Trap, "{}", failure(&ended));
}

#[tokio::test]
async fn a_failure_carries_the_end_of_stderr() {
    let items = format!("{STREAMS} (data (i32.const 4096) \"panicked at \\1b[31mhere\")");
    let body = "(call $write (call $stderr) (i32.const 4096) (i32.const 21) (i32.const 2048)) (unreachable)";
    let ended = run(guest(&items, body), Limits::default()).await;
    assert_eq!(failure(&ended).kind, FailureKind::Trap);
    assert_eq!(failure(&ended).stderr, "panicked at \\u{1b}[31mhere");
}

#[tokio::test]
async fn a_panic_is_a_trap_whose_message_begins_with_what_the_guest_said() {
    let said = "thread 'main' panicked at src/lib.rs:28:20:\\ntold to \\1b[31mpanic\\n";
    let items = format!("{STREAMS} (data (i32.const 4096) \"{said}\")");
    let body = "(call $write (call $stderr) (i32.const 4096) (i32.const 63) (i32.const 2048)) (unreachable)";
    let ended = run(guest(&items, body), Limits::default()).await;
    let failure = failure(&ended);
    assert_eq!(failure.kind, FailureKind::Trap);
    let begin = "panicked at src/lib.rs:28:20: told to \\u{1b}[31mpanic (wasm trap: ";
    assert!(failure.message.starts_with(begin), "{}", failure.message);
    assert!(failure.message.contains("unreachable"), "{}", failure.message);
}

#[tokio::test]
async fn a_guest_sees_no_environment_and_no_arguments() {
    let body = "(call $environment (i32.const 2048)) (call $arguments (i32.const 2056))
        (if (i32.load (i32.const 2052)) (then (unreachable)))
        (if (i32.load (i32.const 2060)) (then (unreachable)))";
    assert_eq!(output(&run(guest(ENVIRONMENT, body), Limits::default()).await), b"done");
}

#[tokio::test]
async fn a_host_function_that_panics_costs_its_run_only() {
    struct Panics;
    impl leasehold_sandbox::LogSink for Panics {
        fn line(&self, _: leasehold_sandbox::LogLine) {
            panic!("the sink is broken (this panic is part of a test)");
        }
    }
    let sandbox = sandbox();
    let body = "(call $emit (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 1024) (i32.const 4) (i32.const 0) (i32.const 0))";
    let plugin = load(&sandbox, guest(EMIT, body)).await;
    let mut broken = invocation(Limits::default());
    broken.logs = Arc::new(Panics);
    let ended = sandbox.start(&plugin, broken).await;
    assert_eq!(failure(&ended).kind, FailureKind::Host, "{}", failure(&ended));
    assert!(failure(&ended).message.contains("the sink is broken"));
    assert_eq!(output(&sandbox.start(&plugin, invocation(Limits::default())).await), b"done");
}

#[tokio::test]
async fn the_newest_progress_is_seen() {
    let sandbox = sandbox();
    let body = "(call $update (i64.const 1) (i32.const 0) (i64.const 0) (i32.const 1024) (i32.const 4))
        (call $update (i64.const 2) (i32.const 1) (i64.const 9) (i32.const 1024) (i32.const 4))";
    let execution = start(&sandbox, guest(UPDATE, body)).await;
    let progress = execution.progress();
    assert_eq!(output(&execution.await), b"done");
    let seen = progress.borrow().clone();
    assert_eq!(seen, Some(Progress { done: 2, total: Some(9), message: "done".to_owned() }));
}

#[tokio::test]
async fn short_guests_end_in_time_beside_spinning_ones_and_long_ones_go_on() {
    let sandbox = sandbox();
    let plugin = load(&sandbox, guest("", SPIN)).await;
    let long: Vec<_> = (0..20).map(|_| sandbox.start(&plugin, invocation(Limits::default()))).collect();
    let short = Limits { timeout: millis(500), ..Limits::default() };
    let short: Vec<_> = (0..20).map(|_| sandbox.start(&plugin, invocation(short))).collect();
    for execution in short {
        let ended = execution.await;
        assert_eq!(failure(&ended).kind, FailureKind::Timeout);
        // 40 guests on two threads: each has its turn every 200 ms.
        assert!(ended.usage.wall < millis(3_000), "{:?}", ended.usage);
    }
    for execution in &long {
        assert_eq!(execution.signal().reason(), None);
    }
    for execution in long {
        execution.signal().stop(StopReason::Stopping);
        execution.signal().force();
        let ended = execution.await;
        assert_eq!((failure(&ended).kind, ended.stop), (FailureKind::Interrupted, Some(StopReason::Stopping)));
        assert!(ended.usage.cpu > millis(1), "it had its turns: {:?}", ended.usage);
    }
}

#[tokio::test]
async fn a_start_beyond_the_places_says_that_the_host_is_full() {
    let settings = leasehold_sandbox::SandboxSettings { max_guests: 1, ..settings() };
    let sandbox = leasehold_sandbox::Sandbox::new(settings).expect("a sandbox");
    let plugin = load(&sandbox, guest("", SPIN)).await;
    let first = sandbox.start(&plugin, invocation(Limits::default()));
    let second = sandbox.start(&plugin, invocation(Limits::default())).await;
    assert_eq!(failure(&second).kind, FailureKind::NoResources);
    first.signal().force();
    first.await;
    let third = sandbox.start(&plugin, invocation(Limits { timeout: millis(100), ..Limits::default() })).await;
    assert_eq!(failure(&third).kind, FailureKind::Timeout, "the place was free again as soon as the end was told");
}
