//! Advances the engine's epoch every 10 ms while guests run, so that running code comes back to the host that often.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use wasmtime::Engine;

/// How often a running guest comes back to the host.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Owns the ticking thread, which sleeps while no guest runs and ends with this handle and the last guest.
pub(crate) struct Ticker(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    guests: usize,
    closed: bool,
}

/// Held while a guest exists.
pub(crate) struct Ticking(Arc<Shared>);

impl Ticker {
    pub(crate) fn start(engine: &Engine) -> io::Result<Ticker> {
        let shared = Arc::new(Shared::default());
        let engine = engine.weak();
        let ours = shared.clone();
        thread::Builder::new().name("guest-ticker".to_owned()).spawn(move || {
            while ours.wait_for_tick() {
                // Weak, so that a ticker never keeps an engine alive.
                let Some(engine) = engine.upgrade() else { return };
                engine.increment_epoch();
            }
        })?;
        Ok(Ticker(shared))
    }

    /// Ticks at least as long as the answer is held.
    pub(crate) fn ticking(&self) -> Ticking {
        let mut state = self.0.lock();
        state.guests += 1;
        if state.guests == 1 {
            self.0.changed.notify_one();
        }
        Ticking(self.0.clone())
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
        self.0.lock().guests -= 1;
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
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        // Woken early, by the end of the handle, it ticks early: harmless.
        drop(self.changed.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner));
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
