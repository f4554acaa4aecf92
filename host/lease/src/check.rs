//! The store's invariants as functions over what was asked, what was answered and how the record changed.
//!
//! [`History`] is fed with every operation on one job, in the order of its revisions, and names the first invariant
//! that does not hold. It knows the contract and nothing of how [`crate::rules`] keep it, so it judges any store.

use std::collections::BTreeSet;

use crate::id::{Attempt, Fence, RunId, Token};
use crate::op::{Accepted, Answer, Claim, ClaimAnswer, ClaimKind, HeartbeatAnswer, Op, Stamped, UnblockAnswer};
use crate::policy::CLOCK_GRACE;
use crate::run::{AttemptEnd, Job, Run, Status};
use crate::time::{Millis, Slot};

mod aside;

/// An invariant that did not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{invariant} is broken: {what}")]
pub struct Violation {
    /// Its name in the contract.
    pub invariant: &'static str,
    /// What was found.
    pub what: String,
}

/// One operation on a job.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// The job before.
    pub before: &'a Job,
    /// What was asked.
    pub op: &'a Op,
    /// What was answered.
    pub answer: &'a Stamped<Answer>,
    /// The job after.
    pub after: &'a Job,
}

/// What has to be remembered of a job's past to judge its next step.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct History {
    /// Every claim so far had overlap = skip, so S7 is promised.
    pub always_skip: bool,
    /// Slots that ever won.
    started: BTreeSet<Slot>,
    /// The last win of a scheduled run.
    last_scheduled: Option<(Slot, Attempt)>,
}

/// Fails with this invariant and these words unless the condition holds.
fn must(holds: bool, invariant: &'static str, what: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { invariant, what: what() }) }
}

impl History {
    /// The history of a job that nothing has happened to. `always_skip`: all its claims will have overlap = skip.
    pub fn new(always_skip: bool) -> History {
        History { always_skip, ..History::default() }
    }

    /// Judges one step.
    ///
    /// # Errors
    ///
    /// The first invariant that does not hold.
    pub fn judge(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        revision(step)?;
        let stored = step.after.runs.values().map(Run::stored).sum();
        must(step.after.stored == stored, "S12", || format!("{} bytes are counted, {stored} kept", step.after.stored))?;
        for (id, run) in &step.after.runs {
            record(id, run)?;
            if let Some(before) = step.before.runs.get(id) {
                progress(id, before, run)?;
            }
        }
        self.at_most_one(step)?;
        if step.after.newest_started != step.before.newest_started {
            let scheduled = new_win(step).is_some_and(|(claim, ..)| claim.run.slot() == step.after.newest_started);
            must(scheduled || matches!(step.op, Op::Unblock(_)), "S8", || {
                format!("newest started moved to {:?}", step.after.newest_started)
            })?;
        }
        match (step.op, &step.answer.answer) {
            (Op::Claim(claim), Answer::Claim(answer)) => self.claim(step, claim, answer),
            (Op::Heartbeat(beat), Answer::Heartbeat(answer)) => heartbeat(step, &beat.run, &beat.token, *answer),
            (Op::Finish(op), Answer::Accepted(answer)) => ended(step, &op.run, &op.token, *answer, false),
            (Op::Release(op), Answer::Accepted(answer)) => ended(step, &op.run, &op.token, *answer, true),
            (Op::Write { write, around }, Answer::Write(answer)) => aside::written(step, write, around, *answer),
            (Op::Cancel(op), Answer::Cancel(answer)) => aside::cancelled(step, &op.run, *answer),
            (Op::Close(op), Answer::Close(answer)) => aside::closed(step, op, *answer),
            (Op::Unblock(_), Answer::Unblock(answer)) => {
                if *answer == UnblockAnswer::Unblocked {
                    self.last_scheduled = None;
                    // S10 is kept by the newest started slot and by the records. What started and was pruned while the
                    // clock was wrong may start again when it is truly due: whoever unblocks has decided so.
                    let kept = |slot: &Slot| {
                        Some(*slot) <= step.after.newest_started || step.after.runs.contains_key(&RunId::Slot(*slot))
                    };
                    self.started.retain(kept);
                }
                aside::unblocked(step, answer)
            }
            (Op::Hold(_), Answer::Hold)
            | (Op::Announce(_), Answer::Announced { .. })
            | (Op::Trigger(_), Answer::Trigger(_)) => aside::no_run_changed(step),
            (Op::Prune { .. }, Answer::Pruned(pruned)) => pruned.iter().try_for_each(|id| forgotten(step, id)),
            (op, answer) => must(false, "S12", || format!("{op:?} was answered {answer:?}")),
        }
    }

