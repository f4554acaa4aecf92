//! Runs that another instance executes, and what to do when it dies.

use crate::id::RunId;
use crate::policy::Overlap;
use crate::run::{Standing, Status};
use crate::time::Millis;

use super::{Agent, Backup, Command, EventKind, Part, Place, State, Turn};

impl Agent {
    /// The store has shown a run, by a check or by the poll for unfinished runs.
    pub(super) fn seen(&mut self, t: &mut Turn<'_>, run: &RunId, record: Option<&Standing>, store_now: Millis) {
        if !self.takes_new() {
            return;
        }
        match (self.parts.get(run).map(|part| &part.state), record) {
            (Some(State::Backup(_)), Some(record)) => self.look_at(t, run, record, store_now),
            (Some(State::Backup(_)), None) => self.look_at_nothing(t, run),
            (None, Some(record)) if record.status == Status::Pending => self.found_pending(t, run, record),
            (None, Some(record)) => self.found(t, run, record, store_now),
            // What this instance executes or claims itself needs no backup here.
            (Some(_), _) | (None, None) => {}
        }
    }

    /// The store did not answer: ask again as if it had shown nothing new.
    pub(super) fn check_unanswered(&mut self, t: &mut Turn<'_>, run: &RunId) {
        self.store_silent(t.now.mono, t.now.mono);
        self.check_again(t, run);
    }

    /// A hint that something of the job was released or triggered: look now.
    pub(super) fn woken(&mut self, t: &mut Turn<'_>) {
        if !self.takes_new() {
            return;
        }
        for part in self.parts.values_mut() {
            if let State::Backup(Backup { check: Some(at), .. }) = &mut part.state {
                *at = t.now.mono;
            }
        }
        self.demand.may_try_again();
        t.out.push(Command::Poll);
    }

    /// H4: the poll found a run that has no backup here.
    fn found(&mut self, t: &mut Turn<'_>, run: &RunId, record: &Standing, store_now: Millis) {
        if record.status != Status::Running || self.is_outdated(run, record) {
            return;
        }
        if record.expired(store_now) && self.left_for_due_slot(run, t.now.wall) {
            self.left.insert(run.clone());
            return;
        }
        self.back_up(t, run, Some(record.attempt), None);
        self.look_at(t, run, record, store_now);
    }

    /// What ended here, and was shown as it stood before.
    pub(super) fn is_outdated(&self, run: &RunId, record: &Standing) -> bool {
        self.ended.iter().any(|(ended, attempt)| ended == run && record.attempt <= *attempt)
    }

    fn look_at(&mut self, t: &mut Turn<'_>, run: &RunId, record: &Standing, store_now: Millis) {
        let live = record.status == Status::Running && healthy(record, store_now);
        let Some(backup) = self.backup(run) else { return };
        backup.live = live;
        let outrun = backup.outrun;
        match record.status {
            Status::Success | Status::Failed => self.has_ended(t, run),
            Status::Interrupted => {
                if outrun {
                    let detail = format!("given up: {}", record.reason.as_deref().unwrap_or_default());
                    self.tell(t, EventKind::Interrupted, run, None, detail);
                }
                self.has_ended(t, run);
            }
            Status::Pending => self.check_again(t, run),
            Status::Running if live => {
                self.demand.forget(run);
                self.check_again(t, run);
            }
            Status::Running if !record.released && self.gives_runners_time(t.now.mono) => self.check_again(t, run),
            Status::Running if run.slot().is_none() => {
                self.demand.wants(t.now.mono, record.due, run, true);
                self.check_again(t, run);
            }
            Status::Running if record.expired(store_now) && self.left_for_due_slot(run, t.now.wall) => {
                self.left.insert(run.clone());
                self.remove(t, run);
            }
            Status::Running => self.want_takeover(t, run),
        }
    }

    /// Another one's run has ended, so the job may be free.
    fn has_ended(&mut self, t: &mut Turn<'_>, run: &RunId) {
        self.demand.forget(run);
        self.demand.may_try_again();
        self.remove(t, run);
    }

    /// This instance has won a slot, which ends every older expired scheduled run: it alone knows that it did, and says
    /// so when the store shows it.
    pub(super) fn outruns(&mut self, t: &mut Turn<'_>, won: &RunId) {
        let Some(slot) = won.slot() else { return };
        // What is older than the newest start before was ended by that one.
        let newest = self.newest_started;
        for left in std::mem::take(&mut self.left) {
            if left.slot() < Some(slot) && !self.parts.contains_key(&left) {
                let check = Some(t.next_check(&self.policy));
                let backup = Backup { check, skipped_until: None, live: false, outrun: true };
                self.become_state(t, &left, State::Backup(backup));
            }
        }
        let skip = self.policy.overlap == Overlap::Skip;
        for (run, part) in &mut self.parts {
            let older = run.slot().filter(|older| *older < slot);
            if let (Some(older), State::Backup(backup)) = (older, &mut part.state) {
                // Under skip none can have been live.
                backup.outrun |= backup.skipped_until.is_none() && (!backup.live || skip) && newest <= Some(older);
            }
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
        self.demand.forget(run);
        if watched { self.check_again(t, run) } else { self.remove(t, run) }
    }

    fn backup(&mut self, run: &RunId) -> Option<&mut Backup> {
        match self.parts.get_mut(run).map(|part| &mut part.state) {
            Some(State::Backup(backup)) => Some(backup),
            _ => None,
        }
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
