//! SQLite: one file for the hosts of one machine.
//!
//! A verb loads the job under the file's write lock, asks [`leasehold_lease::rules`] and writes the difference. The
//! machine's clock is the store's clock.
//!
//! Three connections, each on a thread of its own: one for heartbeats, which no claim or log line may hold up, one for
//! the other changes, and one that only reads.

mod busy;
mod codec;
mod error;
mod guard;
mod load;
mod open;
mod read;
mod save;
mod schema;
mod turnstile;
mod worker;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use leasehold_lease::id::{JobKey, RunId, RunKey, Token};
use leasehold_lease::op::{
    Accepted, Announce, Claim, ClaimAnswer, Finish, Heartbeat, HeartbeatAnswer, Release, Stamped, Trigger,
    TriggerAnswer, WriteAnswer,
};
use leasehold_lease::rules;
use leasehold_lease::run::Job;
use leasehold_lease::time::Millis;
use rusqlite::{Connection, named_params};

pub use error::{OpenError, SqliteError};

use self::error::Fault;
use self::guard::FileGuard;
use self::load::Need;
use self::turnstile::Turnstile;
use self::worker::{Access, Station, Worker};
use crate::clock::{self, Clock};
use crate::memory::accepted;
use crate::store::{
    AnnounceAnswer, Checked, HistoryQuery, Identity, JobView, LeaseStore, LogEntry, LogLine, RunView, StoreError,
};

