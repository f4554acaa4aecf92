//! One field of a cron expression: strictly read, and written back in one normal form.

use std::fmt;

/// The fields of a cron expression, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldName {
    /// 0 to 59; only in expressions of six fields.
    Second,
    /// 0 to 59.
    Minute,
    /// 0 to 23.
    Hour,
    /// 1 to 31, `L`, `LW`, `15W`.
    DayOfMonth,
    /// 1 to 12, or JAN to DEC.
    Month,
    /// 0 to 7 (both ends are Sunday), or SUN to SAT, `5L`, `2#1`.
    DayOfWeek,
}

impl FieldName {
    /// All six, in the order they are written.
    pub(super) const ALL: [FieldName; 6] = [
        FieldName::Second,
        FieldName::Minute,
        FieldName::Hour,
        FieldName::DayOfMonth,
        FieldName::Month,
        FieldName::DayOfWeek,
    ];

    /// The least and the largest number that may be written.
    pub(super) fn bounds(self) -> (u8, u8) {
        match self {
            FieldName::Second | FieldName::Minute => (0, 59),
            FieldName::Hour => (0, 23),
            FieldName::DayOfMonth => (1, 31),
            FieldName::Month => (1, 12),
            FieldName::DayOfWeek => (0, 7),
        }
    }

    /// How many different values there are. Sunday has two numbers and counts once.
    pub(super) fn cycle(self) -> u8 {
        let (min, max) = self.bounds();
        if self == FieldName::DayOfWeek { 7 } else { max - min + 1 }
    }

    /// The letter that a duration has for one step of this field: `90s`, `90m`, `36h`.
    pub(super) fn duration_unit(self) -> Option<char> {
        match self {
            FieldName::Second => Some('s'),
            FieldName::Minute => Some('m'),
            FieldName::Hour => Some('h'),
            FieldName::DayOfMonth => Some('d'),
            FieldName::Month | FieldName::DayOfWeek => None,
        }
    }

    fn names(self) -> &'static [&'static str] {
        match self {
            FieldName::Month => &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
            FieldName::DayOfWeek => &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
            _ => &[],
        }
    }
}

impl fmt::Display for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FieldName::Second => "second",
            FieldName::Minute => "minute",
            FieldName::Hour => "hour",
            FieldName::DayOfMonth => "day of month",
            FieldName::Month => "month",
            FieldName::DayOfWeek => "day of week",
        })
    }
}

/// What stands between two commas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    /// `*`, and `?` for a day.
    Every,
    /// `*/n`.
    EveryStep(u8),
    /// `n`.
    Value(u8),
    /// `a-b`.
    Range(u8, u8),
    /// `a-b/n`.
    RangeStep(u8, u8, u8),
    /// `L` as a day of month: the month's last day.
    Last,
    /// `LW`: the month's last day from Monday to Friday.
    LastWeekday,
    /// `nW`: the day from Monday to Friday nearest to day n, within the month.
    NearestWeekday(u8),
    /// `d#n`: the n-th weekday d of the month.
    Nth(u8, u8),
    /// `dL`: the last weekday d of the month.
    LastOf(u8),
}

/// The normal form, which is what the cron library gets to read.
impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Item::Every => f.write_str("*"),
            Item::EveryStep(step) => write!(f, "*/{step}"),
            Item::Value(value) => write!(f, "{value}"),
            Item::Range(from, to) => write!(f, "{from}-{to}"),
            Item::RangeStep(from, to, step) => write!(f, "{from}-{to}/{step}"),
            Item::Last => f.write_str("L"),
            Item::LastWeekday => f.write_str("LW"),
            Item::NearestWeekday(day) => write!(f, "{day}W"),
            Item::Nth(day, nth) => write!(f, "{day}#{nth}"),
            Item::LastOf(day) => write!(f, "{day}L"),
        }
    }
}

/// One field that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: FieldName,
    pub(super) items: Vec<Item>,
}

/// What is wrong with a field.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) text: String,
    pub(super) reason: String,
    pub(super) remedy: Remedy,
}

/// What to write instead.
#[derive(Debug)]
pub(super) enum Remedy {
    /// Nothing comes to mind.
    None,
    /// A sentence.
    Say(String),
    /// A step past the end of its range: the field means only the range's first value.
    OneValue {
        /// That value.
        first: u8,
        /// The step as written.
        step: u16,
    },
}

