//! What was promised of hosts, and of the whole once nothing goes wrong any more.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use leasehold_lease::agent::{Event, EventKind, Start};
use leasehold_lease::id::{Attempt, RunId, Token};
use leasehold_lease::op::{Claim, ClaimAnswer};
use leasehold_lease::policy::{Overlap, Policy};
use leasehold_lease::run::{Run, Status};
use leasehold_lease::schedule::Schedule;
use leasehold_lease::time::{Millis, Slot};

use crate::host::Host;
use crate::plan::Plan;
use crate::store::Store;
use crate::world::Network;
use crate::{Ms, SECOND, START};

/// A promise that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Its name in the contract.
    pub promise: &'static str,
    /// When, by the simulation's time.
    pub at: Ms,
    /// What was found.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.at - START;
        write!(f, "{} after {}:{:06.3}: {}", self.promise, since / 60_000, (since % 60_000) as f64 / 1e3, self.what)
    }
}

/// Calls of one host that may be on their way: many more than it can have reason for.
const CALLS: usize = 300;

/// Events within a second: many more than a few hosts have reason for.
const EVENTS_A_SECOND: u64 = 5_000;

/// Messages on their way when all is well again may take this long (the slowest that plans have).
const SLOWEST: Ms = 40 * SECOND;

/// What has to be remembered to judge hosts.
pub(crate) struct Watch {
    /// Attempts whose handlers run, by token.
    executing: BTreeMap<[u8; 16], Executing>,
    won: BTreeSet<[u8; 16]>,
    started: BTreeSet<[u8; 16]>,
    lost: BTreeSet<[u8; 16]>,
    finished: BTreeSet<[u8; 16]>,
    /// Ends that the store has not taken yet, and who sends them.
    owed: BTreeMap<[u8; 16], (usize, Ms)>,
    /// Slots of which somebody has said what became of them.
    accounted: BTreeSet<Slot>,
    /// Since when a host does nothing about an unfinished run.
    unattended: BTreeMap<(usize, RunId), Ms>,
    /// When the store's clock was last set forward.
    set_forward: Ms,
    expired_since: BTreeMap<RunId, Ms>,
    told: BTreeSet<(EventKind, RunId, Option<Attempt>)>,
    /// The newest slot that had started when all was well again.
    started_before: Option<Slot>,
    /// When a second began, and how many events there had been.
    instant: (Ms, u64),
    /// From when on liveness is demanded.
    settled: Ms,
    heartbeat: Ms,
    lease: Ms,
    /// From when an older attempt's host can act on its loss to the end of its handler, at most.
    overlap: Ms,
    /// From when a run is expired to its next attempt, at most.
    takeover: Ms,
    /// From an end to its answer, at most.
    closing: Ms,
    pub(crate) broken: Option<Broken>,
}

struct Executing {
    host: usize,
    run: RunId,
    attempt: Attempt,
    /// The store lets it change nothing any more.
    stale_since: Option<Ms>,
}

impl Watch {
    pub(crate) fn new(plan: &Plan) -> Watch {
        let (heartbeat, lease) = (plan.most(|policy| policy.heartbeat), plan.most(|policy| policy.lease));
        let deadline = plan.most(Policy::store_deadline);
        Watch {
            executing: BTreeMap::new(),
            won: BTreeSet::new(),
            started: BTreeSet::new(),
            lost: BTreeSet::new(),
            finished: BTreeSet::new(),
            owed: BTreeMap::new(),
            accounted: BTreeSet::new(),
            unattended: BTreeMap::new(),
            set_forward: 0,
            expired_since: BTreeMap::new(),
            told: BTreeSet::new(),
            started_before: None,
            instant: (START, 0),
            settled: plan.healed + SLOWEST.max(lease) + 2 * heartbeat + 5 * SECOND,
            heartbeat,
            lease,
            // A heartbeat that got lost is given up, and sent again after as long.
            overlap: heartbeat + 2 * deadline + plan.most(|policy| policy.lost_grace) + 200,
            takeover: 2 * heartbeat + deadline + 300,
            closing: 2 * deadline + SECOND,
            broken: None,
        }
    }

