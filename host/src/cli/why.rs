//! `leasehold why`: why a run started or did not, in the words of every host that asked for it.

use std::fmt::Write;

use clap::Args;
use leasehold_lease::id::{JobKey, RunId, RunKey};
use leasehold_lease::run::Status;
use leasehold_lease::time::Slot;
use leasehold_store::{ANSWERS_KEPT, Checked, HistoryQuery, HostAnswer, JobView, LeaseStore, RunView};
use serde::Serialize;

use self::reasons::{Around, reasons};
use super::error::CliError;
use super::hosts::HostRow;
use super::output::{Colour, Output, Table};
use super::record::{RunRecord, status};
use super::select::{self, RunChoice};
use super::text::{brief, plain};
use super::{Exit, Global, store, value};

mod reasons;

/// The arguments of `leasehold why`.
#[derive(Debug, Args)]
pub(super) struct Why {
    /// The job: tenant/name, or name for the tenant "default"
    job: JobKey,
    /// Which run: its slot (RFC 3339), the id of one that was asked for, or "latest" [default: all]
    #[arg(value_name = "SLOT|RUN-ID|latest")]
    run: Option<RunChoice>,
    /// Show at most this many answers, the newest
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
        let mut told = store.answers(&self.job, run.as_ref().map(|key| &key.run), self.limit as usize).await?;
        told.reverse();
        let mut found = Found { job, run, view: None, told, nearest: Vec::new(), reasons: Vec::new() };
        if let Some(key) = found.run.clone() {
            found.look_around(store.as_ref(), &key).await?;
            if found.view.is_none() && found.told.is_empty() && found.reasons.is_empty() {
                return Err(CliError::NothingTold { run: key });
            }
        }
        if out.is_json() {
            out.object(&WhyRecord::new(&found))?;
        } else {
            out.text(&found.head())?;
            out.text(&table(&found.told).render(out.is_terminal(), out.paint()))?;
            if !found.nearest.is_empty() {
                out.text("answers of the slots before and after it\n")?;
                out.text(&table(&found.nearest).render(out.is_terminal(), out.paint()))?;
            }
        }
        Ok(Exit::Success)
    }
}

/// Runs that are looked at for one that is executed.
const RUNNING: usize = 100;

/// What the store says about it.
struct Found {
    job: Checked<JobView>,
    /// The run that is asked about; none: the job as a whole.
    run: Option<RunKey>,
    view: Option<RunView>,
    /// Oldest first.
    told: Vec<HostAnswer>,
    /// What was told of the slots before and after one of which nothing was: the answer may cover it.
    nearest: Vec<HostAnswer>,
    /// Sentences for people.
    reasons: Vec<String>,
}

impl Found {
    /// Reads the run's record, and what explains it where no host's answer does.
    async fn look_around(&mut self, store: &dyn LeaseStore, key: &RunKey) -> Result<(), CliError> {
        let job = &key.job;
        self.view = store.show(key).await?.answer;
        if self.view.as_ref().is_some_and(|view| view.run.status.is_final()) {
            return Ok(());
        }
        let hosts = store.hosts().await?;
        let rows: Vec<HostRow> = hosts.answer.iter().map(|host| HostRow::new(host, hosts.now)).collect();
        let query = HistoryQuery {
            job: Some(job.clone()),
            status: Some(Status::Running),
            limit: RUNNING,
            ..HistoryQuery::default()
        };
        let running = store.history(&query).await?.answer;
        let running = running.iter().find(|other| other.key != *key && other.run.live(hosts.now));
        self.reasons = reasons(&Around {
            now: hosts.now,
            job: &self.job.answer,
            run: &key.run,
            view: self.view.as_ref(),
            hosts: &rows,
            running: running.map(|other| &other.key),
        });
        if self.told.is_empty() && self.view.is_none() {
            self.nearest = nearest(store.answers(job, None, ANSWERS_KEPT).await?, &key.run);
        }
        Ok(())
    }

    /// Paused now: until when, and by whom.
    fn paused(&self) -> Option<String> {
        let hold = self.job.answer.hold.as_ref().filter(|hold| hold.holds(self.job.now))?;
        let until = hold.until.map_or_else(|| "until it is resumed".to_owned(), |until| format!("until {until}"));
        Some(format!("{until} ({})", brief(&hold.note, 200)))
    }

    fn blocked_until(&self) -> Option<Slot> {
        self.job.answer.blocked_until(self.job.now)
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
            line("status", self.view.as_ref().map_or("no record", |view| status(&view.run, self.job.now)));
        }
        // A run that was asked for starts all the same.
        let is_scheduled = self.run.as_ref().is_none_or(|key| key.run.slot().is_some());
        if let Some(paused) = self.paused().filter(|_| is_scheduled) {
            line("paused", &paused);
        }
        if let Some(until) = self.blocked_until() {
            line("blocked", &format!("until {until}; `leasehold unblock {}` frees it", self.job.answer.key));
        }
        self.reasons.iter().for_each(|reason| line("because", reason));
        if self.told.is_empty() {
            line("answers", "none");
        }
        head
    }
}

/// The last answer of the slot before this one, and the first of the one after it.
fn nearest(told: Vec<HostAnswer>, run: &RunId) -> Vec<HostAnswer> {
    let Some(slot) = run.slot() else { return Vec::new() };
    let of = |told: &HostAnswer| told.run.run.slot();
    let before = told.iter().filter(|told| of(told) < Some(slot)).max_by_key(|told| (of(told), told.at));
    let after = told.iter().filter(|told| of(told) > Some(slot)).min_by_key(|told| (of(told), told.at));
    before.into_iter().chain(after).cloned().collect()
}

fn table(answers: &[HostAnswer]) -> Table {
    let mut table = Table::new(&["AT", "HOST", "RUN", "ASKED", "ANSWER", "DETAIL"]);
    for told in answers {
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

#[derive(Debug, Serialize)]
struct WhyRecord<'a> {
    job: String,
    run: Option<String>,
    /// None where there is none.
    record: Option<RunRecord>,
    paused: Option<String>,
    blocked_until: Option<String>,
    /// What follows from the record, in words; for a run that waits, and for a slot without one.
    reasons: &'a [String],
    /// Oldest first.
    answers: Vec<AnswerRecord<'a>>,
    /// Where there are none: those of the slots before and after it.
    nearest: Vec<AnswerRecord<'a>>,
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
        let answer = |told: &'a HostAnswer| AnswerRecord {
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
            reasons: &found.reasons,
            answers: found.told.iter().map(answer).collect(),
            nearest: found.nearest.iter().map(answer).collect(),
        }
    }
}
