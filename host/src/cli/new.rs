//! `leasehold new`: a plugin project that builds with one command and passes its own test.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use leasehold_lease::id::{JobName, NameError};
use serde::Serialize;

use super::error::CliError;
use super::output::Output;
use super::text::plain;
use super::{Exit, Global};
use project::{Embedded, Name};

mod files;
mod project;

/// The arguments of `leasehold new`.
#[derive(Debug, Args)]
pub(super) struct New {
    /// The language of its handler
    #[arg(long, value_enum)]
    lang: Lang,
    /// The plugin's name, and that of the folder that is made for it: lower case, digits, . _ -
    #[arg(value_parser = name)]
    name: String,
}

/// A language with an SDK and a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Lang {
    /// Rust
    Rust,
    /// JavaScript
    Js,
    /// TypeScript
    Ts,
    /// Python
    Python,
    /// Go
    Go,
    /// C
    C,
}

impl New {
    /// Makes the folder and says what to do next.
    ///
    /// # Errors
    /// The folder is there already or cannot be written.
    pub(super) fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        global.refuse_configuration("new")?;
        let name = Name::new(&self.name);
        let folder = PathBuf::from(&self.name);
        let written = project::write(&folder, &name, &self.lang.contents())?;
        let (build, test) = self.lang.commands();
        if out.is_json() {
            let folder = folder.display().to_string();
            out.object(&Record { folder: &folder, build, test, files: written })?;
        } else {
            out.text(&next_steps(&folder, build, test))?;
        }
        Ok(Exit::Success)
    }
}

impl Lang {
    fn contents(self) -> project::Contents {
        let (template, sdk): (&[Embedded], &[Embedded]) = match self {
            Lang::Rust => (files::TEMPLATE_RUST, files::SDK_RUST),
            Lang::Js => (files::TEMPLATE_JS, files::SDK_JS),
            // One SDK for both, which carries its types.
            Lang::Ts => (files::TEMPLATE_TS, files::SDK_JS),
            Lang::Python => (files::TEMPLATE_PYTHON, files::SDK_PYTHON),
            Lang::Go => (files::TEMPLATE_GO, files::SDK_GO),
            Lang::C => (files::TEMPLATE_C, files::SDK_C),
        };
        // In the repository the Rust SDK has a link to the contract.
        project::Contents { template, sdk, wit: files::WIT, link_wit: self == Lang::Rust }
    }

    /// What builds the plugin, and what tests it, in the project's folder.
    fn commands(self) -> (&'static str, &'static str) {
        match self {
            Lang::Js | Lang::Ts => ("npm ci && npm run build", "npm test"),
            Lang::Python => ("./build", "./test"),
            Lang::Rust | Lang::Go | Lang::C => ("make", "make test"),
        }
    }
}

/// A plugin's file has a name by the rules of jobs' names.
fn name(text: &str) -> Result<String, NameError> {
    let name = text.parse::<JobName>().map_err(|error| NameError { what: "plugin name", ..error })?;
    Ok(name.as_str().to_owned())
}

fn next_steps(folder: &Path, build: &str, test: &str) -> String {
    let name = plain(&folder.display().to_string());
    let steps = [
        (format!("cd {name}"), "README.md says more".to_owned()),
        (build.to_owned(), format!("builds {name}.wasm")),
        (test.to_owned(), "tests it without a host".to_owned()),
        (format!("leasehold exec {name}.wasm --payload '{{\"name\": \"Ada\"}}'"), "runs it once, here".to_owned()),
    ];
    let wide = steps.iter().map(|(step, _)| step.len()).max().unwrap_or(0);
    let lines: String = steps.iter().map(|(step, what)| format!("    {step:wide$}    # {what}\n")).collect();
    format!("{name} is there. What next:\n\n{lines}")
}

/// What was made.
#[derive(Debug, Serialize)]
struct Record<'a> {
    folder: &'a str,
    build: &'static str,
    test: &'static str,
    files: Vec<String>,
}

#[cfg(test)]
mod tests;
