//! How a guest is told to stop, and how it is made to.

mod support;

use leasehold_sandbox::{FailureKind, GuestEnd, Limits, StopReason};
use support::*;

const POLL: &str = "(loop $again (br_if $again (call $should_continue)))";

#[tokio::test]
async fn a_polling_guest_sees_the_stop_and_returns() {
    let sandbox = sandbox();
    for reason in [StopReason::Stopping, StopReason::Cancelled, StopReason::Deadline] {
        let execution = start(&sandbox, guest(SHOULD_CONTINUE, POLL)).await;
        execution.signal().stop(reason);
        let ended = execution.await;
        assert_eq!(output(&ended), b"done");
        assert_eq!(ended.stop, Some(reason));
    }
}

#[tokio::test]
async fn a_polling_guest_is_asked_to_stop_before_its_timeout() {
    let sandbox = sandbox();
    let limits = Limits { timeout: millis(2_000), ..Limits::default() };
    let ended = start_with(&sandbox, guest(SHOULD_CONTINUE, POLL), limits).await.await;
    assert_eq!(output(&ended), b"done");
    assert_eq!(ended.stop, Some(StopReason::Deadline));
    assert!(ended.usage.wall >= millis(1_800), "{:?}", ended.usage);
}

#[tokio::test]
async fn force_ends_an_endless_loop() {
    let sandbox = sandbox();
    let execution = start(&sandbox, says_when("", SPIN)).await;
    is_there(&execution).await;
    execution.signal().stop(StopReason::Cancelled);
    execution.signal().force();
    let ended = execution.await;
    assert_eq!(failure(&ended).kind, FailureKind::Interrupted, "{}", failure(&ended));
    assert!(failure(&ended).message.contains("cancelled"));
    assert_eq!(ended.stop, Some(StopReason::Cancelled));
}

/// Most of them wait for their turn when the time comes, and none for the host.
#[tokio::test]
async fn of_many_guests_at_their_timeout_each_is_told_where_it_was() {
    let sandbox = sandbox();
    let limits = Limits { timeout: millis(300), ..Limits::default() };
    let mut executions = Vec::new();
    for _ in 0..24 {
        executions.push(start_with(&sandbox, guest("", SPIN), limits).await);
    }
    for execution in executions {
        let ended = execution.await;
        let failure = failure(&ended);
        assert_eq!(failure.kind, FailureKind::Timeout, "{failure}");
        assert!(!failure.message.contains("waited"), "{failure}");
        // A guest that had no turn at all was nowhere.
        assert!(!failure.backtrace.is_empty() || ended.usage.cpu < millis(5), "{failure}: {:?}", ended.usage);
    }
}

#[tokio::test]
async fn a_sleep_is_cut_short_by_a_stop() {
    let sandbox = sandbox();
    // Answers "done" when the sleep says false, traps when it slept to its end.
    let body = "(if (call $sleep (i64.const 3600000)) (then (unreachable)))";
    let execution = start(&sandbox, says_when(SLEEP, body)).await;
    is_there(&execution).await;
    execution.signal().stop(StopReason::Stopping);
    let ended = execution.await;
    assert_eq!(output(&ended), b"done");
}

#[tokio::test]
async fn a_sleep_that_ends_says_so() {
    let body = "(if (i32.eqz (call $sleep (i64.const 1))) (then (unreachable)))";
    assert_eq!(output(&run(guest(SLEEP, body), Limits::default()).await), b"done");
}

#[tokio::test]
async fn force_drops_a_blocked_host_call() {
    let sandbox = sandbox();
    let execution = start(&sandbox, says_when(TIMER, BLOCK)).await;
    is_there(&execution).await;
    let signal = execution.signal();
    signal.stop(StopReason::Stopping);
    signal.force();
    let ended = execution.await;
    assert_eq!(failure(&ended).kind, FailureKind::Interrupted, "{}", failure(&ended));
}

