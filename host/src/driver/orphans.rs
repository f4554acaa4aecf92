//! Unfinished runs of jobs that this host does not offer: said once, and given up when no host offers them any more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_lease::agent::{Chance, Event, EventKind};
use leasehold_lease::id::{JobKey, RunKey, TenantName};
use leasehold_lease::op::{Close, CloseAnswer};
use leasehold_lease::time::{Millis, Mono};
use leasehold_store::{Checked, JobView, LeaseStore, RunStanding, all_jobs};

use super::Driver;
use super::calls::News;
use crate::causes::chain;
use crate::clock;

/// A host that did nothing for this long stood still, and so may others: while the store is up, something is due every few
/// seconds.
const STOOD_STILL: Duration = Duration::from_secs(15);

/// Runs and jobs that are remembered; of more runs, the rest is looked at when some of these are gone.
pub(super) const KEPT: usize = 10_000;

/// How often the store is asked for all jobs.
const LOOK_EVERY: Duration = Duration::from_secs(600);

/// How long after a host has gone it is asked, at most, and how long after the last time, at least: hosts that go one after
/// the other are one reason.
const LOOK_SOON: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(60));

/// What comes after a look that failed.
const AGAIN: &str = "their runs stay open, and their records are kept, until the next look in a minute or two";

/// How long after a host last offered it all finished runs of a job are kept, whatever its history_size was: who removes
/// a job by mistake, or wants to know in the next week what it did, still finds them.
const ABANDONED_KEPT: Duration = Duration::from_secs(7 * 86_400);

/// Abandoned jobs that are pruned after one look; the others wait for the next.
const PRUNES: usize = 100;

/// What is known of runs that are not this host's business.
pub(super) struct Orphans {
    runs: leasehold_lease::orphans::Orphans,
    /// When this host did something last.
    went_on: Mono,
    /// Jobs that people were told of, and why this host cannot serve them.
    told: BTreeMap<JobKey, String>,
    /// Tenants whose runs are looked for, beside those that are served.
    pub(super) tenants: BTreeSet<TenantName>,
    next_look: Mono,
    looked: Mono,
}

impl Orphans {
    pub(super) fn new() -> Orphans {
        let (told, tenants, now) = (BTreeMap::new(), BTreeSet::new(), clock::mono());
        Orphans {
            runs: leasehold_lease::orphans::Orphans::new(),
            went_on: now,
            told,
            tenants,
            next_look: now,
            looked: now,
        }
    }

    /// When the store is asked for all jobs next.
    pub(super) fn next(&self) -> Mono {
        self.next_look
    }

    /// The store answers again. Others may not have reached it either.
    pub(super) fn restart(&mut self) {
        self.runs.restart();
    }

    /// This host does something, as it does every few seconds.
    pub(super) fn goes_on(&mut self, now: Mono) {
        if now.since(std::mem::replace(&mut self.went_on, now)) > STOOD_STILL {
            self.runs.restart();
        }
    }
}

impl Driver {
    /// Asks for all jobs that the store knows: the runs of tenants that no host serves any more are found by nobody else,
    /// and nobody else prunes the records of jobs that are gone. It is much to read, so it is asked for rarely, and an
    /// answer that fails is no sign of an outage.
    pub(super) fn look_at_all_jobs(&mut self) {
        self.orphans.looked = clock::mono();
        self.orphans.next_look = self.orphans.looked + LOOK_EVERY + self.dice.up_to(LOOK_EVERY);
        let (store, news) = (self.parts.store.clone(), self.calls.news.clone());
        self.calls.tasks.spawn(async move {
            match all_jobs(store.as_ref()).await {
                Ok(Checked { now, answer: jobs }) => {
                    let open = jobs.iter().filter(|job| job.unfinished > 0).map(|job| job.key.tenant.clone());
                    news.tell(News::Tenants(open.collect()));
                    prune_abandoned(store.as_ref(), &jobs, now).await;
                }
                Err(error) => {
                    tracing::warn!(why = chain(&error), "jobs that no host offers were not looked for: {AGAIN}");
                    news.tell(News::TenantsUnknown);
                }
            }
        });
    }

