//! The plugins of one host as rows for people and as objects for programs.

use leasehold::plugins::{JobStanding, Odd, PluginState, Standing, Survey, Version};
use leasehold::running::RunningVersion;
use serde::Serialize;

use super::super::error::CliError;
use super::super::output::{Colour, Output, Paint, Table};
use super::super::text::{bytes, plain};

/// The host that tells.
#[derive(Debug, Clone)]
pub(super) struct Who {
    /// Its name.
    pub(super) host: String,
    /// Its process.
    pub(super) pid: u32,
    /// Another host that tells has the same name.
    pub(super) has_twin: bool,
}

/// A plugin, or a file that is none.
#[derive(Debug, Serialize)]
struct Row {
    /// None when no host runs, and the directory was examined by this command.
    host: Option<String>,
    /// The host's process.
    pid: Option<u32>,
    /// For people: its process is told with its name, which is not its own alone.
    #[serde(skip)]
    has_twin: bool,
    tenant: Option<String>,
    plugin: Option<String>,
    file: String,
    state: &'static str,
    versions: Vec<VersionRow>,
    problems: Vec<String>,
    jobs: Vec<JobStanding>,
    /// Refused jobs beyond those listed.
    jobs_more: usize,
}

/// One version of a plugin's code.
#[derive(Debug, Serialize)]
struct VersionRow {
    digest: String,
    size: u64,
    /// When the host read it.
    since: Option<String>,
    /// "serving"; "valid" where no host runs; "refused"; "older" for one that is used to the end of what runs on it.
    r#use: &'static str,
    /// How many attempts run on it; none when no host runs.
    attempts: Option<usize>,
}

/// Prints the plugins as `host` tells them, or as they were found where there is none.
///
/// # Errors
/// As [`Output::text`].
pub(super) fn print(
    host: Option<&Who>,
    survey: &Survey,
    running: &[RunningVersion],
    out: &mut Output,
) -> Result<(), CliError> {
    let rows = rows(host, survey, running);
    if out.is_json() {
        rows.iter().try_for_each(|row| out.object(row))?;
        return match survey.ignored_more {
            0 => Ok(()),
            more => out.object(&serde_json::json!({ "host": host.map(|who| &who.host), "ignored_more": more })),
        };
    }
    out.text(&table(&rows).render(out.is_terminal(), out.paint()))?;
    out.text(&problems(&rows, out.paint()))?;
    match survey.ignored_more {
        0 => Ok(()),
        more => out.text(&format!("ignored  and {more} files more\n")),
    }
}

fn rows(host: Option<&Who>, survey: &Survey, running: &[RunningVersion]) -> Vec<Row> {
    let mut rows: Vec<Row> = survey.plugins.iter().map(|standing| plugin(host, standing, running)).collect();
    let known = |version: &&RunningVersion| survey.plugins.iter().any(|standing| standing.file == version.file);
    for left in running.iter().filter(|version| !known(version)) {
        match rows.iter_mut().find(|row| row.state == "removed" && row.file == left.file) {
            Some(row) => row.versions.push(older(left)),
            None => rows.push(Row { versions: vec![older(left)], ..bare(host, &left.file, "removed") }),
        }
    }
    let odd = |odd: &Odd| Row {
        problems: odd.problem.iter().cloned().collect(),
        ..bare(host, &odd.file, if odd.problem.is_some() { "refused" } else { "ignored" })
    };
    rows.extend(survey.odd.iter().map(odd));
    rows
}

/// A file that no plugin is at.
fn bare(host: Option<&Who>, file: &str, state: &'static str) -> Row {
    Row {
        host: host.map(|who| who.host.clone()),
        pid: host.map(|who| who.pid),
        has_twin: host.is_some_and(|who| who.has_twin),
        tenant: None,
        plugin: None,
        file: file.to_owned(),
        state,
        versions: Vec::new(),
        problems: Vec::new(),
        jobs: Vec::new(),
        jobs_more: 0,
    }
}

