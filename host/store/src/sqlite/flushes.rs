//! Puts commits on the disk, several at once, while the next are being made.
//!
//! A commit with `synchronous = NORMAL` stands in the write-ahead log, and only the system's memory holds that. An answer
//! must survive the loss of power, so nobody is answered before the log is flushed; but a thread of its own does that,
//! and the writer goes on meanwhile. Measured with 50 callers: the writer stood still for a third of the time while it
//! flushed itself, as SQLite does with `synchronous = FULL`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use super::error::{Fault, OpenError};
use super::open;
use super::worker::{Access, Batch, Fate, tell};

/// Batches that may wait for the disk. The writers wait beyond that: a slow disk must not fill the memory.
const QUEUE: usize = 2;

/// Waits until what the log holds is on the disk.
pub(super) type Flush = Box<dyn FnMut() -> io::Result<()> + Send>;

/// The thread that flushes. Dropping it answers what is in the queue first.
pub(super) struct Flushes {
    queue: Option<SyncSender<Made>>,
    thread: Option<JoinHandle<()>>,
    /// Commits that are begun and not yet known to be on the disk.
    owed: Arc<AtomicU64>,
}

/// Requests that were carried out, to be answered after the next flush.
struct Made {
    batch: Batch,
    commits: u64,
}

impl Flushes {
    /// Starts the thread. At most `together` batches are answered after one flush.
    pub(super) fn start(path: &Arc<Path>, flush: Flush, together: usize) -> Result<Flushes, OpenError> {
        let (queue, made) = mpsc::sync_channel(QUEUE);
        let owed = Arc::new(AtomicU64::new(0));
        let disk = Disk { path: path.clone(), flush, sound: true };
        let counted = owed.clone();
        let thread = thread::Builder::new()
            .name("sqlite-flushes".to_owned())
            .spawn(move || serve(disk, &made, &counted, together))
            .map_err(|source| OpenError::Thread { path: PathBuf::from(&**path), source })?;
        Ok(Flushes { queue: Some(queue), thread: Some(thread), owed })
    }

    /// Commits by `commit`, which others may see before it returns.
    pub(super) fn commit(&self, commit: impl FnOnce() -> Result<(), Fault>) -> Result<(), Fault> {
        self.owed.fetch_add(1, Ordering::SeqCst);
        let committed = commit();
        if committed.is_err() {
            self.owed.fetch_sub(1, Ordering::SeqCst);
        }
        committed
    }

    /// Answers requests of this many commits once these are on the disk.
    pub(super) fn answer(&self, batch: Batch, commits: u64) {
        let queue = self.queue.as_ref().expect("the queue is closed only by drop");
        // Whoever asked is told by the end of the channel that the thread has ended.
        let _ = queue.send(Made { batch, commits });
    }

    /// Answers requests that have only looked, once nothing they can have seen could still be lost.
    pub(super) fn answer_looks(&self, batch: Batch) {
        if self.are_owed() {
            self.answer(batch, 0);
        } else {
            tell(batch, &Fate::Committed);
        }
    }

    /// Whether something was committed that is not on the disk yet.
    pub(super) fn are_owed(&self) -> bool {
        self.owed.load(Ordering::SeqCst) > 0
    }
}

impl Drop for Flushes {
    fn drop(&mut self) {
        self.queue = None;
        let Some(thread) = self.thread.take() else { return };
        if thread.join().is_err() {
            tracing::error!("the thread that flushes the store panicked");
        }
    }
}

fn serve(mut disk: Disk, made: &Receiver<Made>, owed: &AtomicU64, together: usize) {
    let mut unsettled = 0;
    while let Ok(first) = made.recv() {
        let arrived: Vec<Made> = std::iter::once(first).chain(made.try_iter()).take(together).collect();
        unsettled += arrived.iter().map(|made| made.commits).sum::<u64>();
        let kept = disk.keep();
        if kept.is_ok() {
            owed.fetch_sub(std::mem::take(&mut unsettled), Ordering::SeqCst);
        }
        let fate = kept.as_ref().map_or_else(Fate::Uncertain, |()| Fate::Committed);
        arrived.into_iter().for_each(|made| tell(made.batch, &fate));
    }
}

struct Disk {
    path: Arc<Path>,
    flush: Flush,
    /// Whether the last flush worked.
    sound: bool,
}

impl Disk {
    /// Puts all that was committed before on the disk.
    fn keep(&mut self) -> Result<(), Fault> {
        let kept = if self.sound { (self.flush)().map_err(Fault::NotFlushed) } else { self.write_back() };
        self.sound = kept.is_ok();
        kept
    }

    /// After a flush that failed the next one may succeed although the pages were lost: systems report such a failure
    /// once, and forget it. What the log holds is still right as it is read, so SQLite copies all of it into the database
    /// file and flushes that.
    fn write_back(&self) -> Result<(), Fault> {
        let db = open::connect(&self.path, Access::Write).map_err(|error| match error {
            OpenError::Sqlite { source, .. } => Fault::Sql(source),
            other => Fault::NotFlushed(io::Error::other(other)),
        })?;
        let busy: bool = db.query_row("PRAGMA wal_checkpoint(FULL)", [], |row| row.get(0))?;
        match busy {
            false => Ok(()),
            true => Err(Fault::NotFlushed(io::ErrorKind::ResourceBusy.into())),
        }
    }
}

/// The flush of the write-ahead log beside this file, which a connection must have opened and keep open: the log is
/// removed with the last of them. SQLite holds no locks on it that closing this handle could take away.
pub(super) fn of_log(path: &Path) -> io::Result<Flush> {
    let log = std::fs::File::open(open::beside(path, "-wal"))?;
    Ok(Box::new(move || log.sync_data()))
}
