//! What happened, for people, and how often.

use std::collections::BTreeMap;

use crate::{Ms, START};

/// Steps in words, where they are asked for, and counters.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    tell: bool,
    pub(crate) lines: Vec<String>,
    pub(crate) seen: BTreeMap<&'static str, u64>,
}

impl Trail {
    pub(crate) fn new(tell: bool) -> Trail {
        Trail { tell, ..Trail::default() }
    }

    pub(crate) fn line(&mut self, now: Ms, text: impl FnOnce() -> String) {
        if self.tell {
            let since = now - START;
            self.lines.push(format!("{:>4}:{:06.3}  {}", since / 60_000, (since % 60_000) as f64 / 1_000.0, text()));
        }
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }
}
