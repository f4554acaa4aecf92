//! What the rules say a store keeps after some operations, and the comparison with what it shows.

use std::collections::BTreeMap;

use leasehold_lease::id::{Attempt, JobKey, RunId, RunKey};
use leasehold_lease::log::LogLine;
use leasehold_lease::op::{Answer, Op, Stamped, WriteAnswer};
use leasehold_lease::order::newest_first;
use leasehold_lease::rules;
use leasehold_lease::run::{Job, Standing};
use leasehold_lease::time::Millis;
use leasehold_lease::write::{Around, Change, ENTRY, Write};

use super::bench::Bench;
use crate::view::{AnnounceAnswer, Checked, HistoryQuery, JobView, RunView};

/// A job and what lies beside it, as the rules have it. The key-value space is the tenant's: it has one job here.
#[derive(Default)]
pub(super) struct Expected {
    /// The job's record.
    pub(super) job: Job,
    /// The tenant's values.
    pub(super) kv: BTreeMap<String, Vec<u8>>,
    states: BTreeMap<RunId, Vec<u8>>,
    logs: BTreeMap<RunId, Vec<(Attempt, LogLine)>>,
}

impl Expected {
    /// Does the operation by the rules and by the driver, compares the answers, and hands the answer back. `told` says
    /// which step this is.
    pub(super) async fn step(&mut self, bench: &Bench, key: &JobKey, at: Millis, op: &Op, told: &str) -> Answer {
        let expected = rules::apply(&mut self.job, at, op);
        let answer = expected.answer.clone();
        self.carry_out(op, &answer);
        carry_out(bench, key, op, expected, told).await;
        answer
    }

    /// What a write of this finds beside the job.
    pub(super) fn around(&self, change: &Change) -> Around {
        let kept: u64 = self.kv.iter().map(|(key, value)| (key.len() + value.len()) as u64 + ENTRY).sum();
        let present = change.key().and_then(|key| self.kv.get(key)).cloned();
        Around { stored: self.job.stored + kept, present }
    }

    /// Does what lies outside the rules.
    fn carry_out(&mut self, op: &Op, answer: &Answer) {
        if let (Op::Write { write, .. }, Answer::Write(WriteAnswer { carry_out: true, .. })) = (op, answer) {
            self.keep(write);
        }
        // S15.
        self.states.retain(|id, _| self.job.runs.get(id).is_some_and(|run| !run.status.is_final()));
        self.logs.retain(|id, _| self.job.runs.contains_key(id));
    }

    fn keep(&mut self, write: &Write) {
        match &write.change {
            Change::SaveState(data) => drop(self.states.insert(write.run.clone(), data.clone())),
            Change::KvSet { key, value } | Change::KvCompareAndSet { key, value, .. } => {
                self.kv.insert(key.clone(), value.clone());
            }
            Change::KvDelete { key } => drop(self.kv.remove(key)),
            Change::AppendLog(lines) => {
                let attempt = self.job.runs[&write.run].attempt();
                let said = lines.iter().map(|line| (attempt, line.clone()));
                self.logs.entry(write.run.clone()).or_default().extend(said);
            }
        }
    }

    /// Compares the job's unfinished runs.
    pub(super) async fn same_unfinished(&self, bench: &Bench, key: &JobKey, told: &str) {
        let tenant = std::slice::from_ref(&key.tenant);
        let runs = bench.store.unfinished(tenant, None, usize::MAX).await.expect("runs").answer;
        let shown: Vec<_> = runs.into_iter().map(|each| (each.key.run, each.standing)).collect();
        let open = self.job.runs.iter().filter(|(_, run)| !run.status.is_final());
        let kept: Vec<_> = open.map(|(id, run)| (id.clone(), Some(Standing::from(run)))).collect();
        assert_eq!(shown, kept, "{told}");
    }

    /// Compares all of the job's runs, and their order.
    pub(super) async fn same_history(&self, bench: &Bench, key: &JobKey, told: &str) {
        let query = HistoryQuery { job: Some(key.clone()), limit: usize::MAX, ..HistoryQuery::default() };
        let Checked { now, answer } = bench.store.history(&query).await.expect("a history");
        let shown: Vec<_> = answer.into_iter().map(|view| (view.key.run, view.run)).collect();
        let mut kept: Vec<_> = self.job.runs.clone().into_iter().collect();
        // Of those in the same place the order is that of their keys, as it was.
        kept.sort_by_key(|(_, run)| newest_first(run.due, now));
        assert_eq!(shown, kept, "{told}");
    }

    /// Compares what the driver shows of the job itself.
    pub(super) async fn same_job(&self, bench: &Bench, key: &JobKey, told: &str) {
        let Checked { now, answer } = bench.store.job(key).await.expect("a job");
        assert_eq!(answer, (self.job.revision > 0).then(|| self.view(key, now)), "{told}");
    }