fn older(version: &RunningVersion) -> VersionRow {
    let RunningVersion { digest, size, attempts, .. } = version.clone();
    VersionRow { digest, size, since: None, r#use: "older", attempts: Some(attempts) }
}

fn plugin(host: Option<&Who>, standing: &Standing, running: &[RunningVersion]) -> Row {
    let ours: Vec<_> = running.iter().filter(|version| version.file == standing.file).collect();
    let attempts = |version: &Version| {
        let found = ours.iter().find(|running| running.digest == version.digest);
        host.map(|_| found.map_or(0, |running| running.attempts))
    };
    let row = |version: &Version, used| VersionRow {
        digest: version.digest.clone(),
        size: version.size,
        since: host.map(|_| version.since.to_string()),
        r#use: used,
        attempts: attempts(version),
    };
    let serves = if host.is_some() { "serving" } else { "valid" };
    let mut versions: Vec<_> = standing.serving.iter().map(|version| row(version, serves)).collect();
    let is_serving =
        |version: &RunningVersion| standing.serving.as_ref().is_some_and(|serving| serving.digest == version.digest);
    versions.extend(ours.iter().filter(|version| !is_serving(version)).map(|version| older(version)));
    versions.extend(standing.refused.iter().map(|version| row(version, "refused")));
    Row {
        tenant: Some(standing.tenant.clone()),
        plugin: Some(standing.name.clone()),
        state: match standing.state {
            PluginState::Serving if host.is_none() => "valid",
            state => state.word(),
        },
        versions,
        problems: standing.problems.clone(),
        jobs: standing.jobs.clone(),
        jobs_more: standing.jobs_more,
        ..bare(host, &standing.file, "")
    }
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&["HOST", "PLUGIN", "STATE", "DIGEST", "SIZE", "SINCE", "JOBS", "RUNNING", "NOTE"]);
    for row in rows {
        let name = match (&row.tenant, &row.plugin) {
            (Some(tenant), Some(plugin)) => format!("{tenant}/{plugin}"),
            _ => plain(&row.file),
        };
        let first = row.versions.first();
        let cell = |text: Option<String>| (Colour::Dim, text.unwrap_or_else(|| "-".to_owned()));
        table.row(vec![
            (Colour::Dim, host_of(row)),
            (Colour::Plain, name),
            (colour(row.state), row.state.to_owned()),
            cell(first.map(|version| short(&version.digest))),
            cell(first.map(|version| bytes(version.size))),
            cell(first.and_then(|version| version.since.clone())),
            jobs(row),
            cell(first.and_then(|version| version.attempts).map(|attempts| attempts.to_string())),
            (Colour::Dim, note(row)),
        ]);
    }
    table
}

fn host_of(row: &Row) -> String {
    match (&row.host, row.pid) {
        (Some(host), Some(pid)) if row.has_twin => format!("{} (process {pid})", plain(host)),
        (Some(host), _) => plain(host),
        (None, _) => "-".to_owned(),
    }
}

fn colour(state: &str) -> Colour {
    match state {
        "serving" | "valid" => Colour::Good,
        "refused" => Colour::Bad,
        "stale" => Colour::Warn,
        "settling" | "queued" | "loading" => Colour::Busy,
        _ => Colour::Dim,
    }
}

/// How many jobs can run, of how many.
fn jobs(row: &Row) -> (Colour, String) {
    let all = row.jobs.len() + row.jobs_more;
    match row.jobs.iter().filter(|job| job.runnable).count() {
        0 if all == 0 => (Colour::Dim, "-".to_owned()),
        runnable if runnable == all => (Colour::Plain, all.to_string()),
        runnable => (Colour::Bad, format!("{runnable} of {all}")),
    }
}

/// What there is besides the version that serves.
fn note(row: &Row) -> String {
    let others = row.versions.iter().skip(1).map(|version| match (version.r#use, version.attempts) {
        ("older", Some(attempts)) => format!("{} still used by running attempts: {attempts}", short(&version.digest)),
        (used, _) => format!("{} {used}", short(&version.digest)),
    });
    others.collect::<Vec<_>>().join("; ")
}

fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}

