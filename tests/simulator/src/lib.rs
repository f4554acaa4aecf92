//! Many hosts, one job's record, and a network between them that loses, repeats and delays: an hour of it in
//! milliseconds, and the same again from the same seed.
//!
//! The agents are those that hosts run ([`leasehold_lease::agent`], [`leasehold_lease::holding`]) and the store is the
//! rules ([`leasehold_lease::rules`]); only what carries messages, clocks and handlers is made up. After every step the
//! store's invariants are judged ([`leasehold_lease::check`]) and those of hosts ([`watch`]); in the last quarter of the
//! hour nothing goes wrong any more, and everything that was promised for that case is demanded.
//!
//! `simulate --seeds 0..10000` runs many; `simulate --replay SEED` tells one step by step; with `--two`, of two jobs that
//! compete for places.

mod clocks;
mod driver;
mod faults;
mod host;
mod keeping;
mod people;
mod places;
mod plan;
mod queue;
mod store;
mod trail;
pub mod watch;
mod world;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use leasehold_lease::id::{Attempt, RunId};
use leasehold_lease::run::Job;

use places::Places;
use world::World;

pub use plan::{Fault, Plan};
pub use watch::Broken;

/// Milliseconds of the simulation's own time, which no host knows.
pub type Ms = i64;

const SECOND: Ms = 1_000;
const MINUTE: Ms = 60 * SECOND;

/// When simulations begin: far enough from zero that clocks can be set back.
pub const START: Ms = 1_000_000 * SECOND;

/// What came of a simulation.
#[derive(Debug)]
pub struct Report {
    /// The first promise that did not hold.
    pub broken: Option<Broken>,
    /// How often each kind of thing happened.
    pub seen: BTreeMap<String, u64>,
    /// What happened, step by step, where that was asked for.
    pub trail: Vec<String>,
    /// The same for tests: starts of handlers, and what hosts told.
    pub happened: Vec<Happened>,
    /// The record in the end.
    pub job: Job,
}

/// Something that a host did or told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happened {
    /// When, by the simulation's time since its start.
    pub at: Ms,
    /// Which host.
    pub host: usize,
    /// The event's word, or `start` where a handler starts.
    pub what: &'static str,
    /// Which run.
    pub run: Option<RunId>,
    /// Which attempt.
    pub attempt: Option<Attempt>,
}

/// Runs a simulation. With `tell` it is told step by step.
pub fn run(seed: u64, plan: Plan, tell: bool) -> Report {
    let mut world = World::new(seed, plan, tell);
    while world.next_at().is_some() {
        world.step();
    }
    world.report()
}

/// Runs two jobs on the same hosts, which have one or two places for both until all is well. Each has its own record, agents
/// and messages, and its own judge.
pub fn run_two(seed: u64, plans: [Plan; 2], tell: bool) -> [Report; 2] {
    let places = 1 + seed as usize % 2;
    let shared = Rc::new(RefCell::new(Places::new(plans[0].hosts, (places, plans[0].healed))));
    let mut job = 0..;
    let mut worlds = plans.map(|plan| {
        let job = job.next().expect("it has no end");
        World::new(seed ^ job as u64, plan, tell).sharing(&shared, job)
    });
    // In the order of time, whosever it is.
    while let Some((at, next)) = (0..2).filter_map(|job| Some((worlds[job].next_at()?, job))).min() {
        worlds[next].step();
        worlds[1 - next].take_granted(at);
    }
    worlds.map(World::report)
}
