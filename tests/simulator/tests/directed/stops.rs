//! Hosts that stop: hand-overs, deploys, wake-ups.

use leasehold_lease::run::Status;
use leasehold_simulator::Fault;

use crate::scene::{FIRST, S, Scene};

#[test]
fn a_hand_over_takes_two_heartbeats_at_most_and_an_instant_where_the_store_notifies() {
    for (wakeups, within) in [(0, 11 * S), (100, 200)] {
        for seed in 0..10 {
            let mut scene = Scene::every_ten_minutes(2, 100 * S).seed(seed);
            scene.plan.wakeups = wakeups;
            let host = scene.runner(FIRST, 205 * S);
            let played = scene.at(230 * S, Fault::Stop { host, down: 500 * S }).play();
            let attempts = played.attempts(FIRST);
            // The guest takes up to half a second to see the signal.
            assert!(attempts.len() == 2 && attempts[1].0 <= 230 * S + 520 + within, "{attempts:?}\n{}", played.told());
        }
    }
}

#[test]
fn heartbeats_go_on_while_a_stop_waits_for_a_handler_that_ignores_the_signal() {
    let mut scene = Scene::every_ten_minutes(2, 45 * S);
    scene.plan.stubborn = 100;
    let scene = scene.policy(|policy| {
        policy.stop_timeout = std::time::Duration::from_secs(120);
        policy.stop_force = leasehold_lease::policy::StopForce::Never;
    });
    let host = scene.runner(FIRST, 205 * S);
    let played = scene.at(205 * S, Fault::Stop { host, down: 500 * S }).play();
    assert_eq!(played.attempts(FIRST).len(), 1, "{}", played.told());
    assert_eq!(played.run(FIRST).status, Status::Success);
}

#[test]
fn what_ignores_the_signal_is_interrupted_by_force_and_handed_over_within_the_stop_timeout() {
    let mut scene = Scene::every_ten_minutes(2, 200 * S);
    scene.plan.stubborn = 100;
    let host = scene.runner(FIRST, 205 * S);
    let played = scene.at(210 * S, Fault::Stop { host, down: 500 * S }).play();
    let attempts = played.attempts(FIRST);
    assert!(attempts.len() == 2 && attempts[1].0 <= (210 + 25 + 11) * S, "{attempts:?}\n{}", played.told());
    assert_eq!(played.run(FIRST).hand_overs, 1);
}

#[test]
fn a_rolling_deploy_loses_no_slot_and_starts_none_twice() {
    let mut scene = Scene::new(3, 10 * S, 2 * S).until(400 * S);
    for deploy in 0..2 {
        scene = scene.at((40 + deploy * 180) * S, Fault::Deploy);
    }
    let played = scene.play();
    let mut started = played.started();
    started.retain(|(_, attempt)| *attempt == 1);
    let slots: Vec<_> = (1..=40).map(|n| (n * 10 * S, 1)).collect();
    let from = slots.iter().position(|slot| Some(slot) == started.first()).expect("a slot starts");
    assert!(from <= 1 && started.iter().zip(&slots[from..]).all(|(a, b)| a == b), "{started:?}");
    assert!(started.len() >= 38, "{started:?}");
}

#[test]
fn the_next_host_is_a_backup_before_the_runner_dies_not_only_at_its_start() {
    let played = Scene::every_ten_minutes(2, 200 * S)
        .at(5 * S, Fault::Crash { host: 1, down: 205 * S })
        .at(250 * S, Fault::Crash { host: 0, down: 500 * S })
        .play();
    let attempts = played.attempts(FIRST);
    assert!(attempts.len() == 2 && attempts[1].0 <= (250 + 40 + 1) * S, "{attempts:?}\n{}", played.told());
}
