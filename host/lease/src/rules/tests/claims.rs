//! Claims, in the order in which the contract answers them.

use super::*;

#[test]
fn past_its_not_after_a_claim_wins_nothing_and_is_old() {
    let mut store = Store::new();
    let ask = Claim { not_after: ms(2_000), ..store.ask(slot(0), ClaimKind::Slot, 1) };
    store.go_ms(2_001);
    assert_eq!(store.unchanged(|s| s.send(&ask)), ClaimAnswer::Old);
    store.go_ms(2_000);
    assert_won(&store.send(&ask), 1);
}

#[test]
fn an_answer_carries_the_stores_time_and_the_jobs_revision() {
    let mut store = Store::new();
    store.go_ms(123);
    let ask = store.ask(slot(0), ClaimKind::Slot, 1);
    let won = claim(&mut store.job, store.now, &ask);
    assert_eq!((won.now, won.revision), (ms(123), 1));
    let again = claim(&mut store.job, ms(124), &ask);
    assert_eq!((again.now, again.revision), (ms(124), 1), "a resend changes nothing");
}

#[test]
fn the_token_of_an_earlier_attempt_is_stale_and_changes_nothing() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.go(31);
    assert_won(&store.take_over(0, 2), 2);
    assert_eq!(store.unchanged(|s| s.claim(0, 1)), ClaimAnswer::Stale);
    store.finish(&run, 2, success());
    assert_eq!(store.unchanged(|s| s.claim(0, 1)), ClaimAnswer::Stale, "before the run's end is looked at");
}

#[test]
fn the_current_token_that_is_not_live_is_stale() {
    let mut store = Store::new();
    store.running(0, 1);
    store.go_ms(LEASE * 1_000 + 1);
    assert_eq!(store.unchanged(|s| s.claim(0, 1)), ClaimAnswer::Stale, "expired");
    let run = store.running(60, 2);
    store.release(&run, 2);
    assert_eq!(store.unchanged(|s| s.claim(60, 2)), ClaimAnswer::Stale, "released");
    let run = store.running(120, 3);
    store.finish(&run, 3, success());
    assert_eq!(store.unchanged(|s| s.claim(120, 3)), ClaimAnswer::Stale, "finished");
}

#[test]
fn the_current_token_that_is_live_is_answered_the_same_win_again() {
    let mut store = Store::new();
    let first = store.claim(0, 1);
    store.go(LEASE);
    assert_eq!(store.unchanged(|s| s.claim(0, 1)), first, "now = lease end is still live");
}

#[test]
fn a_run_that_has_ended_is_answered_with_its_status() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.finish(&run, 1, failure());
    for answer in [store.unchanged(|s| s.claim(0, 2)), store.unchanged(|s| s.take_over(0, 2))] {
        assert_eq!(answer, ClaimAnswer::Ended(Status::Failed));
    }
}

#[test]
fn a_live_run_is_answered_with_its_attempt_and_lease_end() {
    let mut store = Store::new();
    store.running(0, 1);
    store.go(LEASE);
    let running = ClaimAnswer::Running { attempt: Attempt(1), lease_end: ms(LEASE * 1_000) };
    assert_eq!(store.unchanged(|s| s.take_over(0, 2)), running, "the lease end belongs to the lease");
    store.go_ms(LEASE * 1_000 + 1);
    assert_won(&store.take_over(0, 2), 2);
}

#[test]
fn an_expired_scheduled_run_is_interrupted_once_a_newer_slot_has_started() {
    let mut store = Store::allowing();
    let old = store.running(0, 1);
    // The newer run starts while the old one is live, so that its win does not interrupt it.
    store.running(10, 2);
    store.go(41);
    assert_eq!(store.take_over(0, 3), ClaimAnswer::Ended(Status::Interrupted));
    assert_eq!(store.status(&old), Status::Interrupted);
    assert_eq!(store.run(&old).ended_at, Some(ms(41_000)));
}

