//! What a guest says: structured lines, and its standard streams line by line; bounded for each line and each attempt.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::Limits;
use crate::log::{LogLevel, LogLine, LogSink, LogSource};
use crate::text;

/// What is charged for a line beside its text, so that empty lines are bounded too.
const LINE_OVERHEAD: usize = 64;
const MAX_FIELDS: usize = 32;
const MAX_TARGET: usize = 256;
/// How much of standard error is told when the guest fails: a panic's message is there.
const STDERR_TAIL: usize = 2 * 1024;
/// How much of it is remembered: Go's message has a program's goroutines behind it.
const STDERR_KEPT: usize = 16 * 1024;

/// Receives everything one attempt says.
pub(crate) struct Capture {
    sink: Arc<dyn LogSink>,
    least: LogLevel,
    limit: usize,
    line_limit: usize,
    /// The level of what comes on standard error.
    stderr: LogLevel,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    used: usize,
    truncated: bool,
    stdout: LineBuffer,
    stderr: LineBuffer,
    tail: Vec<u8>,
}

impl Capture {
    pub(crate) fn new(sink: Arc<dyn LogSink>, least: LogLevel, limits: &Limits) -> Self {
        let (limit, line_limit) = (limits.log, limits.log_line);
        Capture { sink, least, limit, line_limit, stderr: LogLevel::Warn, state: Mutex::default() }
    }

    /// Of a WASI command, which says everything on standard error.
    pub(crate) fn of_command(self) -> Self {
        Capture { stderr: LogLevel::Info, ..self }
    }

    pub(crate) fn least_level(&self) -> LogLevel {
        self.least
    }

    /// Bytes charged so far.
    pub(crate) fn used(&self) -> usize {
        self.state().used
    }

    /// A call of `log.emit`.
    pub(crate) fn emit(&self, level: LogLevel, target: &str, message: &str, fields: &[(String, String)]) {
        let mut state = self.state();
        if state.truncated || level < self.least {
            return;
        }
        let target = text::bound(target, MAX_TARGET.min(self.line_limit));
        let message = text::bound(message, self.line_limit - target.len());
        let fields = bound_fields(fields, self.line_limit - target.len() - message.len());
        self.keep(&mut state, LogLine { level, target, message, fields, source: LogSource::Guest });
    }

