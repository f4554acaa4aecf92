//! A small world: agents, one job's record, a network that answers, and clocks that go as the test says.

mod world;

use std::time::Duration;

use crate::agent::{Agent, Command, EventKind, Input, Now, Offer, Seen};
use crate::dice::Dice;
use crate::id::{Attempt, Digest, Fence};
use crate::op::{ClaimAnswer, ClaimKind};
use crate::policy::{Overlap, Policy};
use crate::run::Status;
use crate::schedule::Schedule;
use crate::time::{Millis, Mono, Slot};

use world::{World, slot};

const S: i64 = 1_000;

fn every(seconds: u64) -> World {
    World::new(Duration::from_secs(seconds), Policy::default())
}

#[test]
fn a_due_slot_runs_once_and_the_others_back_it_up() {
    let mut w = every(60).hosts(3).runs_take(10 * S);
    w.until(72 * S);
    assert_eq!(w.started(60), [(60, 1)]);
    assert_eq!(w.count(EventKind::Claimed), 1);
    assert_eq!(w.count(EventKind::Backup), 2);
    assert_eq!(w.status(60), Some(Status::Success));
    w.until(90 * S);
    assert!(w.others_are_idle(), "backups leave when the run has ended");
}

#[test]
fn over_an_hour_every_slot_runs_exactly_once() {
    let mut w = every(60).hosts(3).runs_take(5 * S);
    w.until(3_610 * S);
    let starts: Vec<(i64, u32)> = (1..=60).map(|minute| (minute * 60, 1)).collect();
    assert_eq!(w.all_started(), starts);
    assert_eq!(w.count(EventKind::Takeover), 0, "L3");
}

#[test]
fn a_dead_runner_is_replaced_within_a_lease_and_two_heartbeats() {
    let mut w = every(600).hosts(2).runs_take(100 * S);
    w.until(605 * S);
    let runner = w.runner(600).expect("it runs");
    w.crash(runner);
    w.until(650 * S);
    // L1: last heartbeat + lease + 2 x heartbeat.
    assert_eq!(w.started(600), [(600, 1), (600, 2)]);
    w.until(800 * S);
    assert_eq!(w.status(600), Some(Status::Success));
    assert_eq!(w.starts_and_hand_overs(600), (2, 0));
}

#[test]
fn a_host_that_comes_back_takes_its_own_dead_run_over() {
    let mut w = every(600).hosts(1).runs_take(100 * S);
    w.until(605 * S);
    w.crash(0);
    w.until(607 * S);
    w.boot(0);
    w.until(650 * S);
    assert_eq!(w.started(600), [(600, 1), (600, 2)]);
}

#[test]
fn a_run_that_a_due_slot_will_replace_is_left() {
    // Trace 13: everything restarts after the next slot was due and before anyone started it.
    let mut w = every(600).hosts(1).runs_take(500 * S);
    w.until(610 * S);
    w.crash(0);
    w.until(1_250 * S);
    w.boot(0);
    w.until(1_300 * S);
    assert_eq!(w.status(600), Some(Status::Interrupted));
    assert_eq!(w.started(1_200), [(1_200, 1)], "caught up");
    assert_eq!(w.count(EventKind::Interrupted), 1, "and that is told");
    assert_eq!(w.count(EventKind::Takeover), 0);
}

#[test]
fn overlap_skips_and_the_next_free_slot_wins_in_time() {
    // Trace 1: slots every 3 s, a run takes 7 s.
    let policy = Policy { jitter: Duration::ZERO, ..Policy::default() };
    let mut w = World::new(Duration::from_secs(3), policy).hosts(2).runs_take(7 * S);
    w.until(12 * S + 500);
    assert_eq!(w.all_started(), [(3, 1), (12, 1)]);
    assert!(w.count(EventKind::Skip) >= 2);
    w.until(14 * S + 500);
    assert_eq!(w.all_started(), [(3, 1), (12, 1)], "a skipped slot is not started by its backup");
}

