//! When a job is due: cron expressions in a zone, and intervals.
//!
//! A schedule is a pure function of time. Slots are instants in UTC that follow from the expression alone, never from a
//! slot before, so that every host finds the same ones from wherever it starts.

mod cron;
mod error;
mod expression;
mod field;
mod notes;
#[cfg(test)]
mod tests;
mod zone;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::time::{Millis, Slot};
use cron::Cron;
pub use error::{ScheduleError, ZoneError};
pub use field::FieldName;
pub use zone::{Zone, Zones};

/// The shortest interval. Cron has no shorter one either.
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);

/// The longest interval, about a hundred years: longer ones are slips of a unit.
const LONGEST_PERIOD: Duration = Duration::from_secs(36_500 * 24 * 3_600);

/// When a job is due. A clone costs next to nothing.
#[derive(Debug, Clone)]
pub struct Schedule {
    kind: Kind,
    zone: Zone,
    fingerprint: Arc<str>,
}

#[derive(Debug, Clone)]
enum Kind {
    Cron(Arc<Cron>),
    /// Milliseconds, at least a second.
    Every(i64),
}

impl Schedule {
    /// Reads a cron expression: five fields, six with seconds first, or a name such as `@daily`.
    ///
    /// When day of month and day of week are both given, a day that matches either is taken. In a fixed time, second,
    /// minute and hour are plain numbers or lists of them. One that falls in a gap of the local clock is due once, at
    /// the first instant after it; one in a repeated hour is due in the first pass only. All other expressions are due
    /// at every instant whose local clock matches.
    ///
    /// # Errors
    ///
    /// The field, the offending text and the reason, also for dates that never come.
    pub fn cron(expression: &str, zone: &Zone) -> Result<Schedule, ScheduleError> {
        let cron = Cron::new(expression, zone.tz().clone())?;
        let fingerprint = format!("cron {} in {zone}", cron.expression.normal_form()).into();
        Ok(Schedule { kind: Kind::Cron(Arc::new(cron)), zone: zone.clone(), fingerprint })
    }

    /// An interval, due at the multiples of the period since the Unix epoch, whatever the zone.
    ///
    /// # Errors
    ///
    /// [`ScheduleError::Period`] below a second, above a hundred years, or with a fraction of a millisecond.
    pub fn every(period: Duration) -> Result<Schedule, ScheduleError> {
        let refuse = |reason| Err(ScheduleError::Period { period, reason });
        if period < SHORTEST_PERIOD {
            return refuse("it must be at least 1 s");
        }
        if period > LONGEST_PERIOD {
            return refuse("it must be at most 36500 days");
        }
        if !period.subsec_nanos().is_multiple_of(1_000_000) {
            return refuse("it must be in whole milliseconds");
        }
        let millis = SignedDuration::try_from(period).map(|period| period.as_millis()).ok();
        match millis.and_then(|millis| i64::try_from(millis).ok()) {
            Some(millis) => {
                let fingerprint = format!("every {millis} ms").into();
                Ok(Schedule { kind: Kind::Every(millis), zone: Zone::utc(), fingerprint })
            }
            None => refuse("it must be at most 36500 days"),
        }
    }

    /// The first slot strictly later than `t`; none when the calendar (to the year 5000) has no further one.
    pub fn next_after(&self, t: Millis) -> Option<Slot> {
        let slot = match &self.kind {
            Kind::Every(period) => t.0.div_euclid(*period).checked_add(1)?.checked_mul(*period).map(Millis)?,
            Kind::Cron(cron) => millis(cron.next_from(instant(t, Rounding::Later)?)?),
        };
        assert!(slot > t, "a slot that is not later than {t} would be asked for again at once: {slot}");
        Some(Slot(slot))
    }

    /// The latest slot at or before `t` that is later than `not_before`: what a catch-up may start.
    pub fn latest_at_or_before(&self, t: Millis, not_before: Millis) -> Option<Slot> {
        let slot = match &self.kind {
            Kind::Every(period) => t.0.div_euclid(*period).checked_mul(*period).map(Millis)?,
            // Slots are whole seconds: those later than not_before are later than its second.
            Kind::Cron(cron) => {
                let after = instant(not_before, Rounding::Earlier).unwrap_or(Timestamp::MIN);
                millis(cron.last_until(instant(t, Rounding::Earlier)?, after)?)
            }
        };
        assert!(slot <= t, "a slot later than {t} is not due yet: {slot}");
        (slot > not_before).then_some(Slot(slot))
    }

    /// The least time between two slots on days without a change of the clock; a true bound there, also where days are
    /// left out. A change can bring two slots closer once: `0 */6 * * *` runs twice an hour apart where the clock goes
    /// back at midnight.
    pub fn least_gap(&self) -> Duration {
        match &self.kind {
            Kind::Every(period) => Duration::from_millis(period.unsigned_abs()),
            Kind::Cron(cron) => cron.expression.least_gap(),
        }
    }

    /// The same text on every host and in every process for schedules that mean the same: the normalised expression
    /// and the zone's name. The zone's rules are not part of it, see [`Schedule::zone_data_version`].
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The version of the zone data that the slots depend on; none for intervals and UTC.
    pub fn zone_data_version(&self) -> Option<&str> {
        self.zone.data_version()
    }

    /// The zone the expression is read in; UTC for an interval.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// What is legal and may still surprise, such as steps that do not divide their range.
    pub fn hints(&self) -> Vec<String> {
        match &self.kind {
            Kind::Every(_) => Vec::new(),
            Kind::Cron(cron) => cron.expression.hints(),
        }
    }

    /// What is special about a slot at a change of the local clock; none on ordinary days.
    pub fn notes(&self, slot: Slot) -> Vec<String> {
        match &self.kind {
            Kind::Every(_) => Vec::new(),
            Kind::Cron(cron) => instant(slot.0, Rounding::Earlier).map(|slot| cron.notes(slot)).unwrap_or_default(),
        }
    }
}

/// As written, with the zone: `0 2 * * * (Europe/Berlin)`, `every 1m 30s`.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Every(period) => write!(f, "every {:#}", SignedDuration::from_millis(*period)),
            Kind::Cron(cron) => write!(f, "{} ({})", cron.expression.written(), self.zone),
        }
    }
}

/// Which whole second stands for an instant between two.
enum Rounding {
    /// The last one at or before it.
    Earlier,
    /// The first one strictly behind it.
    Later,
}

/// None outside the years that can be computed with.
fn instant(t: Millis, rounding: Rounding) -> Option<Timestamp> {
    let second = t.0.div_euclid(1_000);
    let second = match rounding {
        Rounding::Earlier => second,
        Rounding::Later => second + 1,
    };
    Timestamp::from_second(second).ok()
}

fn millis(instant: Timestamp) -> Millis {
    Millis(instant.as_millisecond())
}
