//! From a place to a claim to its answer.

use std::time::Duration;

use crate::id::{Attempt, RunId, Token};
use crate::op::{Claim, ClaimAnswer, ClaimKind};
use crate::policy::CLOCK_GRACE;
use crate::run::Status;
use crate::time::{Millis, Mono};

use super::{Agent, Backup, Claiming, Command, EventKind, Place, Start, State, Stray, Turn};

impl Agent {
    /// A place is free for this run.
    pub(super) fn placed(&mut self, t: &mut Turn<'_>, run: &RunId) {
        let kind = match self.parts.get_mut(run) {
            Some(part) if part.place == Place::Asked => {
                part.place = Place::Held;
                match part.state {
                    State::Waiting { kind, .. } => kind,
                    State::Backup(_) => ClaimKind::Takeover,
                    _ => return,
                }
            }
            // Nobody waits for it any more.
            _ => return t.out.push(Command::Free(run.clone())),
        };
        let limit = match kind {
            ClaimKind::Slot => self.policy.jitter,
            ClaimKind::CatchUp { .. } => self.policy.catch_up_jitter,
            ClaimKind::Takeover | ClaimKind::OnDemand => return self.claim(t, run, kind),
        };
        let at = t.now.mono + t.chance.up_to(limit);
        self.become_state(t, run, State::Jitter { kind, at });
    }

    /// No place is free. A slot waits for one until it could only be late; a backup stays one.
    pub(super) fn no_place(&mut self, t: &mut Turn<'_>, run: &RunId, why: &str) {
        let waits = |state: &State| matches!(state, State::Waiting { .. } | State::Backup(_));
        if self.parts.get(run).is_some_and(|part| waits(&part.state)) {
            self.tell(t, EventKind::NoPlace, run, None, format!("waits for one: {why}"));
        }
    }

    /// No place until it could only be late.
    pub(super) fn waited_too_long(&mut self, t: &mut Turn<'_>, run: &RunId) {
        self.tell(t, EventKind::Late, run, None, "no place was free in time");
        self.remove(t, run);
        t.out.push(Command::Poll);
    }

    /// Sends a new claim.
    pub(super) fn send_claim(&mut self, t: &mut Turn<'_>, run: &RunId, kind: ClaimKind) {
        let Some(due) = run.slot().map(|slot| slot.0).or_else(|| self.demand.due(run)) else {
            // It was asked for, and is not known to be there any more: when the store shows it, it is wanted again.
            return self.remove(t, run);
        };
        let Some(offer) = &self.offer else { return self.remove(t, run) };
        let kind = match (kind, run.slot()) {
            (ClaimKind::CatchUp { .. }, Some(slot)) => ClaimKind::CatchUp { age: t.now.store.since(slot.0) },
            _ => kind,
        };
        let claim = Claim {
            run: run.clone(),
            kind,
            token: t.chance.token(),
            runner: String::new(),
            digest: Some(offer.digest),
            terms: self.policy.terms(),
            not_after: Millis(0),
        };
        let give_up = t.now.mono + self.time_to_be_late(t, run, kind);
        t.out.push(Command::Claim(claim.clone()));
        let (sent, first_sent) = (t.now.mono, t.now.mono);
        self.become_state(t, run, State::Claiming(Claiming { claim, due, sent, first_sent, give_up, resend: None }));
    }

    /// How long a claim sent now may be resent: a slot's until it could only be late, others for a lease.
    pub(super) fn time_to_be_late(&self, t: &Turn<'_>, run: &RunId, kind: ClaimKind) -> Duration {
        match (kind.bound(&self.policy.terms()), run.slot()) {
            (Some(bound), Some(slot)) => (slot.0 + bound + CLOCK_GRACE).since(t.now.store),
            _ => self.policy.lease,
        }
    }

    /// Waits for a place until it could only be late; the claim follows when there is one.
    pub(super) fn ask_for_place(&mut self, t: &mut Turn<'_>, run: &RunId, kind: ClaimKind) {
        let left = self.time_to_be_late(t, run, kind);
        // Others are never late.
        let until = kind.is_of_slot().then(|| t.now.mono + left);
        if left.is_zero() {
            self.tell(t, EventKind::Late, run, None, format!("it is {} by the store's clock", t.now.store));
            return self.remove(t, run);
        }
        if kind.is_of_slot() {
            self.demand_stands_back(t);
        }
        self.become_state(t, run, State::Waiting { kind, until });
        if let Some(part) = self.parts.get_mut(run).filter(|part| part.place == Place::None) {
            part.place = Place::Asked;
            t.out.push(Command::Reserve(run.clone()));
        }
    }

    /// The claim was not answered: send the same again soon, or give it up.
    pub(super) fn claim_unanswered(&mut self, t: &mut Turn<'_>, run: &RunId, token: Token) {
        let (pause, useless) = (self.policy.store_deadline(), !self.takes_new());
        let swallowed = self.is_swallowed(run);
        let Some(claiming) = self.claiming(run, token) else { return };
        let (kind, sent) = (claiming.claim.kind, claiming.sent);
        self.store_silent(t.now.mono, sent);
        let Some(claiming) = self.claiming(run, token) else { return };
        if useless {
            return self.give_claim_up(t, run, token);
        }
        if t.now.mono < claiming.give_up && !swallowed {
            claiming.resend = Some(t.now.mono + pause);
            return;
        }
        self.tell_given_up(t, run, kind, "the store did not answer its claim in time");
        self.give_claim_up(t, run, token);
    }

