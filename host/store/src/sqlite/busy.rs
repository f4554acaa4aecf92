//! Waiting for SQLite's lock.

use std::thread;
use std::time::Duration;

/// How long a lock is waited for. Beyond that the caller is told that nothing was sent.
const LONGEST: Duration = Duration::from_secs(2);

/// One wait for a lock: short steps all the way. SQLite's own handler soon asks only every 100 ms, so that under load
/// those who have waited longest get the lock last.
#[derive(Debug, Default)]
pub(super) struct Patience {
    waited: Duration,
    steps: u32,
}

impl Patience {
    /// Waits a little; `false` once it has waited enough.
    #[allow(
        clippy::disallowed_methods,
        reason = "SQLite cannot tell when its lock is free: asking again is all there is"
    )]
    pub(super) fn wait(&mut self) -> bool {
        if self.waited >= LONGEST {
            return false;
        }
        // Uneven steps, so that several who wait do not ask at the same moments.
        let step = Duration::from_micros(500 + u64::from(self.steps * 7 % 5) * 500);
        thread::sleep(step);
        self.steps += 1;
        self.waited += step;
        true
    }
}

/// A busy handler: SQLite calls it with 0 at the start of each wait.
pub(super) fn handler() -> impl FnMut(i32) -> bool + Send + 'static {
    let mut patience = Patience::default();
    move |count| {
        if count == 0 {
            patience = Patience::default();
        }
        patience.wait()
    }
}
