//! One server of each kind for all tests of a process, or of all processes.

use std::env;
use std::io::Write;

use tokio::sync::OnceCell;

use crate::{Postgres, Redis, RedisKind, ServerError};

/// The environment variables that tests look at.
pub mod environment {
    /// The URL of the PostgreSQL that tests share.
    pub const POSTGRES: &str = "LEASEHOLD_TEST_POSTGRES";
    /// The URL of the Redis that tests share.
    pub const REDIS: &str = "LEASEHOLD_TEST_REDIS";
    /// The URL of the Valkey that tests share.
    pub const VALKEY: &str = "LEASEHOLD_TEST_VALKEY";
    /// `1`: a server that scripts/setup can always install must be there.
    pub const REQUIRE: &str = "LEASEHOLD_REQUIRE_SERVERS";
}

/// The address of a PostgreSQL that tests share: that of the environment variable `LEASEHOLD_TEST_POSTGRES` where it is
/// set, else one started for this process. Tests keep apart by namespaces or databases of their own.
///
/// # Errors
///
/// As [`Postgres::start`].
pub async fn shared_postgres() -> Result<String, ServerError> {
    static SERVER: OnceCell<Postgres> = OnceCell::const_new();
    match given(environment::POSTGRES) {
        Some(url) => Ok(url),
        None => SERVER.get_or_try_init(Postgres::start).await.map(Postgres::url),
    }
}

/// The address of a Redis that tests share: that of `LEASEHOLD_TEST_REDIS`, else one started for this process.
///
/// # Errors
///
/// As [`Redis::start`].
pub async fn shared_redis() -> Result<String, ServerError> {
    static SERVER: OnceCell<Redis> = OnceCell::const_new();
    match given(environment::REDIS) {
        Some(url) => Ok(url),
        None => SERVER.get_or_try_init(|| Redis::start(RedisKind::Redis)).await.map(Redis::url),
    }
}

/// The address of a Valkey that tests share: that of `LEASEHOLD_TEST_VALKEY`, else one started for this process.
///
/// # Errors
///
/// As [`Redis::start`].
pub async fn shared_valkey() -> Result<String, ServerError> {
    static SERVER: OnceCell<Redis> = OnceCell::const_new();
    match given(environment::VALKEY) {
        Some(url) => Ok(url),
        None => SERVER.get_or_try_init(|| Redis::start(RedisKind::Valkey)).await.map(Redis::url),
    }
}

/// The server, or `None` where it is not installed, which is printed: the test ends without having proven anything.
///
/// # Panics
///
/// Where the server is there and does not work, and, with `LEASEHOLD_REQUIRE_SERVERS=1`, where it is missing. Valkey may
/// be missing all the same: not every system has it.
pub fn or_skip<T>(server: Result<T, ServerError>) -> Option<T> {
    let error = match server {
        Ok(server) => return Some(server),
        Err(error) => error,
    };
    let required = env::var(environment::REQUIRE).is_ok_and(|value| value == "1");
    assert!(may_skip(&error, required), "{} ({}={})", error.chain(), environment::REQUIRE, u8::from(required));
    // Not by a macro, whose words the test runner keeps to itself when the test passes.
    let _ = writeln!(std::io::stderr(), "skipped: {error}");
    None
}

fn may_skip(error: &ServerError, required: bool) -> bool {
    match error {
        ServerError::Missing { server, .. } => !required || *server == crate::redis::VALKEY,
        _ => false,
    }
}

fn given(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|url| !url.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_server_is_skipped_and_where_servers_are_required_only_valkey() {
        let missing = |server| ServerError::Missing { server, program: "it", elsewhere: String::new() };
        assert!(may_skip(&missing("PostgreSQL"), false));
        assert!(!may_skip(&missing("PostgreSQL"), true));
        assert!(may_skip(&missing("Valkey"), true));
        assert!(!may_skip(&ServerError::NotRunning { server: "Valkey" }, false));
    }
}
