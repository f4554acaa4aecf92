//! After an outage of the store or a long freeze: what must reach the store before new claims do.

use crate::id::RunId;
use crate::op::ClaimKind;
use crate::policy::Overlap;
use crate::time::{Mono, Slot};

use super::{Agent, Close, EventKind, Part, State, Turn};

impl Agent {
    /// The store answers again: what is owed to it goes first.
    pub(super) fn store_up(&mut self, t: &Turn<'_>) {
        self.store_answered(t.now.mono);
        for part in self.parts.values_mut() {
            if let State::Closing(closing) = &mut part.state
                && closing.resend.is_some()
            {
                closing.resend = Some(t.now.mono);
            }
        }
    }

    /// L6: a slot whose claim the store did not answer is caught up as soon as it answers anything. It may have done so
    /// before that claim was given up.
    pub(super) fn catch_up_after_outage(&mut self, t: &mut Turn<'_>) {
        if self.store_failed && self.silent_since.is_none() {
            self.store_failed = false;
            self.catch_up(t);
        }
    }

    /// The store has answered.
    pub(super) fn store_answered(&mut self, now: Mono) {
        if self.is_silent_for_long(now) {
            self.recovered = Some(now);
        }
        (self.answered, self.silent_since, self.store_down_told) = (now, None, false);
    }

    /// A call that was sent then was not answered in time.
    pub(super) fn store_silent(&mut self, now: Mono, sent: Mono) {
        if sent > self.answered {
            self.silent_since.get_or_insert(now);
        }
    }

    /// For so long that leases may have ended. One call that got lost is no outage.
    fn is_silent_for_long(&self, now: Mono) -> bool {
        let long = self.policy.lease.saturating_sub(self.policy.heartbeat * 3);
        self.silent_since.is_some_and(|since| now.since(since) > long)
    }

    /// This instance stood still, and others may have, too: their heartbeats come as late as its own wake-ups.
    pub(super) fn notice_freeze(&mut self, t: &Turn<'_>) {
        let due = self.parts.values().filter_map(|part| part.wakeup()).min();
        if due.is_some_and(|at| t.now.mono.since(at) > self.policy.heartbeat * 2) {
            self.recovered = Some(t.now.mono);
        }
    }

    /// L3: runners that could not renew their leases do so within a heartbeat of the recovery; until then they are not
    /// taken for dead.
    pub(super) fn gives_runners_time(&self, now: Mono) -> bool {
        self.recovered.is_some_and(|at| now < at + self.policy.heartbeat)
    }

    /// Until when a claim of this run lets others go first; it is looked at again then and at every input.
    ///
    /// The end of a run that ended here: a win would interrupt the run before its outcome is known. In an outage and
    /// right after it, the heartbeats of runners that may be alive: a win would end what they do.
    pub(super) fn yields(&self, now: Mono, run: &RunId, until: Mono) -> Option<Mono> {
        let owed =
            |state: &State| matches!(state, State::Closing(closing) if matches!(closing.close, Close::Finish(_)));
        if self.parts.values().any(|part| owed(&part.state)) {
            return Some(now + self.policy.store_deadline());
        }
        let silent = self.is_silent_for_long(now).then(|| now + self.policy.store_deadline());
        let recovered = || self.recovered.map(|at| at + self.policy.heartbeat).filter(|end| now < *end);
        let end = silent.or_else(recovered)?;
        // Not so long that it could only be late.
        let in_time = end + self.policy.store_deadline() * 2 < until;
        let may_be_alive = |state: &State| match state {
            State::Running { lost, .. } => !lost,
            State::Backup(backup) => backup.skipped_until.is_none(),
            _ => false,
        };
        let runners = || self.parts.iter().any(|(other, part)| other != run && may_be_alive(&part.state));
        (in_time && runners()).then_some(end)
    }

    /// Claims, when nothing has to go first.
    pub(super) fn claim(&mut self, t: &mut Turn<'_>, run: &RunId, kind: ClaimKind) {
        let until = t.now.mono + self.time_to_be_late(t, run, kind);
        match self.yields(t.now.mono, run, until) {
            Some(at) => self.become_state(t, run, State::Yielding { kind, at, until }),
            None => self.send_claim(t, run, kind),
        }
    }

