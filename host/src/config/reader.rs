//! Takes a table apart key by key. What is wrong is noted and reading goes on, so that all problems are told at once;
//! what nobody asked for is an unknown key.

use std::collections::BTreeMap;
use std::num::{IntErrorKind, ParseIntError};
use std::ops::RangeInclusive;
use std::time::Duration;

use bytesize::ByteSize;

use super::problem::{Place, Problem, Problems, plain};
use super::tree::{Node, Table, Value};

/// How alike an unknown key must be to a known one to be taken for a slip of the fingers.
const ALIKE: f64 = 0.85;

/// Why a value is refused.
pub(crate) struct Wrong {
    pub(crate) reason: String,
    pub(crate) hint: Option<String>,
}

impl Wrong {
    pub(crate) fn new(reason: impl Into<String>) -> Wrong {
        Wrong { reason: reason.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Wrong {
        Wrong { hint: Some(hint.into()), ..self }
    }

    fn expected(what: &str, found: &Node) -> Wrong {
        Wrong::new(format!("expected {what}, found {}", found.kind()))
    }
}

/// A table being read.
pub(crate) struct Section {
    name: String,
    place: Place,
    entries: Table,
    /// Every key that was asked for, and where it was written if it was.
    asked: BTreeMap<&'static str, Option<(Place, String)>>,
    problems: Problems,
}

impl Section {
    /// A table of this name (empty for the root) at this place.
    pub(crate) fn new(name: impl Into<String>, place: Place, entries: Table) -> Section {
        Section { name: name.into(), place, entries, asked: BTreeMap::new(), problems: Problems::default() }
    }

    /// A value that must be a table.
    pub(crate) fn of(name: impl Into<String>, node: Node) -> Result<Section, Box<Problem>> {
        let name = name.into();
        match node.value {
            Value::Table(table) => Ok(Section::new(name, node.place, table)),
            _ => Err(Box::new(Problem {
                value: Some(node.shown()),
                reason: Wrong::expected("a table", &node).reason,
                key: name,
                hint: None,
                place: node.place,
            })),
        }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Where `key` was written, if it was.
    pub(crate) fn place_of(&self, key: &str) -> Option<&Place> {
        self.asked.get(key)?.as_ref().map(|(place, _)| place)
    }

    /// The value of `key`, read by `read`; none when it is absent or wrong.
    pub(crate) fn take<T>(&mut self, key: &'static str, read: impl FnOnce(&Node) -> Result<T, Wrong>) -> Option<T> {
        let node = self.take_node(key)?;
        read(&node).map_err(|wrong| self.problem(key, wrong)).ok()
    }

    /// The same for a value that no message may repeat.
    pub(crate) fn take_hidden<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&Node) -> Result<T, Wrong>,
    ) -> Option<T> {
        let node = self.take_node(key)?;
        let told = |Wrong { reason, hint }| {
            let problem = Problem { place: node.place.clone(), key: self.full(key), value: None, reason, hint };
            self.problems.push(problem);
        };
        read(&node).map_err(told).ok()
    }

    /// The list under `key`, each entry read by `read` with those before it; empty when it is absent. What is wrong with an
    /// entry is told with its number, from 1. No message repeats an entry: it may hold a password.
    pub(crate) fn take_list<T>(
        &mut self,
        key: &'static str,
        what: &str,
        most: usize,
        mut read: impl FnMut(&Node, &[T]) -> Result<T, Wrong>,
    ) -> Vec<T> {
        let items = self.take(key, |node| match &node.value {
            Value::Array(items) if items.len() > most => {
                Err(Wrong::new(format!("it has {} entries, more than {most}", items.len())))
            }
            Value::Array(items) => Ok(items.clone()),
            _ => Err(Wrong::expected(what, node)),
        });
        let mut found = Vec::new();
        for (n, item) in items.unwrap_or_default().into_iter().enumerate() {
            match read(&item, &found) {
                Ok(value) => found.push(value),
                Err(Wrong { reason, hint }) => {
                    let key = format!("{}[{}]", self.full(key), n + 1);
                    self.problems.push(Problem { place: item.place, key, value: None, reason, hint });
                }
            }
        }
        found
    }

    /// The value of `key` as written.
    pub(crate) fn take_node(&mut self, key: &'static str) -> Option<Node> {
        let node = self.entries.remove(key);
        self.asked.insert(key, node.as_ref().map(|node| (node.place.clone(), node.shown())));
        node
    }

    /// The table under `key`; empty when it is absent.
    pub(crate) fn section(&mut self, key: &'static str) -> Section {
        let name = self.full(key);
        let absent = Section::new(name.clone(), self.place.clone(), Table::new());
        let Some(node) = self.take_node(key) else { return absent };
        Section::of(name, node).unwrap_or_else(|problem| {
            self.problems.push(*problem);
            absent
        })
    }

    /// All tables left in this one, by the names they have there.
    pub(crate) fn rest(&mut self) -> Vec<(String, Section)> {
        let mut found = Vec::new();
        for (key, node) in std::mem::take(&mut self.entries) {
            match Section::of(self.full(&key), node) {
                Ok(section) => found.push((key, section)),
                Err(problem) => self.problems.push(*problem),
            }
        }
        found
    }

    /// All that is left in this table, for tables whose keys are people's own.
    pub(crate) fn take_all(&mut self) -> Table {
        std::mem::take(&mut self.entries)
    }

    /// A duration such as "30s" within `range`, in whole milliseconds.
    pub(crate) fn duration(&mut self, key: &'static str, range: RangeInclusive<Duration>) -> Option<Duration> {
        self.take(key, |node| duration(node, &range))
    }

    /// A size such as "64MiB" within `range`, in bytes.
    pub(crate) fn size(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        self.take(key, |node| size(node, &range))
    }

    /// A whole number within `range`.
    pub(crate) fn whole(&mut self, key: &'static str, range: RangeInclusive<u32>) -> Option<u32> {
        let range = u64::from(*range.start())..=u64::from(*range.end());
        self.take(key, |node| u32::try_from(whole(node, &range)?).map_err(|_| Wrong::new("it is too large")))
    }

    /// A whole number within `range`, where it may be a very large one.
    pub(crate) fn large(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        self.take(key, |node| whole(node, &range))
    }

    /// One of some words.
    pub(crate) fn choice<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        self.take(key, |node| {
            let given = text(node)?;
            let found = words.iter().find(|(word, _)| *word == given);
            found.map(|(_, value)| *value).ok_or_else(|| {
                let all: Vec<_> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
                Wrong::new("there is no such choice").hint(format!("write {}", all.join(" or ")))
            })
        })
    }

