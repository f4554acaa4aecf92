//! Who may start a run.

use crate::id::{Attempt, Fence, RunId};
use crate::op::{Claim, ClaimAnswer, ClaimKind, Stamped};
use crate::order::is_ahead;
use crate::policy::{CLOCK_GRACE, Overlap};
use crate::run::{ATTEMPTS_KEPT, AttemptEnd, AttemptRecord, Hold, Job, Run, Status};
use crate::time::{Millis, Slot};
use crate::write::LastWrite;

use super::end::interrupt;
use super::{Edit, stamped};

/// A request to start a run, answered atomically.
pub fn claim(job: &mut Job, now: Millis, claim: &Claim) -> Stamped<ClaimAnswer> {
    stamped(job, now, |job| {
        // A copy that its sender no longer waits for must not win with nobody listening.
        if now > claim.not_after {
            return ClaimAnswer::Old;
        }
        if let Some(answer) = by_token(job, now, claim) {
            return answer;
        }
        cut_back(job, now);
        if job.runs.contains_key(&claim.run) { existing(job, now, claim) } else { fresh(job, now, claim) }
    })
}

/// A claim that was sent before: the token tells what became of it.
fn by_token(job: &mut Edit<'_>, now: Millis, claim: &Claim) -> Option<ClaimAnswer> {
    let run = job.runs.get(&claim.run)?;
    let known = run.attempts.iter().find(|a| a.token == claim.token)?;
    // S11: a stale token changes nothing.
    if !run.is_current(&claim.token) || !run.live(now) {
        return Some(ClaimAnswer::Stale);
    }
    // S13: a claim whose answer was lost gets the same attempt and fence.
    let won = ClaimAnswer::Won { attempt: known.attempt, fence: known.fence, payload: run.payload.clone() };
    cut_back(job, now);
    Some(won)
}

/// Cuts every live lease that lies further ahead than it was given for: the store's clock was set back.
fn cut_back(job: &mut Edit<'_>, now: Millis) {
    let too_far = |run: &Run| run.live(now) && run.current().is_some_and(|a| run.lease_end > now + a.terms.lease);
    let ids: Vec<RunId> = job.runs.iter().filter(|(_, run)| too_far(run)).map(|(id, _)| id.clone()).collect();
    for id in ids {
        let run = job.run_mut(&id);
        let lease = run.current().expect("a live run has an attempt").terms.lease;
        run.lease_end = now + lease;
    }
}

/// A claim of a run that the store knows.
fn existing(job: &mut Edit<'_>, now: Millis, claim: &Claim) -> ClaimAnswer {
    let run = &job.runs[&claim.run];
    if run.status.is_final() {
        return ClaimAnswer::Ended(run.status);
    }
    if run.live(now) {
        return ClaimAnswer::Running { attempt: run.attempt(), lease_end: run.lease_end };
    }
    if run.expired(now)
        && let Some(reason) = run.cancelled.clone()
    {
        // Its runner died before it could end it.
        interrupt(job, now, &claim.run, &reason);
        return ClaimAnswer::Ended(Status::Interrupted);
    }
    let outrun = claim.run.slot().is_some_and(|slot| job.newest_started.is_some_and(|newest| newest > slot));
    if run.expired(now) && outrun {
        interrupt(job, now, &claim.run, "a newer slot has started");
        return ClaimAnswer::Ended(Status::Interrupted);
    }
    if run.expired(now) && run.attempts_used() >= claim.terms.max_attempts {
        let reason = format!("its {} attempts are used up", run.attempts_used());
        interrupt(job, now, &claim.run, &reason);
        return ClaimAnswer::Ended(Status::Interrupted);
    }
    if let Some(with) = overlap(job, now, claim) {
        return ClaimAnswer::Overlap { with };
    }
    win(job, now, claim)
}