    /// H9: time goes on. `made` is how many events there were so far.
    pub(crate) fn not_for_ever(&mut self, now: Ms, made: u64) {
        if now - self.instant.0 >= SECOND {
            self.instant = (now, made);
        } else if made - self.instant.1 > EVENTS_A_SECOND {
            self.broke("H9", now, format!("{EVENTS_A_SECOND} events within a second"));
        }
    }

    pub(crate) fn store_clock_set(&mut self, now: Ms, by: Ms) {
        if by > 0 {
            self.set_forward = now;
        }
    }

    pub(crate) fn host_died(&mut self, host: usize) {
        self.executing.retain(|_, executing| executing.host != host);
        self.owed.retain(|_, (sender, _)| *sender != host);
    }

    pub(crate) fn healed(&mut self, store: &Store) {
        self.started_before = store.job.newest_started;
    }

    /// A claim was answered. L3: in quiet times nobody takes over from a runner that is well.
    pub(crate) fn claimed(&mut self, now: Ms, claim: &Claim, answer: &ClaimAnswer) {
        let slot = claim.run.slot();
        match answer {
            ClaimAnswer::Won { attempt, .. } => {
                let again = !self.won.insert(claim.token.0);
                self.accounted.extend(slot);
                let former = self.executing.values().find(|e| e.run == claim.run && e.attempt.0 + 1 == attempt.0);
                if let Some(former) = former.filter(|_| !again && now > self.settled) {
                    let what = format!("attempt {attempt} of {} while host {} runs it", short(&claim.run), former.host);
                    self.broke("L3", now, what);
                }
            }
            ClaimAnswer::Overlap { .. }
            | ClaimAnswer::Late
            | ClaimAnswer::Superseded { .. }
            | ClaimAnswer::Held { .. } => self.accounted.extend(slot),
            _ => {}
        }
    }

    /// People are told, each thing once, by one host.
    pub(crate) fn told(&mut self, now: Ms, event: &Event) {
        let once = matches!(
            event.kind,
            EventKind::Claimed | EventKind::Takeover | EventKind::Success | EventKind::Failed | EventKind::Cancelled
        );
        if let (true, Some(run)) = (once, &event.run)
            && !self.told.insert((event.kind, run.clone(), event.attempt))
        {
            self.broke("once", now, format!("{} of {} is told again", event.kind.word(), short(run)));
        }
        if matches!(event.kind, EventKind::Missed | EventKind::Late | EventKind::Superseded | EventKind::Skip) {
            self.accounted.extend(event.run.as_ref().and_then(RunId::slot));
        }
    }

    /// What has started and was pruned may start again.
    pub(crate) fn unblocked(&mut self) {
        self.told.clear();
    }

    /// H1: a handler starts only after its `won`, once per win. It is told when the run was due, the same in every attempt.
    pub(crate) fn starts(&mut self, now: Ms, host: usize, start: &Start, store: &Store) {
        let (run, attempt) = (start.run.clone(), start.attempt);
        if !self.won.contains(&start.token.0) || !self.started.insert(start.token.0) {
            self.broke("H1", now, format!("attempt {attempt} of {} starts without a win of its own", short(&run)));
        }
        let due = store.due(&run);
        if due.is_some_and(|due| due != start.due) {
            self.broke("due", now, format!("attempt {attempt} of {} is told another time than {due:?}", short(&run)));
        }
        let stale_since = (!store.holds(&run, &start.token)).then_some(now);
        self.executing.insert(start.token.0, Executing { host, run, attempt, stale_since });
    }

    pub(crate) fn ended(&mut self, token: &Token) {
        self.executing.remove(&token.0);
    }

    pub(crate) fn lost(&mut self, token: &Token) {
        self.lost.insert(token.0);
    }

    /// H2: nothing of an attempt is acted on after its loss. An end that was sent before may be sent again: the loss may
    /// be its own doing, when the answer was lost.
    pub(crate) fn finishes(&mut self, now: Ms, host: usize, token: &Token) {
        self.owed.entry(token.0).or_insert((host, now));
        if self.finished.insert(token.0) && self.lost.contains(&token.0) {
            self.broke("H2", now, "the end of a lost attempt is sent to the store".to_owned());
        }
    }

