//! The store's own benchmark, `leasehold bench store`: what each store does a second, beside a yardstick that is measured
//! in the same run, on the same machine and server.
//!
//! Ours and the yardstick take turns, so that what else the machine does meanwhile meets both. Figures are medians of the
//! rounds; a ratio is the median of the rounds' ratios.
//!
//! Memory and SQLite are always measured, servers where a URL names them. All of it happens in a namespace of its own
//! with a random name, which stays behind in a server: see [`Report::left_behind`].

mod disk;
mod error;
mod load;
mod measure;
mod memory;
mod place;
mod postgres;
mod redis;
mod report;
mod sqlite;
mod tool;

#[cfg(test)]
mod tests;

use leasehold_lease::id::hex;
use std::path::PathBuf;
use std::time::Duration;

pub use self::error::BenchError;
pub use self::report::{Failure, Report, Row, Yardstick};

use self::measure::measure;
use self::place::Subject;

/// What is measured, and for how long.
#[derive(Debug, Clone)]
pub struct Options {
    /// Servers: `redis://…`, `rediss://…`, `valkey://…`, `valkeys://…`, `postgres://…` or `postgresql://…`.
    pub urls: Vec<String>,
    /// Where SQLite's files lie while they are measured: on the disk that is meant, and removed afterwards.
    pub folder: PathBuf,
    /// How often each figure is measured; at least once.
    pub rounds: u32,
    /// How long each round of claims and finishes takes, and so its yardstick.
    pub round: Duration,
    /// Calls that wait for their answers at the same time, in place of each store's own number (PostgreSQL 16, others
    /// 50).
    pub in_flight: Option<usize>,
    /// Jobs in the filled store.
    pub jobs: usize,
    /// Finished runs that each of them has.
    pub runs: usize,
    /// Runs of one host whose leases are renewed in one call, each number for itself.
    pub heartbeats: Vec<usize>,
    /// Claims a round that are sent one after the other.
    pub claims: usize,
}

impl Options {
    /// What is measured unless it is asked for otherwise: five rounds of two seconds; 1 000 jobs with 20 runs each.
    pub fn new(folder: PathBuf) -> Options {
        Options {
            urls: Vec::new(),
            folder,
            rounds: 5,
            round: Duration::from_secs(2),
            in_flight: None,
            jobs: 1_000,
            runs: 20,
            heartbeats: vec![1_000, 5_000, 10_000],
            claims: 100,
        }
    }

    /// The same with a store that is as full as it gets: 10 000 jobs with 100 finished runs each. Takes minutes, and some
    /// gigabytes.
    pub fn full(self) -> Options {
        Options { jobs: 10_000, runs: 100, ..self }
    }
}

/// Measures memory, SQLite and the servers of the options, one after the other. `progress` is told what is going on, a
/// line at a time.
///
/// # Errors
///
/// A server that cannot be used, or a folder. What fails later, in one store, is told in [`Report::failures`], and the
/// others are measured all the same.
pub async fn run(options: &Options, progress: impl Fn(&str)) -> Result<Report, BenchError> {
    let namespace = namespace()?;
    // All servers are met first, so that a wrong URL is told at once.
    let mut servers = Vec::new();
    for url in &options.urls {
        servers.push(place::server(url, &namespace).await?);
    }
    let folder = disk::Folder::create(&options.folder)?;
    // Memory first: what one store has freed, the process keeps, and the next one would be given.
    let mut subjects: Vec<Subject> = vec![memory::subject(), sqlite::subject(&folder).await?];
    subjects.extend(servers);

    let mut report = Report::default();
    for subject in subjects {
        let (name, left_behind) = (subject.name.clone(), subject.place.left_behind());
        if let Err(error) = measure(subject, options, &progress, &mut report.rows).await {
            report.failures.push(Failure { store: name, error });
        }
        report.left_behind.extend(left_behind);
    }
    Ok(report)
}

/// A namespace that nobody else has.
fn namespace() -> Result<String, BenchError> {
    let mut random = [0; 6];
    getrandom::fill(&mut random)?;
    Ok(format!("bench-{}", hex(&random)))
}
