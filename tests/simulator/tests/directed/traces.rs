//! Traces that broke earlier wordings, as far as hosts decide them.

use std::time::Duration;

use leasehold_lease::run::Status;
use leasehold_simulator::Fault;

use crate::scene::{FIRST, S, Scene, slot_at};

#[test]
fn a_slot_that_was_skipped_is_not_started_by_who_watches_it() {
    let played = Scene::new(2, 3 * S, 7 * S).policy(|policy| policy.jitter = Duration::ZERO).until(60 * S).play();
    let started = played.started();
    assert!(started.len() > 4 && started.iter().all(|(_, attempt)| *attempt == 1), "{started:?}");
    assert!(started.windows(2).all(|two| two[1].0 - two[0].0 == 9 * S), "{started:?}");
}

#[test]
fn a_release_that_arrives_twice_is_one_hand_over() {
    let scene = Scene::every_ten_minutes(2, 100 * S);
    let host = scene.runner(FIRST, 205 * S);
    let scene = scene.at(205 * S, Fault::Repeat { percent: 100, lasts: 60 * S });
    let played = scene.at(210 * S, Fault::Stop { host, down: 500 * S }).play();
    assert_eq!((played.run(FIRST).starts, played.run(FIRST).hand_overs), (2, 1));
    assert_eq!(played.run(FIRST).status, Status::Success);
}

#[test]
fn effects_are_held_from_a_lease_after_the_first_sending_of_the_claim() {
    // The claim wins at once; its answers get lost for 28 s; then the host hears of its win and is cut off for good.
    let played = Scene::every_ten_minutes(2, 200 * S)
        .at(199 * S, Fault::Freeze { host: 1, lasts: 3 * S })
        .at(199 * S, Fault::Cut { host: 0, to: false, from: true, lasts: 25_500 })
        .at(229 * S, Fault::Cut { host: 0, to: true, from: true, lasts: 300 * S })
        .play();
    let starts = played.starts(&slot_at(FIRST));
    let of = |nth: usize| (starts[nth].host, starts[nth].attempt.expect("a start has one").0);
    assert_eq!((of(0), of(1)), ((0, 1), (1, 2)), "{}", played.told());
    assert!((224 * S..230 * S).contains(&starts[0].at), "{} ms", starts[0].at);
    // The simulator itself demands that none begins after the second attempt's win (H3).
    assert!(played.count("effect-held") > 0 && played.count("uncertain") == 1);
}

#[test]
fn who_lost_a_run_takes_it_over_when_the_next_runner_dies() {
    let scene = Scene::every_ten_minutes(2, 250 * S);
    let a = scene.runner(FIRST, 205 * S);
    let scene = scene.at(205 * S, Fault::Freeze { host: a, lasts: 60 * S });
    let scene = scene.at(290 * S, Fault::Crash { host: 1 - a, down: 500 * S });
    let played = scene.play();
    let starts = played.starts(&slot_at(FIRST));
    assert_eq!(starts.iter().map(|h| h.host).collect::<Vec<_>>(), [a, 1 - a, a], "{}", played.told());
    assert!(starts[2].at <= (290 + 40 + 1) * S, "{} ms", starts[2].at);
    assert_eq!(played.count("lost"), 1);
}

#[test]
fn a_full_host_takes_a_dead_ones_run_over_as_soon_as_a_place_is_free() {
    let scene = Scene::every_ten_minutes(2, 250 * S);
    let a = scene.runner(FIRST, 205 * S);
    let played = scene
        .at(205 * S, Fault::Places { host: 1 - a, places: 0, lasts: 95 * S })
        .at(210 * S, Fault::Crash { host: a, down: 500 * S })
        .play();
    let attempts = played.attempts(FIRST);
    assert_eq!(attempts.len(), 2, "{}", played.told());
    assert!((300 * S..301 * S).contains(&attempts[1].0), "{attempts:?}");
}

