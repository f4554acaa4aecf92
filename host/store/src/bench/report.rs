//! The table: a row for each figure, with what it is measured by and what is asked of it.

use serde::Serialize;

use super::error::BenchError;
use super::place::Missing;

/// All that was measured.
#[derive(Debug, Default)]
pub struct Report {
    /// The figures, in the order they were measured.
    pub rows: Vec<Row>,
    /// Stores whose figures are missing, or are not all there.
    pub failures: Vec<Failure>,
    /// What stays behind in servers, and how to remove it.
    pub left_behind: Vec<String>,
}

/// A store that could not be measured to the end.
#[derive(Debug)]
pub struct Failure {
    /// Which.
    pub store: String,
    /// Why.
    pub error: BenchError,
}

/// A figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The store, with its version.
    pub store: String,
    /// What was measured.
    pub figure: String,
    /// Its unit.
    pub unit: &'static str,
    /// The median of the rounds; none where it could not be measured, and then a note says why.
    pub value: Option<f64>,
    /// The least of the rounds.
    pub lowest: Option<f64>,
    /// The greatest of the rounds.
    pub highest: Option<f64>,
    /// What it is measured by, where there is something.
    pub yardstick: Option<Yardstick>,
    /// The figure divided by its yardstick: the median of the rounds.
    pub ratio: Option<f64>,
    /// What is asked of it, in words.
    pub target: Option<String>,
    /// Whether it is what is asked of it; none where nothing is asked, or where the yardstick is missing.
    pub met: Option<bool>,
    /// What one should know to read it.
    pub notes: Vec<String>,
}

/// What a figure is measured by.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Yardstick {
    /// What it is.
    pub what: &'static str,
    /// The median of the rounds, in the unit of the figure or, for pairs, calls or pairs a second.
    pub value: f64,
}

/// What is asked of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Target {
    /// At least this part of the yardstick. `aim` is what it should come to.
    Part { least: f64, aim: f64 },
    /// At least this many times the yardstick, or at least this figure.
    TimesOr { times: f64, figure: f64 },
    /// At most this many times the yardstick.
    AtMostTimes(f64),
    /// At most this.
    AtMost(f64),
}

impl Target {
    fn words(self, unit: &str) -> String {
        match self {
            Target::Part { least, aim } => format!("at least {:.0} %, aim {:.0} %", least * 100.0, aim * 100.0),
            Target::TimesOr { times, figure } => format!("at least {times} times, or {} {unit}", number(figure)),
            Target::AtMostTimes(times) => format!("at most {times} times"),
            Target::AtMost(figure) => format!("at most {} {unit}", number(figure)),
        }
    }

    fn met(self, value: f64, ratio: Option<f64>) -> Option<bool> {
        match self {
            Target::Part { least, .. } => ratio.map(|ratio| ratio >= least),
            Target::TimesOr { figure, .. } if value >= figure => Some(true),
            Target::TimesOr { times, .. } => ratio.map(|ratio| ratio >= times),
            Target::AtMostTimes(times) => ratio.map(|ratio| ratio <= times),
            Target::AtMost(figure) => Some(value <= figure),
        }
    }
}

impl Row {
    /// A figure of these rounds, of which there is at least one.
    pub(super) fn new(store: &str, figure: impl Into<String>, unit: &'static str, rounds: &[f64]) -> Row {
        Row {
            store: store.to_owned(),
            figure: figure.into(),
            unit,
            value: Some(median(rounds)),
            lowest: rounds.iter().copied().reduce(f64::min),
            highest: rounds.iter().copied().reduce(f64::max),
            yardstick: None,
            ratio: None,
            target: None,
            met: None,
            notes: Vec::new(),
        }
    }

    /// A figure that there is not.
    pub(super) fn missing(store: &str, figure: impl Into<String>, unit: &'static str, why: Missing) -> Row {
        let row = Row::new(store, figure, unit, &[0.0]);
        Row { value: None, lowest: None, highest: None, ..row }.noted(why.0)
    }

    /// Beside a yardstick and the ratio to it.
    pub(super) fn beside(self, what: &'static str, value: f64, ratio: f64) -> Row {
        Row { yardstick: Some(Yardstick { what, value }), ratio: Some(ratio), ..self }
    }

    /// Judged by what is asked of it.
    pub(super) fn judged(self, target: Option<Target>) -> Row {
        let Some(target) = target else { return self };
        let met = self.value.and_then(|value| target.met(value, self.ratio));
        Row { target: Some(target.words(self.unit)), met, ..self }
    }

    /// Not what is asked of it, though there is no figure.
    pub(super) fn failed(self, target: Option<Target>) -> Row {
        let met = target.map(|_| false);
        Row { met, ..self.judged(target) }
    }

    /// With something that one should know.
    pub(super) fn noted(mut self, note: impl Into<String>) -> Row {
        self.notes.push(note.into());
        self
    }