#[test]
fn allow_lets_runs_overlap() {
    let policy = Policy { overlap: Overlap::Allow, ..Policy::default() };
    let mut w = World::new(Duration::from_secs(10), policy).hosts(2).runs_take(25 * S);
    w.until(41 * S);
    assert_eq!(w.all_started(), [(10, 1), (20, 1), (30, 1), (40, 1)]);
}

#[test]
fn stop_hands_over_within_two_heartbeats() {
    let mut w = every(600).hosts(2).runs_take(100 * S);
    w.until(620 * S);
    let runner = w.runner(600).expect("it runs");
    w.stop(runner);
    // L2: after a release by 2 x heartbeat.
    w.until(631 * S);
    assert_eq!(w.started(600), [(600, 1), (600, 2)]);
    assert_eq!(w.starts_and_hand_overs(600), (2, 1));
    assert!(w.is_idle(runner));
}

#[test]
fn a_refused_heartbeat_loses_the_run_and_makes_a_backup() {
    // Trace 7: A freezes, B takes over, A wakes and is told, B dies: A takes over.
    let mut w = every(3_600).hosts(2).runs_take(1_000 * S);
    w.until(3_610 * S);
    let a = w.runner(3_600).expect("it runs");
    w.freeze(a, 60 * S);
    w.until(3_700 * S);
    let b = w.runner(3_600).expect("taken over");
    assert_ne!(a, b);
    assert_eq!(w.count(EventKind::Lost), 1);
    w.crash(b);
    w.until(3_745 * S);
    assert_eq!(w.attempt(3_600), Attempt(3));
    assert_eq!(w.runner(3_600), Some(a));
}

#[test]
fn a_full_host_takes_over_as_soon_as_a_place_is_free() {
    // Trace 8.
    let mut w = every(3_600).hosts(2).runs_take(1_000 * S);
    w.until(3_610 * S);
    let a = w.runner(3_600).expect("it runs");
    let b = 1 - a;
    w.places(b, 0);
    w.crash(a);
    w.until(3_700 * S);
    assert_eq!(w.attempt(3_600), Attempt(1));
    assert_eq!(w.count(EventKind::NoPlace), 1, "it is said, once, that the run waits");
    w.places(b, 1);
    w.until(3_701 * S);
    assert_eq!(w.attempt(3_600), Attempt(2));
}

#[test]
fn a_slot_without_a_place_waits_until_it_could_only_be_late() {
    let mut w = every(600).hosts(1).runs_take(S);
    w.places(0, 0);
    w.until(650 * S);
    assert_eq!(w.count(EventKind::NoPlace), 1);
    w.places(0, 1);
    w.until(651 * S);
    assert_eq!(w.started(600), [(600, 1)]);
    w.places(0, 0);
    w.until(1_300 * S);
    assert_eq!(w.count(EventKind::Late), 1);
    assert_eq!(w.started(1_200), []);
}

#[test]
fn clocks_that_run_ahead_wait_for_the_stores() {
    // Trace 9: all hosts' clocks 15 s ahead.
    let mut w = every(60).hosts(2).runs_take(S).wall_ahead(15 * S);
    w.until(200 * S);
    assert_eq!(w.all_started(), [(60, 1), (120, 1), (180, 1)]);
    assert_eq!(w.count(EventKind::Early), 0, "whoever has heard the store's clock goes by it");
}

#[test]
fn a_clock_far_behind_misses_no_slot() {
    let mut w = every(60).hosts(1).runs_take(S).wall_ahead(-3_600 * S);
    w.until(200 * S);
    assert_eq!(w.all_started(), [(60, 1), (120, 1), (180, 1)]);
    assert_eq!(w.count(EventKind::Late), 0);
}

/// What a clock was found to be wrong by is not kept: it may have been put right meanwhile, and a slot that is begun too
/// late by it is never claimed, so no answer would correct it.
#[test]
fn a_clock_that_was_wrong_and_is_right_again_is_believed_again() {
    let mut w = every(60).hosts(1).runs_take(S).wall_ahead(600 * S);
    w.until(130 * S);
    let mut w = w.wall_ahead(0);
    w.until(250 * S);
    assert_eq!(w.all_started(), [(60, 1), (120, 1), (180, 1), (240, 1)]);
}

