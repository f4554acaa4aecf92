//! The store: one job's record, the rules, and the judge of the store's invariants.

use std::collections::BTreeMap;

use leasehold_lease::agent::Seen;
use leasehold_lease::check::{History, Step, Violation};
use leasehold_lease::id::{RunId, Token};
use leasehold_lease::op::{Answer, Op, Stamped};
use leasehold_lease::policy::Overlap;
use leasehold_lease::rules;
use leasehold_lease::run::{Job, Run, Standing, Status};
use leasehold_lease::time::Millis;

use crate::Ms;

/// See the module.
pub(crate) struct Store {
    /// With its unfinished runs alone: an operation needs these and the run that it names.
    pub(crate) job: Job,
    /// Its final runs.
    past: BTreeMap<RunId, Run>,
    /// How far its clock is ahead of the simulation's.
    pub(crate) ahead: Ms,
    history: History,
}

impl Store {
    pub(crate) fn new(overlap: Overlap) -> Store {
        Store { job: Job::default(), past: BTreeMap::new(), ahead: 0, history: History::new(overlap == Overlap::Skip) }
    }

    pub(crate) fn clock(&self, now: Ms) -> Millis {
        Millis(now + self.ahead)
    }

    /// Carries an operation out, and judges what it did.
    pub(crate) fn apply(&mut self, now: Ms, op: &Op) -> Result<Stamped<Answer>, Violation> {
        self.load(op);
        let before = self.job.clone();
        let clock = self.clock(now);
        let answer = rules::apply(&mut self.job, clock, op);
        self.history.judge(&Step { before: &before, op, answer: &answer, after: &self.job })?;
        self.past.extend(self.job.runs.extract_if(.., |_, run| run.status.is_final()));
        Ok(answer)
    }

    /// Puts what the operation can touch into the job.
    fn load(&mut self, op: &Op) {
        let named = match op {
            Op::Claim(op) => &op.run,
            Op::Heartbeat(op) => &op.run,
            Op::Finish(op) => &op.run,
            Op::Release(op) => &op.run,
            Op::Write { write, .. } => &write.run,
            Op::Cancel(op) => &op.run,
            Op::Close(op) => &op.run,
            Op::Trigger(op) => &RunId::OnDemand(op.id.clone()),
            Op::Announce(_) | Op::Hold(_) => return,
            Op::Prune { .. } | Op::Unblock(_) => return self.job.runs.append(&mut self.past),
        };
        self.job.runs.extend(self.past.remove_entry(named));
    }

    /// The job with all its runs.
    pub(crate) fn whole(mut self) -> Job {
        self.job.runs.append(&mut self.past);
        self.job
    }

    /// What a check of these runs shows.
    pub(crate) fn look(&self, now: Ms, runs: Vec<RunId>) -> Seen {
        let look = |run: RunId| {
            let standing = self.job.runs.get(&run).or_else(|| self.past.get(&run)).map(Standing::from);
            (run, standing)
        };
        Seen {
            runs: runs.into_iter().map(look).collect(),
            store_now: self.clock(now),
            newest_started: self.job.newest_started,
            newest_skipped: self.job.newest_skipped,
        }
    }

    pub(crate) fn unfinished(&self) -> Vec<RunId> {
        self.job.runs.keys().cloned().collect()
    }

    /// When a run was due, as the record has it.
    pub(crate) fn due(&self, run: &RunId) -> Option<Millis> {
        self.job.runs.get(run).map(|run| run.due)
    }

    /// Whether this token may still change its run.
    pub(crate) fn holds(&self, run: &RunId, token: &Token) -> bool {
        let held = |run: &Run| run.status == Status::Running && !run.released && run.is_current(token);
        self.job.runs.get(run).is_some_and(held)
    }
}
