//! One instance's part in one job, as a state machine without I/O.
//!
//! A driver hands every happening to [`Agent::handle`] and carries out the commands it answers; at
//! [`Agent::next_wakeup`] it hands in [`Input::Wake`]. The agent reads no clock and draws no random number: both come in
//! with the input.

mod backups;
mod claims;
mod closing;
mod demand;
mod io;
mod recovery;
mod slots;
mod telling;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::id::{Attempt, Digest, RunId, Token};
use crate::op::{Claim, ClaimKind};
use crate::order::is_ahead;
use crate::policy::{CLOCK_GRACE, Policy};
use crate::run::{Outcome, Usage};
use crate::time::{Millis, Mono, Slot};

use demand::Demand;
use telling::Told;

pub use io::{Chance, Command, Event, EventKind, Input, Now, Offer, Seen, Start, Verdict};

/// No wait is longer, so that a clock that was set or a machine that slept is noticed.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A wall clock that was not believed is, when it is as near to the store's.
const TRUSTED_AGAIN: Duration = Duration::from_secs(8);

/// Runs that ended here and are remembered: far more than end within one call to the store.
const ENDED_KEPT: usize = 16;

/// See the module.
#[derive(Debug, Default)]
pub struct Agent {
    /// What this instance can run; none before the first offer and after a withdrawal.
    offer: Option<Offer>,
    /// The policy of the newest offer: what runs goes on by it after a withdrawal.
    policy: Policy,
    /// Slots before this are not caught up.
    since: Millis,
    /// As far as the store has told.
    newest_started: Option<Slot>,
    /// As far as the store has told.
    newest_skipped: Option<Slot>,
    /// The slot this instance waits for.
    next_slot: Option<Slot>,
    /// The wall clock at the last input, to notice that it was set back.
    last_wall: Millis,
    /// The wall clock is not believed: see [`Agent::distrusts_wall`].
    by_store: bool,
    /// A claim was given up because the store did not answer: look for a slot to catch up when it does.
    store_failed: bool,
    /// People were told so, and no claim has been answered since.
    store_down_told: bool,
    /// When the store last answered this agent.
    answered: Mono,
    /// Since when it has not.
    silent_since: Option<Mono>,
    /// When the store was last found to answer again after so long that leases may have ended, or this instance to go
    /// on after it had stood still.
    recovered: Option<Mono>,
    stopping: bool,
    /// Someone asked this host to take nothing new.
    draining: bool,
    /// It goes on after that: what became of the slots meanwhile is told when the store has said what started elsewhere.
    resumes: bool,
    /// On-demand runs that nobody executes.
    demand: Demand,
    /// What people were told.
    told: Told,
    /// Expired runs that were left for the next slot.
    left: BTreeSet<RunId>,
    /// The last runs that ended here, and by which attempt: what the store showed of them before is outdated.
    ended: VecDeque<(RunId, Attempt)>,
    parts: BTreeMap<RunId, Part>,
    /// Wins that came too late to be used, until their release is answered.
    strays: Vec<Stray>,
}

/// What this instance does about one run.
#[derive(Debug)]
struct Part {
    place: Place,
    state: State,
}

/// A place among those that this host has for guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    None,
    Asked,
    Held,
}

#[derive(Debug)]
enum State {
    /// Waits for a place, until it could only be late where it can be.
    Waiting { kind: ClaimKind, until: Option<Mono> },
    /// Has a place and waits the jitter.
    Jitter { kind: ClaimKind, at: Mono },
    /// Has a place, and lets go first what the store must hear before: see [`Agent::yields`].
    Yielding { kind: ClaimKind, at: Mono, until: Mono },
    /// The slot is still ahead by the store's clock.
    Early { kind: ClaimKind, at: Mono },
    /// A claim was sent.
    Claiming(Claiming),
    /// Another instance runs it, or may: check again.
    Backup(Backup),
    /// Won, but so long after the claim was sent that a heartbeat must be ok first.
    Confirming(Start),
    /// The handler runs here.
    Running { token: Token, attempt: Attempt, lost: bool },
    /// The guest has ended and the store is to be told.
    Closing(Closing),
    /// This host lacked the resources to start it: it leaves the run alone.
    Shunned { until: Mono },
}

