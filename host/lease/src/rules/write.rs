//! What an attempt may write beside its run, once each, while it holds it.

use crate::id::RunId;
use crate::op::{Stamped, WriteAnswer};
use crate::run::{AttemptRecord, Job};
use crate::time::Millis;
use crate::write::{Around, Change, ENTRY, Lane, LastWrite, Write, Written};

use super::{Edit, stamped};

/// Decides about a write that a driver carries out in the same transaction. It renews nothing.
pub fn write(job: &mut Job, now: Millis, write: &Write, around: &Around) -> Stamped<WriteAnswer> {
    stamped(job, now, |job| {
        let only = |written| WriteAnswer { written, carry_out: false };
        let Some(run) = job.held(&write.run, &write.token) else { return only(Written::Refused) };
        let lane = write.change.lane();
        let last = last_write(run.attempts.last().expect("a running run has an attempt"), lane);
        // S13: the newest write sent again gets the first answer, an older copy changes nothing.
        if write.number == last.number {
            return only(last.written);
        }
        if write.number < last.number {
            return only(Written::Past);
        }
        let written = judge(write, around, run.state_size);
        let done = written == Written::Done;
        let attempt = job.run_mut(&write.run).attempts.last_mut().expect("a running run has an attempt");
        // A refusal for its size is remembered too: a copy must not be done after its sender was told so.
        let newest = LastWrite { number: write.number, written };
        match lane {
            Lane::Effects => attempt.last_write = newest,
            Lane::Log => attempt.last_log = newest,
        }
        if done {
            account(job, write);
        }
        WriteAnswer { written, carry_out: done }
    })
}

fn last_write(attempt: &AttemptRecord, lane: Lane) -> LastWrite {
    match lane {
        Lane::Effects => attempt.last_write,
        Lane::Log => attempt.last_log,
    }
}

fn judge(write: &Write, around: &Around, state_size: Option<u64>) -> Written {
    if write.change.too_large(&write.quota) {
        return Written::TooLarge;
    }
    let as_expected = match &write.change {
        Change::KvDelete { .. } => around.present.is_some(),
        Change::KvCompareAndSet { expected, .. } => around.present == *expected,
        _ => true,
    };
    if !as_expected {
        return Written::NotDone;
    }
    let growth = growth(&write.change, around.present.as_ref().map(|value| value.len() as u64), state_size);
    let after = i128::from(around.stored) + i128::from(growth);
    // What shrinks is always written, or a full tenant could not help itself.
    if growth > 0 && after > i128::from(write.quota.stored) { Written::OverQuota } else { Written::Done }
}

/// By how much a change makes what the tenant stores grow, in bytes.
///
/// `present` is the size of the present value of the change's key, `state_size` that of the run's checkpoint.
pub fn growth(change: &Change, present: Option<u64>, state_size: Option<u64>) -> i64 {
    let entry = |content: u64| content + ENTRY;
    let (before, after) = match change {
        Change::SaveState(data) => (state_size.map(entry), entry(data.len() as u64)),
        Change::KvSet { key, value } | Change::KvCompareAndSet { key, value, .. } => {
            let key = key.len() as u64;
            (present.map(|size| entry(key + size)), entry(key + value.len() as u64))
        }
        Change::KvDelete { key } => (present.map(|size| entry(key.len() as u64 + size)), 0),
        Change::AppendLog(lines) => (None, lines.iter().map(|line| entry(line.size())).sum()),
    };
    after.cast_signed() - before.unwrap_or(0).cast_signed()
}

/// Counts what is kept beside the run. The key-value space is the tenant's, and counted where it lies.
fn account(job: &mut Edit<'_>, write: &Write) {
    match &write.change {
        Change::SaveState(data) => {
            let run = job.run_mut(&write.run);
            let before = run.stored();
            run.state_size = Some(data.len() as u64);
            let after = run.stored();
            job.stored = job.stored - before + after;
        }
        Change::AppendLog(lines) => {
            let size = lines.iter().map(|line| line.size() + ENTRY).sum();
            keep(job, &write.run, size);
        }
        Change::KvSet { .. } | Change::KvDelete { .. } | Change::KvCompareAndSet { .. } => {}
    }
}

/// Counts bytes that stay with the run until it is pruned.
pub(super) fn keep(job: &mut Edit<'_>, id: &RunId, size: u64) {
    if size > 0 {
        job.run_mut(id).kept_size += size;
        job.stored += size;
    }
}
