//! `leasehold show`: one run with all that is known of it.

use std::fmt::Write;

use clap::Args;
use leasehold_lease::id::JobKey;
use leasehold_lease::run::{AttemptRecord, Failure, Outcome, Status, Usage};
use leasehold_lease::time::Millis;
use leasehold_store::{Checked, RunView};

use super::error::CliError;
use super::output::{Colour, Output, Paint};
use super::record::{self, RunRecord, text_of};
use super::runs::{colour, progress_line, took};
use super::select::{self, RunChoice};
use super::text::{block, brief, bytes, detail, duration_ms, plain};
use super::{Exit, Global, json_text, store};

/// The arguments of `leasehold show`.
#[derive(Debug, Args)]
pub(super) struct Show {
    /// The job: tenant/name, or name for the tenant "default"
    job: JobKey,
    /// Which run: its slot (RFC 3339), the id of one that was asked for, or "latest"
    #[arg(value_name = "SLOT|RUN-ID|latest", default_value = "latest")]
    run: RunChoice,
}

impl Show {
    /// Prints the run.
    ///
    /// # Errors
    /// See [`CliError`].
    pub(super) async fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        let config = global.load()?;
        let store = store::open_existing(&config.store).await?;
        let Checked { now, answer } = select::find(store.as_ref(), &self.job, &self.run).await?;
        if out.is_json() {
            out.object(&RunRecord::with_attempts(&answer, now))?;
        } else {
            out.text(&page(&answer, now, out.paint()))?;
        }
        Ok(Exit::Success)
    }
}

/// The run as people read it.
fn page(view: &RunView, now: Millis, paint: Paint) -> String {
    let run = &view.run;
    let status = record::status(run, now);
    let mut page = String::new();
    line(&mut page, "job", &view.key.job.to_string());
    line(&mut page, "run", &format!("{} ({})", view.key.run, record::kind(&view.key.run)));
    line(&mut page, "status", &paint.paint(colour(status), status));
    line(&mut page, "due", &run.due.to_string());
    if let Some(first) = run.attempts.first() {
        line(&mut page, "started", &first.started_at.to_string());
    }
    if let Some(at) = run.ended_at {
        let how = if run.attempts.is_empty() { "never started".to_owned() } else { format!("took {}", took(run, now)) };
        line(&mut page, "ended", &format!("{at} ({how})"));
    }
    if run.current().is_some() && !run.status.is_final() {
        line(&mut page, "lease end", &run.lease_end.to_string());
    }
    line(&mut page, "starts", &format!("{}, of them handed over {}", run.starts, run.hand_overs));
    if let Some(why) = &run.cancelled {
        line(&mut page, "cancelled", &brief(why, 200));
    }
    // The last report of a run that has succeeded is older than its end.
    if let Some(progress) = run.progress.as_ref().filter(|_| run.status != Status::Success) {
        line(&mut page, "progress", &progress_line(progress));
    }
    for attempt in &run.attempts {
        page.push_str(&attempt_lines(attempt, paint));
    }
    match &run.outcome {
        None => {}
        Some(Outcome::Success { output, cut }) => page.push_str(&output_lines(output, *cut)),
        Some(Outcome::Failed(failure)) => page.push_str(&failure_lines(failure, paint)),
        Some(Outcome::Interrupted { reason }) => line(&mut page, "reason", &plain(reason)),
    }
    page
}

fn line(page: &mut String, title: &str, text: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(page, "{title:<10}{text}");
}

fn attempt_lines(attempt: &AttemptRecord, paint: Paint) -> String {
    let (how, until) = match attempt.ended {
        Some((at, how)) => (how.word(), at.to_string()),
        None => ("running", "…".to_owned()),
    };
    let how_colour = match how {
        "lost" | "expired" | "cancelled" | "handed-over" => Colour::Warn,
        word => colour(word),
    };
    let mut page = format!("\nattempt {}  {}\n", attempt.attempt, paint.paint(how_colour, how));
    let mut fact = |title: &str, text: &str| line(&mut page, &format!("  {title}"), text);
    fact("runner", &brief(&attempt.runner, 80));
    fact("from", &format!("{} until {until}", attempt.started_at));
    fact("fence", &attempt.fence.0.to_string());
    if let Some(digest) = attempt.digest {
        fact("plugin", &digest.to_string());
    }
    if let Some(used) = attempt.usage {
        fact("used", &used_line(&used));
    }
    page
}