impl Field {
    /// Reads one field.
    pub(super) fn parse(name: FieldName, text: &str) -> Result<Field, Problem> {
        let items: Vec<Item> = text.split(',').map(|item| parse_item(name, text, item)).collect::<Result<_, _>>()?;
        if items.len() > 1 && items.contains(&Item::Every) {
            return Err(problem(text, "`*` is every value already, so nothing can stand beside it"));
        }
        if items.contains(&Item::Last) && items.contains(&Item::LastWeekday) {
            return Err(problem(text, "`L` and `LW` cannot stand in one field"));
        }
        Ok(Field { name, items })
    }

    /// Whether the field is `*`: it restricts nothing.
    pub(super) fn is_every(&self) -> bool {
        self.items == [Item::Every]
    }

    /// Whether the field is a list of plain numbers.
    pub(super) fn is_written_out(&self) -> bool {
        self.items.iter().all(|item| matches!(item, Item::Value(_)))
    }

    /// The plain numbers the field stands for, ascending, each once; `L`, `W` and `#` depend on the month and are left.
    pub(super) fn values(&self) -> Vec<u8> {
        let (min, max) = self.name.bounds();
        (min..=max).filter(|value| self.items.iter().any(|item| item.has(*value, min))).collect()
    }
}

impl Item {
    fn has(self, value: u8, min: u8) -> bool {
        match self {
            Item::Every => true,
            Item::EveryStep(step) => (value - min).is_multiple_of(step),
            Item::Value(only) => value == only,
            Item::Range(from, to) => (from..=to).contains(&value),
            Item::RangeStep(from, to, step) => (from..=to).contains(&value) && (value - from).is_multiple_of(step),
            Item::Last | Item::LastWeekday | Item::NearestWeekday(_) | Item::Nth(..) | Item::LastOf(_) => false,
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.items.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{item}")?;
        }
        Ok(())
    }
}

fn parse_item(name: FieldName, field: &str, text: &str) -> Result<Item, Problem> {
    let day = matches!(name, FieldName::DayOfMonth | FieldName::DayOfWeek);
    match text {
        "" => return Err(problem(field, "a value is missing at a comma")),
        "*" => return Ok(Item::Every),
        "?" if day => return Ok(Item::Every),
        "?" => return Err(problem(text, "`?` stands only for a day of month or a day of week")),
        _ => {}
    }
    if let Some((range, step)) = text.split_once('/') {
        return parse_step(name, text, range, step);
    }
    if let Some((from, to)) = text.split_once('-') {
        return parse_range(name, text, from, to).map(|(from, to)| range_item(from, to));
    }
    match name {
        FieldName::DayOfMonth => parse_day_of_month(text),
        FieldName::DayOfWeek => parse_day_of_week(text),
        _ => parse_value(name, text, text).map(Item::Value),
    }
}

fn range_item(from: u8, to: u8) -> Item {
    if from == to { Item::Value(from) } else { Item::Range(from, to) }
}

fn parse_day_of_month(text: &str) -> Result<Item, Problem> {
    let upper = text.to_ascii_uppercase();
    match upper.as_str() {
        "L" => Ok(Item::Last),
        "LW" => Ok(Item::LastWeekday),
        _ => match upper.strip_suffix('W') {
            Some(number) => parse_value(FieldName::DayOfMonth, text, number).map(Item::NearestWeekday),
            None => parse_value(FieldName::DayOfMonth, text, &upper).map(Item::Value),
        },
    }
}

fn parse_day_of_week(text: &str) -> Result<Item, Problem> {
    let name = FieldName::DayOfWeek;
    let upper = text.to_ascii_uppercase();
    // 7 is Sunday, as 0 is: one form for both.
    let day = |number: &str| parse_value(name, text, number).map(|day| day % 7);
    if let Some((weekday, nth)) = upper.split_once('#') {
        return match nth.as_bytes() {
            [digit @ b'1'..=b'5'] => Ok(Item::Nth(day(weekday)?, digit - b'0')),
            _ => Err(problem(text, "`#` needs a number from 1 to 5 behind it: which one of the month")),
        };
    }
    match upper.strip_suffix('L') {
        // The library would take a lone L here and never find a day.
        Some("") => Err(advise(text, "`L` needs a day of week in front", "`5L` is the month's last Friday".into())),
        Some(weekday) => day(weekday).map(Item::LastOf),
        None => day(&upper).map(Item::Value),
    }
}

