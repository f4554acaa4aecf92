//! The harness's clocks. Its own timer is the hosts' too: one machine, one boot.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The time since boot, as the watchdog counts it.
pub(crate) fn mono() -> Duration {
    leasehold_test_servers::since_boot()
}

/// The wall clock, in ms since the Unix epoch.
pub(crate) fn wall() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec * 1_000 + now.tv_nsec / 1_000_000
}

/// The wall clock at an instant of the own timer, as it goes now.
pub(crate) fn wall_at(at: Duration) -> i64 {
    let ms = |time: Duration| i64::try_from(time.as_millis()).expect("a time within our age");
    wall() - ms(mono()) + ms(at)
}
