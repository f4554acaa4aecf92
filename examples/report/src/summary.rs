//! What the lines add up to.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::line;

/// How many paths are listed; the rest is added up.
const LISTED_PATHS: usize = 10;
/// How many paths are told apart: a scanner that asks for random paths must not fill the memory.
const DISTINCT_PATHS: usize = 10_000;

/// Grows line by line.
#[derive(Default)]
pub struct Counts {
    lines: u64,
    malformed: u64,
    statuses: BTreeMap<u16, u64>,
    paths: HashMap<String, PathCounts>,
    other: PathCounts,
    sizes: Vec<u64>,
}

/// The handler's output.
#[derive(Serialize)]
pub struct Summary {
    lines: u64,
    malformed: u64,
    bytes: u64,
    by_status: BTreeMap<u16, u64>,
    /// The most asked for first.
    by_path: Vec<Path>,
    other_paths: PathCounts,
    /// `null` when there is no line to tell it from.
    response_size: Option<Percentiles>,
}

#[derive(Default, Serialize)]
struct PathCounts {
    count: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Path {
    path: String,
    #[serde(flatten)]
    counts: PathCounts,
}

/// Bytes; each the smallest size that so many percent of the responses do not exceed.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Percentiles {
    p50: u64,
    p90: u64,
    p99: u64,
    max: u64,
}

impl Counts {
    pub fn lines(&self) -> u64 {
        self.lines
    }

    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    pub fn add(&mut self, text: &[u8]) {
        self.lines += 1;
        let Some(line) = line::parse(text) else {
            self.malformed += 1;
            return;
        };
        *self.statuses.entry(line.status).or_default() += 1;
        self.sizes.push(line.bytes);
        if self.paths.contains_key(line.path.as_ref()) || self.paths.len() < DISTINCT_PATHS {
            self.paths.entry(line.path.into_owned()).or_default().add(1, line.bytes);
        } else {
            self.other.add(1, line.bytes);
        }
    }

    pub fn into_summary(mut self) -> Summary {
        let mut by_path: Vec<Path> = self.paths.into_iter().map(|(path, counts)| Path { path, counts }).collect();
        by_path.sort_by(|a, b| b.counts.count.cmp(&a.counts.count).then_with(|| a.path.cmp(&b.path)));
        let mut other_paths = self.other;
        for path in by_path.drain(LISTED_PATHS.min(by_path.len())..) {
            other_paths.add(path.counts.count, path.counts.bytes);
        }
        self.sizes.sort_unstable();
        Summary {
            lines: self.lines,
            malformed: self.malformed,
            bytes: self.sizes.iter().fold(0, |sum: u64, size| sum.saturating_add(*size)),
            by_status: self.statuses,
            by_path,
            other_paths,
            response_size: percentiles(&self.sizes),
        }
    }
}

impl PathCounts {
    fn add(&mut self, count: u64, bytes: u64) {
        self.count += count;
        // A log can claim any size; a sum that would not fit stays at the largest number.
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// By nearest rank.
fn percentiles(sorted: &[u64]) -> Option<Percentiles> {
    let at = |percent: usize| sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied();
    Some(Percentiles { p50: at(50)?, p90: at(90)?, p99: at(99)?, max: at(100)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(path: &str, bytes: u64) -> String {
        format!(r#"192.0.2.1 - - [29/Nov/2026:10:00:00 +0000] "GET {path} HTTP/1.1" 200 {bytes}"#)
    }

    #[test]
    fn percentiles_are_sizes_that_occur() {
        let sizes: Vec<u64> = (1..=1000).collect();
        assert_eq!(percentiles(&sizes), Some(Percentiles { p50: 500, p90: 900, p99: 990, max: 1000 }));
        assert_eq!(percentiles(&[7]), Some(Percentiles { p50: 7, p90: 7, p99: 7, max: 7 }));
        assert_eq!(percentiles(&[]), None);
    }

    #[test]
    fn the_most_asked_for_come_first_and_the_rest_is_added_up() {
        let mut counts = Counts::default();
        for path in 0..LISTED_PATHS + 2 {
            (0..path + 1).for_each(|_| counts.add(line(&format!("/{path}"), 10).as_bytes()));
        }
        let summary = counts.into_summary();
        assert_eq!(summary.by_path.len(), LISTED_PATHS);
        assert_eq!(summary.by_path[0].path, format!("/{}", LISTED_PATHS + 1));
        assert_eq!((summary.other_paths.count, summary.other_paths.bytes), (3, 30));
    }

    #[test]
    fn a_flood_of_paths_stays_bounded_and_loses_no_request() {
        let mut counts = Counts::default();
        (0..DISTINCT_PATHS + 50).for_each(|path| counts.add(line(&format!("/{path}"), 1).as_bytes()));
        assert_eq!(counts.paths.len(), DISTINCT_PATHS);
        let summary = counts.into_summary();
        let listed: u64 = summary.by_path.iter().map(|path| path.counts.count).sum();
        assert_eq!(listed + summary.other_paths.count, DISTINCT_PATHS as u64 + 50);
    }

    #[test]
    fn a_log_that_claims_impossible_sizes_does_not_break_the_sum() {
        let mut counts = Counts::default();
        (0..2).for_each(|_| counts.add(line("/", u64::MAX).as_bytes()));
        assert_eq!(counts.into_summary().bytes, u64::MAX);
    }
}
