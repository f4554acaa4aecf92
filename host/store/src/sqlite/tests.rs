//! SQLite under the suite that every driver passes, and its own traps.

mod desk;
mod durable;
mod files;
mod older;
mod processes;
mod threads;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use leasehold_lease::time::Millis;
use rusqlite::Connection;

use super::error::Fault;
use super::*;
use crate::conformance::{Bench, TestClock};
use crate::{LeaseStore, StoreError};

/// A folder in memory where there is one: most tests are not about the disk, and each commit waits for it.
fn fast_folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.expect("a folder")
}

fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("leasehold.db")
}

async fn on_a_set_clock() -> Bench {
    let folder = fast_folder();
    let (clock, read) = TestClock::settable();
    let store = SqliteStore::open_with_clock(&file(&folder), read).expect("a store");
    Bench::new(Arc::new(store), clock, folder)
}

crate::conformance_tests!(on_a_set_clock);

mod on_the_machines_clock {
    use super::*;

    async fn make() -> Bench {
        let folder = tempfile::tempdir().expect("a folder");
        let store = SqliteStore::open(&file(&folder)).expect("a store");
        Bench::new(Arc::new(store), TestClock::Real, folder)
    }

    crate::conformance_tests!(make);
}
