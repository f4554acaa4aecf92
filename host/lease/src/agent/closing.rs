//! From the start of a handler to the record of its end, and the stop of the host.

use crate::id::{Attempt, RunId, Token};
use crate::run::{Outcome, Usage};
use crate::time::Mono;

use super::{Agent, Close, Closing, Command, ENDED_KEPT, EventKind, Part, Start, State, Turn, Verdict};

/// What people are told of a loss.
const LOST: &str = "its lease is lost: nothing more of this attempt is recorded";

impl Agent {
    /// H1: after its `won`, once per win.
    pub(super) fn start(&mut self, t: &mut Turn<'_>, run: &RunId, start: Start) {
        let (token, attempt) = (start.token, start.attempt);
        t.out.push(Command::Start(start));
        self.become_state(t, run, State::Running { token, attempt, lost: false });
    }

    /// The first heartbeat of a late win is ok: now the handler may start.
    pub(super) fn confirmed(&mut self, t: &mut Turn<'_>, run: &RunId, token: Token) {
        match self.parts.get(run).map(|part| &part.state) {
            Some(State::Confirming(start)) if start.token == token => {
                let start = start.clone();
                self.start(t, run, start);
            }
            _ => {}
        }
    }

    /// The run is given back and left alone for a lease. (Any other failure to start is an end like others, and final.)
    pub(super) fn start_refused(&mut self, t: &mut Turn<'_>, run: &RunId, token: Token, why: String) {
        match self.parts.get(run).map(|part| &part.state) {
            Some(State::Running { lost: true, .. }) => self.ended(t, run, token, Verdict::Nothing, Usage::default()),
            _ => self.close(t, run, token, Close::Shun { why }, Usage::default()),
        }
    }

    /// The guest has ended: tell the store, or nobody when the run is lost.
    pub(super) fn ended(&mut self, t: &mut Turn<'_>, run: &RunId, token: Token, verdict: Verdict, usage: Usage) {
        let (attempt, lost) = match self.parts.get(run).map(|part| &part.state) {
            Some(State::Running { token: held, lost, attempt }) if *held == token => (*attempt, *lost),
            _ => return,
        };
        // H2: nothing of a lost attempt is acted on.
        match verdict {
            _ if lost => self.after_loss(t, run, token, attempt),
            Verdict::Finish(outcome) => self.close(t, run, token, Close::Finish(outcome), usage),
            Verdict::Release => self.close(t, run, token, Close::Release, usage),
            Verdict::Nothing => {
                // The guest was told and has ended before the word of it came here.
                self.tell(t, EventKind::Lost, run, Some(attempt), LOST);
                self.after_loss(t, run, token, attempt);
            }
        }
    }

    /// A heartbeat was refused; the guest has been told. Its place is kept until it has ended.
    pub(super) fn lost(&mut self, t: &mut Turn<'_>, run: &RunId, token: Token) {
        match self.parts.get_mut(run).map(|part| &mut part.state) {
            Some(State::Running { token: held, attempt, lost }) if *held == token && !*lost => {
                *lost = true;
                let attempt = *attempt;
                self.tell(t, EventKind::Lost, run, Some(attempt), LOST);
            }
            Some(State::Confirming(start)) if start.token == token => {
                let attempt = start.attempt;
                self.tell(t, EventKind::Lost, run, Some(attempt), LOST);
                self.after_loss(t, run, token, attempt);
            }
            // While closing, the answer to the finish or release decides.
            _ => {}
        }
    }

    /// The store cannot be reached and the lease may have ended.
    pub(super) fn uncertain(&mut self, t: &mut Turn<'_>, run: &RunId, token: Token) {
        match self.parts.get(run).map(|part| &part.state) {
            Some(State::Running { token: held, attempt, .. }) if *held == token => {
                let attempt = *attempt;
                // It has not answered a heartbeat for this long.
                self.silent_since = Some(Mono(t.now.mono.0.saturating_sub(self.policy.lease)));
                let why = "its lease may have ended: no heartbeat was acknowledged in time";
                self.tell(t, EventKind::Uncertain, run, Some(attempt), why);
            }
            _ => {}
        }
    }

    /// The store has recorded the end, or refused it because the run was lost.
    pub(super) fn closed(&mut self, t: &mut Turn<'_>, run: &RunId, token: Token, accepted: bool) {
        if let Some(at) = self.strays.iter().position(|stray| stray.token == token) {
            self.strays.remove(at);
            return;
        }
        let Some(closing) = self.closing(run, token) else { return };
        let (attempt, close) = (closing.attempt, closing.close.clone());
        if !accepted {
            self.tell(t, EventKind::Lost, run, Some(attempt), "the store refused to record its end");
            return self.after_loss(t, run, token, attempt);
        }
        t.out.push(Command::Drop(run.clone(), token));
        match close {
            Close::Finish(outcome) => {
                let (kind, detail) = told(&outcome);
                self.tell(t, kind, run, Some(attempt), detail);
                self.remove(t, run);
                self.demand.may_try_again();
                self.ended.push_back((run.clone(), attempt));
                if self.ended.len() > ENDED_KEPT {
                    self.ended.pop_front();
                }
            }
            Close::Release => {
                let why = format!("handed over: {}", self.why_nothing_new());
                self.tell(t, EventKind::Interrupted, run, Some(attempt), why);
                self.remove(t, run);
            }
            Close::Shun { why } => {
                self.tell(t, EventKind::Interrupted, run, Some(attempt), format!("handed over: {why}"));
                let until = t.now.mono + self.policy.lease;
                self.become_state(t, run, State::Shunned { until });
                if !self.takes_new() {
                    self.remove(t, run);
                }
            }
        }
    }

