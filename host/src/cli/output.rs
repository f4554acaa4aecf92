//! Standard output: lines for people or objects for programs, and a quiet end when the reader has gone.

use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};

use serde::Serialize;

use super::error::CliError;

/// Where results go.
pub(super) struct Output {
    writer: Box<dyn Write>,
    json: bool,
    terminal: bool,
    colour: bool,
    /// The reader has gone (`| head`): the rest is dropped, and the command ends with its usual code.
    closed: bool,
}

impl Output {
    /// The process's own.
    pub(super) fn stdout(json: bool) -> Output {
        let terminal = io::stdout().is_terminal();
        let colour = terminal && wants_colour();
        Output { writer: Box::new(BufWriter::new(io::stdout())), json, terminal, colour, closed: false }
    }

    /// Whether objects are wanted.
    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether a person looks at it.
    pub(super) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Whether nobody reads any more.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// How words are coloured here.
    pub(super) fn paint(&self) -> Paint {
        Paint(self.colour)
    }

    /// Writes bytes as they are.
    ///
    /// # Errors
    /// [`CliError::Write`]; a reader that has gone is none.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.attempt(|writer| writer.write_all(bytes))
    }

    /// Writes a text that ends its own lines.
    ///
    /// # Errors
    /// As [`Output::bytes`].
    pub(super) fn text(&mut self, text: &str) -> Result<(), CliError> {
        self.bytes(text.as_bytes())
    }

    /// Writes an object on a line.
    ///
    /// # Errors
    /// As [`Output::bytes`].
    pub(super) fn object(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        let line = serde_json::to_string(value).map_err(CliError::Json)?;
        self.text(&format!("{}\n", safe_json(&line)))
    }

    /// Writes out what is buffered.
    ///
    /// # Errors
    /// As [`Output::bytes`].
    pub(super) fn flush(&mut self) -> Result<(), CliError> {
        self.attempt(|writer| writer.flush())
    }

    fn attempt(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), CliError> {
        if self.closed {
            return Ok(());
        }
        match write(&mut self.writer) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            written => written.map_err(CliError::Write),
        }
    }
}

/// Whether the person allows colour; see no-color.org.
pub(super) fn wants_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// JSON leaves characters unescaped that steer a terminal or end a line for some readers.
fn safe_json(line: &str) -> String {
    let mut safe = String::with_capacity(line.len());
    for c in line.chars() {
        let c16 = u32::from(c);
        // Outside strings JSON is ASCII, so whatever is found here stands in one.
        match c {
            '\u{7f}'..='\u{9f}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                safe.push_str(&format!("\\u{c16:04x}"));
            }
            c => safe.push(c),
        }
    }
    safe
}

/// Colours words, or does not.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint(pub(super) bool);

/// What a colour says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Colour {
    /// Nothing special.
    Plain,
    /// Went well.
    Good,
    /// Went wrong.
    Bad,
    /// Worth a look.
    Warn,
    /// Under way.
    Busy,
    /// Less important.
    Dim,
}

impl Paint {
    /// The text in this colour.
    pub(super) fn paint(self, colour: Colour, text: &str) -> String {
        let code = match colour {
            _ if !self.0 || text.is_empty() => return text.to_owned(),
            Colour::Plain => return text.to_owned(),
            Colour::Good => 32,
            Colour::Bad => 31,
            Colour::Warn => 33,
            Colour::Busy => 36,
            Colour::Dim => 2,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Aligned columns. Cells are one-line texts that are safe to show.
pub(super) struct Table {
    head: &'static [&'static str],
    rows: Vec<Vec<(Colour, String)>>,
}

impl Table {
    /// Columns with these titles.
    pub(super) fn new(head: &'static [&'static str]) -> Table {
        Table { head, rows: Vec::new() }
    }

    /// A row: a cell for each column.
    pub(super) fn row(&mut self, cells: Vec<(Colour, String)>) {
        assert_eq!(cells.len(), self.head.len(), "a row has a cell for each column");
        self.rows.push(cells);
    }

    /// The rows, with the titles where a person looks at it.
    pub(super) fn render(&self, with_head: bool, paint: Paint) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let head = self.head.iter().map(|title| (Colour::Dim, (*title).to_owned())).collect::<Vec<_>>();
        let rows: Vec<_> = with_head.then_some(&head).into_iter().chain(&self.rows).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].1.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let line = |row: &&Vec<(Colour, String)>| {
            let last = row.iter().rposition(|(_, text)| !text.is_empty()).unwrap_or(0);
            let cell = |(column, (colour, text)): (usize, &(Colour, String))| {
                let gap = if column == last { 0 } else { widths[column] - text.chars().count() + 2 };
                format!("{}{}", paint.paint(*colour, text), " ".repeat(gap))
            };
            let cells: String = row[..=last].iter().enumerate().map(cell).collect();
            format!("{cells}\n")
        };
        rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that goes after a number of bytes.
    struct Head(usize);
    impl Write for Head {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0 < bytes.len() {
                return Err(ErrorKind::BrokenPipe.into());
            }
            self.0 -= bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn output(writer: impl Write + 'static) -> Output {
        Output { writer: Box::new(writer), json: false, terminal: false, colour: false, closed: false }
    }

    #[test]
    fn a_reader_that_has_gone_is_no_error_and_is_noticed() {
        let mut out = output(Head(3));
        assert!(out.text("ab\n").is_ok() && !out.is_closed());
        assert!(out.text("cd\n").is_ok() && out.is_closed());
        assert!(out.text("ef\n").is_ok() && out.flush().is_ok());
    }

    #[test]
    fn a_full_disk_is_an_error() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert!(matches!(output(Full).text("x\n"), Err(CliError::Write(_))));
    }

    #[test]
    fn json_on_a_terminal_steers_nothing_and_reads_back_the_same() {
        let text = "a\u{1b}\u{9b}2J\u{7f}\u{2028}\u{202e}ü\n";
        let safe = safe_json(&serde_json::to_string(text).unwrap());
        assert!(!safe.chars().any(|c| c.is_control() || c == '\u{2028}' || c == '\u{202e}'), "{safe}");
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), text);
    }

    #[test]
    fn columns_are_aligned_and_lines_have_no_tail() {
        let mut table = Table::new(&["A", "B", "C"]);
        let row = |cells: [&str; 3]| cells.map(|text| (Colour::Good, text.to_owned())).to_vec();
        table.row(row(["a", "bbb", ""]));
        table.row(row(["aaa", "b", "c"]));
        assert_eq!(table.render(false, Paint(false)), "a    bbb\naaa  b    c\n");
        assert_eq!(table.render(true, Paint(false)), "A    B    C\na    bbb\naaa  b    c\n");
        assert!(table.render(false, Paint(true)).starts_with("\x1b[32ma\x1b[0m    \x1b[32mbbb\x1b[0m\n"));
        assert_eq!(Table::new(&["A"]).render(true, Paint(false)), "");
    }
}