#[test]
fn a_clock_far_ahead_holds_no_places_and_delays_no_slot() {
    let mut w = every(10).hosts(1).runs_take(S).wall_ahead(300 * S);
    w.places(0, 2);
    w.until(100 * S + 500);
    let slots: Vec<(i64, u32)> = (1..=10).map(|n| (n * 10, 1)).collect();
    assert!(w.all_started().iter().rev().eq(slots.iter().rev().take(w.all_started().len())), "{:?}", w.all_started());
    assert!(w.all_started().len() >= 6, "{:?}", w.all_started());
    assert!(w.count(EventKind::Early) <= 2, "{}", w.count(EventKind::Early));
    assert_eq!(w.count(EventKind::NoPlace), 0);
}

#[test]
fn a_slot_within_the_clock_grace_is_still_claimed() {
    // Between max_late and max_late + 10 s the store would still let it win.
    let mut w = every(3_600).hosts(1).runs_take(S);
    w.until(3_590 * S);
    w.freeze(0, 75 * S);
    w.until(3_670 * S);
    assert_eq!(w.started(3_600), [(3_600, 1)]);
    assert_eq!(w.count(EventKind::Late), 0);
}

#[test]
fn slots_that_passed_while_no_host_was_up_are_told() {
    let mut w = every(60).hosts(1).runs_take(S);
    w.until(70 * S);
    w.crash(0);
    w.until(1_000 * S);
    w.boot(0);
    w.until(1_005 * S);
    let told = "no host took the slots from 1970-01-01T00:02:00.000Z up to this one";
    assert_eq!(w.missed(), [(900, told.to_owned())]);
    assert_eq!(w.started(960), [(960, 1)], "the latest is caught up");
}

#[test]
fn after_a_store_outage_only_the_latest_slot_is_caught_up() {
    let mut w = every(60).hosts(2).runs_take(S);
    w.until(70 * S);
    w.cut_store(true);
    w.until(400 * S);
    w.cut_store(false);
    w.until(410 * S);
    let mut started = w.all_started();
    started.dedup();
    assert_eq!(started.len(), 2, "{started:?}");
    assert_eq!(started[1], (360, 1));
    w.until(430 * S);
    assert_eq!(w.started(420), [(420, 1)]);
}

#[test]
fn a_frozen_host_runs_one_slot_not_a_backlog() {
    let mut w = every(60).hosts(1).runs_take(S);
    w.until(70 * S);
    w.freeze(0, 600 * S);
    w.until(700 * S);
    assert_eq!(w.all_started(), [(60, 1), (660, 1)]);
    let told = "this host could not look at the slots from 1970-01-01T00:02:00.000Z up to this one";
    assert_eq!(w.missed(), [(600, told.to_owned())]);
}

#[test]
fn a_first_announcement_catches_nothing_up() {
    let mut w = every(60).hosts(0);
    w.until(3_650 * S);
    w.boot(0);
    w.until(3_655 * S);
    assert_eq!(w.all_started(), []);
    w.until(3_661 * S);
    assert_eq!(w.started(3_660), [(3_660, 1)]);
}

#[test]
fn a_start_for_want_of_resources_is_left_to_others_for_a_lease() {
    let mut w = every(600).hosts(2).runs_take(S);
    w.want_of_resources(0);
    w.until(630 * S);
    assert_eq!(w.status(600), Some(Status::Success));
    assert_eq!(w.runner_of(slot(600)), 1);
}

#[test]
fn a_finish_whose_answer_is_lost_is_sent_again() {
    let mut w = every(600).hosts(1).runs_take(10 * S);
    w.until(605 * S);
    w.lose_answers(true);
    w.until(620 * S);
    w.lose_answers(false);
    w.until(630 * S);
    assert_eq!(w.status(600), Some(Status::Success));
    assert_eq!(w.started(600), [(600, 1)]);
    assert!(w.is_idle(0));
}