#[test]
fn slots_run_on_the_stores_time_where_all_hosts_clocks_are_ahead() {
    let mut scene = Scene::new(2, 60 * S, 2 * S);
    for host in 0..2 {
        scene = scene.at(1, Fault::Wall { host, by: 15 * S });
    }
    let played = scene.play();
    let slots: Vec<(i64, u32)> = (0..10).map(|n| ((20 + n * 60) * S, 1)).collect();
    assert_eq!(played.started(), slots, "{}", played.told());
    assert!(
        played
            .all("start")
            .iter()
            .all(|h| h.at >= h.run.as_ref().and_then(|r| r.slot()).map_or(0, |s| s.0.0 - leasehold_simulator::START))
    );
}

#[test]
fn a_job_that_ran_in_the_stores_future_is_shown_as_blocked_and_unblock_frees_it() {
    let hour = 3_600 * S;
    // A clock is an hour ahead; a run starts and its runner dies; the clock is put right.
    let mut scene = Scene::new(2, 60 * S, 30 * S).at(10 * S, Fault::Store { by: hour });
    for host in 0..2 {
        scene = scene.at(10 * S, Fault::Wall { host, by: hour });
    }
    scene = scene.at(85 * S, Fault::Store { by: -hour });
    for host in 0..2 {
        scene = scene.at(85 * S, Fault::Wall { host, by: -hour });
    }
    let runner = scene.runner(80 * S + hour, 84 * S);
    scene = scene.at(84 * S, Fault::Crash { host: runner, down: 5 * S });
    let blocked = scene.clone().until(400 * S).play();
    assert!(blocked.count("blocked") > 0, "{}", blocked.told());
    let first = leasehold_lease::id::Attempt(1);
    let starts = blocked.all("start");
    assert!(starts.iter().all(|h| h.at < 85 * S || h.attempt > Some(first)), "{}", blocked.told());
    let played = scene.at(400 * S, Fault::Unblock).play();
    assert_eq!(played.count("unblocked"), 1, "{}", played.told());
    let after: Vec<_> = played.started().into_iter().filter(|(slot, _)| (400 * S..3_000 * S).contains(slot)).collect();
    assert_eq!(after, [(440 * S, 1), (500 * S, 1), (560 * S, 1)], "{}", played.told());
}

#[test]
fn a_runner_that_dies_after_the_stores_clock_was_set_back_is_replaced_within_a_lease_and_two_heartbeats() {
    for seed in 0..20 {
        let scene = Scene::every_ten_minutes(2, 300 * S).seed(seed).at(206 * S, Fault::Store { by: -3_600 * S });
        // Its next heartbeat has renewed the lease by the new clock.
        let a = scene.runner(FIRST, 212 * S);
        let played = scene.at(212 * S, Fault::Crash { host: a, down: 500 * S }).play();
        let attempts = played.attempts(FIRST);
        assert!(attempts.len() == 2 && attempts[1].0 <= (212 + 40 + 1) * S, "seed {seed}: {attempts:?}");
    }
}

#[test]
fn a_run_whose_runner_died_before_the_stores_clock_was_set_back_an_hour_is_taken_over() {
    let scene = Scene::every_ten_minutes(2, 300 * S);
    let a = scene.runner(FIRST, 205 * S);
    let played =
        scene.at(210 * S, Fault::Crash { host: a, down: 500 * S }).at(211 * S, Fault::Store { by: -3_600 * S }).play();
    // Nobody renews the old lease: two heartbeats until a check finds it too long, then a lease and two heartbeats.
    let attempts = played.attempts(FIRST);
    assert!(attempts.len() == 2 && attempts[1].0 <= (211 + 10 + 30 + 10 + 1) * S, "{attempts:?}");
}

#[test]
fn an_old_run_is_left_for_the_next_slot_that_replaces_it() {
    let mut scene = Scene::every_ten_minutes(2, 100 * S).until(1_500 * S);
    for host in 0..2 {
        scene = scene.at(210 * S, Fault::Crash { host, down: 910 * S - 10 * S });
    }
    let played = scene.play();
    assert_eq!(played.started(), [(200 * S, 1), (1_400 * S, 1)], "{}", played.told());
    assert_eq!(played.run(FIRST).status, Status::Interrupted);
    assert_eq!(played.count("takeover"), 0);
    assert_eq!(played.count("interrupted"), 1, "by one host, once\n{}", played.told());
}

