//! `leasehold bench sandbox`: what the sandbox costs beside bare wasmtime, and what guests can do to heartbeats and memory.

use leasehold_lease::id::hex;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use leasehold::bench::heartbeat_gaps;
use leasehold_sandbox::bench::{Bench, Beside, Busy, Flood};
use leasehold_sandbox::{SandboxSettings, read_plugin_file};
use serde::Serialize;

use super::super::error::CliError;
use super::super::loader;
use super::super::output::{Colour, Output, Table};
use super::super::text::plain;
use super::super::{Exit, Global};
use super::tell;

/// The arguments of `leasehold bench sandbox`.
#[derive(Debug, Args)]
pub(super) struct Sandbox {
    /// A plugin of which is measured how fast it is ready from compiled code; may be given several times
    #[arg(long = "plugin", id = "plugin", value_name = "FILE")]
    plugins: Vec<PathBuf>,
    /// How often each figure is measured; the median is told
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How many heartbeats are measured
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    beats: u32,
}

/// Runs in one round.
const RUNS: usize = 1_000;
/// Guests stopped in one round.
const STOPS: usize = 100;
/// Runs whose heartbeats are measured at the same time, and how often each sends one.
const HELD: u32 = 100;
const HEARTBEAT: Duration = Duration::from_secs(1);

