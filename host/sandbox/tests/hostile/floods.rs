//! Guests that say, ask for and hold too much.

use leasehold_sandbox::{FailureKind, Limits, LogLevel, LogSource};

use crate::support::*;
use crate::watch::{hostile, hostile_with_log, tight};

#[tokio::test]
async fn structured_lines_reach_the_sink_and_a_flood_is_bounded() {
    // Ten thousand warnings of 1 000 bytes, target "done".
    let body = "(memory.fill (i32.const 4096) (i32.const 109) (i32.const 1000))
        (local.set $i (i32.const 10000))
        (loop $more
          (call $emit (i32.const 3) (i32.const 1024) (i32.const 4) (i32.const 4096) (i32.const 1000) (i32.const 0) (i32.const 0))
          (br_if $more (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))";
    let (ended, lines) = hostile_with_log(guest(EMIT, body), tight()).await;
    assert_eq!(output(&ended), b"done");
    assert_eq!(ended.usage.host_calls, 10_000);
    assert!(ended.usage.log_bytes <= 1 << 20);
    assert_eq!((lines[0].level, lines[0].target.as_str(), lines[0].message.len()), (LogLevel::Warn, "done", 1_000));
    let kept: usize = lines.iter().map(|line| line.message.len()).sum();
    assert!(kept > 900_000 && kept <= 1 << 20, "{kept}");
    assert_eq!(lines.iter().filter(|line| line.source == LogSource::Host).count(), 1);
}

#[tokio::test]
async fn a_giant_log_line_is_cut_and_one_beyond_what_a_call_may_carry_is_call_too_large() {
    let emit = |bytes| {
        let body = format!(
            "(drop (memory.grow (i32.const 150))) (memory.fill (i32.const 131072) (i32.const 109) (i32.const {bytes}))
            (call $emit (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 131072) (i32.const {bytes}) (i32.const 0) (i32.const 0))"
        );
        guest(EMIT, &body)
    };
    let roomy = Limits { memory: 16 << 20, ..tight() };
    let (ended, lines) = hostile_with_log(emit(1_500_000), roomy).await;
    assert_eq!(output(&ended), b"done");
    assert!(lines.len() == 1 && lines[0].message.len() <= 8 * 1024, "{} lines", lines.len());
    let (ended, lines) = hostile_with_log(emit(9_000_000), roomy).await;
    assert_eq!(failure(&ended).kind, FailureKind::CallTooLarge, "{}", failure(&ended));
    assert!(failure(&ended).message.contains("more in one call than the 8 MiB"), "{}", failure(&ended));
    assert!(!failure(&ended).message.contains("fuel"), "it has no limit of fuel: {}", failure(&ended));
    assert!(lines.is_empty());
}

/// Writes 4 000 bytes from 4096 to a stream, without end.
fn writes(stream: &str, prepare: &str) -> Vec<u8> {
    let body = format!(
        "(memory.fill (i32.const 4096) (i32.const 111) (i32.const 4000)) {prepare}
        (local.set $j (call ${stream}))
        (loop $more (call $write (local.get $j) (i32.const 4096) (i32.const 4000) (i32.const 2048)) (br $more))"
    );
    guest(STREAMS, &body)
}

#[tokio::test]
async fn endless_output_on_a_standard_stream_is_bounded_and_the_guest_goes_on_until_its_timeout() {
    let limits = Limits { timeout: millis(1_000), ..tight() };
    for stream in ["stdout", "stderr"] {
        let (ended, lines) =
            hostile_with_log(writes(stream, "(i32.store8 (i32.const 8095) (i32.const 10))"), limits).await;
        assert_eq!(failure(&ended).kind, FailureKind::Timeout, "{}", failure(&ended));
        let kept: usize = lines.iter().map(|line| line.message.len()).sum();
        assert!(kept <= 1 << 20, "{kept}");
        assert_eq!(lines.iter().filter(|line| line.source == LogSource::Host).count(), 1, "it is said that it was cut");
    }
}

#[tokio::test]
async fn endless_output_without_a_newline_is_one_line() {
    let limits = Limits { timeout: millis(500), ..tight() };
    let (ended, lines) = hostile_with_log(writes("stdout", ""), limits).await;
    assert_eq!(failure(&ended).kind, FailureKind::Timeout, "{}", failure(&ended));
    assert!(lines.len() == 1 && lines[0].message.len() <= 8 * 1024, "{} lines", lines.len());
}

#[tokio::test]
async fn bytes_that_are_no_text_become_text() {
    let items = format!("{STREAMS} (data (i32.const 4096) \"\\ff\\fe ok\\0a\")");
    let body = "(call $write (call $stdout) (i32.const 4096) (i32.const 6) (i32.const 2048))";
    let (ended, lines) = hostile_with_log(guest(&items, body), tight()).await;
    assert_eq!(output(&ended), b"done");
    assert_eq!(lines[0].message, "\u{fffd}\u{fffd} ok");
}

#[tokio::test]
async fn a_guest_that_asks_for_four_gigabytes_of_random_bytes_pays_for_them() {
    let body = "(local.set $i (i32.const 65536))
        (loop $more
          (global.set $next (i32.const 65536))
          (call $random (i64.const 65536) (i32.const 2048))
          (br_if $more (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))";
    let ended = hostile(guest(RANDOM, body), Limits { cpu: Some(millis(200)), ..tight() }).await;
    assert_eq!(failure(&ended).kind, FailureKind::Cpu, "{}", failure(&ended));
}

#[tokio::test]
async fn random_bytes_are_bounded_for_each_call() {
    let ask = |bytes| guest(RANDOM, &format!("(call $random (i64.const {bytes}) (i32.const 2048))"));
    assert_eq!(output(&hostile(ask(60_000), tight()).await), b"done");
    for bytes in [100_000_u64, 1 << 32, 1 << 62] {
        let ended = hostile(ask(bytes), tight()).await;
        assert_eq!(failure(&ended).kind, FailureKind::Random, "{}", failure(&ended));
        assert!(failure(&ended).message.contains("65536 random bytes in one call (random_max)"), "{}", failure(&ended));
    }
    let less = Limits { random: 16, ..tight() };
    assert_eq!(failure(&hostile(ask(17), less).await).kind, FailureKind::Random);
}

#[tokio::test]
async fn ten_million_handles_are_not_to_be_had() {
    let body = "(local.set $i (i32.const 10000000))
        (loop $more
          (drop (call $timer (i64.const 1)))
          (br_if $more (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))";
    for handles in [10_000, 100] {
        let ended = hostile(guest(TIMER, body), Limits { handles, ..tight() }).await;
        assert_eq!(failure(&ended).kind, FailureKind::Handles, "{}", failure(&ended));
        assert!(failure(&ended).message.contains("(handles_max)"), "{}", failure(&ended));
        assert!(ended.usage.host_calls <= handles as u64 + 1, "{:?}", ended.usage);
    }
}

#[tokio::test]
async fn a_guest_that_was_refused_memory_and_then_breaks_another_limit_fails_by_that_one() {
    let body = "(drop (memory.grow (i32.const 10000))) (call $random (i64.const 100000) (i32.const 2048))";
    let ended = hostile(guest(RANDOM, body), tight()).await;
    assert_eq!(failure(&ended).kind, FailureKind::Random, "{}", failure(&ended));
}
