//! Trigger, announce and prune.

use super::*;
use crate::run::DEMAND_ID_KEPT;

#[test]
fn a_trigger_stores_a_pending_run_and_a_repeat_is_answered_with_what_exists() {
    let mut store = Store::new();
    assert_eq!(store.trigger("a"), TriggerAnswer::Stored);
    let run = store.run(&demand("a")).clone();
    assert_eq!((run.status, run.due, run.payload), (Status::Pending, ms(0), Some(b"a".to_vec())));
    store.go(5);
    assert_eq!(store.unchanged(|s| s.trigger("a")), TriggerAnswer::Exists(Status::Pending));
    store.claim_demand("a", 1);
    assert_eq!(store.unchanged(|s| s.trigger("a")), TriggerAnswer::Exists(Status::Running));
    store.finish(&demand("a"), 1, failure());
    assert_eq!(store.unchanged(|s| s.trigger("a")), TriggerAnswer::Exists(Status::Failed));
}

#[test]
fn beyond_pending_max_a_trigger_is_full_and_a_repeat_is_still_answered() {
    let mut store = Store::new();
    store.trigger("a");
    store.trigger("b");
    assert_eq!(store.unchanged(|s| s.trigger("c")), TriggerAnswer::Full);
    assert_eq!(store.unchanged(|s| s.trigger("b")), TriggerAnswer::Exists(Status::Pending));
    store.claim_demand("a", 1);
    assert_eq!(store.trigger("c"), TriggerAnswer::Stored, "a started one does not wait any more");
}

#[test]
fn the_id_of_a_pruned_run_is_kept_for_a_day() {
    let mut store = Store::new();
    store.trigger("a");
    store.claim_demand("a", 1);
    store.finish(&demand("a"), 1, success());
    store.go(1_000);
    assert_eq!(store.prune(0), vec![demand("a")]);
    let day = DEMAND_ID_KEPT.as_millis() as i64;
    store.go_ms(1_000_000 + day);
    assert!(store.unchanged(|s| s.prune(0)).is_empty());
    assert_eq!(store.unchanged(|s| s.trigger("a")), TriggerAnswer::Ended);
    store.go_ms(1_000_000 + day + 1);
    store.prune(0);
    assert_eq!(store.trigger("a"), TriggerAnswer::Stored);
}

#[test]
fn since_is_when_the_job_was_first_announced_or_its_schedule_last_changed() {
    let mut store = Store::new();
    assert_eq!(store.announce("hourly"), ms(0));
    store.go(10);
    assert_eq!(store.announce("hourly"), ms(0));
    assert_eq!(store.job.last_offered, Some(ms(10_000)));
    store.go(20);
    assert_eq!(store.announce("daily"), ms(20_000));
    assert_eq!(store.job.since, Some(ms(20_000)));
    // The clock was ahead, and is corrected.
    store.go(10).announce("daily");
    assert_eq!(store.job.since, Some(ms(10_000)));
    store.go(30).announce("daily");
    assert_eq!(store.job.since, Some(ms(10_000)));
}

/// Three runs that end in seconds 0, 20 and 40.
fn three_finished() -> (Store, [RunId; 3]) {
    let mut store = Store::new();
    let runs = [0, 20, 40].map(|due| {
        let run = store.running(due, 1);
        store.finish(&run, 1, success());
        run
    });
    (store, runs)
}

#[test]
fn prune_keeps_the_last_of_the_history() {
    let (mut store, runs) = three_finished();
    store.go(100_000);
    assert!(store.unchanged(|s| s.prune(3)).is_empty());
    assert_eq!(store.prune(2), runs[..1]);
    assert_eq!(store.prune(0), [runs[2].clone(), runs[1].clone()]);
}

#[test]
fn what_a_clock_that_was_ahead_has_made_pushes_nothing_out_of_the_history() {
    const AHEAD: i64 = 3 * 24 * 3_600;
    let mut store = Store::new();
    let ran = |store: &mut Store, due| {
        let run = store.running(due, 1);
        store.finish(&run, 1, success());
        run
    };
    for due in [AHEAD, AHEAD + 20] {
        ran(&mut store, due);
    }
    store.go(0).unblock(0);
    let runs = [20, 40, 60].map(|due| ran(&mut store, due));
    store.go(100_000);
    assert!(store.unchanged(|s| s.prune(3)).is_empty());
    assert_eq!(store.prune(2), runs[..1]);
    // Its time has come.
    store.go(AHEAD + 1_000);
    assert_eq!(store.prune(2), [runs[2].clone(), runs[1].clone()]);
}

#[test]
fn prune_keeps_a_run_until_no_claim_for_it_can_be_in_time() {
    let (mut store, runs) = three_finished();
    // The job's largest bound is catch_up, 300 s; with 10 s for the clocks.
    store.go(310);
    assert!(store.unchanged(|s| s.prune(0)).is_empty());
    store.go_ms(310_001);
    assert_eq!(store.prune(0), runs[..1]);
}

#[test]
fn prune_keeps_a_run_for_its_bound_after_its_end() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.go(3_600);
    store.finish(&run, 1, success());
    store.go(3_910);
    assert!(store.unchanged(|s| s.prune(0)).is_empty());
    store.go_ms(3_910_001);
    assert_eq!(store.prune(0), [run]);
}

#[test]
fn prune_never_deletes_an_unfinished_run() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.trigger("a");
    store.go(1_000_000);
    assert!(store.unchanged(|s| s.prune(0)).is_empty());
    store.release(&run, 1);
    assert!(store.unchanged(|s| s.prune(0)).is_empty());
}

#[test]
fn a_bound_beyond_all_time_keeps_everything_without_a_panic() {
    let mut store = Store::new();
    store.terms.catch_up = Duration::MAX;
    let run = store.running(0, 1);
    store.finish(&run, 1, success());
    store.go(1_000_000);
    assert!(store.prune(0).is_empty());
}
