//! The clock that a store decides by.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_lease::time::Millis;

/// Where a store reads the time. A test hands in one that it can set.
pub type Clock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// The machine's wall clock, for stores that have no clock of their own.
pub fn machine() -> Clock {
    Arc::new(wall)
}

#[allow(
    clippy::disallowed_methods,
    reason = "a store in this process decides by the machine's clock; this is its door"
)]
fn wall() -> Millis {
    let ms = |d: Duration| i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(after) => Millis(ms(after)),
        Err(before) => Millis(-ms(before.duration())),
    }
}

/// The time since boot, suspend included where the system can count it: for measuring how long something takes.
pub(crate) fn since_boot() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    let now = rustix::time::clock_gettime(clock);
    // Neither is negative, and there are less than 10^9 nanoseconds.
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}