    fn view(&self, key: &JobKey, now: Millis) -> JobView {
        let job = self.job.clone();
        let newest = job.runs.iter().min_by_key(|(id, run)| (newest_first(run.due, now), *id));
        let run_key = |run: &RunId| RunKey { job: key.clone(), run: run.clone() };
        JobView {
            key: key.clone(),
            revision: job.revision,
            newest_started: job.newest_started,
            newest_skipped: job.newest_skipped,
            since: job.since,
            last_offered: job.last_offered,
            stored: job.stored,
            unfinished: job.runs.values().filter(|run| !run.status.is_final()).count() as u64,
            last: newest.map(|(id, run)| RunView { key: run_key(id), run: run.clone() }.brief()),
            fingerprint: job.fingerprint,
            hold: job.hold,
        }
    }

    /// Compares what lies beside the record: values, checkpoints and logs.
    pub(super) async fn same_beside(&self, bench: &Bench, key: &JobKey, told: &str) {
        let keys = bench.store.kv_list(&key.tenant, "", None, 100).await.expect("keys");
        assert_eq!(keys, self.kv.keys().cloned().collect::<Vec<_>>(), "{told}");
        for (name, value) in &self.kv {
            let shown = bench.store.kv_get(&key.tenant, name).await.expect("a value");
            assert_eq!(shown.as_ref(), Some(value), "{told}");
        }
        for id in self.job.runs.keys() {
            let run = RunKey { job: key.clone(), run: id.clone() };
            let shown = bench.store.load_state(&run).await.expect("a checkpoint");
            assert_eq!(shown, self.states.get(id).cloned(), "{id}: {told}");
            let entries = bench.store.read_log(&run, 0, usize::MAX).await.expect("a log");
            assert!(entries.is_sorted_by(|a, b| a.sequence < b.sequence), "{id}: {entries:?}; {told}");
            let shown: Vec<_> = entries.into_iter().map(|entry| (entry.attempt, entry.line)).collect();
            assert_eq!(shown, self.logs.get(id).cloned().unwrap_or_default(), "{id}: {told}");
        }
    }
}

/// Sends the operation to the driver and compares the answer.
async fn carry_out(bench: &Bench, key: &JobKey, op: &Op, expected: Stamped<Answer>, told: &str) {
    let store = &bench.store;
    let failed = |error: crate::StoreError| -> ! { panic!("{told}: {error:?}") };
    let answer = match op {
        Op::Claim(op) => store.claim(key, op).await.unwrap_or_else(|e| failed(e)).map(Answer::Claim),
        Op::Heartbeat(op) => {
            let beats = store.heartbeats(&[(key.clone(), op.clone())]).await.unwrap_or_else(|e| failed(e));
            beats.into_iter().next().expect("one").unwrap_or_else(|e| failed(e)).map(Answer::Heartbeat)
        }
        Op::Finish(op) => store.finish(key, op).await.unwrap_or_else(|e| failed(e)).map(Answer::Accepted),
        Op::Release(op) => store.release(key, op).await.unwrap_or_else(|e| failed(e)).map(Answer::Accepted),
        Op::Write { write, .. } => {
            // Whether it was carried out now or before is seen in what is kept.
            let Answer::Write(WriteAnswer { carry_out, .. }) = expected.answer else { unreachable!("it is a write") };
            let written = store.write(key, write).await.unwrap_or_else(|e| failed(e));
            written.map(|written| Answer::Write(WriteAnswer { written, carry_out }))
        }
        Op::Cancel(op) => store.cancel(key, op).await.unwrap_or_else(|e| failed(e)).map(Answer::Cancel),
        Op::Close(op) => store.close(key, op).await.unwrap_or_else(|e| failed(e)).map(Answer::Close),
        Op::Unblock(op) => store.unblock(key, op).await.unwrap_or_else(|e| failed(e)).map(Answer::Unblock),
        Op::Hold(op) => store.hold(key, op.as_ref()).await.unwrap_or_else(|e| failed(e)).map(|()| Answer::Hold),
        Op::Announce(op) => {
            let told = store.announce(&[(key.clone(), op.clone())]).await.unwrap_or_else(|e| failed(e));
            let offer = told.into_iter().next().expect("one").unwrap_or_else(|e| failed(e));
            offer.map(|AnnounceAnswer { since, newest_started, newest_skipped, hold }| Answer::Announced {
                since,
                newest_started,
                newest_skipped,
                hold,
            })
        }
        Op::Trigger(op) => store.trigger(key, op).await.unwrap_or_else(|e| failed(e)).map(Answer::Trigger),
        Op::Prune { history_size } => {
            let count = store.prune(key, *history_size).await.unwrap_or_else(|e| failed(e));
            let Answer::Pruned(runs) = &expected.answer else { unreachable!("the rules answer a prune as one") };
            assert_eq!(count, Stamped { answer: runs.len(), now: expected.now, revision: expected.revision }, "{told}");
            return;
        }
    };
    assert_eq!(answer, expected, "{told}");
}
