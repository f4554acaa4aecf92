//! See the module above. Time goes in steps of 10 ms; everything is drawn from one seed.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::agent::{Agent, Chance, Command, EventKind, Input, Now, Offer, Seen, Start, Verdict};
use crate::dice::Dice;
use crate::holding::{Act, Holding, Sign};
use crate::id::{Attempt, Digest, RunId, Token};
use crate::op::{Accepted, Announce, Finish, Heartbeat, HeartbeatAnswer, Release};
use crate::policy::Policy;
use crate::rules;
use crate::run::Standing;
use crate::run::{Job, Outcome, Run, Status, Usage};
use crate::schedule::Schedule;
use crate::time::{Millis, Mono, Slot};

const STEP: i64 = 10;
/// A round trip to the store.
const TRIP: i64 = 20;

pub(super) fn slot(seconds: i64) -> RunId {
    RunId::Slot(Slot(Millis(seconds * 1_000)))
}

pub(super) struct World {
    now: i64,
    schedule: Schedule,
    policy: Policy,
    takes: i64,
    ahead: i64,
    poll_always: bool,
    cut: bool,
    mute: bool,
    job: Job,
    hosts: BTreeMap<usize, Host>,
    dice: Dice,
    started: Vec<(i64, u32)>,
    events: Vec<(i64, usize, EventKind)>,
    missed: Vec<(i64, String)>,
}

struct Host {
    agent: Agent,
    places: usize,
    held: Vec<RunId>,
    line: Vec<RunId>,
    guests: Vec<Guest>,
    /// Inputs on their way.
    mail: Vec<(i64, Mail)>,
    next_poll: i64,
    frozen_until: i64,
    silent: bool,
    want: bool,
}

struct Guest {
    start: Start,
    lease: Holding,
    ends: Option<(i64, Verdict)>,
    running: bool,
}

enum Mail {
    Input(Box<Input>),
    Beaten { token: Token, sent: i64, sign: Option<HeartbeatAnswer> },
}

impl World {
    pub(super) fn new(every: Duration, policy: Policy) -> World {
        World {
            // After slot 0, so that no slot is due at the start.
            now: STEP,
            schedule: Schedule::every(every).expect("a sound interval"),
            policy,
            takes: 1_000,
            ahead: 0,
            poll_always: false,
            cut: false,
            mute: false,
            job: Job::default(),
            hosts: BTreeMap::new(),
            dice: Dice::new(1),
            started: Vec::new(),
            events: Vec::new(),
            missed: Vec::new(),
        }
    }

    pub(super) fn seed(mut self, seed: u64) -> World {
        self.dice = Dice::new(seed);
        self
    }
    pub(super) fn hosts(mut self, n: usize) -> World {
        (0..n).for_each(|host| self.boot(host));
        self
    }
    pub(super) fn runs_take(mut self, ms: i64) -> World {
        self.takes = ms;
        self
    }
    /// Only before hosts are booted would this be seen from the start; it holds from the next step on.
    pub(super) fn wall_ahead(mut self, ms: i64) -> World {
        self.ahead = ms;
        self
    }
    pub(super) fn polls_at_every_step(mut self) -> World {
        self.poll_always = true;
        self
    }
    pub(super) fn places(&mut self, host: usize, n: usize) {
        self.host(host).places = n;
        self.serve(host);
    }
    pub(super) fn cut_store(&mut self, cut: bool) {
        self.cut = cut;
    }
    pub(super) fn lose_answers(&mut self, mute: bool) {
        self.mute = mute;
    }
    pub(super) fn want_of_resources(&mut self, host: usize) {
        self.host(host).want = true;
    }
    pub(super) fn crash(&mut self, host: usize) {
        self.hosts.remove(&host);
    }
    pub(super) fn freeze(&mut self, host: usize, ms: i64) {
        let until = self.now + ms;
        self.host(host).frozen_until = until;
    }
    pub(super) fn stop(&mut self, host: usize) {
        self.input(host, Input::Stop);
    }
    pub(super) fn withdraw(&mut self, host: usize) {
        self.input(host, Input::Withdrawn);
    }