/// A store in one SQLite file. Dropping it serves the calls that have arrived, and closes the file.
pub struct SqliteStore {
    clock: Clock,
    identity: Identity,
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
    pub fn open_with_clock(path: &Path, clock: Clock) -> Result<SqliteStore, OpenError> {
        let path: Arc<Path> = open::place(path)?.into();
        let file = FileGuard::of(&path).map_err(|source| OpenError::Folder { path: path.to_path_buf(), source })?;
        let mut first = open::connect(&path, Access::Write)?;
        let identity = schema::prepare(&mut first, &path)?;
        let heartbeats = open::connect(&path, Access::Heartbeat)?;
        let reads = open::connect(&path, Access::Read)?;
        let turnstile = Arc::new(Turnstile::default());
        let start = |name, db, access| {
            let station =
                Station { db, file: file.clone(), access, turnstile: turnstile.clone(), clock: clock.clone() };
            Worker::start(name, &path, station).map(Arc::new)
        };
        Ok(SqliteStore {
            heartbeats: start("sqlite-beats", heartbeats, Access::Heartbeat)?,
            changes: start("sqlite-changes", first, Access::Write)?,
            reads: start("sqlite-reads", reads, Access::Read)?,
            clock,
            identity,
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
        let file = FileGuard::of(&path).map_err(|source| OpenError::Folder { path: path.to_path_buf(), source })?;
        let db = open::connect(&path, Access::Read)?;
        let identity = schema::read(&db, &path)?;
        let clock = clock::machine();
        let station = Station { db, file, access: Access::Read, turnstile: Arc::default(), clock: clock.clone() };
        let only = Arc::new(Worker::start("sqlite-reads", &path, station)?);
        Ok(SqliteStore { heartbeats: Arc::clone(&only), changes: Arc::clone(&only), reads: only, clock, identity })
    }
}

#[async_trait]
impl LeaseStore for SqliteStore {
    async fn identity(&self) -> Result<Identity, StoreError> {
        Ok(self.identity.clone())
    }

    async fn now(&self) -> Result<Millis, StoreError> {
        Ok((self.clock)())
    }

    async fn claim(&self, job: &JobKey, claim: &Claim) -> Result<Stamped<ClaimAnswer>, StoreError> {
        let (key, claim) = (job.clone(), claim.clone());
        let work =
            move |db: &Connection, now| on(db, &key, &Need::Claim(&claim.run), |job| rules::claim(job, now, &claim));
        self.changes.call("claiming a run", work).await
    }

    async fn heartbeats(&self, beats: &[(JobKey, Heartbeat)]) -> Result<Checked<Vec<HeartbeatAnswer>>, StoreError> {
        let beats = beats.to_vec();
        let work = move |db: &Connection, now| {
            let renew = |(key, beat): &(JobKey, Heartbeat)| {
                Ok(on(db, key, &Need::Run(&beat.run), |job| rules::heartbeat(job, now, beat))?.answer)
            };
            Ok(Checked { now, answer: beats.iter().map(renew).collect::<Result<_, Fault>>()? })
        };
        self.heartbeats.call("renewing leases", work).await
    }

    async fn finish(&self, job: &JobKey, finish: &Finish) -> Result<Stamped<Accepted>, StoreError> {
        let (key, finish) = (job.clone(), finish.clone());
        let work =
            move |db: &Connection, now| on(db, &key, &Need::Run(&finish.run), |job| rules::finish(job, now, &finish));
        self.changes.call("recording the end of a run", work).await
    }

    async fn release(&self, job: &JobKey, release: &Release) -> Result<Stamped<Accepted>, StoreError> {
        let (key, release) = (job.clone(), release.clone());
        let work = move |db: &Connection, now| {
            on(db, &key, &Need::Run(&release.run), |job| rules::release(job, now, &release))
        };
        self.changes.call("handing a run over", work).await
    }

    async fn announce(&self, jobs: &[(JobKey, Announce)]) -> Result<Checked<Vec<AnnounceAnswer>>, StoreError> {
        let offers = jobs.to_vec();
        let work = move |db: &Connection, now| {
            let tell = |(key, offer): &(JobKey, Announce)| {
                on(db, key, &Need::JobOnly, |job| {
                    let since = rules::announce(job, now, offer).answer;
                    let Job { newest_started, newest_skipped, .. } = *job;
                    AnnounceAnswer { since, newest_started, newest_skipped }
                })
            };
            Ok(Checked { now, answer: offers.iter().map(tell).collect::<Result<_, Fault>>()? })
        };
        self.changes.call("announcing jobs", work).await
    }

    async fn trigger(&self, job: &JobKey, trigger: &Trigger) -> Result<Stamped<TriggerAnswer>, StoreError> {
        let (key, trigger) = (job.clone(), trigger.clone());
        let work = move |db: &Connection, now| {
            on(db, &key, &Need::Trigger(&trigger.id), |job| rules::trigger(job, now, &trigger))
        };
        self.changes.call("storing an on-demand run", work).await
    }

    async fn unfinished(
        &self,
        jobs: &[JobKey],
        after: Option<&RunKey>,
        limit: usize,
    ) -> Result<Checked<Vec<RunView>>, StoreError> {
        let (jobs, after) = (jobs.to_vec(), after.cloned());
        let work = move |db: &Connection, now| {
            Ok(Checked { now, answer: read::unfinished(db, &jobs, after.as_ref(), limit)? })
        };
        self.reads.call("looking for unfinished runs", work).await
    }

    async fn check(&self, runs: &[RunKey]) -> Result<Checked<Vec<Option<RunView>>>, StoreError> {
        let runs = runs.to_vec();
        let work = move |db: &Connection, now| Ok(Checked { now, answer: read::check(db, &runs)? });
        self.reads.call("looking at runs", work).await
    }

    async fn history(&self, query: &HistoryQuery) -> Result<Checked<Vec<RunView>>, StoreError> {
        let query = query.clone();
        let work = move |db: &Connection, now| Ok(Checked { now, answer: read::history(db, &query)? });
        self.reads.call("reading the history", work).await
    }

    async fn jobs(&self) -> Result<Checked<Vec<JobView>>, StoreError> {
        let work = move |db: &Connection, now| Ok(Checked { now, answer: read::jobs(db)? });
        self.reads.call("listing jobs", work).await
    }

    async fn append_log(
        &self,
        run: &RunKey,
        token: &Token,
        number: u64,
        lines: &[LogLine],
    ) -> Result<Stamped<Accepted>, StoreError> {
        let (key, token, lines) = (run.clone(), *token, lines.to_vec());
        let work = move |db: &Connection, now| {
            let need = Need::Run(&key.run);
            let decided = on(db, &key.job, &need, |job| rules::write(job, now, &key.run, &token, number))?;
            if decided.answer == WriteAnswer::Write {
                append(db, &key, &lines)?;
            }
            Ok(decided.map(accepted))
        };
        self.changes.call("appending to a log", work).await
    }

    async fn read_log(&self, run: &RunKey, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        let key = run.clone();
        let work = move |db: &Connection, _| read::log(db, &key, after, limit);
        self.reads.call("reading a log", work).await
    }

    async fn prune(&self, job: &JobKey, history_size: u32) -> Result<usize, StoreError> {
        let key = job.clone();
        let work = move |db: &Connection, now| {
            let pruned = on(db, &key, &Need::Prune(now), |job| rules::prune(job, now, history_size))?;
            Ok(pruned.answer.len())
        };
        self.changes.call("pruning old runs", work).await
    }
}

/// Carries out one rule on one job: loads what it needs, and writes what it changed.
fn on<A>(db: &Connection, key: &JobKey, need: &Need<'_>, rule: impl FnOnce(&mut Job) -> A) -> Result<A, Fault> {
    let loaded = load::job(db, key, need)?;
    let mut job = loaded.job.clone();
    let answer = rule(&mut job);
    save::difference(db, key, &loaded, &job)?;
    Ok(answer)
}

/// Writes log lines behind those that the run has.
fn append(db: &Connection, key: &RunKey, lines: &[LogLine]) -> Result<(), Fault> {
    let run = |id: &RunId| load::job(db, &key.job, &Need::Run(id));
    let loaded = run(&key.run)?;
    let row = loaded.run_rows[&key.run];
    let attempt = loaded.job.runs[&key.run].attempt();
    let last: i64 = db.prepare_cached(include_str!("sqlite/sql/last_log.sql"))?.query_row([row], |row| row.get(0))?;
    let mut statement = db.prepare_cached(include_str!("sqlite/sql/insert_log.sql"))?;
    for (sequence, line) in (last + 1..).zip(lines) {
        statement.execute(named_params! {
            ":run": row,
            ":sequence": sequence,
            ":attempt": attempt.0,
            ":at": line.at.0,
            ":level": codec::level_word(line.level),
            ":target": line.target,
            ":message": line.message,
            ":fields": codec::pairs_text(&line.fields)?,
        })?;
    }
    Ok(())
}
