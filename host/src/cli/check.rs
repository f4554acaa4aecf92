//! `leasehold check`: everything that is wrong, at once, or nothing.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use leasehold::config::{Config, Place, Problem, Problems};
use leasehold::plugins::Findings;
use leasehold::{clock, plugins, zones};
use leasehold_sandbox::{Sandbox, SandboxSettings};
use serde::Serialize;
use tokio::sync::mpsc;

use super::error::CliError;
use super::loader::{self, Compiler, sandbox_settings};
use super::output::Output;
use super::{Exit, Global};
use compiling::{Tale, Teller};

mod compiling;

/// The arguments of `leasehold check`.
#[derive(Debug, Args)]
pub(super) struct Check {
    /// Compile every plugin and keep the result for the hosts of this machine; tell of each how long that took, or why it is
    /// refused. Ends with 1 when one is
    #[arg(long)]
    compile: bool,
}

impl Check {
    /// Prints a line a problem, and notes to standard error. Nothing is kept on disk, but for `--compile`: plugins are compiled anew.
    ///
    /// # Errors
    /// The sandbox cannot start.
    pub(super) async fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        if self.compile {
            return compile(global, out).await;
        }
        let sources = global.sources()?;
        let loader = Compiler(Arc::new(Sandbox::new(sandbox_settings()?)?));
        let Findings { problems, notes } = plugins::check(&sources, zones::load(), loader, clock::wall()).await;
        tell(&problems, out)?;
        out.flush()?;
        tell_notes(&notes);
        Ok(if problems.is_empty() { Exit::Success } else { Exit::Usage })
    }
}

/// Compiles as a host of this configuration would, into its directory of compiled code.
async fn compile(global: &Global, out: &mut Output) -> Result<Exit, CliError> {
    let (config, wrong) = Config::read(&global.sources()?);
    if !wrong.is_empty() {
        tell(&wrong, out)?;
        return Ok(Exit::Usage);
    }
    let sandbox = Arc::new(Sandbox::new(SandboxSettings {
        cache_dir: Some(loader::cache_dir(&config.host.data_dir)),
        compile_limits: loader::compile_limits(&config.host),
        ..sandbox_settings()?
    })?);
    let (news, mut heard) = mpsc::unbounded_channel();
    let mut tale = Tale::new(out);
    let scan = plugins::scan(Arc::new(config), zones::load(), Teller { sandbox, news }, clock::wall());
    let mut scan = std::pin::pin!(scan);
    let catalog = loop {
        tokio::select! {
            biased;
            Some(news) = heard.recv() => tale.tell(news)?,
            catalog = &mut scan => break catalog,
        }
    };
    // What was told last, while the scan came to its end.
    while let Ok(news) = heard.try_recv() {
        tale.tell(news)?;
    }
    let refused = tale.refused;
    let problems = untold(&catalog.problems(), &refused);
    tell(&problems, out)?;
    out.flush()?;
    tell_notes(&catalog.notes());
    Ok(match (refused.is_empty(), problems.is_empty()) {
        (false, _) => Exit::Failed,
        (true, false) => Exit::Usage,
        (true, true) => Exit::Success,
    })
}

/// What a plain check finds, without the plugins whose refusal has been told.
fn untold(problems: &Problems, refused: &BTreeSet<PathBuf>) -> Problems {
    let mut rest = Problems::default();
    let is_told = |problem: &&Problem| match &problem.place {
        Place::File { file, at: None } => problem.key.is_empty() && refused.contains(file.as_ref()),
        _ => false,
    };
    problems.iter().filter(|problem| !is_told(problem)).for_each(|problem| rest.push(problem.clone()));
    rest
}

fn tell(problems: &Problems, out: &mut Output) -> Result<(), CliError> {
    if !out.is_json() {
        return if problems.is_empty() { Ok(()) } else { out.text(&format!("{problems}\n")) };
    }
    problems.iter().try_for_each(|problem| out.object(&Record::new(problem)))?;
    match problems.more() {
        0 => Ok(()),
        more => out.object(&serde_json::json!({ "more": more })),
    }
}

/// Results are what is wrong: a note is none, so it goes where logs go.
fn tell_notes(notes: &Problems) {
    notes.iter().for_each(|note| tracing::warn!("note: {note}"));
    if notes.more() > 0 {
        tracing::warn!("note: and {} more", notes.more());
    }
}

/// A problem.
#[derive(Debug, Serialize)]
struct Record<'a> {
    file: Option<String>,
    line: Option<usize>,
    column: Option<usize>,
    variable: Option<&'a str>,
    flag: Option<&'static str>,
    key: Option<&'a str>,
    value: Option<&'a str>,
    reason: &'a str,
    hint: Option<&'a str>,
}

impl Record<'_> {
    fn new(problem: &Problem) -> Record<'_> {
        let mut record = Record {
            file: None,
            line: None,
            column: None,
            variable: None,
            flag: None,
            key: Some(problem.key.as_str()).filter(|key| !key.is_empty()),
            value: problem.value.as_deref(),
            reason: &problem.reason,
            hint: problem.hint.as_deref(),
        };
        match &problem.place {
            Place::File { file, at } => {
                record.file = Some(file.display().to_string());
                (record.line, record.column) = at.unzip();
            }
            Place::Environment(name) => record.variable = Some(name),
            Place::Flag(flag) => record.flag = Some(flag),
        }
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_problem_as_json_says_where_what_and_why() {
        let at = Some((12, 3));
        let place = Place::File { file: Path::new("a.toml").into(), at };
        let problem =
            Problem { key: "defaults.lease".into(), value: Some("30".into()), ..Problem::of(place, "no unit") };
        assert_eq!(
            serde_json::to_string(&Record::new(&problem)).unwrap(),
            r#"{"file":"a.toml","line":12,"column":3,"variable":null,"flag":null,"key":"defaults.lease","value":"30","reason":"no unit","hint":null}"#
        );
    }
}
