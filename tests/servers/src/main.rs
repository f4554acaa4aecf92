//! `leasehold-test-servers serve`: one PostgreSQL, Redis and Valkey for all tests or for a benchmark, until its input
//! ends.

use std::env;
use std::io::{self, Write};
use std::process::ExitCode;

use leasehold_test_servers::environment::{POSTGRES, REDIS, VALKEY};
use leasehold_test_servers::{Postgres, PostgresOptions, Redis, RedisKind, ServerError, Storage};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let storage = match arguments[..] {
        ["serve"] => Storage::Memory,
        ["serve", "--disk"] => Storage::Disk,
        _ => {
            complain(USAGE);
            return ExitCode::from(2);
        }
    };
    match serve(storage).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error.chain());
            ExitCode::FAILURE
        }
    }
}

const USAGE: &str = "usage: leasehold-test-servers serve [--disk]
Starts PostgreSQL, Redis and Valkey, unless the environment names them, prints their addresses as environment variables, one
a line, then an empty line, and runs until its standard input ends. With --disk PostgreSQL keeps its data on the disk, in
TMPDIR, and flushes it as it does in earnest; without, in memory.";

async fn serve(storage: Storage) -> Result<(), ServerError> {
    let options = PostgresOptions { storage, ..PostgresOptions::default() };
    let (postgres, redis, valkey) = tokio::join!(
        unless_given(POSTGRES, Postgres::start_with(options)),
        unless_given(REDIS, Redis::start(RedisKind::Redis)),
        unless_given(VALKEY, Redis::start(RedisKind::Valkey)),
    );
    let (postgres, redis, valkey) = (postgres?, redis?, valkey?);
    let variables = [
        (POSTGRES, postgres.as_ref().map(Postgres::url)),
        (REDIS, redis.as_ref().map(Redis::url)),
        (VALKEY, valkey.as_ref().map(Redis::url)),
    ];
    let lines: String =
        variables.iter().filter_map(|(name, url)| url.as_ref().map(|url| format!("{name}={url}\n"))).collect();
    // Whoever started us and does not read is gone, and so is our input.
    let _ = io::stdout().write_all(format!("{lines}\n").as_bytes()).and_then(|()| io::stdout().flush());
    // Nothing is expected there: it ends when whoever started us ends.
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    Ok(())
}

/// Starts a server unless the environment names one already. One that is not installed is told and left out; its tests
/// say so too.
async fn unless_given<T>(
    variable: &str,
    start: impl Future<Output = Result<T, ServerError>>,
) -> Result<Option<T>, ServerError> {
    if env::var_os(variable).is_some_and(|url| !url.is_empty()) {
        return Ok(None);
    }
    match start.await {
        Err(error @ ServerError::Missing { .. }) => {
            complain(&error.to_string());
            Ok(None)
        }
        started => started.map(Some),
    }
}

fn complain(text: &str) {
    // Without a standard error there is nobody to tell.
    let _ = writeln!(io::stderr(), "leasehold-test-servers: {text}");
}