#[tokio::test]
async fn the_timeout_ends_a_blocked_host_call() {
    let sandbox = sandbox();
    let limits = Limits { timeout: millis(200), ..Limits::default() };
    let ended = start_with(&sandbox, guest(TIMER, BLOCK), limits).await.await;
    assert_eq!(failure(&ended).kind, FailureKind::Timeout, "{}", failure(&ended));
    assert!(failure(&ended).message.contains("waited for the host"), "{}", failure(&ended));
}

#[tokio::test]
async fn every_host_call_fails_once_the_lease_is_lost() {
    let sandbox = sandbox();
    let execution = start(&sandbox, guest(SHOULD_CONTINUE, POLL)).await;
    execution.signal().stop(StopReason::Stopping);
    // Lost overrides the earlier reason, whether or not the guest has returned by now.
    execution.signal().stop(StopReason::Lost);
    assert_eq!(execution.await.stop, Some(StopReason::Lost));

    let execution = start(&sandbox, guest(SHOULD_CONTINUE, POLL)).await;
    execution.signal().stop(StopReason::Lost);
    let ended = execution.await;
    assert_eq!(failure(&ended).kind, FailureKind::Lost, "{}", failure(&ended));
    assert_eq!(ended.stop, Some(StopReason::Lost));
}

#[tokio::test]
async fn a_sleeping_guest_wakes_when_the_lease_is_lost_and_cannot_call_again() {
    let sandbox = sandbox();
    let body = "(drop (call $sleep (i64.const 3600000))) (drop (call $sleep (i64.const 1)))";
    let execution = start(&sandbox, says_when(SLEEP, body)).await;
    is_there(&execution).await;
    execution.signal().stop(StopReason::Lost);
    assert_eq!(failure(&execution.await).kind, FailureKind::Lost);
}

#[tokio::test]
async fn a_guest_that_only_computes_keeps_its_grace_after_a_loss() {
    let sandbox = sandbox();
    // Growing a memory and many ticks pass through the host as well, but they are not calls of the guest's.
    let body = "(drop (call $sleep (i64.const 3600000))) (drop (memory.grow (i32.const 1)))
        (local.set $i (i32.const 100000000))
        (loop $more (br_if $more (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))";
    let plugin = load(&sandbox, says_when(SLEEP, body)).await;
    for _ in 0..100 {
        let execution = sandbox.start(&plugin, invocation(Limits::default()));
        is_there(&execution).await;
        execution.signal().stop(StopReason::Lost);
        let ended = execution.await;
        assert_eq!(ended.stop, Some(StopReason::Lost));
        if let GuestEnd::Output(output) = &ended.end {
            assert_eq!(output, b"done");
            return;
        }
        // The loss came between the report and the sleep, which is a call after the loss.
        assert_eq!(failure(&ended).kind, FailureKind::Lost, "{}", failure(&ended));
    }
    panic!("in a hundred attempts the loss never met a sleeping guest");
}

#[tokio::test]
async fn dropping_an_execution_ends_its_guest() {
    let settings = leasehold_sandbox::SandboxSettings { guest_threads: 1, ..settings() };
    let sandbox = leasehold_sandbox::Sandbox::new(settings).expect("a sandbox");
    let execution = start(&sandbox, guest("", SPIN)).await;
    let signal = execution.signal();
    drop(execution);
    assert!(signal.is_forced());
}

#[tokio::test]
async fn dropping_the_sandbox_ends_every_wait() {
    let sandbox = sandbox();
    let execution = start(&sandbox, guest("", SPIN)).await;
    drop(sandbox);
    assert_eq!(failure(&execution.await).kind, FailureKind::Host);
}

/// A wait that knows nothing of the signal: a WASI timer of about an hour.
const BLOCK: &str = "(call $block (call $timer (i64.const 3600000000000)))";

/// A guest that reports progress right before `body`.
fn says_when(items: &str, body: &str) -> Vec<u8> {
    let report = "(call $update (i64.const 1) (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0))";
    guest(&format!("{items} {UPDATE}"), &format!("{report} {body}"))
}
