//! Runs simulations, and replays one in words.

#![allow(clippy::print_stdout)] // This is what it is for.

use std::collections::BTreeMap;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;
use leasehold_simulator::{Plan, Report, run, run_two};

/// Simulates an hour of several hosts on one store, for each of many seeds.
#[derive(Parser)]
struct Args {
    /// The seeds: FROM..TO, TO excluded.
    #[arg(long, default_value = "0..1000", value_parser = seeds)]
    seeds: Range<u64>,
    /// Tells this seed step by step.
    #[arg(long, conflicts_with = "seeds")]
    replay: Option<u64>,
    /// A minutely job at the defaults on three hosts, and nothing goes wrong.
    #[arg(long)]
    quiet: bool,
    /// Two jobs that compete for the places of the same hosts.
    #[arg(long, conflicts_with = "quiet")]
    two: bool,
}

impl Args {
    fn play(&self, seed: u64, tell: bool) -> Vec<Report> {
        match (self.two, self.quiet) {
            (true, _) => run_two(seed, Plan::two(seed), tell).into(),
            (false, true) => vec![run(seed, Plan::quiet(seed), tell)],
            (false, false) => vec![run(seed, Plan::new(seed), tell)],
        }
    }

    /// The same plans, for people.
    fn plans(&self, seed: u64) -> Vec<Plan> {
        match (self.two, self.quiet) {
            (true, _) => Plan::two(seed).into(),
            (false, true) => vec![Plan::quiet(seed)],
            (false, false) => vec![Plan::new(seed)],
        }
    }

    fn flags(&self) -> &'static str {
        match (self.two, self.quiet) {
            (true, _) => "--two ",
            (false, true) => "--quiet ",
            (false, false) => "",
        }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(seed) = args.replay {
        let reports = args.play(seed, true);
        for (report, plan) in reports.iter().zip(args.plans(seed)) {
            println!("{plan:#?}");
            report.trail.iter().for_each(|line| println!("{line}"));
        }
        let broken: Vec<_> = reports.iter().filter_map(|report| report.broken.as_ref()).collect();
        broken.iter().for_each(|broken| println!("seed {seed}: {broken}"));
        return if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let found = many(&args);
    for (what, times) in &found.seen {
        println!("{times:>12}  {what}");
    }
    println!("{} seeds, {} broken promises", args.seeds.end - args.seeds.start, found.broken.len());
    for (seed, broken) in found.broken.iter().take(20) {
        println!("seed {seed}: {broken}");
        println!("  cargo run --package leasehold-simulator -- {}--replay {seed}", args.flags());
    }
    if found.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What many simulations came to.
#[derive(Default)]
struct Found {
    seen: BTreeMap<String, u64>,
    broken: BTreeMap<u64, String>,
}

/// Runs them on all processors.
fn many(args: &Args) -> Found {
    let (next, end) = (AtomicU64::new(args.seeds.start), args.seeds.end);
    let work = || {
        let mut found = Found::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return found;
            }
            for report in args.play(seed, false) {
                report.seen.into_iter().for_each(|(what, times)| *found.seen.entry(what).or_default() += times);
                found.broken.extend(report.broken.map(|broken| (seed, broken.to_string())));
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        all.into_iter().map(|thread| thread.join().expect("a simulation panicked")).fold(
            Found::default(),
            |mut sum, one| {
                one.seen.into_iter().for_each(|(what, times)| *sum.seen.entry(what).or_default() += times);
                sum.broken.extend(one.broken);
                sum
            },
        )
    })
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("write FROM..TO")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
    Ok(number(from)?..number(to)?)
}
