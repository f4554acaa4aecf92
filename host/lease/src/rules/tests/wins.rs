//! What every win does in its revision.

use super::*;

#[test]
fn a_scheduled_win_interrupts_every_older_expired_scheduled_run() {
    let mut store = Store::allowing();
    let runs = [store.running(0, 1), store.running(1, 2), store.running(2, 3)];
    store.go(1_000);
    let revision = store.job.revision;
    assert_won(&store.claim(1_000, 4), 1);
    assert_eq!(store.job.revision, revision + 1, "in the same revision");
    for run in &runs {
        assert_eq!(store.status(run), Status::Interrupted);
        assert_eq!(store.beat(run, 1), HeartbeatAnswer::Refused);
    }
}

#[test]
fn a_win_leaves_live_runs_alone() {
    let mut store = Store::allowing();
    let old = store.running(0, 1);
    store.running(LEASE, 2);
    assert!(store.run(&old).live(store.now));
}

#[test]
fn under_skip_every_other_expired_run_is_released_and_no_hand_over_is_counted() {
    let mut store = Store::new();
    store.trigger("a");
    assert_won(&store.claim_demand("a", 1), 1);
    store.go(60);
    assert_won(&store.claim(60, 2), 1);
    let run = store.run(&demand("a"));
    assert!(run.released && run.status == Status::Running && run.hand_overs == 0);
    assert_eq!(store.unchanged(|s| s.beat(&demand("a"), 1)), HeartbeatAnswer::Refused);
}

#[test]
fn under_allow_an_expired_on_demand_run_may_still_be_renewed() {
    let mut store = Store::allowing();
    store.trigger("a");
    store.claim_demand("a", 1);
    store.go(60);
    assert_won(&store.claim(60, 2), 1);
    assert!(matches!(store.beat(&demand("a"), 1), HeartbeatAnswer::Renewed { .. }));
}

#[test]
fn an_on_demand_win_neither_interrupts_nor_moves_the_newest_started_slot() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.trigger("a");
    store.go(60);
    assert_won(&store.claim_demand("a", 2), 1);
    assert_eq!(store.status(&run), Status::Running);
    assert_eq!(store.job.newest_started, Some(Slot(ms(0))));
}

#[test]
fn a_scheduled_win_never_interrupts_an_on_demand_run() {
    let mut store = Store::new();
    store.trigger("a");
    store.claim_demand("a", 1);
    store.go(60);
    let run = slot(60);
    assert_won(&store.claim(60, 2), 1);
    store.finish(&run, 2, success());
    assert_won(&store.claim_demand("a", 3), 2);
}

#[test]
fn the_newest_started_slot_survives_pruning() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.finish(&run, 1, success());
    store.go(100_000);
    assert_eq!(store.prune(0), vec![run]);
    assert_eq!(store.job.newest_started, Some(Slot(ms(0))));
}

#[test]
fn a_fence_is_the_slot_times_1024_plus_the_attempt() {
    let mut store = Store::new();
    assert_eq!(fence(&store.claim(0, 1)), START as u64 * 1024 + 1);
    store.go(31);
    assert_eq!(fence(&store.take_over(0, 2)), START as u64 * 1024 + 2);
}

#[test]
fn a_fence_of_an_on_demand_run_comes_from_its_trigger_time() {
    let mut store = Store::new();
    store.trigger("a");
    store.go(500);
    assert_eq!(fence(&store.claim_demand("a", 1)), START as u64 * 1024 + 1);
}

#[test]
fn a_fence_grows_from_win_to_win_whatever_the_slots_are() {
    let mut store = Store::allowing();
    store.trigger("a");
    let newer = fence(&{
        store.go(5);
        store.claim(5, 1)
    });
    assert_eq!(fence(&store.claim_demand("a", 2)), newer + 1, "triggered before the slot, won after it");
}

#[test]
fn the_policy_is_the_claimers_and_its_heartbeats_use_that_lease() {
    let mut store = Store::new();
    store.terms.lease = Duration::from_secs(5);
    let run = store.running(0, 1);
    store.terms.lease = Duration::from_secs(100);
    store.go(3);
    assert_eq!(store.beat(&run, 1), HeartbeatAnswer::Renewed { lease_end: ms(8_000), cancelled: false });
    assert_eq!(store.run(&run).attempts[0].terms.lease, Duration::from_secs(5));
}

#[test]
fn the_largest_bound_of_any_winning_claim_is_kept() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    assert_eq!(store.job.largest_bound, Duration::from_secs(300));
    store.finish(&run, 1, success());
    store.terms.max_late = Duration::from_secs(900);
    let run = store.running(60, 2);
    store.finish(&run, 2, success());
    store.terms = terms();
    store.running(120, 3);
    assert_eq!(store.job.largest_bound, Duration::from_secs(900));
}

#[test]
fn a_takeover_records_the_former_attempt_as_lost() {
    use crate::run::AttemptEnd;
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.go(31);
    store.take_over(0, 2);
    let ended: Vec<_> = store.run(&run).attempts.iter().map(|a| a.ended).collect();
    assert_eq!(ended, [Some((ms(31_000), AttemptEnd::Lost)), None]);
}

#[test]
fn the_attempts_kept_of_a_run_are_bounded_and_their_numbers_go_on() {
    let mut store = Store::new();
    store.terms.max_attempts = 5_000;
    let run = store.running(0, 1);
    let kept = crate::run::ATTEMPTS_KEPT;
    for n in 1..=kept as i64 {
        store.go(n * 31);
        let mut ask = store.ask(run.clone(), ClaimKind::Takeover, 0);
        ask.token.0[..8].copy_from_slice(&n.to_le_bytes());
        assert_won(&store.send(&ask), n as u32 + 1);
    }
    let run = store.run(&run);
    assert_eq!((run.attempts.len(), run.starts as usize, run.attempt()), (kept, kept + 1, Attempt(kept as u32 + 1)));
}
