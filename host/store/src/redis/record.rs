//! Reading records: what `lib/job.lua` keeps of a run, and what `lib/view.lua` makes of it.

use std::time::Duration;

use leasehold_lease::id::{Attempt, Fence, JobKey, RunId, RunKey, Token};
use leasehold_lease::run::{AttemptEnd, AttemptRecord, Failure, Outcome, Run, Standing, Status};
use leasehold_lease::time::{Millis, Slot};
use leasehold_lease::write::{LastWrite, Written};
use redis::Value;

use super::decode::Fields;
use super::keys::run_id;
use crate::view::{RunStanding, RunView};
use crate::wire::{Meta, WireError, from_json};

/// The status of a word.
pub(super) fn status(word: &str) -> Result<Status, WireError> {
    use Status::{Failed, Interrupted, Pending, Running, Success};
    let all = [Pending, Running, Success, Failed, Interrupted];
    all.into_iter().find(|status| status.word() == word).ok_or_else(|| WireError::new("a status", "it is unknown"))
}

/// A slot, if there is one.
pub(super) fn maybe_slot(fields: &mut Fields) -> Result<Option<Slot>, WireError> {
    Ok(fields.maybe_number()?.map(|at| Slot(Millis(at))))
}

/// An instant, if there is one.
pub(super) fn maybe_millis(fields: &mut Fields) -> Result<Option<Millis>, WireError> {
    Ok(fields.maybe_number()?.map(Millis))
}

/// An instant.
pub(super) fn millis(fields: &mut Fields) -> Result<Millis, WireError> {
    fields.number().map(Millis)
}

/// How an outcome is kept: the output itself, a failure as JSON, a reason as it is. Its first byte tells a cut output.
/// The bytes of equal outcomes are equal (S13: the same outcome again).
pub(super) fn outcome_bytes(outcome: &Outcome) -> Vec<u8> {
    match outcome {
        Outcome::Success { output, cut } => {
            let mut bytes = vec![if *cut { b'1' } else { b'0' }];
            bytes.extend_from_slice(output);
            bytes
        }
        Outcome::Failed(failure) => crate::wire::to_json(failure).into_bytes(),
        Outcome::Interrupted { reason } => reason.clone().into_bytes(),
    }
}

fn outcome(status: Status, bytes: Vec<u8>) -> Result<Option<Outcome>, WireError> {
    let text = |bytes| String::from_utf8(bytes).map_err(|error| WireError::new("an outcome", error));
    Ok(match status {
        Status::Pending | Status::Running => None,
        Status::Success => {
            let (first, output) = bytes.split_first().ok_or_else(|| WireError::new("an output", "it is empty"))?;
            Some(Outcome::Success { output: output.to_vec(), cut: *first == b'1' })
        }
        Status::Failed => Some(Outcome::Failed(from_json::<Failure>("a failure", &text(bytes)?)?)),
        Status::Interrupted => Some(Outcome::Interrupted { reason: text(bytes)? }),
    })
}

/// How an attempt ends with this outcome.
pub(super) fn end_of(outcome: &Outcome) -> AttemptEnd {
    match outcome {
        Outcome::Success { .. } => AttemptEnd::Success,
        Outcome::Failed(_) => AttemptEnd::Failed,
        Outcome::Interrupted { .. } => AttemptEnd::Cancelled,
    }
}

fn attempt_end(word: &str) -> Result<AttemptEnd, WireError> {
    use AttemptEnd::{Cancelled, Expired, Failed, HandedOver, Lost, Success};
    let all = [Success, Failed, Lost, HandedOver, Expired, Cancelled];
    all.into_iter().find(|end| end.word() == word).ok_or_else(|| WireError::new("an attempt's end", "it is unknown"))
}