    /// A host starts: it announces the job and asks for unfinished runs.
    pub(super) fn boot(&mut self, host: usize) {
        let announce = Announce { fingerprint: "same".to_owned() };
        let since = rules::announce(&mut self.job, Millis(self.now), &announce).answer;
        let offer =
            Offer { schedule: Some(self.schedule.clone()), policy: self.policy.clone(), digest: Digest([0; 32]) };
        let fresh = Host {
            agent: Agent::new(),
            places: 1_000,
            held: vec![],
            line: vec![],
            guests: vec![],
            mail: vec![],
            next_poll: self.now,
            frozen_until: 0,
            silent: false,
            want: false,
        };
        self.hosts.insert(host, fresh);
        let (newest_started, newest_skipped) = (self.job.newest_started, self.job.newest_skipped);
        self.input(host, Input::Offered { offer, since, newest_started, newest_skipped });
    }

    pub(super) fn until(&mut self, ms: i64) {
        while self.now < ms {
            self.now += STEP;
            for host in self.hosts.keys().copied().collect::<Vec<_>>() {
                if self.hosts[&host].frozen_until <= self.now {
                    self.step(host);
                }
            }
        }
    }

    /// Until one more attempt of this slot has started.
    pub(super) fn until_started(&mut self, seconds: i64) {
        let before = self.started(seconds).len();
        while self.started(seconds).len() == before {
            assert!(self.now < 10_000_000, "no attempt of {seconds} starts");
            self.until(self.now + STEP);
        }
    }

    fn step(&mut self, host: usize) {
        self.beat(host);
        let now = self.now;
        let (due, later) = std::mem::take(&mut self.host(host).mail).into_iter().partition(|(at, _)| *at <= now);
        self.host(host).mail = later;
        let due: Vec<(i64, Mail)> = due;
        for (_, mail) in due {
            match mail {
                Mail::Input(input) => self.input(host, *input),
                Mail::Beaten { token, sent, sign } => {
                    let sign = match sign {
                        None => Sign::Unanswered,
                        Some(HeartbeatAnswer::Refused) => Sign::Refused,
                        Some(HeartbeatAnswer::Renewed { .. }) => Sign::Acknowledged(mono(sent)),
                    };
                    self.lease(host, token, sign);
                }
            }
        }
        self.end_guests(host);
        let due = self.hosts[&host].agent.next_wakeup(self.clocks());
        if due.is_some_and(|at| at <= mono(now)) {
            self.input(host, Input::Wake);
        }
        if self.hosts[&host].next_poll <= now {
            self.poll(host);
        }
    }

    fn poll(&mut self, host: usize) {
        let heartbeat = self.policy.heartbeat;
        let wait = if self.poll_always { Duration::ZERO } else { heartbeat + self.dice.up_to(heartbeat) };
        self.host(host).next_poll = self.now + wait.as_millis() as i64;
        if !self.reaches_store(host) {
            return;
        }
        let unfinished: Vec<RunId> =
            self.job.runs.iter().filter(|(_, run)| !run.status.is_final()).map(|(id, _)| id.clone()).collect();
        if unfinished.is_empty() {
            return;
        }
        let seen = self.look(unfinished);
        // Many runs take longer than one: by then, what they show may be outdated.
        let at = self.now + 3 * TRIP;
        self.host(host).mail.push((at, Mail::Input(Box::new(Input::Seen(seen)))));
    }

    fn look(&self, runs: Vec<RunId>) -> Seen {
        let look = |run: RunId| {
            let standing = self.job.runs.get(&run).map(Standing::from);
            (run, standing)
        };
        Seen {
            runs: runs.into_iter().map(look).collect(),
            store_now: Millis(self.now),
            newest_started: self.job.newest_started,
            newest_skipped: self.job.newest_skipped,
        }
    }

    /// Notices whether the store answers, and tells the agent when it does again.
    fn reaches_store(&mut self, host: usize) -> bool {
        let reached = !self.cut && !self.mute;
        let was_silent = std::mem::replace(&mut self.host(host).silent, !reached);
        if reached && was_silent {
            self.mail(host, Input::StoreUp);
        }
        reached
    }

    fn mail(&mut self, host: usize, input: Input) {
        let at = self.now + TRIP;
        self.host(host).mail.push((at, Mail::Input(Box::new(input))));
    }

    fn input(&mut self, host: usize, input: Input) {
        let now = self.clocks();
        let Some(h) = self.hosts.get_mut(&host) else { return };
        for command in h.agent.handle(now, input, &mut self.dice) {
            self.carry_out(host, command);
        }
    }