    /// Refuses `keys` where they are written.
    pub(crate) fn refuse(&mut self, keys: &[&'static str], reason: &str) {
        for key in keys {
            if let Some(node) = self.entries.remove(*key) {
                // The value is not repeated: a section that is refused as a whole may hold secrets.
                let place = node.place;
                let key = self.full(key);
                self.problems.push(Problem { place, key, value: None, reason: reason.to_owned(), hint: None });
            }
        }
    }

    /// Notes that the value of `key` is wrong for a reason that shows only beside others.
    pub(crate) fn problem(&mut self, key: &'static str, wrong: Wrong) {
        let written = self.asked.get(key).and_then(Option::as_ref);
        let (place, value) = match written {
            Some((place, shown)) => (place.clone(), Some(shown.clone())),
            None => (self.place.clone(), None),
        };
        self.problems.push(Problem { place, key: self.full(key), value, reason: wrong.reason, hint: wrong.hint });
    }

    /// Ends reading: every key that is left is unknown.
    pub(crate) fn finish(mut self) -> Problems {
        for (key, node) in std::mem::take(&mut self.entries) {
            let alike = |known: &&str| strsim::jaro_winkler(known, &key);
            let nearest = self.asked.keys().copied().max_by(|a, b| alike(a).total_cmp(&alike(b)));
            let hint = nearest.filter(|known| alike(known) >= ALIKE).map(|known| format!("did you mean \"{known}\"?"));
            let (place, key) = (node.place, self.full(&key));
            // The value of a key nobody knows may be anything, a password too: it is not repeated.
            self.problems.push(Problem { place, key, value: None, reason: "there is no such key".to_owned(), hint });
        }
        self.problems
    }

    /// A key of this table with all names above it.
    pub(crate) fn full(&self, key: &str) -> String {
        let key = plain(key);
        if self.name.is_empty() { key } else { format!("{}.{key}", self.name) }
    }
}

/// Text; also what an environment variable or a flag holds.
pub(crate) fn text(node: &Node) -> Result<String, Wrong> {
    match &node.value {
        Value::Text(text) => Ok(text.clone()),
        _ => Err(Wrong::expected("text in quotes", node)),
    }
}

/// A duration with its unit, in whole milliseconds and within `range`.
pub(crate) fn duration(node: &Node, range: &RangeInclusive<Duration>) -> Result<Duration, Wrong> {
    let bare =
        |number: &str| Wrong::new("the number has no unit").hint(format!("write \"{number}s\" or \"{number}ms\""));
    let text = match &node.value {
        Value::Text(text) => text.trim(),
        Value::Integer(n) => return Err(bare(&n.to_string())),
        _ => return Err(Wrong::expected("a duration such as \"30s\"", node)),
    };
    if text.parse::<u64>().is_ok_and(|n| n > 0) {
        return Err(bare(text));
    }
    let found = humantime::parse_duration(text).map_err(|error| {
        Wrong::new(format!("it is not a duration: {error}")).hint("write \"30s\", \"5m\", \"1h 30m\"")
    })?;
    if found.subsec_nanos() % 1_000_000 != 0 {
        return Err(Wrong::new("a duration is counted in whole milliseconds"));
    }
    within(found, range, |d| humantime::format_duration(*d).to_string())
}

fn size(node: &Node, range: &RangeInclusive<u64>) -> Result<u64, Wrong> {
    let bare = || Wrong::new("the number has no unit").hint("write \"64MiB\", \"512KiB\" or \"100B\"");
    let text = match &node.value {
        Value::Text(text) => text.trim(),
        Value::Integer(_) => return Err(bare()),
        _ => return Err(Wrong::expected("a size such as \"64MiB\"", node)),
    };
    if text.parse::<u64>().is_ok() {
        return Err(bare());
    }
    let found =
        text.parse::<ByteSize>().map_err(|_| Wrong::new("it is not a size").hint("write \"64MiB\" or \"512KiB\""))?;
    within(found.as_u64(), range, |bytes| shown_size(*bytes))
}

fn whole(node: &Node, range: &RangeInclusive<u64>) -> Result<u64, Wrong> {
    let found = match (&node.value, &node.place) {
        (Value::Integer(n), _) => i128::from(*n),
        (Value::HugeInteger(digits), _) => return Err(huge(digits)),
        // An environment variable has only text to say it with.
        (Value::Text(text), Place::Environment(_) | Place::Flag(_)) => {
            text.trim().parse().map_err(|error: ParseIntError| match error.kind() {
                IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => huge(text.trim()),
                _ => Wrong::new("it is not a whole number"),
            })?
        }
        _ => return Err(Wrong::expected("a whole number", node)),
    };
    let (least, most) = (i128::from(*range.start()), i128::from(*range.end()));
    let found = within(found, &(least..=most), i128::to_string)?;
    u64::try_from(found).map_err(|_| Wrong::new("it is too large"))
}

/// A whole number that fits no type of the machine.
fn huge(digits: &str) -> Wrong {
    Wrong::new(if digits.starts_with('-') { "it is too small" } else { "it is too large" })
}

fn within<T: PartialOrd>(found: T, range: &RangeInclusive<T>, show: impl Fn(&T) -> String) -> Result<T, Wrong> {
    if found < *range.start() {
        Err(Wrong::new(format!("it must be at least {}", show(range.start()))))
    } else if found > *range.end() {
        Err(Wrong::new(format!("it must be at most {}", show(range.end()))))
    } else {
        Ok(found)
    }
}

/// A size as it would be written in a configuration.
pub(crate) fn shown_size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{bytes}B"), |(unit, name)| format!("{}{name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::tree::parse;
    use super::*;

    fn section(text: &str) -> Section {
        let path = Path::new("f.toml");
        Section::new("s", Place::file(path), parse(path, text).unwrap())
    }

    const ANY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(86_400);

    #[test]
    fn wrong_units_are_refused_with_what_to_write() {
        let mut s =
            section("a = 30\nb = \"30\"\nc = \"30 parsecs\"\nd = \"1us\"\ne = \"25h\"\nf = 64\ng = \"64\"\nh = true\n");
        for key in ["a", "b", "c", "d", "e"] {
            assert_eq!(s.duration(key, ANY), None, "{key}");
        }
        for key in ["f", "g", "h"] {
            assert_eq!(s.size(key, 0..=u64::MAX), None, "{key}");
        }
        let told: Vec<_> = s.finish().iter().map(Problem::to_string).collect();
        assert_eq!(told[0], "f.toml:1: s.a = 30: the number has no unit; write \"30s\" or \"30ms\"");
        assert_eq!(told[1], "f.toml:2: s.b = \"30\": the number has no unit; write \"30s\" or \"30ms\"");
        assert!(told[2].contains("it is not a duration"), "{}", told[2]);
        assert!(told[3].contains("whole milliseconds"), "{}", told[3]);
        assert!(told[4].contains("at most 1day"), "{}", told[4]);
        assert!(told[5].contains("has no unit") && told[6].contains("has no unit"), "{told:?}");
        assert_eq!(told[7], "f.toml:8: s.h = true: expected a size such as \"64MiB\", found true or false");
    }

    #[test]
    fn durations_and_sizes_are_read_with_their_units() {
        let mut s = section("a = \"1m 30s\"\nb = \"0s\"\nc = \"64MiB\"\nd = \"1.5 KiB\"\ne = 7\n");
        assert_eq!(s.duration("a", ANY), Some(Duration::from_secs(90)));
        assert_eq!(s.duration("b", ANY), Some(Duration::ZERO));
        assert_eq!(s.size("c", 0..=u64::MAX), Some(64 << 20));
        assert_eq!(s.size("d", 0..=u64::MAX), Some(1536));
        assert_eq!(s.whole("e", 1..=10), Some(7));
        assert!(s.finish().is_empty());
    }

    #[test]
    fn an_unknown_key_names_the_nearest_known_one_but_not_its_value() {
        let mut s = section("heartbaet = \"secret\"\nzzz = 1\n");
        s.duration("heartbeat", ANY);
        let problems = s.finish();
        assert_eq!(
            problems.to_string(),
            "f.toml:1: s.heartbaet: there is no such key; did you mean \"heartbeat\"?\nf.toml:2: s.zzz: there is no such key"
        );
    }

    #[test]
    fn numbers_out_of_range_or_too_large_are_refused() {
        let mut s = section("a = 0\nb = 99999999999999999999\nc = -1\nd = \"3\"\n");
        for key in ["a", "b", "c", "d"] {
            assert_eq!(s.whole(key, 1..=10), None, "{key}");
        }
        let told: Vec<_> = s.finish().iter().map(|problem| problem.reason.clone()).collect();
        let expected = [
            "it must be at least 1",
            "it is too large",
            "it must be at least 1",
            "expected a whole number, found text",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn sizes_print_as_they_are_written() {
        assert_eq!([0, 100, 1 << 10, 64 << 20, 3 << 30].map(shown_size), ["0B", "100B", "1KiB", "64MiB", "3GiB"]);
    }
}