#[test]
fn nobody_becomes_a_backup_of_a_run_that_has_ended_here() {
    let mut w = every(60).hosts(1).runs_take(5 * S).polls_at_every_step();
    w.until(130 * S);
    assert_eq!(w.all_started(), [(60, 1), (120, 1)]);
    assert_eq!(w.count(EventKind::Backup), 0);
}

#[test]
fn a_run_whose_attempts_are_used_up_is_told() {
    let mut w = every(3_600).hosts(1).runs_take(1_000 * S);
    for _ in 0..3 {
        w.until_started(3_600);
        w.crash(0);
        w.boot(0);
    }
    w.until(3_900 * S);
    assert_eq!(w.status(3_600), Some(Status::Interrupted));
    assert_eq!(w.starts_and_hand_overs(3_600), (3, 0));
    assert_eq!(w.count(EventKind::Interrupted), 1);
}

#[test]
fn a_withdrawn_job_finishes_what_runs_and_starts_nothing() {
    let mut w = every(60).hosts(1).runs_take(20 * S);
    w.until(65 * S);
    w.withdraw(0);
    w.until(200 * S);
    assert_eq!(w.all_started(), [(60, 1)]);
    assert_eq!(w.status(60), Some(Status::Success));
    assert!(w.is_idle(0) && !w.is_offered(0));
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let history = |seed| {
        let mut w = every(30).seed(seed).hosts(3).runs_take(40 * S);
        w.until(600 * S);
        w.history()
    };
    assert_eq!(history(7), history(7));
    assert_ne!(history(7), history(8));
}

/// L6: another job's call may tell that the store answers before the deadline of this job's last claim has passed; and each
/// copy of a claim may arrive when it is not waited for any more.
#[test]
fn a_slot_that_is_given_up_when_the_store_answers_again_already_is_caught_up() {
    for arrives_too_late in [false, true] {
        given_up_and_caught_up(arrives_too_late);
    }
}

fn given_up_and_caught_up(arrives_too_late: bool) {
    let policy = Policy { jitter: Duration::ZERO, catch_up_jitter: Duration::ZERO, ..Policy::default() };
    let schedule = Schedule::every(Duration::from_secs(600)).expect("an interval");
    let offer = Offer { schedule: Some(schedule), policy, digest: Digest([0; 32]) };
    let (mut agent, mut dice, mut missed) = (Agent::new(), Dice::new(1), 0);
    let mut feed = |ms: i64, input: Input| {
        let now = Now { wall: Millis(ms), mono: Mono(Duration::from_millis(ms as u64)), store: Millis(ms) };
        let mut commands = agent.handle(now, input, &mut dice);
        let is_missed =
            |command: &&Command| matches!(command, Command::Event(event) if event.kind == EventKind::Missed);
        missed += commands.iter().filter(is_missed).count();
        // There is always a place.
        while let Some(Command::Reserve(run)) = commands.iter().find(|command| matches!(command, Command::Reserve(_))) {
            let run = run.clone();
            commands = agent.handle(now, Input::Place(run), &mut dice);
            commands.extend(agent.handle(now, Input::Wake, &mut dice));
        }
        commands.into_iter().find_map(|command| match command {
            Command::Claim(claim) => Some(claim),
            _ => None,
        })
    };
    feed(S, Input::Offered { offer, since: Millis(0), newest_started: None, newest_skipped: None });
    let due = 600 * S;
    let claim = feed(due, Input::Wake).expect("the slot is claimed");
    let (run, token) = (claim.run.clone(), claim.token);
    let unanswered = Input::ClaimUnanswered { run: run.clone(), token };
    // A copy every four seconds, none of which is answered within two.
    for sent in (due..due + 68 * S).step_by(4 * S as usize) {
        assert_eq!(feed(sent + 2 * S, unanswered.clone()), None);
        assert_eq!(feed(sent + 4 * S, Input::Wake).map(|claim| claim.token), Some(token));
    }
    let last = match arrives_too_late {
        true => Input::Claimed { run, token, answer: ClaimAnswer::Old, store_now: Millis(due + 70 * S + 1) },
        false => unanswered,
    };
    assert_eq!(feed(due + 69 * S, Input::StoreUp), None);
    let next = feed(due + 70 * S + 1, last).expect("the slot is claimed once more");
    assert!(matches!(next.kind, ClaimKind::CatchUp { .. }) && next.run == claim.run, "{next:?}");
    assert_eq!(missed, 1);
}

