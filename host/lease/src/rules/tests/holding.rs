//! Heartbeat, finish, release and writes: what the holder of the current token may do.

use super::*;
use crate::run::{AttemptEnd, Progress};

#[test]
fn a_heartbeat_renews_by_exactly_the_lease() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.go_ms(4_321);
    let lease_end = ms(4_321 + LEASE * 1_000);
    assert_eq!(store.beat(&run, 1), HeartbeatAnswer::Renewed { lease_end, cancelled: false });
    assert_eq!(store.run(&run).lease_end, lease_end);
}

#[test]
fn a_heartbeat_may_shorten_a_lease_after_the_clock_was_set_back() {
    let mut store = Store::new();
    let run = store.running(3_600, 1);
    store.go(0);
    assert_eq!(store.beat(&run, 1), HeartbeatAnswer::Renewed { lease_end: ms(LEASE * 1_000), cancelled: false });
}

#[test]
fn an_expired_run_that_nobody_took_over_may_be_renewed() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.go(1_000);
    assert!(matches!(store.beat(&run, 1), HeartbeatAnswer::Renewed { .. }));
    assert!(store.run(&run).live(store.now));
}

#[test]
fn a_heartbeat_with_another_token_is_refused() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    assert_eq!(store.unchanged(|s| s.beat(&run, 2)), HeartbeatAnswer::Refused);
    store.go(31);
    store.take_over(0, 2);
    assert_eq!(store.unchanged(|s| s.beat(&run, 1)), HeartbeatAnswer::Refused);
}

#[test]
fn a_released_lease_stays_released() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.release(&run, 1);
    // S5: neither a heartbeat sent before the release nor a clock set back brings it back to life.
    for at in [0, -100, 100] {
        store.go(at);
        assert_eq!(store.unchanged(|s| s.beat(&run, 1)), HeartbeatAnswer::Refused);
        assert!(!store.run(&run).live(store.now));
    }
}

#[test]
fn a_heartbeat_of_a_finished_run_is_refused() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.finish(&run, 1, success());
    assert_eq!(store.unchanged(|s| s.beat(&run, 1)), HeartbeatAnswer::Refused);
}

#[test]
fn a_heartbeat_carries_progress_and_one_without_keeps_the_last() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    let progress = Some(Progress { done: 3, total: Some(9), message: "rows".into() });
    let beat = Heartbeat { run: run.clone(), token: token(1), progress: progress.clone() };
    heartbeat(&mut store.job, store.now, &beat);
    store.beat(&run, 1);
    assert_eq!(store.run(&run).progress, progress);
    store.go(31);
    store.take_over(0, 2);
    assert_eq!(store.run(&run).progress, None, "the next attempt begins anew");
}

#[test]
fn a_finish_ends_the_run_with_its_outcome_and_usage() {
    let mut store = Store::new();
    for (due, outcome, status, end) in [
        (0, success(), Status::Success, AttemptEnd::Success),
        (60, failure(), Status::Failed, AttemptEnd::Failed),
        (120, Outcome::Interrupted { reason: "asked".into() }, Status::Interrupted, AttemptEnd::Cancelled),
    ] {
        let run = store.running(due, 1);
        store.go(due + 5);
        assert_eq!(store.finish(&run, 1, outcome.clone()), Accepted::Done);
        let run = store.run(&run);
        assert_eq!((run.status, run.ended_at, &run.outcome), (status, Some(store.now), &Some(outcome)));
        assert_eq!(run.attempts[0].ended, Some((store.now, end)));
        assert_eq!(run.attempts[0].usage.map(|u| u.wall_ms), Some(7));
    }
}

#[test]
fn the_same_finish_again_is_done_and_another_outcome_is_refused() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.finish(&run, 1, success());
    store.go(500);
    assert_eq!(store.unchanged(|s| s.finish(&run, 1, success())), Accepted::Done);
    assert_eq!(store.unchanged(|s| s.finish(&run, 1, failure())), Accepted::Refused);
    assert_eq!(store.unchanged(|s| s.finish(&run, 2, success())), Accepted::Refused);
}

#[test]
fn a_run_that_the_store_gave_up_was_not_finished_by_its_holder() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.go(60);
    store.claim(60, 2);
    let reason = store.run(&run).outcome.clone().unwrap();
    assert_eq!(store.unchanged(|s| s.finish(&run, 1, reason)), Accepted::Refused);
}

#[test]
fn an_expired_run_that_nobody_took_over_may_be_finished() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.go(1_000);
    assert_eq!(store.finish(&run, 1, success()), Accepted::Done);
}

#[test]
fn a_finish_after_a_release_is_refused() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.release(&run, 1);
    assert_eq!(store.unchanged(|s| s.finish(&run, 1, success())), Accepted::Refused);
}

