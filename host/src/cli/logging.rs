//! The process's own log, on standard error.

use std::fmt;
use std::io::{self, IsTerminal};

use leasehold::clock;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

use super::output::wants_colour;
use super::{Global, LogFormat};

/// The variable that says what is logged in the words of `tracing`, such as `leasehold=debug`. It has no `__`, so it is
/// no key of the configuration.
const VARIABLE: &str = "LEASEHOLD_LOG";

/// Lines that may wait for standard error.
const WAITING: usize = 4_096;

/// Starts logging. A host tells what it does; other commands only what goes wrong.
///
/// A thread of its own writes: a terminal that takes nothing must not stop a heartbeat. What it cannot take is dropped.
/// What waits is written when the guard is dropped.
pub(super) fn start(global: &Global, host: bool) -> WorkerGuard {
    let builder = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(WAITING).thread_name("lh-log");
    let (writer, guard) = builder.finish(io::stderr());
    let default = match (global.verbose, host) {
        // What of the plugin directory is refused is in the results of the commands that read it.
        (0, false) => "warn,notify=error,leasehold::plugins=error",
        // The watches of a folder that goes end by themselves, which notify warns of.
        (0, true) => "warn,notify=error,leasehold=info",
        (1, false) => "warn,notify=error,leasehold=info",
        (1, true) | (2, false) => "warn,notify=error,leasehold=debug",
        _ => "info,leasehold=trace",
    };
    let said = std::env::var(VARIABLE).ok().filter(|said| !said.is_empty());
    let filter = said.as_deref().map(EnvFilter::try_new).transpose();
    let wrong = filter.as_ref().err().map(ToString::to_string);
    let filter = filter.ok().flatten().unwrap_or_else(|| EnvFilter::new(default));
    let colour = io::stderr().is_terminal() && wants_colour();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_timer(WallTime)
        .with_ansi(colour)
        // What cannot be written to standard error cannot be told there either.
        .log_internal_errors(false);
    match global.log_format {
        LogFormat::Text => builder.with_target(false).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    if let Some(wrong) = wrong {
        tracing::warn!("{VARIABLE} is not used: {wrong}");
    }
    guard
}

/// RFC 3339, UTC, with milliseconds, like every time that is shown.
struct WallTime;

impl FormatTime for WallTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{}", clock::wall())
    }
}
