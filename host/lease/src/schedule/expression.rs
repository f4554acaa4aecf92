//! The strict check in front of the cron library.
//!
//! The library takes more than we want to mean: `1,,2`, `JAN1` as a month, a line break between fields, steps past the
//! end of their range, a year. It also searches for thousands of years for a date that never comes. So an expression is
//! read here first, refused with the field and the reason, and handed on in one normal form.

use std::time::Duration;

use super::error::{ScheduleError, quote};
use super::field::{Field, FieldName, Item, Problem, Remedy};

/// The longest expression that is read, in bytes.
const LENGTH_LIMIT: usize = 1_000;

/// The names for whole expressions, and what they stand for.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// A cron expression that was read and found possible.
#[derive(Debug, Clone)]
pub(super) struct Expression {
    /// As written, with single spaces.
    written: String,
    /// Second, minute, hour, day of month, month, day of week.
    fields: [Field; 6],
}

impl Expression {
    /// Reads an expression of five or six fields, or a name such as `@daily`.
    pub(super) fn parse(text: &str) -> Result<Expression, ScheduleError> {
        if text.len() > LENGTH_LIMIT {
            return Err(ScheduleError::TooLong { length: text.len(), limit: LENGTH_LIMIT });
        }
        if let Some((index, found)) = text.chars().enumerate().find(|(_, c)| c.is_control() && *c != '\t') {
            let escaped = found.escape_default().to_string();
            return Err(ScheduleError::ControlCharacter { escaped, position: index + 1 });
        }
        let written: Vec<&str> = text.split([' ', '\t']).filter(|field| !field.is_empty()).collect();
        if written.first().is_none_or(|first| !first.starts_with('@')) {
            return Expression::from_fields(&written);
        }
        let nickname = written.join(" ");
        match NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(&nickname)) {
            Some((_, meaning)) => {
                let fields: Vec<&str> = meaning.split(' ').collect();
                Ok(Expression { written: nickname, ..Expression::from_fields(&fields)? })
            }
            None => Err(unknown_nickname(&nickname)),
        }
    }

    fn from_fields(written: &[&str]) -> Result<Expression, ScheduleError> {
        let (second, rest) = match written {
            [] => return Err(ScheduleError::Empty),
            [_, _, _, _, _] => ("0", written),
            [second, rest @ ..] if rest.len() == 5 => (*second, rest),
            _ => return Err(ScheduleError::FieldCount { found: written.len() }),
        };
        let texts = [second, rest[0], rest[1], rest[2], rest[3], rest[4]];
        let mut fields = Vec::with_capacity(6);
        for (index, name) in FieldName::ALL.into_iter().enumerate() {
            let field = Field::parse(name, texts[index]).map_err(|problem| refusal(name, problem, index, written))?;
            fields.push(field);
        }
        let fields: [Field; 6] = fields.try_into().map_err(|_| ScheduleError::FieldCount { found: written.len() })?;
        let expression = Expression { written: written.join(" "), fields };
        expression.refuse_impossible()?;
        Ok(expression)
    }

    /// As written, with single spaces.
    pub(super) fn written(&self) -> &str {
        &self.written
    }

    /// Always six fields, numbers for names: two expressions with one normal form are one schedule.
    pub(super) fn normal_form(&self) -> String {
        self.fields.each_ref().map(Field::to_string).join(" ")
    }

    /// Whether second, minute and hour are written out as numbers: fixed times. Anything with `*`, `-` or `/` in one of
    /// them is an interval pattern, which keeps going through a repeated hour.
    pub(super) fn is_fixed_time(&self) -> bool {
        self.fields[..3].iter().all(Field::is_written_out)
    }

    /// The least distance of two times of day, midnight in between included.
    pub(super) fn least_gap(&self) -> Duration {
        let [seconds, minutes, hours] = [0, 1, 2].map(|index| self.fields[index].values());
        let seconds: Vec<u32> = seconds.into_iter().map(u32::from).collect();
        let minutes: Vec<u32> = hours
            .iter()
            .flat_map(|hour| minutes.iter().map(|minute| u32::from(*hour) * 60 + u32::from(*minute)))
            .collect();
        let spread = seconds.last().copied().unwrap_or(0) - seconds.first().copied().unwrap_or(0);
        let across = cyclic_gaps(&minutes, 24 * 60).map(|gap| gap * 60 - spread).min();
        let inner = seconds.windows(2).map(|pair| pair[1] - pair[0]).min();
        Duration::from_secs(inner.into_iter().chain(across).min().unwrap_or(24 * 3600).into())
    }

    /// Traps that are legal: what a person may not expect of this expression.
    pub(super) fn hints(&self) -> Vec<String> {
        let [.., days, _, weekdays] = &self.fields;
        let mut hints: Vec<String> = self.fields.iter().filter_map(uneven_step).collect();
        if !days.is_every() && !weekdays.is_every() {
            hints.push(format!(
                "day of month `{days}` and day of week `{weekdays}` are both given: it runs on days that match either"
            ));
        }
        if weekdays.is_every()
            && let Some(missing) = days.values().first().filter(|day| **day > 28)
            && days.is_written_out()
            && self.months().iter().any(|month| longest(*month) < *missing || (*month == 2 && *missing == 29))
        {
            hints.push(format!("months without a day {missing} are left out; `L` is the last day of every month"));
        }
        hints
    }

    /// A date that never comes is found by the lengths of the months, not by looking for it.
    fn refuse_impossible(&self) -> Result<(), ScheduleError> {
        let [.., days, months, weekdays] = &self.fields;
        // Every weekday comes in every month, and one that comes five times does so at least in leap years.
        if !weekdays.is_every() {
            return Ok(());
        }
        let longest = self.months().into_iter().map(longest).max().unwrap_or(31);
        let possible = days.items.iter().any(|item| match *item {
            Item::Value(day) | Item::Range(day, _) | Item::RangeStep(day, ..) | Item::NearestWeekday(day) => {
                day <= longest
            }
            _ => true,
        });
        if possible {
            return Ok(());
        }
        Err(ScheduleError::Impossible { days: days.to_string(), months: months.to_string(), longest })
    }

    fn months(&self) -> Vec<u8> {
        self.fields[4].values()
    }
}

