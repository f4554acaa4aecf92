//! On-demand runs that nobody executes, pending or expired: they wait until the job is free, oldest first.

use std::collections::BTreeMap;

use crate::id::RunId;
use crate::op::ClaimKind;
use crate::policy::Overlap;
use crate::run::Standing;
use crate::time::{Millis, Mono};

use super::{Agent, Backup, Close, Closing, EventKind, State, Turn};

/// Those that this instance knows of: at most as many as the store keeps waiting.
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// By when they were asked for.
    waiting: BTreeMap<(Millis, RunId), Wish>,
    /// A claim was refused because the job is not free: not again before.
    rest: Option<Mono>,
}

#[derive(Debug)]
struct Wish {
    /// When the store showed it last.
    seen: Mono,
    /// It has had a runner, and is backed up.
    started: bool,
    /// People were told that it waits.
    told: bool,
}

impl Demand {
    /// The store has shown a run that nobody executes.
    pub(super) fn wants(&mut self, now: Mono, due: Millis, run: &RunId, started: bool) {
        let fresh = Wish { seen: now, started, told: started };
        let wish = self.waiting.entry((due, run.clone())).or_insert(fresh);
        (wish.seen, wish.started) = (now, started);
    }

    /// It has a runner, or has ended.
    pub(super) fn forget(&mut self, run: &RunId) {
        if run.slot().is_none() {
            self.waiting.retain(|(_, waiting), _| waiting != run);
        }
    }

    pub(super) fn has(&self, run: &RunId) -> bool {
        self.waiting.keys().any(|(_, waiting)| waiting == run)
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
        // What the store shows no more has ended elsewhere: it is looked for once or twice in that time.
        let shown = self.policy.heartbeat * 4;
        self.demand.waiting.retain(|_, wish| t.now.mono.since(wish.seen) < shown);
        if self.demand.waiting.is_empty() {
            return;
        }
        if self.demand.rest.is_some_and(|at| at <= t.now.mono) {
            self.demand.rest = None;
        }
        let free = self.demand.rest.is_none() && !self.is_claiming();
        let free = free && (self.policy.overlap == Overlap::Allow || !self.seems_live());
        let claimable = |run: &RunId| match self.parts.get(run).map(|part| &part.state) {
            None => true,
            Some(State::Backup(backup)) => !backup.live,
            Some(_) => false,
        };
        let oldest = self.demand.waiting.keys().find(|(_, run)| free && claimable(run));
        if let Some(run) = oldest.map(|(_, run)| run.clone()) {
            self.ask_for_place(t, &run, ClaimKind::OnDemand);
        }
        self.tell_of_waiting(t);
    }

    /// A claim was refused because another run of the job is live: it stays as it is until the job is free.
    pub(super) fn stays(&mut self, t: &mut Turn<'_>, run: &RunId) {
        let at = t.next_check(&self.policy);
        self.demand.not_before(at);
        let started = self.demand.waiting.iter().any(|((_, waiting), wish)| waiting == run && wish.started);
        if started {
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
        let untold =
            self.demand.waiting.iter_mut().filter(|((_, run), wish)| !wish.told && !self.parts.contains_key(run));
        let runs: Vec<RunId> = untold
            .map(|((_, run), wish)| {
                wish.told = true;
                run.clone()
            })
            .collect();
        for run in runs {
            self.tell(t, EventKind::Pending, &run, None, "it waits until the job is free");
        }
    }
}
