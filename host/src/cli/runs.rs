//! `leasehold runs`: runs, newest first.

use clap::{Args, ValueEnum};
use leasehold::clock;
use leasehold_lease::id::JobKey;
use leasehold_lease::run::{self, Outcome, Run};
use leasehold_lease::time::Millis;
use leasehold_store::{Checked, HistoryQuery, LeaseStore, RunView};

use super::error::CliError;
use super::output::{Colour, Output, Table};
use super::record::{RunRecord, status, text_of};
use super::text::{brief, duration_ms};
use super::value::{self, Since};
use super::{Exit, Global, select, store};

/// The arguments of `leasehold runs`.
#[derive(Debug, Args)]
pub(super) struct Runs {
    /// Only of this job: tenant/name, or name for the tenant "default"
    #[arg(long)]
    job: Option<JobKey>,
    /// Only in this status
    #[arg(long, value_enum)]
    status: Option<StatusChoice>,
    /// Only those due since this time (RFC 3339), or within this time (2h)
    #[arg(long, value_name = "TIME|DURATION", value_parser = value::since)]
    since: Option<Since>,
    /// Show at most this many runs
    #[arg(short = 'n', long = "limit", default_value_t = 20, value_parser = value::count)]
    limit: u32,
}

/// The status of a run, as people see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StatusChoice {
    Pending,
    Running,
    Released,
    Expired,
    Success,
    Failed,
    Interrupted,
}

impl StatusChoice {
    fn word(self) -> &'static str {
        match self {
            StatusChoice::Pending => "pending",
            StatusChoice::Running => "running",
            StatusChoice::Released => "released",
            StatusChoice::Expired => "expired",
            StatusChoice::Success => "success",
            StatusChoice::Failed => "failed",
            StatusChoice::Interrupted => "interrupted",
        }
    }
}

/// Live, released and expired runs are one to the store, and are told apart here. A job has few of them.
const RUNNING_READ: usize = 100_000;

impl Runs {
    /// Prints the runs.
    ///
    /// # Errors
    /// See [`CliError`].
    pub(super) async fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        let config = global.load()?;
        let store = store::open_existing(&config.store).await?;
        let Checked { now, answer } = self.read(store.as_ref()).await?;
        if out.is_json() {
            for view in &answer {
                out.object(&RunRecord::new(view, now))?;
            }
        } else {
            out.text(&table(&answer, now).render(out.is_terminal(), out.paint()))?;
        }
        Ok(Exit::Success)
    }

    async fn read(&self, store: &dyn LeaseStore) -> Result<Checked<Vec<RunView>>, CliError> {
        let limit = self.limit as usize;
        let (wanted, read) = match self.status {
            None => (None, limit),
            Some(StatusChoice::Pending) => (Some(run::Status::Pending), limit),
            Some(StatusChoice::Running | StatusChoice::Released | StatusChoice::Expired) => {
                (Some(run::Status::Running), RUNNING_READ)
            }
            Some(StatusChoice::Success) => (Some(run::Status::Success), limit),
            Some(StatusChoice::Failed) => (Some(run::Status::Failed), limit),
            Some(StatusChoice::Interrupted) => (Some(run::Status::Interrupted), limit),
        };
        let since = self.since.map(|since| since.instant(clock::wall()));
        let query = HistoryQuery { job: self.job.clone(), status: wanted, since, limit: read };
        let Checked { now, mut answer } = store.history(&query).await?;
        if let Some(choice) = self.status {
            answer.retain(|view| status(&view.run, now) == choice.word());
        }
        answer.truncate(limit);
        if let (true, Some(job)) = (answer.is_empty(), &self.job) {
            select::known(store, job).await?;
        }
        Ok(Checked { now, answer })
    }
}

