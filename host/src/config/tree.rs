//! A configuration as written: a tree of values that know their place, so that a layer can be laid over another and a
//! problem can name file and line.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::problem::{Place, Problem, Problems, quoted};

/// How many mistakes of syntax are told; one is often the cause of the next.
const SYNTAX_TOLD_MAX: usize = 10;

/// A value and where it was written.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) value: Value,
}

/// A value as written.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(String),
    /// An integer that fits 64 bits.
    Integer(i64),
    /// An integer that does not, as written.
    HugeInteger(String),
    Float(f64),
    Boolean(bool),
    /// A date, a time or both, in TOML's own form.
    Datetime(String),
    Array(Vec<Node>),
    Table(Table),
}

/// Keys and their values. A key's place is where its value begins.
pub(crate) type Table = BTreeMap<String, Node>;

impl Node {
    /// The value as a message may repeat it.
    pub(crate) fn shown(&self) -> String {
        match &self.value {
            // An address in the wrong place may hold a password all the same.
            Value::Text(text) if may_hold_a_password(text) => quoted(&leasehold_store::redacted(text)),
            Value::Text(text) => quoted(text),
            Value::Integer(n) => n.to_string(),
            Value::HugeInteger(digits) => quoted(digits),
            Value::Float(n) => n.to_string(),
            Value::Boolean(b) => b.to_string(),
            Value::Datetime(text) => text.clone(),
            Value::Array(_) => "[…]".to_owned(),
            Value::Table(_) => "{…}".to_owned(),
        }
    }

    /// What kind of value it is, in the words of a message.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.value {
            Value::Text(_) => "text",
            Value::Integer(_) | Value::HugeInteger(_) => "a whole number",
            Value::Float(_) => "a decimal number",
            Value::Boolean(_) => "true or false",
            Value::Datetime(_) => "a date or time",
            Value::Array(_) => "a list",
            Value::Table(_) => "a table",
        }
    }
}

/// Reads TOML. Mistakes of syntax are told with their lines, and never with the file's content.
pub(crate) fn parse(file: &Path, text: &str) -> Result<Table, Problems> {
    let lines = Lines::new(file, text);
    let (root, errors) = DeTable::parse_recoverable(text);
    let mut problems = Problems::default();
    let mut told = BTreeSet::new();
    for error in errors.iter() {
        // An error without a span is one at the end of the file.
        let start = error.span().map_or(text.len(), |span| span.start);
        let (line, column) = lines.position(start);
        // What is nested too deeply is found at every level below, and one mistake in a line is one.
        if told.len() == SYNTAX_TOLD_MAX || !told.insert((line, error.message())) {
            continue;
        }
        let reason = format!("this is not TOML: {} (column {column})", error.message());
        problems.push(Problem::of(lines.place((line, column)), reason));
    }
    problems.or(()).map(|()| lines.table(root.get_ref()))
}

/// Lays `value` over whatever `path` holds. A table in the way of a value, or a value in the way of a table, gives way:
/// the reader then says what it expected at that place.
pub(crate) fn overlay(root: &mut Table, path: &[String], node: Node) {
    match path {
        [] => {}
        [key] => {
            root.insert(key.clone(), node);
        }
        [key, rest @ ..] => {
            let place = node.place.clone();
            let inner = root.entry(key.clone()).or_insert_with(|| Node { place, value: Value::Table(Table::new()) });
            if !matches!(inner.value, Value::Table(_)) {
                inner.value = Value::Table(Table::new());
            }
            if let Value::Table(table) = &mut inner.value {
                overlay(table, rest, node);
            }
        }
    }
}

