//! Cron slots in a zone: the library finds dates and times on the calendar, this file maps them to instants.
//!
//! The time line of a zone falls into stretches of one offset from UTC. Within a stretch the wall clock runs evenly, so
//! that the calendar search needs to know nothing of zones. What happens between two stretches is the rule of the
//! project, stated once for both directions of search:
//!
//! - An interval pattern is due at every instant whose wall clock matches.
//! - A fixed time is due at the first instant at which the wall clock has reached it: after a gap (the clock goes
//!   forward) that is the first instant of the new stretch, and when the clock goes back, the second pass adds nothing.
//!
//! This holds for every gap and every repeat, also for a whole day left out.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::error::ScheduleError;
use super::expression::Expression;

/// A cron expression in a zone. All instants are whole seconds.
#[derive(Debug, Clone)]
pub(super) struct Cron {
    pub(super) expression: Expression,
    pub(super) tz: TimeZone,
    calendar: Arc<croner::Cron>,
    fixed_time: bool,
}

/// The instants around one of them that share an offset from UTC.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    pub(super) offset: Offset,
    /// The change of the clock it begins with.
    pub(super) begin: Option<Change>,
    /// The first instant behind it.
    pub(super) end: Option<Timestamp>,
}

/// The clock is set forward or back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    /// The first instant with the new offset.
    pub(super) at: Timestamp,
    /// What the wall clock would show at that instant without the change: the first time left out, if it goes forward.
    pub(super) before: DateTime,
    /// What it shows: the first time that is repeated, if it goes back.
    pub(super) after: DateTime,
}

impl Change {
    /// Whether the wall clock leaves out this time.
    pub(super) fn leaves_out(&self, wall: DateTime) -> bool {
        self.before <= wall && wall < self.after
    }
}

impl Stretch {
    pub(super) fn around(tz: &TimeZone, instant: Timestamp) -> Stretch {
        let offset = tz.to_offset(instant);
        let end = tz.following(instant).next().map(|change| change.timestamp());
        let begin = add_seconds(instant, 1).and_then(|later| {
            tz.preceding(later).find_map(|change| {
                let at = change.timestamp();
                let earlier = tz.to_offset(add_seconds(at, -1)?);
                // Some changes rename the offset and keep it; they are no change of the clock.
                let (before, after) = (earlier.to_datetime(at), offset.to_datetime(at));
                (earlier != offset).then_some(Change { at, before, after })
            })
        });
        Stretch { offset, begin, end }
    }
}

/// The answer of one calendar search, kept because the next stretch often needs the same one.
struct Search {
    from: DateTime,
    found: DateTime,
}

impl Cron {
    pub(super) fn new(text: &str, tz: TimeZone) -> Result<Cron, ScheduleError> {
        let expression = Expression::parse(text)?;
        let calendar = calendar(expression.normal_form())?;
        Ok(Cron { fixed_time: expression.is_fixed_time(), expression, tz, calendar })
    }

    /// Whether it names times of day, rather than a pattern that repeats within the day.
    pub(super) fn is_fixed_time(&self) -> bool {
        self.fixed_time
    }

    /// The first slot at or after `from`.
    pub(super) fn next_from(&self, from: Timestamp) -> Option<Timestamp> {
        let mut from = from;
        let mut last: Option<Search> = None;
        // Each round moves to the next stretch, at most to the one that holds the next matching date.
        loop {
            let stretch = Stretch::around(&self.tz, from);
            let start = self.wall_from(&stretch, from);
            let found = match last {
                Some(search) if search.from <= start && start <= search.found => search.found,
                _ => self.calendar_from(start)?,
            };
            let instant = self.instant(&stretch, found)?;
            match stretch.end {
                Some(end) if end <= instant => from = end,
                _ => return Some(instant),
            }
            last = Some(Search { from: start, found });
        }
    }

    /// The last slot at or before `until` that is later than `after`.
    pub(super) fn last_until(&self, until: Timestamp, after: Timestamp) -> Option<Timestamp> {
        let mut until = until;
        let mut last: Option<Search> = None;
        while until > after {
            let stretch = Stretch::around(&self.tz, until);
            let end = stretch.offset.to_datetime(until);
            let found = match last {
                Some(search) if search.found <= end && end <= search.from => search.found,
                _ => self.calendar_until(end)?,
            };
            let Some(change) = stretch.begin else {
                return self.instant(&stretch, found).filter(|instant| *instant > after);
            };
            if self.first_wall(&change) <= found {
                return self.instant(&stretch, found).filter(|instant| *instant > after);
            }
            until = add_seconds(change.at, -1)?;
            last = Some(Search { from: end, found });
        }
        None
    }

    /// The first matching time on the calendar at or after `wall`, zones left aside.
    pub(super) fn calendar_from(&self, wall: DateTime) -> Option<DateTime> {
        // An error means that the search came to the end of the library's calendar, the year 5000.
        self.calendar.find_next_occurrence(&wall, true).ok()
    }

    fn calendar_until(&self, wall: DateTime) -> Option<DateTime> {
        // An error means that the search came to the beginning of the library's calendar, the year 1.
        self.calendar.find_previous_occurrence(&wall, true).ok()
    }

    /// The wall-clock time from which matches count, for a search from this instant of the stretch.
    fn wall_from(&self, stretch: &Stretch, from: Timestamp) -> DateTime {
        let wall = stretch.offset.to_datetime(from);
        match stretch.begin {
            Some(change) if from == change.at => self.first_wall(&change),
            Some(change) if self.fixed_time => wall.max(change.before),
            _ => wall,
        }
    }

    /// The earliest wall-clock time that counts in the stretch behind a change. For a fixed time it is where the
    /// stretch before left off, so that a gap is looked into and a repeated hour is not.
    fn first_wall(&self, change: &Change) -> DateTime {
        if self.fixed_time { change.before } else { change.after }
    }

    /// The instant of a matching wall-clock time in a stretch; what the gap before it left out is due as it begins.
    fn instant(&self, stretch: &Stretch, wall: DateTime) -> Option<Timestamp> {
        let instant = stretch.offset.to_timestamp(wall).ok()?;
        Some(stretch.begin.map_or(instant, |change| instant.max(change.at)))
    }
}

/// Those in use, by expression. One takes five kilobytes and some time to make, and thousands of jobs share few.
static CALENDARS: LazyLock<Mutex<HashMap<String, Weak<croner::Cron>>>> = LazyLock::new(Mutex::default);

/// The calendar of an expression in normal form.
fn calendar(normal: String) -> Result<Arc<croner::Cron>, ScheduleError> {
    // Whoever panicked with it left it whole.
    let mut calendars = CALENDARS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(calendar) = calendars.get(&normal).and_then(Weak::upgrade) {
        return Ok(calendar);
    }
    let parser = CronParser::builder().seconds(Seconds::Required).year(Year::Disallowed).build();
    let parsed = parser.parse(&normal);
    let calendar =
        parsed.map(Arc::new).map_err(|source| ScheduleError::Library { expression: normal.clone(), source })?;
    if calendars.len() == calendars.capacity() {
        calendars.retain(|_, calendar| calendar.strong_count() > 0);
    }
    calendars.insert(normal, Arc::downgrade(&calendar));
    Ok(calendar)
}

/// An instant some seconds away, unless it is out of the calendar.
pub(super) fn add_seconds(instant: Timestamp, seconds: i64) -> Option<Timestamp> {
    instant.checked_add(SignedDuration::from_secs(seconds)).ok()
}
