//! What is special about a slot at a change of the clock, for people.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::AmbiguousOffset;

use super::cron::{Change, Cron, Stretch, add_seconds};

impl Cron {
    /// Notes for the slot at this instant; none on ordinary days.
    pub(super) fn notes(&self, slot: Timestamp) -> Vec<String> {
        let stretch = Stretch::around(&self.tz, slot);
        let wall = stretch.offset.to_datetime(slot);
        stretch
            .begin
            .and_then(|change| self.gap_note(slot, &change))
            .into_iter()
            .chain(self.repeat_note(slot, wall))
            .collect()
    }

    /// The slot is the first behind a gap in which the calendar has a match.
    fn gap_note(&self, slot: Timestamp, change: &Change) -> Option<String> {
        let missing = self.calendar_from(change.before).filter(|wall| change.leaves_out(*wall))?;
        let before = self.last_until(add_seconds(slot, -1)?, add_seconds(change.at, -1)?);
        if before.is_some() {
            return None;
        }
        let missing = clock(missing, change);
        let (from, to) = (clock(change.before, change), clock(change.after, change));
        let gap = format!("{missing} does not exist here on this day, the clock goes from {from} to {to}");
        match self.is_fixed_time() {
            true if slot == change.at => Some(format!("{gap}: runs at the first instant after the gap")),
            // A fixed time in a gap is due as the gap ends; any later slot is an ordinary one.
            true => None,
            false => Some(format!("{gap}: an interval pattern leaves these times out")),
        }
    }

    /// The slot's wall-clock time comes twice.
    fn repeat_note(&self, slot: Timestamp, wall: DateTime) -> Option<String> {
        let AmbiguousOffset::Fold { before, .. } = self.tz.to_ambiguous_timestamp(wall).offset() else {
            return None;
        };
        let time = wall.time();
        let pass = match (self.is_fixed_time(), before == self.tz.to_offset(slot)) {
            (true, _) => "runs in the first pass only",
            (false, true) => "this is the first pass, an interval pattern runs in both",
            (false, false) => "this is the second pass, an interval pattern runs in both",
        };
        Some(format!("{time} comes twice on this day: {pass}"))
    }
}

/// The time of day, with the date where the gap spans more than one.
fn clock(wall: DateTime, change: &Change) -> String {
    if change.before.date() == change.after.date() {
        wall.time().to_string()
    } else {
        format!("{} {}", wall.date(), wall.time())
    }
}
