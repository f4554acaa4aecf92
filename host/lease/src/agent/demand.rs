//! On-demand runs that nobody executes, pending or expired: they wait until the job is free, oldest first.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::id::RunId;
use crate::op::ClaimKind;
use crate::policy::Overlap;
use crate::run::Standing;
use crate::time::{Millis, Mono};

use super::{Agent, Backup, Close, Closing, EventKind, State, Turn};

/// Those that this instance knows of: at most as many as the store keeps waiting. All are looked at when they are shown, none
/// with other inputs.
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// By when they were asked for.
    waiting: BTreeMap<(Millis, RunId), Wish>,
    /// When each of them was asked for.
    due: BTreeMap<RunId, Millis>,
    /// Those of which people are still to be told that they wait.
    untold: BTreeSet<(Millis, RunId)>,
    /// Until then, the store has shown each of them lately enough.
    fresh_until: Option<Mono>,
    /// A claim was refused because the job is not free: not again before.
    rest: Option<Mono>,
}

#[derive(Debug)]
struct Wish {
    /// When the store showed it last.
    seen: Mono,
    /// It has had a runner, and is backed up.
    started: bool,
}

impl Demand {
    /// The store has shown a run that nobody executes.
    pub(super) fn wants(&mut self, now: Mono, due: Millis, run: &RunId, started: bool) {
        let wish = Wish { seen: now, started };
        let key = (due, run.clone());
        if let Some(known) = self.waiting.get_mut(&key) {
            *known = wish;
            return;
        }
        self.forget(run);
        self.due.insert(run.clone(), due);
        if !started {
            self.untold.insert(key.clone());
        }
        self.waiting.insert(key, wish);
    }

    /// It has a runner, or has ended.
    pub(super) fn forget(&mut self, run: &RunId) {
        if let Some(due) = self.due.remove(run) {
            let key = (due, run.clone());
            self.waiting.remove(&key);
            self.untold.remove(&key);
        }
    }

    /// What the store has not shown for so long has ended elsewhere.
    fn forget_unseen(&mut self, now: Mono, shown: Duration) {
        if self.fresh_until.is_some_and(|until| now < until) {
            return;
        }
        let unseen = |wish: &Wish| now.since(wish.seen) >= shown;
        let gone: Vec<RunId> =
            self.waiting.iter().filter(|(_, wish)| unseen(wish)).map(|((_, run), _)| run.clone()).collect();
        gone.iter().for_each(|run| self.forget(run));
        // What comes later is shown later.
        self.fresh_until = self.waiting.values().map(|wish| wish.seen + shown).min();
    }

    pub(super) fn has(&self, run: &RunId) -> bool {
        self.due.contains_key(run)
    }

    fn has_started(&self, run: &RunId) -> bool {
        let due = self.due.get(run);
        due.and_then(|due| self.waiting.get(&(*due, run.clone()))).is_some_and(|wish| wish.started)
    }

    pub(super) fn clear(&mut self) {
        *self = Demand::default();
    }

    /// The job may be free now.
    pub(super) fn may_try_again(&mut self) {
        self.rest = None;
    }

    pub(super) fn not_before(&mut self, at: Mono) {
        self.rest = Some(at);
    }

    pub(super) fn wakeup(&self) -> Option<Mono> {
        self.rest.filter(|_| !self.waiting.is_empty())
    }
}

impl Agent {
    /// The poll found a run that was asked for and that nobody has started.
    pub(super) fn found_pending(&mut self, t: &mut Turn<'_>, run: &RunId, record: &Standing) {
        if !self.is_outdated(run, record) {
            self.demand.wants(t.now.mono, record.due, run, false);
        }
    }

    /// Claims the oldest one when the job is free and no slot is due. One at a time: the next follows its answer.
    pub(super) fn look_for_demand(&mut self, t: &mut Turn<'_>) {
        // It is looked for once or twice in that time.
        self.demand.forget_unseen(t.now.mono, self.policy.heartbeat * 4);
        if self.demand.waiting.is_empty() {
            return;
        }
        if self.demand.rest.is_some_and(|at| at <= t.now.mono) {
            self.demand.rest = None;
        }
        let free = self.demand.rest.is_none() && !self.is_claiming();
        let free = free && (self.policy.overlap == Overlap::Allow || !self.seems_live());
        if free && let Some(run) = self.oldest_claimable() {
            self.ask_for_place(t, &run, ClaimKind::OnDemand);
        }
        self.tell_of_waiting(t);
    }

    /// The oldest one that this instance neither executes nor knows to be executed.
    fn oldest_claimable(&self) -> Option<RunId> {
        let claimable = |run: &RunId| match self.parts.get(run).map(|part| &part.state) {
            None => true,
            Some(State::Backup(backup)) => !backup.live,
            Some(_) => false,
        };
        self.demand.waiting.keys().map(|(_, run)| run).find(|run| claimable(run)).cloned()
    }

    /// A claim was refused because another run of the job is live: it stays as it is until the job is free.
    pub(super) fn stays(&mut self, t: &mut Turn<'_>, run: &RunId) {
        let at = t.next_check(&self.policy);
        self.demand.not_before(at);
        if self.demand.has_started(run) {
            self.back_up(t, run, None, None);
            // It is nobody's: what is live is another run.
            if let Some(State::Backup(Backup { live, .. })) = self.parts.get_mut(run).map(|part| &mut part.state) {
                *live = false;
            }
        } else {
            self.remove(t, run);
        }
    }

    /// A slot is due, or an on-demand run is on its way already.
    fn is_claiming(&self) -> bool {
        self.parts.values().any(|part| match &part.state {
            State::Waiting { kind, .. } | State::Jitter { kind, .. } | State::Yielding { kind, .. } => {
                *kind != ClaimKind::Takeover
            }
            State::Claiming(claiming) => claiming.claim.kind != ClaimKind::Takeover,
            _ => false,
        })
    }

    /// A run of the job is live, as far as this instance knows.
    fn seems_live(&self) -> bool {
        self.parts.values().any(|part| match &part.state {
            State::Confirming(_) | State::Running { .. } => true,
            State::Closing(Closing { close, .. }) => matches!(close, Close::Finish(_)),
            State::Backup(backup) => backup.live && backup.skipped_until.is_none(),
            _ => false,
        })
    }

    fn tell_of_waiting(&mut self, t: &mut Turn<'_>) {
        let untold: Vec<(Millis, RunId)> =
            self.demand.untold.iter().filter(|(_, run)| !self.parts.contains_key(run)).cloned().collect();
        for key in untold {
            self.demand.untold.remove(&key);
            self.tell(t, EventKind::Pending, &key.1, None, "it waits until the job is free");
        }
    }
}
