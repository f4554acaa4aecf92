//! A store that answers nobody, hosts that stand still, and what goes first when they are back.

use leasehold_lease::policy::{OnUncertain, Overlap};
use leasehold_lease::run::Status;
use leasehold_simulator::Fault;

use crate::scene::{FIRST, S, Scene};

#[test]
fn a_run_that_ended_in_an_outage_is_recorded_before_the_next_slot_is_claimed() {
    for seed in 0..20 {
        // It ends 40 s into an outage that outlasts its lease; the next slot is due before the store is back.
        let played =
            Scene::new(1, 60 * S, 50 * S).seed(seed).at(30 * S, Fault::Outage { lasts: 60 * S }).until(100 * S).play();
        assert_eq!(played.run(20 * S).status, Status::Success, "seed {seed}\n{}", played.told());
        assert_eq!(played.started(), [(20 * S, 1), (80 * S, 1)], "seed {seed}\n{}", played.told());
    }
}

#[test]
fn nobody_takes_a_live_runner_over_right_after_an_outage() {
    for seed in 0..50 {
        for overlap in [Overlap::Skip, Overlap::Allow] {
            let played = Scene::every_ten_minutes(3, 200 * S)
                .seed(seed)
                .policy(|policy| policy.overlap = overlap)
                .at(210 * S, Fault::Outage { lasts: 60 * S })
                .play();
            assert_eq!(played.started(), [(FIRST, 1)], "seed {seed}\n{}", played.told());
            assert_eq!(played.run(FIRST).status, Status::Success, "seed {seed}");
        }
    }
}

#[test]
fn a_slot_that_fell_into_an_outage_does_not_end_a_live_run() {
    for seed in 0..50 {
        let played =
            Scene::new(3, 60 * S, 100 * S).seed(seed).at(30 * S, Fault::Outage { lasts: 60 * S }).until(130 * S).play();
        assert_eq!(played.started(), [(20 * S, 1)], "seed {seed}\n{}", played.told());
        assert_eq!(played.run(20 * S).status, Status::Success, "seed {seed}\n{}", played.told());
    }
}

#[test]
fn a_runner_that_died_in_an_outage_is_replaced_within_two_heartbeats_of_its_end() {
    for seed in 0..20 {
        let scene = Scene::every_ten_minutes(2, 100 * S).seed(seed);
        let host = scene.runner(FIRST, 205 * S);
        let played =
            scene.at(210 * S, Fault::Outage { lasts: 60 * S }).at(215 * S, Fault::Crash { host, down: 500 * S }).play();
        let attempts = played.attempts(FIRST);
        // After the answer to the first call since, which is up to two heartbeats later.
        assert!(attempts.len() == 2 && attempts[1].0 <= (270 + 20 + 3) * S, "seed {seed}: {attempts:?}");
    }
}

#[test]
fn after_an_outage_the_newest_slot_runs_and_the_others_are_told_as_missed() {
    for seed in 0..20 {
        let played =
            Scene::new(2, 10 * S, S).seed(seed).at(15 * S, Fault::Outage { lasts: 40 * S }).until(65 * S).play();
        let started = played.started();
        let within: Vec<_> = started.iter().filter(|(slot, _)| (15 * S..55 * S).contains(slot)).collect();
        assert_eq!(within, [&(50 * S, 1)], "seed {seed}\n{}", played.told());
        let missed = |slot| played.all("missed").iter().any(|h| h.run == Some(crate::scene::slot_at(slot)));
        assert!([20, 30, 40].into_iter().all(|slot| missed(slot * S)), "seed {seed}\n{}", played.told());
        // Once an outage by each host.
        assert!(played.count("store-down") <= 2, "seed {seed}: {}", played.count("store-down"));
    }
}

#[test]
fn where_all_hosts_stood_still_one_slot_runs_not_a_backlog() {
    let mut scene = Scene::new(3, 60 * S, S).until(700 * S);
    for host in 0..3 {
        scene = scene.at(30 * S, Fault::Freeze { host, lasts: 600 * S });
    }
    let played = scene.play();
    assert_eq!(played.started(), [(20 * S, 1), (620 * S, 1), (680 * S, 1)], "{}", played.told());
}