    /// The store has taken an attempt's end, or refused it.
    pub(crate) fn dropped(&mut self, token: &Token) {
        self.owed.remove(&token.0);
    }

    /// A host claims. What it owes to the store goes first: a win would interrupt a run that ended well.
    pub(crate) fn claims(&mut self, now: Ms, host: usize, run: &RunId) {
        if self.owed.values().any(|(sender, _)| *sender == host) {
            self.broke("owed first", now, format!("host {host} claims {} before its ends are taken", short(run)));
        }
    }

    /// The record has changed: who may change nothing any more from now on?
    pub(crate) fn record_changed(&mut self, now: Ms, store: &Store) {
        for (token, executing) in &mut self.executing {
            if executing.stale_since.is_none() && !store.holds(&executing.run, &Token(*token)) {
                executing.stale_since = Some(now);
            }
        }
    }

    /// H3: no outward effect of an attempt begins after another one has its run. A store clock that was set forward ends
    /// leases before their time, which fencing cannot do anything about.
    pub(crate) fn acts(&mut self, now: Ms, token: &Token) {
        // Timers differ by parts of a million.
        const TIMERS: Ms = 10;
        let excused = now - self.set_forward <= self.lease + SECOND;
        let stale = self.executing.get(&token.0).filter(|e| e.stale_since.is_some_and(|since| now > since + TIMERS));
        if let Some(executing) = stale.filter(|_| !excused) {
            let what = format!("attempt {} of {} acts when it is over", executing.attempt, short(&executing.run));
            self.broke("H3", now, what);
        }
    }

    /// A look at everything, twice a second.
    pub(crate) fn audit(&mut self, now: Ms, store: &Store, hosts: &[Host], plan: &Plan, network: &Network) {
        let well_since = |host: &Host| well_since(host, network);
        let late = self.executing.values().find(|executing| {
            let since = executing.stale_since.map(|since| since.max(well_since(&hosts[executing.host])));
            since.is_some_and(|since| now > since + self.overlap)
        });
        if let Some(Executing { host, run, attempt, .. }) = late {
            let what = format!("host {host} still executes attempt {attempt} of {}, which is over", short(run));
            self.broke("H3", now, what);
        }
        for (nth, host) in hosts.iter().enumerate() {
            let calls = host.up.as_ref().map_or(0, |up| up.calls.len());
            if calls > CALLS {
                self.broke("H9", now, format!("host {nth} waits for {calls} calls"));
            }
        }
        let stuck = self.owed.values().find(|(_, since)| now > (*since).max(self.settled) + self.closing);
        if let Some((host, since)) = stuck {
            let what = format!("host {host} has not told the store of an end for {} ms", now - since);
            self.broke("L4", now, what);
        }
        self.unattended(now, store, hosts);
        self.expired(now, store, plan);
    }

    /// H4: within two heartbeats every unfinished run has a backup on every host.
    fn unattended(&mut self, now: Ms, store: &Store, hosts: &[Host]) {
        let mut unattended = BTreeMap::new();
        for (nth, host) in hosts.iter().enumerate() {
            let Some(up) = &host.up else { continue };
            for run in store.job.runs.keys().filter(|run| !up.agent.attends(run)) {
                let since = self.unattended.get(&(nth, run.clone())).copied().unwrap_or(now);
                if now > since.max(self.settled) + self.takeover {
                    let what = format!("host {nth} does nothing about {} for {} ms", short(run), now - since);
                    self.broke("H4", now, what);
                }
                unattended.insert((nth, run.clone()), since);
            }
        }
        self.unattended = unattended;
    }

