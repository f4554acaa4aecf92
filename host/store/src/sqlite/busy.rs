//! Waiting for SQLite's lock.

use std::thread;
use std::time::Duration;

/// How often a lock is asked for: with the steps below for about 1.6 s. Beyond that the caller is told that nothing was
/// sent, while it still waits for its answer.
const LONGEST: i32 = 1_000;

/// A busy handler, called with the number of steps waited so far: waits a little; `false` once it has waited enough.
///
/// Short steps all the way. SQLite's own handler soon asks only every 100 ms, so that under load those who have waited
/// longest get the lock last.
#[allow(clippy::disallowed_methods, reason = "SQLite cannot tell when its lock is free: asking again is all there is")]
pub(super) fn wait(steps: i32) -> bool {
    if steps >= LONGEST {
        return false;
    }
    // Uneven steps of 1.5 ms on average, so that several who wait do not ask at the same moments.
    let uneven = u64::from(steps.unsigned_abs() % 5 * 7 % 5);
    thread::sleep(Duration::from_micros(500 + uneven * 500));
    true
}
