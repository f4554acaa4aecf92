//! Runs parts of the fault run and prints one table.

#![allow(clippy::print_stdout)] // This is what it is for.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use leasehold_faults::parts::{Order, frozen, hand_over, idle, slots, takeover};
use leasehold_faults::{Binary, Kind, Policy, Row, table};
use tokio::signal::unix::{SignalKind, signal};

/// Real hosts on real stores, and faults drawn from a seed.
#[derive(Parser)]
struct Args {
    /// What is done; all of them where none is named.
    #[arg(value_enum)]
    parts: Vec<Part>,
    /// On these stores: sqlite, postgresql, redis; all of them where none is named.
    #[arg(long)]
    store: Vec<Kind>,
    /// How many slots, over all stores together.
    #[arg(long, default_value_t = 210_000)]
    slots: u64,
    /// How many jobs have these slots, one a second each.
    #[arg(long, default_value_t = 200)]
    jobs: usize,
    /// What is drawn is drawn from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long a part that is no number of slots goes on, on each store, in seconds.
    #[arg(long, default_value_t = 90)]
    seconds: u64,
    /// The binary; also by the variable LEASEHOLD_BINARY. Else the released one where it was built, else the one beside
    /// this program.
    #[arg(long)]
    leasehold: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// From SIGKILL until another host goes on, at lease 3 s.
    Takeover,
    /// The same at the defaults, lease 30 s.
    TakeoverDefaults,
    /// From SIGTERM until another host goes on.
    Handover,
    /// What a frozen or cut-off runner does after its lease.
    Frozen,
    /// What a host costs that has many jobs and nothing to do.
    Idle,
    /// Many slots under faults of all kinds.
    Slots,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let mut term = signal(SignalKind::terminate()).expect("signals can be heard");
    tokio::select! {
        code = all(&args) => code,
        // Hosts and servers end with what is dropped here.
        _ = tokio::signal::ctrl_c() => ExitCode::FAILURE,
        _ = term.recv() => ExitCode::FAILURE,
    }
}

async fn all(args: &Args) -> ExitCode {
    let named = args.leasehold.clone().or_else(|| std::env::var_os("LEASEHOLD_BINARY").map(PathBuf::from));
    let binary = match named.map_or_else(Binary::released, |file| Ok(Binary(file))) {
        Ok(binary) => binary,
        Err(what) => {
            eprintln!("{what}");
            return ExitCode::from(2);
        }
    };
    eprintln!("seed {}, {}", args.seed, binary.0.display());
    let parts = if args.parts.is_empty() { Part::value_variants() } else { &args.parts };
    let stores = if args.store.is_empty() { Kind::ALL.as_slice() } else { &args.store };
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for part in parts {
        for kind in stores {
            let order =
                Order { kind: *kind, binary: binary.clone(), seed: args.seed, time: args.time_of(*part, stores.len()) };
            if let Some((its_rows, its_wrong)) = one(args, *part, &order).await {
                // What was found is not lost when a later part is ended.
                eprint!("{}", table(&its_rows));
                its_wrong.iter().for_each(|what| eprintln!("{kind}, seed {}: {what}", args.seed));
                rows.extend(its_rows);
                wrong.extend(its_wrong);
            }
        }
    }
    print!("{}", table(&rows));
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn one(args: &Args, part: Part, order: &Order) -> Option<(Vec<Row>, Vec<String>)> {
    let only_rows = |rows| (rows, Vec::new());
    match part {
        Part::Takeover => takeover(order, Policy::SHORT, 30).await.map(only_rows),
        Part::TakeoverDefaults => takeover(order, Policy::DEFAULT, 60).await.map(only_rows),
        Part::Handover => hand_over(order).await.map(only_rows),
        Part::Frozen => frozen(order).await,
        Part::Idle => idle(order).await.map(only_rows),
        Part::Slots => slots(order, args.jobs).await,
    }
}

impl Args {
    fn time_of(&self, part: Part, stores: usize) -> Duration {
        let each = match part {
            Part::Slots => self.slots.div_ceil(stores as u64).div_ceil(self.jobs as u64),
            _ => self.seconds,
        };
        Duration::from_secs(each)
    }
}
