//! All that is heard of the hosts, in the order in which it was heard.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;

use crate::clock;

/// An event that a host told.
#[derive(Debug, Clone)]
pub struct Told {
    /// When it was read, by the harness's timer.
    pub at: Duration,
    /// Which host, by number.
    pub host: usize,
    /// Its word.
    pub word: String,
    /// The job's number; none for what concerns the host as a whole.
    pub job: Option<usize>,
    /// The run's slot, in ms since the epoch.
    pub slot: Option<i64>,
    /// Which attempt.
    pub attempt: Option<u32>,
    /// More, in words.
    pub detail: String,
}

/// A request that reached the witness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// When its head was read, by the harness's timer.
    pub at: Duration,
    /// The job's number.
    pub job: usize,
    /// The run's slot, in ms since the epoch.
    pub slot: i64,
    /// Which attempt sent it.
    pub attempt: u32,
    /// With which fence.
    pub fence: u64,
    /// Which act of the handler it is.
    pub act: u32,
    /// Its idempotency key.
    pub key: String,
}

/// Whom a fault concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whom {
    /// A host, by number.
    Host(usize),
    /// The store, and so all.
    Store,
    /// The store's own clock, and so all leases.
    StoreClock,
    /// What the store had acknowledged.
    StoreData,
}

/// From when to when somebody was not well.
#[derive(Debug, Clone)]
pub struct Outage {
    /// Who.
    pub whom: Whom,
    /// From this instant of the harness's timer.
    pub from: Duration,
    /// To this one.
    pub to: Duration,
    /// What was done.
    pub what: String,
}

/// What was heard and done so far.
#[derive(Debug, Default)]
pub struct Heard {
    /// Events of all hosts.
    pub told: Vec<Told>,
    /// What the witness heard.
    pub effects: Vec<Effect>,
    /// What was done to hosts and store. It is complete when the faults are over.
    pub outages: Vec<Outage>,
    /// Runs of jobs were freed from a slot in the future: what had started may start again.
    pub unblocked: bool,
}

impl Heard {
    /// Whether the witness has heard this act of a run of this host, since the `from`th effect.
    pub(crate) fn act_of(&self, host: usize, act: u32, from: usize) -> bool {
        self.effects[from..].iter().filter(|effect| effect.act == act).any(|effect| self.runner(effect) == Some(host))
    }

    /// Whether a host has told since then that the store does not answer.
    pub(crate) fn store_down_since(&self, from: Duration) -> bool {
        self.told.iter().rev().take_while(|told| told.at > from).any(|told| told.word == "store-down")
    }

    /// Who told that it claimed the run of this effect, not long ago.
    pub(crate) fn runner(&self, effect: &Effect) -> Option<usize> {
        const NOT_LONG: usize = 50_000;
        let of_it = |told: &&Told| {
            (told.job, told.slot, told.attempt) == (Some(effect.job), Some(effect.slot), Some(effect.attempt))
        };
        let claims = self.told.iter().rev().take(NOT_LONG).filter(|told| told.word == "claimed");
        claims.filter(of_it).map(|told| told.host).next()
    }
}

/// Takes in what is heard, and wakes who waits for it.
#[derive(Debug, Default)]
pub struct Record {
    heard: Mutex<Heard>,
    grown: watch::Sender<()>,
}

impl Record {
    pub(crate) fn told(&self, told: Told) {
        self.lock().told.push(told);
        self.grown.send_replace(());
    }

    pub(crate) fn effect(&self, effect: Effect) {
        self.lock().effects.push(effect);
        self.grown.send_replace(());
    }

    pub(crate) fn outage(&self, outage: Outage) {
        self.lock().outages.push(outage);
    }

    pub(crate) fn unblocked(&self) {
        self.lock().unblocked = true;
    }

    /// What was heard so far; nothing is added while it is held.
    pub fn lock(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().expect("nobody panics with it")
    }

    /// How many events and effects there are.
    pub(crate) fn lengths(&self) -> (usize, usize) {
        let heard = self.lock();
        (heard.told.len(), heard.effects.len())
    }

    /// Waits for an event from the `from`th on that fits, for this long.
    pub async fn wait_told(&self, from: usize, patience: Duration, fits: impl Fn(&Told) -> bool) -> Option<Told> {
        let mut next = from;
        let look = |heard: &Heard| {
            let found = heard.told[next..].iter().find(|told| fits(told)).cloned();
            next = heard.told.len();
            found
        };
        self.wait(patience, look).await
    }

    /// Waits for an effect from the `from`th on that fits, for this long.
    pub async fn wait_effect(&self, from: usize, patience: Duration, fits: impl Fn(&Effect) -> bool) -> Option<Effect> {
        let mut next = from;
        let look = |heard: &Heard| {
            let found = heard.effects[next..].iter().find(|effect| fits(effect)).cloned();
            next = heard.effects.len();
            found
        };
        self.wait(patience, look).await
    }

    /// Waits until this finds something, for this long.
    pub async fn wait<T>(&self, patience: Duration, mut look: impl FnMut(&Heard) -> Option<T>) -> Option<T> {
        let mut grown = self.grown.subscribe();
        let end = clock::mono() + patience;
        loop {
            grown.mark_unchanged();
            if let Some(found) = look(&self.lock()) {
                return Some(found);
            }
            let left = end.saturating_sub(clock::mono());
            tokio::time::timeout(left, grown.changed()).await.ok()?.expect("the sender lives as long as the record");
        }
    }
}