    /// A copy may have won all the same: what was won is given back by its token.
    fn give_claim_up(&mut self, t: &mut Turn<'_>, run: &RunId, token: Token) {
        self.release_stray(t, run, token);
        self.remove(t, run);
        t.out.push(Command::Poll);
    }

    /// S13: the same token, so that a copy that did arrive is not a second claim.
    pub(super) fn resend_claim(&mut self, t: &mut Turn<'_>, run: &RunId) {
        let until = match self.parts.get(run).map(|part| &part.state) {
            Some(State::Claiming(claiming)) => claiming.give_up,
            _ => return,
        };
        let yields = self.yields(t.now.mono, run, until);
        if let Some(State::Claiming(claiming)) = self.parts.get_mut(run).map(|part| &mut part.state) {
            if yields.is_some() {
                claiming.resend = yields;
                return;
            }
            (claiming.sent, claiming.resend) = (t.now.mono, None);
            t.out.push(Command::Claim(claiming.claim.clone()));
        }
    }

    /// The store has answered a claim.
    pub(super) fn claimed(
        &mut self,
        t: &mut Turn<'_>,
        run: &RunId,
        token: Token,
        answer: ClaimAnswer,
        store_now: Millis,
    ) {
        let (pause, useless) = (self.policy.store_deadline(), !self.takes_new());
        let Some(claiming) = self.claiming(run, token) else {
            // The answer to a claim that was given up: what it won is given back at once.
            if matches!(answer, ClaimAnswer::Won { .. }) && !self.holds(run, token) {
                self.release_stray(t, run, token);
            }
            return;
        };
        let (kind, due) = (claiming.claim.kind, claiming.due);
        let (first_sent, digest) = (claiming.first_sent, claiming.claim.digest);
        let in_time = t.now.mono < claiming.give_up;
        self.store_answered(t.now.mono);
        if !matches!(answer, ClaimAnswer::Overlap { .. } | ClaimAnswer::Old) {
            self.demand.forget(run);
        }
        let claiming = self.claiming(run, token).expect("it was found a moment ago");
        match answer {
            ClaimAnswer::Won { attempt, fence, payload } => {
                let reason = reason(kind, attempt);
                let start = Start { run: run.clone(), token, attempt, fence, reason, due, digest, first_sent, payload };
                self.won(t, run, kind, start);
            }
            // Never a burst: it may be the answer to a copy that was given up, while another is on its way.
            ClaimAnswer::Old if in_time && !useless => {
                claiming.resend = Some((claiming.sent + pause).max(t.now.mono));
            }
            ClaimAnswer::Old => {
                if !useless {
                    self.tell_given_up(t, run, kind, "its claims reached the store too late");
                }
                self.give_claim_up(t, run, token);
            }
            ClaimAnswer::Early => self.early(t, run, kind, store_now),
            _ if useless => self.remove(t, run),
            ClaimAnswer::Running { attempt, .. } => self.back_up(t, run, Some(attempt), None),
            ClaimAnswer::Stale => self.back_up(t, run, None, None),
            ClaimAnswer::Overlap { with } => self.overlapped(t, run, kind, with),
            ClaimAnswer::Ended(status) => {
                // Found exhausted or outrun by this claim, or given up a moment before: the record says why, and that is
                // told when it has been looked at.
                if status == Status::Interrupted {
                    let check = Some(t.now.mono);
                    let backup = Backup { check, skipped_until: None, live: false, outrun: true };
                    self.become_state(t, run, State::Backup(backup));
                } else {
                    self.remove(t, run);
                }
            }
            ClaimAnswer::None { newest_started } => {
                self.heard(t, newest_started, None);
                self.remove(t, run);
            }
            ClaimAnswer::Late => {
                self.tell(t, EventKind::Late, run, None, format!("it is {store_now} by the store's clock"));
                self.remove(t, run);
                t.out.push(Command::Poll);
            }
            ClaimAnswer::Held { until } => {
                let detail = until.map_or_else(|| "until it is resumed".to_owned(), |until| format!("until {until}"));
                self.tell(t, EventKind::Held, run, None, detail);
                self.heard(t, None, run.slot());
                self.remove(t, run);
            }
            ClaimAnswer::Superseded { newest_started } => {
                self.heard(t, newest_started, None);
                let detail = newest_started.map_or(String::new(), |newest| format!("slot {newest} has started"));
                self.tell(t, EventKind::Superseded, run, None, detail);
                self.remove(t, run);
            }
        }
    }

