//! Databases and clocks for these tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use leasehold_lease::time::Millis;
use leasehold_test_servers::{Postgres, PostgresOptions, or_skip, shared_postgres};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::conformance::{Bench, SetClock, TestClock};
use crate::postgres::PostgresStore;
use crate::test_support::PATIENCE;

/// Ends every session but the one that asks.
pub(super) const END_SESSIONS: &str =
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname IS NOT NULL";

/// An empty database of the server that tests share. It is dropped with this.
pub(super) struct Database {
    /// Its address.
    pub(super) url: String,
    name: String,
}

impl Database {
    /// None where PostgreSQL is not installed, which is printed.
    pub(super) async fn create() -> Option<Database> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let server = or_skip(shared_postgres().await)?;
        let mut random = [0; 4];
        getrandom::fill(&mut random).expect("random bits");
        let nth = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("leasehold_test_{}_{nth}", u32::from_le_bytes(random));
        run(&server, &format!("CREATE DATABASE {name}")).await;
        Some(Database { url: beside(&server, &name), name })
    }

    /// A connection beside the store, as an administrator has one.
    pub(super) async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.expect("the test connects")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (url, drop) = (self.url.clone(), format!("DROP DATABASE {} WITH (FORCE)", self.name));
        // A runtime of its own: that of the test may be ending.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let unsound = unsound(&url).await;
                run(&beside(&url, "postgres"), &drop).await;
                unsound
            })
        });
        let unsound = dropping.join();
        // A test that has failed says why; a second panic would hide it.
        if !std::thread::panicking() {
            assert_eq!(unsound.expect("the database is dropped"), Vec::<String>::new(), "jobs that count wrongly");
        }
    }
}

/// Jobs whose row does not count what their runs add up to: the rules look at the row alone.
async fn unsound(url: &str) -> Vec<String> {
    let mut db = PgConnection::connect(url).await.expect("the test connects");
    let exists = db.fetch_one(sqlx::raw_sql(include_str!("../schema/exists.sql"))).await.expect("an answer");
    if !sqlx::Row::get::<bool, _>(&exists, 0) {
        return Vec::new();
    }
    sqlx::query_scalar(include_str!("unsound.sql")).fetch_all(&mut db).await.expect("an answer")
}

/// The address of another database of the same server.
pub(super) fn beside(url: &str, database: &str) -> String {
    let (server, _) = url.rsplit_once('/').expect("the URL names a database");
    format!("{server}/{database}")
}

/// Runs a statement of the administrator and expects it to work.
pub(super) async fn run(url: &str, statement: &str) {
    let mut db = PgConnection::connect(url).await.expect("the test connects");
    db.execute(AssertSqlSafe(statement.to_owned())).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    db.close().await.expect("the test leaves");
}

/// A server of this test's own; none where it is not installed.
pub(super) async fn own_server(settings: &[(&str, &str)]) -> Option<Postgres> {
    let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    or_skip(Postgres::start_with(PostgresOptions { settings, ..PostgresOptions::default() }).await)
}

pub(super) async fn store(url: &str) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::connect(url, "leasehold").await.expect("the store opens"))
}

/// The clock of a test's database.
pub(super) struct DatabaseClock(Mutex<PgConnection>);

impl DatabaseClock {
    /// From now on the database's clock is one that the test sets. The store's tables are there.
    pub(super) async fn of(database: &Database) -> DatabaseClock {
        let mut db = database.connect().await;
        db.execute(sqlx::raw_sql(include_str!("set_clock.sql"))).await.expect("the clock is replaced");
        DatabaseClock(Mutex::new(db))
    }
}

#[async_trait]
impl SetClock for DatabaseClock {
    async fn set(&self, at: Millis) {
        let mut db = self.0.lock().await;
        let set = sqlx::query("UPDATE public.test_clock SET at = $1").bind(at.0);
        set.execute(&mut *db).await.expect("the test's clock is set");
    }
}

/// A store on a clock that the test sets, with these parameters in its URL.
pub(super) async fn on_a_set_clock(parameters: &str) -> Option<Bench> {
    let database = Database::create().await?;
    let store = store(&format!("{}{parameters}", database.url)).await;
    let clock = TestClock::Remote(Arc::new(DatabaseClock::of(&database).await));
    Some(Bench::new(store, clock, database))
}

/// A store on the server's own clock.
pub(super) async fn on_the_servers_clock() -> Option<Bench> {
    let database = Database::create().await?;
    Some(Bench::new(store(&database.url).await, TestClock::Real, database))
}

/// Waits until a query of the administrator answers `true`.
pub(super) async fn until(db: &mut PgConnection, query: &'static str) {
    let waiting = async {
        while !sqlx::query_scalar::<_, bool>(query).fetch_one(&mut *db).await.expect("an answer") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never: {query}"));
}