#[derive(Debug)]
struct Claiming {
    claim: Claim,
    /// When the run was due.
    due: Millis,
    /// When the last copy was sent.
    sent: Mono,
    first_sent: Mono,
    /// From here on it could only be late, or a lease has passed.
    give_up: Mono,
    /// When to send it again; none while a copy is on its way.
    resend: Option<Mono>,
}

#[derive(Debug)]
struct Backup {
    /// When to look again; none while the store is asked or a place is awaited.
    check: Option<Mono>,
    /// For an own slot that was skipped: until when it could still be started by someone.
    skipped_until: Option<Mono>,
    /// When last heard of, somebody executed it.
    live: bool,
    /// A win of this instance has ended it, unless it had ended before: then nobody else says so.
    outrun: bool,
}

#[derive(Debug)]
struct Closing {
    token: Token,
    attempt: Attempt,
    close: Close,
    usage: Usage,
    resend: Option<Mono>,
    /// A release is not tried for longer than a lease.
    give_up: Option<Mono>,
}

#[derive(Debug, Clone)]
enum Close {
    Finish(Outcome),
    /// Handed over because the host stops.
    Release,
    /// Handed over because this host lacks the resources: it leaves the run alone for a lease.
    Shun {
        why: String,
    },
}

#[derive(Debug)]
struct Stray {
    run: RunId,
    token: Token,
    resend: Option<Mono>,
    give_up: Mono,
}

/// One call of [`Agent::handle`]: its clocks, its chance, and the commands so far.
struct Turn<'a> {
    now: Now,
    chance: &'a mut dyn Chance,
    out: Vec<Command>,
}

impl Turn<'_> {
    /// A random time between one and two heartbeats from now. An eighth of a heartbeat is left to the driver, so that
    /// checks that are due at about the same time can share a call.
    fn next_check(&mut self, policy: &Policy) -> Mono {
        self.now.mono + policy.heartbeat + self.chance.up_to(policy.heartbeat * 7 / 8)
    }
}

impl Agent {
    /// An agent that knows nothing yet.
    pub fn new() -> Agent {
        Agent::default()
    }

    /// Takes in what happened and says what to do about it.
    pub fn handle(&mut self, now: Now, input: Input, chance: &mut dyn Chance) -> Vec<Command> {
        self.by_store = self.distrusts_wall(now);
        let mut turn = Turn { now: self.corrected(now), chance, out: Vec::new() };
        self.notice_freeze(&turn);
        self.take(&mut turn, input);
        self.wall_set_back(&turn);
        self.catch_up_after_outage(&mut turn);
        self.look_for_slot(&mut turn);
        self.wake_parts(&mut turn);
        self.yielding_go_on(&mut turn);
        self.look_for_demand(&mut turn);
        turn.out
    }

    /// When [`Input::Wake`] is due.
    pub fn next_wakeup(&self, now: Now) -> Option<Mono> {
        let now = self.corrected(now);
        let by_slot = self.next_slot.map(|slot| now.mono + slot.0.since(now.wall));
        let by_part = self.parts.values().filter_map(Part::wakeup).min();
        let by_stray = self.strays.iter().map(|s| s.resend.unwrap_or(s.give_up)).min();
        let by_demand = self.demand.wakeup();
        let first = by_slot.into_iter().chain(by_part).chain(by_stray).chain(by_demand).min()?;
        Some(first.min(now.mono + LONGEST_WAIT))
    }

    /// The agent was told that this host offers the job, and not that it does no more.
    pub fn is_offered(&self) -> bool {
        self.offer.is_some()
    }

    /// Nothing of this job is left to do here: after a stop, the host may end.
    pub fn is_idle(&self) -> bool {
        self.parts.is_empty() && self.strays.is_empty()
    }

