//! `leasehold jobs`: what the plugin directory offers, what of it is refused, and what the store knows about it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::sync::Arc;

use clap::Args;
use leasehold::config::{Config, StoreUrl};
use leasehold::plugins::{Catalog, IdleJob, Refused};
use leasehold::{clock, plugins, zones};
use leasehold_lease::id::JobKey;
use leasehold_lease::schedule::Schedule;
use leasehold_lease::time::Millis;
use leasehold_sandbox::Inspection;
use leasehold_store::{Checked, JobView, RunView, all_jobs};
use serde::Serialize;

use super::error::CliError;
use super::living::{Hosts, Word};
use super::loader::Inspector;
use super::output::{Colour, Output, Paint, Table};
use super::record::{RunRecord, status};
use super::runs::colour;
use super::text::{brief, plain};
use super::{Exit, Global, next, store};

/// The arguments of `leasehold jobs`.
#[derive(Debug, Args)]
pub(super) struct Jobs {}

impl Jobs {
    /// Prints the jobs. When the store or the plugin directory cannot be read, it says so and prints what the other
    /// one tells.
    ///
    /// # Errors
    /// See [`CliError`].
    pub(super) async fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        let config = Arc::new(global.load()?);
        let catalog = plugins::scan(Arc::clone(&config), zones::load(), Inspector, clock::wall()).await;
        // What concerns the directory as a whole: the configuration names one that is not there.
        let no_directory = catalog.refused.iter().any(|refused| refused.file == config.host.plugins);
        let mut failed = false;
        let known = known_jobs(&config).await.unwrap_or_else(|error| {
            error.print();
            failed = true;
            None
        });
        let hosts = Hosts::find(&config).unwrap_or_else(|error| {
            error.print();
            failed = true;
            Hosts::default()
        });
        failed |= hosts.unread;
        let rows = rows(&catalog, known.as_ref(), &hosts);
        if hosts.found.is_empty() && !rows.is_empty() {
            warn_of_no_host(&config);
        }
        let refused: Vec<_> = told(&catalog);
        if out.is_json() {
            rows.iter().try_for_each(|row| out.object(row))?;
            refused.iter().try_for_each(|(state, refused)| out.object(&RefusedRecord::new(state, refused)))?;
        } else {
            out.text(&table(&rows).render(out.is_terminal(), out.paint()))?;
            out.text(&refusals(&refused, out.paint()))?;
        }
        Ok(match (failed, no_directory) {
            (true, _) => Exit::Failed,
            (false, true) => Exit::Usage,
            (false, false) => Exit::Success,
        })
    }
}

/// What the store knows, and its clock; none when it cannot be asked. A store that nobody has made yet knows nothing.
async fn known_jobs(config: &Config) -> Result<Option<Checked<Vec<JobView>>>, CliError> {
    if config.store == StoreUrl::Memory {
        tracing::warn!("the store memory: lives inside the host, so nothing is known about runs here");
        return Ok(None);
    }
    match store::open_existing(&config.store).await {
        Ok(store) => Ok(Some(all_jobs(store.as_ref()).await?)),
        Err(CliError::NoStore { path }) => {
            tracing::info!("there is no record yet: {} does not exist", path.display());
            Ok(Some(Checked { now: clock::wall(), answer: Vec::new() }))
        }
        Err(CliError::NoNamespace { namespace, .. }) => {
            tracing::info!("there is no record yet: no host has worked in the namespace {namespace:?}");
            Ok(Some(Checked { now: clock::wall(), answer: Vec::new() }))
        }
        Err(error) => Err(error),
    }
}

fn warn_of_no_host(config: &Config) {
    tracing::warn!(
        "no host of this machine follows {} with the data directory {}: nothing starts before one does (`leasehold \
         serve`), unless hosts of other machines share the store",
        config.host.plugins.display(),
        config.host.data_dir.display()
    );
}

