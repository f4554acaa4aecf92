//! What the host offers and what it looks for: catalog, announcements, checks, and the poll for unfinished runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use leasehold_lease::agent::{Chance, EventKind, Input, Seen};
use leasehold_lease::id::{Digest, JobKey, RunKey, TenantName};
use leasehold_lease::time::{Millis, Mono};
use leasehold_sandbox::Plugin;
use leasehold_store::{HostReport, RunStanding};

use super::Driver;
use super::calls::{News, Side};
use super::health::Turn;
use crate::clock;
use crate::plugins::{Catalog, OfferedJob};

/// Runs in one page of the poll.
const PAGE: usize = 1_000;

impl Driver {
    /// Takes over what the plugin directory offers now.
    pub(super) fn take_catalog(&mut self) {
        let catalog: Arc<Catalog<Plugin>> = self.parts.catalog.borrow_and_update().clone();
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
            self.feed(job, Input::Withdrawn);
        }
        for (job, offered) in &catalog.jobs {
            let entry = self.jobs.entry(job.clone()).or_default();
            if !entry.wanted.as_ref().is_some_and(|old| old.is_same(offered)) {
                entry.wanted = Some(offered.clone());
                self.next_announcement = Some(clock::mono());
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
        let jobs: BTreeSet<JobKey> =
            self.jobs.iter().filter(|(_, entry)| !entry.serving.is_empty()).map(|(job, _)| job.clone()).collect();
        let heartbeat =
            self.jobs.values().filter_map(|entry| entry.serving.back()).map(|o| o.spec.policy.heartbeat).min();
        let heartbeat = heartbeat.unwrap_or(Duration::from_secs(5));
        self.next_poll = clock::mono() + heartbeat + self.dice.up_to(heartbeat);
        if jobs.is_empty() {
            return;
        }
        self.polling = true;
        let tenants: BTreeSet<TenantName> = jobs.iter().map(|job| job.tenant.clone()).collect();
        let tenants: Vec<TenantName> = tenants.into_iter().collect();
        let (store, news) = (self.parts.store.clone(), self.calls.news.clone());
        let deadline = (heartbeat / 2).min(Duration::from_secs(2));
        self.calls.spawn(
            "looking for unfinished runs",
            Side::Reads,
            deadline,
            async move {
                let mut all = Vec::new();
                loop {
                    let after = all.last().map(|seen: &RunStanding| seen.key.clone());
                    let page = store.unfinished(&tenants, after.as_ref(), PAGE).await;
                    let page = page.inspect_err(|_| drop(news.send(News::Polled)))?;
                    let full = page.answer.len() == PAGE;
                    all.extend(page.answer);
                    if !full {
                        return Ok((page.now, all));
                    }
                }
            },
            move |found, now| {
                // Other hosts may offer jobs of the same tenants.
                let ours = found.into_iter().filter(|found| jobs.contains(&found.key.job));
                ours.map(|found| seen(found, now)).chain([News::Polled]).collect()
            },
            // It is over when the call is, not when waiting for it is: there is one poll at a time.
            Vec::new,
        );
    }

    /// Asks the store about all runs that are to be checked, in one call.
    pub(super) fn send_checks(&mut self) {
        if self.checks.is_empty() {
            return;
        }
        let runs: Vec<RunKey> =
            std::mem::take(&mut self.checks).into_iter().map(|(job, run)| RunKey { job, run }).collect();
        let deadline = runs.iter().map(|key| self.deadline(&key.job)).min().unwrap_or(Duration::from_secs(2));
        let (store, again) = (self.parts.store.clone(), runs.clone());
        self.calls.spawn(
            "checking runs of other hosts",
            Side::Reads,
            deadline,
            async move { store.check(&runs).await.map(|checked| (checked.now, checked.answer)) },
            move |found, now| found.into_iter().map(|found| seen(found, now)).collect(),
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
                self.next_poll = self.next_poll.min(clock::mono() + self.dice.up_to(Duration::from_secs(1)));
                for job in self.jobs.keys().cloned().collect::<Vec<_>>() {
                    self.feed(job, Input::StoreUp);
                }
            }
        }
    }

    /// While the store takes no changes, one that harms nobody is tried again and again: on an idle host nothing else
    /// would find out that it does.
    pub(super) fn probe(&mut self) {
        if !self.store.take_probe() {
            return;
        }
        let report = HostReport {
            instance: self.instance.clone(),
            name: self.parts.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            clock_offset_ms: clock::wall().0.saturating_sub(self.calls.clock.now().0),
            details: "{}".to_owned(),
        };
        let store = self.parts.store.clone();
        let call = async move { store.report_host(&report).await.map(|told| (told.now, told.answer)) };
        let deadline = Duration::from_secs(2);
        self.calls.spawn(
            "trying whether the store takes changes",
            Side::Probe,
            deadline,
            call,
            |_, _| vec![],
            Vec::new,
        );
    }
}

/// The plugin's digest in the words of the record.
pub(super) fn digest(offered: &OfferedJob<Plugin>) -> Digest {
    Digest(*offered.plugin.digest().as_bytes())
}

fn seen(found: RunStanding, store_now: Millis) -> News {
    let RunStanding { key, standing, newest_started, newest_skipped } = found;
    let seen = Seen { run: standing, store_now, newest_started, newest_skipped };
    News::Input(key.job, Input::Seen(key.run, seen))
}
