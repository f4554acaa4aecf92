//! `leasehold bench languages`: what plugins of different languages cost, in one table.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use leasehold_sandbox::bench::{LanguageFigures, language};
use serde::Serialize;

use super::super::error::CliError;
use super::super::loader;
use super::super::output::{Colour, Output, Table};
use super::super::text::{bytes, plain};
use super::super::{Exit, Global};
use super::sandbox::{median, millis, number, percentile, read};
use super::tell;

/// The arguments of `leasehold bench languages`.
#[derive(Debug, Args)]
pub(super) struct Languages {
    /// A folder with conformance-LANGUAGE.wasm of every language, as scripts/build-plugins --lang LANGUAGE makes them in tests/plugins
    folder: PathBuf,
    /// How many runs are measured of each; the median is told
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
    /// How often compiling and the first run are measured; the median is told
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
}

const PREFIX: &str = "conformance-";
/// Each of them answers this with itself.
const INPUT: &[u8] = br#"{"check":"echo","name":"world"}"#;

impl Languages {
    pub(super) async fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        global.refuse_configuration("bench languages")?;
        let found = self.found()?;
        let (mut rows, mut failed) = (Vec::new(), false);
        for (name, file) in found {
            match self.measure(&name, &file).await {
                Ok(row) => rows.push(row),
                Err(error) => {
                    failed = true;
                    error.print();
                }
            }
        }
        if out.is_json() {
            rows.iter().try_for_each(|row| out.object(row))?;
        } else {
            out.text(&table(&rows).render(out.is_terminal(), out.paint()))?;
        }
        out.flush()?;
        Ok(if failed { Exit::Failed } else { Exit::Success })
    }

    /// The languages there, by name.
    fn found(&self) -> Result<Vec<(String, PathBuf)>, CliError> {
        let failed = |source| CliError::BenchFolder { folder: self.folder.clone(), source };
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            if let Some(language) = stem.strip_prefix(PREFIX)
                && path.extension().is_some_and(|extension| extension == "wasm")
            {
                found.push((language.to_owned(), path));
            }
        }
        if found.is_empty() {
            return Err(failed(io::Error::new(io::ErrorKind::NotFound, "no conformance-LANGUAGE.wasm is in it")));
        }
        found.sort();
        Ok(found)
    }

    async fn measure(&self, name: &str, file: &Path) -> Result<Row, CliError> {
        let plugin = read(file).await?;
        let mut rounds = Vec::new();
        for round in 1..=self.rounds {
            tell(&format!("{name}, round {round} of {}", self.rounds));
            // Its own folder of compiled code, so that each is compiled anew.
            let settings = loader::sandbox_settings()?;
            rounds.push(language(settings, plugin.clone(), INPUT, self.runs as usize).await?);
        }
        Ok(Row::new(name, &rounds))
    }
}

/// A language.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Row {
    language: String,
    /// Of the file.
    bytes: usize,
    compiled_ms: f64,
    /// Until it is ready from compiled code.
    ready_ms: f64,
    first_run_ms: f64,
    run_us: f64,
    /// The same by bare wasmtime, where the plugin runs without Leasehold's part of the host.
    bare_wasmtime_us: Option<f64>,
    memory: usize,
    note: Option<String>,
}

impl Row {
    /// Of at least one round.
    fn new(language: &str, rounds: &[LanguageFigures]) -> Row {
        let of = |figure: &dyn Fn(&LanguageFigures) -> f64| median(&rounds.iter().map(figure).collect::<Vec<_>>());
        let micros = |all: &[Duration]| percentile(all.to_vec(), 50.0).as_secs_f64() * 1e6;
        let bare: Result<Vec<f64>, &String> =
            rounds.iter().map(|round| round.bare.as_ref().map(|all| micros(all))).collect();
        Row {
            language: language.to_owned(),
            bytes: rounds[0].size,
            compiled_ms: of(&|round| millis(round.compiled)),
            ready_ms: of(&|round| millis(round.found)),
            first_run_ms: of(&|round| millis(round.first)),
            run_us: of(&|round| micros(&round.runs)),
            bare_wasmtime_us: bare.as_ref().ok().map(|all| median(all)),
            memory: rounds.iter().map(|round| round.memory).max().unwrap_or(0),
            note: bare.err().map(|why| format!("bare wasmtime: {why}")),
        }
    }
}

const COLUMNS: [&str; 9] =
    ["LANGUAGE", "SIZE", "COMPILED IN", "READY IN", "FIRST RUN", "A RUN", "BARE WASMTIME", "MEMORY", "NOTE"];

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&COLUMNS);
    for row in rows {
        table.row(vec![
            (Colour::Plain, plain(&row.language)),
            (Colour::Plain, bytes(row.bytes as u64)),
            (Colour::Plain, format!("{} ms", number(row.compiled_ms))),
            (Colour::Plain, format!("{} ms", number(row.ready_ms))),
            (Colour::Plain, format!("{} ms", number(row.first_run_ms))),
            (Colour::Plain, format!("{} µs", number(row.run_us))),
            (Colour::Plain, row.bare_wasmtime_us.map(|us| format!("{} µs", number(us))).unwrap_or_default()),
            (Colour::Plain, bytes(row.memory as u64)),
            (Colour::Dim, row.note.as_deref().map(plain).unwrap_or_default()),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(ms: u64, bare: Result<Vec<Duration>, String>) -> LanguageFigures {
        let time = Duration::from_millis(ms);
        let runs = vec![time, time];
        LanguageFigures { size: 10, compiled: time, found: time, first: time, runs, bare, memory: 65_536 }
    }

    #[test]
    fn a_row_is_the_median_of_its_rounds() {
        let rounds: Vec<_> = [3, 1, 2].map(|ms| round(ms, Ok(vec![Duration::from_micros(ms)]))).into();
        let row = Row::new("go", &rounds);
        assert_eq!((row.compiled_ms, row.run_us, row.bare_wasmtime_us), (2.0, 2_000.0, Some(2.0)));
        let json = serde_json::to_string(&Row::new("go", &[round(1, Err("no".to_owned()))])).unwrap();
        assert_eq!(
            json,
            r#"{"language":"go","bytes":10,"compiled_ms":1.0,"ready_ms":1.0,"first_run_ms":1.0,"run_us":1000.0,"bare_wasmtime_us":null,"memory":65536,"note":"bare wasmtime: no"}"#
        );
    }

    #[test]
    fn the_languages_of_a_folder_are_found_by_their_files_names() {
        let folder = tempfile::tempdir().unwrap();
        let languages = Languages { folder: folder.path().to_owned(), runs: 1, rounds: 1 };
        assert!(matches!(languages.found(), Err(CliError::BenchFolder { .. })));
        for name in ["conformance-rust.wasm", "conformance-c.wasm", "conformance-go.txt", "unruly.wasm"] {
            fs::write(folder.path().join(name), b"").unwrap();
        }
        let found: Vec<_> = languages.found().unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(found, ["c", "rust"]);
    }
}