/// A job, as it is shown.
#[derive(Debug, Serialize)]
struct JobRow {
    job: String,
    /// "offered"; "stale" for one that a host of this machine runs in an older version, because what lies in the directory
    /// is refused; "not-runnable" for one whose plugin does not serve; or "not-offered" for one that only the store knows.
    state: &'static str,
    /// Why it cannot run, or not as it lies in the directory.
    reason: Option<String>,
    /// The hosts of this machine that run it.
    served_by: Vec<String>,
    /// None for a job that has none, and for one that is not offered here: its schedule is not known.
    schedule: Option<String>,
    timezone: Option<String>,
    next: Option<String>,
    next_local: Option<String>,
    last: Option<RunRecord>,
    /// For people: status of the last run, and since when.
    #[serde(skip)]
    last_shown: Option<(&'static str, Millis)>,
    /// None when the store cannot be asked.
    unfinished: Option<u64>,
    /// When a host last offered it.
    last_offered: Option<String>,
    plugin: Option<String>,
    digest: Option<String>,
    blocked_until: Option<String>,
    /// While someone holds it back.
    paused: Option<PausedRecord>,
    /// For people: whether what is refused here is why it is not offered here.
    #[serde(skip)]
    refusal: Refusal,
}

/// That a job is held back.
#[derive(Debug, Serialize)]
struct PausedRecord {
    /// None: until it is resumed.
    until: Option<String>,
    note: String,
}

/// Whether something that is refused here concerns a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Refusal {
    /// It does not.
    No,
    /// A file of its tenant is refused as a whole, and nobody knows which jobs stood in it.
    Perhaps,
    /// It does.
    Yes,
}

fn rows(catalog: &Catalog<Inspection>, known: Option<&Checked<Vec<JobView>>>, hosts: &Hosts) -> Vec<JobRow> {
    let now = known.map_or_else(clock::wall, |known| known.now);
    let views: BTreeMap<&JobKey, &JobView> =
        known.iter().flat_map(|known| &known.answer).map(|view| (&view.key, view)).collect();
    let mut keys: BTreeSet<JobKey> = hosts.served().collect();
    keys.extend(catalog.jobs.keys().cloned());
    keys.extend(catalog.idle.iter().map(|idle| idle.spec.key.clone()));
    keys.extend(views.keys().copied().cloned());
    let one = |key: &JobKey| {
        let view = views.get(key).copied();
        let unfinished = known.map(|_| view.map_or(0, |view| view.unfinished));
        JobRow { unfinished, ..row(key, catalog, view, &hosts.word(key), now) }
    };
    keys.iter().map(one).collect()
}

fn refusal(key: &JobKey, catalog: &Catalog<Inspection>) -> Refusal {
    catalog.refused.iter().map(|refused| refusal_of(refused, key)).max().unwrap_or(Refusal::No)
}

/// Whether this is why the job is not offered.
pub(super) fn refusal_of(refused: &Refused, key: &JobKey) -> Refusal {
    match (&refused.job, &refused.tenant) {
        (Some(job), _) if job == key => Refusal::Yes,
        (Some(_), _) => Refusal::No,
        (None, Some(tenant)) if *tenant != key.tenant => Refusal::No,
        // A file is named like its plugin, and mostly like the plugin's job.
        (None, Some(_)) if refused.file.file_stem() == Some(OsStr::new(key.name.as_str())) => Refusal::Yes,
        (None, _) => Refusal::Perhaps,
    }
}