fn parse_range(name: FieldName, text: &str, from: &str, to: &str) -> Result<(u8, u8), Problem> {
    if from.is_empty() || to.is_empty() {
        return Err(problem(text, "a range needs a value on both sides of `-`"));
    }
    if from.eq_ignore_ascii_case("L") {
        return Err(problem(text, "`L` with an offset is not supported"));
    }
    let (start, mut end) = (parse_value(name, text, from)?, parse_value(name, text, to)?);
    // FRI-SUN: at the end of a range Sunday is the seventh day.
    if name == FieldName::DayOfWeek && end == 0 && start > 0 && to.eq_ignore_ascii_case("SUN") {
        end = 7;
    }
    if start > end {
        let (min, max) = name.bounds();
        let hint = match name {
            FieldName::DayOfWeek if end == 0 => format!("Sunday at the end of a range is 7: `{start}-7`"),
            _ => format!("to go past the end, write two ranges: `{start}-{max},{min}-{end}`"),
        };
        return Err(advise(text, "the range runs backwards", hint));
    }
    Ok((start, end))
}

fn parse_step(name: FieldName, text: &str, range: &str, step: &str) -> Result<Item, Problem> {
    let (min, max) = name.bounds();
    let Some(step) = number(step) else {
        return Err(problem(text, "a step is a whole number behind `/`"));
    };
    if step == 0 {
        return Err(problem(text, "a step of 0 never moves on"));
    }
    if range.is_empty() {
        return Err(advise(text, "a step needs a range in front", format!("`*/{step}` steps through all values")));
    }
    let bounds = match (range, range.split_once('-')) {
        ("*", _) => None,
        (_, Some((from, to))) => Some(parse_range(name, text, from, to)?),
        (_, None) => {
            let start = parse_value(name, text, range)?;
            let hint = format!("`{start}-{max}/{step}` steps on from {start}");
            return Err(advise(text, "a step needs a range in front, not one value", hint));
        }
    };
    let (first, last) = bounds.unwrap_or((min, min + name.cycle() - 1));
    match u8::try_from(step) {
        Ok(step) if step <= last - first => {
            Ok(bounds.map_or(Item::EveryStep(step), |(from, to)| Item::RangeStep(from, to, step)))
        }
        _ => Err(Problem {
            text: text.to_owned(),
            reason: format!("a step of {step} is larger than its range, {first} to {last}"),
            remedy: Remedy::OneValue { first, step },
        }),
    }
}

/// A number or a name within the field's bounds. `text` is the item it stands in, for the error.
fn parse_value(name: FieldName, text: &str, value: &str) -> Result<u8, Problem> {
    let (min, max) = name.bounds();
    if let Some(position) = name.names().iter().position(|known| known.eq_ignore_ascii_case(value)) {
        return Ok(min + position as u8);
    }
    match number(value) {
        Some(number) if (u16::from(min)..=u16::from(max)).contains(&number) => Ok(number as u8),
        Some(number) => Err(problem(text, &format!("{number} is not from {min} to {max}"))),
        None if !value.is_ascii() => Err(problem(text, "only the digits 0 to 9 and ASCII letters are read")),
        None if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(problem(text, &format!("the number is not from {min} to {max}")))
        }
        None if name.names().is_empty() => Err(problem(text, &format!("expected a number from {min} to {max}"))),
        None => Err(unknown_name(name, text, value)),
    }
}

fn unknown_name(name: FieldName, text: &str, value: &str) -> Problem {
    let (min, max) = name.bounds();
    let names = name.names();
    let reason =
        format!("expected a number from {min} to {max} or a name from {} to {}", names[0], names[names.len() - 1]);
    let start: String = value.chars().take(3).collect();
    match names.iter().find(|known| known.eq_ignore_ascii_case(&start)) {
        Some(known) => advise(text, &reason, format!("names have three letters: `{known}`")),
        None => problem(text, &reason),
    }
}

/// A number of at most four digits; anything longer is out of every bound.
fn number(text: &str) -> Option<u16> {
    let digits = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn problem(text: &str, reason: &str) -> Problem {
    Problem { text: text.to_owned(), reason: reason.to_owned(), remedy: Remedy::None }
}

fn advise(text: &str, reason: &str, hint: String) -> Problem {
    Problem { text: text.to_owned(), reason: reason.to_owned(), remedy: Remedy::Say(hint) }
}