    /// The figure and its unit; empty where there is none.
    pub fn value_text(&self) -> String {
        self.value.map_or_else(String::new, |value| format!("{} {}", number(value), self.unit))
    }

    /// From the least to the greatest of the rounds; empty where they are the same.
    pub fn range_text(&self) -> String {
        let range = self.lowest.zip(self.highest).map(|(lowest, highest)| (number(lowest), number(highest)));
        match range {
            Some((lowest, highest)) if lowest != highest => format!("{lowest} to {highest}"),
            _ => String::new(),
        }
    }

    /// The yardstick; empty where there is none.
    pub fn yardstick_text(&self) -> String {
        self.yardstick.as_ref().map_or_else(String::new, |beside| format!("{} {}", number(beside.value), beside.what))
    }

    /// The ratio, in percent below 1; empty where there is none.
    pub fn ratio_text(&self) -> String {
        match self.ratio {
            None => String::new(),
            Some(ratio) if ratio < 1.0 => format!("{:.1} %", ratio * 100.0),
            Some(ratio) => format!("{ratio:.2} times"),
        }
    }

    /// What is asked of it, and whether it is so; empty where nothing is asked.
    pub fn target_text(&self) -> String {
        let Some(target) = &self.target else { return String::new() };
        let verdict = match self.met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "not known",
        };
        format!("{verdict} ({target})")
    }
}

/// The middle of these figures, of which there is at least one.
pub(super) fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

/// A figure as people read it: three digits at least of what was measured, thousands apart.
pub(super) fn number(figure: f64) -> String {
    if figure.abs() < 10.0 {
        return format!("{figure:.3}");
    }
    if figure.abs() < 100.0 {
        return format!("{figure:.1}");
    }
    let digits = format!("{:.0}", figure.abs());
    let mut text = if figure < 0.0 { "-".to_owned() } else { String::new() };
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_whatever_the_order() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
    }

    #[test]
    fn a_figure_is_read_at_a_glance() {
        let figures = [0.0254, 9.87, 42.15, 250.0, 12_345.6, 1_234_567.0, -1_234.0].map(number);
        assert_eq!(figures, ["0.025", "9.870", "42.1", "250", "12 346", "1 234 567", "-1 234"]);
    }

    #[test]
    fn a_figure_is_judged_by_its_target_and_not_without_its_yardstick() {
        let row = |value: f64| Row::new("redis", "pairs", "pairs/s", &[value]);
        let part = Some(Target::Part { least: 0.25, aim: 0.35 });
        assert_eq!(row(100.0).beside("calls/s", 400.0, 0.25).judged(part).met, Some(true));
        assert_eq!(row(100.0).beside("calls/s", 401.0, 0.249).judged(part).met, Some(false));
        let unknown = row(100.0).judged(part);
        assert_eq!((unknown.met, unknown.target_text().as_str()), (None, "not known (at least 25 %, aim 35 %)"));

        let either = Some(Target::TimesOr { times: 10.0, figure: 10_000.0 });
        assert_eq!(row(10_000.0).judged(either).met, Some(true));
        assert_eq!(row(900.0).beside("pairs/s", 90.0, 10.0).judged(either).met, Some(true));
        assert_eq!(row(900.0).beside("pairs/s", 91.0, 9.9).judged(either).met, Some(false));
        assert_eq!(row(900.0).judged(either).met, None);

        let most = Some(Target::AtMost(250.0));
        assert_eq!((row(250.0).judged(most).met, row(250.1).judged(most).met), (Some(true), Some(false)));
        let times = Some(Target::AtMostTimes(1.5));
        assert_eq!(row(3.0).beside("ms", 2.0, 1.5).judged(times).met, Some(true));
        assert_eq!(row(3.1).beside("ms", 2.0, 1.55).judged(times).target_text(), "MISSED (at most 1.5 times)");
    }

    #[test]
    fn a_figure_that_is_missing_says_why_and_is_not_judged() {
        let row = Row::missing("redis", "memory", "bytes", Missing("no redis-cli".into()));
        assert_eq!([row.value_text(), row.range_text(), row.notes.concat()], ["", "", "no redis-cli"]);
        assert_eq!(row.clone().judged(Some(Target::AtMost(1.0))).met, None);
        assert_eq!(row.clone().failed(None).met, None);
        assert_eq!(row.failed(Some(Target::AtMost(1.0))).target_text(), "MISSED (at most 1.000 bytes)");
    }

    #[test]
    fn a_row_tells_the_median_and_the_range_of_its_rounds() {
        let row = Row::new("sqlite", "pairs", "pairs/s", &[900.0, 1_100.0, 1_000.0]).beside("pairs/s", 50.0, 20.0);
        let texts = [row.value_text(), row.range_text(), row.yardstick_text(), row.ratio_text()];
        assert_eq!(texts, ["1 000 pairs/s", "900 to 1 100", "50.0 pairs/s", "20.00 times"]);
        assert_eq!(Row::new("sqlite", "pairs", "pairs/s", &[1.0]).range_text(), "");
    }
}
