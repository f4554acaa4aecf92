//! What the shell of a host does: it feeds the agent, carries out its commands, and calls the store.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use leasehold_lease::agent::{Command, Event as Told, Input, Offer, Seen};
use leasehold_lease::id::{Attempt, Digest, JobKey, RunId};
use leasehold_lease::op::{
    ANNOUNCE_EVERY, Accepted, Announce, Answer, ClaimAnswer, Close, CloseAnswer, Finish, HeartbeatAnswer, Op, Release,
};
use leasehold_lease::run::Standing;
use leasehold_lease::time::{Millis, Mono, Slot};

use crate::host::{Call, Request};
use crate::world::{Event, Mail, World};
use crate::{Happened, Ms, SECOND, START};

/// A call ends by itself after this long, whatever the network does.
const CALL_ENDS: Ms = 2 * SECOND;

/// What the store answered, with its clock.
pub(crate) struct Reply {
    store_now: Millis,
    what: Answers,
}

enum Answers {
    Announced {
        since: Millis,
        newest_started: Option<Slot>,
        newest_skipped: Option<Slot>,
    },
    Seen(Seen),
    LastOffered(Option<Millis>),
    Claim(ClaimAnswer),
    Beats(Vec<HeartbeatAnswer>),
    Accepted(Accepted),
    /// Nothing that a host acts on.
    Nothing,
}

impl World {
    /// Hands an input to a host's agent and carries out what follows.
    pub(crate) fn feed(&mut self, host: usize, input: Input) {
        let mut queue = VecDeque::from([input]);
        while let Some(input) = queue.pop_front() {
            let now = self.hosts[host].clocks(self.now);
            let Some(up) = &mut self.hosts[host].up else { return };
            let commands = up.agent.handle(now, input, &mut self.dice);
            for command in commands {
                self.carry_out(host, command, &mut queue);
            }
        }
    }

    fn carry_out(&mut self, host: usize, command: Command, queue: &mut VecDeque<Input>) {
        let now = self.now;
        match command {
            Command::Reserve(run) => {
                let is_free = self.places.borrow_mut().reserve(now, host, self.job, &run);
                queue.push_back(match is_free {
                    true => Input::Place(run),
                    false => Input::NoPlace { run, why: "all places are taken" },
                });
            }
            Command::Free(run) => {
                self.places.borrow_mut().free(host, self.job, &run);
                queue.extend(self.next_in_line(host).into_iter().map(Input::Place));
            }
            Command::Claim(mut claim) => {
                claim.runner = host.to_string();
                claim.not_after = self.hosts[host].clocks(now).store + self.plan.policy(host).store_deadline();
                self.say(host, Some(&claim.run.clone()), || format!("claims ({:?})", claim.kind));
                self.watch.claims(now, host, &claim.run);
                self.call(host, Request::Claim(claim));
            }
            Command::Check(run) => self.process(host).checks.push(run),
            Command::Start(start) => self.start(host, start, queue),
            Command::Confirm(start) => self.confirm(host, &start),
            Command::Finish { run, token, outcome, usage } => {
                self.watch.finishes(now, host, &token);
                self.call(host, Request::Finish(Finish { run, token, outcome, usage }));
                if self.dice.percent(10) {
                    self.call(host, Request::Prune);
                }
            }
            Command::Release { run, token, usage } => self.call(host, Request::Release(Release { run, token, usage })),
            Command::Drop(_, token) => {
                self.watch.dropped(&token);
                self.process(host).leases.remove(&token.0);
            }
            Command::Signal(_, token) => self.signalled(host, token),
            Command::Force(_, token) => self.forced(host, token),
            Command::Poll => {
                let mono = self.hosts[host].mono(now);
                self.process(host).next_poll = mono;
            }
            Command::Event(event) => self.told(host, &event),
        }
    }

    fn told(&mut self, host: usize, event: &Told) {
        let what = event.kind.word();
        self.trail.count(what);
        self.watch.told(self.now, event);
        self.happened(host, what, event.run.clone(), event.attempt);
        self.say(host, event.run.as_ref(), || format!("{} {}", event.kind.word(), event.detail));
    }

    pub(crate) fn happened(&mut self, host: usize, what: &'static str, run: Option<RunId>, attempt: Option<Attempt>) {
        let at = self.now - START;
        self.trail.happens(|| Happened { at, host, what, run, attempt });
    }

    /// Who waits for a place gets it.
    pub(crate) fn serve_line(&mut self, host: usize) {
        for run in self.next_in_line(host) {
            self.send_place(host, run);
        }
    }

    /// Those of this job whose turn it is.
    pub(crate) fn next_in_line(&self, host: usize) -> Vec<RunId> {
        self.places.borrow_mut().next(self.now, host, self.job)
    }

