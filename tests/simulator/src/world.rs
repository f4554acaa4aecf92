//! The simulation: a queue of events by time, and what each does.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use leasehold_lease::agent::Input;
use leasehold_lease::check::Violation;
use leasehold_lease::id::{RunId, Token};
use leasehold_lease::schedule::Schedule;

use crate::host::{Host, Process, Request};
use crate::places::Places;
use crate::plan::Plan;
use crate::queue::Queue;
use crate::store::Store;
use crate::trail::Trail;
use crate::watch::{Broken, Watch};
use crate::{Fault, Ms, Report, START};
use leasehold_lease::dice::Dice;

pub(crate) struct World {
    pub(crate) now: Ms,
    queue: Queue,
    /// Events and calls made so far: what is due at the same time goes in this order.
    made: u64,
    pub(crate) dice: Dice,
    pub(crate) plan: Plan,
    pub(crate) store: Store,
    pub(crate) hosts: Vec<Host>,
    pub(crate) network: Network,
    pub(crate) watch: Watch,
    pub(crate) trail: Trail,
    /// The places of hosts, and which of the jobs that compete for them this world's is.
    pub(crate) places: Rc<RefCell<Places>>,
    pub(crate) job: usize,
    /// Someone holds the job back until then.
    pub(crate) held_until: Ms,
}

/// What the network does to all, each until its time.
#[derive(Default)]
pub(crate) struct Network {
    pub(crate) outage_until: Ms,
    pub(crate) loss: (u64, Ms),
    pub(crate) repeat: (u64, Ms),
    pub(crate) delay: (Ms, Ms),
}

/// Something that is due.
pub(crate) enum Event {
    Fault(Fault),
    /// A process starts.
    Boot(usize),
    /// The plugin directory offers the job again.
    Offer(usize),
    /// A host that was drained may go on.
    Drained(usize),
    /// The job is held back no more.
    LetGo,
    /// A host has as many places as before.
    Room(usize),
    /// From here on nothing goes wrong.
    Heal,
    /// A look at everything.
    Audit,
    /// A request reaches the store.
    Arrives {
        host: usize,
        process: u32,
        call: u64,
        request: Rc<Request>,
    },
    /// Something for a process, which a frozen one takes when it thaws.
    For {
        host: usize,
        process: u32,
        what: Mail,
    },
}

pub(crate) enum Mail {
    /// The alarm that was set for then.
    Wake(Ms),
    /// The answer to a call, ready to be taken.
    Answer(u64, crate::driver::Reply),
    /// A call fails at once: the store is not there.
    Failed(u64),
    /// The look for calls that are not answered, that was set for then.
    Overdue(Ms),
    /// A guest ends, by itself or because of the signal or by force.
    GuestEnds(Token, crate::keeping::End),
    /// A guest wants to do something outside.
    GuestActs(Token),
    /// The store notifies of a release or a trigger.
    Woken,
    /// A place has come free for a run that waited for one.
    Place(RunId),
}

impl World {
    pub(crate) fn new(seed: u64, plan: Plan, tell: bool) -> World {
        let mut world = World {
            now: START,
            queue: Queue::default(),
            made: 0,
            dice: Dice::new(seed),
            store: Store::new(plan.policy.overlap),
            hosts: plan.drift.iter().map(|drift| Host::new(*drift, plan.interval.map(every))).collect(),
            network: Network::default(),
            watch: Watch::new(&plan),
            trail: Trail::new(tell),
            places: Rc::new(RefCell::new(Places::new(plan.hosts, (0, 0)))),
            job: 0,
            held_until: START,
            plan,
        };
        for host in 0..world.plan.hosts {
            let at = START + world.dice.between(0, 3_000);
            world.at(at, Event::Boot(host));
        }
        for (at, fault) in world.plan.faults.clone() {
            world.at(at, Event::Fault(fault));
        }
        world.at(world.plan.healed, Event::Heal);
        world.at(START, Event::Audit);
        world
    }

    /// One of several jobs that compete for these places.
    pub(crate) fn sharing(self, places: &Rc<RefCell<Places>>, job: usize) -> World {
        World { places: Rc::clone(places), job, ..self }
    }

    /// When something happens next; none when it is over.
    pub(crate) fn next_at(&self) -> Option<Ms> {
        self.queue.next_at().filter(|at| self.watch.broken.is_none() && *at <= self.plan.end)
    }

    /// Lets that happen.
    pub(crate) fn step(&mut self) {
        let Some((at, event)) = self.queue.pop() else { return };
        self.watch.not_for_ever(at, self.made);
        self.now = at;
        self.happens(event);
    }

