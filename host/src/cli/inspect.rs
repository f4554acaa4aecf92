//! `leasehold inspect`: what a file is, whether it can be a plugin, and what its jobs would be granted.

use std::path::PathBuf;

use clap::Args;
use leasehold::config::Config;
use leasehold::plugins::{self, DEFAULT_TENANT, JobGrants, PluginGrants};
use leasehold::zones;
use leasehold_lease::id::JobName;
use leasehold_sandbox::{HANDLER_INTERFACE, Inspection, Plugin, Sandbox, inspect, read_plugin_file};
use serde::Serialize;

use super::error::CliError;
use super::loader::{self, sandbox_settings};
use super::output::{Colour, Output, Paint};
use super::text::{bytes, plain};
use super::{Exit, Global};

/// The two ways a plugin is called.
const HANDLER: &str = "handler";
const COMMAND: &str = "command";

/// The arguments of `leasehold inspect`.
#[derive(Debug, Args)]
pub(super) struct Inspect {
    /// The file
    file: PathBuf,
}

impl Inspect {
    /// Prints what the file is.
    ///
    /// # Errors
    /// The file cannot be read, or the sandbox cannot start.
    pub(super) async fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        // What is wrong with the configuration stands at its default, and is told.
        let (config, mut wrong) = Config::read(&global.sources()?);
        let failed = |source| CliError::PluginFile { file: self.file.clone(), source };
        let content = read_plugin_file(&self.file).map_err(failed)?;
        let found = inspect(&content);
        let judged = match &found.verdict {
            Err(refusal) => Err(loader::reason(&refusal.clone().into())),
            // Only loading also makes a core module a component, validates the code and compares types.
            Ok(()) => {
                let sandbox = Sandbox::new(sandbox_settings()?)?;
                sandbox.load_bytes(DEFAULT_TENANT, content).await.map_err(|error| loader::reason(&error))
            }
        };
        let way = judged.as_ref().ok().map(|plugin| way_of(plugin));
        let problem = judged.err();
        let grants = plugins::grants_of(&config, &zones::load(), &self.file);
        wrong.append(grants.problems.clone());
        wrong.iter().for_each(|problem| tracing::warn!("{problem}"));
        let exit = if problem.is_none() { Exit::Success } else { Exit::Failed };
        if out.is_json() {
            out.object(&Record::new(&self.file.display().to_string(), &found, way, problem, &grants))?;
        } else {
            out.text(&page(&self.file.display().to_string(), &found, way, problem.as_deref(), out.paint()))?;
            out.text(&granted(&grants))?;
        }
        Ok(exit)
    }
}

/// A file.
#[derive(Debug, Serialize)]
struct Record<'a> {
    file: &'a str,
    kind: &'static str,
    digest: String,
    size: usize,
    plugin: bool,
    /// "handler" or "command".
    way: Option<&'static str>,
    imports: &'a [String],
    exports: &'a [String],
    problem: Option<String>,
    tenant: &'a str,
    jobs: Vec<JobRecord<'a>>,
}

/// What a job of the manifest beside it would be granted.
#[derive(Debug, Serialize)]
struct JobRecord<'a> {
    job: &'a str,
    http: Vec<String>,
    config: Vec<&'a str>,
    secrets: Vec<&'a str>,
    not_granted: Vec<String>,
    notes: Vec<String>,
}

impl JobRecord<'_> {
    fn new((name, grants): &(JobName, JobGrants)) -> JobRecord<'_> {
        JobRecord {
            job: name.as_str(),
            http: grants.http.origins().map(ToString::to_string).collect(),
            config: grants.config.keys().map(String::as_str).collect(),
            secrets: grants.secrets.iter().map(String::as_str).collect(),
            not_granted: grants.missing.iter().map(ToString::to_string).collect(),
            notes: grants.notes.iter().map(ToString::to_string).collect(),
        }
    }
}