    /// Places that came to this job while another one was looked at.
    pub(crate) fn take_granted(&mut self, now: Ms) {
        let granted = self.places.borrow_mut().granted(self.job);
        for (host, run) in granted {
            self.now = now;
            self.send_place(host, run);
        }
    }

    /// A frozen host takes it when it thaws.
    fn send_place(&mut self, host: usize, run: RunId) {
        let process = self.hosts[host].process;
        self.at(self.now, Event::For { host, process, what: Mail::Place(run) });
    }

    /// Does everything that is due by a host's timer.
    pub(crate) fn wake(&mut self, host: usize) {
        let now = self.hosts[host].clocks(self.now);
        let heartbeat = self.plan.policy(host).heartbeat;
        let withdrawn = self.hosts[host].withdrawn_until > self.now;
        let up = self.process(host);
        if let Some(stopping) = &mut up.stopping {
            let (end, down) = (stopping.end, stopping.down);
            let force = stopping.force.take_if(|at| *at <= now.mono).is_some();
            if end <= now.mono {
                return self.stopped(host, down);
            }
            if force {
                self.feed(host, Input::StopForce);
            }
        } else {
            if up.next_announcement.is_some_and(|at| at <= now.mono) && !up.announcing {
                up.next_announcement = None;
                // What is withdrawn is announced when it is offered again.
                if !withdrawn {
                    up.announcing = true;
                    let fingerprint = self.hosts[host].fingerprint();
                    self.call(host, Request::Announce(fingerprint));
                }
            }
            let wait = heartbeat + leasehold_lease::agent::Chance::up_to(&mut self.dice, heartbeat);
            let up = self.process(host);
            if up.next_poll <= now.mono && !up.polling {
                (up.polling, up.next_poll) = (true, now.mono + wait);
                self.call(host, Request::Poll);
            }
        }
        if self.process(host).agent.next_wakeup(now).is_some_and(|at| at <= now.mono) {
            self.feed(host, Input::Wake);
        }
        self.send_checks(host);
        let idle = |up: &crate::host::Process| up.agent.is_idle() && up.leases.values().all(|l| l.guest.is_none());
        if let Some(stopping) = self.hosts[host].up.as_ref().filter(|up| idle(up)).and_then(|up| up.stopping.as_ref()) {
            let down = stopping.down;
            self.stopped(host, down);
        }
    }

    fn stopped(&mut self, host: usize, down: Ms) {
        self.say(host, None, || "has stopped".to_owned());
        self.end_process(host);
        self.at(self.now + down, Event::Boot(host));
    }

    pub(crate) fn send_checks(&mut self, host: usize) {
        let checks = std::mem::take(&mut self.process(host).checks);
        if !checks.is_empty() {
            self.call(host, Request::Check(checks));
        }
    }

    /// Sends a request. What the network does to it is drawn here.
    pub(crate) fn call(&mut self, host: usize, request: Request) {
        let (now, id) = (self.now, self.number());
        let (mono, process) = (self.hosts[host].mono(now), self.hosts[host].process);
        let deadline = match request {
            Request::Claim(_) | Request::Beats(_) | Request::Finish(_) | Request::Release(_) => {
                self.plan.policy(host).store_deadline()
            }
            _ => Duration::from_secs(2),
        };
        let deadline = self.hosts[host].timer.when(mono + deadline);
        let call = Call { request: Rc::new(request), sent: mono, deadline, given_up: false };
        self.look_for_overdue(host, deadline);
        let copies = 1 + usize::from(now < self.network.repeat.1 && self.dice.percent(self.network.repeat.0));
        for _ in 0..copies {
            if now >= self.hosts[host].cut_to_until && !self.is_lost() {
                let at = now + self.trip();
                self.at(at, Event::Arrives { host, process, call: id, request: call.request.clone() });
            }
        }
        self.process(host).calls.insert(id, call);
    }

    fn is_lost(&mut self) -> bool {
        self.now < self.network.loss.1 && self.dice.percent(self.network.loss.0)
    }

    fn trip(&mut self) -> Ms {
        let slow = self.now < self.network.delay.1;
        self.dice.between(1, if slow { self.network.delay.0 } else { 20 })
    }

    pub(crate) fn arrives(&mut self, host: usize, process: u32, call: u64, request: &Request) {
        let now = self.now;
        if now < self.network.outage_until {
            // A server that is gone refuses at once, or nothing is heard of it.
            if self.dice.percent(50) {
                self.at(now + 1, Event::For { host, process, what: Mail::Failed(call) });
            }
            return;
        }
        let what = match self.answer(host, request) {
            Ok(what) => what,
            Err(violation) => return self.violated(violation),
        };
        self.watch.record_changed(now, &self.store);
        if now >= self.hosts[host].cut_from_until && !self.is_lost() {
            let (at, store_now) = (now + self.trip(), self.store.clock(now));
            self.at(at, Event::For { host, process, what: Mail::Answer(call, Reply { store_now, what }) });
        }
    }

