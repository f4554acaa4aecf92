//! A short run of everything, against private servers.

use std::sync::Mutex;

use leasehold_test_servers::{or_skip, shared_postgres, shared_redis};
use sqlx::{Connection, PgConnection};

use super::*;

/// As little as can be measured.
fn short(folder: &tempfile::TempDir, urls: &[String]) -> Options {
    Options {
        urls: urls.to_vec(),
        rounds: 1,
        round: Duration::from_millis(50),
        in_flight: Some(4),
        jobs: 5,
        runs: 2,
        heartbeats: vec![10, 20],
        claims: 3,
        ..Options::new(folder.path().to_owned())
    }
}

/// The rows of a store, each of which has a figure and, where there is one, a yardstick or the reason for its absence.
fn assert_complete(report: &Report, store: &str, yardstick: bool) {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.store.starts_with(store)).collect();
    let figures: Vec<&str> = rows.iter().map(|row| row.figure.as_str()).collect();
    let expected = [
        "a finished run ",
        "a claim among 5 jobs × 2 finished runs, p50",
        "claim + finish, 4 in flight",
        "heartbeats of 10 runs in one call",
        "heartbeats of 20 runs in one call",
    ];
    assert_eq!(figures.len(), expected.len(), "{store}: {figures:?}; {:?}", report.failures);
    for (row, expected) in rows.iter().zip(expected) {
        assert!(row.figure.starts_with(expected), "{store}: {figures:?}");
        assert!(row.value.is_some() || !row.notes.is_empty(), "{row:?}");
        assert!(row.unit == "bytes" || row.value.is_some_and(|value| value > 0.0), "{row:?}");
    }
    assert!(rows[1].ratio.is_some_and(|ratio| ratio > 0.0), "{:?}", rows[1]);
    let pairs = rows[2];
    let explained = pairs.notes.iter().any(|note| note.contains("not installed"));
    assert_eq!(pairs.yardstick.is_some(), yardstick && !explained, "{pairs:?}");
    assert_eq!(pairs.met.is_some(), pairs.yardstick.is_some(), "{pairs:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_figure_of_memory_sqlite_and_redis_comes_out() {
    let Some(redis) = or_skip(shared_redis().await) else { return };
    let folder = tempfile::tempdir().unwrap();
    let told = Mutex::new(Vec::new());
    let report = run(&short(&folder, &[redis]), |line| told.lock().unwrap().push(line.to_owned())).await.unwrap();
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    assert_complete(&report, "memory", false);
    assert_complete(&report, "sqlite ", true);
    assert_complete(&report, "redis ", true);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "SQLite's files are gone");
    assert_eq!(report.left_behind.len(), 1, "{:?}", report.left_behind);
    let told = told.into_inner().unwrap();
    assert!(told.iter().any(|line| line.starts_with("redis ") && line.contains("filling")), "{told:?}");
    assert!(told.iter().any(|line| line.starts_with("sqlite ") && line.contains(" pairs/s, ")), "{told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_figure_of_postgres_comes_out_and_the_yardsticks_table_is_gone() {
    let Some(postgres) = or_skip(shared_postgres().await) else { return };
    let folder = tempfile::tempdir().unwrap();
    let report = run(&short(&folder, std::slice::from_ref(&postgres)), |_| ()).await.unwrap();
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    assert_complete(&report, "postgres ", true);
    let mut db = PgConnection::connect(&postgres).await.unwrap();
    let ours = report.left_behind[0].rsplit(' ').next().unwrap();
    let left: Option<String> =
        sqlx::query_scalar("SELECT to_regclass($1)::text").bind(ours).fetch_one(&mut db).await.unwrap();
    assert_eq!(left, None, "{ours}");
}

#[tokio::test]
async fn a_url_that_is_of_no_store_is_told_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    for url in ["sqlite:///x.db", "mysql://u:s3cret@h/d", "h"] {
        let error = run(&short(&folder, &[url.to_owned()]), |_| ()).await.unwrap_err();
        assert!(matches!(error, BenchError::Url { .. }) && !error.to_string().contains("s3cret"), "{error}");
    }
}
