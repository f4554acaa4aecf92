//! Cancel, close, unblock and hold.

use super::*;

#[test]
fn a_pending_run_is_cancelled_at_once() {
    let mut store = Store::new();
    store.trigger("a");
    assert_eq!(store.cancel(&demand("a")), CancelAnswer::Interrupted);
    assert_eq!(store.run(&demand("a")).outcome, Some(Outcome::Interrupted { reason: "cancelled by a test".into() }));
    assert_eq!(store.unchanged(|s| s.cancel(&demand("a"))), CancelAnswer::Ended(Status::Interrupted));
    assert_eq!(store.unchanged(|s| s.claim_demand("a", 1)), ClaimAnswer::Ended(Status::Interrupted));
}

#[test]
fn the_runner_of_a_cancelled_run_is_told_with_its_next_heartbeat() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    assert_eq!(store.cancel(&run), CancelAnswer::Told);
    assert_eq!(store.unchanged(|s| s.cancel(&run)), CancelAnswer::Told, "asked for once");
    let lease_end = ms(LEASE * 1_000);
    assert_eq!(store.beat(&run, 1), HeartbeatAnswer::Renewed { lease_end, cancelled: true });
    let outcome = Outcome::Interrupted { reason: "cancelled".into() };
    assert_eq!(store.finish(&run, 1, outcome), Accepted::Done);
    assert_eq!(store.status(&run), Status::Interrupted);
}

#[test]
fn a_cancelled_run_whose_handler_returned_well_is_a_success() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.cancel(&run);
    assert_eq!(store.finish(&run, 1, success()), Accepted::Done);
    assert_eq!(store.status(&run), Status::Success);
}

#[test]
fn a_cancelled_run_whose_runner_died_is_not_started_again() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.cancel(&run);
    store.go(31);
    assert_eq!(store.take_over(0, 2), ClaimAnswer::Ended(Status::Interrupted));
    assert_eq!(store.unchanged(|s| s.beat(&run, 1)), HeartbeatAnswer::Refused);
}

#[test]
fn an_expired_run_is_cancelled_at_once() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.go(31);
    assert_eq!(store.cancel(&run), CancelAnswer::Interrupted);
    assert_eq!(store.unchanged(|s| s.beat(&run, 1)), HeartbeatAnswer::Refused);
}

#[test]
fn an_unknown_run_is_neither_cancelled_nor_closed_nor_created() {
    let mut store = Store::new();
    assert_eq!(store.unchanged(|s| s.cancel(&slot(0))), CancelAnswer::None);
    assert_eq!(store.unchanged(|s| s.close(&slot(0))), CloseAnswer::None);
}

#[test]
fn an_orphan_is_closed_once_no_host_has_offered_it_for_long_enough() {
    let mut store = Store::new();
    store.announce("x");
    let run = store.running(0, 1);
    assert_eq!(store.unchanged(|s| s.close(&run)), CloseAnswer::Live);
    store.go(60);
    assert_eq!(store.unchanged(|s| s.close(&run)), CloseAnswer::Offered);
    store.go_ms(60_001);
    assert_eq!(store.close(&run), CloseAnswer::Closed);
    assert_eq!(store.status(&run), Status::Interrupted);
    assert_eq!(store.unchanged(|s| s.close(&run)), CloseAnswer::Ended(Status::Interrupted));
}

#[test]
fn a_pending_run_of_a_job_that_nobody_ever_offered_is_closed() {
    let mut store = Store::new();
    store.go(5).trigger("a");
    store.go(65);
    assert_eq!(store.unchanged(|s| s.close(&demand("a"))), CloseAnswer::Offered);
    store.go_ms(65_001);
    assert_eq!(store.close(&demand("a")), CloseAnswer::Closed);
}

/// A job whose slot 3 600 s ahead started while the store's clock was wrong, now at 0 s again.
fn blocked() -> Store {
    let mut store = Store::new();
    store.running(3_600, 1);
    store.go(0);
    assert_eq!(store.claim(0, 2), ClaimAnswer::Superseded { newest_started: Some(Slot(ms(3_600_000))) });
    store
}

#[test]
fn a_job_is_not_unblocked_while_a_run_of_a_future_slot_is_live() {
    let mut store = blocked();
    assert_eq!(store.unchanged(|s| s.unblock(0)), UnblockAnswer::Live { run: slot(3_600) });
}

#[test]
fn an_unblocked_job_starts_its_due_slots_again_and_never_the_future_one_twice() {
    let mut store = blocked();
    store.finish(&slot(3_600), 1, success());
    let fence_before = store.job.last_fence;
    assert_eq!(store.unblock(0), UnblockAnswer::Unblocked);
    assert_eq!(store.job.newest_started, Some(Slot(ms(0))));
    assert_eq!(store.job.since, Some(ms(0)));
    store.go(10);
    let answer = store.claim(10, 2);
    assert_won(&answer, 1);
    assert!(fence(&answer) > fence_before.0, "the fence never falls");
    store.finish(&slot(10), 2, success());
    store.go(3_600);
    assert_eq!(store.claim(3_600, 3), ClaimAnswer::Ended(Status::Success));
}

