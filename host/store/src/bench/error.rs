//! Why something could not be measured.

use std::path::PathBuf;

use crate::error::StoreError;
use crate::{postgres, redis, sqlite};

/// A benchmark that has no figures, or none of one store.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The URL is of no kind that is known.
    #[error(
        "a store at {scheme}:// cannot be measured; name redis://…, rediss://…, valkey://…, valkeys://…, postgres://… or \
         postgresql://…; memory and SQLite are always measured"
    )]
    Url {
        /// What stands before `://`.
        scheme: String,
    },
    /// A Redis or Valkey server cannot be used.
    #[error("the Redis or Valkey server cannot be measured")]
    Redis(#[from] redis::ConnectError),
    /// A PostgreSQL server cannot be used.
    #[error("the PostgreSQL server cannot be measured")]
    Postgres(#[from] postgres::ConnectError),
    /// SQLite's file cannot be used.
    #[error("SQLite cannot be measured")]
    Sqlite(#[from] sqlite::OpenError),
    /// The folder for SQLite cannot be used.
    #[error(
        "cannot use {} to measure SQLite and its disk; start this in a folder on a local disk that this user may write \
         to and that is not full", path.display()
    )]
    Folder {
        /// The folder, or a file in it.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A thread ended early.
    #[error("the work of measuring ended early; please report this")]
    Ended(#[source] tokio::task::JoinError),
    /// The system gives no random bits.
    #[error("the system's random number generator does not work")]
    Random(#[from] getrandom::Error),
    /// The store gave no answer, though it was asked several times.
    #[error("the store does not keep up with the benchmark or is gone: {times} times it did not answer the same call")]
    Store {
        /// How often it was asked.
        times: u32,
        /// What became of the last one.
        #[source]
        source: StoreError,
    },
    /// The store gave an answer that a sound store does not give.
    #[error("the store answered {asked} with {answer}; something else works on the same jobs, or please report this")]
    Answer {
        /// What it was asked for.
        asked: &'static str,
        /// What it answered.
        answer: String,
    },
}
