//! The executable specification: what the store answers and how the record changes.
//!
//! Each function takes one job, the store's clock and an operation. Store drivers either call these functions on a
//! loaded job or do the same in SQL or Lua, and are held to them by tests. S14: a rule sees one job only.

mod claim;
mod end;
mod holder;
mod upkeep;
mod write;

use std::ops::{Deref, DerefMut};

use crate::id::{RunId, Token};
use crate::op::{Answer, Op, Stamped};
use crate::run::{Job, Run, Status};
use crate::time::Millis;

pub use claim::claim;
pub use end::{cancel, close, unblock};
pub use holder::{finish, heartbeat, release};
pub use upkeep::{announce, hold, prune, trigger};
pub use write::{growth, write};

/// Carries out any operation. The typed functions beside it are what drivers call.
pub fn apply(job: &mut Job, now: Millis, op: &Op) -> Stamped<Answer> {
    match op {
        Op::Claim(op) => claim(job, now, op).map(Answer::Claim),
        Op::Heartbeat(op) => heartbeat(job, now, op).map(Answer::Heartbeat),
        Op::Finish(op) => finish(job, now, op).map(Answer::Accepted),
        Op::Release(op) => release(job, now, op).map(Answer::Accepted),
        Op::Write { write: op, around } => write(job, now, op, around).map(Answer::Write),
        Op::Trigger(op) => trigger(job, now, op).map(Answer::Trigger),
        Op::Prune { history_size } => prune(job, now, *history_size).map(Answer::Pruned),
        Op::Announce(op) => announce(job, now, op).map(|since| Answer::Announced {
            since,
            newest_started: job.newest_started,
            newest_skipped: job.newest_skipped,
            hold: job.hold.clone(),
        }),
        Op::Cancel(op) => cancel(job, now, op).map(Answer::Cancel),
        Op::Close(op) => close(job, now, op).map(Answer::Close),
        Op::Unblock(op) => unblock(job, now, op).map(Answer::Unblock),
        Op::Hold(op) => hold(job, now, op.as_ref()).map(|()| Answer::Hold),
    }
}

impl<A> Stamped<A> {
    /// The same stamp on another form of the answer.
    pub fn map<B>(self, f: impl FnOnce(A) -> B) -> Stamped<B> {
        Stamped { now: self.now, revision: self.revision, answer: f(self.answer) }
    }
}

/// Runs one rule and bumps the revision once if the rule touched the job for writing.
fn stamped<A>(job: &mut Job, now: Millis, rule: impl FnOnce(&mut Edit<'_>) -> A) -> Stamped<A> {
    let mut edit = Edit { job, changed: false };
    let answer = rule(&mut edit);
    let changed = edit.changed;
    if changed {
        job.revision += 1;
    }
    Stamped { now, revision: job.revision, answer }
}

/// A job that notices when it is touched for writing. Rules read first and touch only what they change.
struct Edit<'a> {
    job: &'a mut Job,
    changed: bool,
}

impl Edit<'_> {
    /// The run, if this token may change it: current, running, not released.
    fn held(&self, id: &RunId, token: &Token) -> Option<&Run> {
        let run = self.runs.get(id)?;
        (run.status == Status::Running && !run.released && run.is_current(token)).then_some(run)
    }

    /// A run that is known to exist, for writing.
    fn run_mut(&mut self, id: &RunId) -> &mut Run {
        self.runs.get_mut(id).expect("the rule has found the run before it writes")
    }
}

impl Deref for Edit<'_> {
    type Target = Job;
    fn deref(&self) -> &Job {
        self.job
    }
}

impl DerefMut for Edit<'_> {
    fn deref_mut(&mut self) -> &mut Job {
        self.changed = true;
        self.job
    }
}

#[cfg(test)]
mod tests;
