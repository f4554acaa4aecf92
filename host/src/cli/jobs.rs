//! `leasehold jobs`: what the plugin directory offers, what of it is refused, and what the store knows about it.

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::Args;
use leasehold::config::{Config, Flags, StoreUrl};
use leasehold::plugins::{Catalog, OfferedJob, Refused};
use leasehold::{clock, plugins, zones};
use leasehold_lease::id::JobKey;
use leasehold_lease::policy::CLOCK_GRACE;
use leasehold_lease::schedule::Schedule;
use leasehold_lease::time::{Millis, Slot};
use leasehold_sandbox::Inspection;
use leasehold_store::{Checked, JobView, RunView};
use serde::Serialize;

use super::error::CliError;
use super::loader::Inspector;
use super::output::{Colour, Output, Paint, Table};
use super::record::{RunRecord, status};
use super::runs::colour;
use super::text::plain;
use super::{Exit, Global, next, store};

/// The arguments of `leasehold jobs`.
#[derive(Debug, Args)]
pub(super) struct Jobs {}

impl Jobs {
    /// Prints the jobs.
    ///
    /// # Errors
    /// See [`CliError`].
    pub(super) async fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        let config = Arc::new(global.load(Flags::default())?);
        let catalog = plugins::scan(Arc::clone(&config), zones::load(), Inspector, clock::wall()).await;
        let known = known_jobs(&config).await?;
        let rows = rows(&catalog, &known);
        let refused: Vec<_> = told(&catalog);
        if out.is_json() {
            rows.iter().try_for_each(|row| out.object(row))?;
            refused.iter().try_for_each(|(state, refused)| out.object(&RefusedRecord::new(state, refused)))?;
        } else {
            out.text(&table(&rows).render(out.is_terminal(), out.paint()))?;
            out.text(&refusals(&refused, out.paint()))?;
        }
        Ok(Exit::Success)
    }
}

/// What the store knows, and its clock. A store that nobody has made yet knows nothing.
async fn known_jobs(config: &Config) -> Result<Checked<Vec<JobView>>, CliError> {
    let nothing = Checked { now: clock::wall(), answer: Vec::new() };
    if config.store == StoreUrl::Memory {
        tracing::warn!("the store memory: lives inside the host, so nothing is known about runs here");
        return Ok(nothing);
    }
    match store::open_existing(&config.store).await {
        Ok(store) => Ok(store.jobs().await?),
        Err(CliError::NoStore { path }) => {
            tracing::info!("there is no record yet: {} does not exist", path.display());
            Ok(nothing)
        }
        Err(error) => Err(error),
    }
}