    /// What came of it.
    pub(crate) fn report(mut self) -> Report {
        if self.watch.broken.is_none() {
            self.watch.at_the_end(&self.store, self.hosts[0].schedule.as_ref(), &self.plan);
        }
        if let Some(broken) = &self.watch.broken {
            self.trail.line(broken.at, || format!("BROKEN {}: {}", broken.promise, broken.what));
        }
        let seen = self.trail.seen.iter().map(|(what, times)| (what.clone().into_owned(), *times)).collect();
        let Trail { lines: trail, happened, .. } = self.trail;
        Report { broken: self.watch.broken, seen, trail, happened, job: self.store.whole() }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Fault(fault) => self.fault(fault),
            Event::Boot(host) => self.boot(host),
            Event::Offer(host) => self.offer_again(host),
            Event::Drained(host) => self.drained(host),
            Event::LetGo => self.let_go(),
            Event::Room(host) => self.serve_line(host),
            Event::Heal => self.heal(),
            Event::Audit => {
                self.watch.audit(self.now, &self.store, &self.hosts, &self.plan, &self.network);
                self.at(self.now + 500, Event::Audit);
            }
            Event::Arrives { host, process, call, request } => self.arrives(host, process, call, &request),
            Event::For { host, process, what } => self.mail(host, process, what),
        }
    }

    fn mail(&mut self, host: usize, process: u32, what: Mail) {
        let h = &mut self.hosts[host];
        if h.process != process {
            return;
        }
        if h.frozen_until > self.now {
            let at = h.frozen_until;
            return self.at(at, Event::For { host, process, what });
        }
        let Some(up) = &mut h.up else { return };
        if let Mail::Failed(call) = what
            && !up.calls.contains_key(&call)
        {
            // It was answered.
            return;
        }
        if let Mail::Wake(set) = what
            && up.wake_at.take_if(|at| *at == set).is_none()
        {
            // An earlier one was set after it.
            return;
        }
        let mut overdue = Vec::new();
        if let Mail::Overdue(set) = what {
            if up.overdue_at.take_if(|at| *at == set).is_none() {
                return;
            }
            overdue = up.overdue(self.now);
            if overdue.is_empty() {
                return self.overdue(host, overdue);
            }
        }
        // The first act after a late wake-up is a heartbeat.
        self.beat(host);
        match what {
            Mail::Wake(_) => self.wake(host),
            Mail::Answer(call, reply) => self.answered(host, call, reply),
            Mail::Failed(call) => self.failed(host, call),
            Mail::Overdue(_) => self.overdue(host, overdue),
            Mail::GuestEnds(token, end) => self.guest_ends(host, token, end),
            Mail::GuestActs(token) => self.guest_acts(host, token),
            Mail::Place(run) => self.feed(host, Input::Place(run)),
            Mail::Woken => {
                self.feed(host, Input::Woken);
                self.send_checks(host);
            }
        }
        self.set_alarm(host);
    }

    /// Queues the next wake-up of a host, if none is queued that comes before it.
    pub(crate) fn set_alarm(&mut self, host: usize) {
        let h = &self.hosts[host];
        let Some(next) = h.up.as_ref().and_then(|up| up.next_wakeup(h.clocks(self.now))) else { return };
        let at = h.timer.when(next).max(self.now);
        let process = h.process;
        let up = self.hosts[host].up.as_mut().expect("it was looked at a moment ago");
        if up.wake_at.is_none_or(|set| at < set) {
            up.wake_at = Some(at);
            self.at(at, Event::For { host, process, what: Mail::Wake(at) });
        }
    }

    pub(crate) fn at(&mut self, at: Ms, event: Event) {
        self.made += 1;
        self.queue.push(at, self.made, event);
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    pub(crate) fn process(&mut self, host: usize) -> &mut Process {
        self.hosts[host].up.as_mut().expect("only processes act")
    }

    pub(crate) fn violated(&mut self, violation: Violation) {
        let Violation { invariant: promise, what } = violation;
        self.watch.broken.get_or_insert(Broken { promise, at: self.now, what });
    }

    pub(crate) fn say(&mut self, host: usize, run: Option<&RunId>, text: impl FnOnce() -> String) {
        let now = self.now;
        self.trail.line(now, || {
            let run = run.map_or(String::new(), |run| format!(" {}", crate::watch::short(run)));
            format!("host {host}{run} {}", text())
        });
    }
}

/// A schedule with this many milliseconds between two slots.
pub(crate) fn every(interval: Ms) -> Schedule {
    Schedule::every(Duration::from_millis(interval.unsigned_abs())).expect("plans have sound intervals")
}
