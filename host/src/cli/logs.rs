//! `leasehold logs`: what a run's handler has logged.

use std::time::Duration;

use clap::Args;
use leasehold_lease::id::JobKey;
use leasehold_lease::log::LogLevel;
use leasehold_lease::time::Millis;
use leasehold_store::{LeaseStore, RunView};

use super::error::CliError;
use super::output::{Colour, Output, Paint};
use super::record::LogRecord;
use super::select::{self, RunChoice};
use super::text::plain;
use super::{Exit, Global, store};

/// Lines read in one call.
const BATCH: usize = 1_000;
/// Between two looks for more.
const PAUSE: Duration = Duration::from_millis(250);

/// The arguments of `leasehold logs`.
#[derive(Debug, Args)]
pub(super) struct Logs {
    /// The job: tenant/name, or name for the tenant "default"
    job: JobKey,
    /// Which run: its slot (RFC 3339), the id of one that was asked for, or "latest"
    #[arg(value_name = "SLOT|RUN-ID|latest", default_value = "latest")]
    run: RunChoice,
    /// Go on until the run has ended
    #[arg(short, long)]
    follow: bool,
}

impl Logs {
    /// Prints the log.
    ///
    /// # Errors
    /// See [`CliError`].
    pub(super) async fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        let config = global.load()?;
        let store = store::open_existing(&config.store).await?;
        let mut view = select::find(store.as_ref(), &self.job, &self.run).await?.answer;
        let this = RunChoice::Run(view.key.run.clone());
        let mut last = 0;
        loop {
            // Looked at before the log is read: what a run says, it says before it has ended.
            let ended = view.run.status.is_final();
            last = print_from(store.as_ref(), &view, last, out).await?;
            if ended || !self.follow || out.is_closed() {
                return Ok(Exit::Success);
            }
            tokio::time::sleep(PAUSE).await;
            view = select::find(store.as_ref(), &self.job, &this).await?.answer;
        }
    }
}

/// Prints what stands behind the line `last`, and answers which line is the last now.
async fn print_from(store: &dyn LeaseStore, view: &RunView, mut last: u64, out: &mut Output) -> Result<u64, CliError> {
    loop {
        let entries = store.read_log(&view.key, last, BATCH).await?;
        let Some(newest) = entries.last() else { break };
        last = newest.sequence;
        for entry in &entries {
            if out.is_json() {
                out.object(&LogRecord::new(view, entry))?;
                continue;
            }
            let line = &entry.line;
            let shown = Line {
                at: line.at,
                attempt: (view.run.starts > 1).then_some(entry.attempt.0),
                level: line.level,
                target: &line.target,
                message: &line.message,
                fields: &line.fields,
            };
            out.text(&shown.render(out.paint()))?;
        }
        out.flush()?;
        if out.is_closed() {
            break;
        }
    }
    Ok(last)
}

/// A log line for people.
pub(super) struct Line<'a> {
    pub(super) at: Millis,
    /// Which attempt said it, where there are several.
    pub(super) attempt: Option<u32>,
    pub(super) level: LogLevel,
    pub(super) target: &'a str,
    pub(super) message: &'a str,
    pub(super) fields: &'a [(String, String)],
}

impl Line<'_> {
    /// One line, whatever the guest has put into it.
    pub(super) fn render(&self, paint: Paint) -> String {
        let (word, colour) = match self.level {
            LogLevel::Trace => ("TRACE", Colour::Dim),
            LogLevel::Debug => ("DEBUG", Colour::Dim),
            LogLevel::Info => ("INFO ", Colour::Good),
            LogLevel::Warn => ("WARN ", Colour::Warn),
            LogLevel::Error => ("ERROR", Colour::Bad),
        };
        let at = paint.paint(Colour::Dim, &self.at.to_string());
        let attempt = self.attempt.map_or(String::new(), |n| format!(" #{n}"));
        let target = if self.target.is_empty() { String::new() } else { format!(" {}:", plain(self.target)) };
        let fields: String =
            self.fields.iter().map(|(key, value)| format!(" {}={}", plain(key), plain(value))).collect();
        let level = paint.paint(colour, word);
        format!("{at}{attempt} {level}{target} {}{}\n", plain(self.message), paint.paint(Colour::Dim, &fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_line_and_steers_nothing() {
        let fields = [("k\n".to_owned(), "v\u{1b}[2J".to_owned())];
        let line = Line {
            at: Millis(0),
            attempt: Some(2),
            level: LogLevel::Warn,
            target: "part\r",
            message: "one\n1970-01-01T00:00:00.000Z INFO  forged\u{2028}",
            fields: &fields,
        };
        assert_eq!(
            line.render(Paint(false)),
            "1970-01-01T00:00:00.000Z #2 WARN  part\\u{d}: one\\n1970-01-01T00:00:00.000Z INFO  forged\\u{2028} \
             k\\n=v\\u{1b}[2J\n"
        );
    }

    #[test]
    fn a_line_without_target_and_fields_is_short() {
        let line = Line { at: Millis(0), attempt: None, level: LogLevel::Info, target: "", message: "m", fields: &[] };
        assert_eq!(line.render(Paint(false)), "1970-01-01T00:00:00.000Z INFO  m\n");
    }
}