    /// S7: under skip at most one run can be live, whatever the clock does next.
    fn at_most_one(&self, step: &Step<'_>) -> Result<(), Violation> {
        let may_live = |run: &&Run| run.status == Status::Running && !run.released;
        let count = step.after.runs.values().filter(may_live).count();
        must(!self.always_skip || count <= 1, "S7", || format!("{count} runs may be live"))
    }

    fn claim(&mut self, step: &Step<'_>, claim: &Claim, answer: &ClaimAnswer) -> Result<(), Violation> {
        let now = step.answer.now;
        match answer {
            ClaimAnswer::Stale | ClaimAnswer::Old => return unchanged(step),
            ClaimAnswer::Won { attempt, fence, .. } => match new_win(step) {
                Some(_) => self.win(step, claim, *attempt, *fence)?,
                None => resent(step, claim, *attempt, *fence)?,
            },
            _ => refused(step, claim, answer)?,
        }
        let ahead = |run: &Run| run.live(now) && run.current().is_some_and(|a| run.lease_end > now + a.terms.lease);
        must(!step.after.runs.values().any(ahead), "S11", || "a lease lies further ahead than it was given for".into())
    }

    fn win(&mut self, step: &Step<'_>, claim: &Claim, attempt: Attempt, fence: Fence) -> Result<(), Violation> {
        let now = step.answer.now;
        must(now <= claim.not_after, "S11", || "a claim past its not_after won".into())?;
        let before = step.before.runs.get(&claim.run);
        let former = before.map_or(Attempt(0), Run::attempt);
        must(attempt.0 == former.0 + 1, "S1", || format!("attempt {attempt} follows {former}"))?;
        must(before.is_none_or(|run| !run.live(now)), "S2", || format!("{} was live and won", claim.run))?;
        must(before.is_none_or(|run| !run.status.is_final()), "S6", || format!("{} had ended and won", claim.run))?;
        must(fence > step.before.last_fence, "S8", || format!("{fence:?} after {:?}", step.before.last_fence))?;
        let run = &step.after.runs[&claim.run];
        let given = run.lease_end == now + claim.terms.lease && run.is_current(&claim.token) && run.live(now);
        must(given, "S1", || format!("the winner does not hold {}", claim.run))?;
        must(run.attempts_used() <= claim.terms.max_attempts, "S3", || format!("{} attempts", run.attempts_used()))?;
        let Some(slot) = claim.run.slot() else { return Ok(()) };
        let this = (slot, attempt);
        must(self.last_scheduled < Some(this), "S8", || format!("{this:?} after {:?}", self.last_scheduled))?;
        self.last_scheduled = Some(this);
        let first = self.started.insert(slot);
        must(first == (attempt == Attempt(1)), "S10", || format!("{slot} won attempt {attempt}, first: {first}"))?;
        if attempt == Attempt(1) {
            in_time(slot, now, claim)?;
            let held = step.before.hold.as_ref().filter(|hold| hold.holds(now) || hold.covers(slot));
            must(held.is_none(), "held", || format!("{slot} started under {held:?}"))?;
        }
        let outrun = |(id, run): (&RunId, &Run)| id.slot().is_some_and(|older| older < slot) && run.expired(now);
        must(!step.after.runs.iter().any(outrun), "S8", || "an older expired run was not interrupted".into())
    }
}

