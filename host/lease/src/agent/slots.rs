//! When a slot is due, and which missed slot is caught up.

use std::time::Duration;

use crate::id::RunId;
use crate::op::ClaimKind;
use crate::order::is_ahead;
use crate::policy::CLOCK_GRACE;
use crate::schedule::Schedule;
use crate::time::{Millis, Slot};

use super::{Agent, Command, EventKind, Offer, Turn};

impl Agent {
    /// The plugin directory offers the job.
    pub(super) fn offered(&mut self, t: &mut Turn<'_>, offer: Offer, since: Millis) {
        let same_slots = self.offer.as_ref().is_some_and(|old| same_schedule(old, &offer));
        self.policy = offer.policy.clone();
        self.offer = Some(offer);
        self.since = since;
        if same_slots && !self.resumes || !self.takes_new() {
            return;
        }
        self.resumes = false;
        self.next_slot = self.next_after(t.now.wall);
        self.tell_missed(t);
        self.catch_up(t);
    }

    /// L5: slots that passed while no host took any, all but one that is caught up.
    fn tell_missed(&mut self, t: &mut Turn<'_>) {
        let Some(schedule) = self.offer.as_ref().and_then(|offer| offer.schedule.as_ref()) else { return };
        let newest = self.newest_started.max(self.newest_skipped);
        let from = newest.map_or(self.since, |slot| slot.0.max(self.since));
        let Some(first) = schedule.next_after(from) else { return };
        let one_before = Duration::from_millis(1);
        let latest = schedule.latest_at_or_before(t.now.wall, first.0 - one_before);
        let last = latest.and_then(|latest| match latest.0 > t.now.wall - self.policy.catch_up {
            true => schedule.latest_at_or_before(latest.0 - one_before, first.0 - one_before),
            false => Some(latest),
        });
        if let Some(last) = last {
            let detail = format!("no host took {}", span(first, last));
            self.tell(t, EventKind::Missed, &RunId::Slot(last), None, detail);
        }
    }

    /// The plugin directory offers the job no more: nothing new is started; what runs goes on.
    pub(super) fn withdrawn(&mut self, t: &mut Turn<'_>) {
        self.offer = None;
        self.let_go(t);
    }

    /// Takes nothing new, or goes on as after a start, once the store has told what others have started.
    pub(super) fn drain(&mut self, t: &mut Turn<'_>, drain: bool) {
        if drain == std::mem::replace(&mut self.draining, drain) {
            return;
        }
        if drain {
            self.let_go(t);
        } else if self.takes_new() {
            // The driver tells the store of its jobs at once: the answer says what others have started meanwhile.
            self.resumes = true;
            self.next_slot = self.next_after(t.now.wall);
            t.out.push(Command::Poll);
        }
    }

    /// Drops what has not been claimed.
    fn let_go(&mut self, t: &mut Turn<'_>) {
        self.next_slot = None;
        self.left.clear();
        self.demand.clear();
        let unclaimed = self.parts.iter().filter(|(_, part)| part.state.is_unclaimed());
        let runs: Vec<RunId> = unclaimed.map(|(run, _)| run.clone()).collect();
        for run in runs {
            self.remove(t, &run);
        }
        self.give_unstarted_back(t);
    }

    /// The latest due slot, if it is less than `catch_up` ago and no run of it is known. Only the latest: a backlog is
    /// never replayed.
    pub(super) fn catch_up(&mut self, t: &mut Turn<'_>) {
        let catch_up = self.policy.catch_up;
        let Some(offer) = &self.offer else { return };
        let Some(schedule) = &offer.schedule else { return };
        if catch_up.is_zero() || !self.takes_new() {
            return;
        }
        let Some(slot) = schedule.latest_at_or_before(t.now.wall, t.now.wall - catch_up) else { return };
        let known = Some(slot) <= self.newest_started || Some(slot) <= self.newest_skipped || slot.0 < self.since;
        if known || self.parts.contains_key(&RunId::Slot(slot)) {
            return;
        }
        self.begin(t, slot, ClaimKind::CatchUp { age: t.now.wall.since(slot.0) });
    }

