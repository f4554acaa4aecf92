//! The driver held to the suite, and to what a server can do to it.

mod server;

use std::sync::Arc;

use async_trait::async_trait;
use leasehold_lease::time::Millis;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};
use tokio::sync::Mutex;

use self::server::Database;
use super::PostgresStore;
use crate::conformance::{Bench, SetClock, TestClock};

/// The clock of a test's database.
struct DatabaseClock(Mutex<PgConnection>);

#[async_trait]
impl SetClock for DatabaseClock {
    async fn set(&self, at: Millis) {
        let mut db = self.0.lock().await;
        let set = sqlx::query("UPDATE public.test_clock SET at = $1").bind(at.0);
        set.execute(&mut *db).await.expect("the test's clock is set");
    }
}

/// A store whose clock the test sets.
async fn on_a_set_clock() -> Bench {
    let database = Database::create().await;
    let store = PostgresStore::connect(&database.url, "leasehold").await.expect("the store opens");
    let mut db = PgConnection::connect(&database.url).await.expect("the test connects");
    db.execute(sqlx::raw_sql(include_str!("tests/set_clock.sql"))).await.expect("the clock is replaced");
    let clock = TestClock::Remote(Arc::new(DatabaseClock(Mutex::new(db))));
    Bench::new(Arc::new(store), clock, database)
}

crate::conformance_tests!(on_a_set_clock);

mod on_the_servers_clock {
    use super::*;

    async fn make() -> Bench {
        let database = Database::create().await;
        let store = PostgresStore::connect(&database.url, "leasehold").await.expect("the store opens");
        Bench::new(Arc::new(store), TestClock::Real, database)
    }

    crate::conformance_tests!(make);
}