/// S9: neither late nor early by its bounds.
fn in_time(slot: Slot, now: Millis, claim: &Claim) -> Result<(), Violation> {
    let bound = match claim.kind {
        ClaimKind::CatchUp { age } => claim.terms.catch_up.min(age.saturating_add(claim.terms.max_late)),
        _ => claim.terms.max_late,
    };
    let in_time = now <= slot.0 + bound + CLOCK_GRACE && slot.0 <= now + CLOCK_GRACE;
    must(in_time, "S9", || format!("{slot} was won at {now}"))
}

/// The claim that won a new attempt in this step.
fn new_win<'a>(step: &Step<'a>) -> Option<(&'a Claim, Attempt)> {
    let (Op::Claim(claim), Answer::Claim(ClaimAnswer::Won { attempt, .. })) = (step.op, &step.answer.answer) else {
        return None;
    };
    let former = step.before.runs.get(&claim.run).map_or(Attempt(0), Run::attempt);
    (former != *attempt).then_some((claim, *attempt))
}

/// S13: a claim that was won before is answered the same attempt and fence, and starts nothing.
fn resent(step: &Step<'_>, claim: &Claim, attempt: Attempt, fence: Fence) -> Result<(), Violation> {
    let run = &step.before.runs[&claim.run];
    let current = run.current().is_some_and(|a| a.attempt == attempt && a.fence == fence && a.token == claim.token);
    must(current && run.live(step.answer.now), "S13", || format!("{} was answered another win", claim.run))?;
    must(with_leases_of(step.before, step.after) == *step.after, "S13", || "a repeated claim changed the job".into())
}

/// S11: what a refused claim may change.
fn refused(step: &Step<'_>, claim: &Claim, answer: &ClaimAnswer) -> Result<(), Violation> {
    let mut expected = with_leases_of(step.before, step.after);
    if matches!(answer, ClaimAnswer::Ended(Status::Interrupted)) {
        // A run found exhausted, outrun, or cancelled when its runner had died. Its checkpoint goes with it.
        let was = step.before.runs.get(&claim.run).is_some_and(|run| !run.live(step.answer.now));
        must(was, "S11", || format!("{} was live and interrupted", claim.run))?;
        expected.runs.insert(claim.run.clone(), step.after.runs[&claim.run].clone());
        expected.stored = step.after.stored;
    }
    if let ClaimAnswer::Overlap { with } = answer {
        must(step.after.runs[with].live(step.answer.now), "S12", || format!("{with} is not live"))?;
    }
    if let (ClaimAnswer::Overlap { .. } | ClaimAnswer::Held { .. }, Some(slot)) = (answer, claim.run.slot())
        && !step.before.runs.contains_key(&claim.run)
    {
        expected.newest_skipped = expected.newest_skipped.max(Some(slot));
    }
    expected.revision = step.before.revision;
    must(expected == Job { revision: expected.revision, ..step.after.clone() }, "S11", || {
        format!("{answer:?} changed the job")
    })
}

/// The job before with the lease ends and the revision of the job after: a lease too far ahead may have been cut.
fn with_leases_of(before: &Job, after: &Job) -> Job {
    let mut job = Job { revision: before.revision, ..before.clone() };
    for (id, run) in &mut job.runs {
        if let Some(after) = after.runs.get(id)
            && after.lease_end < run.lease_end
        {
            run.lease_end = after.lease_end;
        }
    }
    job.revision = if job == *before { before.revision } else { after.revision };
    job
}

/// S4: ok exactly when the token is current and the run running and not released.
fn heartbeat(step: &Step<'_>, id: &RunId, token: &Token, answer: HeartbeatAnswer) -> Result<(), Violation> {
    let held = holds(step.before, id, token);
    let HeartbeatAnswer::Renewed { lease_end, cancelled } = answer else {
        must(!held, "S4", || format!("the holder of {id} was refused"))?;
        return unchanged(step);
    };
    let run = &step.after.runs[id];
    let lease = run.current().map(|a| a.terms.lease);
    let exact = lease.is_some_and(|lease| lease_end == step.answer.now + lease) && run.lease_end == lease_end;
    must(cancelled == run.cancelled.is_some(), "S12", || format!("{id}: cancelled {cancelled}"))?;
    must(held && exact, "S4", || format!("{id} was renewed to {lease_end}"))
}

