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
use crate::store::{AnnounceAnswer, Checked, HistoryQuery, Identity, JobView, LeaseStore, LogEntry, LogLine, RunView, StoreError};

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
        let runs = all_runs(&jobs).filter(|view| wanted.contains(&view.key.job) && !view.run.status.is_final());
        let answer = runs.filter(|view| after.is_none_or(|after| view.key > *after)).take(limit).collect();
        Ok(Checked { now, answer })
    }

    async fn check(&self, runs: &[RunKey]) -> Result<Checked<Vec<Option<RunView>>>, StoreError> {
        let (jobs, now) = self.at();
        let find = |key: &RunKey| {
            let record = jobs.get(&key.job)?;
            Some(view(&key.job, &record.job, &key.run, record.job.runs.get(&key.run)?))
        };
        let answer = runs.iter().map(find).collect();
        Ok(Checked { now, answer })
    }

    async fn history(&self, query: &HistoryQuery) -> Result<Checked<Vec<RunView>>, StoreError> {
        let (jobs, now) = self.at();
        let mut answer: Vec<RunView> = all_runs(&jobs).filter(|view| asked_for(query, view)).collect();
        answer.sort_by(newest_first);
        answer.truncate(query.limit);
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
    let mut sequence = log.last().map_or(0, |entry| entry.sequence);
    for line in lines {
        sequence += 1;
        log.push(LogEntry { sequence, attempt, line: line.clone() });
    }
}

/// What the sender of a write is told.
pub(crate) fn accepted(answer: WriteAnswer) -> Accepted {
    match answer {
        WriteAnswer::Write | WriteAnswer::Repeated => Accepted::Done,
        WriteAnswer::Refused => Accepted::Refused,
    }
}

/// All runs, ordered by key.
fn all_runs(jobs: &BTreeMap<JobKey, Record>) -> impl Iterator<Item = RunView> {
    jobs.iter().flat_map(|(key, record)| record.job.runs.iter().map(move |(id, run)| view(key, &record.job, id, run)))
}

fn view(key: &JobKey, job: &Job, id: &RunId, run: &Run) -> RunView {
    RunView {
        key: RunKey { job: key.clone(), run: id.clone() },
        run: run.clone(),
        newest_started: job.newest_started,
        newest_skipped: job.newest_skipped,
    }
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
        last: last.map(|(id, run)| view(key, job, id, run)),
    }
}

fn asked_for(query: &HistoryQuery, view: &RunView) -> bool {
    query.job.as_ref().is_none_or(|job| view.key.job == *job)
        && query.status.is_none_or(|status| view.run.status == status)
        && query.since.is_none_or(|since| view.run.due >= since)
}

fn newest_first(a: &RunView, b: &RunView) -> std::cmp::Ordering {
    (Reverse(a.run.due), &a.key).cmp(&(Reverse(b.run.due), &b.key))
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
