//! What takes several requests: announcing many jobs, and forgetting many runs.

use leasehold_lease::id::JobKey;
use leasehold_lease::op::{Announce, Stamped};

use super::answer;
use super::ask;
use super::lane::{Lane, deadline, has_time};
use crate::error::StoreError;
use crate::view::{AnnounceAnswer, Each};

/// Announces jobs. A job whose record cannot be read is told in its place. Where the server did not answer for one, the
/// whole is to be sent again: that error is answered, and repeating does no harm.
pub(super) async fn announce(
    lane: &Lane,
    jobs: &[(JobKey, Announce)],
) -> Result<Vec<Each<AnnounceAnswer>>, StoreError> {
    let doing = "announcing jobs";
    let deadline = deadline();
    let mut asked = Vec::with_capacity(jobs.len());
    for (job, announce) in jobs {
        // Entered one after the other, so that those of one job keep their order; answered when all are under way.
        asked.push(lane.enter_request(ask::announce(job, announce), deadline).await);
    }
    let mut answers = Vec::with_capacity(jobs.len());
    for asked in asked {
        answers.push(match lane.row(doing, asked.answer().await) {
            // It is the job's record that cannot be read, now and the next time.
            Ok(row) => answer::stamped(&row, answer::announced).map_err(|error| lane.unreadable(doing, error)),
            Err(error @ StoreError::Rejected { .. }) => Err(error),
            Err(error) => return Err(error),
        });
    }
    Ok(answers)
}

/// Forgets what may be forgotten of a job, in as many requests as it takes: each deletes so much that it ends in time,
/// is a change of its own, and has a revision (S12). Answers how many runs that was, and the stamp of the last request.
///
/// Where time runs out, or a later request fails, it answers what was done until then: the next prune goes on.
pub(super) async fn prune(lane: &Lane, job: &JobKey, history_size: u32) -> Result<Stamped<usize>, StoreError> {
    let doing = "pruning old runs";
    let deadline = deadline();
    let mut last: Option<Stamped<usize>> = None;
    loop {
        let asked = lane.enter_request(ask::prune(job, history_size), deadline).await;
        let pruned = lane
            .row(doing, asked.answer().await)
            .and_then(|row| answer::stamped(&row, answer::pruned).map_err(|error| lane.done_or_not(doing, error)));
        let pruned = match (pruned, &last) {
            (Ok(pruned), _) => pruned,
            (Err(error), None) => return Err(error),
            (Err(error), Some(last)) => {
                let error = &error as &dyn std::error::Error;
                tracing::info!(%job, pruned = last.answer, error, "pruning stopped half-way; the next goes on");
                return Ok(last.clone());
            }
        };
        let so_far = last.map_or(0, |last| last.answer);
        let stamped = Stamped { now: pruned.now, revision: pruned.revision, answer: so_far + pruned.answer.runs };
        if !pruned.answer.is_more || !has_time(deadline) {
            return Ok(stamped);
        }
        last = Some(stamped);
    }
}