/// A claim of a run that the store does not know.
fn fresh(job: &mut Edit<'_>, now: Millis, claim: &Claim) -> ClaimAnswer {
    let none = ClaimAnswer::None { newest_started: job.newest_started };
    // Only trigger creates an on-demand run, only a slot's own claim or a catch-up a scheduled one.
    let Some(slot) = claim.run.slot() else { return none };
    let Some(bound) = claim.kind.bound(&claim.terms) else { return none };
    // S9: a scheduled run's first win is neither late nor early.
    if now > slot.0 + bound + CLOCK_GRACE {
        return ClaimAnswer::Late;
    }
    if is_ahead(slot.0, now) {
        return ClaimAnswer::Early;
    }
    if superseded(job, slot, claim.kind) {
        return ClaimAnswer::Superseded { newest_started: job.newest_started };
    }
    // However late it is asked for: what was due while the job was held back does not start when it is let go.
    let is_held = |hold: &&Hold| hold.holds(now) || hold.covers(slot);
    if let Some(hold) = job.hold.as_ref().filter(is_held) {
        let until = hold.until;
        skip(job, slot);
        return ClaimAnswer::Held { until };
    }
    if let Some(with) = overlap(job, now, claim) {
        skip(job, slot);
        return ClaimAnswer::Overlap { with };
    }
    win(job, now, claim)
}

/// Remembers that the slot was skipped, so that it is not caught up.
fn skip(job: &mut Edit<'_>, slot: Slot) {
    if job.newest_skipped < Some(slot) {
        job.newest_skipped = Some(slot);
    }
}

/// S10: a slot that ever won is never won as attempt 1 again, whatever was pruned.
fn superseded(job: &Job, slot: Slot, kind: ClaimKind) -> bool {
    let by_start = Some(slot) <= job.newest_started;
    let by_catch_up = || Some(slot) <= job.newest_skipped || job.since.is_none_or(|since| slot.0 < since);
    by_start || (matches!(kind, ClaimKind::CatchUp { .. }) && by_catch_up())
}

/// S7: under skip, the newest live run that stands in the way.
fn overlap(job: &Job, now: Millis, claim: &Claim) -> Option<RunId> {
    match claim.terms.overlap {
        Overlap::Allow => None,
        Overlap::Skip => job.newest_live(now, Some(&claim.run)).cloned(),
    }
}

/// Starts the next attempt and settles what was expired, in one revision.
fn win(job: &mut Edit<'_>, now: Millis, claim: &Claim) -> ClaimAnswer {
    let due = claim.run.slot().map_or(now, |slot| slot.0);
    settle_others(job, now, claim);
    let last_fence = job.last_fence;
    let run = job.runs.entry(claim.run.clone()).or_insert_with(|| Run::new(due, None));
    // S2: no win over another token's live lease.
    assert!(!run.live(now), "a live run cannot be won");
    if let Some(former) = run.attempts.last_mut() {
        former.ended.get_or_insert((now, AttemptEnd::Lost));
    }
    // S1: attempts are 1, 2, 3 ... without gaps.
    let attempt = Attempt(run.attempt().0 + 1);
    let fence = Fence::after(last_fence, run.due, attempt);
    run.status = Status::Running;
    run.lease_end = now + claim.terms.lease;
    run.released = false;
    run.starts += 1;
    run.progress = None;
    run.attempts.push(started(now, claim, attempt, fence));
    if run.attempts.len() > ATTEMPTS_KEPT {
        run.attempts.remove(0);
    }
    let payload = run.payload.clone();
    job.last_fence = fence;
    job.largest_bound = job.largest_bound.max(claim.terms.bound());
    if let Some(slot) = claim.run.slot() {
        job.newest_started = job.newest_started.max(Some(slot));
    }
    ClaimAnswer::Won { attempt, fence, payload }
}

fn started(now: Millis, claim: &Claim, attempt: Attempt, fence: Fence) -> AttemptRecord {
    AttemptRecord {
        attempt,
        token: claim.token,
        fence,
        runner: claim.runner.clone(),
        terms: claim.terms.clone(),
        digest: claim.digest,
        started_at: now,
        ended: None,
        last_write: LastWrite::default(),
        last_log: LastWrite::default(),
        usage: None,
    }
}

/// What was expired when another run started cannot come back to life: a scheduled win makes every older expired
/// scheduled run interrupted (S8), and under skip every other expired run is released, no hand-over counted (S7).
fn settle_others(job: &mut Edit<'_>, now: Millis, claim: &Claim) {
    let others: Vec<RunId> =
        job.runs.iter().filter(|(id, run)| **id != claim.run && run.expired(now)).map(|(id, _)| id.clone()).collect();
    for id in others {
        let outrun = matches!((id.slot(), claim.run.slot()), (Some(older), Some(won)) if older < won);
        if outrun {
            interrupt(job, now, &id, "a newer slot started first");
        } else if claim.terms.overlap == Overlap::Skip && !job.runs[&id].released {
            job.run_mut(&id).released = true;
        }
    }
}