#[test]
fn a_takeover_of_the_future_run_does_not_block_the_job_again() {
    let mut store = blocked();
    store.release(&slot(3_600), 1);
    assert_eq!(store.unblock(0), UnblockAnswer::Unblocked);
    assert_eq!(store.take_over(3_600, 2), ClaimAnswer::Ended(Status::Interrupted));
    assert_eq!(store.job.newest_started, Some(Slot(ms(0))));
}

#[test]
fn a_job_that_is_not_blocked_is_left_as_it_is() {
    let mut store = Store::new();
    store.announce("x");
    let run = store.running(0, 1);
    store.finish(&run, 1, success());
    store.go(5);
    assert_eq!(store.unchanged(|s| s.unblock(0)), UnblockAnswer::NotBlocked);
}

#[test]
fn an_unblock_from_a_clock_that_is_ahead_does_not_block_the_job_anew() {
    let mut store = blocked();
    store.finish(&slot(3_600), 1, success());
    assert_eq!(store.unblock(1_800), UnblockAnswer::Unblocked);
    assert_eq!(store.job.newest_started, Some(Slot(ms(0))));
}

#[test]
fn a_held_job_skips_its_slots_and_catches_none_of_them_up() {
    let mut store = Store::new();
    store.announce("x");
    store.hold(Some(Some(100)));
    store.go(50);
    assert_eq!(store.claim(50, 1), ClaimAnswer::Held { until: Some(ms(100_000)) });
    assert_eq!(store.unchanged(|s| s.claim(50, 1)), ClaimAnswer::Held { until: Some(ms(100_000)) });
    store.go(100);
    assert_eq!(store.catch_up(50, 1), ClaimAnswer::Superseded { newest_started: None });
    assert_won(&store.claim(100, 2), 1);
}

#[test]
fn a_slot_that_was_held_back_is_not_caught_up_though_no_host_saw_it() {
    // From 10 s on until 50 s: by itself, or because it was let go then.
    for until in [Some(50), None] {
        let held = || {
            let mut store = Store::new();
            store.announce("x");
            store.go(10).hold(Some(until));
            store.go(50);
            store.hold(None);
            store.go(60);
            store.unchanged(|s| s.hold(None));
            store
        };
        for slot in [10, 49] {
            let mut store = held();
            assert_eq!(store.catch_up(slot, 1), ClaimAnswer::Held { until: Some(ms(50_000)) });
            assert_eq!(store.job.newest_skipped, Some(Slot(ms(slot * 1_000))));
            assert_eq!(store.unchanged(|s| s.catch_up(slot, 1)), ClaimAnswer::Superseded { newest_started: None });
        }
        assert_eq!(held().claim(49, 1), ClaimAnswer::Held { until: Some(ms(50_000)) });
        // What was due before that, and after.
        for slot in [9, 50] {
            assert_won(&held().catch_up(slot, 1), 1);
        }
        assert_won(&held().claim(60, 1), 1);
    }
}

#[test]
fn what_was_paused_and_resumed_while_the_clock_was_ahead_is_not_paused_when_it_is_corrected() {
    for until in [Some(3_000), None] {
        let mut store = Store::new();
        store.announce("x");
        store.go(2_000).hold(Some(until));
        store.go(2_500);
        if until.is_none() {
            store.hold(None);
        }
        store.go(100);
        assert_won(&store.claim(100, 1), 1);
        store.announce("x");
        assert_eq!(store.job.hold, None);
    }
    // One that nobody has resumed stays.
    let mut store = Store::new();
    store.go(2_000).hold(Some(None));
    store.go(100).announce("x");
    assert_eq!(store.claim(100, 1), ClaimAnswer::Held { until: None });
}

#[test]
fn a_hold_that_is_over_is_forgotten_after_a_day() {
    const DAY: i64 = 24 * 3_600;
    let mut store = Store::new();
    store.hold(Some(Some(50)));
    store.go(50 + DAY).announce("x");
    assert!(store.job.hold.is_some());
    store.go(51 + DAY).announce("x");
    assert_eq!(store.job.hold, None);
    store.hold(Some(None));
    store.go(60 + 2 * DAY).announce("x");
    assert!(store.job.hold.is_some(), "it is in force");
}

#[test]
fn what_runs_when_a_job_is_held_goes_on_and_is_taken_over() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.trigger("a");
    store.hold(Some(None));
    assert!(matches!(store.beat(&run, 1), HeartbeatAnswer::Renewed { .. }));
    store.go(31);
    assert_won(&store.take_over(0, 2), 2);
    store.finish(&run, 2, success());
    assert_won(&store.claim_demand("a", 3), 1);
    assert_eq!(store.claim(31, 4), ClaimAnswer::Held { until: None });
    store.hold(None);
    store.unchanged(|s| s.hold(None));
}

#[test]
fn after_an_unblock_the_record_of_a_future_run_stays_until_a_newer_slot_has_started() {
    let mut store = blocked();
    store.finish(&slot(3_600), 1, success());
    store.unblock(0);
    store.go(10_000);
    assert_eq!(store.unchanged(|s| s.prune(0)), vec![]);
    store.go(3_600);
    assert_eq!(store.claim(3_600, 2), ClaimAnswer::Ended(Status::Success));
    assert_won(&store.claim(3_610, 2), 1);
    store.go(10_000);
    assert_eq!(store.prune(0), vec![slot(3_600)]);
}