/// A job, as it is shown.
#[derive(Debug, Serialize)]
struct JobRow {
    job: String,
    /// "offered", or "not-offered" for one that only the store knows.
    state: &'static str,
    schedule: Option<String>,
    timezone: Option<String>,
    next: Option<String>,
    next_local: Option<String>,
    last: Option<RunRecord>,
    /// For people: status of the last run, and since when.
    #[serde(skip)]
    last_shown: Option<(&'static str, Millis)>,
    unfinished: u64,
    /// When a host last offered it.
    last_offered: Option<String>,
    plugin: Option<String>,
    digest: Option<String>,
    blocked_until: Option<String>,
}

fn rows(catalog: &Catalog<Inspection>, known: &Checked<Vec<JobView>>) -> Vec<JobRow> {
    let views: BTreeMap<&JobKey, &JobView> = known.answer.iter().map(|view| (&view.key, view)).collect();
    let offered = catalog.jobs.iter().map(|(key, job)| (key, row(key, Some(job), views.get(key).copied(), known.now)));
    let gone = views.iter().filter(|(key, _)| !catalog.jobs.contains_key(key));
    let gone = gone.map(|(key, view)| (*key, row(key, None, Some(view), known.now)));
    let all: BTreeMap<_, _> = offered.chain(gone).collect();
    all.into_values().collect()
}

fn row(key: &JobKey, offered: Option<&OfferedJob<Inspection>>, view: Option<&JobView>, now: Millis) -> JobRow {
    let schedule = offered.and_then(|job| job.spec.schedule.as_ref());
    let next = schedule.and_then(|schedule| schedule.next_after(now));
    let last = view.and_then(|view| view.last.as_ref());
    JobRow {
        job: key.to_string(),
        state: if offered.is_some() { "offered" } else { "not-offered" },
        schedule: schedule.map(Schedule::to_string),
        timezone: schedule.map(|schedule| schedule.zone().to_string()),
        next: next.map(|slot| slot.to_string()),
        next_local: next.zip(schedule).map(|(slot, schedule)| next::local(slot, schedule.zone().tz())),
        last: last.map(|view| RunRecord::new(view, now)),
        last_shown: last.map(|view| (status(&view.run, now), last_moved(view))),
        unfinished: view.map_or(0, |view| view.unfinished),
        last_offered: view.and_then(|view| view.last_offered).map(|at| at.to_string()),
        plugin: offered.map(|job| job.spec.plugin_file.display().to_string()),
        digest: offered.map(|job| job.plugin.digest.to_string()),
        blocked_until: view.and_then(|view| blocked_until(view.newest_started, now)).map(|slot| slot.to_string()),
    }
}

/// When the run ended, or started last, or was asked for.
fn last_moved(view: &RunView) -> Millis {
    let run = &view.run;
    run.ended_at.or(run.current().map(|attempt| attempt.started_at)).unwrap_or(run.due)
}

/// A newest started slot in the store's future blocks a job until then: every slot before it is superseded. A healthy
/// host's clock may be a little ahead.
fn blocked_until(newest_started: Option<Slot>, now: Millis) -> Option<Slot> {
    newest_started.filter(|slot| slot.0 > now + CLOCK_GRACE)
}

fn table(rows: &[JobRow]) -> Table {
    let mut table = Table::new(&["JOB", "SCHEDULE", "NEXT", "LAST", "AT", "UNFINISHED", "PLUGIN", "NOTE"]);
    for row in rows {
        let (last, at) = row.last_shown.map_or(("-", String::new()), |(word, at)| (word, at.to_string()));
        let note = match &row.blocked_until {
            Some(until) => format!("BLOCKED until {until}: a slot of the store's future has started"),
            None => match &row.last_offered {
                _ if row.state == "offered" => String::new(),
                Some(at) => format!("not offered here; a host last offered it at {at}"),
                None => "not offered here".to_owned(),
            },
        };
        table.row(vec![
            (Colour::Plain, row.job.clone()),
            (Colour::Plain, row.schedule.as_deref().map_or_else(|| "on demand".to_owned(), plain)),
            (Colour::Plain, row.next.clone().unwrap_or_else(|| "-".to_owned())),
            (colour(last), last.to_owned()),
            (Colour::Dim, at),
            (Colour::Plain, row.unfinished.to_string()),
            (Colour::Dim, row.digest.as_deref().map_or("-", |digest| &digest[..12]).to_owned()),
            (if row.blocked_until.is_some() { Colour::Bad } else { Colour::Dim }, note),
        ]);
    }
    table
}

/// Everything that is refused or out of date.
fn told(catalog: &Catalog<Inspection>) -> Vec<(&'static str, &Refused)> {
    let refused = catalog.refused.iter().map(|refused| ("refused", refused));
    refused.chain(catalog.stale.iter().map(|stale| ("stale", stale))).collect()
}

fn refusals(told: &[(&'static str, &Refused)], paint: Paint) -> String {
    let lines = told.iter().flat_map(|(state, refused)| {
        let word = paint.paint(Colour::Bad, state);
        let job = refused.job.as_ref().map_or(String::new(), |job| format!("{job}  "));
        // Each problem is escaped where it was made.
        refused.problems.iter().map(move |problem| format!("{word}  {job}{problem}\n")).collect::<Vec<_>>()
    });
    lines.collect()
}

/// A file or job that is refused.
#[derive(Debug, Serialize)]
struct RefusedRecord {
    job: Option<String>,
    state: &'static str,
    file: String,
    problems: Vec<String>,
}

impl RefusedRecord {
    fn new(state: &'static str, refused: &Refused) -> RefusedRecord {
        RefusedRecord {
            job: refused.job.as_ref().map(ToString::to_string),
            state,
            file: refused.file.display().to_string(),
            problems: refused.problems.iter().map(ToString::to_string).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::taken_over;
    use super::*;

    fn known(newest_started: i64, now: i64) -> Checked<Vec<JobView>> {
        let last = taken_over();
        let newest_started = Some(Slot(Millis(newest_started)));
        let view = JobView {
            key: last.key.job.clone(),
            revision: 1,
            newest_started,
            newest_skipped: None,
            since: None,
            last_offered: Some(Millis(5_000)),
            unfinished: 1,
            last: Some(last),
        };
        Checked { now: Millis(now), answer: vec![view] }
    }

    #[test]
    fn a_job_whose_newest_slot_lies_in_the_stores_future_is_blocked_and_says_so() {
        let lines = |known| table(&rows(&Catalog::default(), &known)).render(false, Paint(false));
        let blocked = lines(known(3_600_000, 0));
        assert!(blocked.contains("BLOCKED until 1970-01-01T01:00:00.000Z"), "{blocked}");
        let healthy = lines(known(9_000, 0));
        assert!(!healthy.contains("BLOCKED"), "{healthy}");
    }

    #[test]
    fn a_job_that_only_the_store_knows_is_shown_as_such() {
        let rows = rows(&Catalog::default(), &known(0, 60_001));
        let json = serde_json::to_value(&rows[0]).unwrap();
        assert_eq!(json["state"], "not-offered");
        assert_eq!(json["last"]["status"], "expired");
        assert_eq!(json["unfinished"], 1);
        let line = table(&rows).render(false, Paint(false));
        assert_eq!(
            line,
            "acme/x  on demand  -  expired  1970-01-01T00:00:02.000Z  1  -  not offered here; a host last offered it at 1970-01-01T00:00:05.000Z\n"
        );
    }
}
