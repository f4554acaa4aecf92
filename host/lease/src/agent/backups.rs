//! Runs that another instance executes, and what to do when it dies.

use crate::id::RunId;
use crate::run::{Standing, Status};
use crate::time::Millis;

use super::{Agent, Backup, Command, EventKind, Part, Place, Seen, State, Turn};

impl Agent {
    /// The store has shown a run, by a check or by the poll for unfinished runs.
    pub(super) fn seen(&mut self, t: &mut Turn<'_>, run: &RunId, seen: &Seen) {
        if self.stopping || self.offer.is_none() {
            return;
        }
        match (self.parts.get(run).map(|part| &part.state), &seen.run) {
            (Some(State::Backup(_)), Some(record)) => self.look_at(t, run, record, seen.store_now),
            (Some(State::Backup(_)), None) => self.look_at_nothing(t, run),
            (None, Some(record)) => self.found(t, run, record, seen.store_now),
            // What this instance executes or claims itself needs no backup here.
            (Some(_), _) | (None, None) => {}
        }
    }

    /// The store did not answer: ask again as if it had shown nothing new.
    pub(super) fn check_unanswered(&mut self, t: &mut Turn<'_>, run: &RunId) {
        self.check_again(t, run);
    }

    /// H4: the poll found a run that has no backup here.
    fn found(&mut self, t: &mut Turn<'_>, run: &RunId, record: &Standing, store_now: Millis) {
        let unfinished = record.status == Status::Running;
        let outdated = self.ended.iter().any(|(ended, attempt)| ended == run && record.attempt <= *attempt);
        if !unfinished || outdated {
            return;
        }
        if record.expired(store_now) && self.left_for_due_slot(run, t.now.wall) {
            self.left.insert(run.clone());
            return;
        }
        self.back_up(t, run, Some(record.attempt), None);
        self.look_at(t, run, record, store_now);
    }

    fn look_at(&mut self, t: &mut Turn<'_>, run: &RunId, record: &Standing, store_now: Millis) {
        match record.status {
            Status::Success | Status::Failed => self.remove(t, run),
            Status::Interrupted => {
                self.tell_outrun(t, run, record.reason.as_deref().unwrap_or_default());
                self.remove(t, run);
            }
            Status::Pending => self.check_again(t, run),
            Status::Running if healthy(record, store_now) => self.check_again(t, run),
            Status::Running if record.expired(store_now) && self.left_for_due_slot(run, t.now.wall) => {
                self.left.insert(run.clone());
                self.remove(t, run);
            }
            Status::Running => self.want_takeover(t, run),
        }
    }

    /// A run was given up because a newer slot started first. The host that started that one says so.
    pub(super) fn tell_outrun(&self, t: &mut Turn<'_>, run: &RunId, reason: &str) {
        if run.slot() < self.last_won {
            t.event(EventKind::Interrupted, run, None, format!("given up: {reason}"));
        }
    }

    /// The run does not exist. An own slot that was skipped is watched until a newer slot has started or it could only
    /// be late.
    fn look_at_nothing(&mut self, t: &mut Turn<'_>, run: &RunId) {
        let newest = self.newest_started;
        let watched = match self.parts.get(run).map(|part| &part.state) {
            Some(State::Backup(Backup { skipped_until: Some(until), .. })) => {
                t.now.mono < *until && newest.is_none_or(|newest| Some(newest) <= run.slot())
            }
            _ => false,
        };
        if watched { self.check_again(t, run) } else { self.remove(t, run) }
    }

    fn check_again(&mut self, t: &mut Turn<'_>, run: &RunId) {
        let at = t.next_check(&self.policy);
        let Some(part) = self.parts.get_mut(run) else { return };
        if let State::Backup(backup) = &mut part.state {
            backup.check = Some(at);
            if part.place != Place::None {
                part.place = Place::None;
                t.out.push(Command::Free(run.clone()));
            }
        }
    }

    /// The runner is dead. A full host stays a backup, keeps looking, and claims when a place is free.
    fn want_takeover(&mut self, t: &mut Turn<'_>, run: &RunId) {
        let at = t.next_check(&self.policy);
        let Some(Part { place, state: State::Backup(backup), .. }) = self.parts.get_mut(run) else { return };
        backup.check = Some(at);
        if *place == Place::None {
            *place = Place::Asked;
            t.out.push(Command::Reserve(run.clone()));
        }
    }
}

/// Live, and by a lease end that its lease can explain: one further ahead tells that the store's clock was set back.
fn healthy(record: &Standing, store_now: Millis) -> bool {
    record.live(store_now) && record.lease_end <= store_now + record.lease
}
