//! Unfinished runs of jobs that this host does not offer: said once, and given up when no host offers them any more.

use std::collections::{BTreeSet, HashMap};
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

/// Runs that are given up after one poll; the others wait for the next.
const CLOSES: usize = 16;

/// Runs and jobs that are remembered; of more, the rest is looked at when some of these are gone.
pub(super) const KEPT: usize = 10_000;

/// How often the store is asked for all jobs.
const LOOK_EVERY: Duration = Duration::from_secs(600);

/// What comes after a look that failed.
const AGAIN: &str = "their runs stay open, and their records are kept, until the next look in ten to twenty minutes";

/// How long after a host last offered it all finished runs of a job are kept, whatever its history_size was: who removes
/// a job by mistake, or wants to know in the next week what it did, still finds them.
const ABANDONED_KEPT: Duration = Duration::from_secs(7 * 86_400);

/// Abandoned jobs that are pruned after one look; the others wait for the next.
const PRUNES: usize = 100;

/// What is known of runs that are not this host's business.
pub(super) struct Orphans {
    /// When each may be given up: not before it was seen for as long as its job must be without a host.
    due: HashMap<RunKey, Mono>,
    /// Jobs that people were told of.
    told: BTreeSet<JobKey>,
    /// Tenants whose runs are looked for, beside those that are served.
    pub(super) tenants: BTreeSet<TenantName>,
    next_look: Mono,
}

impl Orphans {
    pub(super) fn new() -> Orphans {
        let (due, told, tenants) = (HashMap::new(), BTreeSet::new(), BTreeSet::new());
        Orphans { due, told, tenants, next_look: clock::mono() }
    }

    /// When the store is asked for all jobs next.
    pub(super) fn next(&self) -> Mono {
        self.next_look
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
    /// Asks for all jobs that the store knows: the runs of tenants that no host serves any more are found by nobody else,
    /// and nobody else prunes the records of jobs that are gone. It is much to read, so it is asked for rarely, and an
    /// answer that fails is no sign of an outage.
    pub(super) fn look_at_all_jobs(&mut self) {
        self.orphans.next_look = clock::mono() + LOOK_EVERY + self.dice.up_to(LOOK_EVERY);
        let (store, news) = (self.parts.store.clone(), self.calls.news.clone());
        self.calls.tasks.spawn(async move {
            match all_jobs(store.as_ref()).await {
                Ok(Checked { now, answer: jobs }) => {
                    let open = jobs.iter().filter(|job| job.unfinished > 0).map(|job| job.key.tenant.clone());
                    // The driver has ended: nobody is left to hear it.
                    drop(news.send(News::Tenants(open.collect())));
                    prune_abandoned(store.as_ref(), &jobs, now).await;
                }
                Err(error) => {
                    tracing::warn!(why = chain(&error), "jobs that no host offers were not looked for: {AGAIN}")
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
