//! Guests that sleep for ever, in every call that waits.

use leasehold_sandbox::{Ended, FailureKind, Limits, StopReason};

use crate::support::*;
use crate::watch::{hostile, tight};

const CLOCK: &str = r#"
  (import "wasi:clocks/monotonic-clock@0.2.12" "subscribe-instant" (func $instant (param i64) (result i32)))
  (import "wasi:io/poll@0.2.12" "poll" (func $poll (param i32 i32 i32)))"#;
const STDIN: &str = r#"
  (import "wasi:cli/stdin@0.2.12" "get-stdin" (func $stdin (result i32)))
  (import "wasi:io/streams@0.2.12" "[method]input-stream.blocking-read" (func $read (param i32 i64 i32)))"#;

/// Every call that waits, with what it is called with to wait for longer than any test.
fn waits() -> [(&'static str, String, &'static str); 5] {
    let report = |imports: &str| format!("{imports} {UPDATE}");
    [
        ("sleep", report(SLEEP), "(drop (call $sleep (i64.const -1)))"),
        ("block on a duration", report(TIMER), "(call $block (call $timer (i64.const -1)))"),
        ("block on an instant", report(&format!("{TIMER} {CLOCK}")), "(call $block (call $instant (i64.const -1)))"),
        (
            "poll one",
            report(&format!("{TIMER} {CLOCK}")),
            "(i32.store (i32.const 2048) (call $timer (i64.const -1)))
             (call $poll (i32.const 2048) (i32.const 1) (i32.const 2064))",
        ),
        (
            "poll two",
            report(&format!("{TIMER} {CLOCK}")),
            "(i32.store (i32.const 2048) (call $timer (i64.const -1)))
             (i32.store (i32.const 2052) (call $instant (i64.const -1)))
             (call $poll (i32.const 2048) (i32.const 2) (i32.const 2064))",
        ),
    ]
}

fn says_then(items: &str, wait: &str) -> Vec<u8> {
    let report = "(call $update (i64.const 1) (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0))";
    guest(items, &format!("{report} {wait} (unreachable)"))
}

#[tokio::test]
async fn force_ends_every_wait_and_frees_its_instance() {
    for (name, items, wait) in waits() {
        let sandbox = sandbox();
        let execution = start_with(&sandbox, says_then(&items, wait), tight()).await;
        is_there(&execution).await;
        execution.signal().force();
        let ended = execution.await;
        assert_eq!(failure(&ended).kind, FailureKind::Interrupted, "{name}: {}", failure(&ended));
        assert_eq!(sandbox.memory().used(), 0, "{name}");
    }
}

#[tokio::test]
async fn the_timeout_ends_every_wait() {
    for (name, items, wait) in waits() {
        let ended = hostile(says_then(&items, wait), Limits { timeout: millis(200), ..tight() }).await;
        // A sleep of the contract's returns at the signal; this guest then traps, which is no result either.
        let kind = if name == "sleep" { FailureKind::Trap } else { FailureKind::Timeout };
        assert_eq!((failure(&ended).kind, ended.stop), (kind, Some(StopReason::Deadline)), "{name}");
        in_time(&ended, name);
    }
}

#[tokio::test]
async fn a_guest_that_waits_again_and_again_is_ended_as_well() {
    // Each wait is cut short by the signal, and the guest just waits once more.
    let body = "(loop $more (drop (call $sleep (i64.const -1))) (br $more))";
    let ended = hostile(guest(SLEEP, body), Limits { timeout: millis(200), ..tight() }).await;
    assert_eq!(failure(&ended).kind, FailureKind::Timeout, "{}", failure(&ended));
    in_time(&ended, "sleep for ever");
}

#[tokio::test]
async fn standard_input_is_empty_and_makes_nobody_wait() {
    let body = "(call $read (call $stdin) (i64.const 1000) (i32.const 2048))
        (if (i32.eqz (i32.load8_u (i32.const 2048))) (then (unreachable)))";
    assert_eq!(output(&hostile(guest(STDIN, body), tight()).await), b"done");
}

fn in_time(ended: &Ended, name: &str) {
    assert!(ended.usage.wall < millis(1_200), "{name}: at most a second after its timeout: {:?}", ended.usage);
}
