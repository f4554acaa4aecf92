//! What the host offers and what it looks for: catalog, announcements, checks, and the poll for unfinished runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold_lease::agent::{Chance, EventKind, Input, Seen};
use leasehold_lease::id::{Digest, JobKey, RunKey, TenantName};
use leasehold_lease::time::{Millis, Mono};
use leasehold_sandbox::Plugin;
use leasehold_store::RunStanding;

use super::calls::{News, Side};
use super::health::Turn;
use super::{Driver, orphans};
use crate::clock;
use crate::plugins::{Catalog, OfferedJob};

/// Runs in one page of the poll.
const PAGE: usize = 1_000;

/// The least rest between two polls, however many ask for one; more where they take long.
const REST: Duration = Duration::from_millis(20);

/// How long one page may take.
const DEADLINE: Duration = Duration::from_secs(2);

/// How long a check may wait for others to share its call, at most.
const CHECK_PAUSE: Duration = Duration::from_millis(250);

/// Runs to ask the store about. They gather for a moment, so that however many runs other hosts execute, they are asked
/// about in a few calls a second.
#[derive(Default)]
pub(super) struct Checks {
    runs: Vec<RunKey>,
    due: Option<Mono>,
}

impl Checks {
    /// Asks about a run, not later than after this pause.
    pub(super) fn add(&mut self, run: RunKey, pause: Duration) {
        let at = clock::mono() + pause;
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
        self.runs.push(run);
    }

    /// Something has just happened to one of them.
    pub(super) fn hurry(&mut self) {
        self.due = self.due.map(|_| Mono::default());
    }

    /// When the store is to be asked.
    pub(super) fn due(&self) -> Option<Mono> {
        self.due
    }

    /// What is to be asked by now.
    fn take(&mut self, now: Mono) -> Vec<RunKey> {
        match self.due {
            Some(due) if due <= now => {
                self.due = None;
                std::mem::take(&mut self.runs)
            }
            _ => Vec::new(),
        }
    }
}

/// When the store is asked for unfinished runs.
pub(super) struct Polls {
    next: Mono,
    /// When the one under way began.
    began: Option<Mono>,
    /// Not before.
    rest: Mono,
    /// What it has found so far of jobs that are not offered here.
    foreign: Vec<RunStanding>,
}

impl Polls {
    /// One is due.
    pub(super) fn new() -> Polls {
        let now = clock::mono();
        Polls { next: now, began: None, rest: now, foreign: Vec::new() }
    }

    /// When one is due; none while one is under way.
    pub(super) fn next(&self) -> Option<Mono> {
        self.began.is_none().then(|| self.next.max(self.rest))
    }

    /// One is wanted soon, however many ask for it.
    pub(super) fn soon(&mut self, at: Mono) {
        self.next = self.next.min(at);
    }

    /// The one under way is over. The store gets four times as long to do other things.
    pub(super) fn over(&mut self, now: Mono) {
        if let Some(began) = self.began.take() {
            self.rest = now + (now.since(began) * 4).max(REST);
        }
    }
}

impl Driver {
    /// Takes over what the plugin directory offers now.
    pub(super) fn take_catalog(&mut self) {
        let catalog: Arc<Catalog<Plugin>> = self.parts.catalog.borrow_and_update().clone();
        self.watch_unserved(&catalog);
        self.take_offers(&catalog);
        let gone: Vec<JobKey> = self
            .jobs
            .iter()
            .filter(|(job, entry)| entry.wanted.is_some() && !catalog.jobs.contains_key(*job))
            .map(|(job, _)| job.clone())
            .collect();
        for job in gone {
            if let Some(entry) = self.jobs.get_mut(&job) {
                entry.wanted = None;
            }
            // What is left of it is looked for like what other hosts left.
            self.orphans.tenants.insert(job.tenant.clone());
            self.feed(job, Input::Withdrawn);
        }
        for (job, offered) in &catalog.jobs {
            let is_new = !self.jobs.contains_key(job);
            let entry = self.jobs.entry(job.clone()).or_default();
            if entry.wanted.as_ref().is_some_and(|old| old.is_same(offered)) {
                continue;
            }
            (entry.wanted, entry.announced) = (Some(offered.clone()), None);
            self.next_announcement = Some(clock::mono());
            self.has_plugin(job);
            if is_new && self.draining {
                self.feed(job.clone(), Input::Drain(true));
            }
        }
    }

    /// A job that is gone is forgotten when nothing of it runs here any more.
    pub(super) fn forget_if_gone(&mut self, job: &JobKey) {
        let Some(entry) = self.jobs.get(job) else { return };
        if entry.wanted.is_none() && entry.agent.is_idle() {
            let entry = self.jobs.remove(job).expect("it was found a moment ago");
            if let Some(at) = entry.wakeup {
                self.timers.remove(&(at, job.clone()));
            }
        }
    }

    /// H4: asks the store for the unfinished runs of all jobs, and again after a random time between one and two
    /// heartbeats.
    pub(super) fn poll(&mut self) {
        let heartbeat =
            self.jobs.values().filter_map(|entry| entry.serving.back()).map(|o| o.spec.policy.heartbeat).min();
        let heartbeat = heartbeat.unwrap_or(Duration::from_secs(5));
        let now = clock::mono();
        self.polls.next = now + heartbeat + self.dice.up_to(heartbeat);
        let served = self.jobs.iter().filter(|(_, entry)| entry.wanted.is_some()).map(|(job, _)| &job.tenant);
        let tenants: BTreeSet<&TenantName> = served.chain(&self.orphans.tenants).collect();
        if tenants.is_empty() {
            return;
        }
        let tenants: Arc<[TenantName]> = tenants.into_iter().cloned().collect();
        self.polls.began = Some(now);
        self.polls.foreign.clear();
        self.ask_for_page(tenants, None);
    }