#[test]
fn an_old_run_is_taken_over_where_the_newer_slot_was_skipped_while_its_lease_lasted() {
    let scene = Scene::new(2, 60 * S, 100 * S).until(140 * S);
    let a = scene.runner(20 * S, 70 * S);
    let played = scene.at(75 * S, Fault::Crash { host: a, down: 500 * S }).play();
    assert_eq!(played.started(), [(20 * S, 1), (20 * S, 2)], "{}", played.told());
    assert!(played.count("skip") >= 1);
}

#[test]
fn a_run_that_was_handed_over_before_a_host_came_is_started_by_it_within_two_heartbeats() {
    let played = Scene::every_ten_minutes(2, 100 * S)
        .at(5 * S, Fault::Crash { host: 1, down: 255 * S })
        .at(230 * S, Fault::Stop { host: 0, down: 500 * S })
        .play();
    let attempts = played.attempts(FIRST);
    assert!(attempts.len() == 2 && attempts[1].0 <= (260 + 10 + 1) * S, "{attempts:?}\n{}", played.told());
    assert_eq!(played.run(FIRST).hand_overs, 1);
}

#[test]
fn a_delayed_copy_of_an_on_demand_claim_does_not_win_with_nobody_listening() {
    for seed in 0..20 {
        let played = Scene::every_ten_minutes(2, 20 * S)
            .seed(seed)
            .at(204 * S, Fault::Trigger { runs: 1 })
            .at(205 * S, Fault::Delay { up_to: 40 * S, lasts: 30 * S })
            .at(205 * S, Fault::Repeat { percent: 100, lasts: 30 * S })
            .play();
        let demands = played.demands();
        let (id, run) = demands[0];
        assert_eq!(run.status, Status::Success, "seed {seed}\n{}", played.told());
        // What won without being started was given back.
        assert_eq!(played.starts(id).len() as u32, run.starts - run.hand_overs, "seed {seed}\n{}", played.told());
    }
}

#[test]
fn an_on_demand_run_starts_between_two_runs_that_nearly_fill_the_interval() {
    let played = Scene::new(2, 60 * S, 59_400).at(100 * S, Fault::Trigger { runs: 1 }).until(220 * S).play();
    let demands = played.demands();
    let starts = played.starts(demands[0].0);
    assert_eq!(starts.len(), 1, "{}", played.told());
    assert!((139_400..140_000).contains(&starts[0].at), "{} ms", starts[0].at);
}

#[test]
fn a_hand_over_does_not_use_up_an_attempt() {
    let mut scene = Scene::every_ten_minutes(3, 300 * S);
    let mut at = 205 * S;
    for stop in [true, false, false, false] {
        let host = scene.runner(FIRST, at);
        let fault = if stop { Fault::Stop { host, down: 20 * S } } else { Fault::Crash { host, down: 20 * S } };
        scene = scene.at(at, fault);
        at += 50 * S;
    }
    let played = scene.play();
    let run = played.run(FIRST);
    assert_eq!((run.starts, run.hand_overs, run.status), (4, 1, Status::Interrupted), "{}", played.told());
}

#[test]
fn with_one_attempt_a_handed_over_run_still_goes_on() {
    let scene = Scene::every_ten_minutes(2, 100 * S).policy(|policy| policy.max_attempts = 1);
    let host = scene.runner(FIRST, 205 * S);
    let played = scene.at(210 * S, Fault::Stop { host, down: 500 * S }).play();
    assert_eq!((played.run(FIRST).starts, played.run(FIRST).status), (2, Status::Success), "{}", played.told());
}

#[test]
fn a_long_runs_finish_is_accepted_again_although_no_history_is_kept() {
    let hour = 3_600 * S;
    let played = Scene::new(1, 7_200 * S, hour)
        .policy(|policy| policy.history_size = 0)
        .at(800 * S + hour - 100, Fault::Cut { host: 0, to: false, from: true, lasts: 10 * S })
        .until(800 * S + hour + 30 * S)
        .play();
    assert_eq!(played.run(800 * S).status, Status::Success, "{}", played.told());
    assert_eq!((played.count("success"), played.count("lost")), (1, 0), "{}", played.told());
}