    fn won(&mut self, t: &mut Turn<'_>, run: &RunId, kind: ClaimKind, start: Start) {
        let (attempt, token, fence) = (start.attempt, start.token, start.fence);
        self.outruns(t, run);
        self.heard(t, run.slot(), None);
        self.tell(t, EventKind::Claimed, run, Some(attempt), format!("fence {}", fence.0));
        if let ClaimKind::CatchUp { age } = kind {
            self.tell(t, EventKind::CatchUp, run, Some(attempt), format!("{} s after it was due", age.as_secs()));
        }
        if attempt > Attempt(1) {
            self.tell(t, EventKind::Takeover, run, Some(attempt), "");
        }
        if !self.takes_new() {
            let why = format!("to be handed over before it begins: {}", self.why_nothing_new());
            self.tell(t, EventKind::Interrupted, run, Some(attempt), why);
            self.release_stray(t, run, token);
            return self.remove(t, run);
        }
        // The lease counts from the first sending. When that is over, a heartbeat must be ok before the handler starts.
        if t.now.mono.since(start.first_sent) >= self.policy.lease {
            t.out.push(Command::Confirm(start.clone()));
            return self.become_state(t, run, State::Confirming(start));
        }
        self.start(t, run, start);
    }

    /// The slot is ahead by the store's clock: wait by the own timer and claim again.
    fn early(&mut self, t: &mut Turn<'_>, run: &RunId, kind: ClaimKind, store_now: Millis) {
        if !self.takes_new() {
            return self.remove(t, run);
        }
        let ahead = run.slot().map_or(Duration::ZERO, |slot| slot.0.since(store_now));
        self.tell(t, EventKind::Early, run, None, format!("{} ms ahead by the store's clock", ahead.as_millis()));
        self.become_state(t, run, State::Early { kind, at: t.now.mono + ahead });
    }

    /// Another run of the job is live: back it up, and watch the own slot while someone could still start it.
    fn overlapped(&mut self, t: &mut Turn<'_>, run: &RunId, kind: ClaimKind, with: RunId) {
        if !self.parts.contains_key(&with) {
            self.back_up(t, &with, None, None);
        }
        match kind {
            ClaimKind::Slot | ClaimKind::CatchUp { .. } => {
                self.tell(t, EventKind::Skip, run, None, format!("{with} is still running"));
                self.heard(t, None, run.slot());
                let until = t.now.mono + self.time_to_be_late(t, run, kind);
                self.back_up(t, run, None, Some(until));
            }
            // A takeover that is refused for overlap waits like any backup.
            ClaimKind::Takeover => self.back_up(t, run, None, None),
            ClaimKind::OnDemand => self.stays(t, run),
        }
    }

    /// Becomes a backup of a run; said once.
    pub(super) fn back_up(&mut self, t: &mut Turn<'_>, run: &RunId, of: Option<Attempt>, skipped_until: Option<Mono>) {
        let check = Some(t.next_check(&self.policy));
        let backup = Backup { check, skipped_until, live: true, outrun: false };
        self.become_state(t, run, State::Backup(backup));
        if skipped_until.is_none() {
            self.tell(t, EventKind::Backup, run, of, "");
        }
    }

    /// Gives back a win that is not used.
    pub(super) fn release_stray(&mut self, t: &mut Turn<'_>, run: &RunId, token: Token) {
        // Sent again for one that is known: its first release may have come before the win.
        if !self.strays.iter().any(|stray| stray.token == token) {
            let give_up = t.now.mono + self.policy.lease;
            self.strays.push(Stray { run: run.clone(), token, resend: None, give_up });
        }
        t.out.push(Command::Release { run: run.clone(), token, usage: Default::default() });
    }

    /// Sends releases of unused wins again; after a lease they no longer matter.
    pub(super) fn wake_strays(&mut self, t: &mut Turn<'_>) {
        let now = t.now.mono;
        self.strays.retain(|stray| now < stray.give_up);
        for stray in &mut self.strays {
            if stray.resend.is_some_and(|at| at <= now) {
                stray.resend = None;
                t.out.push(Command::Release { run: stray.run.clone(), token: stray.token, usage: Default::default() });
            }
        }
    }

    fn claiming(&mut self, run: &RunId, token: Token) -> Option<&mut Claiming> {
        match self.parts.get_mut(run).map(|part| &mut part.state) {
            Some(State::Claiming(claiming)) if claiming.claim.token == token => Some(claiming),
            _ => None,
        }
    }

    /// Whether this token is one that this instance works under.
    fn holds(&self, run: &RunId, token: Token) -> bool {
        match self.parts.get(run).map(|part| &part.state) {
            Some(State::Confirming(start)) => start.token == token,
            Some(State::Running { token: held, .. }) => *held == token,
            Some(State::Closing(closing)) => closing.token == token,
            _ => false,
        }
    }
}

/// The word that the handler is told.
fn reason(kind: ClaimKind, attempt: Attempt) -> &'static str {
    match kind {
        _ if attempt > Attempt(1) => "takeover",
        ClaimKind::Slot => "schedule",
        ClaimKind::CatchUp { .. } => "catch-up",
        ClaimKind::Takeover => "takeover",
        ClaimKind::OnDemand => "on-demand",
    }
}