#[test]
fn a_run_whose_attempts_are_used_up_is_interrupted() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    for n in 2..=3 {
        store.go(i64::from(n) * 31);
        assert_won(&store.take_over(0, n), u32::from(n));
    }
    store.go(200);
    assert_eq!(store.take_over(0, 4), ClaimAnswer::Ended(Status::Interrupted));
    assert_eq!(store.status(&run), Status::Interrupted);
    assert_eq!(store.beat(&run, 3), HeartbeatAnswer::Refused);
}

#[test]
fn under_skip_an_expired_run_waits_for_the_live_one() {
    let mut store = Store::new();
    store.running(0, 1);
    store.trigger("a");
    store.go(LEASE + 1);
    // The on-demand run releases the scheduled one and is live.
    assert_won(&store.claim_demand("a", 2), 1);
    assert_eq!(store.unchanged(|s| s.take_over(0, 3)), ClaimAnswer::Overlap { with: demand("a") });
    store.finish(&demand("a"), 2, success());
    assert_won(&store.take_over(0, 3), 2);
}

#[test]
fn an_expired_run_is_won_by_its_next_attempt_however_late() {
    let mut store = Store::new();
    store.running(0, 1);
    store.go(100_000);
    assert_won(&store.claim(0, 2), 2);
    let run = store.run(&slot(0));
    assert_eq!((run.starts, run.lease_end), (2, ms((100_000 + LEASE) * 1_000)));
}

#[test]
fn a_pending_run_is_won_by_its_first_attempt_with_its_payload() {
    let mut store = Store::new();
    store.trigger("a");
    store.go(100_000);
    let won = store.claim_demand("a", 1);
    assert!(matches!(won, ClaimAnswer::Won { attempt: Attempt(1), payload: Some(p), .. } if p == b"a"));
}

#[test]
fn a_takeover_and_an_on_demand_claim_create_no_run() {
    let mut store = Store::new();
    let none = ClaimAnswer::None { newest_started: None };
    assert_eq!(store.unchanged(|s| s.take_over(0, 1)), none);
    assert_eq!(store.unchanged(|s| s.claim_demand("a", 1)), none);
    let as_slot = store.ask(demand("a"), ClaimKind::Slot, 1);
    assert_eq!(store.unchanged(|s| s.send(&as_slot)), none, "only a trigger creates an on-demand run");
    store.running(0, 1);
    assert_eq!(store.take_over(60, 2), ClaimAnswer::None { newest_started: Some(Slot(ms(0))) });
}

#[test]
fn a_slot_is_late_beyond_max_late_and_ten_seconds() {
    let mut store = Store::new();
    store.go_ms(70_001);
    assert_eq!(store.unchanged(|s| s.claim(0, 1)), ClaimAnswer::Late);
    store.go_ms(70_000);
    assert_won(&store.claim(0, 1), 1);
}

#[test]
fn a_catch_up_is_late_beyond_its_age_when_sent_and_max_late() {
    let mut store = Store::new();
    store.go(-1_000);
    store.announce("x");
    let ask = store.ask(slot(0), ClaimKind::CatchUp { age: Duration::from_secs(100) }, 1);
    store.go_ms(170_001);
    assert_eq!(store.unchanged(|s| s.send(&ask)), ClaimAnswer::Late, "100 s + 60 s + 10 s");
    store.go_ms(170_000);
    assert_won(&store.send(&ask), 1);
}

#[test]
fn a_catch_up_is_late_beyond_catch_up_and_ten_seconds() {
    let mut store = Store::new();
    store.go(-1_000);
    store.announce("x");
    store.go_ms(310_001);
    assert_eq!(store.unchanged(|s| s.catch_up(0, 1)), ClaimAnswer::Late);
    store.go_ms(310_000);
    assert_won(&store.catch_up(0, 1), 1);
}

#[test]
fn an_age_beyond_all_bounds_is_no_panic() {
    let mut store = Store::new();
    store.announce("x");
    let ask = store.ask(slot(0), ClaimKind::CatchUp { age: Duration::MAX }, 1);
    assert_won(&store.send(&ask), 1);
}

#[test]
fn a_slot_more_than_ten_seconds_ahead_is_early() {
    let mut store = Store::new();
    store.go_ms(-10_001);
    assert_eq!(store.unchanged(|s| s.claim(0, 1)), ClaimAnswer::Early);
    store.go_ms(-10_000);
    assert_won(&store.claim(0, 1), 1);
}