impl Record<'_> {
    fn new<'a>(
        file: &'a str,
        found: &'a Inspection,
        way: Option<&'static str>,
        problem: Option<String>,
        grants: &'a PluginGrants,
    ) -> Record<'a> {
        Record {
            file,
            kind: found.kind.as_str(),
            digest: found.digest.to_string(),
            size: found.size,
            plugin: problem.is_none(),
            way,
            imports: &found.imports,
            exports: &found.exports,
            problem,
            tenant: grants.tenant.as_str(),
            jobs: grants.jobs.iter().map(JobRecord::new).collect(),
        }
    }
}

/// How it is called when it runs.
fn way_of(plugin: &Plugin) -> &'static str {
    if plugin.is_command() { COMMAND } else { HANDLER }
}

fn page(file: &str, found: &Inspection, way: Option<&str>, problem: Option<&str>, paint: Paint) -> String {
    let verdict = match way {
        Some(COMMAND) => paint.paint(Colour::Good, "yes, it is a WASI command and validates"),
        Some(_) => paint.paint(Colour::Good, &format!("yes, it exports {HANDLER_INTERFACE} and validates")),
        None => paint.paint(Colour::Bad, "no"),
    };
    let size = match found.size {
        size @ 0..1024 => bytes(size as u64),
        size => format!("{} ({size} bytes)", bytes(size as u64)),
    };
    let facts = [
        ("file", plain(file)),
        ("kind", found.kind.as_str().to_owned()),
        ("size", size),
        ("digest", found.digest.to_string()),
        ("plugin", verdict),
    ];
    let mut page: String = facts.iter().map(|(title, text)| format!("{title:<9}{text}\n")).collect();
    for (title, names) in [("imports", &found.imports), ("exports", &found.exports)] {
        for (n, name) in names.iter().enumerate() {
            let title = if n == 0 { title } else { "" };
            page.push_str(&format!("{title:<9}{}\n", plain(name)));
        }
    }
    if let Some(problem) = problem {
        page.push_str(&format!("{:<9}{}\n", "problem", plain(problem)));
    }
    page
}

/// A line a grant, and a line for what is asked for in vain.
fn granted(grants: &PluginGrants) -> String {
    let mut lines = format!("{:<9}{}\n", "tenant", plain(grants.tenant.as_str()));
    for record in grants.jobs.iter().map(JobRecord::new) {
        let JobRecord { job, http, config, secrets, not_granted, notes } = record;
        lines.push_str(&format!("{:<9}{}\n", "job", plain(job)));
        let granted =
            [("requests", http.iter().map(String::as_str).collect()), ("setting", config), ("secret", secrets)];
        for (what, names) in granted {
            names.iter().for_each(|name| lines.push_str(&format!("{:<9}granted: {what} {}\n", "", plain(name))));
        }
        not_granted.iter().for_each(|why| lines.push_str(&format!("{:<9}not granted: {}\n", "", plain(why))));
        notes.iter().for_each(|why| lines.push_str(&format!("{:<9}note: {}\n", "", plain(why))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold::config::Problems;

    fn shown(content: &[u8]) -> (String, serde_json::Value) {
        let found = inspect(content);
        let problem = found.verdict.as_ref().err().map(ToString::to_string);
        let grants = PluginGrants { tenant: "acme".parse().unwrap(), jobs: vec![], problems: Problems::default() };
        let page = page("x\n.wasm", &found, None, problem.as_deref(), Paint(false));
        (page, serde_json::to_value(Record::new("x", &found, None, problem, &grants)).unwrap())
    }

    #[test]
    fn what_cannot_be_a_plugin_says_why() {
        let (page, json) = shown(b"hello");
        assert!(page.starts_with("file     x\\n.wasm\nkind     text\nsize     5 B\n"), "{page}");
        assert!(page.contains("plugin   no\n") && page.contains("problem  the file is text"), "{page}");
        assert_eq!((json["plugin"].as_bool(), json["kind"].as_str()), (Some(false), Some("text")));
    }
}
