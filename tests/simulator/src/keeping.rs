//! Running handlers, the leases they run under, and what they do outside.

use std::collections::VecDeque;

use leasehold_lease::agent::{Input, Start, Verdict};
use leasehold_lease::holding::{Act, Holding, Sign};
use leasehold_lease::id::Token;
use leasehold_lease::op::{Heartbeat, HeartbeatAnswer};
use leasehold_lease::policy::Fencing;
use leasehold_lease::run::{Failure, Outcome, Usage};
use leasehold_lease::time::Mono;

use crate::host::{Guest, Lease, Request};
use crate::world::{Event, Mail, World};

/// Why a guest ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Its work is done.
    Itself,
    /// It saw the signal, or was interrupted.
    Stopped,
}

impl World {
    pub(crate) fn start(&mut self, host: usize, start: Start, queue: &mut VecDeque<Input>) {
        let now = self.now;
        if self.hosts[host].want_until > now {
            self.trail.count("start-refused");
            queue.push_back(Input::StartRefused { run: start.run, token: start.token, why: "no memory".to_owned() });
            return;
        }
        self.watch.starts(now, host, &start, &self.store);
        self.say(host, Some(&start.run), || format!("starts attempt {}", start.attempt));
        self.happened(host, "start", Some(start.run.clone()), Some(start.attempt));
        let takes = self.dice.between(self.plan.takes.0, self.plan.takes.1);
        let verdict = match self.dice.percent(self.plan.failing) {
            false => Verdict::Finish(Outcome::Success { output: Vec::new(), cut: false }),
            true => Verdict::Finish(Outcome::Failed(Failure {
                code: "no".into(),
                message: String::new(),
                details: Vec::new(),
                retryable: false,
            })),
        };
        let listens = !self.dice.percent(self.plan.stubborn);
        let guest = Guest { verdict, listens, lost: false, cancelled: false, asked: None };
        self.hold(host, &start, Some(guest));
        self.ends_in(host, start.token, takes, End::Itself);
        self.acts_soon(host, start.token);
    }

    /// Heartbeats before the handler starts.
    pub(crate) fn confirm(&mut self, host: usize, start: &Start) {
        self.trail.count("confirm");
        self.hold(host, start, None);
    }

    fn hold(&mut self, host: usize, start: &Start, guest: Option<Guest>) {
        let mono = self.hosts[host].mono(self.now);
        let fresh = Lease {
            run: start.run.clone(),
            holding: Holding::new(self.plan.policy(host), start.first_sent, mono),
            confirmed: false,
            guest: None,
        };
        let up = self.hosts[host].up.as_mut().expect("only processes start guests");
        let lease = up.leases.entry(start.token.0).or_insert(fresh);
        lease.guest = guest;
        if !lease.holding.holds()
            && let Some(guest) = &mut lease.guest
        {
            guest.lost = true;
            self.ends_in(host, start.token, 20, End::Stopped);
        }
    }

    fn ends_in(&mut self, host: usize, token: Token, ms: crate::Ms, end: End) {
        let process = self.hosts[host].process;
        self.at(self.now + ms, Event::For { host, process, what: Mail::GuestEnds(token, end) });
    }

    fn acts_soon(&mut self, host: usize, token: Token) {
        let lease = self.plan.policy(host).lease.as_millis() as crate::Ms;
        let (process, wait) = (self.hosts[host].process, self.dice.between(1, lease / 2));
        self.at(self.now + wait, Event::For { host, process, what: Mail::GuestActs(token) });
    }

    /// H3: nothing goes out once the lease is over as the runner can know it.
    pub(crate) fn guest_acts(&mut self, host: usize, token: Token) {
        let mono = self.hosts[host].mono(self.now);
        let strict = self.plan.policy(host).fence == Fencing::Strict;
        let Some(lease) = self.process(host).leases.get_mut(&token.0) else { return };
        let open = lease.is_open(mono);
        let Some(guest) = &mut lease.guest else { return };
        if open && strict {
            guest.asked = Some(mono);
            return lease.holding.hurry(mono);
        }
        self.acts(host, token, open);
    }

    /// Under a strict fence: a heartbeat that was sent then is acknowledged.
    fn confirmed(&mut self, host: usize, token: Token, sent: Mono) {
        let mono = self.hosts[host].mono(self.now);
        let Some(lease) = self.process(host).leases.get_mut(&token.0) else { return };
        let open = lease.is_open(mono);
        let asked = lease.guest.as_mut().and_then(|guest| guest.asked.take_if(|asked| *asked <= sent));
        if asked.is_some() {
            self.trail.count("effect-confirmed");
            self.acts(host, token, open);
        }
    }

    fn acts(&mut self, host: usize, token: Token, open: bool) {
        if open {
            self.watch.acts(self.now, &token);
        } else {
            self.trail.count("effect-held");
        }
        self.acts_soon(host, token);
    }

