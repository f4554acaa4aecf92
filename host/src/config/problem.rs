//! What is wrong with a configuration or a manifest, told so that it can be put right without reading code.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// How many problems of one source are told; the rest is counted.
const TOLD_MAX: usize = 1_000;
/// How many characters of a foreign text a message repeats.
const SHOWN_MAX: usize = 80;
/// The same for paths and sentences.
const PLAIN_MAX: usize = 1_000;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In a file.
    File {
        /// Its path, as it was given or found.
        file: Arc<Path>,
        /// Line and column in it, both from 1; none when the file as a whole is meant.
        at: Option<(usize, usize)>,
    },
    /// In an environment variable of this name.
    Environment(String),
    /// In a flag of the command line, written with its dashes.
    Flag(&'static str),
}

impl Place {
    /// A file as a whole.
    pub fn file(file: &Path) -> Place {
        Place::File { file: file.into(), at: None }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { file, at } => {
                write!(f, "{}", plain(&file.to_string_lossy()))?;
                at.map_or(Ok(()), |(line, _)| write!(f, ":{line}"))
            }
            Place::Environment(name) => write!(f, "environment {}", plain(name)),
            Place::Flag(flag) => f.write_str(flag),
        }
    }
}

/// One thing that is wrong: where, which key with which value, why, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it was written.
    pub place: Place,
    /// The whole key, such as `defaults.lease`; empty when no key is concerned.
    pub key: String,
    /// The value as it may be shown: bounded, escaped, without secrets. None when there is nothing to show.
    pub value: Option<String>,
    /// Why it is refused.
    pub reason: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem of a place as a whole.
    pub fn of(place: Place, reason: impl Into<String>) -> Problem {
        Problem { place, key: String::new(), value: None, reason: reason.into(), hint: None }
    }

    /// The same with a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.key.is_empty() {
            write!(f, "{}", plain(&self.key))?;
            if let Some(value) = &self.value {
                write!(f, " = {value}")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.reason)?;
        self.hint.iter().try_for_each(|hint| write!(f, "; {hint}"))
    }
}

/// Everything that is wrong, in the order of places. A source that is wrong everywhere is told in part and counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error)]
pub struct Problems {
    told: Vec<Problem>,
    more: usize,
}

impl Problems {
    /// Adds one; beyond the first thousand they are only counted.
    pub fn push(&mut self, problem: Problem) {
        if self.told.len() < TOLD_MAX { self.told.push(problem) } else { self.more += 1 }
    }

    /// Adds all of `other`.
    pub fn append(&mut self, other: Problems) {
        self.more += other.more;
        other.told.into_iter().for_each(|problem| self.push(problem));
    }

    /// Nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// The problems that are told, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.told.iter()
    }

    /// How many there are besides those told.
    pub fn more(&self) -> usize {
        self.more
    }

    /// `value` when nothing is wrong.
    pub(crate) fn or<T>(self, value: T) -> Result<T, Problems> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }

    /// Puts them in the order of places.
    pub(crate) fn sort(&mut self) {
        self.told.sort_by(|a, b| a.place.cmp(&b.place));
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Problems {
        Problems { told: vec![problem], more: 0 }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.told.iter().enumerate() {
            let end = if n == 0 { "" } else { "\n" };
            write!(f, "{end}{problem}")?;
        }
        if self.more > 0 {
            write!(f, "\nand {} more", self.more)?;
        }
        Ok(())
    }
}

/// A foreign text in quotes: cut to a bounded length, control and invisible characters escaped.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// The same without quotes and longer, for names, paths and other programs' sentences.
pub(crate) fn plain(text: &str) -> String {
    let (cut, end) = match text.char_indices().nth(PLAIN_MAX) {
        Some((at, _)) => (&text[..at], "…"),
        None => (text, ""),
    };
    // `escape_debug` also escapes quotes and backslashes, which are harmless here and would only confuse.
    let keep = |c: char| matches!(c, '"' | '\'' | '\\') || c.escape_debug().len() == 1;
    let escaped = cut.chars().map(|c| if keep(c) { c.to_string() } else { c.escape_debug().to_string() });
    escaped.chain([end.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_where_what_why_and_what_to_do() {
        let place = Place::File { file: Path::new("leasehold.toml").into(), at: Some((12, 3)) };
        let problem = Problem {
            place,
            key: "defaults.lease".into(),
            value: Some("30".into()),
            reason: "it has no unit".into(),
            hint: Some("write \"30s\"".into()),
        };
        assert_eq!(problem.to_string(), "leasehold.toml:12: defaults.lease = 30: it has no unit; write \"30s\"");
    }

    #[test]
    fn foreign_text_is_bounded_and_escaped() {
        assert_eq!(quoted("a\u{2028}b\r\u{1b}"), r#""a\u{2028}b\r\u{1b}""#);
        assert!(quoted(&"x".repeat(10_000)).len() < 100);
        assert_eq!(plain("a\nb'c\\"), "a\\nb'c\\");
    }

    #[test]
    fn a_flood_of_problems_is_counted_not_kept() {
        let mut problems = Problems::default();
        (0..1_900).for_each(|_| problems.push(Problem::of(Place::Flag("--x"), "no")));
        assert_eq!((problems.iter().count(), problems.more()), (1_000, 900));
        assert!(problems.to_string().ends_with("and 900 more"));
    }
}