/// From byte offsets to places.
struct Lines<'a> {
    file: Arc<Path>,
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(file: &Path, text: &'a str) -> Lines<'a> {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Lines { file: file.into(), text, starts }
    }

    /// Line and column, both from 1.
    fn position(&self, offset: usize) -> (usize, usize) {
        let offset = offset.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts[line - 1];
        let column = self.text.get(start..offset).map_or(offset - start, |before| before.chars().count());
        (line, column + 1)
    }

    fn place(&self, at: (usize, usize)) -> Place {
        Place::File { file: Arc::clone(&self.file), at: Some(at) }
    }

    fn table(&self, table: &DeTable<'_>) -> Table {
        let entry = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
            let key: &toml::Spanned<std::borrow::Cow<'_, str>> = key;
            let place = self.place(self.position(key.span().start));
            (key.get_ref().to_string(), Node { place, value: self.value(value.get_ref()) })
        };
        table.iter().map(entry).collect()
    }

    fn value(&self, value: &DeValue<'_>) -> Value {
        match value {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix())
                .map_or_else(|_| Value::HugeInteger(n.to_string()), Value::Integer),
            DeValue::Float(n) => Value::Float(n.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(b) => Value::Boolean(*b),
            DeValue::Datetime(time) => Value::Datetime(time.to_string()),
            DeValue::Table(table) => Value::Table(self.table(table)),
            DeValue::Array(items) => {
                let item = |item: &toml::Spanned<DeValue<'_>>| Node {
                    place: self.place(self.position(item.span().start)),
                    value: self.value(item.get_ref()),
                };
                Value::Array(items.iter().map(item).collect())
            }
        }
    }
}

/// Whether it is an address, or may be `user:password@host`.
fn may_hold_a_password(text: &str) -> bool {
    text.contains("://") || text.rsplit_once('@').is_some_and(|(before, _)| before.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(place: &Place) -> usize {
        match place {
            Place::File { at: Some((line, _)), .. } => *line,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_and_tables_know_their_lines() {
        let text = "# one\n[a]\nb = 1\n\n[[jobs]]\nname = \"x\"\n[[jobs]]\nname = \"y\"\n";
        let root = parse(Path::new("f.toml"), text).unwrap();
        assert_eq!(line(&root["a"].place), 2);
        let Value::Table(a) = &root["a"].value else { panic!() };
        assert_eq!(line(&a["b"].place), 3);
        let Value::Array(jobs) = &root["jobs"].value else { panic!() };
        assert_eq!(jobs.iter().map(|job| line(&job.place)).collect::<Vec<_>>(), [5, 7]);
    }

    #[test]
    fn broken_syntax_names_file_line_and_what() {
        let problems = parse(Path::new("f.toml"), "[a]\nb = \nsecret = \"hunter2\n").unwrap_err();
        let text = problems.to_string();
        assert!(text.starts_with("f.toml:2: this is not TOML: "), "{text}");
        assert!(text.contains("f.toml:3: ") && !text.contains("hunter2"), "{text}");
    }

    #[test]
    fn what_is_nested_too_deeply_is_told_once() {
        let problems = parse(Path::new("f.toml"), &format!("a = {}{}", "[".repeat(500), "]".repeat(500))).unwrap_err();
        assert_eq!(problems.iter().count(), 1, "{problems}");
    }

    #[test]
    fn a_key_written_twice_is_a_mistake() {
        let problems = parse(Path::new("f.toml"), "a = 1\na = 2\n").unwrap_err();
        assert!(problems.to_string().contains("f.toml:2: "), "{problems}");
    }

    #[test]
    fn an_overlay_replaces_a_value_and_makes_its_tables() {
        let mut root = parse(Path::new("f.toml"), "[a]\nb = 1\n").unwrap();
        let node = |text: &str| Node { place: Place::Flag("--x"), value: Value::Text(text.into()) };
        overlay(&mut root, &["a".into(), "b".into()], node("2"));
        overlay(&mut root, &["c".into(), "d".into(), "e".into()], node("3"));
        let Value::Table(a) = &root["a"].value else { panic!() };
        assert_eq!(a["b"].shown(), "\"2\"");
        assert!(matches!(&root["c"].value, Value::Table(c) if matches!(&c["d"].value, Value::Table(_))));
    }
}