    /// A run was given up because no host offers its job. A host that does says so every half minute, and is believed
    /// whatever the store's clock does.
    pub(crate) fn closed(&mut self, now: Ms, hosts: &[Host], network: &Network) {
        const SAID: Ms = 45 * SECOND;
        let says = |host: &Host| {
            host.up.as_ref().is_some_and(|up| up.agent.is_offered()) && now - well_since(host, network) > SAID
        };
        if let Some(nth) = hosts.iter().position(says) {
            self.broke("orphan", now, format!("a run is given up although host {nth} offers its job"));
        }
    }

    /// L1, L2, L4: in quiet times an expired run is taken over in time, and one that was asked for is started.
    fn expired(&mut self, now: Ms, store: &Store, plan: &Plan) {
        let clock = store.clock(now);
        let newest_due = plan.last_interval().map(|every| Slot(Millis(clock.0 / every * every)));
        let due = newest_due > store.job.newest_started && newest_due > store.job.newest_skipped;
        let waits = |record: &Run| record.expired(clock) || record.status == Status::Pending;
        let mut expired = BTreeMap::new();
        for (run, record) in store.job.runs.iter().filter(|(_, record)| waits(record)) {
            let since = self.expired_since.get(run).copied().unwrap_or(now);
            // On-demand runs come after a slot that is due.
            let left = due && run.slot() < newest_due;
            let overlapped = plan.policy.overlap == Overlap::Skip && store.job.newest_live(clock, Some(run)).is_some();
            // Excused for now: the time counts anew.
            let since = if left || overlapped { now } else { since };
            if now > since.max(self.settled) + self.takeover {
                let what = format!("{} has no runner for {} ms: {record:?}", short(run), now - since);
                self.broke("L1", now, what);
            }
            expired.insert(run.clone(), since);
        }
        self.expired_since = expired;
    }

    /// L5, L6: every slot that was due in quiet times is accounted for.
    pub(crate) fn at_the_end(&mut self, store: &Store, schedule: Option<&Schedule>, plan: &Plan) {
        self.without_handler(store, plan);
        let Some(schedule) = schedule else { return };
        let jitter = plan.most(|policy| policy.jitter);
        let until = store.clock(plan.end - 10 * SECOND - 2 * self.heartbeat - jitter);
        let mut from = store.clock(self.settled);
        while let Some(slot) = schedule.next_after(from).filter(|slot| slot.0 < until) {
            from = slot.0;
            if !self.accounted.contains(&slot) && Some(slot) > self.started_before {
                self.broke("L5", plan.end, format!("nobody says what became of slot {slot}"));
                return;
            }
        }
    }

    /// L4: who renews a lease executes the run.
    fn without_handler(&mut self, store: &Store, plan: &Plan) {
        let clock = store.clock(plan.end);
        for (run, record) in store.job.runs.iter().filter(|(_, record)| record.live(clock)) {
            let token = record.current().map(|attempt| attempt.token.0).unwrap_or_default();
            let is_fresh = record.current().is_some_and(|attempt| clock.since(attempt.started_at).as_secs() < 5);
            if !is_fresh && !self.executing.contains_key(&token) && !self.owed.contains_key(&token) {
                let live = record.lease_end.since(clock);
                // The host may have died: then it is over within a lease.
                let renewed = live.as_millis() as Ms > self.lease - self.heartbeat - SECOND;
                if renewed {
                    self.broke("L4", plan.end, format!("{} is kept alive and nobody executes it", short(run)));
                    return;
                }
            }
        }
    }

    fn broke(&mut self, promise: &'static str, at: Ms, what: String) {
        self.broken.get_or_insert(Broken { promise, at, what });
    }
}

/// Since when nothing has kept this host and the store apart.
fn well_since(host: &Host, network: &Network) -> Ms {
    let slow = network.delay.1 + network.delay.0;
    [host.frozen_until, host.cut_to_until, host.cut_from_until, network.outage_until, network.loss.1, slow]
        .into_iter()
        .max()
        .unwrap_or_default()
}

/// A run by its slot, counted from the start of the simulation.
pub(crate) fn short(run: &RunId) -> String {
    match run.slot() {
        Some(slot) => format!("slot {:+.1}", (slot.0.0 - START) as f64 / 1_000.0),
        None => run.to_string(),
    }
}
