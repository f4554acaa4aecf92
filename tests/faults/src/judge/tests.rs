//! Each judge finds what it is there for, in a story that is otherwise good.

use serde_json::{Value, json};

use super::*;
use crate::board::{Binary, LEASE};
use crate::record::{Effect, Told};
use crate::store::Kind;

/// Two hosts, one job with a slot each second, which acts twice; all of it happened a while ago.
struct Story {
    setup: Setup,
    heard: Heard,
    runs: Vec<Value>,
    shown: Vec<Value>,
    first: i64,
    watchdog: Watchdog,
}

const SLOTS: i64 = 6;

impl Story {
    /// Each slot runs on the first host, in 50 ms, and nothing is done to anybody.
    fn good() -> Story {
        let setup = Setup {
            kind: Kind::Redis,
            binary: Binary("leasehold".into()),
            hosts: 2,
            jobs: 1,
            policy: LEASE,
            every: Some(Duration::from_secs(1)),
            acts: 2,
            pace: 10,
            max_attempts: 3,
            clocks: false,
            log: None,
        };
        let first = clock::wall() / 1_000 * 1_000 - 60_000;
        let (heard, runs, shown) = (Heard::default(), Vec::new(), Vec::new());
        let mut story = Story { setup, heard, runs, shown, first, watchdog: Watchdog::start() };
        for n in 0..SLOTS {
            let slot = first + n * 1_000;
            story.told(10, 0, "claimed", slot, 1);
            story.told(20, 1, "backup", slot, 1);
            story.act(20, slot, 1, 0);
            story.act(30, slot, 1, 1);
            story.told(50, 0, "success", slot, 1);
            story.runs.push(run(slot, "success", 1));
        }
        story
    }

    fn told(&mut self, after: u64, host: usize, word: &str, slot: i64, attempt: u32) {
        let at = mono_of(slot) + Duration::from_millis(after);
        let detail = if word == "claimed" { format!("fence {}", fence(slot, attempt)) } else { String::new() };
        let (job, slot, attempt) = (Some(0), Some(slot), Some(attempt));
        self.heard.told.push(Told { at, host, word: word.into(), job, slot, attempt, detail });
    }

    fn act(&mut self, after: u64, slot: i64, attempt: u32, act: u32) {
        let (at, fence) = (mono_of(slot) + Duration::from_millis(after), fence(slot, attempt));
        self.heard.effects.push(Effect { at, job: 0, slot, attempt, fence, act, key: format!("{slot}-{act}") });
    }

    fn outage(&mut self, whom: Whom, from: i64, to: i64) {
        self.heard.outages.push(Outage { whom, from: mono_of(from), to: mono_of(to), what: "it".into() });
    }

    /// The slot's runner is silent, and the other host takes it over 1.2 s after it was due.
    fn taken_over(&mut self, slot: i64) {
        self.heard.told.retain(|told| told.slot != Some(slot) || told.word != "success");
        self.told(1_200, 1, "claimed", slot, 2);
        self.told(1_200, 1, "takeover", slot, 2);
        self.act(1_220, slot, 2, 0);
        self.act(1_230, slot, 2, 1);
        self.told(1_250, 1, "success", slot, 2);
        self.runs.retain(|run| run["run"] != at(slot));
        self.runs.push(run(slot, "success", 2));
    }

    fn slot(&self, n: i64) -> i64 {
        self.first + n * 1_000
    }

    /// What is found, when all was well again only after the last slot.
    fn wrong(&self) -> Vec<String> {
        self.judged(self.first + 60_000).wrong
    }

    fn judged(&self, healed: i64) -> Verdict {
        judge(&Case {
            setup: &self.setup,
            heard: &self.heard,
            runs: std::slice::from_ref(&self.runs),
            shown: &self.shown,
            slots: (self.first, self.first + SLOTS * 1_000),
            healed: mono_of(healed),
            watchdog: &self.watchdog,
        })
    }

    /// This and nothing else is broken.
    fn breaks(&self, invariant: &str) {
        let wrong = self.wrong();
        assert!(!wrong.is_empty() && wrong.iter().all(|what| what.starts_with(invariant)), "{invariant}: {wrong:?}");
    }
}

fn fence(slot: i64, attempt: u32) -> u64 {
    slot.unsigned_abs() * 1_024 + u64::from(attempt)
}

fn run(slot: i64, status: &str, attempt: u32) -> Value {
    json!({
        "job": "default/j0", "run": at(slot), "status": status, "attempt": attempt, "starts": attempt, "hand_overs": 0,
    })
}

#[test]
fn a_good_story_is_good() {
    let story = Story::good();
    assert_eq!(story.judged(story.first).wrong, Vec::<String>::new());
    let counts = story.judged(story.first).counts;
    assert_eq!((counts["slots"], counts["slots that ran"], counts["acts"]), (6, 6, 12));
}

#[test]
fn an_attempt_that_two_hosts_win_is_found() {
    let mut story = Story::good();
    story.told(15, 1, "claimed", story.slot(2), 1);
    story.breaks("S1");
}

