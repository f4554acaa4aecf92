//! What the store has in the end: S1, S3, S6, S15 and L4.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::wins::fence;
use super::{Case, Key, Verdict, named};
use crate::clock;
use crate::witness::{instant, job_number};

pub(super) fn judge(case: &Case<'_>, verdict: &mut Verdict) {
    let mut statuses = BTreeMap::new();
    for (job, runs) in case.runs.iter().enumerate() {
        for run in runs {
            let slot = run["run"].as_str().and_then(instant).expect("a run of a schedule has a slot");
            statuses.insert((job, slot), run);
            one(case, job, slot, run, verdict);
        }
    }
    verdict.count("runs", statuses.len());
    agreed(case, &statuses, verdict);
    let claims = case.heard.told.iter().filter(|told| told.word == "claimed");
    let fences = claims.filter_map(|told| Some(((told.job?, told.slot?, told.attempt?), fence(told)?))).collect();
    case.shown.iter().for_each(|run| attempts(&fences, run, verdict));
}

fn number(run: &Value, key: &str) -> u64 {
    run[key].as_u64().unwrap_or_else(|| panic!("{key} is no number: {run}"))
}

fn one(case: &Case<'_>, job: usize, slot: i64, run: &Value, verdict: &mut Verdict) {
    let (attempt, starts, hand_overs) = (number(run, "attempt"), number(run, "starts"), number(run, "hand_overs"));
    if attempt != starts {
        verdict.wrong("S1", format!("attempts have gaps: {run}"));
    }
    if hand_overs > starts || starts - hand_overs > u64::from(case.setup.max_attempts) {
        verdict.wrong("S3", format!("started too often: {run}"));
    }
    let status = run["status"].as_str().unwrap_or_default();
    if !["success", "failed", "interrupted"].contains(&status) && (case.slots.0..case.slots.1).contains(&slot) {
        if case.watchdog.was_in_time(case.healed, clock::mono()) {
            verdict.wrong("L4", format!("j{job} has a run that does not end: {run}"));
        } else {
            verdict.count("runs that had not ended, while the machine stood still", 1);
        }
    }
    match status {
        "interrupted" => verdict.count("runs interrupted", 1),
        "failed" => verdict.count("runs failed", 1),
        _ => {}
    }
}

/// The record has what was heard.
fn agreed(case: &Case<'_>, runs: &BTreeMap<(usize, i64), &Value>, verdict: &mut Verdict) {
    let claimed = case.heard.told.iter().filter(|told| told.word == "claimed");
    let claims = claimed.filter_map(|told| Some((told.job?, told.slot?, told.attempt?)));
    let acts = case.heard.effects.iter().map(|effect| (effect.job, effect.slot, effect.attempt));
    // What began after the records were read is not in them.
    let read = |slot: i64| slot < case.slots.1 && !case.lost(slot);
    let started: BTreeSet<_> = claims.chain(acts).filter(|(_, slot, _)| read(*slot)).collect();
    for key in started {
        let newest = runs.get(&(key.0, key.1)).map(|run| number(run, "attempt"));
        if newest.is_none_or(|newest| newest < u64::from(key.2)) {
            verdict.wrong("S15", format!("{} was started, the record has {newest:?}", named(key)));
        }
    }
    for told in case.heard.told.iter().filter(|told| told.word == "success") {
        let (Some(job), Some(slot)) = (told.job, told.slot) else { continue };
        let status = runs.get(&(job, slot)).map(|run| &run["status"]);
        if read(slot) && status.is_none_or(|status| status != "success") {
            verdict.wrong("S6", format!("j{job} at {}: success was told, the record has {status:?}", super::at(slot)));
        }
    }
}

/// How an attempt ends that another one follows.
const UNFINISHED: &[&str] = &["lost", "handed-over", "expired"];

/// Attempts are 1, 2, 3 …, all but the last have ended without an outcome, and their fences are those that were told.
fn attempts(fences: &BTreeMap<Key, u64>, run: &Value, verdict: &mut Verdict) {
    let Some(job) = run["job"].as_str().and_then(|job| job_number(job.rsplit('/').next()?)) else { return };
    let slot = run["run"].as_str().and_then(instant).expect("a slot");
    let attempts = run["attempts"].as_array().expect("a list");
    verdict.count("runs with several attempts looked into", 1);
    for (n, attempt) in attempts.iter().enumerate() {
        let ended_as = attempt["end"].as_str().unwrap_or_default();
        let last = n + 1 == attempts.len();
        if number(attempt, "attempt") != n as u64 + 1 || (!last && !UNFINISHED.contains(&ended_as)) {
            verdict.wrong("S1", format!("attempts are not one after the other: {run}"));
            return;
        }
        let key = (job, slot, u32::try_from(n + 1).expect("few attempts"));
        let told = fences.get(&key);
        if told.is_some_and(|told| *told != number(attempt, "fence")) {
            verdict.wrong("S8", format!("{} told fence {told:?}, the record has {attempt}", named(key)));
        }
    }
}
