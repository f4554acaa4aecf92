//! A guest's log lines, as whoever keeps them gets them.

/// How severe a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Every step.
    Trace,
    /// For developers.
    Debug,
    /// For operators.
    Info,
    /// Something to look at.
    Warn,
    /// Something failed.
    Error,
}

impl LogLevel {
    /// The level's name in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            LogLevel::Trace => "trace",
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Warn => "warn",
            LogLevel::Error => "error",
        }
    }
}

/// Where a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogSource {
    /// The guest's call of `log.emit`.
    Guest,
    /// A line of the guest's standard output; its level is info.
    Stdout,
    /// A line of the guest's standard error; its level is warn, and info of a WASI command.
    Stderr,
    /// The host's own remark about the log, such as that it was truncated.
    Host,
}

impl LogSource {
    /// The source's name in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            LogSource::Guest => "guest",
            LogSource::Stdout => "stdout",
            LogSource::Stderr => "stderr",
            LogSource::Host => "host",
        }
    }
}

/// One line. Its texts are bounded but otherwise the guest's: [`escape`](crate::escape) them where people read them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// How severe it is.
    pub level: LogLevel,
    /// What part of the guest speaks; empty for the standard streams.
    pub target: String,
    /// The line itself, without its newline.
    pub message: String,
    /// Structured facts.
    pub fields: Vec<(String, String)>,
    /// Where it came from.
    pub source: LogSource,
}

/// Takes the lines of one attempt, in order.
pub trait LogSink: Send + Sync {
    /// Called on a guest's thread, for at most the attempt's log limit in total: must not block.
    fn line(&self, line: LogLine);
}
