//! Notices that the database file was deleted, moved or replaced under a running process.
//!
//! SQLite would go on writing into the file that no name leads to any more, while the next process begins a new one: both
//! would win every run.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use super::error::Fault;

/// The file that was opened, by device and inode.
#[derive(Debug, Clone)]
pub(super) struct FileGuard {
    path: Arc<Path>,
    opened: (u64, u64),
}

impl FileGuard {
    /// Of the file that has just been opened.
    pub(super) fn of(path: &Path) -> io::Result<FileGuard> {
        Ok(FileGuard { path: path.into(), opened: identity(path)? })
    }

    /// An error when another file, or none, lies there now.
    pub(super) fn check(&self) -> Result<(), Fault> {
        match identity(&self.path) {
            Ok(found) if found == self.opened => Ok(()),
            Ok(_) => Err(Fault::Moved("another file lies in its place")),
            Err(_) => Err(Fault::Moved("it is no longer there")),
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::metadata(path).map(|found| (found.dev(), found.ino()))
}
