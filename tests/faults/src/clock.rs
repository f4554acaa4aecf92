//! The harness's clocks. Its own timer is the hosts' too: one machine, one boot.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The time since boot.
pub(crate) fn mono() -> Duration {
    of(ClockId::Boottime)
}

/// The wall clock, in ms since the Unix epoch.
pub(crate) fn wall() -> i64 {
    i64::try_from(of(ClockId::Realtime).as_millis()).expect("a time within our age")
}

/// The wall clock at an instant of the own timer, as it goes now.
pub(crate) fn wall_at(at: Duration) -> i64 {
    let ms = |time: Duration| i64::try_from(time.as_millis()).expect("a time within our age");
    wall() - ms(mono()) + ms(at)
}

fn of(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).expect("past the epoch");
    Duration::new(seconds, u32::try_from(now.tv_nsec).expect("less than a second"))
}
