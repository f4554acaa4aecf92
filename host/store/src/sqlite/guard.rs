//! Notices that the database file was deleted, moved or replaced under a running process.
//!
//! SQLite would go on writing into the file that no name leads to any more, while the next process begins a new one: both
//! would win every run.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use super::error::Fault;
use super::open;

/// The file that was opened and those that SQLite keeps beside it, its write-ahead log and the index of that with its
/// locks, by device and inode.
#[derive(Debug, Clone)]
pub(super) struct FileGuard {
    file: Opened,
    log: Opened,
    index: Opened,
}

#[derive(Debug, Clone)]
struct Opened {
    path: Arc<Path>,
    identity: (u64, u64),
}

impl FileGuard {
    /// Of the file that has just been opened. What lies beside it is there once something was read.
    pub(super) fn of(path: &Path) -> io::Result<FileGuard> {
        let beside = |end| Opened::now(&open::beside(path, end));
        Ok(FileGuard { file: Opened::now(path)?, log: beside("-wal")?, index: beside("-shm")? })
    }

    /// An error when another file, or none, lies there now.
    pub(super) fn check(&self) -> Result<(), Fault> {
        self.file.check("another file lies in its place", "it is no longer there")?;
        self.log.check("another file lies in the place of its -wal", "its -wal is no longer there")?;
        self.index.check("another file lies in the place of its -shm", "its -shm is no longer there")
    }
}

impl Opened {
    fn now(path: &Path) -> io::Result<Opened> {
        Ok(Opened { path: path.into(), identity: identity(path)? })
    }

    fn check(&self, replaced: &'static str, gone: &'static str) -> Result<(), Fault> {
        match identity(&self.path) {
            Ok(found) if found == self.identity => Ok(()),
            Ok(_) => Err(Fault::Moved(replaced)),
            Err(_) => Err(Fault::Moved(gone)),
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::metadata(path).map(|found| (found.dev(), found.ino()))
}