    /// No answer: the same again, a finish until there is one, a release for a lease.
    pub(super) fn close_unanswered(&mut self, t: &mut Turn<'_>, run: &RunId, token: Token) {
        let resend = Some(t.now.mono + self.policy.store_deadline());
        self.store_silent(t.now.mono, t.now.mono);
        if let Some(stray) = self.strays.iter_mut().find(|stray| stray.token == token) {
            stray.resend = resend;
        } else if let Some(closing) = self.closing(run, token) {
            closing.resend = resend;
        }
    }

    pub(super) fn resend_close(&mut self, t: &mut Turn<'_>, run: &RunId) {
        let Some(State::Closing(closing)) = self.parts.get_mut(run).map(|part| &mut part.state) else { return };
        if closing.give_up.is_some_and(|at| at <= t.now.mono) {
            // The lease has run out by itself: a backup takes the run over.
            return self.remove(t, run);
        }
        closing.resend = None;
        t.out.push(closing.command(run));
    }

    /// The host stops: nothing new, running guests are told, unused wins are given back.
    pub(super) fn stop(&mut self, t: &mut Turn<'_>) {
        self.stopping = true;
        self.next_slot = None;
        self.demand.clear();
        self.give_unstarted_back(t);
        for run in self.parts.keys().cloned().collect::<Vec<_>>() {
            match &self.parts[&run].state {
                State::Running { token, .. } => t.out.push(Command::Signal(run, *token)),
                State::Closing(_) => {}
                State::Confirming(_) => {}
                // A copy on its way is given back when it wins; one that was not answered may have won.
                State::Claiming(claiming) if claiming.resend.is_none() => {}
                State::Claiming(claiming) => {
                    let token = claiming.claim.token;
                    self.release_stray(t, &run, token);
                    self.remove(t, &run);
                }
                State::Waiting { .. }
                | State::Jitter { .. }
                | State::Yielding { .. }
                | State::Early { .. }
                | State::Backup(_)
                | State::Shunned { .. } => {
                    self.remove(t, &run);
                }
            }
        }
    }

    /// Wins whose handlers wait for a first heartbeat are handed over: this instance takes nothing new.
    pub(super) fn give_unstarted_back(&mut self, t: &mut Turn<'_>) {
        let unstarted = |(run, part): (&RunId, &Part)| match &part.state {
            State::Confirming(start) => Some((run.clone(), start.token)),
            _ => None,
        };
        for (run, token) in self.parts.iter().filter_map(unstarted).collect::<Vec<_>>() {
            self.close(t, &run, token, Close::Release, Usage::default());
        }
    }

    /// H5: guests that still run are interrupted, so that they end and are handed over.
    pub(super) fn stop_force(&mut self, t: &mut Turn<'_>) {
        for (run, part) in &self.parts {
            if let State::Running { token, .. } = part.state {
                t.out.push(Command::Force(run.clone(), token));
            }
        }
    }

    /// Begins to tell the store. Heartbeats go on until a finish is answered; a release ends them first, for the store
    /// refuses those that come after it.
    fn close(&mut self, t: &mut Turn<'_>, run: &RunId, token: Token, close: Close, usage: Usage) {
        let attempt = match self.parts.get(run).map(|part| &part.state) {
            Some(State::Running { token: held, attempt, .. }) if *held == token => *attempt,
            Some(State::Confirming(start)) if start.token == token => start.attempt,
            _ => return,
        };
        let give_up = match close {
            Close::Finish(_) => None,
            Close::Release | Close::Shun { .. } => {
                t.out.push(Command::Drop(run.clone(), token));
                Some(t.now.mono + self.policy.lease)
            }
        };
        let closing = Closing { token, attempt, close, usage, resend: None, give_up };
        t.out.push(closing.command(run));
        self.become_state(t, run, State::Closing(closing));
    }

    /// The run goes on elsewhere: this instance is its backup now.
    fn after_loss(&mut self, t: &mut Turn<'_>, run: &RunId, token: Token, attempt: Attempt) {
        t.out.push(Command::Drop(run.clone(), token));
        if !self.takes_new() {
            self.remove(t, run);
        } else {
            self.back_up(t, run, Some(attempt), None);
        }
    }

    fn closing(&mut self, run: &RunId, token: Token) -> Option<&mut Closing> {
        match self.parts.get_mut(run).map(|part| &mut part.state) {
            Some(State::Closing(closing)) if closing.token == token => Some(closing),
            _ => None,
        }
    }
}

impl Closing {
    fn command(&self, run: &RunId) -> Command {
        let (run, token, usage) = (run.clone(), self.token, self.usage);
        match &self.close {
            Close::Finish(outcome) => Command::Finish { run, token, outcome: outcome.clone(), usage },
            Close::Release | Close::Shun { .. } => Command::Release { run, token, usage },
        }
    }
}

/// How an outcome is told to people.
fn told(outcome: &Outcome) -> (EventKind, String) {
    match outcome {
        Outcome::Success { output, .. } => (EventKind::Success, format!("{} bytes of output", output.len())),
        Outcome::Failed(failure) => (EventKind::Failed, format!("{}: {}", failure.code, failure.message)),
        // A handler's end is recorded so only when someone asked for it to be cancelled.
        Outcome::Interrupted { reason } => (EventKind::Cancelled, reason.clone()),
    }
}