    pub(crate) fn guest_ends(&mut self, host: usize, token: Token, end: End) {
        let stopping = self.process(host).stopping.is_some();
        let Some(lease) = self.process(host).leases.get_mut(&token.0) else { return };
        let Some(guest) = lease.guest.take() else { return };
        let run = lease.run.clone();
        let verdict = match (guest.lost, end) {
            (true, _) => Verdict::Nothing,
            (false, End::Itself) => guest.verdict,
            (false, End::Stopped) if guest.cancelled => {
                Verdict::Finish(Outcome::Interrupted { reason: "cancelled".to_owned() })
            }
            (false, End::Stopped) if stopping => Verdict::Release,
            (false, End::Stopped) => unreachable!("only a loss or a stop ends a guest"),
        };
        self.watch.ended(&token);
        self.say(host, Some(&run), || format!("its handler ends: {verdict:?}"));
        self.feed(host, Input::Ended { run, token, verdict, usage: Usage::default() });
        self.send_checks(host);
    }

    /// The host stops: a guest that looks at the signal ends.
    pub(crate) fn signalled(&mut self, host: usize, token: Token) {
        let ms = self.dice.between(5, 500);
        if self.process(host).guest(&token).is_some_and(|guest| guest.listens) {
            self.ends_in(host, token, ms, End::Stopped);
        }
    }

    /// The run was cancelled: its guest is told, and stopped by force when it goes on for long.
    fn cancelled(&mut self, host: usize, token: Token) {
        let patience = self.plan.policy(host).stop_timeout.as_millis() as crate::Ms;
        let Some(guest) = self.process(host).guest(&token) else { return };
        if std::mem::replace(&mut guest.cancelled, true) {
            return;
        }
        let listens = guest.listens;
        let ms = if listens { self.dice.between(5, 500) } else { patience };
        self.ends_in(host, token, ms, End::Stopped);
    }

    pub(crate) fn forced(&mut self, host: usize, token: Token) {
        self.ends_in(host, token, 20, End::Stopped);
    }

    /// Lets every lease act on the time. Heartbeats that are due together share a call.
    pub(crate) fn beat(&mut self, host: usize) {
        let now = self.hosts[host].mono(self.now);
        let due = |lease: &Lease| lease.holding.next_wakeup().is_some_and(|at| at <= now);
        let up = self.process(host);
        let tokens: Vec<[u8; 16]> = up.leases.iter().filter(|(_, lease)| due(lease)).map(|(token, _)| *token).collect();
        let mut beats = Vec::new();
        for token in tokens {
            for act in self.sign(host, Token(token), Sign::Wake) {
                match act {
                    Act::Beat => {
                        let run = self.process(host).leases[&token].run.clone();
                        beats.push(Heartbeat { run, token: Token(token), progress: None });
                    }
                    act => self.act(host, Token(token), act),
                }
            }
        }
        if !beats.is_empty() {
            // What is due soon goes along.
            for (token, lease) in &mut self.process(host).leases {
                if lease.holding.goes_along(now) {
                    beats.push(Heartbeat { run: lease.run.clone(), token: Token(*token), progress: None });
                }
            }
            self.call(host, Request::Beats(beats));
        }
    }

    pub(crate) fn beaten(&mut self, host: usize, sent: Mono, beats: &[Heartbeat], answers: Option<&[HeartbeatAnswer]>) {
        for (at, beat) in beats.iter().enumerate() {
            let sign = match answers.map(|answers| answers[at]) {
                None => Sign::Unanswered,
                Some(HeartbeatAnswer::Refused) => Sign::Refused,
                Some(HeartbeatAnswer::Renewed { .. }) => Sign::Acknowledged(sent),
            };
            if matches!(answers, Some(answers) if matches!(answers[at], HeartbeatAnswer::Renewed { cancelled: true, .. }))
            {
                self.cancelled(host, beat.token);
            }
            let Some(lease) = self.process(host).leases.get_mut(&beat.token.0) else { continue };
            if matches!(sign, Sign::Acknowledged(_)) && !std::mem::replace(&mut lease.confirmed, true) {
                self.feed(host, Input::Confirmed(beat.run.clone(), beat.token));
            }
            for act in self.sign(host, beat.token, sign) {
                self.act(host, beat.token, act);
            }
            if let Sign::Acknowledged(sent) = sign {
                self.confirmed(host, beat.token, sent);
            }
        }
    }

    fn sign(&mut self, host: usize, token: Token, sign: Sign) -> Vec<Act> {
        let now = self.hosts[host].mono(self.now);
        self.process(host).leases.get_mut(&token.0).map_or(Vec::new(), |lease| lease.holding.handle(now, sign))
    }

    fn act(&mut self, host: usize, token: Token, act: Act) {
        let Some(lease) = self.process(host).leases.get_mut(&token.0) else { return };
        let run = lease.run.clone();
        match act {
            Act::Beat => unreachable!("a heartbeat is due by time alone"),
            Act::Hold => self.feed(host, Input::Uncertain(run, token)),
            Act::Resume => self.trail.count("resumed"),
            Act::Lose => {
                if let Some(guest) = &mut lease.guest {
                    guest.lost = true;
                    let listens = guest.listens;
                    let ms = self.dice.between(5, 300);
                    if listens {
                        self.ends_in(host, token, ms, End::Stopped);
                    }
                }
                self.watch.lost(&token);
                self.feed(host, Input::Lost(run, token));
            }
            Act::Force => self.ends_in(host, token, 20, End::Stopped),
        }
    }
}

impl Lease {
    /// Whether outward effects may begin.
    fn is_open(&self, now: Mono) -> bool {
        let lost = self.guest.as_ref().is_some_and(|guest| guest.lost);
        self.holding.holds() && now < self.holding.local_lease_end() && !lost
    }
}
