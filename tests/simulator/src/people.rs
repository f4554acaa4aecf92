//! What people do to the job: they reach the store whatever the network does to hosts.

use leasehold_lease::op::{Answer, Cancel, Op, Trigger, TriggerAnswer, Unblock};
use leasehold_lease::run::{Hold, Status};
use leasehold_lease::time::{Millis, Slot};

use crate::Ms;
use crate::world::{Event, Mail, World};

impl World {
    /// Carries out what someone asks of the store.
    pub(crate) fn ask(&mut self, op: Op) -> Option<Answer> {
        let now = self.now;
        match self.store.apply(now, &op) {
            Ok(answer) => {
                self.watch.record_changed(now, &self.store);
                self.trail.line(now, || format!("someone asks {op:?} and is answered {:?}", answer.answer));
                Some(answer.answer)
            }
            Err(violation) => {
                self.violated(violation);
                None
            }
        }
    }

    pub(crate) fn trigger(&mut self) {
        self.trail.count("trigger");
        let id = format!("demand-{}", self.number()).parse().expect("an id");
        let pending_max = self.plan.policy.pending_max;
        let answer = self.ask(Op::Trigger(Trigger { id, payload: None, pending_max }));
        if answer == Some(Answer::Trigger(TriggerAnswer::Full)) {
            self.trail.count("trigger-full");
        }
        self.notify();
    }

    /// Who listens is woken, unless the notification gets lost.
    pub(crate) fn notify(&mut self) {
        for host in 0..self.hosts.len() {
            let process = self.hosts[host].process;
            if self.dice.percent(self.plan.wakeups) {
                let at = self.now + self.dice.between(1, 20);
                self.at(at, Event::For { host, process, what: Mail::Woken });
            }
        }
    }

    pub(crate) fn cancel(&mut self) {
        let newest = self.store.job.runs.last_key_value();
        let Some((run, status)) = newest.map(|(id, run)| (id.clone(), run.status)) else { return };
        self.trail.count(if status == Status::Pending { "cancel-pending" } else { "cancel" });
        self.ask(Op::Cancel(Cancel { run, reason: "nobody needs it".to_owned() }));
    }

    pub(crate) fn unblock(&mut self) {
        let now = self.store.clock(self.now);
        // As the command does it for a job without a schedule.
        let newest_due = self.plan.last_interval().map_or(now, |every| Millis(now.0 / every * every));
        let newest_due = Slot(newest_due);
        if let Some(Answer::Unblock(answer)) = self.ask(Op::Unblock(Unblock { newest_due }))
            && answer == leasehold_lease::op::UnblockAnswer::Unblocked
        {
            self.trail.count("unblocked");
            self.watch.unblocked();
        }
    }

    pub(crate) fn hold_back(&mut self, lasts: Ms) {
        let since = Some(self.store.clock(self.now));
        self.ask(Op::Hold(Some(Hold { since, until: None, note: "wait".to_owned() })));
        self.held_until = self.held_until.max(self.now + lasts);
        self.at(self.held_until, Event::LetGo);
    }

    /// The job is held back no more.
    pub(crate) fn let_go(&mut self) {
        if self.now >= self.held_until {
            self.ask(Op::Hold(None));
        }
    }
}
