//! The worker: what shares a transaction, what a failure costs, and who is kept waiting.

use std::sync::mpsc;

use rusqlite::ErrorCode;

use super::super::desk::Desk;
use super::super::error::SqliteError;
use super::super::worker::QUEUE;
use super::*;
use crate::view::CALL_LIMIT;

/// A worker on a file of its own, and a second connection to look into it.
fn worker(folder: &TempDir) -> (Worker, Connection) {
    let path: Arc<Path> = file(folder).into();
    drop(SqliteStore::open(&path).unwrap());
    let db = open::connect(&path, Access::Write).unwrap();
    db.execute_batch("CREATE TABLE t (x INTEGER PRIMARY KEY, filler BLOB)").unwrap();
    let flushes = Some(Arc::new(Flushes::start(&path, flushes::of_log(&path).unwrap(), BATCH).unwrap()));
    let worker = Worker::start("sqlite-test", &path, Station { flushes, ..station(&path, db) }).unwrap();
    (worker, Connection::open(&path).unwrap())
}

pub(super) fn station(path: &Path, db: Connection) -> Station {
    Station {
        desk: Desk::new(db),
        file: FileGuard::of(path).unwrap(),
        access: Access::Write,
        turnstile: Arc::default(),
        flushes: None,
        clock: clock::machine(),
        batch: BATCH,
    }
}

pub(super) fn insert(x: i64) -> impl FnMut(&Desk, Millis) -> Result<(), Fault> + Send + 'static {
    move |db, _| Ok(db.execute("INSERT INTO t (x) VALUES (?1)", [x]).map(|_| ())?)
}

pub(super) fn rows(db: &Connection) -> Vec<i64> {
    let mut statement = db.prepare("SELECT x FROM t ORDER BY x").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// Holds the worker up, so that what is sent meanwhile comes together. It goes on when the answer is dropped.
async fn held_up(worker: &Arc<Worker>) -> mpsc::Sender<()> {
    let (go, wait) = mpsc::channel::<()>();
    let (begun, running) = tokio::sync::oneshot::channel();
    let mut begun = Some(begun);
    let worker = worker.clone();
    tokio::spawn(async move {
        let work = move |_: &Desk, _| {
            begun.take().map(|begun| begun.send(()));
            let _ = wait.recv();
            Ok(())
        };
        worker.call("holding the worker up", work).await
    });
    running.await.unwrap();
    go
}

/// Sends these and lets them reach the queue in this order.
pub(super) async fn queued<A: Send + 'static>(
    worker: &Arc<Worker>,
    work: impl FnMut(&Desk, Millis) -> Result<A, Fault> + Send + 'static,
) -> tokio::task::JoinHandle<Result<A, StoreError>> {
    let worker = worker.clone();
    let task = tokio::spawn(async move { worker.call("testing", work).await });
    // On a current-thread runtime one turn lets the task run until it waits for its answer.
    tokio::task::yield_now().await;
    task
}

#[tokio::test]
async fn a_request_that_fails_or_panics_undoes_itself_alone() {
    let folder = fast_folder();
    let (worker, db) = worker(&folder);
    let worker = Arc::new(worker);
    let go = held_up(&worker).await;
    let first = queued(&worker, insert(1)).await;
    let twice = queued(&worker, |db: &Desk, _| {
        db.execute("INSERT INTO t (x) VALUES (2)", [])?;
        Ok(db.execute("INSERT INTO t (x) VALUES (1)", [])?)
    });
    let twice = twice.await;
    let panics = queued(&worker, |db: &Desk, _| -> Result<(), Fault> {
        db.execute("INSERT INTO t (x) VALUES (3)", [])?;
        panic!("a rule is broken")
    });
    let panics = panics.await;
    let last = queued(&worker, insert(4)).await;
    drop(go);
    first.await.unwrap().unwrap();
    last.await.unwrap().unwrap();
    assert!(matches!(twice.await.unwrap(), Err(StoreError::Rejected { .. })));
    let Err(StoreError::Rejected { source, .. }) = panics.await.unwrap() else { panic!("a panic is no success") };
    assert!(source.to_string().contains("a rule is broken"), "{source}");
    assert_eq!(rows(&db), [1, 4]);
}