    fn carry_out(&mut self, host: usize, command: Command) {
        let store_now = Millis(self.now);
        match command {
            Command::Reserve(run) => {
                let h = self.host(host);
                if h.held.len() < h.places {
                    h.held.push(run.clone());
                    self.input(host, Input::Place(run));
                } else {
                    h.line.push(run.clone());
                    self.input(host, Input::NoPlace { run, why: "full" });
                }
            }
            Command::Free(run) => {
                let h = self.host(host);
                h.held.retain(|held| *held != run);
                h.line.retain(|waiting| *waiting != run);
                self.serve(host);
            }
            Command::Claim(mut claim) => {
                claim.not_after = store_now + self.policy.store_deadline();
                claim.runner = host.to_string();
                let (run, token) = (claim.run.clone(), claim.token);
                let answer = (!self.cut).then(|| rules::claim(&mut self.job, store_now, &claim).answer);
                let input = match answer.filter(|_| self.reaches_store(host)) {
                    Some(answer) => Input::Claimed { run, token, answer, store_now },
                    None => Input::ClaimUnanswered { run, token },
                };
                self.mail(host, input);
            }
            Command::Check(run) => {
                let seen = self.look(vec![run.clone()]);
                let reached = self.reaches_store(host);
                self.mail(host, if reached { Input::Seen(seen) } else { Input::CheckUnanswered(run) });
            }
            Command::Start(start) => self.start(host, start),
            Command::Confirm(start) => self.hold(host, start, false),
            Command::Finish { run, token, outcome, usage } => {
                let finish = Finish { run: run.clone(), token, outcome, usage };
                let accepted = (!self.cut).then(|| rules::finish(&mut self.job, store_now, &finish).answer);
                self.closed(host, run, token, accepted);
            }
            Command::Release { run, token, usage } => {
                let release = Release { run: run.clone(), token, usage };
                let accepted = (!self.cut).then(|| rules::release(&mut self.job, store_now, &release).answer);
                self.closed(host, run, token, accepted);
            }
            Command::Drop(_, token) => self.host(host).guests.retain(|guest| guest.start.token != token),
            Command::Signal(_, token) | Command::Force(_, token) => {
                let at = self.now + 50;
                if let Some(guest) = self.host(host).guests.iter_mut().find(|guest| guest.start.token == token) {
                    guest.ends = Some((at, Verdict::Release));
                }
            }
            Command::Poll => self.host(host).next_poll = store_now.0,
            Command::Event(event) => {
                self.events.push((store_now.0, host, event.kind));
                if let (EventKind::Missed, Some(slot)) = (event.kind, event.run.as_ref().and_then(RunId::slot)) {
                    self.missed.push((slot.0.0 / 1_000, event.detail));
                }
            }
        }
    }

    fn closed(&mut self, host: usize, run: RunId, token: Token, accepted: Option<Accepted>) {
        let input = match accepted.filter(|_| self.reaches_store(host)) {
            Some(answer) => Input::Closed { run, token, accepted: answer == Accepted::Done },
            None => Input::CloseUnanswered { run, token },
        };
        self.mail(host, input);
    }

    fn serve(&mut self, host: usize) {
        let h = self.host(host);
        if h.held.len() < h.places && !h.line.is_empty() {
            let run = h.line.remove(0);
            h.held.push(run.clone());
            self.input(host, Input::Place(run));
        }
    }

    fn start(&mut self, host: usize, start: Start) {
        if self.host(host).want {
            let input = Input::StartRefused { run: start.run, token: start.token, why: "no memory".to_owned() };
            return self.input(host, input);
        }
        self.started.push((start.run.slot().expect("scheduled").0.0 / 1_000, start.attempt.0));
        self.hold(host, start, true);
    }

    fn hold(&mut self, host: usize, start: Start, running: bool) {
        let verdict = Verdict::Finish(Outcome::Success { output: vec![], cut: false });
        let ends = running.then_some((self.now + self.takes, verdict));
        let lease = Holding::new(&self.policy, start.first_sent, mono(self.now));
        let h = self.host(host);
        h.guests.retain(|guest| guest.start.token != start.token);
        h.guests.push(Guest { start, lease, ends, running });
    }

    fn beat(&mut self, host: usize) {
        let due = |guest: &Guest| guest.lease.next_wakeup().is_some_and(|at| at <= mono(self.now));
        let tokens: Vec<Token> =
            self.hosts[&host].guests.iter().filter(|g| due(g)).map(|guest| guest.start.token).collect();
        for token in tokens {
            self.lease(host, token, Sign::Wake);
        }
    }