impl Sandbox {
    pub(super) async fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        global.refuse_configuration("bench sandbox")?;
        let folder = CodeFolder::new()?;
        let settings = SandboxSettings { cache_dir: Some(folder.0.clone()), ..loader::sandbox_settings()? };
        let bench = Bench::new(settings).await?;
        let mut rows = self.costs(&bench).await?;
        rows.extend(self.stops(&bench).await?);
        rows.extend(self.ready(&bench).await?);
        rows.extend(self.heartbeats(&bench).await?);
        rows.extend(self.floods(&bench).await?);
        if out.is_json() {
            rows.iter().try_for_each(|row| out.object(row))?;
        } else {
            out.text(&table(&rows).render(out.is_terminal(), out.paint()))?;
        }
        out.flush()?;
        Ok(Exit::Success)
    }

    async fn costs(&self, bench: &Bench) -> Result<Vec<Row>, CliError> {
        // What is done the first time is no measure of the rest.
        bench.runs(100).await?;
        let (mut runs, mut made) = (Vec::new(), Vec::new());
        for round in 1..=self.rounds {
            tell(&format!("runs, round {round} of {}", self.rounds));
            runs.push(medians(&bench.runs(RUNS).await?));
            made.push(medians(&bench.instantiations(RUNS).await?));
        }
        let split = |rounds: &[(f64, f64)]| -> (Vec<f64>, Vec<f64>) { rounds.iter().copied().unzip() };
        let beyond: Vec<f64> = runs.iter().map(|(ours, bare)| ours - bare).collect();
        let ((ours, bare), (instance, bare_instance)) = (split(&runs), split(&made));
        Ok(vec![
            Row::new("a run from start to end, median", "µs", &ours).beside(&bare),
            Row::new("a run beyond bare wasmtime, median", "µs", &beyond).at_most(50.0),
            Row::new("an instance, median", "µs", &instance).beside(&bare_instance).at_most(10.0),
        ])
    }

    async fn stops(&self, bench: &Bench) -> Result<Vec<Row>, CliError> {
        let kinds = [
            (Busy::Polls, "a guest that polls stops, p99", 1.0),
            (Busy::Spins, "a guest that spins stops, p99", 25.0),
            (Busy::Waits, "a guest that waits for the host stops, p99", 25.0),
        ];
        let mut rows = Vec::new();
        for (busy, figure, most) in kinds {
            let mut rounds = Vec::new();
            for round in 1..=self.rounds {
                tell(&format!("{figure}, round {round} of {}", self.rounds));
                rounds.push(millis(percentile(bench.stops(busy, STOPS).await?, 99.0)));
            }
            rows.push(Row::new(figure, "ms", &rounds).at_most(most));
        }
        Ok(rows)
    }

    async fn ready(&self, bench: &Bench) -> Result<Vec<Row>, CliError> {
        tell("a small plugin, compiled");
        let mut rounds = Vec::new();
        for round in 0..self.rounds {
            rounds.push(millis(bench.compiled(round).await?));
        }
        let mut rows = vec![Row::new("a small plugin is compiled, in a process of its own, and ready", "ms", &rounds)];
        let mut all = vec![
            ("a small plugin".to_owned(), Bench::small_plugin()),
            ("a plugin with much code".to_owned(), Bench::large_plugin()),
        ];
        for file in &self.plugins {
            all.push((name_of(file), read(file).await?));
        }
        for (name, bytes) in all {
            tell(&format!("{name} from compiled code"));
            let (mut rounds, mut named) = (Vec::new(), Vec::new());
            for _ in 0..self.rounds {
                let (ready, digest) = bench.ready(bytes.clone()).await?;
                rounds.push(millis(ready));
                named.push(digest);
            }
            let (size, digest) = (bytes.len() as f64 / f64::from(1 << 20), millis(percentile(named, 50.0)));
            let note = format!("its file has {size:.1} MiB, whose digest takes {digest:.1} ms when it is read");
            rows.push(Row::new(format!("{name} is ready from compiled code"), "ms", &rounds).at_most(5.0).noted(note));
        }
        Ok(rows)
    }

    async fn heartbeats(&self, bench: &Bench) -> Result<Vec<Row>, CliError> {
        let spinning = 4 * std::thread::available_parallelism().map_or(1, usize::from);
        let beats = self.beats as usize;
        let per_round = beats.div_ceil(self.rounds as usize);
        let (mut p99, mut most) = (Vec::new(), Vec::new());
        let guests = bench.spin(spinning);
        for round in 1..=self.rounds {
            tell(&format!("heartbeats beside {spinning} guests that spin, round {round} of {}", self.rounds));
            let gaps = heartbeat_gaps(HELD, HEARTBEAT, per_round).await?;
            p99.push(percentile(gaps.clone(), 99.0).as_secs_f64());
            most.push(percentile(gaps, 100.0).as_secs_f64());
        }
        drop(guests);
        let note = format!(
            "{beats} times or more between two heartbeats of one run, of {HELD} runs with a heartbeat of 1 s each, when they are \
             sent, beside {spinning} guests that spin"
        );
        // What is asked of the longest holds in every round, so it is the longest of all that is told.
        let longest = most.iter().copied().fold(0.0, f64::max);
        Ok(vec![
            Row::new("between two heartbeats, p99", "s", &p99).at_most(1.1).noted(note.clone()),
            Row::new("between two heartbeats, longest of all", "s", &[longest]).at_most(2.0).noted(note),
        ])
    }

    async fn floods(&self, bench: &Bench) -> Result<Vec<Row>, CliError> {
        let kinds = [
            (Flood::Stdout, "standard output"),
            (Flood::Log, "log lines"),
            (Flood::Handles, "handles"),
            (Flood::Random, "random bytes"),
            (Flood::Result, "its result"),
        ];
        let mut rows = Vec::new();
        for (flood, name) in kinds {
            let mut rounds = Vec::new();
            for round in 1..=self.rounds {
                tell(&format!("a flood of {name}, round {round} of {}", self.rounds));
                rounds.push(bench.flood(flood).await?.beyond_guest as f64 / f64::from(1 << 20));
            }
            let figure = format!("the host grows beside a flood of {name}, beyond the guest's own memory");
            rows.push(Row::new(figure, "MiB", &rounds).at_most(10.0));
        }
        Ok(rows)
    }
}

/// A figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Row {
    /// What was measured.
    figure: String,
    /// Its unit.
    unit: &'static str,
    /// The median of the rounds.
    value: f64,
    /// The least of the rounds.
    lowest: f64,
    /// The greatest of the rounds.
    highest: f64,
    /// The same by bare wasmtime, where it can do that.
    bare_wasmtime: Option<f64>,
    /// It is to be at most this.
    target: Option<f64>,
    /// Whether it is; none where nothing is asked.
    met: Option<bool>,
    /// What one should know to read it.
    note: Option<String>,
}

impl Row {
    /// A figure of these rounds, of which there is at least one.
    fn new(figure: impl Into<String>, unit: &'static str, rounds: &[f64]) -> Row {
        Row {
            figure: figure.into(),
            unit,
            value: median(rounds),
            lowest: rounds.iter().copied().fold(f64::INFINITY, f64::min),
            highest: rounds.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            bare_wasmtime: None,
            target: None,
            met: None,
            note: None,
        }
    }

    fn beside(self, bare: &[f64]) -> Row {
        Row { bare_wasmtime: Some(median(bare)), ..self }
    }

