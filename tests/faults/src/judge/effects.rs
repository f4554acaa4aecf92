//! H1, H2 and H3 as a witness outside can see them: no act twice in one attempt, none of an older attempt after a newer one
//! was won, and what is said to have ended well has done all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::wins::fence;
use super::{Case, Key, Verdict, mono_of, named};
use crate::record::{Effect, Whom};

pub(super) fn judge(case: &Case<'_>, verdict: &mut Verdict) {
    verdict.count("acts", case.heard.effects.len());
    let kept: Vec<&Effect> = case.heard.effects.iter().filter(|effect| !case.forgotten(effect.slot)).collect();
    once_each(&kept, verdict);
    keys(&kept, verdict);
    after_newer_wins(case, &kept, verdict);
    done(case, &kept, verdict);
}

fn key(effect: &Effect) -> Key {
    (effect.job, effect.slot, effect.attempt)
}

/// H1: a handler that was started twice in one attempt would do the same twice. An attempt has one fence.
fn once_each(effects: &[&Effect], verdict: &mut Verdict) {
    let (mut acts, mut fences) = (BTreeSet::new(), BTreeMap::new());
    for effect in effects {
        if !acts.insert((key(effect), effect.act)) {
            verdict.wrong("H1", format!("{} did act {} twice", named(key(effect)), effect.act));
        }
        let first = *fences.entry(key(effect)).or_insert(effect.fence);
        if first != effect.fence {
            verdict.wrong("S1", format!("{} acted with fences {first} and {}", named(key(effect)), effect.fence));
        }
    }
}

/// A key of a run's act is the same in every attempt, and another one's in none.
fn keys(effects: &[&Effect], verdict: &mut Verdict) {
    let (mut of_act, mut of_key) = (BTreeMap::new(), BTreeMap::new());
    for effect in effects {
        let act = (effect.job, effect.slot, effect.act);
        let same = *of_act.entry(act).or_insert(&effect.key) == &effect.key;
        if !same || *of_key.entry(&effect.key).or_insert(act) != act {
            verdict.wrong("key", format!("act {} of {} has another's key", effect.act, named(key(effect))));
        }
    }
}

/// H3: once a newer attempt or run of a job was won, an older one does nothing.
fn after_newer_wins(case: &Case<'_>, effects: &[&Effect], verdict: &mut Verdict) {
    let mut wins: BTreeMap<usize, Vec<(u64, Duration)>> = BTreeMap::new();
    for told in case.heard.told.iter().filter(|told| told.word == "claimed") {
        if let (Some(job), Some(fence), false) = (told.job, fence(told), told.slot.is_some_and(|s| case.forgotten(s))) {
            wins.entry(job).or_default().push((fence, told.at));
        }
    }
    for of_job in wins.values_mut() {
        of_job.sort_unstable();
        // For each fence, when it or a newer one was first told.
        let mut first = Duration::MAX;
        for (_, at) in of_job.iter_mut().rev() {
            first = first.min(*at);
            *at = first;
        }
    }
    for effect in effects {
        let Some(of_job) = wins.get(&effect.job) else { continue };
        let newer = of_job.partition_point(|(fence, _)| *fence <= effect.fence);
        let Some((_, won)) = of_job.get(newer).filter(|(_, at)| *at < effect.at) else { continue };
        // A store's clock that was set forward ends leases before their time: no fence helps against that.
        let by_clock = case.disturbed(&[Whom::StoreClock], won.saturating_sub(case.setup.policy.lease), effect.at);
        if by_clock {
            verdict.count("acts after a newer win, by the store's own clock", 1);
        } else {
            let late = effect.at - *won;
            verdict.wrong("H3", format!("{} did act {} {late:?} after a newer win", named(key(effect)), effect.act));
        }
    }
}

/// Success is told once, by an attempt that did all it had to.
fn done(case: &Case<'_>, effects: &[&Effect], verdict: &mut Verdict) {
    let mut acts: BTreeMap<Key, u32> = BTreeMap::new();
    effects.iter().for_each(|effect| *acts.entry(key(effect)).or_default() += 1);
    let mut told = BTreeSet::new();
    let successes = case.heard.told.iter().filter(|told| told.word == "success");
    for event in successes {
        let (Some(job), Some(slot), Some(attempt)) = (event.job, event.slot, event.attempt) else { continue };
        if case.forgotten(slot) {
            continue;
        }
        if !told.insert((job, slot)) {
            verdict.wrong("S6", format!("the success of {} was told before", named((job, slot, attempt))));
        }
        let did = acts.get(&(job, slot, attempt)).copied().unwrap_or_default();
        // One whose answer was lost when the lease was in doubt may never have arrived.
        let may_lack = [Whom::Store, Whom::Host(event.host), Whom::StoreClock];
        if did < case.setup.acts && !case.disturbed(&may_lack, mono_of(slot), event.at) {
            verdict.wrong("H2", format!("{} succeeded with {did} acts", named((job, slot, attempt))));
        }
    }
    verdict.count("successes", told.len());
    for failed in case.heard.told.iter().filter(|told| told.word == "failed") {
        verdict.wrong("H6", format!("a handler failed that does not fail: {failed:?}"));
    }
}
