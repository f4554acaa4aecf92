//! How runs end without their runner: given up, cancelled, closed as orphans, freed from a clock that was wrong.

use crate::id::RunId;
use crate::op::{Cancel, CancelAnswer, Close, CloseAnswer, Stamped, Unblock, UnblockAnswer};
use crate::run::{AttemptEnd, Job, Outcome, Status};
use crate::time::Millis;

use super::{Edit, stamped};

/// A run that nobody executes is interrupted at once; a live one's runner is told with its next heartbeat. When that
/// runner dies before it has ended the run, the next claim finds it cancelled.
pub fn cancel(job: &mut Job, now: Millis, cancel: &Cancel) -> Stamped<CancelAnswer> {
    stamped(job, now, |job| {
        let Some(run) = job.runs.get(&cancel.run) else { return CancelAnswer::None };
        if run.status.is_final() {
            return CancelAnswer::Ended(run.status);
        }
        if !run.live(now) {
            interrupt(job, now, &cancel.run, &cancel.reason);
            return CancelAnswer::Interrupted;
        }
        // The first reason stays.
        if run.cancelled.is_none() {
            job.run_mut(&cancel.run).cancelled = Some(cancel.reason.clone());
        }
        CancelAnswer::Told
    })
}

/// Gives up an orphan: a run that nobody executes, of a job that no host has offered for long.
pub fn close(job: &mut Job, now: Millis, close: &Close) -> Stamped<CloseAnswer> {
    stamped(job, now, |job| {
        let Some(run) = job.runs.get(&close.run) else { return CloseAnswer::None };
        if run.status.is_final() {
            return CloseAnswer::Ended(run.status);
        }
        if run.live(now) {
            return CloseAnswer::Live;
        }
        // A job that no host ever offered counts from when the run was asked for.
        let offered = job.last_offered.unwrap_or(run.due);
        if now <= offered + close.unoffered_for {
            return CloseAnswer::Offered;
        }
        interrupt(job, now, &close.run, &close.reason);
        CloseAnswer::Closed
    })
}

/// Frees a job whose slots are held up by one that started in what the store's clock, since corrected, calls the
/// future. The fence never falls.
pub fn unblock(job: &mut Job, now: Millis, unblock: &Unblock) -> Stamped<UnblockAnswer> {
    stamped(job, now, |job| {
        let future = |id: &RunId| id.slot().is_some_and(|slot| slot.0 > now);
        if let Some((id, _)) = job.runs.iter().rev().find(|(id, run)| future(id) && run.live(now)) {
            return UnblockAnswer::Live { run: id.clone() };
        }
        // A caller whose clock is wrong must not block the job anew.
        let newest_due = Some(unblock.newest_due.min(crate::time::Slot(now)));
        let expired: Vec<RunId> =
            job.runs.iter().filter(|(id, run)| future(id) && run.expired(now)).map(|(id, _)| id.clone()).collect();
        let ahead = job.newest_started > newest_due || job.newest_skipped > newest_due;
        if expired.is_empty() && !ahead && job.since.is_none_or(|since| since <= now) {
            return UnblockAnswer::NotBlocked;
        }
        for id in expired {
            interrupt(job, now, &id, "its slot lay in the future, and the job was unblocked");
        }
        job.newest_started = job.newest_started.min(newest_due);
        job.newest_skipped = job.newest_skipped.min(newest_due);
        job.since = Some(now);
        UnblockAnswer::Unblocked
    })
}

/// Gives a run up.
pub(super) fn interrupt(job: &mut Edit<'_>, now: Millis, id: &RunId, reason: &str) {
    let run = job.run_mut(id);
    run.status = Status::Interrupted;
    run.ended_at = Some(now);
    run.outcome = Some(Outcome::Interrupted { reason: reason.to_owned() });
    if let Some(attempt) = run.attempts.last_mut() {
        attempt.ended.get_or_insert((now, AttemptEnd::Expired));
    }
    drop_state(job, id);
}

/// S15: a run's checkpoint exists while it is pending or running.
pub(super) fn drop_state(job: &mut Edit<'_>, id: &RunId) {
    let run = job.run_mut(id);
    let before = run.stored();
    run.state_size = None;
    let freed = before - run.stored();
    job.stored -= freed;
}