#[test]
fn an_older_slot_that_is_won_after_a_newer_one_is_found() {
    let mut story = Story::good();
    let later = fence(story.slot(4), 9);
    for told in story.heard.told.iter_mut().filter(|told| told.slot == Some(story.first) && told.word == "claimed") {
        told.detail = format!("fence {later}");
    }
    assert!(story.wrong().iter().any(|what| what.starts_with("S8")));
}

#[test]
fn a_handler_that_starts_twice_in_one_attempt_is_found() {
    let mut story = Story::good();
    story.act(40, story.slot(1), 1, 0);
    story.breaks("H1");
}

#[test]
fn an_act_of_an_older_attempt_after_a_newer_win_is_found() {
    let mut story = Story::good();
    let slot = story.slot(5);
    story.outage(Whom::Host(0), slot, slot + 2_000);
    story.taken_over(slot);
    assert_eq!(story.wrong(), Vec::<String>::new());
    let late = story.heard.effects.iter().position(|effect| (effect.slot, effect.attempt, effect.act) == (slot, 1, 1));
    story.heard.effects[late.expect("it acted")].at = mono_of(slot) + Duration::from_millis(1_300);
    story.breaks("H3");
    // A clock that was set forward ends leases before their time.
    story.outage(Whom::StoreClock, slot, slot + 2_000);
    assert_eq!(story.wrong(), Vec::<String>::new());
}

#[test]
fn a_success_without_its_acts_and_a_key_of_another_act_are_found() {
    let mut story = Story::good();
    story.heard.effects.pop();
    story.breaks("H2");
    let mut story = Story::good();
    story.heard.effects[3].key = story.heard.effects[0].key.clone();
    story.breaks("key");
}

#[test]
fn a_takeover_without_a_fault_is_found() {
    let mut story = Story::good();
    let slot = story.slot(5);
    story.taken_over(slot);
    story.breaks("L3");
    // One that was handed over was not taken from anybody.
    story.told(500, 0, "interrupted", slot, 1);
    assert_eq!(story.wrong(), Vec::<String>::new());
}

/// A claim may be won after its host has given it up; then the host hands over at once and has never told of an attempt.
#[test]
fn a_takeover_of_what_was_won_unheard_takes_nothing_from_anybody() {
    let mut story = Story::good();
    let slot = story.slot(5);
    story.taken_over(slot);
    story.heard.told.retain(|told| (told.slot, told.attempt, told.word.as_str()) != (Some(slot), Some(1), "claimed"));
    story.breaks("L3");
    story.told(500, 0, "missed", slot, 1);
    assert!(story.wrong().iter().all(|wrong| !wrong.contains("L3")), "{:?}", story.wrong());
}

#[test]
fn a_slot_that_nobody_speaks_of_is_found_unless_nobody_was_well() {
    let mut story = Story::good();
    let slot = story.slot(3);
    story.heard.told.retain(|told| told.slot != Some(slot));
    story.heard.effects.retain(|effect| effect.slot != slot);
    story.runs.retain(|run| run["run"] != at(slot));
    story.breaks("L5");
    story.outage(Whom::Host(0), slot - 100, slot + 100);
    story.breaks("L5");
    story.outage(Whom::Host(1), slot - 100, slot + 100);
    assert_eq!(story.wrong(), Vec::<String>::new());
    // One that was skipped was spoken of.
    story.heard.outages.clear();
    story.told(10, 1, "skip", slot, 1);
    assert_eq!(story.wrong(), Vec::<String>::new());
    // When all has been well for long, that is not enough.
    assert!(story.judged(slot - 20_000).wrong.iter().any(|what| what.starts_with("L6")));
}

#[test]
fn what_hosts_say_they_passed_over_is_accounted_for() {
    let mut story = Story::good();
    let slots = [story.slot(2), story.slot(3)];
    story.heard.told.retain(|told| !told.slot.is_some_and(|slot| slots.contains(&slot)));
    story.heard.effects.retain(|effect| !slots.contains(&effect.slot));
    story.runs.retain(|run| !slots.iter().any(|slot| run["run"] == at(*slot)));
    story.breaks("L5");
    story.told(0, 0, "missed", slots[1], 1);
    story.breaks("L5");
    let told = story.heard.told.last_mut().expect("it was told");
    told.detail = format!("this host could not look at the slots from {} up to this one", at(slots[0]));
    assert_eq!(story.wrong(), Vec::<String>::new());
}

#[test]
fn records_that_disagree_with_what_was_heard_are_found() {
    let mut story = Story::good();
    story.runs[2] = run(story.slot(2), "interrupted", 1);
    story.breaks("S6");
    let mut story = Story::good();
    story.runs[2]["starts"] = json!(5);
    assert!(story.wrong().iter().any(|what| what.starts_with("S3")));
    let mut story = Story::good();
    story.runs[5] = run(story.slot(5), "running", 1);
    assert!(story.wrong().iter().any(|what| what.starts_with("L4")));
}

#[test]
fn what_the_store_forgot_is_not_asked_for_and_what_came_later_is() {
    let mut story = Story::good();
    story.runs.clear();
    let end = story.slot(SLOTS);
    story.outage(Whom::StoreData, end, end);
    assert_eq!(story.wrong(), Vec::<String>::new());
    story.heard.outages.clear();
    story.outage(Whom::StoreData, story.first - 30_000, story.first - 30_000);
    assert!(!story.wrong().is_empty());
}
