//! The file: where it may lie, who may read it, and what is refused.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use leasehold_lease::id::JobKey;
use leasehold_lease::op::Announce;

use super::*;
use crate::test_support::job;

fn refusal(path: &Path) -> OpenError {
    match SqliteStore::open(path) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error,
    }
}

#[test]
fn folder_and_file_are_made_for_this_user_only() {
    let folder = fast_folder();
    let path = folder.path().join("new/deep/leasehold.db");
    let store = SqliteStore::open(&path).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    for beside in ["leasehold.db-wal", "leasehold.db-shm"] {
        assert_eq!(mode(&path.with_file_name(beside)), 0o600, "{beside}");
    }
    drop(store);
}

#[tokio::test]
async fn a_file_keeps_identity_and_records_when_it_is_opened_again() {
    let folder = fast_folder();
    let store = SqliteStore::open(&file(&folder)).unwrap();
    let identity = store.identity().await.unwrap();
    store.announce(&[(job("a"), Announce { fingerprint: "x".into() })]).await.unwrap();
    let jobs = store.jobs(None, 100).await.unwrap().answer;
    drop(store);
    let store = SqliteStore::open(&file(&folder)).unwrap();
    assert_eq!((store.identity().await.unwrap(), store.jobs(None, 100).await.unwrap().answer), (identity, jobs));
}

#[tokio::test]
async fn a_dropped_store_has_written_its_log_back_into_the_file() {
    let folder = fast_folder();
    let store = SqliteStore::open(&file(&folder)).unwrap();
    store.announce(&[(job("a"), Announce { fingerprint: "x".into() })]).await.unwrap();
    assert!(file(&folder).with_file_name("leasehold.db-wal").exists());
    drop(store);
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["leasehold.db"]);
}

#[test]
fn a_name_that_sqlite_takes_for_memory_is_a_file() {
    let folder = fast_folder();
    let path = folder.path().join(":memory:");
    drop(SqliteStore::open(&path).unwrap());
    assert!(fs::metadata(path).unwrap().len() > 0);
}

#[test]
fn a_text_file_is_refused_and_left_as_it_was() {
    let folder = fast_folder();
    let text = "this is no database, and it is longer than a header of one hundred bytes would be, as it has to be.\n";
    fs::write(file(&folder), text).unwrap();
    let error = refusal(&file(&folder));
    assert!(error.to_string().contains("not an SQLite database"), "{error}");
    assert_eq!(fs::read_to_string(file(&folder)).unwrap(), text);
}

#[test]
fn a_database_of_something_else_is_refused_and_left_as_it_was() {
    let folder = fast_folder();
    for marked in ["", "PRAGMA application_id = 7;"] {
        let db = Connection::open(file(&folder)).unwrap();
        db.execute_batch(&format!("{marked} CREATE TABLE IF NOT EXISTS t (x)")).unwrap();
        drop(db);
        let before = fs::read(file(&folder)).unwrap();
        let error = refusal(&file(&folder));
        assert!(matches!(error, OpenError::Foreign { .. }), "{error:?}");
        assert_eq!(fs::read(file(&folder)).unwrap(), before);
    }
}

#[test]
fn a_newer_schema_is_refused_with_what_to_do() {
    let folder = fast_folder();
    drop(SqliteStore::open(&file(&folder)).unwrap());
    Connection::open(file(&folder)).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = refusal(&file(&folder));
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error:?}");
    assert!(error.to_string().contains("run a newer Leasehold"), "{error}");
}

#[tokio::test]
async fn a_file_that_a_newer_version_migrated_meanwhile_is_written_no_more() {
    let folder = fast_folder();
    let store = SqliteStore::open(&file(&folder)).unwrap();
    Connection::open(file(&folder)).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let offer = [(job("a"), Announce { fingerprint: "x".into() })];
    let error = store.announce(&offer).await.unwrap_err();
    let StoreError::Rejected { source, .. } = &error else { panic!("{error:?}") };
    assert!(source.to_string().contains("update and restart"), "{source}");
    assert!(store.jobs(None, 100).await.is_err());
}

#[tokio::test]
async fn a_reader_waits_for_no_writer_and_changes_nothing() {
    let folder = fast_folder();
    let store = SqliteStore::open(&file(&folder)).unwrap();
    let offer = [(job("a"), Announce { fingerprint: "x".into() })];
    store.announce(&offer).await.unwrap();
    let jobs = store.jobs(None, 100).await.unwrap().answer;
    // Longer than anybody waits for a lock: it is held until the end of the test.
    let writer = Connection::open(file(&folder)).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let reader = SqliteStore::open_for_reading(&file(&folder)).unwrap();
    assert_eq!(reader.identity().await.unwrap(), store.identity().await.unwrap());
    assert_eq!(reader.jobs(None, 100).await.unwrap().answer, jobs);
    writer.execute_batch("ROLLBACK").unwrap();
    let error = reader.announce(&offer).await.unwrap_err();
    assert!(matches!(error, StoreError::NotSent { .. }), "{error:?}");
    assert_eq!(store.jobs(None, 100).await.unwrap().answer, jobs);
}

