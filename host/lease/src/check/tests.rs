//! Small scopes explored: every message may arrive at any time, late and again, while the clock jumps both ways.

use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::op::{Announce, Cancel, Close, Finish, Heartbeat, Release, Trigger, Unblock};
use crate::policy::{Overlap, Terms};
use crate::rules;
use crate::run::{Hold, Outcome, Usage};
use crate::write::{Around, Change, Quota, Write};

/// Where the clock may be, in seconds: around leases of 15 s, slots of 0, 10 and 20 s, and the bounds of lateness.
const CLOCK: [i64; 6] = [0, 10, 16, 31, 47, 4_000];

/// States to visit in breadth; `LEASEHOLD_STATES` asks for more.
const STATES: usize = 10_000;

/// Operations of one random walk, and how many walks.
const WALK: (usize, u64) = (400, 100);

/// What can happen: the clock jumps, or a message arrives.
#[derive(Debug, Clone)]
enum Event {
    Clock(Millis),
    Message(Op),
}

#[derive(Clone)]
struct State {
    job: Job,
    now: Millis,
    history: History,
    /// How it was reached, as indices of events.
    trail: Vec<u16>,
}

fn terms(overlap: Overlap) -> Terms {
    Terms {
        lease: Duration::from_secs(15),
        max_attempts: 2,
        overlap,
        catch_up: Duration::from_secs(25),
        max_late: Duration::from_secs(10),
        history_size: 0,
    }
}

/// Everything that two hosts can say about three slots and an on-demand run.
fn events(overlap: Overlap) -> Vec<Event> {
    let mut events: Vec<Event> = CLOCK.iter().map(|s| Event::Clock(Millis(s * 1_000))).collect();
    let mut say = |op| events.push(Event::Message(op));
    let slots = [0, 10_000, 20_000].map(|at| RunId::Slot(Slot(Millis(at))));
    let on_demand = RunId::OnDemand("r".parse().unwrap());
    for run in slots.iter().chain([&on_demand]) {
        // Two hosts, one of which comes back a second time.
        for token in [1, 2, 3].map(|n| Token([n; 16])) {
            let kinds: &[ClaimKind] = match run {
                RunId::Slot(_) => {
                    &[ClaimKind::Slot, ClaimKind::CatchUp { age: Duration::from_secs(20) }, ClaimKind::Takeover]
                }
                RunId::OnDemand(_) => &[ClaimKind::OnDemand],
            };
            for kind in kinds {
                let (run, kind, runner, terms) = (run.clone(), *kind, String::new(), terms(overlap));
                let not_after = Millis(if kind == ClaimKind::Takeover { 40_000 } else { i64::MAX });
                say(Op::Claim(Claim { run, kind, token, runner, digest: None, terms, not_after }));
            }
            let run = run.clone();
            let usage = Usage::default();
            say(Op::Heartbeat(Heartbeat { run: run.clone(), token, progress: None }));
            let outcome = Outcome::Success { output: vec![token.0[0]], cut: false };
            say(Op::Finish(Finish { run: run.clone(), token, outcome, usage }));
            say(Op::Release(Release { run: run.clone(), token, usage }));
            if token == Token([1; 16]) {
                let quota = Quota::default();
                let change = Change::SaveState(vec![7]);
                say(Op::Write { write: Write { run, token, number: 1, quota, change }, around: Around::default() });
            }
        }
    }
    for run in [&slots[2], &on_demand] {
        say(Op::Cancel(Cancel { run: run.clone(), reason: String::new() }));
    }
    let unoffered_for = Duration::from_secs(30);
    say(Op::Close(Close { run: slots[0].clone(), unoffered_for, reason: String::new() }));
    say(Op::Unblock(Unblock { newest_due: Slot(Millis(0)) }));
    say(Op::Hold(Some(Hold { since: Some(Millis(15_000)), until: Some(Millis(16_000)), note: String::new() })));
    say(Op::Hold(None));
    say(Op::Trigger(Trigger { id: "r".parse().unwrap(), payload: None, pending_max: 1 }));
    say(Op::Announce(Announce { fingerprint: "x".into() }));
    say(Op::Prune { history_size: 0 });
    events
}

