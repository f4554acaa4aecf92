//! What clocks show at a time of the simulation.

use std::time::Duration;

use leasehold_lease::time::Mono;

use crate::Ms;

/// A timer that goes a little too fast or too slow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timer {
    /// Parts of a million.
    pub(crate) drift: i64,
}

impl Timer {
    pub(crate) fn at(self, now: Ms) -> Mono {
        let ms = now + now * self.drift / 1_000_000;
        Mono(Duration::from_millis(u64::try_from(ms).expect("simulations begin after zero")))
    }

    /// The first time of the simulation at which it shows `mono` or more.
    pub(crate) fn when(self, mono: Mono) -> Ms {
        // Rounded up: a wait of less than a millisecond is one.
        let ms = (mono.0.as_secs() * 1_000 + u64::from(mono.0.subsec_micros().div_ceil(1_000))) as Ms;
        let mut now = ms - ms * self.drift / 1_000_000 - 2;
        while self.at(now) < mono {
            now += 1;
        }
        now
    }
}
