//! `leasehold check`: everything that is wrong, at once, or nothing.

use std::sync::Arc;

use clap::Args;
use leasehold::config::{Place, Problem, Problems};
use leasehold::{clock, plugins, zones};
use leasehold_sandbox::{Sandbox, SandboxSettings};
use serde::Serialize;

use super::error::CliError;
use super::loader::Compiler;
use super::output::Output;
use super::{Exit, Global};

/// The arguments of `leasehold check`.
#[derive(Debug, Args)]
pub(super) struct Check {}

impl Check {
    /// Prints a line a problem. Nothing is written to disk: plugins are compiled anew.
    ///
    /// # Errors
    /// The sandbox cannot start.
    pub(super) async fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        let sources = global.sources()?;
        let sandbox = Sandbox::new(SandboxSettings::new(Arc::new(|| clock::mono().0)))?;
        let loader = Compiler(Arc::new(sandbox));
        let problems = plugins::check(&sources, zones::load(), loader, clock::wall()).await;
        tell(&problems, out)?;
        Ok(if problems.is_empty() { Exit::Success } else { Exit::Usage })
    }
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
