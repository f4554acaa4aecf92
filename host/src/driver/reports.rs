//! This host among the others: it says that it is there, and learns what was asked of it.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_lease::agent::{Chance, EventKind, Input};
use leasehold_lease::id::RunKey;
use leasehold_lease::time::{Millis, Mono};
use leasehold_store::{HostOrders, HostRecord, HostReport, StoreError};

use super::Driver;
use super::calls::{News, Side};
use crate::clock;
use crate::fellows::{HostDetails, is_silent};

/// How often a host says that it is there, and so how soon it hears that it is to drain.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// How often the other hosts are looked at: once a lease, within these bounds.
const LOOK: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(30));

/// How long one call may take.
const DEADLINE: Duration = Duration::from_secs(2);

/// An answer that took longer says little of how far two clocks are apart.
const PROMPT: Duration = Duration::from_millis(500);

/// Clocks that are further apart are told, in ms.
const SKEW: i64 = 1_000;

/// How long the last words of a host may take.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Other processes of this host's name that are remembered so as to be told once.
const TWINS: usize = 1_000;

/// What this host knows of itself and of the others.
pub(super) struct Reports {
    next: Mono,
    next_look: Mono,
    /// This host's wall clock minus the store's, in ms, as the last prompt answer told.
    offset_ms: Option<i64>,
    /// The difference that people were told of, while there is one.
    skew_told: Option<i64>,
    /// When the store first answered this host, by the store's clock.
    began: Option<Millis>,
    /// Other processes of this host's name that people were told of.
    twins: BTreeSet<String>,
    /// The others that were there when they were looked at last.
    there: BTreeSet<String>,
}

/// What the store answered this host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reported {
    orders: HostOrders,
    /// The store's time.
    at: Millis,
    /// See [`Reports::offset_ms`]; none when the answer took too long to say.
    offset_ms: Option<i64>,
}

impl Reports {
    pub(super) fn new() -> Reports {
        let now = clock::mono();
        let (twins, there) = (BTreeSet::new(), BTreeSet::new());
        Reports { next: now, next_look: now + LOOK.0, offset_ms: None, skew_told: None, began: None, twins, there }
    }

    /// The store answers again: only now do the others say that they are there.
    pub(super) fn give_others_time(&mut self, now: Mono) {
        self.next_look = self.next_look.max(now + REPORT_EVERY * 2);
    }

    /// When something is due.
    pub(super) fn next(&self) -> Mono {
        self.next.min(self.next_look)
    }
}

impl Driver {
    /// Says what is due, and serves those who wait for memory that came back unheard. While the store is away that is left to
    /// the trials that find out whether it is back.
    pub(super) fn report_on_time(&mut self, now: Mono) {
        if self.reports.next <= now {
            self.reports.next = now + REPORT_EVERY;
            for RunKey { job, run } in self.places.serve() {
                self.feed(job, Input::Place(run));
            }
            let call = self.report_call(self.state());
            self.calls.spawn("telling the store of this host", Side::Changes, DEADLINE, call, reported, Vec::new);
        }
        if self.reports.next_look <= now {
            let leases = self.jobs.values().filter_map(|entry| entry.wanted.as_ref()).map(|job| job.spec.policy.lease);
            let pause = leases.min().unwrap_or(LOOK.1).clamp(LOOK.0, LOOK.1);
            self.reports.next_look = now + pause + self.dice.up_to(pause / 4);
            let store = self.parts.store.clone();
            let call = async move { store.hosts().await.map(|hosts| (hosts.now, hosts.answer)) };
            let found = |hosts, now| vec![News::Hosts(hosts, now)];
            self.calls.spawn("reading the other hosts", Side::Reads, DEADLINE, call, found, Vec::new);
        }
    }

    /// While the store takes no changes, one that harms nobody is tried again and again: on an idle host nothing else
    /// would find out that it does.
    pub(super) fn probe(&mut self) {
        if self.store.take_probe() {
            let call = self.report_call(self.state());
            let what = "trying whether the store takes changes";
            self.calls.spawn(what, Side::Probe, DEADLINE, call, reported, Vec::new);
        }
    }

