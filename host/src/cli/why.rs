//! `leasehold why`: why a run started or did not, in the words of every host that asked for it.

use std::fmt::Write;

use clap::Args;
use leasehold_lease::id::{JobKey, RunKey};
use leasehold_lease::policy::CLOCK_GRACE;
use leasehold_lease::time::Millis;
use leasehold_store::{Checked, JobView, RunView, Told};
use serde::Serialize;

use super::error::CliError;
use super::output::{Colour, Output, Table};
use super::record::{RunRecord, status};
use super::select::{self, RunChoice};
use super::text::{brief, plain};
use super::{Exit, Global, store, value};

/// The arguments of `leasehold why`.
#[derive(Debug, Args)]
pub(super) struct Why {
    /// The job: tenant/name, or name for the tenant "default"
    job: JobKey,
    /// Which run: its slot (RFC 3339), the id of one that was asked for, or "latest" [default: all]
    #[arg(value_name = "SLOT|RUN-ID|latest")]
    run: Option<RunChoice>,
    /// At most so many answers, the newest
    #[arg(short = 'n', long = "limit", default_value_t = 50, value_parser = value::count)]
    limit: u32,
}

impl Why {
    /// Prints what hosts were told.
    ///
    /// # Errors
    /// See [`CliError`].
    pub(super) async fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        let config = global.load()?;
        let store = store::open_existing(&config.store).await?;
        let job = select::known(store.as_ref(), &self.job).await?;
        let run = match &self.run {
            Some(choice) => Some(select::key(store.as_ref(), &self.job, choice).await?),
            None => None,
        };
        let mut told = store.told(&self.job, run.as_ref().map(|key| &key.run), self.limit as usize).await?;
        told.reverse();
        let view = match &run {
            Some(key) => store.show(key).await?.answer,
            None => None,
        };
        if let (Some(run), None, true) = (&run, &view, told.is_empty()) {
            return Err(CliError::NothingTold { run: run.clone() });
        }
        let found = Found { job, run, view, told };
        if out.is_json() {
            out.object(&WhyRecord::new(&found))?;
        } else {
            out.text(&found.head())?;
            out.text(&found.table().render(out.is_terminal(), out.paint()))?;
        }
        Ok(Exit::Success)
    }
}

/// What the store says about it.
struct Found {
    job: Checked<JobView>,
    /// The run that is asked about; none: the job as a whole.
    run: Option<RunKey>,
    view: Option<RunView>,
    /// Oldest first.
    told: Vec<Told>,
}

impl Found {
    /// Paused now: until when, and by whom.
    fn paused(&self) -> Option<String> {
        let hold = self.job.answer.hold.as_ref().filter(|hold| hold.holds(self.job.now))?;
        let until = hold.until.map_or_else(|| "until it is resumed".to_owned(), |until| format!("until {until}"));
        Some(format!("{until} ({})", brief(&hold.note, 200)))
    }

    fn blocked_until(&self) -> Option<Millis> {
        let newest = self.job.answer.newest_started?;
        (newest.0 > self.job.now + CLOCK_GRACE).then_some(newest.0)
    }

    /// What holds for all answers.
    fn head(&self) -> String {
        let mut head = String::new();
        let mut line = |title: &str, text: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(head, "{title:<10}{text}");
        };
        line("job", &self.job.answer.key.to_string());
        if let Some(run) = &self.run {
            line("run", &plain(&run.run.to_string()));
            let none = "none: nobody has started it, or its record was pruned";
            line("status", self.view.as_ref().map_or(none, |view| status(&view.run, self.job.now)));
        }
        if let Some(paused) = self.paused() {
            line("paused", &paused);
        }
        if let Some(until) = self.blocked_until() {
            line("blocked", &format!("until {until}; `leasehold unblock {}` frees it", self.job.answer.key));
        }
        if self.told.is_empty() {
            line("answers", "none");
        }
        head
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&["AT", "HOST", "RUN", "ASKED", "ANSWER", "DETAIL"]);
        for told in &self.told {
            let colour = match told.answer.as_str() {
                "won" => Colour::Good,
                "running" | "ended" => Colour::Plain,
                _ => Colour::Warn,
            };
            table.row(vec![
                (Colour::Dim, told.at.to_string()),
                (Colour::Plain, brief(&told.host, 64)),
                (Colour::Plain, plain(&told.run.run.to_string())),
                (Colour::Plain, brief(&told.asked, 20)),
                (colour, brief(&told.answer, 20)),
                (Colour::Plain, brief(&told.detail, 200)),
            ]);
        }
        table
    }
}

#[derive(Debug, Serialize)]
struct WhyRecord<'a> {
    job: String,
    run: Option<String>,
    /// None where there is none.
    record: Option<RunRecord>,
    paused: Option<String>,
    blocked_until: Option<String>,
    /// Oldest first.
    answers: Vec<AnswerRecord<'a>>,
}

#[derive(Debug, Serialize)]
struct AnswerRecord<'a> {
    at: String,
    host: &'a str,
    run: String,
    asked: &'a str,
    answer: &'a str,
    detail: &'a str,
}

impl<'a> WhyRecord<'a> {
    fn new(found: &'a Found) -> WhyRecord<'a> {
        let answer = |told: &'a Told| AnswerRecord {
            at: told.at.to_string(),
            host: &told.host,
            run: told.run.run.to_string(),
            asked: &told.asked,
            answer: &told.answer,
            detail: &told.detail,
        };
        WhyRecord {
            job: found.job.answer.key.to_string(),
            run: found.run.as_ref().map(|key| key.run.to_string()),
            record: found.view.as_ref().map(|view| RunRecord::new(view, found.job.now)),
            paused: found.paused(),
            blocked_until: found.blocked_until().map(|until| until.to_string()),
            answers: found.told.iter().map(answer).collect(),
        }
    }
}
