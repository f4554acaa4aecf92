//! The rules behind a mutex: the reference that other drivers are compared with, and the store of the simulator.
//!
//! It forgets everything when it is dropped, so it serves one process.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use leasehold_lease::id::{JobKey, RunId, RunKey, Token};
use leasehold_lease::op::{
    Accepted, Announce, Claim, ClaimAnswer, Finish, Heartbeat, HeartbeatAnswer, Release, Stamped, Trigger,
    TriggerAnswer, WriteAnswer,
};
use leasehold_lease::rules;
use leasehold_lease::run::{Job, Run};
use leasehold_lease::time::Millis;

use crate::clock::{self, Clock};
use crate::store::{
    AnnounceAnswer, Checked, HistoryQuery, Identity, JobView, LeaseStore, LogEntry, LogLine, RunView, StoreError,
};

/// A store in memory.
pub struct MemoryStore {
    clock: Clock,
    identity: Identity,
    jobs: Mutex<BTreeMap<JobKey, Record>>,
}

/// A job and what lies beside it.
#[derive(Default)]
struct Record {
    job: Job,
    logs: BTreeMap<RunId, Vec<LogEntry>>,
}

impl MemoryStore {
    /// An empty store on the machine's clock.
    pub fn new() -> MemoryStore {
        MemoryStore::with_clock(clock::machine())
    }

    /// An empty store on this clock.
    pub fn with_clock(clock: Clock) -> MemoryStore {
        let identity = Identity::random().expect("the operating system gives random bits");
        MemoryStore::with_identity(clock, identity)
    }

    /// An empty store that is the same at each replay.
    pub fn with_identity(clock: Clock, identity: Identity) -> MemoryStore {
        MemoryStore { clock, identity, jobs: Mutex::default() }
    }

    /// Carries out one rule on one job, at one instant.
    fn on<A>(&self, key: &JobKey, rule: impl FnOnce(&mut Record, Millis) -> A) -> A {
        let (mut jobs, now) = self.at();
        on(&mut jobs, key, |record| rule(record, now))
    }

    /// The jobs, and the time once they are ours.
    fn at(&self) -> (MutexGuard<'_, BTreeMap<JobKey, Record>>, Millis) {
        let jobs = self.jobs.lock().expect("no rule has panicked");
        // Read after the lock is held, so that answers and revisions have the same order.
        let now = (self.clock)();
        (jobs, now)
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
        Ok(self.on(job, |record, now| rules::claim(&mut record.job, now, claim)))
    }

    async fn heartbeats(&self, beats: &[(JobKey, Heartbeat)]) -> Result<Checked<Vec<HeartbeatAnswer>>, StoreError> {
        let (mut jobs, now) = self.at();
        let renew = |(key, beat): &(JobKey, Heartbeat)| {
            on(&mut jobs, key, |record| rules::heartbeat(&mut record.job, now, beat)).answer
        };
        let answer = beats.iter().map(renew).collect();
        Ok(Checked { now, answer })
    }

    async fn finish(&self, job: &JobKey, finish: &Finish) -> Result<Stamped<Accepted>, StoreError> {
        Ok(self.on(job, |record, now| rules::finish(&mut record.job, now, finish)))
    }

    async fn release(&self, job: &JobKey, release: &Release) -> Result<Stamped<Accepted>, StoreError> {
        Ok(self.on(job, |record, now| rules::release(&mut record.job, now, release)))
    }

    async fn announce(&self, offers: &[(JobKey, Announce)]) -> Result<Checked<Vec<AnnounceAnswer>>, StoreError> {
        let (mut jobs, now) = self.at();
        let tell = |(key, offer): &(JobKey, Announce)| {
            on(&mut jobs, key, |record| {
                let since = rules::announce(&mut record.job, now, offer).answer;
                let Job { newest_started, newest_skipped, .. } = record.job;
                AnnounceAnswer { since, newest_started, newest_skipped }
            })
        };
        let answer = offers.iter().map(tell).collect();
        Ok(Checked { now, answer })
    }

    async fn trigger(&self, job: &JobKey, trigger: &Trigger) -> Result<Stamped<TriggerAnswer>, StoreError> {
        Ok(self.on(job, |record, now| rules::trigger(&mut record.job, now, trigger)))
    }

    async fn unfinished(
        &self,
        jobs: &[JobKey],
        after: Option<&RunKey>,
        limit: usize,
    ) -> Result<Checked<Vec<RunView>>, StoreError> {
        let wanted: BTreeSet<&JobKey> = jobs.iter().collect();
        let (jobs, now) = self.at();
        let known = wanted.into_iter().filter_map(|key| jobs.get_key_value(key));
        let open = runs(known).filter(|found| !found.run.status.is_final());
        let behind = |found: &Found<'_>| after.is_none_or(|a| (found.key, found.id) > (&a.job, &a.run));
        let answer = open.filter(behind).take(limit).map(Found::view).collect();
        Ok(Checked { now, answer })
    }

