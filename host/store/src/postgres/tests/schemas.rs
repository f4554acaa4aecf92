//! The schema: made once, brought up to date, or refused.

use sqlx::Executor;
use tokio::task::JoinSet;

use super::support::{Database, store};
use crate::error::StoreError;
use crate::postgres::schema::SCHEMA;
use crate::postgres::{ConnectError, PostgresStore};
use crate::store::LeaseStore;
use crate::test_support::{claim, job, slot, told, win};

/// Eight hosts that start together on an empty database make the schema once and agree who the store is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_that_start_together_make_the_schema_once() {
    let Some(database) = Database::create().await else { return };
    let mut starts = JoinSet::new();
    for _ in 0..8 {
        let url = database.url.clone();
        starts.spawn(async move {
            let store = PostgresStore::connect(&url, "leasehold").await.expect("the store opens");
            store.identity().await.expect("an identity")
        });
    }
    let identities = starts.join_all().await;
    assert!(identities.iter().all(|identity| *identity == identities[0]));
    let mut db = database.connect().await;
    let versions: Vec<i32> =
        sqlx::query_scalar("SELECT version FROM leasehold.schema_version").fetch_all(&mut db).await.expect("rows");
    assert_eq!(versions, [SCHEMA]);
}

/// A database that a newer version has prepared is refused, and so are the calls of a host that was running before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_host_is_refused_by_a_newer_schema() {
    let Some(database) = Database::create().await else { return };
    let store = store(&database.url).await;
    let now = store.now().await.expect("the time");
    win(&*store, &job("a"), now).await;
    let mut db = database.connect().await;
    db.execute(
        "UPDATE leasehold.schema_version SET version = 99; \
         CREATE OR REPLACE FUNCTION leasehold.version() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 99'",
    )
    .await
    .expect("a newer schema");
    let error = store.claim(&job("b"), &claim(slot(now))).await.expect_err("it is refused");
    assert!(matches!(error, StoreError::Rejected { .. }), "{}", told(&error));
    assert!(told(&error).contains("update this host") && told(&error).contains("schema 99"), "{}", told(&error));
    let error = PostgresStore::connect(&database.url, "leasehold").await.err().expect("it is refused");
    assert!(matches!(error, ConnectError::NewerSchema { found: 99, known: SCHEMA, .. }), "{}", told(&error));
}

/// A database of schema 1, whose functions listed all jobs at once, is brought up to date with what it holds; so is one that
/// another host brought up to date meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_of_the_first_schema_is_brought_up_to_date_with_what_it_holds() {
    let Some(database) = Database::create().await else { return };
    let store_of_before = store(&database.url).await;
    let now = store_of_before.now().await.expect("the time");
    win(&*store_of_before, &job("a"), now).await;
    let mut db = database.connect().await;
    db.execute(
        "UPDATE leasehold.schema_version SET version = 1; DROP FUNCTION leasehold.show_job(jsonb); \
         CREATE OR REPLACE FUNCTION leasehold.version() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 1'",
    )
    .await
    .expect("schema 1");
    let (one, other) = tokio::join!(store(&database.url), store(&database.url));
    for store in [one, other] {
        let found = store.job(&job("a")).await.expect("it is read").answer.expect("it is known");
        assert_eq!(found.unfinished, 1);
    }
}

/// A migration that fails leaves nothing behind: the next start makes the schema.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_that_fails_leaves_nothing_behind() {
    let Some(database) = Database::create().await else { return };
    let mut db = database.connect().await;
    // Something of another's making is in the way.
    db.execute("CREATE SCHEMA leasehold; CREATE TABLE leasehold.runs (x integer)").await.expect("a table");
    let error = PostgresStore::connect(&database.url, "leasehold").await.err().expect("it is refused");
    assert!(matches!(error, ConnectError::Schema { .. }) && told(&error).contains("runs"), "{}", told(&error));
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_tables WHERE schemaname = 'leasehold'")
        .fetch_one(&mut db)
        .await
        .expect("a count");
    assert_eq!(left, 1);
    db.execute("DROP TABLE leasehold.runs").await.expect("it is gone");
    store(&database.url).await;
}
