//! Unfinished runs of jobs that this host does not offer: said once, and given up when no host offers them any more.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use leasehold_lease::agent::{Chance, Event, EventKind};
use leasehold_lease::id::{JobKey, RunKey, TenantName};
use leasehold_lease::op::{Close, CloseAnswer};
use leasehold_lease::time::{Millis, Mono};
use leasehold_store::RunStanding;

use super::Driver;
use super::calls::News;
use crate::causes::chain;
use crate::clock;

/// Runs that are given up after one poll; the others wait for the next.
const CLOSES: usize = 16;

/// Runs and jobs that are remembered; of more, the rest is looked at when some of these are gone.
pub(super) const KEPT: usize = 10_000;

/// How often the store is asked whether there are tenants that nobody here serves.
const TENANTS_EVERY: Duration = Duration::from_secs(600);

/// What is known of runs that are not this host's business.
pub(super) struct Orphans {
    /// When each may be given up: not before it was seen for as long as its job must be without a host.
    due: HashMap<RunKey, Mono>,
    /// Jobs that people were told of.
    told: BTreeSet<JobKey>,
    /// Tenants whose runs are looked for, beside those that are served.
    pub(super) tenants: BTreeSet<TenantName>,
    next_tenants: Mono,
}

impl Orphans {
    pub(super) fn new() -> Orphans {
        let (due, told, tenants) = (HashMap::new(), BTreeSet::new(), BTreeSet::new());
        Orphans { due, told, tenants, next_tenants: clock::mono() }
    }

    /// When the store is asked for tenants next.
    pub(super) fn next(&self) -> Mono {
        self.next_tenants
    }

    /// Which of these runs are to be given up now. What is no longer found is forgotten.
    fn take_due(&mut self, found: Vec<(RunKey, Close)>, now: Mono) -> Vec<(RunKey, Close)> {
        let mut still = HashMap::new();
        let mut due = Vec::new();
        for (key, close) in found {
            let at = self.due.get(&key).copied().unwrap_or(now + close.unoffered_for);
            if still.len() >= KEPT {
                continue;
            }
            if at <= now && due.len() < CLOSES {
                // Another host may offer it: this one asks again after as long.
                still.insert(key.clone(), now + close.unoffered_for);
                due.push((key, close));
            } else {
                still.insert(key, at);
            }
        }
        self.due = still;
        due
    }
}

impl Driver {
    /// Asks for the tenants of all jobs that the store knows: the runs of those that no host serves any more are found by
    /// nobody else. It is much to read, so it is asked for rarely, and an answer that fails is no sign of an outage.
    pub(super) fn look_for_tenants(&mut self) {
        self.orphans.next_tenants = clock::mono() + TENANTS_EVERY + self.dice.up_to(TENANTS_EVERY);
        let (store, news) = (self.parts.store.clone(), self.calls.news.clone());
        self.calls.tasks.spawn(async move {
            match store.jobs().await {
                Ok(jobs) => {
                    let tenants = jobs.answer.into_iter().filter(|job| job.unfinished > 0).map(|job| job.key.tenant);
                    // The driver has ended: nobody is left to hear it.
                    drop(news.send(News::Tenants(tenants.collect())));
                }
                Err(error) => {
                    tracing::debug!(why = chain(&error), "jobs of tenants without a host were not looked for")
                }
            }
        });
    }

    /// The poll has found these runs, of jobs that are not offered here.
    pub(super) fn foreign(&mut self, found: Vec<RunStanding>, store_now: Millis) {
        let now = clock::mono();
        let catalog = self.parts.catalog.borrow().clone();
        // Soon this host may offer them itself: it must not give up what was handed over to it.
        let awaited: BTreeSet<&JobKey> =
            catalog.idle.iter().filter(|idle| idle.why.is_none()).map(|idle| &idle.spec.key).collect();
        let mut unclaimed = Vec::new();
        for RunStanding { key, standing, .. } in found {
            let Some(standing) = standing.filter(|_| !awaited.contains(&key.job)) else { continue };
            self.tell_no_plugin(&key.job);
            unclaimed.extend(Close::of_orphan(&key.run, &standing, store_now).map(|close| (key, close)));
        }
        let due = self.orphans.take_due(unclaimed, now);
        if due.is_empty() {
            return;
        }
        let (store, news) = (self.parts.store.clone(), self.calls.news.clone());
        self.calls.tasks.spawn(async move {
            for (key, close) in due {
                match store.close(&key.job, &close).await {
                    Ok(answer) if answer.answer == CloseAnswer::Closed => {
                        // The driver has ended: nobody is left to hear it.
                        drop(news.send(News::OrphanClosed(key, close.reason)));
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::debug!(run = %key, why = chain(&error), "a run without a host was not closed")
                    }
                }
            }
        });
    }

    pub(super) fn orphan_closed(&mut self, key: RunKey, reason: String) {
        let event = Event { kind: EventKind::Interrupted, run: Some(key.run), attempt: None, detail: reason };
        self.tell(&key.job, event);
    }

    /// Says once of a job that this host cannot serve it.
    fn tell_no_plugin(&mut self, job: &JobKey) {
        if self.orphans.told.len() >= KEPT {
            // Better twice than never.
            self.orphans.told.clear();
        }
        if !self.orphans.told.insert(job.clone()) {
            return;
        }
        let catalog = self.parts.catalog.borrow().clone();
        let idle = catalog.idle.iter().find(|idle| idle.spec.key == *job);
        let why = idle.map_or("no plugin here offers it", |idle| idle.reason());
        let detail = format!("this host neither starts nor backs up its runs: {why}");
        self.tell(job, Event { kind: EventKind::NoPlugin, run: None, attempt: None, detail });
    }

    /// The job is offered here: should it go, that is news again.
    pub(super) fn has_plugin(&mut self, job: &JobKey) {
        self.orphans.told.remove(job);
    }
}

#[cfg(test)]
mod tests {
    use leasehold_lease::id::RunId;
    use leasehold_lease::time::Slot;

    use super::*;

    fn found(n: i64) -> (RunKey, Close) {
        let run = RunId::Slot(Slot(Millis(n)));
        let close = Close { run: run.clone(), unoffered_for: Duration::from_secs(60), reason: String::new() };
        (RunKey { job: "a/x".parse().expect("a job"), run }, close)
    }

    #[test]
    fn a_run_is_given_up_after_it_was_seen_for_two_leases_and_asked_for_again_only_after_as_long() {
        let (mut orphans, at) = (Orphans::new(), |s| Mono(Duration::from_secs(s)));
        assert!(orphans.take_due(vec![found(1)], at(0)).is_empty());
        assert!(orphans.take_due(vec![found(1)], at(59)).is_empty());
        assert_eq!(orphans.take_due(vec![found(1)], at(60)), [found(1)]);
        assert!(orphans.take_due(vec![found(1)], at(61)).is_empty());
        assert_eq!(orphans.take_due(vec![found(1)], at(120)), [found(1)]);
        orphans.take_due(Vec::new(), at(121));
        assert!(orphans.take_due(vec![found(1)], at(500)).is_empty(), "what was gone is new");
    }

    #[test]
    fn many_orphans_are_given_up_a_few_at_a_time() {
        let (mut orphans, at) = (Orphans::new(), |s| Mono(Duration::from_secs(s)));
        let many = || (0..40).map(found).collect::<Vec<_>>();
        orphans.take_due(many(), at(0));
        for expected in [16, 16, 8, 0] {
            assert_eq!(orphans.take_due(many(), at(60)).len(), expected);
        }
    }
}