    /// A host has gone, and may have been the only one of a tenant whose run it has left; or the last look has failed.
    pub(super) fn look_at_all_jobs_soon(&mut self) {
        let (most, pause) = LOOK_SOON;
        let soon = clock::mono().max(self.orphans.looked + pause) + self.dice.up_to(most);
        self.orphans.next_look = self.orphans.next_look.min(soon);
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
            let lease = (self.parts.tenant_lease)(&key.job.tenant);
            unclaimed.extend(Close::of_orphan(&key.run, &standing, lease, store_now).map(|close| (key.job, close)));
        }
        let asked = self.orphans.runs.found(unclaimed, now);
        if asked.is_empty() {
            return;
        }
        let (store, news) = (self.parts.store.clone(), self.calls.news.clone());
        self.calls.tasks.spawn(async move {
            let mut told = Vec::new();
            for job in asked {
                match store.job(&job).await {
                    Ok(Checked { answer, .. }) => told.push((job, answer.and_then(|view| view.last_offered))),
                    Err(error) => tracing::debug!(%job, why = chain(&error), "whether a host offers it is not known"),
                }
            }
            news.tell(News::LastOffered(told));
        });
    }

    /// The store has told when hosts offered these jobs last: runs of those that nobody offers any more are given up.
    pub(super) fn last_offered(&mut self, told: Vec<(JobKey, Option<Millis>)>) {
        let now = clock::mono();
        let mut due = Vec::new();
        // What this host has come to offer meanwhile is none of it, whatever the store has heard of that.
        let is_foreign = |job: &JobKey| self.jobs.get(job).is_none_or(|entry| entry.wanted.is_none());
        for (job, last_offered) in told.into_iter().filter(|(job, _)| is_foreign(job)) {
            let closes = self.orphans.runs.offered(&job, last_offered, now);
            due.extend(closes.into_iter().map(|close| (job.clone(), close)));
        }
        if due.is_empty() {
            return;
        }
        let (store, news) = (self.parts.store.clone(), self.calls.news.clone());
        self.calls.tasks.spawn(async move {
            for (job, close) in due {
                match store.close(&job, &close).await {
                    Ok(answer) if answer.answer == CloseAnswer::Closed => {
                        news.tell(News::OrphanClosed(RunKey { job, run: close.run }, close.reason));
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::debug!(%job, run = %close.run, why = chain(&error), "a run without a host was not closed")
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
        let catalog = self.parts.catalog.borrow().clone();
        let idle = catalog.idle.iter().find(|idle| idle.spec.key == *job);
        let why = idle.map_or("no plugin here offers it", |idle| idle.reason());
        if !self.told_no_plugin(job, why) {
            return;
        }
        let event = Event { kind: EventKind::NoPlugin, run: None, attempt: None, detail: no_plugin(why) };
        self.tell(job, event);
    }

    /// Remembers that people are told that this host cannot serve the job, and why. Answers whether that is news.
    pub(super) fn told_no_plugin(&mut self, job: &JobKey, why: &str) -> bool {
        if self.orphans.told.len() >= KEPT {
            // Better twice than never.
            self.orphans.told.clear();
        }
        self.orphans.told.insert(job.clone(), why.to_owned()).is_none_or(|known| known != why)
    }

    /// The job is offered here: should it go, that is news again.
    pub(super) fn has_plugin(&mut self, job: &JobKey) {
        self.orphans.told.remove(job);
    }
}

/// What people are told of a job that this host cannot serve.
pub(super) fn no_plugin(why: &str) -> String {
    format!("this host neither starts nor backs up its runs: {why}")
}

/// Forgets the finished runs of jobs that no host has offered for long. What no later claim may forget stays (S10).
async fn prune_abandoned(store: &dyn LeaseStore, jobs: &[JobView], now: Millis) {
    for key in jobs.iter().filter(|job| is_abandoned(job, now)).map(|job| &job.key).take(PRUNES) {
        match store.prune(key, 0).await {
            Ok(pruned) => tracing::debug!(job = %key, deleted = pruned.answer, "pruned a job that no host offers"),
            Err(error) => {
                tracing::warn!(job = %key, why = chain(&error), "a job that no host offers was not pruned: {AGAIN}");
                return;
            }
        }
    }
}

/// Whether no host has offered the job for so long that its finished runs are to go, and there are some.
fn is_abandoned(job: &JobView, now: Millis) -> bool {
    let newest = job.last.as_ref().map(|last| last.run.due);
    // One that was triggered and never offered is as old as its newest run.
    let heard = job.last_offered.max(newest);
    newest.is_some() && heard.is_some_and(|at| now > at + ABANDONED_KEPT)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use leasehold_lease::id::{RunId, Token};
    use leasehold_lease::op::{Announce, Claim, ClaimKind, Finish};
    use leasehold_lease::policy::Policy;
    use leasehold_lease::run::{Outcome, Usage};
    use leasehold_lease::time::Slot;
    use leasehold_store::memory::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn finished_runs_of_a_job_that_nobody_offers_go_after_a_week_and_its_newest_slot_is_known_for_ever() {
        let time = Arc::new(AtomicI64::new(0));
        let clock = time.clone();
        let store = MemoryStore::with_clock(Arc::new(move || Millis(clock.load(Ordering::SeqCst))));
        let (job, run): (JobKey, _) = ("a/gone".parse().expect("a job"), RunId::Slot(Slot(Millis(0))));
        let offer = [(job.clone(), Announce { fingerprint: String::new() })];
        store.announce(&offer).await.expect("an answer");
        let (kind, terms, not_after) = (ClaimKind::Slot, Policy::default().terms(), Millis(i64::MAX));
        let (runner, token) = ("host".to_owned(), Token([1; 16]));
        let claim = Claim { run: run.clone(), kind, token, runner, digest: None, terms, not_after };
        store.claim(&job, &claim).await.expect("an answer");
        let outcome = Outcome::Success { output: Vec::new(), cut: false };
        let finish = Finish { run, token, outcome, usage: Usage::default() };
        store.finish(&job, &finish).await.expect("an answer");

        let week = i64::try_from(ABANDONED_KEPT.as_millis()).expect("a week");
        for (now, kept) in [(week, true), (week + 1, false), (week + 2, false)] {
            time.store(now, Ordering::SeqCst);
            let jobs = all_jobs(&store).await.expect("jobs");
            prune_abandoned(&store, &jobs.answer, jobs.now).await;
            let view = store.job(&job).await.expect("an answer").answer.expect("its record stays");
            assert_eq!((view.last.is_some(), view.newest_started), (kept, Some(Slot(Millis(0)))), "at {now}");
        }
        time.store(0, Ordering::SeqCst);
        let view = store.job(&job).await.expect("an answer").answer.expect("a record");
        assert!(!is_abandoned(&view, Millis(i64::MAX)), "nothing is left to prune");
    }
}
