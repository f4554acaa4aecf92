//! L5: every due slot is accounted for. L6: when all is well again, each runs, once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Case, Verdict, at, mono_of};
use crate::record::Whom;
use crate::witness::instant;

/// A host is well at a slot when nothing was done to it from this long before to this long after.
const WELL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(2));

/// Words that say what became of a slot that this host did not run.
const SAID: &[&str] = &["skip", "late", "superseded", "held", "missed", "no-place", "interrupted", "blocked"];

pub(super) fn judge(case: &Case<'_>, verdict: &mut Verdict) {
    let Some(every) = case.setup.every.and_then(|every| i64::try_from(every.as_millis()).ok()) else { return };
    let first = (case.slots.0 + every - 1).div_euclid(every) * every;
    let slots: Vec<i64> = (0..).map(|n| first + n * every).take_while(|slot| *slot < case.slots.1).collect();
    let (ran, said, ranges) = (ran(case), told(case, SAID), ranges(case));
    // Where their records are gone, events have to do.
    let started = told(case, &["claimed"]);
    let quiet_from = case.healed + case.setup.policy.lease * 2 + Duration::from_secs(2);
    let in_time = case.watchdog.was_in_time(case.healed, mono_of(case.slots.1) + WELL.1);
    for job in 0..case.setup.jobs {
        for slot in slots.iter().copied().filter(|slot| !case.forgotten(*slot)) {
            verdict.count("slots", 1);
            let quiet = mono_of(slot) > quiet_from;
            match ran.get(&(job, slot)) {
                Some((status, attempt)) if quiet && (*status != "success" || *attempt != 1) => {
                    unquiet(verdict, in_time, format!("j{job} at {}: {status}, attempt {attempt}", at(slot)));
                }
                Some(_) => verdict.count("slots that ran", 1),
                None if quiet => unquiet(verdict, in_time, format!("j{job} did not run at {}", at(slot))),
                None if case.lost(slot) && started.contains(&(job, slot)) => verdict.count("slots that ran", 1),
                None if said.contains(&(job, slot)) => {
                    verdict.count("slots skipped, late or superseded, and said so", 1)
                }
                None if ranges.iter().any(|(of, from, to)| *of == job && (*from..=*to).contains(&slot)) => {
                    verdict.count("slots that hosts said they could not look at", 1);
                }
                None if somebody_was_well(case, slot) => {
                    verdict.wrong("L5", format!("nobody says what became of j{job} at {}", at(slot)));
                }
                None => verdict.count("slots while no host was well", 1),
            }
        }
    }
    delays(case, quiet_from, verdict);
}

fn unquiet(verdict: &mut Verdict, in_time: bool, what: String) {
    if in_time {
        verdict.wrong("L6", what);
    } else {
        verdict.count("slots in quiet times that did not run at once, while the machine stood still", 1);
    }
}

fn ran<'a>(case: &Case<'a>) -> BTreeMap<(usize, i64), (&'a str, u64)> {
    let of_job = |(job, runs): (usize, &'a Vec<serde_json::Value>)| {
        runs.iter().filter_map(move |run| {
            let slot = run["run"].as_str().and_then(instant)?;
            Some(((job, slot), (run["status"].as_str()?, run["attempt"].as_u64()?)))
        })
    };
    case.runs.iter().enumerate().flat_map(of_job).collect()
}

/// Slots of which one of these words was told.
fn told(case: &Case<'_>, words: &[&str]) -> BTreeSet<(usize, i64)> {
    let said = case.heard.told.iter().filter(|told| words.contains(&told.word.as_str()));
    said.filter_map(|told| Some((told.job?, told.slot?))).collect()
}

/// What hosts say of slots that they passed over, of the last one: `… the slots from SLOT up to this one`.
fn ranges(case: &Case<'_>) -> Vec<(usize, i64, i64)> {
    let missed = case.heard.told.iter().filter(|told| told.word == "missed");
    let range = |told: &crate::Told| {
        let from = told.detail.split_whitespace().find_map(instant)?;
        Some((told.job?, from, told.slot?))
    };
    missed.filter_map(range).collect()
}

fn somebody_was_well(case: &Case<'_>, slot: i64) -> bool {
    let (from, to) = (mono_of(slot).saturating_sub(WELL.0), mono_of(slot) + WELL.1);
    let all = [Whom::Store, Whom::StoreClock, Whom::StoreData];
    !case.disturbed(&all, from, to) && (0..case.setup.hosts).any(|host| !case.disturbed(&[Whom::Host(host)], from, to))
}

fn delays(case: &Case<'_>, quiet_from: Duration, verdict: &mut Verdict) {
    let claimed = case.heard.told.iter().filter(|told| told.word == "claimed" && told.at > quiet_from);
    let delay = |told: &crate::Told| {
        let due = told.slot.map(mono_of)?;
        Some(told.at.saturating_sub(due).as_secs_f64() * 1e3)
    };
    verdict.delays = claimed.filter_map(delay).collect();
}