fn row(key: &JobKey, catalog: &Catalog<Inspection>, view: Option<&JobView>, word: &Word, now: Millis) -> JobRow {
    let offered = catalog.jobs.get(key);
    let idle = catalog.idle.iter().find(|idle| idle.spec.key == *key).filter(|_| offered.is_none());
    let spec = offered.map(|job| &job.spec).or(idle.map(|idle| &idle.spec));
    let schedule = spec.and_then(|spec| spec.schedule.as_ref());
    let refusal = refusal(key, catalog);
    let (state, reason) = standing(offered.is_some(), idle, refusal, word);
    // A stale job's schedule is the manifest's: only the code that lies beside it is refused.
    let next = schedule.filter(|_| matches!(state, "offered" | "stale")).and_then(|schedule| schedule.next_after(now));
    let last = view.and_then(|view| view.last.as_ref());
    JobRow {
        job: key.to_string(),
        state,
        reason,
        served_by: if let Word::Serves(hosts) = word { hosts.clone() } else { Vec::new() },
        schedule: schedule.map(Schedule::to_string),
        timezone: schedule.map(|schedule| schedule.zone().to_string()),
        next: next.map(|slot| slot.to_string()),
        next_local: next.zip(schedule).map(|(slot, schedule)| next::local(slot, schedule.zone().tz())),
        last: last.map(|view| RunRecord::brief(view, now)),
        last_shown: last.map(|view| (status(&view.run, now), last_moved(view))),
        unfinished: view.map(|view| view.unfinished),
        last_offered: view.and_then(|view| view.last_offered).map(|at| at.to_string()),
        plugin: spec.map(|spec| spec.plugin_file.display().to_string()),
        digest: offered.map(|job| job.plugin.digest.to_string()),
        blocked_until: view.and_then(|view| view.blocked_until(now)).map(|slot| slot.to_string()),
        paused: view
            .and_then(|view| view.hold.as_ref())
            .filter(|hold| hold.holds(now))
            .map(|hold| PausedRecord { until: hold.until.map(|until| until.to_string()), note: hold.note.clone() }),
        refusal,
    }
}

/// How a job stands and why: the directory says what could run, the hosts of this machine what does.
fn standing(is_offered: bool, idle: Option<&IdleJob>, refusal: Refusal, word: &Word) -> (&'static str, Option<String>) {
    match (is_offered, idle, word) {
        (true, _, Word::Refuses(host, why)) => {
            ("not-runnable", Some(format!("the host {host} does not run it: {why}")))
        }
        (true, ..) => ("offered", None),
        (false, Some(idle), Word::Serves(hosts)) => ("stale", Some(format!("{}; {}", why_idle(idle), goes_on(hosts)))),
        (false, None, Word::Serves(hosts)) => {
            let here = if refusal == Refusal::No { "it is not in the directory" } else { "refused here (below)" };
            ("stale", Some(format!("{here}; {}", goes_on(hosts))))
        }
        (false, Some(idle), _) => ("not-runnable", Some(why_idle(idle))),
        (false, None, _) => ("not-offered", None),
    }
}

fn goes_on(hosts: &[String]) -> String {
    let (noun, verb) = if hosts.len() == 1 { ("host", "goes") } else { ("hosts", "go") };
    format!("the {noun} {} {verb} on serving the older version", hosts.join(", "))
}

/// Why a plugin does not serve as it lies in the directory. Its reason was escaped where it was made.
pub(super) fn why_idle(idle: &IdleJob) -> String {
    let file = idle.spec.plugin_file.file_name().unwrap_or_default().to_string_lossy();
    format!("its plugin {} does not serve: {}", plain(&file), idle.reason())
}

/// When the run ended, or started last, or was asked for.
fn last_moved(view: &RunView) -> Millis {
    let run = &view.run;
    run.ended_at.or(run.current().map(|attempt| attempt.started_at)).unwrap_or(run.due)
}

fn table(rows: &[JobRow]) -> Table {
    let mut table = Table::new(&["JOB", "SCHEDULE", "NEXT", "LAST", "AT", "UNFINISHED", "PLUGIN", "NOTE"]);
    for row in rows {
        let unknown = if row.unfinished.is_some() { "-" } else { "?" };
        let (last, at) = row.last_shown.map_or((unknown, String::new()), |(word, at)| (word, at.to_string()));
        // A job that is known from elsewhere may have a schedule.
        let no_schedule = if row.plugin.is_none() { "-" } else { "no schedule" };
        table.row(vec![
            (Colour::Plain, row.job.clone()),
            (Colour::Plain, row.schedule.as_deref().map_or_else(|| no_schedule.to_owned(), plain)),
            (Colour::Plain, row.next.clone().unwrap_or_else(|| "-".to_owned())),
            (colour(last), last.to_owned()),
            (Colour::Dim, at),
            (Colour::Plain, row.unfinished.map_or_else(|| unknown.to_owned(), |count| count.to_string())),
            (Colour::Dim, row.digest.as_deref().map_or("-", |digest| &digest[..12]).to_owned()),
            (note_colour(row), note(row)),
        ]);
    }
    table
}

