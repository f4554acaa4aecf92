//! Looks after running guests every 10 ms: advances the engine's epoch, so that running code comes back to the host that
//! often, and keeps the deadlines of attempts. It runs apart from the guests, so that none can hold it up.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use wasmtime::Engine;

use crate::attempt::Attempt;
use crate::invocation::MonotonicClock;
use crate::signal::{Signal, StopReason};

/// How often a running guest comes back to the host, and deadlines are looked at.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Owns the ticking thread, which sleeps while no guest runs and ends with this handle and the last guest.
pub(crate) struct Ticker(Arc<Shared>);

struct Shared {
    clock: MonotonicClock,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    guests: usize,
    /// Of running attempts, by the time they are due and the attempt's number.
    deadlines: BTreeMap<(Duration, u64), (Deadline, Signal)>,
    /// The number of the next attempt.
    next: u64,
    /// The thread waits for a guest.
    asleep: bool,
    closed: bool,
}

/// What an attempt is told when its time has come.
#[derive(Debug, Clone, Copy)]
enum Deadline {
    /// Asked to stop.
    Soft,
    /// Interrupted.
    Hard,
}

/// Held while a guest exists.
pub(crate) struct Ticking {
    shared: Arc<Shared>,
    keys: [(Duration, u64); 2],
}

impl Ticker {
    pub(crate) fn start(engine: &Engine, clock: MonotonicClock) -> io::Result<Ticker> {
        let shared = Arc::new(Shared { clock, state: Mutex::default(), changed: Condvar::new() });
        let engine = engine.weak();
        let ours = shared.clone();
        thread::Builder::new().name("guest-ticker".to_owned()).spawn(move || {
            while ours.wait_for_tick() {
                // Weak, so that a ticker never keeps an engine alive.
                let Some(engine) = engine.upgrade() else { return };
                engine.increment_epoch();
                ours.tell_deadlines();
            }
        })?;
        Ok(Ticker(shared))
    }

    /// Ticks at least as long as the answer is held, and keeps the deadlines of this attempt until then.
    pub(crate) fn ticking(&self, attempt: &Attempt) -> Ticking {
        let mut state = self.0.lock();
        let number = state.next;
        state.next += 1;
        let due = [(attempt.limits.soft_deadline(), Deadline::Soft), (attempt.limits.timeout, Deadline::Hard)];
        let keys = due.map(|(after, deadline)| {
            let key = (attempt.started().saturating_add(after), number);
            // A timeout of nothing has both at once: of them the harder one stays.
            state.deadlines.insert(key, (deadline, attempt.signal.clone()));
            key
        });
        state.guests += 1;
        // Awake, it comes by itself: waking it early would be paid for by whoever is starting a guest.
        if state.asleep {
            state.asleep = false;
            self.0.changed.notify_one();
        }
        Ticking { shared: self.0.clone(), keys }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_one();
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.guests -= 1;
        for key in &self.keys {
            state.deadlines.remove(key);
        }
    }
}

impl Shared {
    /// Waits a tick, and before that for a guest. False at the end.
    fn wait_for_tick(&self) -> bool {
        let mut state = self.lock();
        while state.guests == 0 {
            if state.closed {
                return false;
            }
            state.asleep = true;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.asleep = false;
        // Woken early, by the end of the handle, it ticks early: harmless.
        drop(self.changed.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner));
        true
    }

    fn tell_deadlines(&self) {
        let now = (self.clock)();
        let mut due = Vec::new();
        let mut state = self.lock();
        while let Some(first) = state.deadlines.first_entry()
            && first.key().0 <= now
        {
            due.push(first.remove());
        }
        drop(state);
        for (deadline, signal) in due {
            match deadline {
                Deadline::Soft => signal.stop(StopReason::Deadline),
                Deadline::Hard => signal.force_by_timeout(),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use wasmtime::Config;

    use super::*;
    use crate::attempt::tests::attempt;
    use crate::limits::Limits;

    #[test]
    fn an_attempt_is_asked_to_stop_and_then_forced_and_not_when_it_has_ended() {
        let seconds = Arc::new(AtomicU64::new(0));
        let ours = seconds.clone();
        let clock: MonotonicClock = Arc::new(move || Duration::from_secs(ours.load(Ordering::Relaxed)));
        let engine = Engine::new(&Config::new()).expect("an engine");
        let ticker = Ticker::start(&engine, clock).expect("a thread");
        let limits = |seconds| Limits { timeout: Duration::from_secs(seconds), ..Limits::default() };
        let (short, long, ended) = (attempt(limits(10)), attempt(limits(20)), attempt(limits(10)));
        let held = [ticker.ticking(&short), ticker.ticking(&long)];
        drop(ticker.ticking(&ended));
        seconds.store(9, Ordering::Relaxed);
        while short.signal.reason() != Some(StopReason::Deadline) {
            thread::yield_now();
        }
        assert!(!short.signal.is_forced());
        seconds.store(10, Ordering::Relaxed);
        while !short.signal.is_forced() {
            thread::yield_now();
        }
        assert_eq!((long.signal.reason(), ended.signal.reason()), (None, None));
        drop(held);
        assert!(ticker.0.lock().deadlines.is_empty());
    }
}
