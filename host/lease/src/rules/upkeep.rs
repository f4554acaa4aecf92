//! What happens around the runs: announcing a job, asking for a run, forgetting old ones.

use crate::id::RunId;
use crate::op::{Announce, Stamped, Trigger, TriggerAnswer};
use crate::order::newest_first;
use crate::policy::CLOCK_GRACE;
use crate::run::{DEMAND_ID_KEPT, Hold, Job, Run, Status};
use crate::time::Millis;

use super::stamped;

/// A host offers the job. Answers `since`: slots before it are not caught up.
pub fn announce(job: &mut Job, now: Millis, announce: &Announce) -> Stamped<Millis> {
    stamped(job, now, |job| {
        let since = match job.since {
            // One in the future was set while the clock was ahead: until then nothing would be caught up.
            Some(since) if job.fingerprint == announce.fingerprint => since.min(now),
            _ => now,
        };
        job.since = Some(since);
        job.fingerprint.clone_from(&announce.fingerprint);
        job.last_offered = Some(now);
        if job.hold.as_ref().is_some_and(|hold| hold.is_old(now)) {
            job.hold = None;
        }
        since
    })
}

/// Holds the job back, or lets it go: then the hold ends now, and is remembered, for what was due in it does not start.
pub fn hold(job: &mut Job, now: Millis, hold: Option<&Hold>) -> Stamped<()> {
    stamped(job, now, |job| {
        let in_force = job.hold.as_ref().filter(|former| former.holds(now));
        let wanted = match (hold, in_force) {
            (Some(hold), _) => Some(hold.clone()),
            // It ends now: its slots are not caught up.
            (None, Some(former)) => Some(Hold { until: Some(now), ..former.clone() }),
            (None, None) => job.hold.clone(),
        };
        if job.hold != wanted {
            job.hold = wanted;
        }
    })
}

/// Stores an on-demand run. A repeat is answered with what became of the first (S13).
pub fn trigger(job: &mut Job, now: Millis, trigger: &Trigger) -> Stamped<TriggerAnswer> {
    stamped(job, now, |job| {
        let id = RunId::OnDemand(trigger.id.clone());
        if let Some(run) = job.runs.get(&id) {
            return TriggerAnswer::Exists(run.status);
        }
        if job.gone.contains_key(&trigger.id) {
            return TriggerAnswer::Ended;
        }
        let pending = job.runs.values().filter(|run| run.status == Status::Pending).count();
        if pending >= trigger.pending_max as usize {
            return TriggerAnswer::Full;
        }
        job.runs.insert(id, Run::new(now, trigger.payload.clone()));
        TriggerAnswer::Stored
    })
}

/// Deletes final runs that nobody can ask for any more. Answers which.
///
/// S15: a run stays while it is among the last `history_size`, [`newest_first`], or while a claim for it could still be
/// in time. So those of a clock that was ahead stay until they are due, and until then push no other out.
pub fn prune(job: &mut Job, now: Millis, history_size: u32) -> Stamped<Vec<RunId>> {
    stamped(job, now, |job| {
        let kept_for = job.largest_bound.saturating_add(CLOCK_GRACE);
        let mut finals: Vec<(&RunId, &Run)> = job.runs.iter().filter(|(_, run)| run.status.is_final()).collect();
        finals.sort_by_key(|(id, run)| (newest_first(run.due, now), *id));
        let old = |run: &Run| now > run.due + kept_for && run.ended_at.is_some_and(|at| now > at + kept_for);
        // S10: after an unblock the record alone says that a slot above the newest started one has run.
        let remembered = |id: &RunId| id.slot().is_none_or(|slot| Some(slot) <= job.newest_started);
        let doomed: Vec<RunId> = finals
            .into_iter()
            .skip(history_size as usize)
            .filter(|(id, run)| old(run) && remembered(id))
            .map(|(id, _)| id.clone())
            .collect();
        for id in &doomed {
            let run = job.runs.remove(id).expect("it was found a moment ago");
            job.stored -= run.stored();
            if let RunId::OnDemand(id) = id {
                job.gone.insert(id.clone(), now);
            }
        }
        if job.gone.values().any(|at| now > *at + DEMAND_ID_KEPT) {
            job.gone.retain(|_, at| now <= *at + DEMAND_ID_KEPT);
        }
        doomed
    })
}