#[tokio::test]
async fn requests_that_come_together_share_a_commit() {
    let folder = fast_folder();
    let (worker, db) = worker(&folder);
    let worker = Arc::new(worker);
    let version = || db.query_row("PRAGMA data_version", [], |row| row.get::<_, i64>(0)).unwrap();
    version();
    let go = held_up(&worker).await;
    let before = version();
    let mut tasks = Vec::new();
    for x in 0..50 {
        tasks.push(queued(&worker, insert(x)).await);
    }
    // While they wait, a look at each one's answer would show a commit; they are answered together.
    drop(go);
    let mut seen = std::collections::BTreeSet::from([before]);
    for task in tasks {
        task.await.unwrap().unwrap();
        seen.insert(version());
    }
    assert_eq!(rows(&db).len(), 50);
    assert!(seen.len() <= 2, "one commit for all: {seen:?}");
}

#[tokio::test]
async fn a_request_that_comes_while_another_is_carried_out_shares_its_commit_if_the_disk_is_busy() {
    let folder = fast_folder();
    let (_, other) = worker(&folder);
    let path: Arc<Path> = file(&folder).into();
    // Without flushes nobody is told when the disk is free.
    let station = station(&path, open::connect(&path, Access::Write).unwrap());
    let worker = Worker::start("sqlite-test", &path, station).unwrap();
    assert_eq!(seen_by_the_next(worker, other).await, (vec![1], vec![]), "the first one is not committed yet");
}

#[tokio::test]
async fn a_commit_waits_for_nobody_if_the_disk_is_free() {
    let folder = fast_folder();
    let (worker, other) = worker(&folder);
    assert_eq!(seen_by_the_next(worker, other).await, (vec![1], vec![1]));
}

/// Inserts a row, with another request arriving meanwhile. Answers what the second one sees, and what others see then.
async fn seen_by_the_next(worker: Worker, other: Connection) -> (Vec<i64>, Vec<i64>) {
    let worker = Arc::new(worker);
    let (go, wait) = mpsc::channel::<()>();
    let (begun, running) = tokio::sync::oneshot::channel();
    let mut begun = Some(begun);
    let first = queued(&worker, move |db: &Desk, _| {
        begun.take().map(|begun| begun.send(()));
        let _ = wait.recv();
        Ok(db.execute("INSERT INTO t (x) VALUES (1)", [])?)
    });
    let first = first.await;
    running.await.unwrap();
    let later = queued(&worker, move |db: &Desk, _| Ok((rows(db), rows(&other)))).await;
    drop(go);
    first.await.unwrap().unwrap();
    later.await.unwrap().unwrap()
}

#[tokio::test]
async fn a_look_sees_what_was_committed_before_it_was_asked_for() {
    let folder = fast_folder();
    let (_, db) = worker(&folder);
    let path: Arc<Path> = file(&folder).into();
    let station = Station { access: Access::Read, ..station(&path, open::connect(&path, Access::Read).unwrap()) };
    let reads = Arc::new(Worker::start("sqlite-test", &path, station).unwrap());
    let (go, wait) = mpsc::channel::<()>();
    let (begun, running) = tokio::sync::oneshot::channel();
    let mut begun = Some(begun);
    let first = queued(&reads, move |db: &Desk, _| {
        let seen = rows(db);
        begun.take().map(|begun| begun.send(()));
        let _ = wait.recv();
        Ok(seen)
    })
    .await;
    running.await.unwrap();
    db.execute("INSERT INTO t (x) VALUES (1)", []).unwrap();
    let later = queued(&reads, |db: &Desk, _| Ok(rows(db))).await;
    drop(go);
    assert_eq!(first.await.unwrap().unwrap(), Vec::<i64>::new());
    assert_eq!(later.await.unwrap().unwrap(), [1]);
}

#[tokio::test]
async fn a_request_that_nobody_waits_for_is_not_begun() {
    let folder = fast_folder();
    let (worker, db) = worker(&folder);
    let worker = Arc::new(worker);
    let go = held_up(&worker).await;
    let given_up = queued(&worker, insert(1)).await;
    let kept = queued(&worker, insert(2)).await;
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    drop(go);
    kept.await.unwrap().unwrap();
    assert_eq!(rows(&db), [2]);
}

#[tokio::test]
async fn a_statement_is_not_cut_when_its_caller_gives_up() {
    let folder = fast_folder();
    let (worker, db) = worker(&folder);
    let worker = Arc::new(worker);
    let (go, wait) = mpsc::channel::<()>();
    let (begun, running) = tokio::sync::oneshot::channel();
    let mut begun = Some(begun);
    let task = queued(&worker, move |db: &Desk, _| {
        begun.take().map(|begun| begun.send(()));
        let _ = wait.recv();
        Ok(db.execute("INSERT INTO t (x) VALUES (1)", [])?)
    });
    let task = task.await;
    running.await.unwrap();
    task.abort();
    drop(go);
    worker.call("testing", insert(2)).await.unwrap();
    assert_eq!(rows(&db), [1, 2]);
}

