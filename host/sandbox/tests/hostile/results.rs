//! Guests that answer with more than anyone wants.

use leasehold_sandbox::{ErrorInfo, FailureKind, GuestEnd, HandlerError, Limits};

use crate::support::*;
use crate::watch::{hostile, tight};

#[tokio::test]
async fn output_beyond_the_limit_is_its_own_failure_however_large() {
    for pages in [2, 100] {
        let bytes = pages * 65_536;
        let body =
            format!("(drop (memory.grow (i32.const {pages}))) (return (call $ok (i32.const 0) (i32.const {bytes})))");
        let ended = hostile(guest("", &body), Limits { output: 100_000, ..tight() }).await;
        assert_eq!(failure(&ended).kind, FailureKind::OutputTooLarge, "{}", failure(&ended));
    }
}

/// Grows by 100 pages, fills them with x, and returns a permanent error: code, message and details lie there.
fn error(code: usize, message: usize, details: usize) -> Vec<u8> {
    // A detail is two strings of 1 000 letters; the list of them begins at 4 000 000.
    let body = format!(
        "(drop (memory.grow (i32.const 100)))
         (memory.fill (i32.const 131072) (i32.const 120) (i32.const 3800000))
         (local.set $i (i32.const {details}))
         (block $none (br_if $none (i32.eqz (local.get $i)))
           (loop $more
             (local.set $i (i32.sub (local.get $i) (i32.const 1)))
             (local.set $j (i32.add (i32.const 4000000) (i32.mul (local.get $i) (i32.const 16))))
             (i32.store (local.get $j) (i32.const 131072)) (i32.store offset=4 (local.get $j) (i32.const 1000))
             (i32.store offset=8 (local.get $j) (i32.const 131072)) (i32.store offset=12 (local.get $j) (i32.const 1000))
             (br_if $more (local.get $i))))
         (i32.store8 (i32.const 16) (i32.const 1)) (i32.store8 (i32.const 20) (i32.const 1))
         (i32.store (i32.const 24) (i32.const 131072)) (i32.store (i32.const 28) (i32.const {code}))
         (i32.store (i32.const 32) (i32.const 131072)) (i32.store (i32.const 36) (i32.const {message}))
         (i32.store (i32.const 40) (i32.const 4000000)) (i32.store (i32.const 44) (i32.const {details}))
         (return (i32.const 16))"
    );
    guest("", &body)
}

async fn told(code: usize, message: usize, details: usize) -> ErrorInfo {
    let ended = hostile(error(code, message, details), tight()).await;
    match ended.end {
        GuestEnd::Error(HandlerError::Permanent(info)) => info,
        other => panic!("expected an error, got {other:?}"),
    }
}

#[tokio::test]
async fn a_large_code_message_or_list_of_details_is_cut() {
    assert_eq!(told(900_000, 4, 0).await.code.len(), 64);
    assert!(told(4, 900_000, 0).await.message.len() <= 8 * 1024);
    let info = told(4, 4, 400).await;
    assert_eq!(info.details.len(), 32);
    assert!(info.details.iter().all(|(key, value)| key.len() + value.len() <= 1024));
}

#[tokio::test]
async fn an_error_that_is_giant_in_any_part_is_not_even_copied() {
    for (code, message, details) in [(3_000_000, 4, 0), (4, 3_000_000, 0), (4, 4, 100_000)] {
        let ended = hostile(error(code, message, details), tight()).await;
        assert_eq!(failure(&ended).kind, FailureKind::OutputTooLarge, "{}", failure(&ended));
    }
}