impl State {
    fn new(overlap: Overlap) -> State {
        let history = History::new(overlap == Overlap::Skip);
        State { job: Job::default(), now: Millis(0), history, trail: Vec::new() }
    }

    /// The state after this event, judged. None when nothing changes.
    fn after(&self, index: usize, events: &[Event]) -> Option<State> {
        let mut next = self.clone();
        next.trail.push(index as u16);
        match &events[index] {
            Event::Clock(now) if *now == self.now => return None,
            Event::Clock(now) => next.now = *now,
            Event::Message(op) => {
                let answer = rules::apply(&mut next.job, self.now, op);
                let step = Step { before: &self.job, op, answer: &answer, after: &next.job };
                if let Err(violation) = next.history.judge(&step) {
                    let trail: Vec<&Event> = next.trail.iter().map(|i| &events[usize::from(*i)]).collect();
                    panic!("{violation}\nanswer {:?}\ntrail {trail:#?}", answer.answer);
                }
                if next.job.revision == self.job.revision {
                    return None;
                }
            }
        }
        Some(next)
    }

    /// What tells states apart: all that a rule can look at.
    fn digest(&self) -> u128 {
        let half = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            (salt, self.now, &self.history, self.job.newest_started, self.job.newest_skipped, self.job.since)
                .hash(&mut hasher);
            (self.job.last_fence, self.job.largest_bound, &self.job.gone, self.job.last_offered).hash(&mut hasher);
            self.job.hold.hash(&mut hasher);
            for (id, run) in &self.job.runs {
                (id, run.status, run.lease_end, run.released, run.hand_overs, run.ended_at, run.due).hash(&mut hasher);
                (&run.cancelled, run.state_size).hash(&mut hasher);
                for attempt in &run.attempts {
                    (attempt.token.0, attempt.ended.map(|(_, how)| how.word()), attempt.last_write).hash(&mut hasher);
                }
            }
            u128::from(hasher.finish())
        };
        half(0) << 64 | half(1)
    }
}

/// Visits states in breadth, each once, and judges every step out of each.
fn explore(overlap: Overlap) {
    let limit = std::env::var("LEASEHOLD_STATES").map_or(STATES, |n| n.parse().expect("LEASEHOLD_STATES is a number"));
    let events = events(overlap);
    let start = State::new(overlap);
    let mut seen = HashSet::from([start.digest()]);
    let mut frontier = vec![start];
    let (mut depth, mut steps) = (0, 0_u64);
    while seen.len() < limit && !frontier.is_empty() {
        let mut next = Vec::new();
        for state in &frontier {
            for index in 0..events.len() {
                steps += 1;
                if let Some(reached) = state.after(index, &events)
                    && seen.insert(reached.digest())
                    && seen.len() < limit
                {
                    next.push(reached);
                }
            }
        }
        frontier = next;
        depth += 1;
    }
    eprintln!("{overlap:?}: {} states, {steps} steps, depth {depth}", seen.len());
    assert!(seen.len() >= limit, "the scope is larger than this: {} states", seen.len());
}

#[test]
fn no_interleaving_breaks_an_invariant_under_skip() {
    explore(Overlap::Skip);
}

#[test]
fn no_interleaving_breaks_an_invariant_under_allow() {
    explore(Overlap::Allow);
}

#[test]
fn no_long_walk_breaks_an_invariant() {
    for seed in 0..WALK.1 {
        let overlap = if seed % 2 == 0 { Overlap::Skip } else { Overlap::Allow };
        let events = events(overlap);
        let mut rng = StdRng::seed_from_u64(seed);
        let mut state = State::new(overlap);
        for _ in 0..WALK.0 {
            if let Some(next) = state.after(rng.random_range(0..events.len()), &events) {
                state = next;
            }
        }
    }
}