#[tokio::test]
async fn a_host_starts_while_another_one_stands_still_in_the_middle_of_a_write() {
    let folder = fast_folder();
    let identity = SqliteStore::open(&file(&folder)).unwrap().identity().await.unwrap();
    // Longer than anybody waits for a lock: it is held until the end of the test.
    let writer = Connection::open(file(&folder)).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let store = SqliteStore::open(&file(&folder)).unwrap();
    assert_eq!(store.identity().await.unwrap(), identity);
    writer.execute_batch("ROLLBACK").unwrap();
    store.announce(&[(job("a"), Announce { fingerprint: "x".into() })]).await.unwrap();
}

#[test]
fn a_reader_makes_no_file_and_brings_none_up_to_date() {
    let folder = fast_folder();
    let refusal = || SqliteStore::open_for_reading(&file(&folder)).err().expect("a refusal");
    assert!(matches!(refusal(), OpenError::Folder { .. }), "{:?}", refusal());
    assert!(!file(&folder).exists());
    fs::write(file(&folder), "").unwrap();
    assert!(refusal().to_string().contains("is still empty"), "{}", refusal());
    assert_eq!(fs::metadata(file(&folder)).unwrap().len(), 0);
    drop(SqliteStore::open(&file(&folder)).unwrap());
    Connection::open(file(&folder)).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert!(matches!(refusal(), OpenError::Newer { found: 99, .. }), "{:?}", refusal());
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = fast_folder();
    fs::write(folder.path().join("plain"), "").unwrap();
    let error = refusal(&folder.path().join("plain/leasehold.db"));
    assert!(matches!(error, OpenError::Folder { .. }), "{error:?}");
    let error = refusal(folder.path());
    assert!(matches!(error, OpenError::Sqlite { .. }), "a folder in place of the file: {error:?}");
}

#[test]
fn a_foreign_file_system_is_refused() {
    // procfs is no place for a store either, but it stands for one that is not in the list: nothing can be made there.
    let error = refusal(Path::new("/proc/leasehold/leasehold.db"));
    assert!(matches!(error, OpenError::Folder { .. }), "{error:?}");
    let Some(mount) = foreign_mount() else {
        return eprintln!("skipped: no network or FUSE file system is mounted here");
    };
    let error = refusal(&mount.join("leasehold-test.db"));
    assert!(matches!(error, OpenError::NotLocal { .. } | OpenError::Folder { .. }), "{error:?}");
}

/// A mounted file system of a kind that is refused.
fn foreign_mount() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let foreign = |kind: &str| kind.starts_with("nfs") || kind.starts_with("fuse") || kind == "9p" || kind == "cifs";
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (path, kind) = (words.next()?, words.next()?);
        foreign(kind).then(|| PathBuf::from(path))
    })
}

#[tokio::test]
async fn a_damaged_record_is_named_and_other_jobs_go_on() {
    let bench = on_a_set_clock().await;
    let path = bench.keep.downcast_ref::<TempDir>().map(file).unwrap();
    let other: JobKey = "b".parse().unwrap();
    let offers = [&job("a"), &other].map(|key| (key.clone(), Announce { fingerprint: "x".into() }));
    bench.store.announce(&offers).await.unwrap();
    Connection::open(path).unwrap().execute("UPDATE jobs SET largest_bound_ms = 1 WHERE name = 'a'", []).unwrap();
    bench.store.announce(&offers).await.unwrap();
    let path = bench.keep.downcast_ref::<TempDir>().map(file).unwrap();
    let damage = "PRAGMA ignore_check_constraints = ON; UPDATE jobs SET largest_bound_ms = -1 WHERE name = 'a'";
    Connection::open(path).unwrap().execute_batch(damage).unwrap();
    let told = bench.store.announce(&offers).await.unwrap();
    let Err(StoreError::Rejected { source, .. }) = &told[0] else { panic!("{told:?}") };
    let words = source.to_string();
    assert!(words.contains("job default/a") && words.contains("largest_bound_ms"), "{words}");
    assert!(told[1].is_ok(), "it shares the call, and not the damage");
    assert!(bench.store.unfinished(&[other.tenant], None, 10).await.is_ok());
}

#[tokio::test]
async fn a_file_that_is_deleted_or_replaced_is_noticed_until_it_is_put_back() {
    let folder = TempDir::new().unwrap();
    let (data, aside) = (folder.path().join("data"), folder.path().join("aside"));
    let path = data.join("leasehold.db");
    let store = SqliteStore::open(&path).unwrap();
    let offers = [(job("a"), Announce { fingerprint: "x".into() })];
    store.announce(&offers).await.unwrap();
    fs::rename(&data, &aside).unwrap();
    let error = store.announce(&offers).await.unwrap_err();
    assert!(matches!(error, StoreError::NotSent { .. }), "{error:?}");
    // Another process begins a file of its own there: this one must not go on beside it.
    let other = SqliteStore::open(&path).unwrap();
    other.announce(&offers).await.unwrap();
    assert!(store.heartbeats(&[]).await.is_err());
    drop(other);
    fs::remove_dir_all(&data).unwrap();
    fs::rename(&aside, &data).unwrap();
    store.announce(&offers).await.unwrap();
}
