//! What the host offers and what it looks for: catalog, announcements, checks, and the poll for unfinished runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use leasehold_lease::agent::{Chance, EventKind, Input, Offer, Seen};
use leasehold_lease::id::{Digest, JobKey, RunKey, TenantName};
use leasehold_lease::op::{Announce, Stamped};
use leasehold_lease::time::Millis;
use leasehold_sandbox::Plugin;
use leasehold_store::{AnnounceAnswer, Each, HostReport, RunStanding};

use super::calls::{News, Side};
use super::{Driver, Entry};
use crate::clock;
use crate::plugins::{Catalog, OfferedJob};

/// Runs in one page of the poll.
const PAGE: usize = 1_000;
/// How often a store that takes no changes is tried.
const PROBE: Duration = Duration::from_secs(1);
/// Versions of a job that are kept for claims on their way.
const VERSIONS: usize = 2;

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

    /// Tells the store of all jobs that are offered and not served yet; they are scheduled when it has answered. One
    /// call at a time, so that the store ends with what is offered last.
    pub(super) fn announce(&mut self) {
        self.next_announcement = None;
        // A job that went while it ran and came back as it was is to be offered again, too.
        let unserved = |entry: &&Entry| match (&entry.wanted, entry.serving.back()) {
            (Some(wanted), Some(served)) => !entry.agent.is_offered() || !wanted.is_same(served),
            (wanted, _) => wanted.is_some(),
        };
        let offered: Vec<OfferedJob<Plugin>> =
            self.jobs.values().filter(unserved).filter_map(|entry| entry.wanted.clone()).collect();
        if offered.is_empty() {
            return;
        }
        self.announcing = true;
        let store = self.parts.store.clone();
        let jobs: Vec<(JobKey, Announce)> = offered
            .iter()
            .map(|offered| (offered.spec.key.clone(), Announce { fingerprint: fingerprint(offered) }))
            .collect();
        self.calls.spawn(
            "telling the store of jobs",
            Side::Changes,
            Duration::from_secs(2),
            async move {
                let told = store.announce(&jobs).await?;
                // A record that cannot be read fails its own job: it is told, and offered again with the next change.
                let sound = |(offered, told): (OfferedJob<Plugin>, Each<AnnounceAnswer>)| match told {
                    Ok(told) => Some((offered, told)),
                    Err(error) => {
                        let job = &offered.spec.key;
                        tracing::error!(%job, error = &error as &dyn std::error::Error, "the job cannot be scheduled");
                        None
                    }
                };
                let told: Vec<_> = offered.into_iter().zip(told).filter_map(sound).collect();
                let now = match told.first() {
                    Some((_, first)) => first.now,
                    None => store.now().await?,
                };
                Ok((now, told))
            },
            |told, _| vec![News::Announced(told)],
            || vec![News::NotAnnounced],
        );
    }

    /// The store did not answer: once more in a second, with what is offered then.
    pub(super) fn not_announced(&mut self) {
        self.announcing = false;
        self.next_announcement = Some(clock::mono() + Duration::from_secs(1));
    }

    pub(super) fn announced(&mut self, answers: Vec<(OfferedJob<Plugin>, Stamped<AnnounceAnswer>)>) {
        self.announcing = false;
        for (offered, answer) in answers {
            let job = offered.spec.key.clone();
            let Some(entry) = self.jobs.get_mut(&job) else { continue };
            // The plugin directory may have changed its mind meanwhile.
            if !entry.wanted.as_ref().is_some_and(|wanted| wanted.is_same(&offered)) {
                continue;
            }
            let offer = Offer {
                schedule: offered.spec.schedule.clone(),
                policy: offered.spec.policy.clone(),
                digest: digest(&offered),
            };
            entry.serving.push_back(offered);
            if entry.serving.len() > VERSIONS {
                entry.serving.pop_front();
            }
            let AnnounceAnswer { since, newest_started, newest_skipped, .. } = answer.answer;
            self.feed(job, Input::Offered { offer, since, newest_started, newest_skipped });
        }
        // Unfinished runs of what has just come.
        self.next_poll = clock::mono();
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

    /// Notices when the store stops and begins to answer. A store may answer reads and take no changes: a full disk, a
    /// demoted replica. It is up when it does both.
    pub(super) fn store_heard(&mut self, side: Side, up: bool) {
        let was_up = self.store.is_up();
        match side {
            Side::Reads => self.store.reads = up,
            Side::Changes => self.store.changes = up,
        }
        if !self.store.changes && self.store.next_probe.is_none() {
            self.store.next_probe = Some(clock::mono() + PROBE);
        }
        match (was_up, self.store.is_up()) {
            (true, false) => {
                let detail = "it does not answer; runs go on, and what they do is recorded when it does";
                self.tell_of_host(EventKind::StoreDown, detail);
            }
            (false, true) => {
                self.tell_of_host(EventKind::StoreUp, "it answers again");
                // Soon, but not all hosts at once.
                self.next_poll = self.next_poll.min(clock::mono() + self.dice.up_to(Duration::from_secs(1)));
                for job in self.jobs.keys().cloned().collect::<Vec<_>>() {
                    self.feed(job, Input::StoreUp);
                }
            }
            (true, true) | (false, false) => {}
        }
    }

    /// While the store takes no changes, one that harms nobody is tried again and again: on an idle host nothing else
    /// would find out that it does.
    pub(super) fn probe(&mut self) {
        self.store.next_probe = None;
        if self.store.changes {
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
            Side::Changes,
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

fn fingerprint(offered: &OfferedJob<Plugin>) -> String {
    offered.spec.schedule.as_ref().map_or_else(|| "on-demand".to_owned(), |schedule| schedule.fingerprint().to_string())
}

fn seen(found: RunStanding, store_now: Millis) -> News {
    let RunStanding { key, standing, newest_started, newest_skipped } = found;
    let seen = Seen { run: standing, store_now, newest_started, newest_skipped };
    News::Input(key.job, Input::Seen(key.run, seen))
}
