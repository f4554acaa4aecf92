//! On-demand runs that nobody executes, pending or expired: they wait until the job is free, oldest first.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::id::RunId;
use crate::op::ClaimKind;
use crate::policy::Overlap;
use crate::run::Standing;
use crate::time::{Millis, Mono};

use super::{Agent, Backup, Close, Closing, EventKind, Part, State, Turn};

/// Forgotten runs that are remembered so as to be told of once.
const TOLD: usize = 1_000;

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
    /// Those that were forgotten after people were told of them: an outage makes no news of what waits.
    told: BTreeSet<(Millis, RunId)>,
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
        if !self.told.remove(&key) && !started {
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

    /// What the store has not shown for this long has ended elsewhere, but for what this instance claims: the answer says.
    fn forget_unseen(&mut self, now: Mono, shown: Duration, claims: impl Fn(&RunId) -> bool) {
        if self.fresh_until.is_some_and(|until| now < until) {
            return;
        }
        let mut gone = Vec::new();
        for ((_, run), wish) in &mut self.waiting {
            match now.since(wish.seen) >= shown {
                true if claims(run) => wish.seen = now,
                true => gone.push(run.clone()),
                false => {}
            }
        }
        for run in &gone {
            let key = (self.due[run], run.clone());
            if !self.untold.contains(&key) {
                self.told.insert(key);
            }
            self.forget(run);
        }
        while self.told.len() > TOLD {
            self.told.pop_first();
        }
        // What comes later is shown later.
        self.fresh_until = self.waiting.values().map(|wish| wish.seen + shown).min();
    }

    pub(super) fn has(&self, run: &RunId) -> bool {
        self.due.contains_key(run)
    }

    /// When it was asked for.
    pub(super) fn due(&self, run: &RunId) -> Option<Millis> {
        self.due.get(run).copied()
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
        let claims = |run: &RunId| {
            let part = self.parts.get(run);
            part.is_some_and(|part| part.state.claims() == Some(ClaimKind::OnDemand))
        };
        self.demand.forget_unseen(t.now.mono, self.policy.heartbeat * 4, claims);
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
        self.stand_back(t, run);
    }

    /// A slot is due: a run that was asked for and waits for a place would take it first, and then the slot would be
    /// skipped for it. It asks for one again when the slot is claimed.
    pub(super) fn demand_stands_back(&mut self, t: &mut Turn<'_>) {
        if self.policy.overlap == Overlap::Allow {
            return;
        }
        let waits = |part: &Part| matches!(part.state, State::Waiting { kind: ClaimKind::OnDemand, .. });
        let waiting = self.parts.iter().filter(|(_, part)| waits(part));
        for run in waiting.map(|(run, _)| run.clone()).collect::<Vec<_>>() {
            self.stand_back(t, &run);
        }
    }

    fn stand_back(&mut self, t: &mut Turn<'_>, run: &RunId) {
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
        self.parts.values().any(|part| part.state.claims().is_some_and(|kind| kind != ClaimKind::Takeover))
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

#[cfg(test)]
mod tests {
    use crate::agent::{Command, Input, Now, Offer, Seen};
    use crate::dice::Dice;
    use crate::id::Digest;
    use crate::policy::Policy;
    use crate::run::Run;

    use super::*;

    const MANY: i64 = 100_000;

    fn at(ms: i64) -> Now {
        Now { wall: Millis(ms), mono: Mono(Duration::from_millis(ms as u64)), store: Millis(ms) }
    }

    fn id(n: i64) -> RunId {
        RunId::OnDemand(format!("run-{n:06}").parse().expect("an id"))
    }

    /// What a poll shows of this many runs that nobody has started.
    fn pending(count: i64, now: i64) -> Input {
        let run = |n| (id(n), Some(Standing::from(&Run::new(Millis(n), None))));
        let runs = (0..count).map(run).collect();
        Input::Seen(Seen { runs, store_now: Millis(now), newest_started: None, newest_skipped: None })
    }

    fn told(commands: &[Command]) -> usize {
        let is_told = |command: &&Command| matches!(command, Command::Event(event) if event.kind == EventKind::Pending);
        commands.iter().filter(is_told).count()
    }

    #[test]
    fn many_runs_that_wait_are_told_once_and_cost_no_input_but_the_one_that_shows_them() {
        let (mut agent, mut dice) = (Agent::new(), Dice::new(1));
        let offer = Offer { schedule: None, policy: Policy::default(), digest: Digest([0; 32]) };
        let offered = Input::Offered { offer, since: Millis(0), newest_started: None, newest_skipped: None };
        agent.handle(at(0), offered, &mut dice);
        let shown = agent.handle(at(1), pending(MANY, 1), &mut dice);
        assert!(matches!(&shown[0], Command::Reserve(run) if *run == id(0)), "the oldest first");
        // The others wait; whether that one does is not known yet.
        assert_eq!((shown.len(), told(&shown)), (MANY as usize, MANY as usize - 1));
        assert_eq!(told(&agent.handle(at(2), pending(MANY, 2), &mut dice)), 0);
        // If each input looked at all of them, this would take a hundred thousand million steps and be ended for that.
        for n in 0..10 * MANY {
            assert_eq!(agent.handle(at(3 + n / 1_000), Input::Wake, &mut dice), []);
        }
        assert!(agent.attends(&id(MANY - 1)));
    }

    #[test]
    fn what_the_store_shows_no_more_is_forgotten_and_what_it_shows_again_is_not() {
        let mut demand = Demand::default();
        let (at, shown) = (|s| Mono(Duration::from_secs(s)), Duration::from_secs(20));
        let known = |demand: &mut Demand, now| {
            demand.forget_unseen(at(now), shown, |run| *run == id(9));
            (0..3).filter(|n| demand.has(&id(*n))).collect::<Vec<_>>()
        };
        assert_eq!(known(&mut demand, 0), []);
        (0..2).for_each(|n| demand.wants(at(0), Millis(n), &id(n), false));
        assert_eq!(known(&mut demand, 19), [0, 1]);
        demand.wants(at(19), Millis(1), &id(1), true);
        assert_eq!(known(&mut demand, 20), [1]);
        assert!(demand.has_started(&id(1)) && !demand.has_started(&id(0)));
        demand.wants(at(30), Millis(2), &id(2), false);
        assert_eq!(known(&mut demand, 38), [1, 2]);
        assert_eq!(known(&mut demand, 39), [2]);
        demand.forget(&id(2));
        assert!(known(&mut demand, 40).is_empty() && demand.waiting.is_empty() && demand.untold.is_empty());
        // What is claimed here is not forgotten.
        demand.wants(at(40), Millis(9), &id(9), false);
        assert!(known(&mut demand, 60).is_empty() && demand.has(&id(9)));
        demand.forget(&id(9));
        // What comes when none was left is forgotten in time as well.
        demand.wants(at(61), Millis(0), &id(0), false);
        demand.untold.clear();
        assert_eq!((known(&mut demand, 80), known(&mut demand, 81)), (vec![0], vec![]));
        // It has been told of, and is no news; another one is.
        demand.wants(at(90), Millis(0), &id(0), false);
        assert!(demand.untold.is_empty());
        demand.wants(at(90), Millis(3), &id(3), false);
        assert_eq!(demand.untold.len(), 1);
        for n in 0..2 * TOLD as i64 {
            demand.wants(at(90), Millis(n), &id(n), true);
        }
        assert_eq!((known(&mut demand, 110), demand.told.len()), (vec![], TOLD));
    }
}
