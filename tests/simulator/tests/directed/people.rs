//! What people ask for: runs on demand, cancels, holds, drained hosts, jobs that go.

use leasehold_lease::policy::{Overlap, Policy};
use leasehold_lease::run::Status;
use leasehold_simulator::Fault;

use crate::scene::{FIRST, S, Scene};

#[test]
fn an_on_demand_run_starts_within_two_heartbeats_and_at_once_where_the_store_notifies() {
    for (wakeups, within) in [(0, 11 * S), (100, 200)] {
        let mut scene = Scene::every_ten_minutes(2, S).at(50 * S, Fault::Trigger { runs: 1 }).until(100 * S);
        scene.plan.wakeups = wakeups;
        let played = scene.play();
        let demands = played.demands();
        let starts = played.starts(demands[0].0);
        assert!(starts.len() == 1 && starts[0].at <= 50 * S + within, "{}", played.told());
    }
}

#[test]
fn on_demand_runs_that_wait_run_one_after_the_other_oldest_first() {
    let mut scene = Scene::every_ten_minutes(3, 5 * S).until(150 * S);
    for at in [50, 51, 52, 53] {
        scene = scene.at(at * S, Fault::Trigger { runs: 1 });
    }
    let played = scene.play();
    let order: Vec<_> = played.all("start").iter().map(|h| h.run.clone().expect("a run")).collect();
    let asked: Vec<_> = played.demands().into_iter().map(|(id, _)| id.clone()).collect();
    assert_eq!(order, asked, "{}", played.told());
    // The host that finishes one claims the next at once.
    let at: Vec<_> = played.all("start").iter().map(|h| h.at).collect();
    assert!(at.windows(2).skip(1).all(|two| two[1] - two[0] < 5_200), "{at:?}");
    assert!(played.count("pending") > 0);
}

#[test]
fn an_on_demand_run_lets_a_due_slot_go_first() {
    for seed in 0..10 {
        let mut scene = Scene::every_ten_minutes(1, 20 * S).seed(seed).policy(|policy| {
            policy.jitter = std::time::Duration::from_secs(10);
        });
        scene.plan.wakeups = 100;
        // While the slot waits its jitter.
        let played = scene.at(FIRST + 1, Fault::Trigger { runs: 1 }).until(300 * S).play();
        let starts = played.all("start");
        assert_eq!(starts.len(), 2, "seed {seed}\n{}", played.told());
        assert_eq!(starts[0].run, Some(crate::scene::slot_at(FIRST)), "seed {seed}\n{}", played.told());
        assert!(starts[1].at >= starts[0].at + 20 * S, "seed {seed}\n{}", played.told());
    }
}

/// A run that was asked for before stands in front of it in the line for the host's only place.
#[test]
fn a_due_slot_goes_before_a_run_that_was_asked_for_and_waits_for_a_place() {
    let played = Scene::every_ten_minutes(1, 20 * S)
        .at(FIRST - 50 * S, Fault::Places { host: 0, places: 0, lasts: 80 * S })
        .at(FIRST - 10 * S, Fault::Trigger { runs: 1 })
        .until(300 * S)
        .play();
    let starts = played.all("start");
    assert_eq!(starts.len(), 2, "{}", played.told());
    assert_eq!(starts[0].run, Some(crate::scene::slot_at(FIRST)), "{}", played.told());
    assert_eq!(played.count("skip"), 0, "{}", played.told());
}

/// As in a deploy: for two minutes nobody offers the job, whose lease is five.
#[test]
fn a_run_that_waits_is_not_given_up_before_two_of_its_job_s_leases_have_passed() {
    let played = Scene::every_ten_minutes(2, 20 * S)
        .policy(|policy| *policy = Policy::with_lease(std::time::Duration::from_secs(300)))
        .at(5 * S, Fault::Withdraw { host: 1, lasts: 700 * S })
        .at(225 * S, Fault::Withdraw { host: 0, lasts: 120 * S })
        .at(230 * S, Fault::Trigger { runs: 1 })
        .until(500 * S)
        .play();
    assert_eq!(played.demands()[0].1.status, Status::Success, "{}", played.told());
    assert_eq!(played.count("closed"), 0, "{}", played.told());
}

#[test]
fn a_run_that_waits_is_not_given_up_while_a_host_offers_its_job_however_long_its_lease() {
    // The other host, which does not offer it, sees it wait for longer than two leases of the default.
    let played = Scene::every_ten_minutes(2, 250 * S)
        .policy(|policy| *policy = Policy::with_lease(std::time::Duration::from_secs(300)))
        .at(5 * S, Fault::Withdraw { host: 1, lasts: 700 * S })
        .at(210 * S, Fault::Trigger { runs: 1 })
        .until(750 * S)
        .play();
    assert_eq!(played.demands()[0].1.status, Status::Success, "{}", played.told());
    assert_eq!(played.count("closed"), 0, "{}", played.told());
}

#[test]
fn under_allow_on_demand_runs_start_beside_others() {
    let played = Scene::every_ten_minutes(2, 60 * S)
        .policy(|policy| policy.overlap = Overlap::Allow)
        .at(205 * S, Fault::Trigger { runs: 5 })
        .until(230 * S)
        .play();
    assert_eq!(played.all("start").len(), 6, "{}", played.told());
}