    fn at_most(self, target: f64) -> Row {
        Row { target: Some(target), met: Some(self.value <= target), ..self }
    }

    fn noted(self, note: String) -> Row {
        Row { note: Some(note), ..self }
    }
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&["FIGURE", "OURS", "ROUNDS", "BARE WASMTIME", "TARGET", "NOTE"]);
    for row in rows {
        let verdict = match row.met {
            Some(true) => Colour::Good,
            Some(false) => Colour::Bad,
            None => Colour::Dim,
        };
        let shown = |value: f64| format!("{} {}", number(value), row.unit);
        let met =
            |target| format!("at most {}: {}", shown(target), if row.met == Some(true) { "met" } else { "missed" });
        table.row(vec![
            (Colour::Plain, plain(&row.figure)),
            (Colour::Plain, shown(row.value)),
            (Colour::Dim, format!("{} – {}", number(row.lowest), number(row.highest))),
            (Colour::Plain, row.bare_wasmtime.map(shown).unwrap_or_default()),
            (verdict, row.target.map(met).unwrap_or_default()),
            (Colour::Dim, row.note.clone().unwrap_or_default()),
        ]);
    }
    table
}

/// Three digits that say something.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// In µs.
fn medians(beside: &Beside) -> (f64, f64) {
    let median = |all: &[Duration]| percentile(all.to_vec(), 50.0).as_secs_f64() * 1e6;
    (median(&beside.ours), median(&beside.bare))
}

pub(super) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

pub(super) fn median(rounds: &[f64]) -> f64 {
    let mut sorted = rounds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) { (sorted[middle - 1] + sorted[middle]) / 2.0 } else { sorted[middle] }
}

/// The least time that this many percent do not exceed. There is at least one.
pub(super) fn percentile(mut all: Vec<Duration>, percent: f64) -> Duration {
    all.sort();
    let rank = (all.len() as f64 * percent / 100.0).ceil() as usize;
    all[rank.clamp(1, all.len()) - 1]
}

pub(super) async fn read(file: &Path) -> Result<Vec<u8>, CliError> {
    let path = file.to_owned();
    let failed = |source| CliError::Plugin { file: file.to_owned(), source };
    match tokio::task::spawn_blocking(move || read_plugin_file(&path)).await {
        Ok(read) => read.map_err(failed),
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

fn name_of(file: &Path) -> String {
    plain(&file.file_name().unwrap_or(file.as_os_str()).to_string_lossy())
}

/// A folder for compiled code, gone with its owner.
struct CodeFolder(PathBuf);

impl CodeFolder {
    /// Its name cannot be guessed; the sandbox makes it, for this user alone.
    fn new() -> Result<CodeFolder, CliError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random)?;
        let name = hex(&random);
        Ok(CodeFolder(std::env::temp_dir().join(format!("leasehold-bench-{name}"))))
    }
}

impl Drop for CodeFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tell(&format!("{} stays behind: {error}", self.0.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_times() {
        let all: Vec<Duration> = (1..=100).rev().map(Duration::from_millis).collect();
        let ms = |percent| percentile(all.clone(), percent).as_millis();
        assert_eq!([ms(50.0), ms(99.0), ms(99.9), ms(100.0), ms(0.0)], [50, 99, 100, 100, 1]);
        assert_eq!(percentile(vec![Duration::from_millis(7)], 99.0).as_millis(), 7);
    }

    #[test]
    fn a_row_is_judged_by_the_median_of_its_rounds() {
        let row = Row::new("f", "ms", &[3.0, 1.0, 2.0]).beside(&[4.0, 2.0]).at_most(2.0);
        assert_eq!((row.value, row.lowest, row.highest, row.bare_wasmtime), (2.0, 1.0, 3.0, Some(3.0)));
        assert_eq!((row.met, row.clone().at_most(1.9).met), (Some(true), Some(false)));
        let text = table(&[row]).render(false, super::super::super::output::Paint(false));
        assert_eq!(text, "f  2.00 ms  1.00 – 3.00  3.00 ms  at most 2.00 ms: met\n");
    }

    #[test]
    fn the_json_names_are_stable() {
        let json = serde_json::to_string(&Row::new("f", "s", &[1.0]).at_most(2.0)).unwrap();
        assert_eq!(
            json,
            r#"{"figure":"f","unit":"s","value":1.0,"lowest":1.0,"highest":1.0,"bare_wasmtime":null,"target":2.0,"met":true,"note":null}"#
        );
    }
}
