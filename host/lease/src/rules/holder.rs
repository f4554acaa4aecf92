//! What the holder of a token may do. Everyone else is refused and changes nothing (S11).

use crate::op::{Accepted, Finish, Heartbeat, HeartbeatAnswer, Release, Stamped};
use crate::run::{AttemptEnd, AttemptRecord, Job, Run, Status};
use crate::time::Millis;

use super::end::drop_state;
use super::stamped;
use super::write::keep;

/// Renews the lease. An expired run that nobody took over may be renewed; a released one never is.
pub fn heartbeat(job: &mut Job, now: Millis, beat: &Heartbeat) -> Stamped<HeartbeatAnswer> {
    stamped(job, now, |job| {
        // S4: ok exactly when the token is current and the run is running and not released.
        // S5: so a heartbeat sent before the release does not renew it.
        let Some(run) = job.held(&beat.run, &beat.token) else { return HeartbeatAnswer::Refused };
        let lease = current(run).terms.lease;
        let run = job.run_mut(&beat.run);
        run.lease_end = now + lease;
        if let Some(progress) = &beat.progress {
            run.progress = Some(progress.clone());
        }
        HeartbeatAnswer::Renewed { lease_end: run.lease_end, cancelled: run.cancelled.is_some() }
    })
}

/// Records how the run ended. The same token and outcome again is answered as the first time (S13).
pub fn finish(job: &mut Job, now: Millis, finish: &Finish) -> Stamped<Accepted> {
    stamped(job, now, |job| {
        let end = finish.outcome.attempt_end();
        if job.held(&finish.run, &finish.token).is_none() {
            // The attempt itself must have said so: a run that the store gave up was not finished by its token.
            let said = |run: &Run| run.current().is_some_and(|a| matches!(a.ended, Some((_, how)) if how == end));
            let same = |run: &Run| run.is_current(&finish.token) && run.outcome.as_ref() == Some(&finish.outcome);
            let again = job.runs.get(&finish.run).is_some_and(|run| same(run) && said(run));
            return if again { Accepted::Done } else { Accepted::Refused };
        }
        let run = job.run_mut(&finish.run);
        // S6: one outcome per run, final.
        assert!(run.outcome.is_none(), "a running run has no outcome");
        run.status = finish.outcome.status();
        run.ended_at = Some(now);
        run.outcome = Some(finish.outcome.clone());
        let attempt = current_mut(run);
        attempt.usage = Some(finish.usage);
        attempt.ended = Some((now, end));
        drop_state(job, &finish.run);
        keep(job, &finish.run, finish.outcome.kept_size());
        Accepted::Done
    })
}

/// Hands the run over: the lease ends at once, and the attempt does not count.
pub fn release(job: &mut Job, now: Millis, release: &Release) -> Stamped<Accepted> {
    stamped(job, now, |job| {
        let Some(run) = job.runs.get(&release.run) else { return Accepted::Refused };
        // S13: one release, one hand-over, however often it is sent and whatever became of the run since. A run marked
        // released by another one's win has not been handed over yet: its holder still may.
        let handed_over = |a: &AttemptRecord| matches!(a.ended, Some((_, AttemptEnd::HandedOver)));
        if run.attempts.iter().any(|a| a.token == release.token && handed_over(a)) {
            return Accepted::Done;
        }
        if run.status != Status::Running || !run.is_current(&release.token) {
            return Accepted::Refused;
        }
        let run = job.run_mut(&release.run);
        run.released = true;
        run.lease_end = now;
        run.hand_overs += 1;
        let attempt = current_mut(run);
        attempt.usage = Some(release.usage);
        attempt.ended = Some((now, AttemptEnd::HandedOver));
        Accepted::Done
    })
}

fn current(run: &Run) -> &AttemptRecord {
    run.current().expect("a running run has an attempt")
}

fn current_mut(run: &mut Run) -> &mut AttemptRecord {
    run.attempts.last_mut().expect("a running run has an attempt")
}
