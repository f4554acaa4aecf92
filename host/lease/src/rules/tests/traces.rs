//! Traces that broke earlier wordings of the contract, as far as the store decides them.

use super::*;

#[test]
fn a_skipped_slot_does_not_start_behind_a_newer_one() {
    let mut store = Store::new();
    let first = store.running(0, 1);
    for due in [3, 6] {
        store.go(due);
        assert_eq!(store.claim(due, 2), ClaimAnswer::Overlap { with: first.clone() });
    }
    store.go(7);
    store.finish(&first, 1, success());
    // A backup's check of the slot that it saw skipped creates no run.
    assert_eq!(store.unchanged(|s| s.take_over(3, 3)), ClaimAnswer::None { newest_started: first.slot() });
    store.running(9, 4);
    assert_eq!(store.unchanged(|s| s.claim(3, 5)), ClaimAnswer::Superseded { newest_started: slot(9).slot() });
    assert_eq!(store.unchanged(|s| s.claim(6, 5)), ClaimAnswer::Superseded { newest_started: slot(9).slot() });
}

#[test]
fn a_late_copy_of_a_lost_attempts_claim_wins_nothing() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.go(31);
    assert_won(&store.take_over(0, 2), 2);
    store.release(&run, 2);
    assert_eq!(store.unchanged(|s| s.claim(0, 1)), ClaimAnswer::Stale);
    assert_eq!(store.unchanged(|s| s.beat(&run, 1)), HeartbeatAnswer::Refused);
    assert_eq!(store.unchanged(|s| s.finish(&run, 1, success())), Accepted::Refused);
}

#[test]
fn two_releases_count_one_hand_over() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.release(&run, 1);
    store.release(&run, 1);
    assert_eq!(store.run(&run).hand_overs, 1);
}

#[test]
fn a_clock_set_back_does_not_revive_what_an_on_demand_win_found_expired() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.trigger("a");
    store.go(40);
    assert_won(&store.claim_demand("a", 2), 1);
    store.go(10);
    let live = store.job.runs.values().filter(|run| run.live(store.now)).count();
    assert_eq!(live, 1, "S7");
    for at in [10, 40, 1_000] {
        store.go(at);
        assert_eq!(store.unchanged(|s| s.beat(&run, 1)), HeartbeatAnswer::Refused);
    }
}

#[test]
fn a_slot_that_ran_and_was_pruned_is_superseded() {
    let mut store = Store::new();
    store.go(-100);
    store.announce("x");
    store.terms.catch_up = Duration::ZERO;
    store.terms.max_late = Duration::ZERO;
    let run = store.running(0, 1);
    store.finish(&run, 1, success());
    store.go(11);
    assert_eq!(store.prune(0), [run]);
    store.terms = terms();
    assert_eq!(store.unchanged(|s| s.catch_up(0, 2)), ClaimAnswer::Superseded { newest_started: slot(0).slot() });
    assert_eq!(store.unchanged(|s| s.claim(0, 2)), ClaimAnswer::Superseded { newest_started: slot(0).slot() });
}

#[test]
fn a_pruned_on_demand_run_triggered_again_the_same_day_does_not_run_twice() {
    let mut store = Store::new();
    store.trigger("r");
    store.claim_demand("r", 1);
    store.finish(&demand("r"), 1, success());
    store.go(10_000);
    assert_eq!(store.prune(0), [demand("r")]);
    assert_eq!(store.unchanged(|s| s.trigger("r")), TriggerAnswer::Ended);
    assert_eq!(store.unchanged(|s| s.claim_demand("r", 2)), ClaimAnswer::None { newest_started: None });
}

#[test]
fn a_late_copy_of_an_older_write_is_not_carried_out() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    assert_eq!(store.write(&run, 1, 2), Written::Done);
    assert_eq!(store.unchanged(|s| s.write(&run, 1, 1)), Written::Past);
    assert_eq!(store.unchanged(|s| s.write(&run, 1, 2)), Written::Done);
}

#[test]
fn after_the_clock_was_set_back_an_hour_a_dead_run_is_taken_over_within_a_lease() {
    let mut store = Store::new();
    store.running(3_600, 1);
    store.go(0);
    assert!(matches!(store.take_over(3_600, 2), ClaimAnswer::Running { .. }));
    store.go_ms(LEASE * 1_000 + 1);
    assert_won(&store.take_over(3_600, 2), 2);
}

#[test]
fn a_delayed_copy_of_a_claim_refused_for_overlap_does_not_win_with_nobody_listening() {
    let mut store = Store::new();
    store.trigger("a");
    let run = store.running(0, 1);
    let ask = Claim { not_after: ms(2_000), ..store.ask(demand("a"), ClaimKind::OnDemand, 2) };
    assert_eq!(store.unchanged(|s| s.send(&ask)), ClaimAnswer::Overlap { with: run.clone() });
    store.go(5);
    store.finish(&run, 1, success());
    assert_eq!(store.unchanged(|s| s.send(&ask)), ClaimAnswer::Old);
    assert_eq!(store.status(&demand("a")), Status::Pending);
}

#[test]
fn a_hand_over_does_not_use_up_an_attempt() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.release(&run, 1);
    for n in 2..=4 {
        store.go(i64::from(n) * 31);
        assert_won(&store.take_over(0, n), u32::from(n));
    }
    store.go(1_000);
    assert_eq!(store.take_over(0, 5), ClaimAnswer::Ended(Status::Interrupted), "4 starts, 1 hand-over");

    let mut store = Store::new();
    store.terms.max_attempts = 1;
    let run = store.running(0, 1);
    store.release(&run, 1);
    assert_won(&store.take_over(0, 2), 2);
    store.go(31);
    assert_eq!(store.take_over(0, 3), ClaimAnswer::Ended(Status::Interrupted));
}

/// A cluster that is deployed again and again while a run goes on.
#[test]
fn however_often_a_run_is_handed_over_no_attempt_is_used_up() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    for host in 1..=5 {
        assert_eq!(store.go(i64::from(host)).release(&run, host), Accepted::Done);
        assert_won(&store.take_over(0, host + 1), u32::from(host) + 1);
    }
    let record = store.run(&run);
    assert_eq!((record.starts, record.hand_overs, record.attempts_used()), (6, 5, 1));
}

#[test]
fn under_allow_a_takeover_interrupts_the_older_expired_run_in_its_revision() {
    let mut store = Store::allowing();
    let old = store.running(0, 1);
    store.release(&old, 1);
    assert_won(&store.take_over(0, 2), 2);
    store.running(5, 3);
    store.go(100);
    let revision = store.job.revision;
    assert_won(&store.take_over(5, 4), 2);
    assert_eq!((store.status(&old), store.job.revision), (Status::Interrupted, revision + 1));
}

#[test]
fn under_allow_each_resent_claim_gets_its_own_fence_back() {
    let mut store = Store::allowing();
    let first = store.claim(0, 1);
    store.go(5);
    let second = store.claim(5, 2);
    assert_ne!(fence(&first), fence(&second));
    assert_eq!(store.unchanged(|s| s.claim(0, 1)), first);
    assert_eq!(store.unchanged(|s| s.claim(5, 2)), second);
}

#[test]
fn a_long_runs_finish_may_be_sent_again_although_no_history_is_kept() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    for at in 1..=360 {
        store.go(at * 10);
        store.beat(&run, 1);
    }
    assert_eq!(store.finish(&run, 1, success()), Accepted::Done);
    assert!(store.prune(0).is_empty(), "the slot is an hour ago, the end is not");
    assert_eq!(store.unchanged(|s| s.finish(&run, 1, success())), Accepted::Done);
}