    /// The store has this host's report and says what was asked of it.
    pub(super) fn reported(&mut self, reported: Reported) {
        self.reports.began.get_or_insert(reported.at);
        if let Some(offset) = reported.offset_ms {
            self.reports.offset_ms = Some(offset);
            let skewed = offset.abs() > SKEW;
            // Told again when it is another one, as after a clock was set.
            let is_told = self.reports.skew_told.is_some_and(|told| (told - offset).abs() <= SKEW);
            if skewed && !is_told {
                let way = if offset > 0 { "ahead of" } else { "behind" };
                let detail = format!("this host's clock is {} ms {way} the store's", offset.abs());
                self.tell_of_host(EventKind::PolicyDiffers, detail);
            }
            self.reports.skew_told = skewed.then(|| self.reports.skew_told.filter(|_| is_told).unwrap_or(offset));
        }
        self.tell_offers();
        let drain = reported.orders.drain;
        if drain == std::mem::replace(&mut self.draining, drain) {
            return;
        }
        if drain {
            tracing::info!("draining: this host starts and backs up nothing new; what runs goes on");
        } else {
            tracing::info!("no longer draining: this host takes runs again");
            // What others have started meanwhile comes with the answer.
            self.jobs.values_mut().for_each(|entry| entry.announced = None);
            self.next_announcement = Some(clock::mono());
        }
        for job in self.jobs.keys().cloned().collect::<Vec<_>>() {
            self.feed(job, Input::Drain(drain));
        }
    }

    /// Looks where others differ from this host, and tells once of those that have its name. Who was there and is no more
    /// may leave runs of tenants that nobody else serves.
    pub(super) fn compare(&mut self, hosts: Vec<HostRecord>, now: Millis) {
        let there = |host: &&HostRecord| {
            host.report.instance != self.instance
                && !is_silent(host, now)
                && HostDetails::read(&host.report.details).state != "stopped"
        };
        // Nor this host before it was started again.
        let since = |host: &&HostRecord| self.reports.began.is_some_and(|began| host.last_seen > began);
        let twins = hosts.iter().filter(there).filter(|host| host.report.name == self.parts.name).filter(since);
        let twins = twins.map(|host| host.report.instance.clone());
        let twins: BTreeSet<String> = twins.take(TWINS).collect();
        for instance in twins.difference(&self.reports.twins) {
            let instance: String = instance.chars().take(8).collect();
            let name = self.parts.name.as_str();
            tracing::warn!(
                "another host on this store is called {name}, too (instance {instance}): people cannot tell them apart, \
                 and `leasehold drain {name}` asks both"
            );
        }
        self.reports.twins = twins;
        let others: Vec<HostReport> = hosts.iter().filter(there).map(|host| host.report.clone()).collect();
        let are_there = others.iter().map(|host| host.instance.clone()).collect();
        let were_there = std::mem::replace(&mut self.reports.there, are_there);
        if !were_there.is_subset(&self.reports.there) {
            self.look_at_all_jobs_soon();
        }
        self.look_at_others(others);
    }

    /// Says that this host has ended, and what it was told last. Nobody waits long for that.
    pub(super) async fn last_words(&mut self) {
        if !self.store.is_up() {
            return;
        }
        let (store, answers) = (self.parts.store.clone(), self.last_answers());
        let report = self.report_call("stopped");
        let words = async move {
            report.await?;
            for batch in answers {
                store.keep_answers(&batch).await?;
            }
            Ok::<(), StoreError>(())
        };
        match tokio::time::timeout(LAST_WORDS, words).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "others are not told that this host has ended"
                );
            }
            Err(_) => tracing::debug!("others are not told that this host has ended: the store takes too long"),
        }
    }

    fn state(&self) -> &'static str {
        match () {
            () if self.stopping.is_some() => "stopping",
            () if self.draining => "draining",
            () => "serving",
        }
    }

    /// The call that brings this host's report to the store.
    fn report_call(
        &self,
        state: &'static str,
    ) -> impl Future<Output = Result<(Millis, Reported), StoreError>> + Send + use<> {
        let estimated = clock::wall().0.saturating_sub(self.calls.clock.now().0);
        let details = serde_json::to_string(&self.details(state)).expect("texts and numbers are JSON");
        let report = HostReport {
            instance: self.instance.clone(),
            name: self.parts.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            clock_offset_ms: self.reports.offset_ms.unwrap_or(estimated),
            details,
        };
        let store = self.parts.store.clone();
        async move {
            let (wall, began) = (clock::wall(), clock::mono());
            let told = store.report_host(&report).await?;
            let took = clock::mono().since(began);
            // The store read its clock somewhere between sending and answer.
            let offset_ms = (took <= PROMPT).then(|| (wall + took / 2).0.saturating_sub(told.now.0));
            Ok((told.now, Reported { orders: told.answer, at: told.now, offset_ms }))
        }
    }

    fn details(&self, state: &str) -> HostDetails {
        let catalog = self.parts.catalog.borrow();
        HostDetails {
            state: state.to_owned(),
            concurrency: self.parts.concurrency as u64,
            running: self.guests.len() as u64,
            jobs: catalog.jobs.len() as u64,
            plugins: catalog.plugins.len() as u64,
            offers: self.agreement.digest().to_owned(),
        }
    }
}

fn reported(reported: Reported, _: Millis) -> Vec<News> {
    vec![News::Reported(reported)]
}
