//! Guests that never end by themselves.

use leasehold_sandbox::{FailureKind, Limits, StopReason};

use crate::support::*;
use crate::watch::{hostile, tight};

#[tokio::test]
async fn an_endless_loop_ends_at_its_timeout() {
    let ended = hostile(guest("", SPIN), Limits { timeout: millis(300), ..tight() }).await;
    let failure = failure(&ended);
    assert_eq!(failure.kind, FailureKind::Timeout, "{failure}");
    assert_eq!(ended.stop, Some(StopReason::Deadline));
    assert!(!failure.backtrace.is_empty(), "a running guest is interrupted where it is");
    assert!(ended.usage.wall >= millis(300) && ended.usage.cpu > millis(1), "{:?}", ended.usage);
}

#[tokio::test]
async fn a_loop_in_the_start_function_ends_at_the_timeout_too() {
    let items = format!("(func $spin {SPIN}) (start $spin)");
    let ended = hostile(guest(&items, ""), Limits { timeout: millis(300), ..tight() }).await;
    assert_eq!(failure(&ended).kind, FailureKind::Timeout, "{}", failure(&ended));
}

#[tokio::test]
async fn filling_memory_over_and_over_ends_at_the_timeout() {
    let body = "(drop (memory.grow (i32.const 100)))
        (loop $more (memory.fill (i32.const 65536) (i32.const 7) (i32.const 6400000)) (br $more))";
    let ended = hostile(guest("", body), Limits { timeout: millis(300), ..tight() }).await;
    assert_eq!(failure(&ended).kind, FailureKind::Timeout, "{}", failure(&ended));
}

#[tokio::test]
async fn endless_recursion_is_stack_with_at_most_twenty_frames() {
    let ended = hostile(guest("(func $deep (call $deep))", "(call $deep)"), tight()).await;
    let failure = failure(&ended);
    assert_eq!(failure.kind, FailureKind::Stack, "{failure}");
    assert!(!failure.backtrace.is_empty() && failure.backtrace.len() <= 20);
}

/// Compiled languages keep a stack of their own in memory, which such recursion leaves at its end.
#[tokio::test]
async fn recursion_that_runs_out_of_its_stack_in_memory_is_a_trap_that_says_so() {
    let deep = "(global $sp (mut i32) (i32.const 4096))
        (func $deep (global.set $sp (i32.sub (global.get $sp) (i32.const 64)))
            (i32.store (global.get $sp) (i32.const 7)) (call $deep))";
    let ended = hostile(guest(deep, "(call $deep)"), tight()).await;
    let failure = failure(&ended);
    assert_eq!(failure.kind, FailureKind::Trap, "{failure}");
    assert!(failure.message.contains("functions call one another without end"), "{failure}");
    let once = hostile(guest("", "(i32.store (i32.const -4) (i32.const 7))"), tight()).await;
    assert!(!crate::support::failure(&once).message.contains("without end"), "{}", crate::support::failure(&once));
}

/// Host functions run on the guest's stack: there must be room for them however deep the guest is.
#[tokio::test]
async fn recursion_that_calls_the_host_at_each_level_is_stack() {
    let deep = "(func $deep
        (call $emit (i32.const 3) (i32.const 1024) (i32.const 4) (i32.const 1024) (i32.const 4) (i32.const 0) (i32.const 0))
        (call $deep))";
    let ended = hostile(guest(&format!("{EMIT} {deep}"), "(call $deep)"), tight()).await;
    assert_eq!(failure(&ended).kind, FailureKind::Stack, "{}", failure(&ended));
}

#[tokio::test]
async fn a_guest_without_processor_time_left_is_cpu() {
    let limits = Limits { cpu: Some(millis(100)), ..tight() };
    let ended = hostile(guest("", SPIN), limits).await;
    assert_eq!((failure(&ended).kind, ended.stop), (FailureKind::Cpu, None), "{}", failure(&ended));
    assert!(failure(&ended).message.contains("100ms"), "{}", failure(&ended));
    assert!(ended.usage.cpu >= millis(100) && ended.usage.cpu < millis(300), "{:?}", ended.usage);
}

#[tokio::test]
async fn waiting_takes_no_processor_time() {
    let limits = Limits { cpu: Some(millis(100)), ..tight() };
    let ended = hostile(guest(SLEEP, "(drop (call $sleep (i64.const 300)))"), limits).await;
    assert_eq!(output(&ended), b"done");
    assert!(ended.usage.wall >= millis(300) && ended.usage.cpu < millis(100), "{:?}", ended.usage);
}

/// Counts down from a million and returns.
const COUNT: &str = "(local.set $i (i32.const 1000000))
    (loop $more (br_if $more (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))";

#[tokio::test]
async fn a_guest_without_fuel_left_is_fuel() {
    let sandbox = sandbox();
    let plugin = sandbox.load_bytes_metered("acme", guest("", SPIN)).await.expect("it loads");
    let ended = sandbox.start(&plugin, invocation(Limits { fuel: Some(1_000_000), ..tight() })).await;
    assert_eq!((failure(&ended).kind, ended.stop), (FailureKind::Fuel, None), "{}", failure(&ended));
    assert_eq!(ended.usage.fuel, Some(1_000_000));
    assert!(!failure(&ended).backtrace.is_empty());
}

#[tokio::test]
async fn the_same_work_burns_the_same_fuel_with_and_without_a_limit() {
    let sandbox = sandbox();
    let plugin = sandbox.load_bytes_metered("acme", guest("", COUNT)).await.expect("it loads");
    let mut burnt = Vec::new();
    for fuel in [None, Some(100_000_000)] {
        let ended = sandbox.start(&plugin, invocation(Limits { fuel, ..tight() })).await;
        assert_eq!(output(&ended), b"done");
        burnt.push(ended.usage.fuel.expect("it is counted"));
    }
    assert_eq!(burnt[0], burnt[1]);
    assert!((1_000_000..100_000_000).contains(&burnt[0]), "{burnt:?}");
}

#[tokio::test]
async fn a_metered_guest_is_interrupted_like_any_other() {
    let sandbox = sandbox();
    let plugin = sandbox.load_bytes_metered("acme", guest("", SPIN)).await.expect("it loads");
    let ended = sandbox.start(&plugin, invocation(Limits { timeout: millis(300), ..tight() })).await;
    assert_eq!(failure(&ended).kind, FailureKind::Timeout, "{}", failure(&ended));
    assert!(ended.usage.fuel.is_some(), "{:?}", ended.usage);
}

#[tokio::test]
async fn a_limit_of_fuel_is_not_ignored_where_fuel_is_not_counted() {
    let ended = hostile(guest("", COUNT), Limits { fuel: Some(1), ..tight() }).await;
    assert_eq!(failure(&ended).kind, FailureKind::Start, "{}", failure(&ended));
    assert_eq!(ended.usage.fuel, None);
}
