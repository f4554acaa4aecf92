//! Files that a host of an older schema left behind.

use std::fs;
use std::thread;

use leasehold_lease::id::{RunKey, Token};
use leasehold_lease::log::{LogLevel, LogLine};
use leasehold_lease::op::{Heartbeat, HeartbeatAnswer};
use leasehold_lease::run::{Outcome, Status};
use leasehold_lease::write::{Change, Quota, Write, Written};

use super::*;
use crate::test_support::{job, key, slot};

/// Hosts that start together.
const HOSTS: usize = 8;

/// Makes a file of schema 1.
fn of_schema_1(path: &Path) {
    let db = Connection::open(path).unwrap();
    db.execute_batch(include_str!("../migrations/0001_first.sql")).unwrap();
    db.execute_batch(include_str!("schema_1.sql")).unwrap();
}

fn run(due: i64) -> RunKey {
    key(&job("a"), &slot(Millis(due)))
}

#[test]
fn who_only_reads_brings_no_file_up_to_date() {
    let folder = fast_folder();
    of_schema_1(&file(&folder));
    let before = fs::read(file(&folder)).unwrap();
    let error = SqliteStore::open_for_reading(&file(&folder)).err().expect("a refusal");
    assert!(matches!(error, OpenError::Older { found: 1, .. }), "{error:?}");
    assert_eq!(fs::read(file(&folder)).unwrap(), before);
}

/// However many hosts find it at once, it is brought up to date once, and what it holds goes on.
#[tokio::test]
async fn an_older_file_is_brought_up_to_date_with_all_it_holds() {
    let folder = fast_folder();
    of_schema_1(&file(&folder));
    let opening: Vec<_> = (0..HOSTS)
        .map(|_| {
            let path = file(&folder);
            thread::spawn(move || SqliteStore::open(&path).unwrap())
        })
        .collect();
    let stores: Vec<_> = opening.into_iter().map(|thread| thread.join().unwrap()).collect();
    for store in &stores {
        assert_eq!(store.identity().await.unwrap().id, "0123456789abcdef0123456789abcdef");
        let beat = Heartbeat { run: run(1_700_000_060_000).run, token: Token([7; 16]), progress: None };
        let renewed = store.heartbeats(&[(job("a"), beat)]).await.unwrap().remove(0).unwrap().answer;
        assert!(matches!(renewed, HeartbeatAnswer::Renewed { .. }), "{renewed:?}");
    }
    let store = &stores[0];
    let ended = store.show(&run(1_700_000_000_000)).await.unwrap().answer.unwrap().run;
    assert_eq!(ended.outcome, Some(Outcome::Success { output: b"{}".to_vec(), cut: false }));
    let live = store.show(&run(1_700_000_060_000)).await.unwrap().answer.unwrap().run;
    assert_eq!((live.status, live.attempts[0].last_log.number), (Status::Running, 3));
    // Its log goes on behind the numbers of then.
    let said = |message: &str| {
        let (at, level, target, message) = (Millis(0), LogLevel::Info, "t".into(), message.into());
        Change::AppendLog(vec![LogLine { at, level, target, message, fields: Vec::new() }])
    };
    for (number, message, written) in [(3, "again", Written::Done), (4, "after", Written::Done)] {
        let change = said(message);
        let key = run(1_700_000_060_000);
        let write = Write { run: key.run, token: Token([7; 16]), number, quota: Quota::default(), change };
        assert_eq!(store.write(&job("a"), &write).await.unwrap().answer, written);
    }
    let log = store.read_log(&run(1_700_000_060_000), 0, 10).await.unwrap();
    let lines: Vec<_> = log.iter().map(|entry| entry.line.message.as_str()).collect();
    assert_eq!(lines, ["before", "after"], "number 3 was written then");
}

/// Makes a file of schema 3, with values of tenant `default`, each under a key of 500 bytes.
fn of_schema_3(path: &Path, values: usize) {
    of_schema_1(path);
    let db = Connection::open(path).unwrap();
    db.execute_batch(include_str!("../migrations/0002_beside.sql")).unwrap();
    db.execute_batch(include_str!("../migrations/0003_indexes.sql")).unwrap();
    db.execute_batch("PRAGMA user_version = 3; BEGIN").unwrap();
    let mut insert = db.prepare("INSERT INTO kv (tenant, key, value) VALUES ('default', ?1, x'01')").unwrap();
    for n in 0..values {
        insert.execute([long_key(n).into_bytes()]).unwrap();
    }
    db.execute_batch("COMMIT").unwrap();
}

fn long_key(n: usize) -> String {
    format!("{n:0500}")
}

#[tokio::test]
async fn values_of_an_older_file_are_kept_and_their_keys_lie_in_it_once() {
    const VALUES: usize = 4_000;
    let folder = fast_folder();
    of_schema_3(&file(&folder), VALUES);
    let store = SqliteStore::open(&file(&folder)).unwrap();
    let tenant = job("a").tenant;
    for n in [0, 1_234, VALUES - 1] {
        assert_eq!(store.kv_get(&tenant, &long_key(n)).await.unwrap(), Some(vec![1]));
    }
    let listed = store.kv_list(&tenant, "", Some(&long_key(9)), 2).await.unwrap();
    assert_eq!(listed, [long_key(10), long_key(11)]);
    drop(store);
    let db = Connection::open(file(&folder)).unwrap();
    let number = |pragma| db.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0)).unwrap();
    let used = (number("page_count") - number("freelist_count")) * number("page_size");
    let keys = VALUES as i64 * 500;
    assert!((keys..keys * 3 / 2).contains(&used), "{used} bytes for keys of {keys}");
}