#[test]
fn a_slot_not_after_the_newest_started_one_is_superseded() {
    let mut store = Store::new();
    let run = store.running(10, 1);
    store.finish(&run, 1, success());
    let superseded = ClaimAnswer::Superseded { newest_started: Some(Slot(ms(10_000))) };
    assert_eq!(store.unchanged(|s| s.claim(9, 2)), superseded);
    assert_won(&store.claim(11, 2), 1);
}

#[test]
fn a_catch_up_of_a_slot_that_was_skipped_or_before_since_is_superseded() {
    let mut store = Store::new();
    store.go(3);
    store.announce("x");
    let run = store.running(5, 1);
    store.go(9);
    assert_eq!(store.claim(9, 2), ClaimAnswer::Overlap { with: run.clone() });
    store.finish(&run, 1, success());
    store.go(12);
    let superseded = ClaimAnswer::Superseded { newest_started: Some(Slot(ms(5_000))) };
    assert_eq!(store.unchanged(|s| s.catch_up(9, 3)), superseded, "skipped");
    assert_eq!(store.unchanged(|s| s.catch_up(8, 3)), superseded, "older than the skipped one");
    for (since, wins) in [(Some(ms(2_001)), false), (Some(ms(2_000)), true), (None, false)] {
        let mut store = Store { job: Job { since, ..Job::default() }, now: ms(4_000), terms: terms() };
        let answer = store.catch_up(2, 1);
        let refused = answer == ClaimAnswer::Superseded { newest_started: None };
        assert!(refused != wins && wins == matches!(answer, ClaimAnswer::Won { .. }), "since {since:?}: {answer:?}");
    }
}

#[test]
fn a_slot_that_overlaps_is_remembered_as_skipped_and_may_still_be_claimed_itself() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.go(20);
    assert_eq!(store.claim(20, 2), ClaimAnswer::Overlap { with: run.clone() });
    assert_eq!(store.claim(15, 2), ClaimAnswer::Overlap { with: run.clone() });
    assert_eq!(store.job.newest_skipped, Some(Slot(ms(20_000))), "it does not go down");
    store.finish(&run, 1, success());
    assert_won(&store.claim(20, 2), 1);
}

#[test]
fn an_overlap_names_the_newest_live_run() {
    let mut store = Store::allowing();
    store.running(0, 1);
    store.running(5, 2);
    store.terms.overlap = Overlap::Skip;
    store.go(10);
    assert_eq!(store.claim(10, 3), ClaimAnswer::Overlap { with: slot(5) });
}

#[test]
fn under_allow_runs_start_beside_each_other() {
    let mut store = Store::allowing();
    let (first, second) = (store.running(0, 1), store.running(5, 2));
    assert!(store.run(&first).live(store.now) && store.run(&second).live(store.now));
}

#[test]
fn a_claim_cuts_leases_that_lie_too_far_ahead_after_the_clock_was_set_back() {
    let mut store = Store::new();
    let run = store.running(3_600, 1);
    store.go(0);
    // Even a claim that is refused, and a resend of the win itself.
    let running = ClaimAnswer::Running { attempt: Attempt(1), lease_end: ms(LEASE * 1_000) };
    assert_eq!(store.take_over(3_600, 2), running);
    store.go(-100);
    assert_won(&store.claim(3_600, 1), 1);
    assert_eq!(store.run(&run).lease_end, ms((LEASE - 100) * 1_000));
    assert_eq!(store.unchanged(|s| s.claim(-100, 3)), {
        ClaimAnswer::Superseded { newest_started: Some(Slot(ms(3_600_000))) }
    });
}

#[test]
fn a_stale_claim_cuts_nothing() {
    let mut store = Store::allowing();
    store.running(0, 1);
    store.running(5, 2);
    store.go(31);
    assert_eq!(store.take_over(0, 3), ClaimAnswer::Ended(Status::Interrupted));
    store.go(-3_600);
    assert_eq!(store.unchanged(|s| s.claim(0, 1)), ClaimAnswer::Stale);
}
