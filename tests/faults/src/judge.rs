//! Holds what was heard against the invariants, as far as they can be seen from outside.

mod effects;
mod records;
mod slots;
mod takeovers;
#[cfg(test)]
mod tests;
mod wins;

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_test_servers::Watchdog;
use serde_json::Value;

use crate::board::Setup;
use crate::clock;
use crate::record::{Heard, Outage, Whom};

/// What is judged.
#[derive(Debug)]
pub struct Case<'a> {
    /// The cluster's making.
    pub setup: &'a Setup,
    /// All that was heard, to the end.
    pub heard: &'a Heard,
    /// Each job's runs, as `leasehold runs --json` prints them.
    pub runs: &'a [Vec<Value>],
    /// Runs with more than one attempt, as `leasehold show --json` prints them.
    pub shown: &'a [Value],
    /// Slots from this one to before that one, in ms since the epoch: all of them have been due, and have ended.
    pub slots: (i64, i64),
    /// From when on nothing was done to anybody.
    pub healed: Duration,
    /// Whether the machine gave everybody its time.
    pub watchdog: &'a Watchdog,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Verdict {
    /// What is wrong, each with the invariant's name first.
    pub wrong: Vec<String>,
    /// How many of what there were.
    pub counts: BTreeMap<&'static str, u64>,
    /// How long from a claim's slot until it was told, in quiet times, in ms.
    pub delays: Vec<f64>,
}

impl Verdict {
    fn wrong(&mut self, invariant: &str, what: impl std::fmt::Display) {
        self.wrong.push(format!("{invariant}: {what}"));
    }

    fn count(&mut self, what: &'static str, so_many: usize) {
        *self.counts.entry(what).or_default() += u64::try_from(so_many).expect("few enough");
    }
}

/// Judges all of it.
pub fn judge(case: &Case<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    wins::judge(case, &mut verdict);
    effects::judge(case, &mut verdict);
    records::judge(case, &mut verdict);
    takeovers::judge(case, &mut verdict);
    slots::judge(case, &mut verdict);
    verdict
}

/// An attempt: its job's number, its slot, its number.
type Key = (usize, i64, u32);

fn named((job, slot, attempt): Key) -> String {
    format!("attempt {attempt} of j{job} at {}", at(slot))
}

fn at(slot: i64) -> String {
    jiff::Timestamp::from_millisecond(slot).map_or_else(|_| slot.to_string(), |at| at.to_string())
}

impl Case<'_> {
    /// Whether one of these was not well in that time.
    fn disturbed(&self, whom: &[Whom], from: Duration, to: Duration) -> bool {
        self.outages(whom).any(|outage| outage.from <= to && outage.to >= from)
    }

    fn outages(&self, whom: &[Whom]) -> impl Iterator<Item = &Outage> {
        self.heard.outages.iter().filter(move |outage| whom.contains(&outage.whom))
    }

    /// Whether this slot was due around the time when the store forgot everything, so that nothing is promised of it.
    fn forgotten(&self, slot: i64) -> bool {
        let (around, after) = (self.setup.policy.lease * 2 + Duration::from_secs(1), self.setup.policy.lease * 3);
        let near = |outage: &Outage| {
            (clock::wall_at(outage.from.saturating_sub(around))..clock::wall_at(outage.to + after)).contains(&slot)
        };
        self.outages(&[Whom::StoreData]).any(near)
    }

    /// Whether the store has forgotten this slot's record since.
    fn lost(&self, slot: i64) -> bool {
        self.forgotten(slot) || self.outages(&[Whom::StoreData]).any(|outage| slot < clock::wall_at(outage.from))
    }
}

/// An instant of the harness's timer for one of the wall clock.
fn mono_of(slot: i64) -> Duration {
    let ago = clock::wall() - slot;
    let span = Duration::from_millis(ago.unsigned_abs());
    if ago >= 0 { clock::mono().saturating_sub(span) } else { clock::mono() + span }
}