fn note_colour(row: &JobRow) -> Colour {
    match (&row.blocked_until, row.state) {
        (Some(_), _) | (None, "not-runnable") => Colour::Bad,
        (None, "stale") => Colour::Warn,
        _ => Colour::Dim,
    }
}

/// What is special about a job, for people.
fn note(row: &JobRow) -> String {
    let paused = row.paused.as_ref().map(|PausedRecord { until, note }| {
        format!("PAUSED until {}: {}", until.as_deref().unwrap_or("it is resumed"), brief(note, 100))
    });
    if let Some(until) = &row.blocked_until {
        let blocked = format!("BLOCKED until {until}: a slot of the store's future has started");
        return [Some(blocked), paused].into_iter().flatten().collect::<Vec<_>>().join("; ");
    }
    if let Some(reason) = &row.reason {
        let what = if row.state == "stale" { "stale" } else { "NOT RUNNABLE" };
        return format!("{what}: {}", plain(reason));
    }
    if paused.is_some() || row.state == "offered" {
        return paused.unwrap_or_default();
    }
    let here = match row.refusal {
        Refusal::No => "not offered here",
        Refusal::Perhaps => "not offered here, perhaps for what is refused below",
        Refusal::Yes => "refused here (below); a running host may still serve its older version",
    };
    row.last_offered.as_ref().map_or_else(|| here.to_owned(), |at| format!("{here}; a host last offered it at {at}"))
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
    use std::path::Path;

    use leasehold::config::{Place, Problem};
    use leasehold_lease::time::Slot;

    use super::super::living::tests::host;
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
            fingerprint: String::new(),
            hold: None,
            stored: 0,
            last_offered: Some(Millis(5_000)),
            unfinished: 1,
            last: Some(last),
        };
        Checked { now: Millis(now), answer: vec![view] }
    }

    #[test]
    fn a_job_whose_newest_slot_lies_in_the_stores_future_is_blocked_and_says_so() {
        let lines =
            |known| table(&rows(&Catalog::default(), Some(&known), &Hosts::default())).render(false, Paint(false));
        let blocked = lines(known(3_600_000, 0));
        assert!(blocked.contains("BLOCKED until 1970-01-01T01:00:00.000Z"), "{blocked}");
        let healthy = lines(known(9_000, 0));
        assert!(!healthy.contains("BLOCKED"), "{healthy}");
    }

    #[test]
    fn a_paused_job_says_until_when_and_why_until_that_is_over() {
        let (since, until, note) = (None, Some(Millis(5_000)), "backup\u{1b}".to_owned());
        let hold = Some(leasehold_lease::run::Hold { since, until, note });
        let line = |now| {
            let mut known = known(0, now);
            known.answer[0].hold.clone_from(&hold);
            table(&rows(&Catalog::default(), Some(&known), &Hosts::default())).render(false, Paint(false))
        };
        assert!(line(4_999).contains("PAUSED until 1970-01-01T00:00:05.000Z: backup\\u{1b}"), "{}", line(4_999));
        assert!(!line(5_000).contains("PAUSED"), "{}", line(5_000));
    }

    #[test]
    fn a_job_that_only_the_store_knows_is_shown_as_such() {
        let rows = rows(&Catalog::default(), Some(&known(0, 60_001)), &Hosts::default());
        let json = serde_json::to_value(&rows[0]).unwrap();
        assert_eq!(json["state"], "not-offered");
        assert_eq!(json["last"]["status"], "expired");
        assert_eq!(json["unfinished"], 1);
        let line = table(&rows).render(false, Paint(false));
        assert_eq!(
            line,
            "acme/x  -  -  expired  1970-01-01T00:00:02.000Z  1  -  not offered here; a host last offered it at 1970-01-01T00:00:05.000Z\n"
        );
    }

    /// The job acme/x, whose plugin does not serve as it lies in the directory.
    fn with_an_idle_job() -> Catalog<Inspection> {
        let zones = leasehold_lease::schedule::Zones::bundled();
        let zone = zones.get("UTC").unwrap();
        let spec = leasehold::plugins::JobSpec {
            key: "acme/x".parse().unwrap(),
            plugin_file: "p/acme/a.wasm".into(),
            place: None,
            schedule: Some(Schedule::cron("@daily", &zone).unwrap()),
            policy: Default::default(),
            limits: Default::default(),
            payload: Arc::from([]),
            grants: Default::default(),
            stored_max: 0,
        };
        let idle = vec![IdleJob { spec: Arc::new(spec), why: Some("the file is text".to_owned()) }];
        Catalog { idle, ..Catalog::default() }
    }

    #[test]
    fn a_job_whose_plugin_does_not_serve_says_why() {
        let rows = rows(&with_an_idle_job(), Some(&known(0, 0)), &Hosts::default());
        let json = serde_json::to_value(&rows[0]).unwrap();
        assert_eq!((&json["state"], &json["next"]), (&"not-runnable".into(), &serde_json::Value::Null));
        assert_eq!(json["reason"], "its plugin a.wasm does not serve: the file is text");
        let line = table(&rows).render(false, Paint(false));
        assert!(line.contains("NOT RUNNABLE: its plugin a.wasm does not serve"), "{line}");
        assert!(rows[0].schedule.is_some() && rows.len() == 1);
    }

    #[test]
    fn a_job_that_the_store_knows_and_this_folder_refuses_is_shown_as_refused() {
        let refused = |file: &str, tenant: &str, job: Option<&str>| Refused {
            file: file.into(),
            tenant: Some(tenant.parse().unwrap()),
            job: job.map(|job| job.parse().unwrap()),
            problems: Problem::of(Place::file(Path::new(file)), "no").into(),
        };
        for (refused, expected) in [
            (refused("p/acme/x.toml", "acme", None), "refused here (below); a running host may still serve"),
            (refused("p/acme/y.toml", "acme", Some("acme/x")), "refused here (below); a running host may still serve"),
            (refused("p/acme/y.toml", "acme", None), "not offered here, perhaps for what is refused below;"),
            (refused("p/acme/x.toml", "acme", Some("acme/y")), "not offered here; a host"),
            (refused("p/x.toml", "default", None), "not offered here; a host"),
        ] {
            let catalog = Catalog { refused: vec![refused], ..Catalog::default() };
            let rows = rows(&catalog, Some(&known(0, 0)), &Hosts::default());
            assert!(note(&rows[0]).starts_with(expected), "{catalog:?}: {}", note(&rows[0]));
            assert_eq!(serde_json::to_value(&rows[0]).unwrap()["schedule"], serde_json::Value::Null);
        }
    }

    #[test]
    fn a_job_that_a_host_runs_in_an_older_version_is_stale_and_has_its_next_slot() {
        let hosts = |runs: &[&str], refuses: &[&str]| Hosts { found: vec![host("h", runs, refuses)], unread: false };
        let catalog = with_an_idle_job();
        let shown = |catalog: &Catalog<Inspection>, hosts: &Hosts| {
            let rows = rows(catalog, Some(&known(0, 0)), hosts);
            (serde_json::to_value(&rows[0]).unwrap(), note(&rows[0]))
        };
        let (json, told) = shown(&catalog, &hosts(&["acme/x"], &[]));
        assert_eq!((&json["state"], &json["next"]), (&"stale".into(), &"1970-01-02T00:00:00.000Z".into()));
        assert_eq!(json["served_by"], serde_json::json!(["h"]));
        let expected =
            "stale: its plugin a.wasm does not serve: the file is text; the host h goes on serving the older version";
        assert_eq!(told, expected);
        let (json, _) = shown(&catalog, &hosts(&[], &["acme/x"]));
        assert_eq!((&json["state"], &json["next"]), (&"not-runnable".into(), &serde_json::Value::Null));
        // Its manifest is refused: what the host goes by is not known here.
        let file = "p/acme/x.toml";
        let refused = Refused {
            file: file.into(),
            tenant: Some("acme".parse().unwrap()),
            job: None,
            problems: Problem::of(Place::file(Path::new(file)), "no").into(),
        };
        let (json, told) = shown(&Catalog { refused: vec![refused], ..Catalog::default() }, &hosts(&["acme/x"], &[]));
        assert_eq!(told, "stale: refused here (below); the host h goes on serving the older version");
        assert_eq!((&json["schedule"], &json["next"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    }
}