    /// A claim that is on its way, or a win whose handler is yet to be started, names this plugin.
    pub fn names(&self, digest: &Digest) -> bool {
        let named = |part: &Part| match &part.state {
            State::Claiming(claiming) => claiming.claim.digest,
            State::Confirming(start) => start.digest,
            _ => None,
        };
        self.parts.values().any(|part| named(part).as_ref() == Some(digest))
    }

    /// H4: this instance does what it should about an unfinished run: it executes it, backs it up, or leaves it on
    /// purpose; or it takes nothing new.
    pub fn attends(&self, run: &RunId) -> bool {
        !self.takes_new() || self.parts.contains_key(run) || self.left.contains(run) || self.demand.has(run)
    }

    fn take(&mut self, t: &mut Turn<'_>, input: Input) {
        match input {
            Input::Wake => {}
            Input::Offered { offer, since, newest_started, newest_skipped } => {
                self.heard(t, newest_started, newest_skipped);
                self.offered(t, offer, since);
            }
            Input::Withdrawn => self.withdrawn(t),
            Input::Drain(drain) => self.drain(t, drain),
            Input::Woken => self.woken(t),
            Input::Place(run) => self.placed(t, &run),
            Input::NoPlace { run, why } => self.no_place(t, &run, why),
            Input::Claimed { run, token, answer, store_now } => self.claimed(t, &run, token, answer, store_now),
            Input::ClaimUnanswered { run, token } => self.claim_unanswered(t, &run, token),
            Input::Seen(seen) => {
                self.heard(t, seen.newest_started, seen.newest_skipped);
                seen.runs.iter().for_each(|(run, record)| self.seen(t, run, record.as_ref(), seen.store_now));
            }
            Input::CheckUnanswered(run) => self.check_unanswered(t, &run),
            Input::StoreUp => self.store_up(t),
            Input::Confirmed(run, token) => self.confirmed(t, &run, token),
            Input::StartRefused { run, token, why } => self.start_refused(t, &run, token, why),
            Input::Ended { run, token, verdict, usage } => self.ended(t, &run, token, verdict, usage),
            Input::Lost(run, token) => self.lost(t, &run, token),
            Input::Uncertain(run, token) => self.uncertain(t, &run, token),
            Input::Closed { run, token, accepted } => self.closed(t, &run, token, accepted),
            Input::CloseUnanswered { run, token } => self.close_unanswered(t, &run, token),
            Input::Stop => self.stop(t),
            Input::StopForce => self.stop_force(t),
        }
    }

    /// A wall clock that differs from the store's by more than clocks may differ is not believed: slot after slot would
    /// be begun too early and wait, or be given up as late without a word to the store. One that is not believed must
    /// come nearer before it is again, so that a difference about as large does not set the time back and forth.
    fn distrusts_wall(&self, now: Now) -> bool {
        let apart = now.wall.since(now.store).max(now.store.since(now.wall));
        apart > if self.by_store { TRUSTED_AGAIN } else { CLOCK_GRACE }
    }

    fn corrected(&self, now: Now) -> Now {
        if self.distrusts_wall(now) { Now { wall: now.store, ..now } } else { now }
    }

    /// Whether this instance may begin anything.
    fn takes_new(&self) -> bool {
        self.offer.is_some() && !self.stopping && !self.draining
    }

