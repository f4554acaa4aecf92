//! One host: its agent, the leases it keeps and the calls it waits for.

use std::collections::BTreeMap;
use std::rc::Rc;

use leasehold_lease::agent::{Agent, Now, Verdict};
use leasehold_lease::holding::Holding;
use leasehold_lease::id::{RunId, Token};
use leasehold_lease::op::{Claim, Close, Finish, Heartbeat, Release};
use leasehold_lease::orphans::Orphans;
use leasehold_lease::schedule::Schedule;
use leasehold_lease::time::{Millis, Mono};

use crate::Ms;
use crate::clocks::Timer;

/// A process, or the place where the next one will be.
pub(crate) struct Host {
    /// Which process of this host: what was meant for an earlier one is dropped.
    pub(crate) process: u32,
    pub(crate) up: Option<Process>,
    pub(crate) timer: Timer,
    /// The schedule that its plugin directory has.
    pub(crate) schedule: Option<Schedule>,
    /// How far its wall clock is ahead.
    pub(crate) wall_ahead: Ms,
    pub(crate) frozen_until: Ms,
    /// What it sends, and what it is sent, is lost until then.
    pub(crate) cut_to_until: Ms,
    pub(crate) cut_from_until: Ms,
    pub(crate) withdrawn_until: Ms,
    pub(crate) want_until: Ms,
    /// Someone asked it to take nothing new until then.
    pub(crate) drained_until: Ms,
}

/// What a process has in its memory.
pub(crate) struct Process {
    pub(crate) agent: Agent,
    pub(crate) leases: BTreeMap<[u8; 16], Lease>,
    pub(crate) calls: BTreeMap<u64, Call>,
    /// The store's clock was this much ahead of the own timer when it was heard last.
    pub(crate) store_ahead: Option<i64>,
    pub(crate) next_poll: Mono,
    pub(crate) polling: bool,
    pub(crate) announcing: bool,
    pub(crate) next_announcement: Option<Mono>,
    pub(crate) checks: Vec<RunId>,
    pub(crate) orphans: Orphans,
    /// Since when calls are not answered.
    pub(crate) silent_since: Option<Mono>,
    pub(crate) stopping: Option<Stopping>,
    /// When it is woken next, by the simulation's time.
    pub(crate) wake_at: Option<Ms>,
    /// When calls that are not answered are looked for next.
    pub(crate) overdue_at: Option<Ms>,
}

/// Times of a stop.
pub(crate) struct Stopping {
    pub(crate) force: Option<Mono>,
    pub(crate) end: Mono,
    /// How long until the next process starts.
    pub(crate) down: Ms,
}

/// An attempt whose lease is kept.
pub(crate) struct Lease {
    pub(crate) run: RunId,
    pub(crate) holding: Holding,
    pub(crate) confirmed: bool,
    pub(crate) guest: Option<Guest>,
}

/// A running handler.
pub(crate) struct Guest {
    /// How it ends if nobody stops it.
    pub(crate) verdict: Verdict,
    /// It looks at the signal.
    pub(crate) listens: bool,
    pub(crate) lost: bool,
    /// It was told that someone cancelled the run.
    pub(crate) cancelled: bool,
    /// Under a strict fence: it wants to act, when a heartbeat that is sent from then on is acknowledged.
    pub(crate) asked: Option<Mono>,
}

/// A call to the store.
pub(crate) struct Call {
    pub(crate) request: Rc<Request>,
    pub(crate) sent: Mono,
    /// When that is, by the simulation's time.
    pub(crate) deadline: Ms,
    /// It was given up waiting for; a late answer still counts.
    pub(crate) given_up: bool,
}

/// What is asked of the store.
pub(crate) enum Request {
    /// With the fingerprint of the schedule.
    Announce(String),
    Poll,
    Check(Vec<RunId>),
    Claim(Claim),
    Beats(Vec<Heartbeat>),
    Finish(Finish),
    Release(Release),
    Prune,
    /// When did a host last offer the job?
    LastOffered,
    /// To give an orphan up.
    Close(Close),
}

impl Host {
    pub(crate) fn new(drift: i64, schedule: Option<Schedule>) -> Host {
        Host {
            process: 0,
            up: None,
            timer: Timer { drift },
            schedule,
            wall_ahead: 0,
            frozen_until: 0,
            cut_to_until: 0,
            cut_from_until: 0,
            withdrawn_until: 0,
            want_until: 0,
            drained_until: 0,
        }
    }

    /// What identifies its slots.
    pub(crate) fn fingerprint(&self) -> String {
        self.schedule.as_ref().map_or_else(|| "on-demand".to_owned(), |schedule| schedule.fingerprint().to_owned())
    }

    pub(crate) fn mono(&self, now: Ms) -> Mono {
        self.timer.at(now)
    }

    /// The clocks as its agent is told of them.
    pub(crate) fn clocks(&self, now: Ms) -> Now {
        let (wall, mono) = (Millis(now + self.wall_ahead), self.mono(now));
        let ahead = self.up.as_ref().and_then(|process| process.store_ahead);
        // Before the first answer the own clock is the best guess.
        let store = ahead.map_or(wall, |ahead| Millis(mono.0.as_millis() as i64 + ahead));
        Now { wall, mono, store }
    }
}

impl Process {
    pub(crate) fn new(now: Mono) -> Process {
        Process {
            agent: Agent::new(),
            leases: BTreeMap::new(),
            calls: BTreeMap::new(),
            store_ahead: None,
            next_poll: now,
            polling: false,
            announcing: false,
            next_announcement: Some(now),
            checks: Vec::new(),
            orphans: Orphans::new(),
            silent_since: None,
            stopping: None,
            wake_at: None,
            overdue_at: None,
        }
    }

    /// When something is due by its timer.
    pub(crate) fn next_wakeup(&self, now: Now) -> Option<Mono> {
        let leases = self.leases.values().filter_map(|lease| lease.holding.next_wakeup());
        let poll = (!self.polling && self.stopping.is_none()).then_some(self.next_poll);
        let announcement = self.next_announcement.filter(|_| !self.announcing && self.stopping.is_none());
        let stop = self.stopping.as_ref().map(|stopping| stopping.force.unwrap_or(stopping.end));
        self.agent.next_wakeup(now).into_iter().chain(leases).chain(poll).chain(announcement).chain(stop).min()
    }

    /// Calls that were to be answered by now.
    pub(crate) fn overdue(&self, now: Ms) -> Vec<u64> {
        let late = |call: &Call| !call.given_up && call.deadline <= now;
        self.calls.iter().filter(|(_, call)| late(call)).map(|(id, _)| *id).collect()
    }

    /// The guest of this token, where it runs.
    pub(crate) fn guest(&mut self, token: &Token) -> Option<&mut Guest> {
        self.leases.get_mut(&token.0)?.guest.as_mut()
    }
}