#[tokio::test]
async fn a_locked_file_is_waited_for_and_then_nothing_was_sent() {
    let folder = fast_folder();
    let (worker, db) = worker(&folder);
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = worker.call("testing", insert(1));
    let error =
        tokio::time::timeout(std::time::Duration::from_secs(20), waiting).await.expect("it gives up").unwrap_err();
    let StoreError::NotSent { source, .. } = &error else { panic!("{error:?}") };
    assert!(source.to_string().contains("another process"), "{source}");
    db.execute_batch("ROLLBACK").unwrap();
    worker.call("testing", insert(1)).await.unwrap();
    assert_eq!(rows(&db), [1]);
}

#[tokio::test]
async fn a_call_ends_by_itself_and_what_was_not_even_queued_was_not_sent() {
    let folder = fast_folder();
    let (worker, db) = worker(&folder);
    let worker = Arc::new(worker);
    let go = held_up(&worker).await;
    let mut waiting = Vec::new();
    for x in 0..QUEUE as i64 {
        waiting.push(queued(&worker, insert(x)).await);
    }
    let beyond = tokio::time::timeout(CALL_LIMIT * 2, worker.call("testing", insert(-1)));
    let error = beyond.await.expect("it ends by itself").unwrap_err();
    assert!(matches!(error, StoreError::NotSent { .. }), "{error:?}");
    for waiting in waiting {
        let error = waiting.await.unwrap().unwrap_err();
        assert!(matches!(error, StoreError::Unknown { .. }), "{error:?}");
    }
    drop(go);
    worker.call("testing", insert(-2)).await.unwrap();
    assert_eq!(rows(&db), [-2], "nobody waited for the others any more");
}

/// The store's clock is read when the lock is there: a lease counts from then.
#[tokio::test]
async fn the_clock_is_read_when_the_lock_is_free() {
    let folder = fast_folder();
    let store = Arc::new(SqliteStore::open(&file(&folder)).unwrap());
    let other = Connection::open(file(&folder)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let offering = tokio::spawn({
        let store = store.clone();
        let offer = ("a".parse().unwrap(), leasehold_lease::op::Announce { fingerprint: "x".into() });
        async move { store.announce(&[offer]).await }
    });
    tokio::time::sleep(std::time::Duration::from_millis(400)).await;
    assert!(!offering.is_finished(), "the file is locked");
    let released = store.now().await.unwrap();
    other.execute_batch("ROLLBACK").unwrap();
    let answer = offering.await.unwrap().unwrap().remove(0).unwrap();
    assert!(answer.now >= released, "{answer:?} is before {released:?}");
}

/// A worker that only looks, on a file of its own.
fn reader(folder: &TempDir, clock: Clock) -> Arc<Worker> {
    let path: Arc<Path> = file(folder).into();
    drop(SqliteStore::open(&path).unwrap());
    let db = open::connect(&path, Access::Read).unwrap();
    let station = Station { access: Access::Read, clock, ..station(&path, db) };
    Arc::new(Worker::start("sqlite-test", &path, station).unwrap())
}

#[tokio::test]
async fn looks_that_come_together_are_all_told_why_none_was_answered() {
    let folder = fast_folder();
    let worker = reader(&folder, clock::machine());
    let go = held_up(&worker).await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(queued(&worker, |_: &Desk, _| Ok(())).await);
    }
    std::fs::rename(file(&folder), folder.path().join("elsewhere")).unwrap();
    drop(go);
    for waiting in waiting {
        let error = waiting.await.unwrap().unwrap_err();
        let StoreError::NotSent { source, .. } = &error else { panic!("{error:?}") };
        assert!(matches!(source.downcast_ref(), Some(SqliteError::Moved { .. })), "{source}");
    }
}

/// Leases that are renewed while one of them takes long would otherwise seem to have run out.
#[tokio::test]
async fn looks_that_come_together_see_one_time() {
    let folder = fast_folder();
    let (clock, read) = TestClock::settable();
    let TestClock::Settable(set) = clock else { unreachable!("it can be set") };
    let worker = reader(&folder, read);
    let go = held_up(&worker).await;
    let began = Millis(set.load(std::sync::atomic::Ordering::SeqCst));
    let slow = queued(&worker, move |_: &Desk, now| {
        set.fetch_add(60_000, std::sync::atomic::Ordering::SeqCst);
        Ok(now)
    });
    let slow = slow.await;
    let next = queued(&worker, |_: &Desk, now| Ok(now)).await;
    drop(go);
    assert_eq!((slow.await.unwrap().unwrap(), next.await.unwrap().unwrap()), (began, began));
}

