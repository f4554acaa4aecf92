//! The rules behind a mutex: the reference that other drivers are compared with, and the store of the simulator.
//!
//! It forgets everything when it is dropped, so it serves one process.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use leasehold_lease::id::{JobKey, RunId, RunKey, TenantName};
use leasehold_lease::log::LogLine;
use leasehold_lease::op::{
    Accepted, Announce, Cancel, CancelAnswer, Claim, ClaimAnswer, Close, CloseAnswer, Finish, Heartbeat,
    HeartbeatAnswer, Release, Stamped, Trigger, TriggerAnswer, Unblock, UnblockAnswer,
};
use leasehold_lease::order::newest_first;
use leasehold_lease::rules;
use leasehold_lease::run::{Hold, Job, Run, Standing};
use leasehold_lease::time::Millis;
use leasehold_lease::write::{Around, Change, ENTRY, Write, Written};
use tokio::sync::broadcast;

use crate::clock::{self, Clock};
use crate::error::StoreError;
use crate::store::LeaseStore;
use crate::view::{
    ANSWERS_KEPT, AnnounceAnswer, Checked, Each, HOST_KEPT, HistoryQuery, HostAnswer, HostOrders, HostRecord,
    HostReport, Identity, JobView, LogEntry, RunStanding, RunView,
};
use crate::wakeups::Wakeups;

/// A store in memory.
pub struct MemoryStore {
    clock: Clock,
    identity: Identity,
    data: Mutex<Data>,
    wakeups: Wakeups,
}

/// All that is kept.
#[derive(Default)]
struct Data {
    jobs: BTreeMap<JobKey, Record>,
    kv: BTreeMap<TenantName, BTreeMap<String, Vec<u8>>>,
    hosts: BTreeMap<(String, String), HostRecord>,
    offers: BTreeMap<(String, String), String>,
}

/// A job and what lies beside it.
#[derive(Default)]
struct Record {
    job: Job,
    states: BTreeMap<RunId, Vec<u8>>,
    logs: BTreeMap<RunId, Vec<LogEntry>>,
    told: VecDeque<HostAnswer>,
}

impl MemoryStore {
    /// An empty store on the machine's clock.
    pub fn new() -> MemoryStore {
        MemoryStore::with_clock(clock::machine())
    }

    /// An empty store on this clock.
    pub fn with_clock(clock: Clock) -> MemoryStore {
        let identity = Identity::random().expect("the operating system gives random bits");
        MemoryStore { clock, identity, data: Mutex::default(), wakeups: Wakeups::default() }
    }

    /// The job's record as the rules see it, for tests that judge it; empty for a job nobody knows.
    pub fn record(&self, job: &JobKey) -> Job {
        let (data, _) = self.at();
        data.jobs.get(job).map(|record| record.job.clone()).unwrap_or_default()
    }

    /// Carries out one rule on one job, at one instant.
    fn on<A>(&self, key: &JobKey, rule: impl FnOnce(&mut Job, Millis) -> Stamped<A>) -> Stamped<A> {
        let (mut data, now) = self.at();
        on(&mut data.jobs, key, |record| rule(&mut record.job, now))
    }

    /// What is kept, and the time once it is ours.
    fn at(&self) -> (MutexGuard<'_, Data>, Millis) {
        let data = self.data.lock().expect("no rule has panicked");
        // Read after the lock is held, so that answers and revisions have the same order.
        let now = (self.clock)();
        (data, now)
    }
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new()
    }
}

#[async_trait]
impl LeaseStore for MemoryStore {
    async fn identity(&self) -> Result<Identity, StoreError> {
        Ok(self.identity.clone())
    }

    async fn now(&self) -> Result<Millis, StoreError> {
        Ok((self.clock)())
    }

    async fn claim(&self, job: &JobKey, claim: &Claim) -> Result<Stamped<ClaimAnswer>, StoreError> {
        Ok(self.on(job, |job, now| rules::claim(job, now, claim)))
    }

    async fn heartbeats(&self, beats: &[(JobKey, Heartbeat)]) -> Result<Vec<Each<HeartbeatAnswer>>, StoreError> {
        let (mut data, now) = self.at();
        let mut renew = |(key, beat): &(JobKey, Heartbeat)| {
            Ok(on(&mut data.jobs, key, |record| rules::heartbeat(&mut record.job, now, beat)))
        };
        Ok(beats.iter().map(&mut renew).collect())
    }

    async fn finish(&self, job: &JobKey, finish: &Finish) -> Result<Stamped<Accepted>, StoreError> {
        Ok(self.on(job, |job, now| rules::finish(job, now, finish)))
    }

    async fn release(&self, job: &JobKey, release: &Release) -> Result<Stamped<Accepted>, StoreError> {
        let released = self.on(job, |job, now| rules::release(job, now, release));
        if released.answer == Accepted::Done {
            self.wakeups.wake(job);
        }
        Ok(released)
    }