#[test]
fn a_clock_that_is_set_an_hour_forward_replays_nothing() {
    let mut scene = Scene::new(2, 60 * S, S).until(300 * S).at(50 * S, Fault::Store { by: 3_600 * S });
    for host in 0..2 {
        scene = scene.at(50 * S, Fault::Wall { host, by: 3_600 * S });
    }
    let played = scene.play();
    // Within 250 s an undisturbed job has five slots; one more is caught up.
    assert!((4..=6).contains(&played.started().len()), "{:?}", played.started());
}

#[test]
fn slots_that_waited_for_a_place_do_not_run_one_after_the_other_when_there_is_one() {
    let full = Fault::Places { host: 0, places: 0, lasts: 62 * S };
    let played = Scene::new(1, 10 * S, S).at(15 * S, full).until(99 * S).play();
    assert_eq!(played.started(), [(10 * S, 1), (70 * S, 1), (80 * S, 1), (90 * S, 1)], "{}", played.told());
    let missed = |slot| played.all("missed").iter().any(|h| h.run == Some(crate::scene::slot_at(slot)));
    assert!([20, 30, 40, 50, 60].into_iter().all(|slot| missed(slot * S)), "{}", played.told());
}

#[test]
fn a_host_whose_clock_is_behind_runs_no_slot_again() {
    let played = Scene::new(2, 60 * S, 200).at(1, Fault::Wall { host: 1, by: -40 * S }).until(1_210 * S).play();
    let slots: Vec<_> = (0..20).map(|n| ((20 + n * 60) * S, 1)).collect();
    assert_eq!(played.started(), slots, "{}", played.told());
}

#[test]
fn with_on_uncertain_stop_the_end_of_the_own_lease_is_a_loss_and_the_run_goes_on_elsewhere() {
    let scene = Scene::every_ten_minutes(2, 150 * S).policy(|policy| policy.on_uncertain = OnUncertain::Stop);
    let host = scene.runner(FIRST, 205 * S);
    let played = scene.at(210 * S, Fault::Cut { host, to: true, from: true, lasts: 300 * S }).play();
    assert_eq!((played.count("lost"), played.count("uncertain")), (1, 0), "{}", played.told());
    let starts = played.starts(&crate::scene::slot_at(FIRST));
    assert_eq!(starts.iter().map(|h| h.host).collect::<Vec<_>>(), [host, 1 - host]);
    assert_eq!(played.run(FIRST).status, Status::Success);
}

#[test]
fn a_host_that_restarts_more_often_than_its_job_is_due_starts_every_slot() {
    for seed in 0..20 {
        // A restart every 45 s, one of them across each other slot.
        let restarts = (0..66).map(|n| 28 * S + n * 45 * S).chain([FIRST - S, FIRST + 1_199 * S, FIRST + 2_399 * S]);
        let scene = Scene::every_ten_minutes(1, 2 * S).seed(seed).until(3_000 * S);
        let scene = restarts.fold(scene, |scene, at| scene.at(at, Fault::Crash { host: 0, down: 5 * S }));
        let played = scene.play();
        let first: Vec<i64> = played.started().iter().filter(|(_, n)| *n == 1).map(|(slot, _)| *slot).collect();
        let slots: Vec<i64> = (0..5).map(|n| FIRST + n * 600 * S).collect();
        assert_eq!(first, slots, "seed {seed}\n{}", played.told());
    }
}

#[test]
fn a_host_that_stands_still_over_a_slot_starts_it_when_it_goes_on() {
    for seed in 0..20 {
        let scene = Scene::new(1, 60 * S, 2 * S).seed(seed).at(79 * S, Fault::Freeze { host: 0, lasts: 30 * S });
        let played = scene.until(200 * S).play();
        assert_eq!(played.started(), [(20 * S, 1), (80 * S, 1), (140 * S, 1)], "seed {seed}\n{}", played.told());
    }
}