    /// Bytes written to standard output or standard error.
    pub(crate) fn write(&self, source: LogSource, bytes: &[u8]) {
        let mut state = self.state();
        if source == LogSource::Stderr {
            remember(&mut state.tail, bytes);
        }
        // Once truncated, a flood costs no more than this check.
        if state.truncated || self.stream_level(source) < self.least {
            return;
        }
        let mut buffer = mem::take(state.buffer(source));
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            buffer.push(piece, self.line_limit);
            if piece.ends_with(b"\n") {
                self.keep_stream_line(&mut state, source, &mut buffer);
            }
        }
        *state.buffer(source) = buffer;
    }

    /// Keeps what the streams hold without a final newline. For the end of the attempt.
    pub(crate) fn finish(&self) {
        let mut state = self.state();
        for source in [LogSource::Stdout, LogSource::Stderr] {
            let mut buffer = mem::take(state.buffer(source));
            if !buffer.is_empty() {
                self.keep_stream_line(&mut state, source, &mut buffer);
            }
        }
    }

    /// The last part of standard error, escaped for people.
    pub(crate) fn stderr_tail(&self) -> String {
        self.last_of_stderr(STDERR_TAIL)
    }

    /// All that is remembered of standard error, escaped for people.
    pub(crate) fn stderr_kept(&self) -> String {
        self.last_of_stderr(STDERR_KEPT)
    }

    fn last_of_stderr(&self, most: usize) -> String {
        let state = self.state();
        let start = state.tail.len().saturating_sub(most);
        let tail = String::from_utf8_lossy(&state.tail[start..]);
        // A cut in the middle of a character leaves a replacement character: not worth showing.
        let tail = if start > 0 { tail.trim_start_matches('\u{fffd}') } else { &tail };
        text::escape(tail.trim_end()).into_owned()
    }

    fn stream_level(&self, source: LogSource) -> LogLevel {
        if source == LogSource::Stderr { self.stderr } else { LogLevel::Info }
    }

    fn keep_stream_line(&self, state: &mut State, source: LogSource, buffer: &mut LineBuffer) {
        let message = buffer.take(self.line_limit);
        let level = self.stream_level(source);
        self.keep(state, LogLine { level, target: String::new(), message, fields: Vec::new(), source });
    }

    fn keep(&self, state: &mut State, line: LogLine) {
        if state.truncated {
            return;
        }
        let text = line.target.len() + line.message.len();
        let fields: usize = line.fields.iter().map(|(key, value)| key.len() + value.len()).sum();
        let cost = LINE_OVERHEAD + text + fields;
        if state.used + cost > self.limit {
            state.truncated = true;
            self.sink.line(self.truncated_line());
            return;
        }
        state.used += cost;
        self.sink.line(line);
    }

    fn truncated_line(&self) -> LogLine {
        LogLine {
            level: LogLevel::Warn,
            target: String::new(),
            message: format!(
                "log truncated: this attempt reached its limit of {} bytes; what follows is dropped",
                self.limit
            ),
            fields: vec![("truncated".to_owned(), "true".to_owned())],
            source: LogSource::Host,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A sink that panicked left the counters as they were before its line: still true.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn buffer(&mut self, source: LogSource) -> &mut LineBuffer {
        if source == LogSource::Stderr { &mut self.stderr } else { &mut self.stdout }
    }
}

/// A line in the making, never longer than the line limit.
#[derive(Default)]
struct LineBuffer {
    bytes: Vec<u8>,
    cut: bool,
}

impl LineBuffer {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && !self.cut
    }

    fn push(&mut self, piece: &[u8], limit: usize) {
        let piece = piece.strip_suffix(b"\n").unwrap_or(piece);
        let room = limit.saturating_sub(self.bytes.len());
        self.cut |= piece.len() > room;
        self.bytes.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    fn take(&mut self, limit: usize) -> String {
        let cut = mem::take(&mut self.cut);
        let bytes = mem::take(&mut self.bytes);
        let line = String::from_utf8_lossy(bytes.strip_suffix(b"\r").unwrap_or(&bytes)).into_owned();
        // Replacement characters are longer than the bytes they stand for, so the bound is applied once more.
        if cut { text::bound(&(line + "…"), limit) } else { text::bound(&line, limit) }
    }
}

fn bound_fields(fields: &[(String, String)], mut room: usize) -> Vec<(String, String)> {
    let mut kept = Vec::new();
    for (key, value) in fields.iter().take(MAX_FIELDS) {
        let key = text::bound(key, room);
        let value = text::bound(value, room - key.len());
        room -= key.len() + value.len();
        if key.is_empty() && value.is_empty() {
            break;
        }
        kept.push((key, value));
    }
    kept
}

fn remember(tail: &mut Vec<u8>, bytes: &[u8]) {
    tail.extend_from_slice(&bytes[bytes.len().saturating_sub(STDERR_KEPT)..]);
    // Cut only when it has doubled, so that many small writes do not move the same bytes again and again.
    if tail.len() > 2 * STDERR_KEPT {
        tail.drain(..tail.len() - STDERR_KEPT);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Keeps every line.
    #[derive(Default)]
    pub(crate) struct Lines(pub(crate) Mutex<Vec<LogLine>>);

    impl LogSink for Lines {
        fn line(&self, line: LogLine) {
            self.0.lock().expect("no panic while the lock is held").push(line);
        }
    }

    fn capture(limits: Limits) -> (Capture, Arc<Lines>) {
        let lines = Arc::new(Lines::default());
        (Capture::new(lines.clone(), LogLevel::Info, &limits), lines)
    }

    fn messages(lines: &Lines) -> Vec<String> {
        lines.0.lock().expect("lock").iter().map(|line| line.message.clone()).collect()
    }

    #[test]
    fn streams_become_lines_whatever_the_pieces() {
        let (capture, lines) = capture(Limits::default());
        for piece in ["one\ntw", "o\r\n", "\n", "three"] {
            capture.write(LogSource::Stdout, piece.as_bytes());
        }
        capture.finish();
        assert_eq!(messages(&lines), ["one", "two", "", "three"]);
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        let (capture, lines) = capture(Limits::default());
        capture.write(LogSource::Stderr, b"a\xffb\n");
        assert_eq!(messages(&lines), ["a\u{fffd}b"]);
        assert_eq!(lines.0.lock().expect("lock")[0].level, LogLevel::Warn);
    }

    #[test]
    fn a_long_line_is_cut_and_the_next_one_is_whole() {
        let (capture, lines) = capture(Limits { log_line: 10, ..Limits::default() });
        capture.write(LogSource::Stdout, b"0123456789abcdef");
        capture.write(LogSource::Stdout, b"ghij\nnext\n");
        assert_eq!(messages(&lines), ["0123456…", "next"]);
    }

    #[test]
    fn the_log_is_truncated_once_and_says_so() {
        let (capture, lines) = capture(Limits { log: 1_000, ..Limits::default() });
        for _ in 0..1_000 {
            capture.write(LogSource::Stdout, b"\n");
            capture.emit(LogLevel::Error, "t", "m", &[]);
        }
        let lines = lines.0.lock().expect("lock");
        assert_eq!(lines.iter().filter(|line| line.source == LogSource::Host).count(), 1);
        assert!(lines.len() <= 1_000 / LINE_OVERHEAD + 1);
        assert!(capture.used() <= 1_000);
    }

    #[test]
    fn a_structured_line_keeps_the_line_limit_in_all_its_parts() {
        let (capture, lines) = capture(Limits { log_line: 100, ..Limits::default() });
        let fields: Vec<_> = (0..100).map(|n| (format!("key{n}"), "value".repeat(9))).collect();
        capture.emit(LogLevel::Warn, &"t".repeat(20), &"m".repeat(30), &fields);
        capture.emit(LogLevel::Debug, "t", "below the level", &[]);
        let lines = lines.0.lock().expect("lock");
        let [line] = lines.as_slice() else { panic!("one line, got {lines:?}") };
        let fields: usize = line.fields.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert!(line.target.len() + line.message.len() + fields <= 100);
        assert_eq!(line.fields[0].1, "value".repeat(9).chars().take(45).collect::<String>());
    }

    #[test]
    fn the_tail_of_stderr_is_the_last_part_and_survives_truncation() {
        let (capture, _lines) = capture(Limits { log: 100, ..Limits::default() });
        for n in 0..10_000 {
            capture.write(LogSource::Stderr, format!("line {n}\n").as_bytes());
        }
        capture.write(LogSource::Stderr, b"panicked \x1b[31m\n");
        let tail = capture.stderr_tail();
        assert!(tail.ends_with("line 9999\npanicked \\u{1b}[31m"), "{tail}");
        assert!(tail.len() <= STDERR_TAIL + 16);
        let kept = capture.stderr_kept();
        assert!(kept.ends_with(&tail) && (STDERR_KEPT..=STDERR_KEPT + 16).contains(&kept.len()), "{}", kept.len());
    }
}