    async fn write(&self, job: &JobKey, write: &Write) -> Result<Stamped<Written>, StoreError> {
        let (mut data, now) = self.at();
        let Data { jobs, kv, .. } = &mut *data;
        let stored = jobs.iter().filter(|(key, _)| key.tenant == job.tenant).map(|(_, r)| r.job.stored).sum::<u64>();
        let mut values = kv.remove(&job.tenant).unwrap_or_default();
        let kept: u64 = values.iter().map(|(key, value)| (key.len() + value.len()) as u64 + ENTRY).sum();
        let present = write.change.key().and_then(|key| values.get(key)).cloned();
        let around = Around { stored: stored + kept, present };
        let decided = on(jobs, job, |record| {
            let decided = rules::write(&mut record.job, now, write, &around);
            if decided.answer.carry_out {
                carry_out(record, &mut values, write);
            }
            decided
        });
        if !values.is_empty() {
            kv.insert(job.tenant.clone(), values);
        }
        Ok(decided.map(|answer| answer.written))
    }

    async fn load_state(&self, run: &RunKey) -> Result<Option<Vec<u8>>, StoreError> {
        let (data, _) = self.at();
        Ok(data.jobs.get(&run.job).and_then(|record| record.states.get(&run.run)).cloned())
    }

    async fn kv_get(&self, tenant: &TenantName, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let (data, _) = self.at();
        Ok(data.kv.get(tenant).and_then(|values| values.get(key)).cloned())
    }

    async fn kv_list(
        &self,
        tenant: &TenantName,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let (data, _) = self.at();
        let Some(values) = data.kv.get(tenant) else { return Ok(Vec::new()) };
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let keys = values.range::<str, _>((from, Bound::Unbounded)).map(|(key, _)| key);
        Ok(keys.take_while(|key| key.starts_with(prefix)).take(limit).cloned().collect())
    }

    async fn read_log(&self, run: &RunKey, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        let (data, _) = self.at();
        let log = data.jobs.get(&run.job).and_then(|record| record.logs.get(&run.run));
        let entries = log.into_iter().flatten().filter(|entry| entry.sequence > after);
        Ok(entries.take(limit).cloned().collect())
    }

    async fn announce(&self, offers: &[(JobKey, Announce)]) -> Result<Vec<Each<AnnounceAnswer>>, StoreError> {
        let (mut data, now) = self.at();
        let mut tell = |(key, offer): &(JobKey, Announce)| {
            Ok(on(&mut data.jobs, key, |record| {
                let announced = rules::announce(&mut record.job, now, offer);
                let Job { newest_started, newest_skipped, ref hold, .. } = record.job;
                let hold = hold.clone();
                announced.map(|since| AnnounceAnswer { since, newest_started, newest_skipped, hold })
            }))
        };
        Ok(offers.iter().map(&mut tell).collect())
    }

    async fn trigger(&self, job: &JobKey, trigger: &Trigger) -> Result<Stamped<TriggerAnswer>, StoreError> {
        let triggered = self.on(job, |job, now| rules::trigger(job, now, trigger));
        if triggered.answer == TriggerAnswer::Stored {
            self.wakeups.wake(job);
        }
        Ok(triggered)
    }

    async fn cancel(&self, job: &JobKey, cancel: &Cancel) -> Result<Stamped<CancelAnswer>, StoreError> {
        Ok(self.on(job, |job, now| rules::cancel(job, now, cancel)))
    }

    async fn close(&self, job: &JobKey, close: &Close) -> Result<Stamped<CloseAnswer>, StoreError> {
        Ok(self.on(job, |job, now| rules::close(job, now, close)))
    }

    async fn unblock(&self, job: &JobKey, unblock: &Unblock) -> Result<Stamped<UnblockAnswer>, StoreError> {
        Ok(self.on(job, |job, now| rules::unblock(job, now, unblock)))
    }

    async fn hold(&self, job: &JobKey, hold: Option<&Hold>) -> Result<Stamped<()>, StoreError> {
        Ok(self.on(job, |job, now| rules::hold(job, now, hold)))
    }

    async fn unfinished(
        &self,
        tenants: &[TenantName],
        after: Option<&RunKey>,
        limit: usize,
    ) -> Result<Checked<Vec<RunStanding>>, StoreError> {
        let wanted: BTreeSet<&TenantName> = tenants.iter().collect();
        let (data, now) = self.at();
        let known = data.jobs.iter().filter(|(key, _)| wanted.contains(&key.tenant));
        let open = runs(known).filter(|found| !found.run.status.is_final());
        let behind = |found: &Found<'_>| after.is_none_or(|a| (found.key, found.id) > (&a.job, &a.run));
        let answer = open.filter(behind).take(limit).map(Found::standing).collect();
        Ok(Checked { now, answer })
    }