    /// For people, where it may not.
    fn why_nothing_new(&self) -> &'static str {
        if self.stopping { "the host stops" } else { "this host takes nothing new" }
    }

    /// Remembers the newest slots that the store has told of. Answers may be outdated, so they only rise, but for one
    /// that the store's clock calls the future: an unblock lowers it.
    fn heard(&mut self, t: &mut Turn<'_>, newest_started: Option<Slot>, newest_skipped: Option<Slot>) {
        self.store_answered(t.now.mono);
        let now = t.now.store;
        let newest = |known: Option<Slot>, heard: Option<Slot>| match known {
            Some(slot) if heard.is_some() && is_ahead(slot.0, now) => heard,
            _ => known.max(heard),
        };
        self.newest_started = newest(self.newest_started, newest_started);
        self.newest_skipped = newest(self.newest_skipped, newest_skipped);
        // What was left for a newer slot has been replaced.
        self.left.retain(|left| left.slot() >= self.newest_started);
        if let Some(newest) = newest_started.filter(|newest| is_ahead(newest.0, now)) {
            let detail = format!(
                "no slot before it starts: it is {now} by the store's clock; `leasehold unblock` frees the job"
            );
            self.tell(t, EventKind::Blocked, &RunId::Slot(newest), None, detail);
        }
    }

    /// Acts on every part whose time has come.
    fn wake_parts(&mut self, t: &mut Turn<'_>) {
        let due = |part: &Part| part.wakeup().is_some_and(|at| at <= t.now.mono);
        let runs: Vec<RunId> = self.parts.iter().filter(|(_, part)| due(part)).map(|(run, _)| run.clone()).collect();
        for run in runs {
            self.wake_part(t, &run);
        }
        self.wake_strays(t);
    }

    fn wake_part(&mut self, t: &mut Turn<'_>, run: &RunId) {
        let Some(part) = self.parts.get_mut(run) else { return };
        match &mut part.state {
            State::Waiting { .. } => self.waited_too_long(t, run),
            State::Jitter { kind, .. } => {
                let kind = *kind;
                self.claim(t, run, kind);
            }
            State::Early { kind, .. } => {
                let kind = *kind;
                self.ask_for_place(t, run, kind);
            }
            State::Claiming(_) => self.resend_claim(t, run),
            State::Backup(backup) => {
                backup.check = None;
                t.out.push(Command::Check(run.clone()));
            }
            State::Closing(_) => self.resend_close(t, run),
            State::Shunned { .. } => self.remove(t, run),
            // Looked at with every input.
            State::Yielding { .. } => {}
            State::Confirming(_) | State::Running { .. } => {}
        }
    }

    /// Ends this instance's part in a run and gives its place back.
    fn remove(&mut self, t: &mut Turn<'_>, run: &RunId) {
        if let Some(part) = self.parts.remove(run)
            && part.place != Place::None
        {
            t.out.push(Command::Free(run.clone()));
        }
    }

    /// Goes over to another state; the place is kept only where the new state needs one.
    fn become_state(&mut self, t: &mut Turn<'_>, run: &RunId, state: State) {
        let needs_place = matches!(
            state,
            State::Jitter { .. }
                | State::Yielding { .. }
                | State::Claiming(_)
                | State::Confirming(_)
                | State::Running { .. }
                | State::Waiting { .. }
        );
        let part = self.parts.entry(run.clone()).or_insert_with(|| Part::new(t.now.mono));
        part.state = state;
        if !needs_place && part.place != Place::None {
            part.place = Place::None;
            t.out.push(Command::Free(run.clone()));
        }
    }
}

impl State {
    /// What is about to be claimed, or was and is not answered.
    fn claims(&self) -> Option<ClaimKind> {
        match self {
            State::Waiting { kind, .. } | State::Jitter { kind, .. } | State::Yielding { kind, .. } => Some(*kind),
            State::Claiming(claiming) => Some(claiming.claim.kind),
            _ => None,
        }
    }

    /// Nothing of it has been sent to the store.
    fn is_unclaimed(&self) -> bool {
        matches!(
            self,
            State::Waiting { .. }
                | State::Jitter { .. }
                | State::Yielding { .. }
                | State::Early { .. }
                | State::Backup(_)
                | State::Shunned { .. }
        )
    }
}

impl Part {
    /// Without a place, to be put into its first state at once.
    fn new(now: Mono) -> Part {
        Part { place: Place::None, state: State::Shunned { until: now } }
    }

    /// When this part wants to be woken.
    fn wakeup(&self) -> Option<Mono> {
        match &self.state {
            State::Waiting { until, .. } => *until,
            State::Jitter { at, .. } | State::Early { at, .. } => Some(*at),
            State::Yielding { at, until, .. } => Some(*at.min(until)),
            State::Claiming(claiming) => claiming.resend,
            State::Backup(backup) => backup.check,
            State::Confirming(_) | State::Running { .. } => None,
            State::Closing(closing) => closing.resend,
            State::Shunned { until } => Some(*until),
        }
    }
}
