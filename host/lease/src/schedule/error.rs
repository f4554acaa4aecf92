//! Why a schedule or a time zone is refused, in words for the person who wrote it.

use std::fmt;
use std::time::Duration;

use super::field::FieldName;

/// How much of an offending text an error repeats.
const QUOTE_LIMIT: usize = 60;

/// A schedule that cannot be used. Each is found when the schedule is read, without searching the calendar.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// Nothing but blanks.
    #[error(
        "the schedule is empty; write five fields (minute, hour, day of month, month, day of week), such as `0 2 * * *`"
    )]
    Empty,
    /// Longer than any schedule a person writes; refused unread.
    #[error("the schedule is {length} bytes long; at most {limit} are read")]
    TooLong {
        /// Bytes of the expression.
        length: usize,
        /// The most that is read.
        limit: usize,
    },
    /// A line break or another control character. Fields are separated by spaces or tabs.
    #[error(
        "the schedule has a control character, `{escaped}`, at character {position}; separate fields by spaces or tabs"
    )]
    ControlCharacter {
        /// The character, escaped.
        escaped: String,
        /// Counted from 1.
        position: usize,
    },
    /// A name such as `@reboot` that is not one of ours.
    #[error("`{}` is not a schedule name; {hint}", quote(.text))]
    UnknownNickname {
        /// What was written.
        text: String,
        /// What to write instead.
        hint: String,
    },
    /// Not five fields, nor six.
    #[error("the schedule has {found} field{}; five are read (minute, hour, day of month, month, day of week), \
             or six with seconds first{}", if *.found == 1 { "" } else { "s" },
            if *.found == 7 { "; there is no year field" } else { "" })]
    FieldCount {
        /// How many there are.
        found: usize,
    },
    /// One field cannot be read.
    #[error("{field} `{}`: {reason}{}", quote(.text), hint_suffix(.hint.as_deref()))]
    Field {
        /// Which field.
        field: FieldName,
        /// The offending text: one item of the field, or all of it.
        text: String,
        /// What is wrong with it.
        reason: String,
        /// What was probably meant.
        hint: Option<String>,
    },
    /// A date that never comes, such as 31 February.
    #[error("day of month `{}` never comes in month `{}`: the longest of these months has {longest} days",
            quote(.days), quote(.months))]
    Impossible {
        /// The day-of-month field.
        days: String,
        /// The month field.
        months: String,
        /// The length of the longest month that is chosen, leap years included.
        longest: u8,
    },
    /// An interval that is too short, too long or not in whole milliseconds.
    #[error("an interval of {period:?} cannot be kept: {reason}")]
    Period {
        /// What was asked for.
        period: Duration,
        /// Which bound it breaks.
        reason: &'static str,
    },
    /// The cron library refuses what the check in front of it accepts: a bug here, reported instead of guessed around.
    #[error("the cron library does not read `{expression}`; please report this")]
    Library {
        /// The normalised expression that was handed to the library.
        expression: String,
        /// What the library says.
        source: croner::errors::CronError,
    },
}

/// A time zone that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ZoneError {
    /// No zone of that name in the zone data.
    #[error("there is no time zone `{}` in the zone data {version}{}", quote(.name), hint_suffix(.hint.as_deref()))]
    Unknown {
        /// What was written.
        name: String,
        /// The version of the zone data that was searched.
        version: String,
        /// A near miss, or what a name looks like.
        hint: Option<String>,
    },
}

/// Text from outside, safe to print: shortened, ASCII only, everything else escaped.
pub(super) fn quote(text: &str) -> impl fmt::Display {
    let mut quoted: String = text.chars().take(QUOTE_LIMIT).flat_map(char::escape_default).collect();
    if text.chars().nth(QUOTE_LIMIT).is_some() {
        quoted.push('…');
    }
    quoted
}

fn hint_suffix(hint: Option<&str>) -> String {
    hint.map(|hint| format!("; {hint}")).unwrap_or_default()
}