    async fn check(&self, runs: &[RunKey]) -> Result<Checked<Vec<RunStanding>>, StoreError> {
        let (data, now) = self.at();
        let find = |key: &RunKey| {
            let job = data.jobs.get(&key.job).map(|record| &record.job);
            RunStanding {
                key: key.clone(),
                standing: job.and_then(|job| job.runs.get(&key.run)).map(Standing::from),
                newest_started: job.and_then(|job| job.newest_started),
                newest_skipped: job.and_then(|job| job.newest_skipped),
            }
        };
        let answer = runs.iter().map(find).collect();
        Ok(Checked { now, answer })
    }

    async fn show(&self, run: &RunKey) -> Result<Checked<Option<RunView>>, StoreError> {
        let (data, now) = self.at();
        let found = data.jobs.get(&run.job).and_then(|record| record.job.runs.get(&run.run));
        let answer = found.map(|found| RunView { key: run.clone(), run: found.clone() });
        Ok(Checked { now, answer })
    }

    async fn history(&self, query: &HistoryQuery) -> Result<Checked<Vec<RunView>>, StoreError> {
        let (data, now) = self.at();
        let asked = |found: &Found<'_>| {
            query.status.is_none_or(|status| found.run.status == status)
                && query.since.is_none_or(|since| found.run.due >= since)
        };
        let known = data.jobs.iter().filter(|(key, _)| query.job.as_ref().is_none_or(|job| *key == job));
        let mut found: Vec<Found<'_>> = runs(known).filter(asked).collect();
        found.sort_by_key(|found| (newest_first(found.run.due, now), found.key, found.id));
        let answer = found.into_iter().take(query.limit).map(Found::view).collect();
        Ok(Checked { now, answer })
    }

    async fn jobs(&self, after: Option<&JobKey>, limit: usize) -> Result<Checked<Vec<JobView>>, StoreError> {
        let (data, now) = self.at();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = data.jobs.range::<JobKey, _>((from, Bound::Unbounded)).take(limit);
        Ok(Checked { now, answer: behind.map(|(key, record)| job_view(key, &record.job, now)).collect() })
    }

    async fn job(&self, job: &JobKey) -> Result<Checked<Option<JobView>>, StoreError> {
        let (data, now) = self.at();
        Ok(Checked { now, answer: data.jobs.get(job).map(|record| job_view(job, &record.job, now)) })
    }

    async fn prune(&self, job: &JobKey, history_size: u32) -> Result<Stamped<usize>, StoreError> {
        let (mut data, now) = self.at();
        let pruned = on(&mut data.jobs, job, |record| {
            let pruned = rules::prune(&mut record.job, now, history_size);
            for run in &pruned.answer {
                record.logs.remove(run);
            }
            pruned
        });
        Ok(pruned.map(|runs| runs.len()))
    }

    async fn keep_answers(&self, told: &[HostAnswer]) -> Result<(), StoreError> {
        let (mut data, _) = self.at();
        for told in told {
            // A job that is unknown has nothing to explain.
            let Some(record) = data.jobs.get_mut(&told.run.job) else { continue };
            record.told.push_front(told.clone());
            record.told.truncate(ANSWERS_KEPT);
        }
        Ok(())
    }

    async fn answers(&self, job: &JobKey, run: Option<&RunId>, limit: usize) -> Result<Vec<HostAnswer>, StoreError> {
        let (data, _) = self.at();
        let all = data.jobs.get(job).into_iter().flat_map(|record| &record.told);
        Ok(all.filter(|told| run.is_none_or(|run| told.run.run == *run)).take(limit).cloned().collect())
    }

    async fn report_host(&self, report: &HostReport) -> Result<Checked<HostOrders>, StoreError> {
        let (mut data, now) = self.at();
        let Data { hosts, offers, .. } = &mut *data;
        hosts.retain(|_, host| now <= host.last_seen + HOST_KEPT);
        offers.retain(|host, _| hosts.contains_key(host));
        let new =
            || HostRecord { report: report.clone(), first_seen: now, last_seen: now, orders: HostOrders::default() };
        let host = data.hosts.entry((report.name.clone(), report.instance.clone())).or_insert_with(new);
        host.report.clone_from(report);
        host.last_seen = now;
        Ok(Checked { now, answer: host.orders })
    }

    async fn hosts(&self) -> Result<Checked<Vec<HostRecord>>, StoreError> {
        let (data, now) = self.at();
        Ok(Checked { now, answer: data.hosts.values().cloned().collect() })
    }

    async fn keep_offers(&self, name: &str, instance: &str, offers: &str) -> Result<(), StoreError> {
        let (mut data, _) = self.at();
        let host = (name.to_owned(), instance.to_owned());
        if data.hosts.contains_key(&host) {
            data.offers.insert(host, offers.to_owned());
        }
        Ok(())
    }

    async fn host_offers(&self, name: &str, instance: &str) -> Result<Option<String>, StoreError> {
        let (data, _) = self.at();
        Ok(data.offers.get(&(name.to_owned(), instance.to_owned())).cloned())
    }

    async fn drain(&self, host: &str, drain: bool) -> Result<usize, StoreError> {
        let (mut data, _) = self.at();
        let mut known = 0;
        for ((name, _), record) in &mut data.hosts {
            if name == host {
                record.orders.drain = drain;
                known += 1;
            }
        }
        Ok(known)
    }

    fn wakeups(&self) -> Option<broadcast::Receiver<JobKey>> {
        Some(self.wakeups.subscribe())
    }
}