/// A newest slot of the store's future is lowered by an unblock; any other only rises, for answers may be outdated.
#[test]
fn a_newest_slot_of_the_future_is_what_was_heard_last() {
    let schedule = Schedule::every(Duration::from_secs(600)).expect("an interval");
    let offer = Offer { schedule: Some(schedule), policy: Policy::default(), digest: Digest([0; 32]) };
    let (mut agent, mut dice) = (Agent::new(), Dice::new(1));
    let now = Now { wall: Millis(900 * S), mono: Mono(Duration::from_secs(900)), store: Millis(900 * S) };
    let at = |seconds: i64| Some(Slot(Millis(seconds * S)));
    let offered = Input::Offered { offer, since: Millis(0), newest_started: at(4_200), newest_skipped: at(4_800) };
    agent.handle(now, offered, &mut dice);
    assert_eq!((agent.newest_started, agent.newest_skipped), (at(4_200), at(4_800)));
    for (heard, known) in [(600, 600), (0, 600)] {
        let (newest_started, newest_skipped) = (at(heard), at(heard));
        let seen = Seen { runs: Vec::new(), store_now: now.store, newest_started, newest_skipped };
        agent.handle(now, Input::Seen(seen), &mut dice);
        assert_eq!((agent.newest_started, agent.newest_skipped), (at(known), at(known)));
    }
}

#[test]
fn a_plugin_is_named_from_the_claim_until_the_handler_starts() {
    let policy = Policy { jitter: Duration::ZERO, ..Policy::default() };
    let schedule = Schedule::every(Duration::from_secs(600)).expect("an interval");
    let (old, new) = (Digest([1; 32]), Digest([2; 32]));
    let offered = |digest| {
        let offer = Offer { schedule: Some(schedule.clone()), policy: policy.clone(), digest };
        Input::Offered { offer, since: Millis(S), newest_started: None, newest_skipped: None }
    };
    let (mut agent, mut dice) = (Agent::new(), Dice::new(1));
    let at = |ms: i64| Now { wall: Millis(ms), mono: Mono(Duration::from_millis(ms as u64)), store: Millis(ms) };
    agent.handle(at(S), offered(old), &mut dice);
    agent.handle(at(600 * S), Input::Wake, &mut dice);
    assert!(!agent.names(&old), "nothing is claimed before there is a place");
    let claimed = agent.handle(at(600 * S), Input::Place(slot(600)), &mut dice);
    let [Command::Claim(claim)] = &claimed[..] else { panic!("no claim: {claimed:?}") };
    agent.handle(at(600 * S + 1), offered(new), &mut dice);
    assert!(agent.names(&old) && !agent.names(&new), "the claim is on its way");
    let answer = ClaimAnswer::Won { attempt: Attempt(1), fence: Fence(1), payload: None };
    let late = 600 * S + policy.lease.as_millis() as i64;
    let won = Input::Claimed { run: slot(600), token: claim.token, answer, store_now: Millis(late) };
    let won = agent.handle(at(late), won, &mut dice);
    assert!(
        matches!(won.last(), Some(Command::Confirm(_))) && agent.names(&old),
        "a heartbeat must be ok first: {won:?}"
    );
    let started = agent.handle(at(late + 1), Input::Confirmed(slot(600), claim.token), &mut dice);
    assert!(matches!(&started[..], [Command::Start(start)] if start.digest == Some(old)), "{started:?}");
    assert!(!agent.names(&old), "the handler has its own hold of it");
}
