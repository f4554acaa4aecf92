//! What a handler says while it is executed, shown as it comes.

use std::io::{self, IsTerminal, Write};

use leasehold_lease::log::LogLevel;
use leasehold_lease::run::Progress;
use leasehold_lease::time::Millis;
use leasehold_sandbox::{self as sandbox, LogLine, LogSink, LogSource};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::cli::logs::Line;
use crate::cli::output::{Paint, wants_colour};
use crate::cli::runs::progress_line;

/// Takes lines on the guest's thread. Unbounded, but the sandbox bounds what the handler may say.
pub(super) struct Sink(pub(super) mpsc::UnboundedSender<LogLine>);

impl LogSink for Sink {
    fn line(&self, line: LogLine) {
        // Nobody listens once the end has been told.
        let _ = self.0.send(line);
    }
}

/// Standard error, as far as somebody reads it.
pub(super) struct Stderr {
    terminal: bool,
    paint: Paint,
}

impl Stderr {
    pub(super) fn new() -> Stderr {
        let terminal = io::stderr().is_terminal();
        Stderr { terminal, paint: Paint(terminal && wants_colour()) }
    }

    pub(super) fn show(&self, at: Millis, line: &LogLine) {
        let target = target(line);
        let level = level(line.level);
        let shown = Line { at, attempt: None, level, target, message: &line.message, fields: &line.fields };
        self.write(&shown.render(self.paint));
    }

    pub(super) fn progress(&self, progress: Option<&sandbox::Progress>) {
        if let (true, Some(progress)) = (self.terminal, progress) {
            let sandbox::Progress { done, total, message } = progress.clone();
            self.note(&format!("progress {}", progress_line(&Progress { done, total, message })));
        }
    }

    pub(super) fn note(&self, text: &str) {
        self.write(&format!("leasehold: {text}\n"));
    }

    fn write(&self, text: &str) {
        // The handler goes on when nobody reads its log.
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}

/// What part of the handler speaks, or the stream it wrote to.
fn target(line: &LogLine) -> &str {
    match line.source {
        LogSource::Guest => &line.target,
        source => source.as_str(),
    }
}

fn level(level: sandbox::LogLevel) -> LogLevel {
    match level {
        sandbox::LogLevel::Trace => LogLevel::Trace,
        sandbox::LogLevel::Debug => LogLevel::Debug,
        sandbox::LogLevel::Info => LogLevel::Info,
        sandbox::LogLevel::Warn => LogLevel::Warn,
        sandbox::LogLevel::Error => LogLevel::Error,
    }
}

/// A line the handler logged, for programs.
#[derive(Debug, Serialize)]
pub(super) struct SaidRecord {
    at: String,
    level: LogLevel,
    target: String,
    message: String,
    fields: Vec<(String, String)>,
}

impl SaidRecord {
    pub(super) fn new(at: Millis, line: LogLine) -> SaidRecord {
        let target = target(&line).to_owned();
        SaidRecord { at: at.to_string(), level: level(line.level), target, message: line.message, fields: line.fields }
    }
}