    fn answer(&mut self, host: usize, request: &Request) -> Result<Answers, leasehold_lease::check::Violation> {
        let now = self.now;
        let op = match request {
            Request::Poll => return Ok(Answers::Seen(self.store.look(now, self.store.unfinished()))),
            Request::Check(runs) => return Ok(Answers::Seen(self.store.look(now, runs.clone()))),
            Request::LastOffered => return Ok(Answers::LastOffered(self.store.job.last_offered)),
            Request::Beats(beats) => {
                let mut answers = Vec::new();
                for beat in beats {
                    match self.store.apply(now, &Op::Heartbeat(beat.clone()))?.answer {
                        Answer::Heartbeat(answer) => answers.push(answer),
                        other => unreachable!("a heartbeat was answered {other:?}"),
                    }
                }
                return Ok(Answers::Beats(answers));
            }
            Request::Announce(fingerprint) => Op::Announce(Announce { fingerprint: fingerprint.clone() }),
            Request::Claim(claim) => Op::Claim(claim.clone()),
            Request::Finish(finish) => Op::Finish(finish.clone()),
            Request::Release(release) => Op::Release(release.clone()),
            Request::Prune => Op::Prune { history_size: self.plan.policy(host).history_size },
            Request::Close(close) => Op::Close(close.clone()),
        };
        let answer = self.store.apply(now, &op)?.answer;
        if let (Op::Claim(claim), Answer::Claim(answer)) = (&op, &answer) {
            self.say(host, Some(&claim.run), || format!("is answered {answer:?}"));
            self.trail.count(format!("answer-{}", answer.word()));
            self.watch.claimed(now, claim, answer);
        }
        if let (Op::Release(_), Answer::Accepted(Accepted::Done)) = (&op, &answer) {
            self.notify();
        }
        Ok(match answer {
            Answer::Announced { since, newest_started, newest_skipped, .. } => {
                Answers::Announced { since, newest_started, newest_skipped }
            }
            Answer::Claim(answer) => Answers::Claim(answer),
            Answer::Accepted(answer) => Answers::Accepted(answer),
            Answer::Pruned(_) => Answers::Nothing,
            Answer::Close(answer) => {
                if answer == CloseAnswer::Closed {
                    self.watch.closed(now, &self.hosts, &self.network);
                    self.trail.count("closed");
                }
                Answers::Nothing
            }
            other => unreachable!("nothing asked for {other:?}"),
        })
    }

    pub(crate) fn answered(&mut self, host: usize, id: u64, reply: Reply) {
        let mono = self.hosts[host].mono(self.now);
        let up = self.process(host);
        // A copy was answered before.
        let Some(call) = up.calls.remove(&id) else { return };
        let Reply { store_now, what } = reply;
        up.store_ahead = Some(store_now.0 - mono.0.as_millis() as i64);
        self.store_answers(host, call.sent);
        match (&*call.request, what) {
            (Request::Announce(fingerprint), Answers::Announced { since, newest_started, newest_skipped }) => {
                let again = mono + ANNOUNCE_EVERY;
                let is_current = *fingerprint == self.hosts[host].fingerprint();
                let up = self.process(host);
                up.announcing = false;
                // The store forgets a job that nobody announces any more: its runs would be closed as orphans. Where the
                // plugin directory has another schedule by now, the store is to end with that.
                up.next_announcement = Some(if is_current { again } else { mono });
                if !up.agent.is_offered() {
                    up.next_poll = mono;
                }
                let offer = Offer {
                    schedule: self.hosts[host].schedule.clone(),
                    policy: self.plan.policy(host).clone(),
                    digest: Digest([0; 32]),
                };
                if is_current && self.hosts[host].withdrawn_until <= self.now {
                    self.feed(host, Input::Offered { offer, since, newest_started, newest_skipped });
                }
            }
            (Request::Poll | Request::Check(_), Answers::Seen(found)) => {
                if matches!(&*call.request, Request::Poll) {
                    self.process(host).polling = false;
                    self.look_for_orphans(host, &found);
                }
                if !found.runs.is_empty() {
                    self.feed(host, Input::Seen(found));
                }
            }
            (Request::LastOffered, Answers::LastOffered(at)) => {
                for close in self.process(host).orphans.offered(&job(), at, mono) {
                    self.call(host, Request::Close(close));
                }
            }
            (Request::Claim(claim), Answers::Claim(answer)) => {
                let (run, token) = (claim.run.clone(), claim.token);
                self.feed(host, Input::Claimed { run, token, answer, store_now });
            }
            (Request::Beats(beats), Answers::Beats(answers)) => self.beaten(host, call.sent, beats, Some(&answers)),
            (
                Request::Finish(Finish { run, token, .. }) | Request::Release(Release { run, token, .. }),
                Answers::Accepted(answer),
            ) => {
                let (run, token) = (run.clone(), *token);
                self.feed(host, Input::Closed { run, token, accepted: answer == Accepted::Done });
            }
            (Request::Prune | Request::Close(_), Answers::Nothing) => {}
            _ => unreachable!("the answer is one to another request"),
        }
        self.send_checks(host);
    }

