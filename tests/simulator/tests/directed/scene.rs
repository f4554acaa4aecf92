//! A plan without chance in it, and questions about what came of it.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_lease::id::RunId;
use leasehold_lease::policy::Policy;
use leasehold_lease::run::Run;
use leasehold_lease::time::{Millis, Slot};
use leasehold_simulator::{Fault, Happened, Ms, Plan, Report, START, run};

pub(crate) const S: Ms = 1_000;

/// The first slot of a job that runs every ten minutes.
pub(crate) const FIRST: Ms = 200 * S;

/// What is to happen.
#[derive(Clone)]
pub(crate) struct Scene {
    seed: u64,
    pub(crate) plan: Plan,
}

impl Scene {
    /// A job with the defaults, every this many milliseconds, on this many hosts. All handlers take the same time, and look
    /// at the signal.
    pub(crate) fn new(hosts: usize, interval: Ms, takes: Ms) -> Scene {
        let plan = Plan {
            hosts,
            others: BTreeMap::new(),
            interval: Some(interval),
            later: None,
            takes: (takes, takes),
            stubborn: 0,
            failing: 0,
            wakeups: 0,
            drift: vec![0; hosts],
            faults: Vec::new(),
            // Nothing is put right by itself.
            healed: START + 100 * 3_600 * S,
            end: START + 600 * S,
            policy: Policy { jitter: Duration::from_millis(100), ..Policy::default() },
        };
        Scene { seed: 1, plan }
    }

    /// A job that runs every ten minutes for this long, with its first slot at [`FIRST`].
    pub(crate) fn every_ten_minutes(hosts: usize, takes: Ms) -> Scene {
        Scene::new(hosts, 600 * S, takes)
    }

    pub(crate) fn seed(mut self, seed: u64) -> Scene {
        self.seed = seed;
        self
    }

    pub(crate) fn policy(mut self, change: impl FnOnce(&mut Policy)) -> Scene {
        change(&mut self.plan.policy);
        self
    }

    /// This happens this long after the start.
    pub(crate) fn at(mut self, at: Ms, fault: Fault) -> Scene {
        self.plan.faults.push((START + at, fault));
        self
    }

    pub(crate) fn until(mut self, end: Ms) -> Scene {
        self.plan.end = START + end;
        self
    }

    /// The host that executes the run of this slot at that time: the same seed does the same up to there.
    pub(crate) fn runner(&self, slot: Ms, at: Ms) -> usize {
        let played = self.clone().until(at).play();
        played.starts(&slot_at(slot)).last().unwrap_or_else(|| panic!("nobody runs {slot}: {}", played.told())).host
    }

    /// Plays it. No invariant may break.
    pub(crate) fn play(&self) -> Played {
        let played = Played(run(self.seed, self.plan.clone(), true));
        assert_eq!(played.0.broken, None, "{}", played.told());
        played
    }
}

/// What came of it.
pub(crate) struct Played(Report);

impl Played {
    /// Starts of this run's handlers, in their order.
    pub(crate) fn starts(&self, run: &RunId) -> Vec<&Happened> {
        self.all("start").into_iter().filter(|h| h.run.as_ref() == Some(run)).collect()
    }

    /// When and as which attempt a slot's handlers started.
    pub(crate) fn attempts(&self, slot: Ms) -> Vec<(Ms, u32)> {
        let number = |h: &Happened| h.attempt.expect("a start has an attempt").0;
        self.starts(&slot_at(slot)).into_iter().map(|h| (h.at, number(h))).collect()
    }

    /// The slots that started, in their order, with the attempt.
    pub(crate) fn started(&self) -> Vec<(Ms, u32)> {
        let slot = |h: &Happened| h.run.as_ref().and_then(RunId::slot).map(|slot| slot.0.0 - START);
        self.all("start").into_iter().filter_map(|h| Some((slot(h)?, h.attempt?.0))).collect()
    }

    /// Everything of this kind.
    pub(crate) fn all(&self, what: &str) -> Vec<&Happened> {
        self.0.happened.iter().filter(|h| h.what == what).collect()
    }

    pub(crate) fn count(&self, what: &str) -> u64 {
        self.0.seen.get(what).copied().unwrap_or(0)
    }

    pub(crate) fn run(&self, slot: Ms) -> &Run {
        &self.0.job.runs[&slot_at(slot)]
    }

    /// On-demand runs, oldest first.
    pub(crate) fn demands(&self) -> Vec<(&RunId, &Run)> {
        let mut all: Vec<_> = self.0.job.runs.iter().filter(|(id, _)| id.slot().is_none()).collect();
        all.sort_by_key(|(id, run)| (run.due, *id));
        all
    }

    /// Step by step, for who reads a failure.
    pub(crate) fn told(&self) -> String {
        self.0.trail.join("\n")
    }
}

/// The run of the slot this long after the start.
pub(crate) fn slot_at(slot: Ms) -> RunId {
    RunId::Slot(Slot(Millis(START + slot)))
}
