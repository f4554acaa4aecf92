//! Slots of jobs whose plugin does not serve here. They have no agent, so nobody else would say that they were due.

use std::collections::BTreeMap;

use leasehold_lease::agent::{Event, EventKind};
use leasehold_lease::id::{JobKey, RunId};
use leasehold_lease::time::{Millis, Slot};
use leasehold_sandbox::Plugin;

use super::{Driver, orphans};
use crate::clock;
use crate::plugins::Catalog;

/// Jobs that this host knows and cannot run.
#[derive(Debug, Default)]
pub(super) struct Unserved {
    /// The next slots of those that people were not told of, and why they cannot run.
    due: BTreeMap<(Slot, JobKey), String>,
    /// Why those cannot run that people were told of.
    told: BTreeMap<JobKey, String>,
}

impl Unserved {
    /// These and no others cannot run, for these reasons, and are due next then.
    fn take(&mut self, idle: impl Iterator<Item = (JobKey, String, Slot)>) {
        let mut told = std::mem::take(&mut self.told);
        self.due.clear();
        for (job, why, next) in idle {
            if told.remove(&job).is_some_and(|known| known == why) {
                self.told.insert(job, why);
            } else {
                self.due.insert((next, job), why);
            }
        }
    }

    /// The slots that are due, each job's first for a reason, with that reason.
    fn take_due(&mut self, wall: Millis) -> Vec<(Slot, JobKey, String)> {
        let mut due = Vec::new();
        while let Some(first) = self.due.first_entry()
            && first.key().0.0 <= wall
        {
            let ((slot, job), why) = first.remove_entry();
            self.told.insert(job.clone(), why.clone());
            due.push((slot, job, why));
        }
        due
    }

    /// The first slot that is to be told of.
    pub(super) fn next(&self) -> Option<Slot> {
        self.due.first_key_value().map(|((slot, _), _)| *slot)
    }
}

impl Driver {
    /// Takes over which jobs cannot run. Those whose plugin is yet to be loaded may still run in time.
    pub(super) fn watch_unserved(&mut self, catalog: &Catalog<Plugin>) {
        self.tell_unserved();
        let now = clock::wall();
        let idle = catalog.idle.iter().filter_map(|idle| {
            let next = idle.spec.schedule.as_ref()?.next_after(now)?;
            Some((idle.spec.key.clone(), idle.why.clone()?, next))
        });
        self.unserved.take(idle);
    }

    /// Says that slots were due and not started here, and why: once of each job until the reason is another one.
    pub(super) fn tell_unserved(&mut self) {
        for (slot, job, why) in self.unserved.take_due(clock::wall()) {
            let (run, detail) = (Some(RunId::Slot(slot)), orphans::no_plugin(&why));
            let event = Event { kind: EventKind::NoPlugin, run, attempt: None, detail };
            self.keep_what_no_claim_tells(&job, &event);
            if self.told_no_plugin(&job, &why) {
                self.tell(&job, event);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_due_slot_is_told_of_once_for_each_reason_and_again_after_the_job_was_served() {
        let idle =
            |why: &str, next: i64| [("a/x".parse().expect("a job"), why.to_owned(), Slot(Millis(next)))].into_iter();
        let mut unserved = Unserved::default();
        let told = |unserved: &mut Unserved, wall: i64| -> Vec<(i64, String)> {
            unserved.take_due(Millis(wall)).into_iter().map(|(slot, _, why)| (slot.0.0, why)).collect()
        };
        unserved.take(idle("it is text", 1_000));
        assert_eq!((told(&mut unserved, 999), unserved.next()), (vec![], Some(Slot(Millis(1_000)))));
        assert_eq!(told(&mut unserved, 1_000), [(1_000, "it is text".to_owned())]);
        unserved.take(idle("it is text", 2_000));
        assert_eq!((told(&mut unserved, 9_000), unserved.next()), (vec![], None), "that is known");
        unserved.take(idle("it is too large", 10_000));
        assert_eq!(told(&mut unserved, 10_000), [(10_000, "it is too large".to_owned())]);
        unserved.take(std::iter::empty());
        unserved.take(idle("it is too large", 11_000));
        assert_eq!(told(&mut unserved, 11_000), [(11_000, "it is too large".to_owned())], "it was served meanwhile");
    }
}
