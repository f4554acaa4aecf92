//! Who of this process writes next.

use std::sync::{Condvar, Mutex, MutexGuard};

/// Lets one connection of the process write at a time, heartbeats first. SQLite alone gives its lock to whoever asks at
/// the right moment: beside 64 busy writers a heartbeat waited up to 0.4 s.
#[derive(Debug, Default)]
pub(super) struct Turnstile {
    turns: Mutex<Turns>,
    free: Condvar,
}

#[derive(Debug, Default)]
struct Turns {
    taken: bool,
    urgent: u32,
}

/// The right to write, until it is dropped.
pub(super) struct Turn<'a>(&'a Turnstile);

impl Turnstile {
    /// Waits for the turn: for one transaction of another connection at most, if it is urgent.
    pub(super) fn enter(&self, urgent: bool) -> Turn<'_> {
        let mut turns = self.turns();
        turns.urgent += u32::from(urgent);
        while turns.taken || (!urgent && turns.urgent > 0) {
            turns = self.free.wait(turns).expect(UNPOISONED);
        }
        turns.urgent -= u32::from(urgent);
        turns.taken = true;
        Turn(self)
    }

    /// How many wait for the next turn before all others.
    #[cfg(test)]
    pub(super) fn waiting_urgently(&self) -> u32 {
        self.turns().urgent
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().expect(UNPOISONED)
    }
}

/// Nothing that holds the mutex can panic.
const UNPOISONED: &str = "no thread panics while it counts turns";

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.turns().taken = false;
        self.0.free.notify_all();
    }
}