    /// Claims what has waited for others to go first and needs to no more.
    pub(super) fn yielding_go_on(&mut self, t: &mut Turn<'_>) {
        let yielding = |state: &State| matches!(state, State::Yielding { .. });
        let runs: Vec<RunId> =
            self.parts.iter().filter(|(_, part)| yielding(&part.state)).map(|(run, _)| run.clone()).collect();
        for run in runs {
            let Some(State::Yielding { kind, until, .. }) = self.parts.get(&run).map(|part| &part.state) else {
                continue;
            };
            let (kind, until) = (*kind, *until);
            if until <= t.now.mono {
                self.tell_given_up(t, &run, kind, "the store did not take the end of the run before it");
                self.remove(t, &run);
            } else if let Some(next) = self.yields(t.now.mono, &run, until) {
                if let Some(State::Yielding { at, .. }) = self.parts.get_mut(&run).map(|part| &mut part.state) {
                    *at = next;
                }
            } else {
                self.send_claim(t, &run, kind);
            }
        }
    }

    /// A claim was given up because the store did not answer. That is told once until it does, and of each slot that it
    /// is missed.
    pub(super) fn tell_given_up(&mut self, t: &mut Turn<'_>, run: &RunId, kind: ClaimKind, why: &str) {
        self.store_failed = true;
        if self.silent_since.is_some() && !std::mem::replace(&mut self.store_down_told, true) {
            self.tell(t, EventKind::StoreDown, run, None, "a claim was given up");
        }
        match kind {
            ClaimKind::Slot | ClaimKind::CatchUp { .. } => self.tell(t, EventKind::Missed, run, None, why),
            // It stays as it is, and is found again.
            ClaimKind::Takeover | ClaimKind::OnDemand => {
                let at = t.next_check(&self.policy);
                self.demand.not_before(at);
            }
        }
    }

    /// A newer slot is due while the store has not answered the claims of older ones, or while these wait for a place
    /// where one run keeps out the next: it alone is claimed on. Never a backlog.
    pub(super) fn drop_swallowed(&mut self, t: &mut Turn<'_>, newer: Slot) {
        self.drop_waiting(t, newer);
        let swallowed = |state: &State| match state {
            State::Claiming(claiming) if claiming.resend.is_some() => {
                Some((claiming.claim.kind, Some(claiming.claim.token)))
            }
            State::Yielding { kind, .. } => Some((*kind, None)),
            _ => None,
        };
        let older = |run: &RunId| run.slot().is_some_and(|slot| slot < newer);
        let runs: Vec<_> = self
            .parts
            .iter()
            .filter(|(run, _)| older(run))
            .filter_map(|(run, part)| Some((run.clone(), swallowed(&part.state)?)))
            .filter(|(_, (kind, _))| *kind != ClaimKind::Takeover)
            .collect();
        for (run, (kind, token)) in runs {
            self.tell_given_up(t, &run, kind, "the store did not answer, and a newer slot is due");
            if let Some(token) = token {
                self.release_stray(t, &run, token);
            }
            self.remove(t, &run);
        }
    }

    fn drop_waiting(&mut self, t: &mut Turn<'_>, newer: Slot) {
        if self.policy.overlap == Overlap::Allow {
            return;
        }
        let waits = |run: &RunId, part: &Part| {
            run.slot().is_some_and(|slot| slot < newer)
                && matches!(&part.state, State::Waiting { kind, .. } if kind.is_of_slot())
        };
        let runs: Vec<RunId> =
            self.parts.iter().filter(|(run, part)| waits(run, part)).map(|(run, _)| run.clone()).collect();
        for run in runs {
            self.tell(t, EventKind::Missed, &run, None, "no place was free before a newer slot was due");
            self.remove(t, &run);
        }
    }

    /// Whether a newer slot than this is being claimed here.
    pub(super) fn is_swallowed(&self, run: &RunId) -> bool {
        let claims_slot = |part: &Part| part.state.claims().is_some_and(ClaimKind::is_of_slot);
        run.slot().is_some() && self.parts.iter().any(|(other, part)| other.slot() > run.slot() && claims_slot(part))
    }
}
