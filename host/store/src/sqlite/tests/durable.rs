//! An answer survives the loss of power: it is given once the disk has what it tells.

use std::sync::mpsc;
use std::time::Duration;
use std::{fs, io};

use tokio::time::timeout;

use super::super::desk::Desk;
use super::super::error::SqliteError;
use super::super::flushes::of_log;
use super::threads::{insert, queued, rows, station};
use super::*;
use crate::test_support::PATIENCE;

/// Long enough for an answer that waits for nothing, and short enough to wait for.
const SOON: Duration = Duration::from_millis(300);

/// A disk that does what the test says: each flush waits for one answer.
struct Disk {
    flushing: mpsc::Receiver<()>,
    answers: mpsc::Sender<io::Result<()>>,
}

impl Disk {
    /// Waits until somebody flushes.
    fn is_flushing(&self) {
        self.flushing.recv_timeout(PATIENCE).expect("somebody flushes");
    }
}

/// Workers that write and that look, on one file and this disk, and a connection beside them.
fn workers(folder: &TempDir) -> (Arc<Worker>, Arc<Worker>, Disk, Connection) {
    let path: Arc<Path> = file(folder).into();
    drop(SqliteStore::open(&path).unwrap());
    let db = open::connect(&path, Access::Write).unwrap();
    db.execute_batch("CREATE TABLE t (x INTEGER PRIMARY KEY, filler BLOB)").unwrap();
    let ((begun, flushing), (answers, answer)) = (mpsc::channel(), mpsc::channel());
    let flush = move || {
        // A test that looks at the disk no more lets everything go.
        let _ = begun.send(());
        answer.recv().unwrap_or(Ok(()))
    };
    let flushes = Some(Arc::new(Flushes::start(&path, Box::new(flush), BATCH).unwrap()));
    let writes = Station { flushes: flushes.clone(), ..station(&path, db) };
    let db = open::connect(&path, Access::Read).unwrap();
    let looks = Station { access: Access::Read, flushes, ..station(&path, db) };
    let start = |station| Arc::new(Worker::start("sqlite-test", &path, station).unwrap());
    (start(writes), start(looks), Disk { flushing, answers }, Connection::open(&path).unwrap())
}

#[tokio::test]
async fn a_change_is_answered_when_the_disk_has_it_and_not_before() {
    let folder = fast_folder();
    let (writes, _, disk, db) = workers(&folder);
    let write = queued(&writes, insert(1)).await;
    disk.is_flushing();
    assert_eq!(rows(&db), [1], "others see it");
    tokio::task::yield_now().await;
    assert!(!write.is_finished(), "and nobody was told");
    disk.answers.send(Ok(())).unwrap();
    write.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_next_changes_are_made_during_a_flush_and_share_the_one_after_it() {
    let folder = fast_folder();
    let (writes, _, disk, db) = workers(&folder);
    let first = queued(&writes, insert(1)).await;
    disk.is_flushing();
    let mut second = queued(&writes, insert(2)).await;
    while rows(&db) != [1, 2] {
        tokio::task::yield_now().await;
    }
    disk.answers.send(Ok(())).unwrap();
    first.await.unwrap().unwrap();
    disk.is_flushing();
    assert!(timeout(SOON, &mut second).await.is_err(), "the flush of the first may have begun before it");
    disk.answers.send(Ok(())).unwrap();
    second.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_look_during_a_flush_waits_for_the_next() {
    let folder = fast_folder();
    let (writes, looks, disk, _) = workers(&folder);
    let look = queued(&looks, |db: &Desk, _| Ok(rows(db))).await;
    assert_eq!(look.await.unwrap().unwrap(), Vec::<i64>::new(), "nothing could be lost: it waits for no flush");
    let write = queued(&writes, insert(1)).await;
    disk.is_flushing();
    let (looked, has_looked) = mpsc::channel();
    let look = queued(&looks, move |db: &Desk, _| {
        looked.send(()).expect("the test goes on");
        Ok(rows(db))
    });
    let mut look = look.await;
    has_looked.recv().unwrap();
    assert!(timeout(SOON, &mut look).await.is_err() && !write.is_finished());
    drop(disk);
    write.await.unwrap().unwrap();
    assert_eq!(look.await.unwrap().unwrap(), [1]);
}

#[tokio::test]
async fn what_the_disk_did_not_keep_may_have_happened_and_the_next_answer_has_it_in_the_file() {
    let folder = fast_folder();
    let (writes, _, disk, _) = workers(&folder);
    let lost = queued(&writes, insert(1)).await;
    disk.is_flushing();
    disk.answers.send(Err(io::Error::from_raw_os_error(5))).unwrap();
    let error = lost.await.unwrap().unwrap_err();
    let StoreError::Unknown { source, .. } = &error else { panic!("{error:?}") };
    assert!(matches!(source.downcast_ref(), Some(SqliteError::NotFlushed { .. })), "{source}");
    // The disk would say that all is well now, and is not asked: the log's pages may be gone.
    let next = queued(&writes, insert(2)).await;
    next.await.unwrap().unwrap();
    assert!(disk.flushing.try_recv().is_err(), "the log was not trusted");
    let copy = folder.path().join("copy.db");
    fs::copy(file(&folder), &copy).unwrap();
    assert_eq!(rows(&Connection::open(copy).unwrap()), [1, 2], "the file has them without its log");
    // After that the log can be trusted again.
    let last = queued(&writes, insert(3)).await;
    disk.is_flushing();
    disk.answers.send(Ok(())).unwrap();
    last.await.unwrap().unwrap();
}

#[test]
fn the_flush_of_a_log_that_is_there_works() {
    let folder = tempfile::tempdir().unwrap();
    assert!(of_log(&file(&folder)).is_err(), "there is none yet");
    let db = open::connect(&file(&folder), Access::Write);
    assert!(db.is_err(), "it is made by `place`");
    let _store = SqliteStore::open(&file(&folder)).unwrap();
    of_log(&file(&folder)).unwrap()().unwrap();
}

/// Without the old log or the old locks, the next process that opens the file works beside this one: both would win.
#[tokio::test]
async fn a_log_or_an_index_that_is_removed_is_noticed() {
    for end in ["-wal", "-shm"] {
        let folder = fast_folder();
        let store = SqliteStore::open(&file(&folder)).unwrap();
        fs::remove_file(open::beside(&file(&folder), end)).unwrap();
        let error = store.heartbeats(&[]).await.unwrap_err();
        let StoreError::NotSent { source, .. } = &error else { panic!("{error:?}") };
        assert!(source.to_string().contains(&format!("its {end} is no longer there")), "{source}");
    }
}
