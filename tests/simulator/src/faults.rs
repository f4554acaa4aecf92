//! What goes wrong, and how it is over.

use leasehold_lease::agent::Input;
use leasehold_lease::op::Op;
use leasehold_lease::policy::StopForce;

use crate::host::{Process, Stopping};
use crate::world::{Event, World};
use crate::{Fault, MINUTE, Ms, SECOND};

impl World {
    pub(crate) fn fault(&mut self, fault: Fault) {
        let now = self.now;
        let fault = fault.within((self.plan.healed - now).max(SECOND));
        self.trail.line(now, || format!("{fault:?}"));
        match fault {
            Fault::Crash { host, down } => {
                self.trail.count("crash");
                self.end_process(host);
                self.at(now + down, Event::Boot(host));
            }
            Fault::Freeze { host, lasts } => {
                self.trail.count("freeze");
                // What a frozen host is to hear waits for its thaw: that never comes sooner.
                let until = &mut self.hosts[host].frozen_until;
                *until = (*until).max(now + lasts);
            }
            Fault::Cut { host, to, from, lasts } => {
                self.trail.count("cut");
                let h = &mut self.hosts[host];
                h.cut_to_until = if to { now + lasts } else { h.cut_to_until };
                h.cut_from_until = if from { now + lasts } else { h.cut_from_until };
            }
            Fault::Outage { lasts } => {
                self.trail.count("outage");
                self.network.outage_until = now + lasts;
            }
            Fault::Loss { percent, lasts } => self.network.loss = (percent, now + lasts),
            Fault::Repeat { percent, lasts } => self.network.repeat = (percent, now + lasts),
            Fault::Delay { up_to, lasts } => self.network.delay = (up_to, now + lasts),
            Fault::Wall { host, by } => self.hosts[host].wall_ahead += by,
            Fault::Store { by } => {
                self.store.ahead += by;
                self.watch.store_clock_set(now, by);
            }
            Fault::Stop { host, down } => self.stop(host, down),
            Fault::Deploy => (0..self.hosts.len()).for_each(|host| {
                // One after the other, each when the one before is likely up again.
                self.at(now + host as Ms * MINUTE, Event::Fault(Fault::Stop { host, down: 1_000 }));
            }),
            Fault::Withdraw { host, lasts } => self.withdraw(host, lasts),
            Fault::Places { host, places, lasts } => {
                self.places.borrow_mut().limit(host, places, now + lasts);
                self.at(now + lasts, Event::Room(host));
            }
            Fault::Want { host, lasts } => self.hosts[host].want_until = now + lasts,
            Fault::Gone { lasts } => {
                self.trail.count("gone");
                (0..self.hosts.len()).for_each(|host| self.withdraw(host, lasts));
            }
            Fault::Drain { host, lasts } => self.drain(host, lasts),
            Fault::Trigger { runs } => (0..runs).for_each(|_| self.trigger()),
            Fault::Cancel => self.cancel(),
            Fault::Hold { lasts } => self.hold_back(lasts),
            Fault::Unblock => self.unblock(),
            Fault::Reschedule { host } => {
                self.trail.count("reschedule");
                self.reschedule(host);
                self.offer_again(host);
            }
        }
    }

    fn withdraw(&mut self, host: usize, lasts: Ms) {
        self.hosts[host].withdrawn_until = self.now + lasts;
        self.feed(host, Input::Withdrawn);
        self.at(self.now + lasts, Event::Offer(host));
    }

    fn drain(&mut self, host: usize, lasts: Ms) {
        self.trail.count("drain");
        self.hosts[host].drained_until = self.now + lasts;
        self.feed(host, Input::Drain(true));
        self.set_alarm(host);
        self.at(self.now + lasts, Event::Drained(host));
    }

    /// The host's plugin directory has the schedule to come.
    fn reschedule(&mut self, host: usize) {
        if let Some(later) = self.plan.later {
            self.hosts[host].schedule = Some(crate::world::every(later));
        }
    }

    /// A host that was drained goes on.
    pub(crate) fn drained(&mut self, host: usize) {
        if self.hosts[host].drained_until <= self.now {
            self.feed(host, Input::Drain(false));
            self.offer_again(host);
        }
    }

    pub(crate) fn boot(&mut self, host: usize) {
        if self.hosts[host].up.is_some() {
            return;
        }
        let now = self.now;
        self.trail.line(now, || format!("host {host} starts"));
        let h = &mut self.hosts[host];
        h.process += 1;
        h.frozen_until = 0;
        h.up = Some(Process::new(h.mono(now)));
        if h.drained_until > now {
            self.feed(host, Input::Drain(true));
        }
        self.set_alarm(host);
    }

    pub(crate) fn offer_again(&mut self, host: usize) {
        let mono = self.hosts[host].mono(self.now);
        if let Some(up) = &mut self.hosts[host].up {
            up.next_announcement = Some(mono);
            self.set_alarm(host);
        }
    }

    /// The process is gone, with all that it knew and all its guests.
    pub(crate) fn end_process(&mut self, host: usize) {
        self.hosts[host].up = None;
        self.places.borrow_mut().clear(host, self.job);
        // Other jobs get what this one held; of this one, nobody stands in line any more.
        self.next_in_line(host);
        self.watch.host_died(host);
    }

    pub(crate) fn stop(&mut self, host: usize, down: Ms) {
        let now = self.now;
        let h = &mut self.hosts[host];
        let mono = h.mono(now);
        let Some(up) = h.up.as_mut().filter(|up| up.stopping.is_none()) else { return };
        self.trail.count("stop");
        let policy = self.plan.policy(host);
        let force = match policy.stop_force {
            StopForce::After(after) => Some(mono + after),
            StopForce::Never => None,
        };
        up.stopping = Some(Stopping { force, end: mono + policy.stop_timeout, down });
        self.feed(host, Input::Stop);
        self.set_alarm(host);
    }

    /// From here on nothing goes wrong. Clocks agree within what healthy hosts' clocks may differ.
    pub(crate) fn heal(&mut self) {
        let now = self.now;
        self.trail.line(now, || "all is well from here on".to_owned());
        self.network = Default::default();
        self.ask(Op::Hold(None));
        let ahead = self.store.ahead;
        for host in 0..self.hosts.len() {
            let skew = self.dice.between(-2_000, 2_000);
            let h = &mut self.hosts[host];
            (h.frozen_until, h.cut_to_until, h.cut_from_until, h.want_until) = (now, now, now, now);
            (h.withdrawn_until, h.drained_until) = (now, now);
            h.wall_ahead = ahead + skew;
            self.places.borrow_mut().limit(host, 0, now);
            self.reschedule(host);
            self.boot(host);
            self.drained(host);
            self.offer_again(host);
            self.serve_line(host);
        }
        self.watch.healed(&self.store);
    }
}