/// Carries out one rule on one job. A refusal creates nothing.
fn on<A>(
    jobs: &mut BTreeMap<JobKey, Record>,
    key: &JobKey,
    rule: impl FnOnce(&mut Record) -> Stamped<A>,
) -> Stamped<A> {
    let mut new = Record::default();
    let known = jobs.contains_key(key);
    let record = if known { jobs.get_mut(key).expect("it is known") } else { &mut new };
    let answer = rule(record);
    // S15: a checkpoint goes with the final status.
    let Record { job, states, .. } = &mut *record;
    states.retain(|id, _| job.runs.get(id).is_some_and(|run| run.state_size.is_some()));
    if !known && new.job.revision > 0 {
        jobs.insert(key.clone(), new);
    }
    answer
}

/// Does what a rule has allowed.
fn carry_out(record: &mut Record, values: &mut BTreeMap<String, Vec<u8>>, write: &Write) {
    match &write.change {
        Change::SaveState(data) => drop(record.states.insert(write.run.clone(), data.clone())),
        Change::KvSet { key, value } | Change::KvCompareAndSet { key, value, .. } => {
            values.insert(key.clone(), value.clone());
        }
        Change::KvDelete { key } => drop(values.remove(key)),
        Change::AppendLog(lines) => append(record, &write.run, lines),
    }
}

fn append(record: &mut Record, run: &RunId, lines: &[LogLine]) {
    let attempt = record.job.runs[run].attempt();
    let log = record.logs.entry(run.clone()).or_default();
    let last = log.last().map_or(0, |entry| entry.sequence);
    log.extend(lines.iter().zip(last + 1..).map(|(line, sequence)| LogEntry { sequence, attempt, line: line.clone() }));
}

/// A run where it lies.
struct Found<'a> {
    key: &'a JobKey,
    job: &'a Job,
    id: &'a RunId,
    run: &'a Run,
}

impl Found<'_> {
    fn key(&self) -> RunKey {
        RunKey { job: self.key.clone(), run: self.id.clone() }
    }

    fn view(self) -> RunView {
        RunView { key: self.key(), run: self.run.clone() }
    }

    fn standing(self) -> RunStanding {
        RunStanding {
            key: self.key(),
            standing: Some(self.run.into()),
            newest_started: self.job.newest_started,
            newest_skipped: self.job.newest_skipped,
        }
    }
}

/// The runs of these jobs, in the order of the jobs and of their keys.
fn runs<'a>(jobs: impl Iterator<Item = (&'a JobKey, &'a Record)>) -> impl Iterator<Item = Found<'a>> {
    let of = |key, job: &'a Job| job.runs.iter().map(move |(id, run)| Found { key, job, id, run });
    jobs.flat_map(move |(key, record)| of(key, &record.job))
}

fn job_view(key: &JobKey, job: &Job, now: Millis) -> JobView {
    let last = job.runs.iter().min_by_key(|(id, run)| (newest_first(run.due, now), *id));
    JobView {
        key: key.clone(),
        revision: job.revision,
        newest_started: job.newest_started,
        newest_skipped: job.newest_skipped,
        since: job.since,
        fingerprint: job.fingerprint.clone(),
        last_offered: job.last_offered,
        hold: job.hold.clone(),
        stored: job.stored,
        unfinished: job.runs.values().filter(|run| !run.status.is_final()).count() as u64,
        last: last.map(|(id, run)| Found { key, job, id, run }.view().brief()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::conformance::{Bench, TestClock};

    async fn on_a_set_clock() -> Bench {
        let (clock, read) = TestClock::settable();
        Bench::new(Arc::new(MemoryStore::with_clock(read)), clock, ())
    }

    crate::conformance_tests!(on_a_set_clock);

    mod on_the_machines_clock {
        use super::*;

        async fn make() -> Bench {
            Bench::new(Arc::new(MemoryStore::new()), TestClock::Real, ())
        }

        crate::conformance_tests!(make);
    }
}
