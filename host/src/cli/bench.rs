//! `leasehold bench`: what a part of this version does on this machine, beside a yardstick of the same run.

use std::io::{self, Write};
use std::time::Duration;

use clap::{Args, Subcommand};
use leasehold::causes::chain;
use leasehold_store::bench::{self, Options, Report};

use super::error::CliError;
use super::output::{Colour, Output, Table};
use super::text::plain;
use super::{Exit, Global};

mod languages;
mod sandbox;

/// The arguments of `leasehold bench`.
#[derive(Debug, Args)]
pub(super) struct Bench {
    #[command(subcommand)]
    what: What,
}

/// What can be measured.
#[derive(Debug, Subcommand)]
enum What {
    /// Claims, finishes and heartbeats a second: memory, SQLite, and servers where a URL names them
    Store(Store),
    /// What the sandbox costs, how fast it stops a guest, how punctual heartbeats stay beside guests that spin
    Sandbox(sandbox::Sandbox),
    /// What plugins of different languages cost: size, compiling, the first run, each further one
    Languages(languages::Languages),
}

/// The arguments of `leasehold bench store`.
#[derive(Debug, Args)]
struct Store {
    /// A server to measure as well: redis://…, valkey://… or postgres://…; may be given several times. What is written
    /// there has a namespace of its own and stays
    #[arg(long = "url", value_name = "URL")]
    urls: Vec<String>,
    /// How often each figure is measured; the median is told
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How long each round of claims and finishes takes
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Calls that wait for their answers at the same time [default: 16 for PostgreSQL, 50 for others]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    in_flight: Option<u32>,
    /// Measure claims among 10 000 jobs with 100 finished runs each, in place of 1 000 with 20: takes minutes and up to
    /// 2 GB in each store
    #[arg(long)]
    full: bool,
}

impl Bench {
    /// Measures, and prints the table.
    ///
    /// # Errors
    /// See [`CliError`].
    pub(super) async fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        if cfg!(debug_assertions) {
            tell("this is a debug build: its figures say nothing about a release");
        }
        match &self.what {
            What::Store(store) => store.run(global, out).await,
            What::Sandbox(sandbox) => sandbox.run(global, out).await,
            What::Languages(languages) => languages.run(global, out).await,
        }
    }
}

impl Store {
    async fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        global.refuse_configuration("bench store")?;
        // SQLite is measured on the disk of the working folder.
        let options = self.options(Options::new(std::env::current_dir().map_err(CliError::WorkingFolder)?));
        let report = bench::run(&options, tell).await?;
        if out.is_json() {
            report.rows.iter().try_for_each(|row| out.object(row))?;
        } else {
            out.text(&table(&report).render(out.is_terminal(), out.paint()))?;
            out.text(&notes(&report))?;
        }
        out.flush()?;
        report.left_behind.iter().for_each(|left| tell(left));
        for failure in &report.failures {
            tell(&format!("{} is not measured to the end: {}", failure.store, chain(&failure.error)));
        }
        Ok(if report.failures.is_empty() { Exit::Success } else { Exit::Failed })
    }

    fn options(&self, defaults: Options) -> Options {
        let defaults = if self.full { defaults.full() } else { defaults };
        Options {
            urls: self.urls.clone(),
            rounds: self.rounds,
            round: Duration::from_secs(self.seconds.into()),
            in_flight: self.in_flight.map(|n| n as usize),
            ..defaults
        }
    }
}

/// Says what is going on, on standard error.
fn tell(line: &str) {
    // Nobody is left to be told that standard error is closed.
    let _ = writeln!(io::stderr().lock(), "leasehold: {}", plain(line));
}

fn table(report: &Report) -> Table {
    let mut table = Table::new(&["STORE", "FIGURE", "OURS", "ROUNDS", "YARDSTICK", "RATIO", "TARGET"]);
    for row in &report.rows {
        let verdict = match row.met {
            Some(true) => Colour::Good,
            Some(false) => Colour::Bad,
            None => Colour::Warn,
        };
        table.row(vec![
            (Colour::Plain, plain(&row.store)),
            (Colour::Plain, row.figure.clone()),
            (Colour::Plain, row.value_text()),
            (Colour::Dim, row.range_text()),
            (Colour::Plain, row.yardstick_text()),
            (Colour::Plain, row.ratio_text()),
            (verdict, row.target_text()),
        ]);
    }
    table
}

/// What one should know to read the figures, a line each.
fn notes(report: &Report) -> String {
    let told = report.rows.iter().filter(|row| !row.notes.is_empty());
    told.map(|row| format!("{}, {}: {}\n", plain(&row.store), row.figure, plain(&row.notes.join("; ")))).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::{Cli, Command};
    use super::*;

    #[test]
    fn the_command_line_becomes_what_is_measured() {
        let line =
            "leasehold bench store --url redis://a --url postgres://b --rounds 7 --seconds 3 --in-flight 9 --full";
        let Command::Bench(Bench { what: What::Store(store) }) =
            Cli::try_parse_from(line.split(' ')).expect(line).command
        else {
            panic!("{line}");
        };
        let options = store.options(Options::new("/tmp".into()));
        assert_eq!(options.urls, ["redis://a", "postgres://b"]);
        assert_eq!((options.rounds, options.round, options.in_flight), (7, Duration::from_secs(3), Some(9)));
        assert_eq!((options.jobs, options.runs), (10_000, 100));
    }

    #[test]
    fn a_benchmark_without_rounds_or_time_is_refused() {
        let sandbox = ["leasehold bench sandbox --rounds 0", "leasehold bench sandbox --beats 0"];
        let store = ["leasehold bench store --rounds 0", "leasehold bench store --seconds 0"];
        for line in ["leasehold bench", "leasehold bench languages", "leasehold bench languages d --runs 0"]
            .into_iter()
            .chain(store)
            .chain(sandbox)
        {
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
