//! What happened, for people, and how often.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::{Happened, Ms, START};

/// Steps in words, where they are asked for, and counters.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    tell: bool,
    pub(crate) lines: Vec<String>,
    pub(crate) seen: BTreeMap<Cow<'static, str>, u64>,
    /// What hosts told, where it is asked for.
    pub(crate) happened: Vec<Happened>,
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

    /// Keeps what a host did.
    pub(crate) fn happens(&mut self, happened: impl FnOnce() -> Happened) {
        if self.tell {
            self.happened.push(happened());
        }
    }

    pub(crate) fn count(&mut self, what: impl Into<Cow<'static, str>>) {
        *self.seen.entry(what.into()).or_default() += 1;
    }
}