fn used_line(used: &Usage) -> String {
    let (wall, cpu) = (duration_ms(used.wall_ms), duration_ms(used.cpu_ms));
    let (memory, log) = (bytes(used.peak_memory), bytes(used.log_bytes));
    let mut line = format!("{wall}, processor {cpu}, memory {memory}, {} host calls, log {log}", used.host_calls);
    if used.http_sent + used.http_received > 0 {
        line += &format!(", HTTP {} sent and {} received", bytes(used.http_sent), bytes(used.http_received));
    }
    if let Some(fuel) = used.fuel {
        line += &format!(", fuel {fuel}");
    }
    line
}

fn output_lines(output: &[u8], cut: bool) -> String {
    let cut_note = if cut { format!(" (its first {})", bytes(output.len() as u64)) } else { String::new() };
    if output.is_empty() {
        return "\noutput    none\n".to_owned();
    }
    // The beginning of a JSON value can be another one, such as 12 of 1234.
    let pretty = if cut { None } else { json_text::pretty(output) };
    match pretty.as_deref().or_else(|| text_of(output, cut)) {
        Some(text) => format!("\noutput{cut_note}\n{}", block(text, "  ")),
        None => format!("\noutput    {} bytes that are no text; --json shows them{cut_note}\n", output.len()),
    }
}

fn failure_lines(failure: &Failure, paint: Paint) -> String {
    let code = paint.paint(Colour::Bad, &plain(&failure.code));
    let hint = if failure.retryable { " (the handler says that another try may help)" } else { "" };
    let mut page = format!("\nerror     {code}{hint}\n{}", block(&failure.message, "  "));
    for (key, value) in &failure.details {
        page.push_str(&detail(key, value));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::taken_over;
    use super::*;
    use leasehold_lease::run::Progress;

    #[test]
    fn a_run_is_shown_with_all_its_attempts() {
        let mut view = taken_over();
        view.run.status = Status::Success;
        view.run.ended_at = Some(Millis(4_000));
        let used = Usage { http_sent: 300, http_received: 2 << 10, fuel: Some(12), ..Usage::default() };
        view.run.attempts[1].usage =
            Some(Usage { wall_ms: 1_500, cpu_ms: 20, peak_memory: 1 << 20, host_calls: 7, log_bytes: 100, ..used });
        view.run.outcome = Some(Outcome::Success { output: br#"{"n":1}"#.to_vec(), cut: false });
        view.run.progress = Some(Progress { done: 3, total: Some(10), message: "half-way".into() });
        let page = page(&view, Millis(9_000), Paint(false));
        let digest = "12".repeat(32);
        let expected = format!(
            "job       acme/x\n\
             run       1970-01-01T00:00:00.000Z (scheduled)\n\
             status    success\n\
             due       1970-01-01T00:00:00.000Z\n\
             started   1970-01-01T00:00:01.000Z\n\
             ended     1970-01-01T00:00:04.000Z (took 3.0 s)\n\
             starts    2, of them handed over 0\n\
             \n\
             attempt 1  lost\n\
             \x20 runner  host-1\n\
             \x20 from    1970-01-01T00:00:01.000Z until 1970-01-01T00:00:02.000Z\n\
             \x20 fence   1\n\
             \x20 plugin  {digest}\n\
             \n\
             attempt 2  running\n\
             \x20 runner  host-2\n\
             \x20 from    1970-01-01T00:00:02.000Z until …\n\
             \x20 fence   2\n\
             \x20 plugin  {digest}\n\
             \x20 used    1.5 s, processor 20 ms, memory 1.0 MiB, 7 host calls, log 100 B, \
             HTTP 300 B sent and 2.0 KiB received, fuel 12\n\
             \n\
             output\n\
             \x20 {{\n\
             \x20   \"n\": 1\n\
             \x20 }}\n"
        );
        assert_eq!(page, expected);
    }

    #[test]
    fn nothing_a_handler_says_stands_at_the_margin_or_steers_the_terminal() {
        let text = "a\nstatus    success\u{1b}[2J\u{2028}";
        let mut view = taken_over();
        let failure = Failure {
            code: text.into(),
            message: text.into(),
            details: vec![(text.into(), text.into())],
            retryable: false,
        };
        for outcome in [
            Outcome::Failed(failure),
            Outcome::Success { output: text.into(), cut: true },
            Outcome::Interrupted { reason: text.into() },
        ] {
            view.run.outcome = Some(outcome);
            let page = page(&view, Millis(0), Paint(false));
            assert!(!page.contains('\u{1b}') && !page.contains('\u{2028}'), "{page}");
            assert_eq!(page.lines().filter(|line| line.starts_with("status")).count(), 1, "{page}");
        }
    }
}
