//! The store: one job's record, the rules, and the judge of the store's invariants.

use leasehold_lease::agent::Seen;
use leasehold_lease::check::{History, Step, Violation};
use leasehold_lease::id::{RunId, Token};
use leasehold_lease::op::{Answer, Op, Stamped};
use leasehold_lease::policy::Overlap;
use leasehold_lease::rules;
use leasehold_lease::run::{Job, Standing, Status};
use leasehold_lease::time::Millis;

use crate::Ms;

/// See the module.
pub(crate) struct Store {
    pub(crate) job: Job,
    /// How far its clock is ahead of the simulation's.
    pub(crate) ahead: Ms,
    history: History,
}

impl Store {
    pub(crate) fn new(overlap: Overlap) -> Store {
        Store { job: Job::default(), ahead: 0, history: History::new(overlap == Overlap::Skip) }
    }

    pub(crate) fn clock(&self, now: Ms) -> Millis {
        Millis(now + self.ahead)
    }

    /// Carries an operation out, and judges what it did.
    pub(crate) fn apply(&mut self, now: Ms, op: &Op) -> Result<Stamped<Answer>, Violation> {
        let before = self.job.clone();
        let clock = self.clock(now);
        let answer = rules::apply(&mut self.job, clock, op);
        self.history.judge(&Step { before: &before, op, answer: &answer, after: &self.job })?;
        Ok(answer)
    }

    /// What a check of this run shows.
    pub(crate) fn look(&self, now: Ms, run: &RunId) -> Seen {
        Seen {
            run: self.job.runs.get(run).map(Standing::from),
            store_now: self.clock(now),
            newest_started: self.job.newest_started,
            newest_skipped: self.job.newest_skipped,
        }
    }

    pub(crate) fn unfinished(&self) -> Vec<RunId> {
        self.job.runs.iter().filter(|(_, run)| !run.status.is_final()).map(|(id, _)| id.clone()).collect()
    }

    /// Whether this token may still change its run.
    pub(crate) fn holds(&self, run: &RunId, token: &Token) -> bool {
        let held =
            |run: &leasehold_lease::run::Run| run.status == Status::Running && !run.released && run.is_current(token);
        self.job.runs.get(run).is_some_and(held)
    }
}
