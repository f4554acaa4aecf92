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

/// The variable that says what is logged: a level, or directives of `tracing` such as `leasehold_store=debug`. It has no `__`, so it is
/// no key of the configuration.
const VARIABLE: &str = "LEASEHOLD_LOG";

/// What it may say in one word.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

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
    let filter = said.as_deref().map(filter_of).transpose();
    let wrong = filter.as_ref().err().cloned();
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

/// A level alone is of Leasehold's own lines: those of the libraries inside would bury them.
fn filter_of(said: &str) -> Result<EnvFilter, String> {
    let is_level = LEVELS.contains(&said.to_ascii_lowercase().as_str());
    if !is_level && !said.contains(['=', ',']) {
        return Err(format!("write one of {}, or directives such as leasehold=debug", LEVELS.join(", ")));
    }
    let directives = match is_level && !said.eq_ignore_ascii_case("off") {
        true => format!("warn,leasehold={said}"),
        false => said.to_owned(),
    };
    EnvFilter::try_new(directives).map_err(|error| error.to_string())
}

/// RFC 3339, UTC, with milliseconds, like every time that is shown.
struct WallTime;

impl FormatTime for WallTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{}", clock::wall())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_alone_is_of_leasehold_and_what_is_neither_level_nor_directive_is_refused() {
        assert_eq!(filter_of("debug").map(|filter| filter.to_string()), Ok("leasehold=debug,warn".to_owned()));
        assert_eq!(filter_of("wasmtime=info").map(|filter| filter.to_string()), Ok("wasmtime=info".to_owned()));
        let wrong = filter_of("foo").map(|filter| filter.to_string());
        assert!(wrong.as_ref().is_err_and(|why| why.contains("write one of off, error")), "{wrong:?}");
        assert!(filter_of("leasehold=loud").is_err());
    }
}