/// S6: a first finish or release that is ok had the current token of a running run. A repeated one changes nothing.
fn ended(step: &Step<'_>, id: &RunId, token: &Token, answer: Accepted, release: bool) -> Result<(), Violation> {
    if step.after == step.before {
        let run = step.before.runs.get(id);
        let known = run.is_some_and(|run| run.attempts.iter().any(|a| a.token == *token && a.ended.is_some()));
        return must(answer == Accepted::Refused || known, "S6", || format!("{id}: ok without effect"));
    }
    must(answer == Accepted::Done, "S11", || format!("{id}: a refusal changed the job"))?;
    let run = &step.before.runs[id];
    let entitled = run.status == Status::Running && run.is_current(token) && (release || !run.released);
    must(entitled, "S6", || format!("{id} was ended by who did not hold it"))?;
    let after = &step.after.runs[id];
    let ended = after.current().and_then(|a| a.ended).map(|(_, how)| how);
    let as_asked = (ended == Some(AttemptEnd::HandedOver)) == release && after.released == release;
    must(as_asked && after.status.is_final() != release, "S6", || format!("{id} ended as {ended:?}"))
}

/// S15: a final run goes only when no claim for it can be in time, and its bound has passed since its end.
fn forgotten(step: &Step<'_>, id: &RunId) -> Result<(), Violation> {
    let run = &step.before.runs[id];
    let kept = |since: Millis| step.answer.now <= since + step.before.largest_bound + CLOCK_GRACE;
    let old = run.status.is_final() && !kept(run.due) && !run.ended_at.is_none_or(kept);
    must(old, "S15", || format!("{id} was forgotten at {}", step.answer.now))
}

/// Whether this token may change the run.
fn holds(job: &Job, id: &RunId, token: &Token) -> bool {
    job.runs.get(id).is_some_and(|run| run.status == Status::Running && !run.released && run.is_current(token))
}

/// The revision grows by one with a change, and only with one.
fn revision(step: &Step<'_>) -> Result<(), Violation> {
    let grown = step.before.revision + u64::from(step.after != step.before);
    let told = step.answer.revision == step.after.revision && step.after.revision == grown;
    must(told, "S12", || format!("revision {} became {}", step.before.revision, step.after.revision))
}

fn unchanged(step: &Step<'_>) -> Result<(), Violation> {
    must(step.after == step.before, "S11", || format!("{:?} changed the job", step.answer.answer))
}

/// What holds of every record: S1 and S3.
fn record(id: &RunId, run: &Run) -> Result<(), Violation> {
    let consecutive = run.attempts.windows(2).all(|two| two[1].attempt.0 == two[0].attempt.0 + 1);
    must(consecutive && run.attempt().0 == run.starts, "S1", || format!("attempts of {id} have gaps"))?;
    must(run.hand_overs <= run.starts, "S3", || format!("{id}: more hand-overs than starts"))?;
    let told = run.status.is_final() == run.outcome.is_some() && run.status.is_final() == run.ended_at.is_some();
    must(told, "S6", || format!("{id}: status {} and outcome {:?}", run.status, run.outcome))?;
    must(!run.status.is_final() || run.state_size.is_none(), "S15", || format!("{id} has ended and has a checkpoint"))
}

/// What holds between two records of a run: S5 and S6.
fn progress(id: &RunId, before: &Run, after: &Run) -> Result<(), Violation> {
    let same_attempt = before.attempt() == after.attempt();
    let revived = before.released && same_attempt && !after.released;
    must(!revived, "S5", || format!("{id}: a released attempt is released no more"))?;
    must(!before.status.is_final() || before == after, "S6", || format!("{id} changed after its end"))
}

#[cfg(test)]
mod tests;
