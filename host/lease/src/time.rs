//! Instants: the store's and the wall clock's ([`Millis`]), a due time ([`Slot`]), and the host's own timer ([`Mono`]).

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant in whole milliseconds since the Unix epoch, UTC.
///
/// Whether it comes from the store's clock or from a wall clock is told by the name of what holds it; only the store's
/// clock decides leases and lateness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub i64);

impl Millis {
    /// How far `self` lies behind `earlier`; zero when it does not.
    pub fn since(self, earlier: Millis) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// Whole milliseconds of a duration, as far as an instant can carry them.
fn whole_ms(d: Duration) -> i64 {
    i64::try_from(d.as_millis()).unwrap_or(i64::MAX)
}

impl Add<Duration> for Millis {
    type Output = Millis;
    fn add(self, d: Duration) -> Millis {
        Millis(self.0.saturating_add(whole_ms(d)))
    }
}

impl Sub<Duration> for Millis {
    type Output = Millis;
    fn sub(self, d: Duration) -> Millis {
        Millis(self.0.saturating_sub(whole_ms(d)))
    }
}

/// RFC 3339, UTC, with milliseconds: `2025-03-09T07:00:00.000Z`.
impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(t) => write!(f, "{t:.3}"),
            // Outside the years that RFC 3339 can write: the number is all there is to say.
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

/// The instant at which a scheduled run is due. With the job it names the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slot(pub Millis);

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A point of the host's own timer: the time since boot, suspend included. It means nothing on another host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Mono(pub Duration);

impl Mono {
    /// The time from `earlier` to `self`; zero when `earlier` is not earlier.
    pub fn since(self, earlier: Mono) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Mono {
    type Output = Mono;
    fn add(self, d: Duration) -> Mono {
        Mono(self.0.saturating_add(d))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_prints_as_rfc_3339_with_milliseconds() {
        assert_eq!(Millis(1_741_503_600_000).to_string(), "2025-03-09T07:00:00.000Z");
        assert_eq!(Millis(1).to_string(), "1970-01-01T00:00:00.001Z");
    }

    #[test]
    fn arithmetic_stops_at_the_ends_of_time() {
        assert_eq!(Millis(i64::MAX) + Duration::from_secs(1), Millis(i64::MAX));
        assert_eq!(Millis(5).since(Millis(9)), Duration::ZERO);
    }
}
