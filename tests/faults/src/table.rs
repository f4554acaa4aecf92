//! The one table that a fault run prints.

use std::fmt::Write;

use crate::store::Kind;

/// A figure: of many samples their median and so on, or a number that should be another.
#[derive(Debug, Clone)]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// On which store.
    pub kind: Kind,
    /// How often.
    pub samples: u64,
    /// Of times: median, p99, maximum, in ms.
    pub spread: Option<[f64; 3]>,
    /// Of what is no time: how much it was, or of what must not be, how often.
    pub value: Option<String>,
    /// What is wanted.
    pub target: String,
}

impl Row {
    /// Times, in ms.
    pub fn times(what: &str, kind: Kind, mut ms: Vec<f64>, target: &str) -> Row {
        ms.sort_by(f64::total_cmp);
        let spread = (!ms.is_empty()).then(|| [quantile(&ms, 0.5), quantile(&ms, 0.99), quantile(&ms, 1.0)]);
        Row { what: what.to_owned(), kind, samples: ms.len() as u64, spread, value: None, target: target.to_owned() }
    }

    /// Something that must not be, and how often it could have been.
    pub fn never(what: &str, kind: Kind, wrong: u64, tries: u64) -> Row {
        Row::value(what, kind, wrong.to_string(), tries, "0")
    }

    /// Something that was looked at this often.
    pub fn value(what: &str, kind: Kind, value: String, samples: u64, target: &str) -> Row {
        Row { what: what.to_owned(), kind, samples, spread: None, value: Some(value), target: target.to_owned() }
    }
}

/// The least value that this many are not above.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// In Markdown, so that it can be kept as it is.
pub fn table(rows: &[Row]) -> String {
    let mut text = String::from("| | store | of | median | p99 | max | target |\n|---|---|--:|--:|--:|--:|---|\n");
    for Row { what, kind, samples, spread, value, target } in rows {
        let cells = match (spread, value) {
            (Some(ms), _) => ms.map(shown).join(" | "),
            (None, Some(value)) => format!("{value} | | "),
            (None, None) => " | | ".to_owned(),
        };
        // Writing to a text cannot fail.
        let _ = writeln!(text, "| {what} | {kind} | {samples} | {cells} | {target} |");
    }
    text
}

fn shown(ms: f64) -> String {
    if ms < 1_000.0 { format!("{ms:.0} ms") } else { format!("{:.2} s", ms / 1e3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_value_that_half_and_almost_all_are_not_above() {
        let row = Row::times("x", Kind::Redis, (1..=200).rev().map(f64::from).collect(), "");
        assert_eq!(row.spread, Some([100.0, 198.0, 200.0]));
        assert_eq!(Row::times("x", Kind::Redis, vec![7.0], "").spread, Some([7.0; 3]));
        assert_eq!(Row::times("x", Kind::Redis, vec![], "").spread, None);
    }

    #[test]
    fn times_and_counts_stand_in_one_table() {
        let rows = [
            Row::times("takeover", Kind::Sqlite, vec![1_500.0], "≤ 4.3 s"),
            Row::never("late acts", Kind::Postgres, 0, 1_000),
        ];
        let text = table(&rows);
        assert!(text.contains("| takeover | SQLite | 1 | 1.50 s | 1.50 s | 1.50 s | ≤ 4.3 s |"), "{text}");
        assert!(text.contains("| late acts | PostgreSQL | 1000 | 0 | |  | 0 |"), "{text}");
    }
}
