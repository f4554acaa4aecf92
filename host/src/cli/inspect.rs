//! `leasehold inspect`: what a file is, and whether it can be a plugin.

use std::path::PathBuf;

use clap::Args;
use leasehold::plugins::DEFAULT_TENANT;
use leasehold_sandbox::{HANDLER_INTERFACE, Inspection, Sandbox, inspect, read_plugin_file};
use serde::Serialize;

use super::error::CliError;
use super::loader::{self, sandbox_settings};
use super::output::{Colour, Output, Paint};
use super::text::{bytes, plain};
use super::{Exit, Global};

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
        global.refuse_configuration("inspect")?;
        let failed = |source| CliError::Plugin { file: self.file.clone(), source };
        let content = read_plugin_file(&self.file).map_err(failed)?;
        let found = inspect(&content);
        let problem = match &found.verdict {
            Err(refusal) => Some(loader::reason(&refusal.clone().into())),
            // Only loading also validates the code and compares types.
            Ok(()) => {
                let sandbox = Sandbox::new(sandbox_settings()?)?;
                sandbox.load_bytes(DEFAULT_TENANT, content).await.err().map(|error| loader::reason(&error))
            }
        };
        let exit = if problem.is_none() { Exit::Success } else { Exit::Failed };
        if out.is_json() {
            out.object(&Record::new(&self.file.display().to_string(), &found, problem))?;
        } else {
            out.text(&page(&self.file.display().to_string(), &found, problem.as_deref(), out.paint()))?;
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
    imports: &'a [String],
    exports: &'a [String],
    problem: Option<String>,
}

impl Record<'_> {
    fn new<'a>(file: &'a str, found: &'a Inspection, problem: Option<String>) -> Record<'a> {
        Record {
            file,
            kind: found.kind.as_str(),
            digest: found.digest.to_string(),
            size: found.size,
            plugin: problem.is_none(),
            imports: &found.imports,
            exports: &found.exports,
            problem,
        }
    }
}

fn page(file: &str, found: &Inspection, problem: Option<&str>, paint: Paint) -> String {
    let verdict = match problem {
        None => paint.paint(Colour::Good, &format!("yes, it exports {HANDLER_INTERFACE} and validates")),
        Some(_) => paint.paint(Colour::Bad, "no"),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(content: &[u8]) -> (String, serde_json::Value) {
        let found = inspect(content);
        let problem = found.verdict.as_ref().err().map(ToString::to_string);
        let page = page("x\n.wasm", &found, problem.as_deref(), Paint(false));
        (page, serde_json::to_value(Record::new("x", &found, problem)).unwrap())
    }

    #[test]
    fn what_cannot_be_a_plugin_says_why() {
        let (page, json) = shown(b"hello");
        assert!(page.starts_with("file     x\\n.wasm\nkind     text\nsize     5 B\n"), "{page}");
        assert!(page.contains("plugin   no\n") && page.contains("problem  the file is text"), "{page}");
        assert_eq!((json["plugin"].as_bool(), json["kind"].as_str()), (Some(false), Some("text")));
    }
}
