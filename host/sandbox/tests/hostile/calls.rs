//! Guests that call the host too often.

use leasehold_sandbox::{FailureKind, Limits};

use crate::support::*;
use crate::watch::{hostile, tight};

const ASK: &str = "(loop $more (drop (call $should_continue)) (br $more))";

#[tokio::test]
async fn a_guest_beyond_its_budget_of_calls_is_budget() {
    let ended = hostile(guest(SHOULD_CONTINUE, ASK), Limits { host_calls: 1, ..tight() }).await;
    assert_eq!((failure(&ended).kind, ended.stop), (FailureKind::Budget, None), "{}", failure(&ended));
    assert!(failure(&ended).message.contains("1 times a second"), "{}", failure(&ended));
    // A minute's worth, and what accrued while it ran.
    assert!((61..=70).contains(&ended.usage.host_calls), "{:?}", ended.usage);
}

#[tokio::test]
async fn calls_of_wasi_count_like_the_contract_s() {
    let body = "(loop $more (call $environment (i32.const 2048)) (br $more))";
    let ended = hostile(guest(ENVIRONMENT, body), Limits { host_calls: 1, ..tight() }).await;
    assert_eq!(failure(&ended).kind, FailureKind::Budget, "{}", failure(&ended));
}

#[tokio::test]
async fn a_million_calls_in_a_row_are_within_the_default() {
    let body = "(local.set $i (i32.const 1000000))
        (loop $more
          (drop (call $should_continue))
          (br_if $more (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))";
    let ended = hostile(guest(SHOULD_CONTINUE, body), tight()).await;
    assert_eq!(output(&ended), b"done");
    assert_eq!(ended.usage.host_calls, 1_000_000);
}
