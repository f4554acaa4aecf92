//! Runs simulations, and replays one in words.

#![allow(clippy::print_stdout)] // This is what it is for.

use std::collections::BTreeMap;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;
use leasehold_simulator::{Plan, Report, run};

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
}

fn main() -> ExitCode {
    let args = Args::parse();
    let plan = if args.quiet { Plan::quiet } else { Plan::new };
    if let Some(seed) = args.replay {
        println!("{:#?}", plan(seed));
        let report = run(seed, plan(seed), true);
        report.trail.iter().for_each(|line| println!("{line}"));
        return verdict(seed, &report);
    }
    let found = many(&args.seeds, plan);
    for (what, times) in &found.seen {
        println!("{times:>12}  {what}");
    }
    println!("{} seeds, {} broken promises", args.seeds.end - args.seeds.start, found.broken.len());
    for (seed, broken) in found.broken.iter().take(20) {
        println!("seed {seed}: {broken}");
        println!(
            "  cargo run --package leasehold-simulator -- {}--replay {seed}",
            if args.quiet { "--quiet " } else { "" }
        );
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
fn many(seeds: &Range<u64>, plan: fn(u64) -> Plan) -> Found {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        let mut found = Found::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return found;
            }
            let report = run(seed, plan(seed), false);
            report.seen.into_iter().for_each(|(what, times)| *found.seen.entry(what).or_default() += times);
            found.broken.extend(report.broken.map(|broken| (seed, broken.to_string())));
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

fn verdict(seed: u64, report: &Report) -> ExitCode {
    match &report.broken {
        Some(broken) => {
            println!("seed {seed}: {broken}");
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}

fn seeds(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("write FROM..TO")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{text}: {error}"));
    Ok(number(from)?..number(to)?)
}