    /// The store is known to answer: what was missed meanwhile is caught up.
    fn store_answers(&mut self, host: usize, sent: Mono) {
        let mono = self.hosts[host].mono(self.now);
        let soon = Duration::from_millis(self.dice.between(0, SECOND) as u64);
        let up = self.process(host);
        if up.silent_since.is_some_and(|since| sent >= since) {
            up.silent_since = None;
            up.orphans.restart();
            up.next_poll = up.next_poll.min(mono + soon);
            self.trail.count("store-up");
            self.feed(host, Input::StoreUp);
        }
    }

    /// A job that this host does not offer: what of it nobody offers for long is given up.
    fn look_for_orphans(&mut self, host: usize, found: &Seen) {
        let mono = self.hosts[host].mono(self.now);
        let lease = self.plan.policy.lease;
        let up = self.process(host);
        let is_foreign = !up.agent.is_offered();
        let close = |(run, standing): &(RunId, Option<Standing>)| {
            let close = standing.as_ref().and_then(|standing| Close::of_orphan(run, standing, lease, found.store_now));
            close.filter(|_| is_foreign).map(|close| (job(), close))
        };
        for _ in up.orphans.found(found.runs.iter().filter_map(close), mono) {
            self.call(host, Request::LastOffered);
        }
    }

    pub(crate) fn failed(&mut self, host: usize, id: u64) {
        let given_up = self.process(host).calls.get(&id).is_some_and(|call| call.given_up);
        if !given_up {
            self.give_up(host, id);
        }
        self.process(host).calls.remove(&id);
    }

    /// Gives up waiting for calls whose time is over: most are answered long before, so one event looks for those of a host.
    pub(crate) fn overdue(&mut self, host: usize, calls: Vec<u64>) {
        calls.into_iter().for_each(|call| self.give_up(host, call));
        let Some(up) = &self.hosts[host].up else { return };
        if let Some(next) = up.calls.values().filter(|call| !call.given_up).map(|call| call.deadline).min() {
            self.look_for_overdue(host, next);
        }
    }

    /// Queues that look for then, if none is queued that comes before it.
    fn look_for_overdue(&mut self, host: usize, at: Ms) {
        let process = self.hosts[host].process;
        let up = self.process(host);
        if up.overdue_at.is_none_or(|set| at < set) {
            up.overdue_at = Some(at);
            self.at(at, Event::For { host, process, what: Mail::Overdue(at) });
        }
    }

    /// A call was not answered in time. A late answer still counts.
    fn give_up(&mut self, host: usize, id: u64) {
        let mono = self.hosts[host].mono(self.now);
        let up = self.process(host);
        let Some(call) = up.calls.get_mut(&id) else { return };
        call.given_up = true;
        let (request, sent) = (call.request.clone(), call.sent);
        let process = self.hosts[host].process;
        self.at(self.now + CALL_ENDS, Event::For { host, process, what: Mail::Failed(id) });
        let up = self.process(host);
        up.silent_since.get_or_insert(mono);
        match &*request {
            Request::Announce(_) => {
                up.announcing = false;
                up.next_announcement = Some(mono + Duration::from_secs(1));
            }
            Request::Poll => up.polling = false,
            Request::Check(runs) => {
                runs.iter().for_each(|run| self.feed(host, Input::CheckUnanswered(run.clone())));
            }
            Request::Claim(claim) => {
                self.feed(host, Input::ClaimUnanswered { run: claim.run.clone(), token: claim.token });
            }
            Request::Beats(beats) => self.beaten(host, sent, beats, None),
            Request::Finish(Finish { run, token, .. }) | Request::Release(Release { run, token, .. }) => {
                self.feed(host, Input::CloseUnanswered { run: run.clone(), token: *token });
            }
            Request::Prune | Request::LastOffered | Request::Close(_) => {}
        }
        self.send_checks(host);
    }
}

/// The one job that is simulated.
fn job() -> JobKey {
    "simulated/job".parse().expect("a job")
}
