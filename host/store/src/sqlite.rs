//! SQLite: one file for the hosts of one machine.
//!
//! A verb loads the job under the file's write lock, asks [`leasehold_lease::rules`] and writes the difference. The
//! machine's clock is the store's clock.
//!
//! Three connections, each on a thread of its own: one for heartbeats, which no claim or log line may hold up, one for
//! the other changes, and one that only reads. A fourth thread puts what they commit on the disk.

mod beside;
mod busy;
mod codec;
mod desk;
mod error;
mod flushes;
mod guard;
mod load;
mod open;
mod read;
mod save;
mod schema;
mod turnstile;
mod verbs;
mod worker;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

pub use error::{OpenError, SqliteError};

use self::desk::Desk;
use self::flushes::Flushes;
use self::guard::FileGuard;
use self::turnstile::Turnstile;
use self::worker::{Access, BATCH, Station, Worker};
use crate::clock::{self, Clock};
use crate::view::Identity;
use crate::wakeups::Wakeups;

/// A store in one SQLite file. Dropping it serves the calls that have arrived, and closes the file.
pub struct SqliteStore {
    path: Arc<Path>,
    clock: Clock,
    identity: Identity,
    wakeups: Wakeups,
    heartbeats: Arc<Worker>,
    changes: Arc<Worker>,
    reads: Arc<Worker>,
}

impl SqliteStore {
    /// Opens the file, and makes it where it is missing. Blocks for as long as that takes.
    ///
    /// # Errors
    ///
    /// The file cannot be made or read, lies on a network file system, or was not written by this version or an older
    /// one of Leasehold.
    pub fn open(path: &Path) -> Result<SqliteStore, OpenError> {
        SqliteStore::open_with_clock(path, clock::machine())
    }

    /// The same on another clock than the machine's, for tests.
    ///
    /// # Errors
    ///
    /// As [`SqliteStore::open`].
    fn open_with_clock(path: &Path, clock: Clock) -> Result<SqliteStore, OpenError> {
        SqliteStore::open_sharing(path, clock, BATCH)
    }

    /// The same with a commit for each call, to measure what it is worth that calls share one.
    pub(crate) fn open_unshared(path: &Path) -> Result<SqliteStore, OpenError> {
        SqliteStore::open_sharing(path, clock::machine(), 1)
    }

    /// At most `batch` calls share a commit.
    fn open_sharing(path: &Path, clock: Clock, batch: usize) -> Result<SqliteStore, OpenError> {
        let path: Arc<Path> = open::place(path)?.into();
        let lost = |source| OpenError::Folder { path: path.to_path_buf(), source };
        let mut first = open::connect(&path, Access::Write)?;
        let identity = schema::prepare(&mut first, &path)?;
        let file = FileGuard::of(&path).map_err(lost)?;
        let flush = flushes::of_log(&path).map_err(lost)?;
        let flushes = Arc::new(Flushes::start(&path, flush, batch)?);
        let heartbeats = open::connect(&path, Access::Heartbeat)?;
        let reads = open::connect(&path, Access::Read)?;
        let turnstile = Arc::new(Turnstile::default());
        let start = |name, db, access| {
            let (file, turnstile, flushes) = (file.clone(), turnstile.clone(), Some(flushes.clone()));
            let desk = Desk::new(db);
            let station = Station { desk, file, access, turnstile, flushes, clock: clock.clone(), batch };
            Worker::start(name, &path, station).map(Arc::new)
        };
        Ok(SqliteStore {
            heartbeats: start("sqlite-beats", heartbeats, Access::Heartbeat)?,
            changes: start("sqlite-changes", first, Access::Write)?,
            reads: start("sqlite-reads", reads, Access::Read)?,
            path,
            clock,
            identity,
            wakeups: Wakeups::default(),
        })
    }

    /// Opens a file that is there to read from it: it waits for no writer and changes nothing. Every verb that would
    /// change something is refused by SQLite. Blocks for as long as that takes.
    ///
    /// # Errors
    ///
    /// The file cannot be read, lies on a network file system, or was not written by exactly the schema of this
    /// version: bringing it up to date is for a host to do.
    pub fn open_for_reading(path: &Path) -> Result<SqliteStore, OpenError> {
        let path: Arc<Path> = open::existing(path)?.into();
        let db = open::connect(&path, Access::Read)?;
        let identity = schema::read(&db, &path)?;
        let file = FileGuard::of(&path).map_err(|source| OpenError::Folder { path: path.to_path_buf(), source })?;
        let clock = clock::machine();
        let (access, turnstile) = (Access::Read, Arc::default());
        let desk = Desk::new(db);
        let station = Station { desk, file, access, turnstile, flushes: None, clock: clock.clone(), batch: BATCH };
        let only = Arc::new(Worker::start("sqlite-reads", &path, station)?);
        let (heartbeats, changes) = (Arc::clone(&only), Arc::clone(&only));
        Ok(SqliteStore { heartbeats, changes, reads: only, path, clock, identity, wakeups: Wakeups::default() })
    }
}
