//! Files that only the benchmark needs, and how quick their disk is.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::error::BenchError;
use crate::clock::since_boot;

/// What a commit writes at least: a page of SQLite's log.
const BLOCK: [u8; 4096] = [0x5a; 4096];

/// Blocks of the file that the disk is measured with, which are written over and over.
const BLOCKS: u64 = 256;

/// A folder that is removed when the value is dropped.
pub(super) struct Folder(TempDir);

impl Folder {
    /// Makes one inside `parent`.
    pub(super) fn create(parent: &Path) -> Result<Folder, BenchError> {
        let made = tempfile::Builder::new().prefix("leasehold-bench-").tempdir_in(parent);
        made.map(Folder).map_err(|source| BenchError::Folder { path: parent.to_owned(), source })
    }

    /// A file in it.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// How often a second a block can be written and be safe on the disk: the same file, whose length stays, so that nothing
/// but the data is flushed.
pub(super) fn flushes(path: &Path, round: Duration) -> io::Result<f64> {
    let mut file = File::create(path)?;
    for _ in 0..BLOCKS {
        file.write_all(&BLOCK)?;
    }
    file.sync_all()?;
    let begun = since_boot();
    let mut done = 0;
    loop {
        file.write_all_at(&BLOCK, done % BLOCKS * BLOCK.len() as u64)?;
        file.sync_data()?;
        done += 1;
        let took = since_boot().saturating_sub(begun);
        if took >= round {
            return Ok(done as f64 / took.as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_value_and_the_disk_is_measured() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::create(parent.path()).unwrap();
        assert!(flushes(&folder.file("disk"), Duration::from_millis(10)).unwrap() > 0.0);
        drop(folder);
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_told_with_its_place() {
        let error = Folder::create(Path::new("/no/such/folder")).err().unwrap();
        assert!(error.to_string().contains("/no/such/folder"), "{error}");
    }
}