#[tokio::test]
async fn a_full_disk_costs_the_request_that_needs_the_room() {
    let folder = fast_folder();
    let path: Arc<Path> = file(&folder).into();
    drop(SqliteStore::open(&path).unwrap());
    let db = open::connect(&path, Access::Write).unwrap();
    db.execute_batch("CREATE TABLE t (x INTEGER PRIMARY KEY, filler BLOB)").unwrap();
    // SQLite answers the same when a file may not grow as when the disk is full.
    let pages: i64 = db.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    db.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).unwrap();
    let worker = Arc::new(Worker::start("sqlite-test", &path, station(&path, db)).unwrap());
    let go = held_up(&worker).await;
    let small = queued(&worker, insert(1)).await;
    let large =
        queued(&worker, |db: &Desk, _| Ok(db.execute("INSERT INTO t (x, filler) VALUES (2, zeroblob(100000))", [])?));
    let large = large.await;
    let other = queued(&worker, insert(3)).await;
    drop(go);
    small.await.unwrap().unwrap();
    other.await.unwrap().unwrap();
    let error = large.await.unwrap().unwrap_err();
    let StoreError::NotSent { source, .. } = &error else { panic!("{error:?}") };
    assert!(source.to_string().contains("disk is full"), "{source}");
    assert_eq!(rows(&Connection::open(&path).unwrap()), [1, 3]);
}

#[tokio::test]
async fn what_takes_the_whole_transaction_down_is_run_again_one_by_one() {
    let folder = fast_folder();
    let (worker, db) = worker(&folder);
    let worker = Arc::new(worker);
    let go = held_up(&worker).await;
    let first = queued(&worker, insert(1)).await;
    // SQLite itself rolls everything back on some failures of the disk.
    let fatal = queued(&worker, |db: &Desk, _| Ok(db.execute_batch("ROLLBACK")?)).await;
    let last = queued(&worker, insert(2)).await;
    drop(go);
    first.await.unwrap().unwrap();
    last.await.unwrap().unwrap();
    assert!(fatal.await.unwrap().is_err());
    assert_eq!(rows(&db), [1, 2]);
}

#[tokio::test]
async fn a_failed_commit_may_have_happened() {
    let folder = fast_folder();
    let (worker, _) = worker(&folder);
    // A deferred foreign key is checked at the commit.
    let orphan = |db: &Desk, _| {
        db.execute_batch("PRAGMA defer_foreign_keys = ON")?;
        Ok(db.execute("INSERT INTO gone (job, demand, at) VALUES (77, 'x', 1)", [])?)
    };
    let error = worker.call("testing", orphan).await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown { .. }), "{error:?}");
    worker.call("testing", insert(1)).await.unwrap();
}

#[tokio::test]
async fn the_reading_connection_cannot_write() {
    let folder = fast_folder();
    let store = SqliteStore::open(&file(&folder)).unwrap();
    let error = store.reads.call("testing", |db: &Desk, _| Ok(db.execute("DELETE FROM runs", [])?));
    assert!(matches!(error.await, Err(StoreError::NotSent { .. })));
}

#[test]
fn a_write_after_a_read_does_not_fail_at_once_when_another_writes() {
    // The trap that BEGIN IMMEDIATE avoids: a deferred transaction that has read gets no second chance.
    let folder = fast_folder();
    drop(SqliteStore::open(&file(&folder)).unwrap());
    let [first, second] = [0, 1].map(|_| open::connect(&file(&folder), Access::Write).unwrap());
    first.execute_batch("BEGIN; SELECT * FROM jobs").unwrap();
    first.query_row("SELECT count(*) FROM jobs", [], |_| Ok(())).unwrap();
    second.execute_batch("CREATE TABLE u (x)").unwrap();
    let error = first.execute_batch("CREATE TABLE v (x)").unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
}

#[test]
fn a_heartbeat_has_the_turn_before_all_other_writers() {
    let turnstile = Turnstile::default();
    for _ in 0..50 {
        let order = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let turn = turnstile.enter(false);
            scope.spawn(|| {
                let _turn = turnstile.enter(true);
                order.lock().unwrap().push("heartbeat");
            });
            while turnstile.waiting_urgently() == 0 {
                std::thread::yield_now();
            }
            drop(turn);
            // This thread is awake and the other one is not: it would be first if it might.
            let _turn = turnstile.enter(false);
            order.lock().unwrap().push("another writer");
        });
        assert_eq!(*order.lock().unwrap(), ["heartbeat", "another writer"]);
    }
}
