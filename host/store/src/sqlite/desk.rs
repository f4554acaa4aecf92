//! A connection, with the jobs that were changed over it last.
//!
//! Most changes concern jobs that this process changed a moment ago: a claim, and then the end of that run. As long as
//! nobody else has written to the file, what the connection wrote is what the file holds, and need not be read again.
//! Measured with 50 callers, reading took a third of a busy writer's time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Deref;

use leasehold_lease::id::{Attempt, JobKey, RunId};
use leasehold_lease::run::{Run, Status};
use rusqlite::Connection;

use super::error::Fault;
use super::load::Loaded;
use super::schema;

/// Jobs that are kept at most: some 15 MB. Beyond that all are forgotten, and read again as they come.
const JOBS: usize = 16_384;

/// Running runs of a job that is kept, at most.
const RUNS: usize = 16;

pub(super) struct Desk {
    db: Connection,
    kept: RefCell<Kept>,
}

#[derive(Default)]
struct Kept {
    /// SQLite's number for what other connections have written; none before the first transaction.
    version: Option<i64>,
    jobs: HashMap<JobKey, Loaded>,
}

impl Deref for Desk {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.db
    }
}

impl Desk {
    pub(super) fn new(db: Connection) -> Desk {
        Desk { db, kept: RefCell::default() }
    }

    /// To be called in each new transaction. Where another connection has written since the last one, nothing is known
    /// any more: neither the jobs, nor whether this version still knows the schema.
    pub(super) fn begun(&self) -> Result<(), Fault> {
        let version = self.db.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        let mut kept = self.kept.borrow_mut();
        if kept.version != Some(version) {
            schema::still_known(&self.db)?;
            *kept = Kept { version: Some(version), jobs: HashMap::new() };
        }
        Ok(())
    }

    /// To be called after a transaction that was not committed, or may not have been.
    pub(super) fn forget(&self) {
        self.kept.borrow_mut().jobs.clear();
    }

    /// A job as it was written, with every running run as a whole. It is not kept any more: who changes it says what it
    /// is then, and where that fails it has to be read.
    pub(super) fn take(&self, key: &JobKey) -> Option<Loaded> {
        self.kept.borrow_mut().jobs.remove(key)
    }

    /// Keeps a job as it was written, if every running run is there and nothing of them is missing.
    pub(super) fn keep(&self, key: &JobKey, mut written: Loaded) {
        if !written.all_running {
            return;
        }
        let Loaded { run_rows, job, .. } = &mut written;
        job.runs.retain(|_, run| run.status == Status::Running);
        job.gone.clear();
        run_rows.retain(|id, _| job.runs.contains_key(id));
        if job.runs.len() > RUNS || !job.runs.iter().all(is_whole) {
            return;
        }
        let jobs = &mut self.kept.borrow_mut().jobs;
        if jobs.len() >= JOBS {
            jobs.clear();
        }
        jobs.insert(key.clone(), written);
    }
}

/// Of later attempts only the newest may have been read, and of on-demand runs not what they work on.
fn is_whole((id, run): (&RunId, &Run)) -> bool {
    matches!(id, RunId::Slot(_)) && run.attempt() == Attempt(1)
}