/// A run as `view` of `lib/view.lua` shows it.
pub(super) fn view(job: &JobKey, value: Value) -> Result<RunView, WireError> {
    let mut fields = Fields::of("a run", value)?;
    let key = RunKey { job: job.clone(), run: run_id(&fields.text()?)? };
    let status = status(&fields.text()?)?;
    let mut record = fields.list("a run's record")?;
    let payload = fields.maybe_bytes()?;
    let older = fields.list("a run's older attempts")?;
    let mut run = Run { status, payload, ..Run::new(millis(&mut record)?, None) };
    run.lease_end = millis(&mut record)?;
    run.released = record.flag()?;
    run.starts = record.number()?;
    run.hand_overs = record.number()?;
    run.state_size = record.maybe_number()?;
    run.kept_size = record.number()?;
    run.cancelled = record.maybe_text()?;
    run.progress = record.maybe_text()?.map(|text| from_json("a progress report", &text)).transpose()?;
    let newest = attempt(&mut record)?;
    // The status is told twice: it goes in front also where the record has none yet.
    record.maybe_text()?;
    run.ended_at = maybe_millis(&mut record)?;
    if let Some(bytes) = record.maybe_bytes()? {
        run.outcome = outcome(status, bytes)?;
    }
    for value in older.rest() {
        run.attempts.extend(attempt(&mut Fields::of("an attempt", value)?)?);
    }
    run.attempts.extend(newest);
    run.attempts.sort_by_key(|attempt| attempt.attempt);
    Ok(RunView { key, run })
}

/// An attempt, as it lies in the record of its run or beside it; none where the run has not started.
fn attempt(fields: &mut Fields) -> Result<Option<AttemptRecord>, WireError> {
    let number: u32 = fields.number()?;
    let token = fields.maybe_bytes()?;
    let fence = Fence(fields.number()?);
    let _lease: u64 = fields.number()?;
    let started_at = millis(fields)?;
    let meta = fields.maybe_text()?;
    let last_effect = last_write(fields)?;
    let last_log = last_write(fields)?;
    let ended_at = maybe_millis(fields)?;
    let end = fields.maybe_text()?.map(|word| attempt_end(&word)).transpose()?;
    let usage = fields.maybe_text()?.map(|text| from_json("an attempt's usage", &text)).transpose()?;
    let (Some(token), Some(meta)) = (token, meta) else { return Ok(None) };
    let token = token.try_into().map_err(|_| WireError::new("a token", "it has not 16 bytes"))?;
    let (runner, digest, terms) = from_json::<Meta>("an attempt's policy", &meta)?.parts()?;
    Ok(Some(AttemptRecord {
        attempt: Attempt(number),
        token: Token(token),
        fence,
        runner,
        terms,
        digest,
        started_at,
        ended: ended_at.zip(end),
        last_write: last_effect,
        last_log,
        usage,
    }))
}

fn last_write(fields: &mut Fields) -> Result<LastWrite, WireError> {
    let number: Option<u64> = fields.maybe_number()?;
    let word = fields.maybe_text()?;
    let Some((number, word)) = number.zip(word) else { return Ok(LastWrite::default()) };
    let written = Written::from_word(&word).ok_or_else(|| WireError::new("a write's answer", "it is unknown"))?;
    Ok(LastWrite { number, written })
}

/// Where a run stands, as `standing` of `lib/view.lua` says it.
pub(super) fn standing(fields: &mut Fields) -> Result<Standing, WireError> {
    let status = status(&fields.text()?)?;
    Ok(Standing {
        status,
        due: millis(fields)?,
        lease_end: millis(fields)?,
        released: fields.flag()?,
        attempt: Attempt(fields.number()?),
        lease: Duration::from_millis(fields.number()?),
        reason: fields.maybe_text()?,
    })
}

/// The unfinished runs of one job.
pub(super) fn open_runs(job: &JobKey, fields: &mut Fields) -> Result<Vec<RunStanding>, WireError> {
    let (newest_started, newest_skipped) = (maybe_slot(fields)?, maybe_slot(fields)?);
    let mut runs = Vec::new();
    for value in fields.list("a job's unfinished runs")?.rest() {
        let mut fields = Fields::of("an unfinished run", value)?;
        let run: RunId = run_id(&fields.text()?)?;
        let standing = Some(standing(&mut fields.list("an unfinished run")?)?);
        let key = RunKey { job: job.clone(), run };
        runs.push(RunStanding { key, standing, newest_started, newest_skipped });
    }
    runs.sort_by(|a, b| a.key.run.cmp(&b.key.run));
    Ok(runs)
}
