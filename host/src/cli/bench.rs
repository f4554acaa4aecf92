//! `leasehold bench`: the figures of the README, on this machine.

use std::time::Duration;

use clap::{Args, Subcommand};
use leasehold_store::bench::{Options, Report, Row, run};

use super::error::CliError;
use super::output::{Colour, Output, Table};
use super::{Exit, Global, value};

/// The arguments of `leasehold bench`.
#[derive(Debug, Args)]
pub(super) struct Bench {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// What each store does a second, beside a yardstick in the same run (scripts/bench starts private servers for it)
    Store(StoreBench),
}

/// The arguments of `leasehold bench store`.
#[derive(Debug, Args)]
struct StoreBench {
    /// A server, besides memory and SQLite, which are always measured: redis://…, postgres://… It works in a namespace of
    /// its own there and leaves it behind
    #[arg(long = "url", value_name = "URL")]
    urls: Vec<String>,
    /// How often each figure is measured; the median counts
    #[arg(long, default_value_t = 5, value_parser = value::count)]
    rounds: u32,
    /// How long each round of claims and finishes takes, in seconds
    #[arg(long, default_value_t = 2, value_parser = value::count)]
    seconds: u32,
    /// Calls that wait for their answers at the same time [default: 50; for PostgreSQL 16]
    #[arg(long, value_name = "N")]
    in_flight: Option<usize>,
    /// Fill the stores with 10 000 jobs of 100 finished runs each; takes many minutes
    #[arg(long)]
    full: bool,
}

impl Bench {
    /// Measures, and prints the table.
    ///
    /// # Errors
    /// See [`CliError`].
    pub(super) async fn run(&self, _global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        let What::Store(asked) = &self.what;
        let folder = std::env::current_dir().map_err(CliError::WorkingFolder)?;
        let mut options = Options::new(folder);
        options.urls.clone_from(&asked.urls);
        options.rounds = asked.rounds;
        options.round = Duration::from_secs(asked.seconds.into());
        options.in_flight = asked.in_flight;
        if asked.full {
            options = options.full();
        }
        let report = run(&options, |line| tracing::info!("{line}")).await.map_err(CliError::Bench)?;
        if out.is_json() {
            for row in &report.rows {
                out.object(row)?;
            }
        } else {
            out.text(&table(&report).render(out.is_terminal(), out.paint()))?;
            out.flush()?;
        }
        for failure in &report.failures {
            let error = &failure.error as &dyn std::error::Error;
            tracing::error!(store = failure.store, error, "a store was not measured to the end");
        }
        for left in &report.left_behind {
            tracing::info!("left behind: {left}");
        }
        let missed = report.rows.iter().any(|row| row.met == Some(false));
        Ok(if missed || !report.failures.is_empty() { Exit::Failed } else { Exit::Success })
    }
}

fn table(report: &Report) -> Table {
    let mut table = Table::new(&["STORE", "FIGURE", "OURS", "RANGE", "YARDSTICK", "RATIO", "TARGET", "NOTES"]);
    for row in &report.rows {
        table.row(cells(row));
    }
    table
}

fn cells(row: &Row) -> Vec<(Colour, String)> {
    let judged = match row.met {
        Some(true) => Colour::Good,
        Some(false) => Colour::Bad,
        None => Colour::Plain,
    };
    vec![
        (Colour::Plain, row.store.clone()),
        (Colour::Plain, row.figure.clone()),
        (Colour::Plain, row.value_text()),
        (Colour::Dim, row.range_text()),
        (Colour::Plain, row.yardstick_text()),
        (judged, row.ratio_text()),
        (judged, row.target_text()),
        (Colour::Dim, row.notes.join("; ")),
    ]
}