#[test]
fn a_finish_of_an_earlier_attempt_is_refused() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.go(31);
    store.take_over(0, 2);
    assert_eq!(store.unchanged(|s| s.finish(&run, 1, success())), Accepted::Refused);
    assert_eq!(store.finish(&run, 2, success()), Accepted::Done);
}

#[test]
fn a_release_ends_the_lease_at_once_and_the_attempt_is_not_counted() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.go(3);
    assert_eq!(store.release(&run, 1), Accepted::Done);
    let record = store.run(&run);
    assert_eq!((record.status, record.released, record.lease_end), (Status::Running, true, ms(3_000)));
    assert_eq!((record.starts, record.hand_overs, record.attempts_used()), (1, 1, 0));
    assert_eq!(record.attempts[0].ended, Some((ms(3_000), AttemptEnd::HandedOver)));
    assert_won(&store.take_over(0, 2), 2);
}

#[test]
fn a_release_again_is_done_and_changes_nothing_whatever_became_of_the_run() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.release(&run, 1);
    store.go(1);
    assert_eq!(store.unchanged(|s| s.release(&run, 1)), Accepted::Done);
    store.take_over(0, 2);
    assert_eq!(store.unchanged(|s| s.release(&run, 1)), Accepted::Done, "the next attempt is not touched");
    store.finish(&run, 2, success());
    assert_eq!(store.unchanged(|s| s.release(&run, 1)), Accepted::Done);
}

#[test]
fn a_release_with_another_token_or_of_an_ended_run_is_refused() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    assert_eq!(store.unchanged(|s| s.release(&run, 2)), Accepted::Refused);
    store.go(31);
    store.take_over(0, 2);
    assert_eq!(store.unchanged(|s| s.release(&run, 1)), Accepted::Refused, "lost, not handed over");
    store.finish(&run, 2, success());
    assert_eq!(store.unchanged(|s| s.release(&run, 2)), Accepted::Refused);
}

#[test]
fn the_holder_of_a_run_that_anothers_win_released_may_still_hand_it_over() {
    let mut store = Store::new();
    store.trigger("a");
    store.claim_demand("a", 1);
    store.go(60);
    store.claim(60, 2);
    assert_eq!(store.release(&demand("a"), 1), Accepted::Done);
    assert_eq!(store.run(&demand("a")).hand_overs, 1);
    assert_eq!(store.unchanged(|s| s.release(&demand("a"), 1)), Accepted::Done, "counted once");
}

#[test]
fn a_write_is_carried_out_once_per_number_and_renews_nothing() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    let lease_end = store.run(&run).lease_end;
    store.go(10);
    assert_eq!(store.write(&run, 1, 1), Written::Done);
    assert_eq!(store.write(&run, 1, 5), Written::Done, "numbers may leave gaps");
    assert_eq!(store.unchanged(|s| s.write(&run, 1, 5)), Written::Done, "as the first was answered");
    for number in [4, 1, 0] {
        assert_eq!(store.unchanged(|s| s.write(&run, 1, number)), Written::Past);
    }
    assert_eq!(store.run(&run).lease_end, lease_end);
}

#[test]
fn each_attempt_numbers_its_own_writes() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.write(&run, 1, 9);
    store.go(31);
    store.take_over(0, 2);
    assert_eq!(store.unchanged(|s| s.write(&run, 1, 10)), Written::Refused);
    assert_eq!(store.write(&run, 2, 1), Written::Done);
}

#[test]
fn a_write_after_release_or_end_is_refused() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.release(&run, 1);
    assert_eq!(store.unchanged(|s| s.write(&run, 1, 1)), Written::Refused);
    store.take_over(0, 2);
    store.write(&run, 2, 1);
    store.finish(&run, 2, success());
    assert_eq!(store.unchanged(|s| s.write(&run, 2, 2)), Written::Refused);
}

#[test]
fn for_an_unknown_run_everything_is_refused_and_nothing_is_created() {
    let mut store = Store::new();
    for run in [slot(0), demand("a")] {
        assert_eq!(store.unchanged(|s| s.beat(&run, 1)), HeartbeatAnswer::Refused);
        assert_eq!(store.unchanged(|s| s.finish(&run, 1, success())), Accepted::Refused);
        assert_eq!(store.unchanged(|s| s.release(&run, 1)), Accepted::Refused);
        assert_eq!(store.unchanged(|s| s.write(&run, 1, 1)), Written::Refused);
    }
}

#[test]
fn a_pending_run_has_no_holder() {
    let mut store = Store::new();
    store.trigger("a");
    let run = demand("a");
    assert_eq!(store.unchanged(|s| s.beat(&run, 1)), HeartbeatAnswer::Refused);
    assert_eq!(store.unchanged(|s| s.release(&run, 1)), Accepted::Refused);
    assert_eq!(store.unchanged(|s| s.finish(&run, 1, success())), Accepted::Refused);
}