    fn ask_for_page(&mut self, tenants: Arc<[TenantName]>, after: Option<RunKey>) {
        let (store, news) = (self.parts.store.clone(), self.calls.news.clone());
        self.calls.spawn(
            "looking for unfinished runs",
            Side::Reads,
            DEADLINE,
            async move {
                let page = store.unfinished(&tenants, after.as_ref(), PAGE).await;
                let page = page.inspect_err(|_| news.tell(News::Polled))?;
                Ok((page.now, (page.answer, tenants)))
            },
            |(found, tenants), now| vec![News::Found(found, now, tenants)],
            // It is over when the call is, not when waiting for it is: there is one poll at a time.
            Vec::new,
        );
    }

    /// What the poll has found. Other hosts may offer jobs of the same tenants.
    pub(super) fn found(&mut self, runs: Vec<RunStanding>, now: Millis, tenants: Arc<[TenantName]>) {
        let more = runs.last().filter(|_| runs.len() == PAGE).map(|last| last.key.clone());
        let offered = |found: &RunStanding| self.jobs.get(&found.key.job).is_some_and(|entry| entry.wanted.is_some());
        let (ours, foreign): (Vec<_>, Vec<_>) = runs.into_iter().partition(offered);
        for (job, seen) in by_job(ours, now) {
            self.feed(job, Input::Seen(seen));
        }
        let room = orphans::KEPT.saturating_sub(self.polls.foreign.len());
        self.polls.foreign.extend(foreign.into_iter().take(room));
        if more.is_some() {
            return self.ask_for_page(tenants, more);
        }
        let foreign = std::mem::take(&mut self.polls.foreign);
        self.foreign(foreign, now);
        self.polls.over(clock::mono());
    }

    /// How long a check of this job's may wait for others: the time to the next one was drawn shorter by as much.
    pub(super) fn check_pause(&self, job: &JobKey) -> Duration {
        let policy = self.jobs.get(job).and_then(|entry| entry.serving.back()).map(|offered| &offered.spec.policy);
        policy.map_or(CHECK_PAUSE, |policy| (policy.heartbeat / 8).min(CHECK_PAUSE))
    }

    /// Asks the store about all runs that are to be checked, in one call.
    pub(super) fn send_checks(&mut self) {
        let runs = self.checks.take(clock::mono());
        if runs.is_empty() {
            return;
        }
        let deadline = runs.iter().map(|key| self.deadline(&key.job)).min().unwrap_or(Duration::from_secs(2));
        let (store, again) = (self.parts.store.clone(), runs.clone());
        self.calls.spawn(
            "checking runs of other hosts",
            Side::Reads,
            deadline,
            async move { store.check(&runs).await.map(|checked| (checked.now, checked.answer)) },
            |found, now| {
                by_job(found, now).into_iter().map(|(job, seen)| News::Input(job, Input::Seen(seen))).collect()
            },
            move || {
                again.iter().map(|key| News::Input(key.job.clone(), Input::CheckUnanswered(key.run.clone()))).collect()
            },
        );
    }

    /// Notices when the store stops and begins to answer.
    pub(super) fn store_heard(&mut self, side: Side, began: Mono, trouble: Option<String>) {
        let turn = self.store.heard(side, trouble.is_none(), began, clock::mono());
        self.calls.quiet(!self.store.is_up());
        match turn {
            None => {}
            Some(Turn::Down) => {
                let why = trouble.unwrap_or_default();
                let detail = format!("runs go on, and what they do is recorded when it is back ({why})");
                self.tell_of_host(EventKind::StoreDown, detail);
            }
            Some(Turn::Up) => {
                self.tell_of_host(EventKind::StoreUp, "it answers again");
                // Soon, but not all hosts at once.
                let soon = clock::mono() + self.dice.up_to(Duration::from_secs(1));
                self.polls.soon(soon);
                self.orphans.restart();
                self.reports.give_others_time(clock::mono());
                for job in self.jobs.keys().cloned().collect::<Vec<_>>() {
                    self.feed(job, Input::StoreUp);
                }
            }
        }
    }
}

/// The plugin's digest in the words of the record.
pub(super) fn digest(offered: &OfferedJob<Plugin>) -> Digest {
    Digest(*offered.plugin.digest().as_bytes())
}

/// What was found of each job: its agent looks at everything it does with each input, and a thousand runs may wait.
fn by_job(found: Vec<RunStanding>, store_now: Millis) -> BTreeMap<JobKey, Seen> {
    let mut jobs = BTreeMap::new();
    for RunStanding { key, standing, newest_started, newest_skipped } in found {
        let none = || Seen { runs: Vec::new(), store_now, newest_started, newest_skipped };
        jobs.entry(key.job).or_insert_with(none).runs.push((key.run, standing));
    }
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_that_are_asked_for_are_one_and_leave_the_store_time() {
        let at = |ms| Mono(Duration::from_millis(ms));
        let mut polls = Polls { next: at(5_000), began: None, rest: at(0), foreign: Vec::new() };
        polls.soon(at(100));
        polls.soon(at(101));
        assert_eq!(polls.next(), Some(at(100)));
        (polls.began, polls.next) = (Some(at(100)), at(6_000));
        polls.soon(at(110));
        assert_eq!(polls.next(), None, "one at a time");
        polls.over(at(350));
        assert_eq!(polls.next(), Some(at(1_350)));
    }
}
