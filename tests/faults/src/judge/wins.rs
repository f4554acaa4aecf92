//! S1 and S8: each attempt has one winner, and wins of a job have an order.

use std::collections::BTreeMap;

use super::{Case, Key, Verdict, named};
use crate::record::Told;

pub(super) fn judge(case: &Case<'_>, verdict: &mut Verdict) {
    let mut claims: BTreeMap<Key, Vec<&Told>> = BTreeMap::new();
    for told in case.heard.told.iter().filter(|told| told.word == "claimed") {
        if let (Some(job), Some(slot), Some(attempt)) = (told.job, told.slot, told.attempt)
            && !case.forgotten(slot)
        {
            claims.entry((job, slot, attempt)).or_default().push(told);
        }
    }
    verdict.count("claims", claims.len());
    for (key, told) in &claims {
        let hosts: Vec<usize> = told.iter().map(|told| told.host).collect();
        if hosts.len() > 1 {
            verdict.wrong("S1", format!("{} was won by hosts {hosts:?}", named(*key)));
        }
    }
    in_order(case, &claims, verdict);
}

/// S8: by their fences, the wins of a job's slots strictly increase in slot and attempt.
fn in_order(case: &Case<'_>, claims: &BTreeMap<Key, Vec<&Told>>, verdict: &mut Verdict) {
    let mut by_fence: BTreeMap<(usize, u64), Key> = BTreeMap::new();
    for (key, told) in claims {
        let Some(fence) = fence(told[0]) else {
            verdict.wrong("S8", format!("{} has no fence: {:?}", named(*key), told[0]));
            continue;
        };
        if let Some(other) = by_fence.insert((key.0, fence), *key) {
            verdict.wrong("S8", format!("{} and {} have fence {fence}", named(*key), named(other)));
        }
    }
    // Whoever unblocks a job lets slots start that are older than what has started.
    if case.heard.unblocked {
        return;
    }
    let ordered: Vec<(&(usize, u64), &Key)> = by_fence.iter().collect();
    for two in ordered.windows(2).filter(|two| two[0].1.0 == two[1].1.0) {
        if two[0].1 >= two[1].1 {
            verdict.wrong("S8", format!("{} was won before {}", named(*two[0].1), named(*two[1].1)));
        }
    }
}

/// The fence that a claim's event tells.
pub(super) fn fence(told: &Told) -> Option<u64> {
    told.detail.strip_prefix("fence ")?.parse().ok()
}