/// The distances from each value to the next, and from the last on to the first of the next cycle.
fn cyclic_gaps(values: &[u32], cycle: u32) -> impl Iterator<Item = u32> {
    let wrap = values.first().zip(values.last()).map(|(first, last)| first + cycle - last);
    values.windows(2).map(|pair| pair[1] - pair[0]).chain(wrap)
}

/// The length of a month, in a leap year.
fn longest(month: u8) -> u8 {
    match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn uneven_step(field: &Field) -> Option<String> {
    let step = field.items.iter().find_map(|item| match item {
        Item::EveryStep(step) => Some(*step),
        _ => None,
    })?;
    let cycle = field.name.cycle();
    let restart = match field.name {
        FieldName::Second => "minute",
        FieldName::Minute => "hour",
        FieldName::Hour => "day",
        FieldName::DayOfMonth => "month",
        FieldName::Month => "year",
        FieldName::DayOfWeek => "week",
    };
    // Months differ in length, so that no step but 1 is even in them.
    if step == 1 || (cycle.is_multiple_of(step) && field.name != FieldName::DayOfMonth) {
        return None;
    }
    let name = field.name;
    let even = name.duration_unit().map(|unit| format!("; every = \"{step}{unit}\" is even")).unwrap_or_default();
    Some(format!("gaps are uneven: the steps of {name} `*/{step}` start again every {restart}{even}"))
}

fn refusal(field: FieldName, problem: Problem, index: usize, written: &[&str]) -> ScheduleError {
    let Problem { text, reason, remedy } = problem;
    let hint = match remedy {
        Remedy::None => None,
        Remedy::Say(hint) => Some(hint),
        Remedy::OneValue { first, step } => {
            // Of five fields the seconds are not written.
            let before = written.len().min(index + written.len() - 6);
            let fields = written.iter().enumerate().map(|(at, field)| match at == before {
                true => first.to_string(),
                false => quote(field).to_string(),
            });
            let meant = fields.collect::<Vec<String>>().join(" ");
            let interval = field.duration_unit().map(|unit| format!("; an interval is every = \"{step}{unit}\""));
            Some(format!("that is `{meant}`{}", interval.unwrap_or_default()))
        }
    };
    ScheduleError::Field { field, text, reason, hint }
}

fn unknown_nickname(text: &str) -> ScheduleError {
    let mut words = text.split(' ');
    let first = words.next().unwrap_or_default().to_ascii_lowercase();
    let hint = match (first.as_str(), words.next()) {
        ("@every", Some(period)) if period.len() <= 20 && period.bytes().all(|b| b.is_ascii_alphanumeric()) => {
            format!("write an interval as every = \"{period}\"")
        }
        ("@every", _) => "write an interval as every = \"90s\"".to_owned(),
        _ => {
            let known: Vec<&str> = NICKNAMES.iter().map(|(name, _)| *name).collect();
            format!("known are {}", known.join(", "))
        }
    };
    ScheduleError::UnknownNickname { text: text.to_owned(), hint }
}
