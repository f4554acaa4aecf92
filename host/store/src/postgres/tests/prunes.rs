//! Long histories.

use leasehold_lease::time::Millis;
use sqlx::Executor;
use sqlx::postgres::PgConnection;

use super::support::{Database, store};
use crate::store::LeaseStore;
use crate::test_support::{finish, job, win};
use crate::view::HistoryQuery;

/// Lets this many runs of a job start and end, and weeks go by.
async fn run_and_wait(db: &mut PgConnection, store: &dyn LeaseStore, name: &str, runs: i64) {
    db.execute(sqlx::raw_sql(include_str!("set_clock.sql"))).await.expect("the clock is replaced");
    let now = store.now().await.expect("the time");
    for n in 0..runs {
        let won = win(store, &job(name), Millis(now.0 + n)).await;
        finish(store, &job(name), &won).await.expect("an answer");
    }
    db.execute("UPDATE public.test_clock SET at = at + 3000000000").await.expect("time goes by");
}

/// What is to be forgotten is forgotten in parts that end in time, each a change of its own, however much it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_history_is_forgotten_in_parts() {
    let Some(database) = Database::create().await else { return };
    let store = store(&database.url).await;
    run_and_wait(&mut database.connect().await, &*store, "a", 230).await;
    let before = store.jobs(None, 100).await.expect("jobs").answer[0].revision;
    let pruned = store.prune(&job("a"), 5).await.expect("an answer");
    assert_eq!((pruned.answer, pruned.revision), (225, before + 3), "100 + 100 + 25");
    let left = store.history(&HistoryQuery { limit: 1_000, ..HistoryQuery::default() }).await.expect("runs").answer;
    assert_eq!(left.len(), 5, "the history that is kept");
    let again = store.prune(&job("a"), 5).await.expect("an answer");
    assert_eq!((again.answer, again.revision), (0, pruned.revision), "nothing changes");
}

/// Long logs take long to delete: a part ends after this many bytes of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_logs_are_forgotten_in_parts() {
    let Some(database) = Database::create().await else { return };
    let store = store(&database.url).await;
    let mut db = database.connect().await;
    run_and_wait(&mut db, &*store, "a", 5).await;
    db.execute(
        "UPDATE leasehold.runs SET kept_size = kept_size + 3000000; \
         UPDATE leasehold.jobs SET stored = stored + 5 * 3000000",
    )
    .await
    .expect("they are large");
    let before = store.jobs(None, 100).await.expect("jobs").answer[0].revision;
    let pruned = store.prune(&job("a"), 0).await.expect("an answer");
    assert_eq!((pruned.answer, pruned.revision), (5, before + 3), "2 + 2 + 1");
    let stored: i64 = sqlx::query_scalar("SELECT stored FROM leasehold.jobs").fetch_one(&mut db).await.expect("a sum");
    assert_eq!(stored, 0);
}
