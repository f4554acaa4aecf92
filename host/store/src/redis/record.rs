//! Records: what is made for `lib/job.lua` to keep, and what `lib/view.lua` shows of it.

use std::time::Duration;

use leasehold_lease::id::{Attempt, Fence, JobKey, RunId, RunKey, Token};
use leasehold_lease::op::{Claim, ClaimKind};
use leasehold_lease::policy::{CLOCK_GRACE, Overlap};
use leasehold_lease::run::{AttemptEnd, AttemptRecord, Failure, Outcome, Run, Standing, Status};
use leasehold_lease::time::{Millis, Slot};
use leasehold_lease::write::{LastWrite, Written};
use redis::Value;

use super::call::{bounded, instant};
use super::decode::Fields;
use super::keys::run_id;
use crate::view::{RunStanding, RunView};
use crate::wire::{Meta, WireError, from_json, ms};

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

/// The numbers of a claim, as its script unpacks them: doubles and a byte.
pub(super) fn claim_numbers(claim: &Claim) -> Vec<u8> {
    let terms = &claim.terms;
    // Whole numbers below 2^53 are exact as doubles.
    let number = |number: u64| bounded(number) as f64;
    let late_after = claim.kind.bound(terms).map(|bound| number(ms(bound.saturating_add(CLOCK_GRACE))));
    let numbers = [
        instant(claim.not_after.0) as f64,
        late_after.unwrap_or(f64::NEG_INFINITY),
        number(ms(CLOCK_GRACE)),
        number(ms(terms.lease)),
        f64::from(terms.max_attempts),
        number(ms(terms.bound())),
    ];
    let skips = u8::from(terms.overlap == Overlap::Skip);
    let catches_up = 2 * u8::from(matches!(claim.kind, ClaimKind::CatchUp { .. }));
    numbers.iter().flat_map(|number| number.to_le_bytes()).chain([skips + catches_up]).collect()
}

/// The tail of the record of an attempt that has just begun; `lib/tail.lua` tells its form.
pub(super) fn tail_of(meta: &str) -> Vec<u8> {
    let length = u32::try_from(meta.len()).expect("a runner's name and a policy are short");
    [&length.to_le_bytes(), meta.as_bytes(), &[0; 4]].concat()
}

/// How an outcome is kept: its kind, and then the output itself behind a byte that tells whether it was cut, a failure
/// as JSON, or a reason as it is. The bytes of equal outcomes are equal (S13: the same outcome again).
pub(super) fn outcome_bytes(outcome: &Outcome) -> Vec<u8> {
    match outcome {
        Outcome::Success { output, cut } => [if *cut { &b"s1"[..] } else { b"s0" }, output].concat(),
        Outcome::Failed(failure) => ["f", &crate::wire::to_json(failure)].concat().into_bytes(),
        Outcome::Interrupted { reason } => ["i", reason].concat().into_bytes(),
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
    let mut run = Run { status, ..Run::new(millis(&mut fields)?, None) };
    run.lease_end = millis(&mut fields)?;
    run.released = fields.flag()?;
    run.starts = fields.number()?;
    run.hand_overs = fields.number()?;
    run.state_size = fields.maybe_number()?;
    run.kept_size = fields.number()?;
    run.cancelled = fields.maybe_text()?;
    run.progress = fields.maybe_text()?.map(|text| from_json("a progress report", &text)).transpose()?;
    run.ended_at = maybe_millis(&mut fields)?;
    if let Some(bytes) = fields.maybe_bytes()? {
        run.outcome = outcome(status, bytes)?;
    }
    run.payload = fields.maybe_bytes()?;
    let attempts = fields.list("a run's attempts")?.rest().map(attempt);
    run.attempts = attempts.collect::<Result<_, _>>()?;
    run.attempts.sort_by_key(|attempt| attempt.attempt);
    Ok(RunView { key, run })
}

/// An attempt as `attempt_of` of `lib/view.lua` shows it.
fn attempt(value: Value) -> Result<AttemptRecord, WireError> {
    let mut fields = Fields::of("an attempt", value)?;
    let number = fields.number()?;
    let token = fields.bytes()?.try_into().map_err(|_| WireError::new("a token", "it has not 16 bytes"))?;
    let fence = Fence(fields.number()?);
    let started_at = millis(&mut fields)?;
    let (runner, digest, terms) = from_json::<Meta>("an attempt's policy", &fields.text()?)?.parts()?;
    let (last_effect, last_log) = (last_write(&mut fields)?, last_write(&mut fields)?);
    let ended_at = maybe_millis(&mut fields)?;
    let end = fields.maybe_text()?.map(|word| attempt_end(&word)).transpose()?;
    let usage = fields.maybe_text()?.map(|text| from_json("an attempt's usage", &text)).transpose()?;
    Ok(AttemptRecord {
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
    })
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