#[test]
fn a_dead_runners_on_demand_run_is_taken_over() {
    let scene = Scene::every_ten_minutes(2, 60 * S).at(50 * S, Fault::Trigger { runs: 1 });
    let first = scene.clone().until(65 * S).play();
    let host = first.all("start")[0].host;
    let played = scene.at(70 * S, Fault::Crash { host, down: 500 * S }).until(190 * S).play();
    let starts = played.all("start");
    assert_eq!(starts.len(), 2, "{}", played.told());
    assert!(starts[1].at <= (70 + 40 + 1) * S && starts[1].host == 1 - host);
}

#[test]
fn a_cancelled_run_is_told_to_its_handler_and_ends_as_cancelled() {
    let played = Scene::every_ten_minutes(2, 100 * S).at(210 * S, Fault::Cancel).until(230 * S).play();
    assert_eq!(played.run(FIRST).status, Status::Interrupted, "{}", played.told());
    assert_eq!((played.count("cancelled"), played.count("takeover")), (1, 0), "{}", played.told());
}

#[test]
fn a_cancelled_run_whose_runner_died_is_not_started_again() {
    let scene = Scene::every_ten_minutes(2, 100 * S);
    let host = scene.runner(FIRST, 205 * S);
    let played = scene.at(209 * S, Fault::Cancel).at(209 * S + 1, Fault::Crash { host, down: 500 * S }).play();
    assert_eq!((played.run(FIRST).status, played.run(FIRST).starts), (Status::Interrupted, 1), "{}", played.told());
}

#[test]
fn slots_of_a_held_job_are_told_and_not_caught_up_and_what_is_asked_for_runs() {
    let played = Scene::new(2, 60 * S, S)
        .at(30 * S, Fault::Hold { lasts: 200 * S })
        .at(100 * S, Fault::Trigger { runs: 1 })
        .until(290 * S)
        .play();
    assert_eq!(played.started(), [(20 * S, 1), (260 * S, 1)], "{}", played.told());
    assert!(played.count("held") >= 4);
    assert_eq!(played.demands()[0].1.status, Status::Success);
}

#[test]
fn a_drained_host_takes_nothing_new_and_ends_what_it_runs() {
    let scene = Scene::every_ten_minutes(2, 50 * S);
    let host = scene.runner(FIRST, 205 * S);
    let played = scene
        .at(210 * S, Fault::Drain { host, lasts: 1_000 * S })
        .at(300 * S, Fault::Trigger { runs: 3 })
        .until(900 * S)
        .play();
    assert_eq!(played.run(FIRST).status, Status::Success, "{}", played.told());
    let later = played.all("start").into_iter().filter(|h| h.at > 210 * S).map(|h| h.host).collect::<Vec<_>>();
    assert_eq!(later, [1 - host; 4], "{}", played.told());
}

#[test]
fn a_host_that_is_drained_no_more_takes_part_again() {
    let played = Scene::new(1, 60 * S, S).at(30 * S, Fault::Drain { host: 0, lasts: 100 * S }).until(150 * S).play();
    // The newest slot that it did not take is caught up as after a start.
    assert_eq!(played.started(), [(20 * S, 1), (80 * S, 1), (140 * S, 1)], "{}", played.told());
}

#[test]
fn slots_that_fall_due_while_every_host_drains_are_told_as_missed() {
    let mut scene = Scene::new(2, 10 * S, S).until(100 * S);
    for host in 0..2 {
        scene = scene.at(25 * S, Fault::Drain { host, lasts: 30 * S });
    }
    let played = scene.play();
    let started: Vec<_> = played.started().into_iter().map(|(slot, _)| slot).collect();
    assert_eq!(started, [10, 20, 50, 60, 70, 80, 90].map(|slot| slot * S), "{}", played.told());
    assert!(played.count("missed") >= 1, "{}", played.told());
}

#[test]
fn runs_of_a_job_that_nobody_offers_any_more_are_given_up_after_two_leases() {
    let scene = Scene::every_ten_minutes(2, 100 * S);
    let host = scene.runner(FIRST, 205 * S);
    let played = scene
        .at(210 * S, Fault::Gone { lasts: 380 * S })
        .at(211 * S, Fault::Crash { host, down: 5 * S })
        .at(212 * S, Fault::Trigger { runs: 1 })
        .until(330 * S)
        .play();
    assert_eq!(played.run(FIRST).status, Status::Interrupted, "{}", played.told());
    assert_eq!(played.demands()[0].1.status, Status::Interrupted, "{}", played.told());
    assert_eq!(played.count("closed"), 2);
}

#[test]
fn a_job_that_went_and_came_back_is_scheduled_again() {
    let played = Scene::new(2, 60 * S, S).at(30 * S, Fault::Gone { lasts: 100 * S }).until(210 * S).play();
    let started = played.started();
    assert_eq!(started.first(), Some(&(20 * S, 1)));
    assert!(started.ends_with(&[(140 * S, 1), (200 * S, 1)]), "{}", played.told());
}