    fn lease(&mut self, host: usize, token: Token, sign: Sign) {
        let now = self.now;
        let Some(guest) = self.host(host).guests.iter_mut().find(|guest| guest.start.token == token) else { return };
        let run = guest.start.run.clone();
        let acts = guest.lease.handle(mono(now), sign);
        if matches!(sign, Sign::Acknowledged(_)) && !guest.running {
            self.input(host, Input::Confirmed(run.clone(), token));
        }
        for act in acts {
            match act {
                Act::Beat => {
                    let beat = Heartbeat { run: run.clone(), token, progress: None };
                    let answer = (!self.cut).then(|| rules::heartbeat(&mut self.job, Millis(now), &beat).answer);
                    let sign = answer.filter(|_| !self.mute);
                    self.host(host).mail.push((now + TRIP, Mail::Beaten { token, sent: now, sign }));
                }
                Act::Lose => {
                    let guests = &mut self.host(host).guests;
                    if let Some(guest) = guests.iter_mut().find(|guest| guest.start.token == token) {
                        guest.ends = Some((now + 50, Verdict::Nothing));
                    }
                    self.input(host, Input::Lost(run.clone(), token));
                }
                Act::Hold => self.input(host, Input::Uncertain(run.clone(), token)),
                Act::Resume | Act::Force => {}
            }
        }
    }

    fn end_guests(&mut self, host: usize) {
        let now = self.now;
        let mut ended = Vec::new();
        for guest in &mut self.host(host).guests {
            if guest.ends.as_ref().is_some_and(|(at, _)| *at <= now) {
                let (_, verdict) = guest.ends.take().expect("it was looked at a moment ago");
                ended.push((guest.start.run.clone(), guest.start.token, verdict));
            }
        }
        for (run, token, verdict) in ended {
            self.input(host, Input::Ended { run, token, verdict, usage: Usage::default() });
        }
    }

    fn clocks(&self) -> Now {
        Now { wall: Millis(self.now + self.ahead), mono: mono(self.now), store: Millis(self.now) }
    }

    fn host(&mut self, host: usize) -> &mut Host {
        self.hosts.get_mut(&host).expect("the host is up")
    }
}

/// What tests look at.
impl World {
    pub(super) fn all_started(&self) -> Vec<(i64, u32)> {
        self.started.clone()
    }
    pub(super) fn started(&self, seconds: i64) -> Vec<(i64, u32)> {
        self.started.iter().filter(|(slot, _)| *slot == seconds).copied().collect()
    }
    pub(super) fn count(&self, kind: EventKind) -> usize {
        self.events.iter().filter(|(_, _, k)| *k == kind).count()
    }
    /// The slots, in seconds, that were told as missed, each with what was told.
    pub(super) fn missed(&self) -> &[(i64, String)] {
        &self.missed
    }
    pub(super) fn history(&self) -> Vec<(i64, usize, EventKind)> {
        self.events.clone()
    }
    fn run(&self, seconds: i64) -> Option<&Run> {
        self.job.runs.get(&slot(seconds))
    }
    pub(super) fn status(&self, seconds: i64) -> Option<Status> {
        self.run(seconds).map(|run| run.status)
    }
    pub(super) fn attempt(&self, seconds: i64) -> Attempt {
        self.run(seconds).expect("it was started").attempt()
    }
    pub(super) fn starts_and_hand_overs(&self, seconds: i64) -> (u32, u32) {
        self.run(seconds).map(|run| (run.starts, run.hand_overs)).expect("it was started")
    }
    /// The host that runs it now.
    pub(super) fn runner(&self, seconds: i64) -> Option<usize> {
        let run = self.run(seconds).filter(|run| run.live(Millis(self.now)))?;
        run.current()?.runner.parse().ok()
    }
    /// The host of its last attempt.
    pub(super) fn runner_of(&self, run: RunId) -> usize {
        let attempt = self.job.runs[&run].current().expect("it was started");
        attempt.runner.parse().expect("a host's number")
    }
    pub(super) fn is_idle(&self, host: usize) -> bool {
        self.hosts[&host].agent.is_idle()
    }
    pub(super) fn is_offered(&self, host: usize) -> bool {
        self.hosts[&host].agent.is_offered()
    }
    pub(super) fn others_are_idle(&self) -> bool {
        self.hosts.values().all(|host| host.agent.is_idle())
    }
}

fn mono(ms: i64) -> Mono {
    Mono(Duration::from_millis(u64::try_from(ms).expect("time goes forward")))
}
