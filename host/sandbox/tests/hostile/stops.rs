//! Guests that go on after they were told to stop.

use std::sync::Arc;
use std::time::Duration;

use leasehold_sandbox::{FailureKind, GuestEnd, Invocation, Limits, StopReason};

use crate::support::outward::*;
use crate::support::watch::Watch;
use crate::support::*;
use crate::watch::tight;

const CONTROL: &str = r#"
  (import "leasehold:job/control@0.1.0" "stop-reason" (func $stop_reason (param i32)))
  (import "leasehold:job/control@0.1.0" "remaining-ms" (func $remaining (param i32)))
  (import "leasehold:job/control@0.1.0" "idempotency-key" (func $key (param i32 i32 i32)))
  (import "leasehold:job/log@0.1.0" "max-level" (func $max_level (result i32)))
  (import "wasi:clocks/monotonic-clock@0.2.12" "now" (func $now (result i64)))"#;

/// Calls of the host, one each, with arguments that are right.
const CALLS: [&str; 14] = [
    "(drop (call $should_continue))",
    "(call $stop_reason (i32.const 2048))",
    "(call $remaining (i32.const 2048))",
    "(call $key (i32.const 1024) (i32.const 4) (i32.const 2048))",
    "(drop (call $sleep (i64.const 1)))",
    "(drop (call $max_level))",
    "(call $emit (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 1024) (i32.const 4) (i32.const 0) (i32.const 0))",
    "(call $update (i64.const 9) (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0))",
    "(drop (call $now))",
    "(drop (call $timer (i64.const 1)))",
    "(call $block (call $timer (i64.const 1)))",
    "(call $random (i64.const 8) (i32.const 2048))",
    "(call $environment (i32.const 2048))",
    "(call $write (call $stdout) (i32.const 1024) (i32.const 4) (i32.const 2048))",
];

/// Says that it is there, sleeps until it is told to stop, and then does `after`.
fn woken(after: &str) -> Vec<u8> {
    let items = [CONTROL, SHOULD_CONTINUE, SLEEP, EMIT, UPDATE, TIMER, RANDOM, ENVIRONMENT, STREAMS].concat();
    let body = format!(
        "(call $update (i64.const 1) (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0))
         (drop (call $sleep (i64.const -1)))
         {after}"
    );
    guest(&items, &body)
}

#[tokio::test]
async fn after_a_loss_every_call_of_the_host_fails_and_does_nothing() {
    let sandbox = sandbox();
    for call in CALLS {
        // Whatever the call answered, the guest would go on to report 7.
        let after =
            format!("{call} (call $update (i64.const 7) (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0))");
        let plugin = load(&sandbox, woken(&after)).await;
        let lines = Arc::new(Lines::default());
        let mut invocation = invocation(tight());
        invocation.logs = lines.clone();
        let execution = sandbox.start(&plugin, invocation);
        let progress = execution.progress();
        is_there(&execution).await;
        execution.signal().stop(StopReason::Lost);
        let ended = execution.await;
        assert_eq!((failure(&ended).kind, ended.stop), (FailureKind::Lost, Some(StopReason::Lost)), "{call}");
        assert_eq!(progress.borrow().as_ref().map(|progress| progress.done), Some(1), "{call}");
        assert!(lines.all().is_empty(), "{call}: nothing is recorded");
    }
}

#[tokio::test]
async fn after_any_other_stop_the_host_still_answers() {
    let sandbox = sandbox();
    let plugin = load(&sandbox, woken(&CALLS.concat())).await;
    for reason in [StopReason::Stopping, StopReason::Cancelled, StopReason::Deadline] {
        let execution = sandbox.start(&plugin, invocation(tight()));
        is_there(&execution).await;
        execution.signal().stop(reason);
        let ended = execution.await;
        assert_eq!((output(&ended), ended.stop), (&b"done"[..], Some(reason)));
    }
}

#[tokio::test]
async fn what_ended_a_guest_first_is_not_covered_by_what_comes_later() {
    let sandbox = sandbox();
    let plugin = load(&sandbox, guest("", "(unreachable)")).await;
    let execution = sandbox.start(&plugin, invocation(tight()));
    let signal = execution.signal();
    let ended = execution.await;
    signal.stop(StopReason::Stopping);
    assert_eq!((failure(&ended).kind, ended.stop), (FailureKind::Trap, None));
}

/// Guests that are busy in every way, without end: computing, waiting, asking, writing, sending.
fn busy(server: &Server) -> Vec<Vec<u8>> {
    // Memory for what the host writes is taken again and again.
    let again = |call: &str| format!("(loop $more (global.set $next (i32.const 65536)) {call} (br $more))");
    let mut guests: Vec<Vec<u8>> = [
        SPIN.to_owned(),
        again("(drop (call $sleep (i64.const 1)))"),
        again(CALLS[11]),
        again(CALLS[6]),
        "(local.set $i (i32.const 20000)) (loop $more (br_if $more (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
         (unreachable)"
            .to_owned(),
    ]
    .iter()
    .map(|body| guest(&[SLEEP, RANDOM, EMIT].concat(), body))
    .collect();
    for (import, params, call, _) in STORED {
        let (interface, function) = import.split_once('.').expect("interface.function");
        let items = format!(
            r#"(import "leasehold:job/{interface}@0.1.0" "{function}" (func $call (param {params})))
               (data (i32.const 4096) "key") (data (i32.const 4104) "value")"#
        );
        guests.push(guest(&items, &again(&format!("(call $call {call} (i32.const 2048))"))));
    }
    guests.push(asking(&Ask { times: 200, ..get(server.url()) }));
    guests
}

#[tokio::test]
async fn ten_thousand_guests_are_forced_at_any_moment_and_the_host_lives() {
    const TIMES: usize = 10_000;
    const AT_A_TIME: usize = 16;
    let sandbox = sandbox();
    let server = Server::start(Manner::Says(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello".to_vec())).await;
    let effects = granting(&[&server.url()]);
    let mut plugins = Vec::new();
    for bytes in busy(&server) {
        plugins.push(load(&sandbox, bytes).await);
    }
    let limits = Limits { memory: 64 << 20, ..tight() };
    let watch = Watch::start();
    let seed = 1 + std::process::id();
    eprintln!("seed {seed}");
    let mut chance = seed;
    let mut next = plugins.iter().cycle();
    for _ in 0..TIMES / AT_A_TIME {
        let start = |plugin| sandbox.start(plugin, Invocation { effects: effects.clone(), ..invocation(limits) });
        let running: Vec<_> = next.by_ref().take(AT_A_TIME).map(start).collect();
        for execution in running {
            chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            tokio::time::sleep(Duration::from_micros(u64::from(chance >> 22) / AT_A_TIME as u64)).await;
            execution.signal().force();
            let ended = execution.await;
            let kind = failure(&ended).kind;
            assert!(matches!(kind, FailureKind::Interrupted | FailureKind::Trap), "seed {seed}: {kind}");
        }
    }
    watch.assert_flat(limits.memory);
    assert_eq!(sandbox.memory().used(), 0);
    let plugin = load(&sandbox, guest("", "")).await;
    let ended = sandbox.start(&plugin, invocation(tight())).await;
    assert!(matches!(ended.end, GuestEnd::Output(_)), "the next guest is well: {:?}", ended.end);
}