fn table(views: &[RunView], now: Millis) -> Table {
    let mut table = Table::new(&["JOB", "RUN", "STATUS", "ATTEMPT", "RUNNER", "STARTED", "TOOK", "OUTCOME"]);
    for view in views {
        let run = &view.run;
        let word = status(run, now);
        let started = run.attempts.first().map(|first| first.started_at);
        table.row(vec![
            (Colour::Plain, view.key.job.to_string()),
            (Colour::Plain, view.key.run.to_string()),
            (colour(word), word.to_owned()),
            (Colour::Plain, run.attempt().to_string()),
            (Colour::Plain, run.current().map_or(String::new(), |attempt| brief(&attempt.runner, 40))),
            (Colour::Dim, started.map_or(String::new(), |at| at.to_string())),
            (Colour::Plain, took(run, now)),
            (Colour::Plain, summary(run)),
        ]);
    }
    table
}

/// From the first start to the end, or until now.
pub(super) fn took(run: &Run, now: Millis) -> String {
    let Some(first) = run.attempts.first() else { return String::new() };
    let whole = run.ended_at.unwrap_or(now).since(first.started_at);
    duration_ms(u64::try_from(whole.as_millis()).unwrap_or(u64::MAX))
}

/// How a status is shown.
pub(super) fn colour(status: &str) -> Colour {
    match status {
        "success" => Colour::Good,
        "failed" => Colour::Bad,
        "interrupted" | "released" | "expired" => Colour::Warn,
        "running" => Colour::Busy,
        _ => Colour::Plain,
    }
}

/// What came of it, or how far it is, on a line.
fn summary(run: &Run) -> String {
    match (&run.outcome, &run.progress) {
        (Some(Outcome::Success { output, cut }), _) => match text_of(output, *cut) {
            Some(text) => brief(text.trim(), 60),
            None => format!("{} bytes", output.len()),
        },
        (Some(Outcome::Failed(failure)), _) => brief(&format!("{}: {}", failure.code, failure.message), 100),
        (Some(Outcome::Interrupted { reason }), _) => brief(reason, 100),
        (None, Some(progress)) => progress_line(progress),
        (None, None) => String::new(),
    }
}

/// How far a run is, on a line.
pub(super) fn progress_line(progress: &run::Progress) -> String {
    let total = progress.total.map_or(String::new(), |total| format!("/{total}"));
    format!("{}{total} {}", progress.done, brief(&progress.message, 60)).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::output::Paint;
    use super::super::record::tests::taken_over;
    use super::*;
    use leasehold_lease::run::{Failure, Progress, Status};

    fn lines(view: RunView, now: Millis) -> String {
        table(&[view], now).render(false, Paint(false))
    }

    #[test]
    fn a_running_run_tells_how_far_it_is() {
        let mut view = taken_over();
        view.run.progress = Some(Progress { done: 3, total: Some(10), message: "reading\u{1b}[2J".into() });
        let line = lines(view, Millis(5_500));
        let expected = "acme/x  1970-01-01T00:00:00.000Z  running  2  host-2  1970-01-01T00:00:01.000Z  4.5 s  \
                        3/10 reading\\u{1b}[2J\n";
        assert_eq!(line, expected);
    }

    #[test]
    fn a_handlers_message_stays_on_its_line() {
        let mut view = taken_over();
        view.run.status = Status::Failed;
        view.run.ended_at = Some(Millis(3_000));
        let failure =
            Failure { code: "c".into(), message: "a\nacme/y  success".into(), details: vec![], retryable: false };
        view.run.outcome = Some(Outcome::Failed(failure));
        let line = lines(view, Millis(90_000));
        assert!(line.ends_with("  2.0 s  c: a\\nacme/y  success\n") && line.lines().count() == 1, "{line}");
    }

    #[test]
    fn a_binary_output_is_only_counted() {
        let mut view = taken_over();
        view.run.outcome = Some(Outcome::Success { output: vec![0xff, 0], cut: false });
        assert!(lines(view, Millis(0)).ends_with("  2 bytes\n"));
    }
}