    /// A wall clock that was set back computes its slots anew; those that have started or were skipped stay out.
    pub(super) fn wall_set_back(&mut self, t: &Turn<'_>) {
        if t.now.wall + Duration::from_secs(1) < self.last_wall && self.next_slot.is_some() {
            // One in the store's future blocks the job until someone lowers it, which nobody would tell here.
            let known = |slot: Option<Slot>| slot.filter(|slot| !is_ahead(slot.0, t.now.store));
            let done = known(self.newest_started).max(known(self.newest_skipped));
            self.next_slot = self.next_after(done.map_or(t.now.wall, |slot| slot.0.max(t.now.wall)));
        }
        self.last_wall = t.now.wall;
    }

    /// Begins the latest due slot. Slots before it at which this host did not look are told and left.
    pub(super) fn look_for_slot(&mut self, t: &mut Turn<'_>) {
        let Some(next) = self.next_slot.filter(|next| next.0 <= t.now.wall) else { return };
        let Some(schedule) = self.offer.as_ref().and_then(|offer| offer.schedule.as_ref()) else { return };
        let one_before = Duration::from_millis(1);
        let latest = schedule.latest_at_or_before(t.now.wall, next.0 - one_before).unwrap_or(next);
        let passed = schedule.latest_at_or_before(latest.0 - one_before, next.0 - one_before);
        self.next_slot = self.next_after(t.now.wall);
        if let Some(passed) = passed {
            let detail = format!("this host could not look at {}", span(next, passed));
            self.tell(t, EventKind::Missed, &RunId::Slot(passed), None, detail);
        }
        let age = t.now.wall.since(latest.0);
        if age < self.policy.max_late + CLOCK_GRACE {
            self.begin(t, latest, ClaimKind::Slot);
        } else if age < self.policy.catch_up {
            self.begin(t, latest, ClaimKind::CatchUp { age });
        } else {
            self.tell(t, EventKind::Missed, &RunId::Slot(latest), None, "too long ago to be caught up");
        }
    }

    /// The slot after `t` that this instance will wait for.
    fn next_after(&self, t: Millis) -> Option<Slot> {
        self.offer.as_ref()?.schedule.as_ref()?.next_after(t)
    }

    /// Asks for a place; the claim follows when there is one.
    fn begin(&mut self, t: &mut Turn<'_>, slot: Slot, kind: ClaimKind) {
        let run = RunId::Slot(slot);
        if self.parts.contains_key(&run) {
            return;
        }
        self.drop_swallowed(t, slot);
        self.ask_for_place(t, &run, kind);
    }

    /// An expired run that is left because the next slot replaces it: a slot is due that is newer than it and newer
    /// than both the newest started and the newest skipped one. With no further slot in the schedule it is not left.
    pub(super) fn left_for_due_slot(&self, run: &RunId, wall: Millis) -> bool {
        let Some(slot) = run.slot() else { return false };
        let Some(schedule) = self.offer.as_ref().and_then(|offer| offer.schedule.as_ref()) else { return false };
        let replaced = schedule
            .latest_at_or_before(wall, slot.0)
            .is_some_and(|due| due > slot && Some(due) > self.newest_started && Some(due) > self.newest_skipped);
        replaced && schedule.next_after(wall).is_some()
    }
}

/// Slots in the words of what is told of the last one.
fn span(first: Slot, last: Slot) -> String {
    if first < last { format!("the slots from {first} up to this one") } else { "it".to_owned() }
}

/// Whether two offers have the same slots.
fn same_schedule(a: &Offer, b: &Offer) -> bool {
    fn print(offer: &Offer) -> Option<&str> {
        offer.schedule.as_ref().map(Schedule::fingerprint)
    }
    print(a) == print(b)
}