/// Everything that is wrong, a line each. It was escaped where it was made, and is made safe once more.
fn problems(rows: &[Row], paint: Paint) -> String {
    let mut lines = String::new();
    for row in rows {
        let word = paint.paint(colour(row.state), row.state);
        // What is wrong with a plugin names its file by itself.
        let file = if row.plugin.is_none() { format!("{}: ", plain(&row.file)) } else { String::new() };
        for problem in &row.problems {
            lines.push_str(&format!("{word}  {file}{}\n", plain(problem)));
        }
        for job in row.jobs.iter().filter(|job| !job.problems.is_empty()) {
            let (colour, word) = if job.runnable { (Colour::Warn, "stale") } else { (Colour::Bad, "not runnable") };
            let (word, name) = (paint.paint(colour, word), job.job.as_deref().unwrap_or("a job"));
            for problem in &job.problems {
                lines.push_str(&format!("{word}  {}  {}\n", plain(name), plain(problem)));
            }
        }
        if row.jobs_more > 0 {
            lines.push_str(&format!("{word}  {}: and {} jobs more are refused\n", plain(&row.file), row.jobs_more));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use leasehold_lease::time::Millis;

    use super::*;

    fn version(digest: &str) -> Version {
        Version { digest: digest.repeat(32), size: 1_536, since: Millis(0) }
    }

    fn running(file: &str, digest: &str, attempts: usize) -> RunningVersion {
        RunningVersion { file: file.to_owned(), digest: digest.repeat(32), size: 1_536, attempts }
    }

    fn who(has_twin: bool) -> Who {
        Who { host: "h".to_owned(), pid: 7, has_twin }
    }

    fn stale() -> Survey {
        let job = |name: &str, runnable: bool, problem: &str| JobStanding {
            job: Some(name.to_owned()),
            runnable,
            problems: vec![problem.to_owned()],
        };
        let standing = Standing {
            tenant: "acme".to_owned(),
            name: "a".to_owned(),
            file: "p/acme/a.wasm".to_owned(),
            state: PluginState::Stale,
            serving: Some(version("ab")),
            refused: Some(version("cd")),
            problems: vec!["the file is text".to_owned()],
            jobs: vec![job("acme/x", true, "61 is no minute"), job("acme/y", false, "not\nthere")],
            jobs_more: 2,
        };
        let odd = Odd { file: "p/acme/..data".to_owned(), problem: None };
        Survey { plugins: vec![standing], odd: vec![odd], ignored_more: 0 }
    }

    #[test]
    fn a_host_tells_which_versions_serve_are_used_and_are_refused() {
        let survey = stale();
        let running =
            [running("p/acme/a.wasm", "ab", 1), running("p/acme/a.wasm", "ef", 2), running("p/b.wasm", "01", 3)];
        let rows = rows(Some(&who(false)), &survey, &running);
        let json = serde_json::to_value(&rows).unwrap();
        let versions = |row: usize| {
            let versions = json[row]["versions"].as_array().unwrap().iter();
            versions
                .map(|v| format!("{} {} {}", &v["digest"].as_str().unwrap()[..2], v["use"], v["attempts"]))
                .collect::<Vec<_>>()
        };
        assert_eq!(versions(0), ["ab \"serving\" 1", "ef \"older\" 2", "cd \"refused\" 0"]);
        assert_eq!(versions(1), ["01 \"older\" 3"]);
        assert_eq!(json[1]["state"], "removed");
        let text = table(&rows).render(false, Paint(false)) + &problems(&rows, Paint(false));
        assert_eq!(
            text,
            "h  acme/a         stale    abababababab  1.5 KiB  1970-01-01T00:00:00.000Z  1 of 4  1  efefefefefef still used by running attempts: 2; cdcdcdcdcdcd refused\n\
             h  p/b.wasm       removed  010101010101  1.5 KiB  -                         -       3\n\
             h  p/acme/..data  ignored  -             -        -                         -       -\n\
             stale  the file is text\n\
             stale  acme/x  61 is no minute\n\
             not runnable  acme/y  not\\nthere\n\
             stale  p/acme/a.wasm: and 2 jobs more are refused\n"
        );
    }

    #[test]
    fn without_a_host_nothing_is_said_to_serve() {
        let mut survey = stale();
        survey.plugins[0].state = PluginState::Serving;
        let json = serde_json::to_value(&rows(None, &survey, &[])[0]).unwrap();
        assert_eq!((&json["host"], &json["state"]), (&serde_json::Value::Null, &"valid".into()));
        let first = &json["versions"][0];
        assert_eq!(
            (&first["use"], &first["attempts"], &first["since"]),
            (&"valid".into(), &serde_json::Value::Null, &serde_json::Value::Null)
        );
    }
    #[test]
    fn hosts_of_one_name_are_told_apart_by_their_processes() {
        let rows = rows(Some(&who(true)), &stale(), &[]);
        assert!(table(&rows).render(false, Paint(false)).starts_with("h (process 7)  acme/a"));
        assert_eq!(serde_json::to_value(&rows[0]).unwrap()["pid"], 7);
    }

    #[test]
    fn what_is_wrong_with_a_file_that_is_no_plugin_is_told_with_its_path() {
        let odd = Odd { file: "p/Bad Name.wasm".to_owned(), problem: Some("it is no name".to_owned()) };
        let rows = rows(None, &Survey { odd: vec![odd], ..Survey::default() }, &[]);
        assert_eq!(problems(&rows, Paint(false)), "refused  p/Bad Name.wasm: it is no name\n");
    }
}