    async fn check(&self, runs: &[RunKey]) -> Result<Checked<Vec<Option<RunView>>>, StoreError> {
        let (jobs, now) = self.at();
        let find = |key: &RunKey| {
            let job = &jobs.get(&key.job)?.job;
            Some(Found { key: &key.job, job, id: &key.run, run: job.runs.get(&key.run)? }.view())
        };
        let answer = runs.iter().map(find).collect();
        Ok(Checked { now, answer })
    }

    async fn history(&self, query: &HistoryQuery) -> Result<Checked<Vec<RunView>>, StoreError> {
        let (jobs, now) = self.at();
        let asked = |found: &Found<'_>| {
            query.status.is_none_or(|status| found.run.status == status)
                && query.since.is_none_or(|since| found.run.due >= since)
        };
        let known = jobs.iter().filter(|(key, _)| query.job.as_ref().is_none_or(|job| *key == job));
        let mut found: Vec<Found<'_>> = runs(known).filter(asked).collect();
        found.sort_by_key(|found| (Reverse(found.run.due), found.key, found.id));
        let answer = found.into_iter().take(query.limit).map(Found::view).collect();
        Ok(Checked { now, answer })
    }

    async fn jobs(&self) -> Result<Checked<Vec<JobView>>, StoreError> {
        let (jobs, now) = self.at();
        let answer = jobs.iter().map(|(key, record)| job_view(key, &record.job)).collect();
        Ok(Checked { now, answer })
    }

    async fn append_log(
        &self,
        run: &RunKey,
        token: &Token,
        number: u64,
        lines: &[LogLine],
    ) -> Result<Stamped<Accepted>, StoreError> {
        Ok(self.on(&run.job, |record, now| {
            let decided = rules::write(&mut record.job, now, &run.run, token, number);
            if decided.answer == WriteAnswer::Write {
                append(record, &run.run, lines);
            }
            decided.map(accepted)
        }))
    }

    async fn read_log(&self, run: &RunKey, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        let (jobs, _) = self.at();
        let log = jobs.get(&run.job).and_then(|record| record.logs.get(&run.run));
        let entries = log.into_iter().flatten().filter(|entry| entry.sequence > after);
        Ok(entries.take(limit).cloned().collect())
    }

    async fn prune(&self, job: &JobKey, history_size: u32) -> Result<usize, StoreError> {
        Ok(self.on(job, |record, now| {
            let pruned = rules::prune(&mut record.job, now, history_size).answer;
            for run in &pruned {
                record.logs.remove(run);
            }
            pruned.len()
        }))
    }
}

/// Carries out one rule on one job. A refusal creates nothing.
fn on<A>(jobs: &mut BTreeMap<JobKey, Record>, key: &JobKey, rule: impl FnOnce(&mut Record) -> A) -> A {
    if let Some(record) = jobs.get_mut(key) {
        return rule(record);
    }
    let mut record = Record::default();
    let answer = rule(&mut record);
    if record.job.revision > 0 {
        jobs.insert(key.clone(), record);
    }
    answer
}

fn append(record: &mut Record, run: &RunId, lines: &[LogLine]) {
    let attempt = record.job.runs[run].attempt();
    let log = record.logs.entry(run.clone()).or_default();
    let last = log.last().map_or(0, |entry| entry.sequence);
    log.extend(lines.iter().zip(last + 1..).map(|(line, sequence)| LogEntry { sequence, attempt, line: line.clone() }));
}

/// What the sender of a write is told.
pub(crate) fn accepted(answer: WriteAnswer) -> Accepted {
    match answer {
        WriteAnswer::Write | WriteAnswer::Repeated => Accepted::Done,
        WriteAnswer::Refused => Accepted::Refused,
    }
}

/// A run where it lies.
struct Found<'a> {
    key: &'a JobKey,
    job: &'a Job,
    id: &'a RunId,
    run: &'a Run,
}

impl Found<'_> {
    fn view(self) -> RunView {
        RunView {
            key: RunKey { job: self.key.clone(), run: self.id.clone() },
            run: self.run.clone(),
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

fn job_view(key: &JobKey, job: &Job) -> JobView {
    let last = job.runs.iter().min_by_key(|(id, run)| (Reverse(run.due), *id));
    JobView {
        key: key.clone(),
        revision: job.revision,
        newest_started: job.newest_started,
        newest_skipped: job.newest_skipped,
        since: job.since,
        last_offered: job.last_offered,
        unfinished: job.runs.values().filter(|run| !run.status.is_final()).count() as u64,
        last: last.map(|(id, run)| Found { key, job, id, run }.view()),
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
