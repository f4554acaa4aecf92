//! Operations besides claims, heartbeats and ends: writes, cancel, close, unblock.

use crate::id::RunId;
use crate::op::{CancelAnswer, Close, CloseAnswer, UnblockAnswer, WriteAnswer};
use crate::run::{Job, Run, Status};
use crate::write::{Around, Lane, LastWrite, Write, Written};

use super::{Step, Violation, holds, must, unchanged};

/// S11 and S13: a write is for the holder, once per number, within the quota; it renews nothing.
pub(super) fn written(step: &Step<'_>, write: &Write, around: &Around, answer: WriteAnswer) -> Result<(), Violation> {
    let told = || format!("a write numbered {} was answered {answer:?}", write.number);
    let held = holds(step.before, &write.run, &write.token);
    must(held == (answer.written != Written::Refused), "S11", told)?;
    must(!answer.carry_out || answer.written == Written::Done, "S12", told)?;
    if !held {
        return unchanged(step);
    }
    let last = newest(&step.before.runs[&write.run], write.change.lane());
    if write.number <= last.number {
        let first = if write.number == last.number { last.written } else { Written::Past };
        must(answer.written == first && !answer.carry_out, "S13", told)?;
        return unchanged(step);
    }
    let after = newest(&step.after.runs[&write.run], write.change.lane());
    must(after == LastWrite { number: write.number, written: answer.written }, "S13", told)?;
    let room = around.stored <= write.quota.stored;
    let grown = step.after.stored.saturating_sub(step.before.stored);
    must(!room || around.stored + grown <= write.quota.stored, "S12", || format!("over quota: {}", told()))?;
    must(step.after.runs[&write.run].lease_end == step.before.runs[&write.run].lease_end, "S4", told)
}

fn newest(run: &Run, lane: Lane) -> LastWrite {
    run.current().map_or(LastWrite::default(), |attempt| match lane {
        Lane::Effects => attempt.last_write,
        Lane::Log => attempt.last_log,
    })
}

/// A run that nobody executes ends, a live one is told, and nothing else changes.
pub(super) fn cancelled(step: &Step<'_>, id: &RunId, answer: CancelAnswer) -> Result<(), Violation> {
    let before = step.before.runs.get(id);
    let expected = match before {
        None => CancelAnswer::None,
        Some(run) if run.status.is_final() => CancelAnswer::Ended(run.status),
        Some(run) if run.live(step.answer.now) => CancelAnswer::Told,
        Some(_) => CancelAnswer::Interrupted,
    };
    must(answer == expected, "S12", || format!("cancelling {id} was answered {answer:?}, not {expected:?}"))?;
    match answer {
        CancelAnswer::Interrupted => ended(step, id),
        CancelAnswer::Told => {
            let told = step.after.runs[id].cancelled.is_some() && step.after.runs[id].live(step.answer.now);
            must(told, "S12", || format!("the runner of {id} will not be told"))?;
            others_unchanged(step, &[id])
        }
        CancelAnswer::Ended(_) | CancelAnswer::None => unchanged(step),
    }
}

/// Only an orphan is closed.
pub(super) fn closed(step: &Step<'_>, close: &Close, answer: CloseAnswer) -> Result<(), Violation> {
    if answer != CloseAnswer::Closed {
        return unchanged(step);
    }
    let now = step.answer.now;
    let run = &step.before.runs[&close.run];
    let offered = step.before.last_offered.unwrap_or(run.due);
    let orphan = !run.live(now) && !run.status.is_final() && now > offered + close.unoffered_for;
    must(orphan, "S11", || format!("{} was closed and is no orphan", close.run))?;
    ended(step, &close.run)
}

/// Nothing of a future slot can come back to life, nothing that is marked lies in the future, and the fence stays.
pub(super) fn unblocked(step: &Step<'_>, answer: &UnblockAnswer) -> Result<(), Violation> {
    if *answer != UnblockAnswer::Unblocked {
        return unchanged(step);
    }
    let now = step.answer.now;
    let ahead = |slot: Option<crate::time::Slot>| slot.is_some_and(|slot| slot.0 > now);
    let Job { newest_started, newest_skipped, since, .. } = step.after;
    let freed = !ahead(*newest_started) && !ahead(*newest_skipped) && *since == Some(now);
    must(freed, "S8", || format!("still blocked: {newest_started:?}, {newest_skipped:?}, {since:?}"))?;
    must(step.after.last_fence == step.before.last_fence, "S8", || "the fence moved".into())?;
    let left = |(id, run): (&RunId, &Run)| ahead(id.slot()) && run.status == Status::Running;
    must(!step.after.runs.iter().any(left), "S8", || "a run of a future slot may come back".into())
}

/// The run is interrupted, and no other has changed.
fn ended(step: &Step<'_>, id: &RunId) -> Result<(), Violation> {
    let status = step.after.runs[id].status;
    must(status == Status::Interrupted, "S6", || format!("{id} is {status}"))?;
    others_unchanged(step, &[id])
}

fn others_unchanged(step: &Step<'_>, changed: &[&RunId]) -> Result<(), Violation> {
    let same = |(id, run): (&RunId, &Run)| changed.contains(&id) || step.after.runs.get(id) == Some(run);
    must(step.before.runs.iter().all(same), "S11", || "another run changed".into())
}

/// What concerns the job leaves its runs alone.
pub(super) fn no_run_changed(step: &Step<'_>) -> Result<(), Violation> {
    others_unchanged(step, &[])
}
