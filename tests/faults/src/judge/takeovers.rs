//! L3: a runner whose heartbeats arrive is never replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Case, Key, Verdict, named};
use crate::record::{Told, Whom};

/// A fault shortly before an attempt began may show later: its host had just come back.
const AFTER: Duration = Duration::from_secs(1);

pub(super) fn judge(case: &Case<'_>, verdict: &mut Verdict) {
    let mut claims: BTreeMap<Key, &Told> = BTreeMap::new();
    let mut given_up: BTreeMap<Key, &Told> = BTreeMap::new();
    // Slots that a host stopped claiming because the store did not answer. Where it had won, it hands over what it learns of
    // too late, and tells of no attempt.
    let mut not_heard: BTreeSet<(usize, i64)> = BTreeSet::new();
    for told in &case.heard.told {
        let (Some(job), Some(slot)) = (told.job, told.slot) else { continue };
        if told.word == "missed" {
            not_heard.insert((job, slot));
        }
        let Some(attempt) = told.attempt else { continue };
        match told.word.as_str() {
            "claimed" => drop(claims.insert((job, slot, attempt), told)),
            // Handed over, by who ran it.
            "interrupted" => drop(given_up.insert((job, slot, attempt), told)),
            _ => {}
        }
    }
    let takeovers: Vec<_> =
        claims.iter().filter(|((_, slot, attempt), _)| *attempt > 1 && !case.forgotten(*slot)).collect();
    verdict.count("takeovers", takeovers.len());
    for (key, won) in takeovers {
        let former = (key.0, key.1, key.2 - 1);
        // Who was killed before it could tell has been disturbed; so is whoever else was.
        let runner = claims.get(&former);
        let from = runner.map_or_else(|| super::mono_of(key.1), |told| told.at).saturating_sub(AFTER);
        let mut whom = vec![Whom::Store, Whom::StoreClock, Whom::StoreData];
        match runner {
            Some(runner) => whom.push(Whom::Host(runner.host)),
            None => whom.extend((0..case.setup.hosts).map(Whom::Host)),
        }
        let unheard = runner.is_none() && not_heard.contains(&(key.0, key.1));
        if unheard || given_up.contains_key(&former) || case.disturbed(&whom, from, won.at) {
            continue;
        }
        let paused = !case.watchdog.was_in_time(from, won.at);
        if paused {
            verdict.count("takeovers while the machine stood still", 1);
        } else {
            let by = runner.map(|told| told.host);
            verdict.wrong("L3", format!("{} replaced a runner (h{by:?}) that nothing was done to", named(*key)));
        }
    }
}
