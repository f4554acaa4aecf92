//! What people and backups look at. Nothing here decides or changes anything.

use std::collections::BTreeMap;

use leasehold_lease::id::{JobKey, RunId, RunKey};
use leasehold_lease::run::{Job, Run};
use rusqlite::{Connection, Params};

use super::codec::{self, Columns};
use super::error::Fault;
use super::load;
use crate::store::{HistoryQuery, JobView, LogEntry, LogLine, RunView};

/// Unfinished runs of these jobs, ordered by key, from after `after`, at most `limit`.
pub(super) fn unfinished(
    db: &Connection,
    jobs: &[JobKey],
    after: Option<&RunKey>,
    limit: usize,
) -> Result<Vec<RunView>, Fault> {
    let mut keys: Vec<&JobKey> = jobs.iter().filter(|key| after.is_none_or(|after| after.job <= **key)).collect();
    keys.sort();
    keys.dedup();
    let mut found = Vec::new();
    for key in keys {
        if found.len() == limit {
            break;
        }
        let Some((row, job)) = load::job_record(db, key)? else { continue };
        let (slot, demand) = match after {
            Some(after) if after.job == *key => codec::run_columns(&after.run),
            _ => (None, None),
        };
        let arguments = (row, slot, demand, codec::limit(limit - found.len()));
        found.extend(views(db, key, &job, include_str!("sql/runs_unfinished.sql"), arguments)?);
    }
    Ok(found)
}

/// The runs of these keys, in their order.
pub(super) fn check(db: &Connection, runs: &[RunKey]) -> Result<Vec<Option<RunView>>, Fault> {
    let one = |key: &RunKey| {
        let Some((row, job)) = load::job_record(db, &key.job)? else { return Ok(None) };
        let (slot, demand) = codec::run_columns(&key.run);
        let found = views(db, &key.job, &job, include_str!("sql/run.sql"), (row, slot, demand))?;
        Ok(found.into_iter().next())
    };
    runs.iter().map(one).collect()
}

/// Runs, newest first.
pub(super) fn history(db: &Connection, query: &HistoryQuery) -> Result<Vec<RunView>, Fault> {
    let status = query.status.map(|status| status.word());
    let since = query.since.map(|since| since.0);
    let limit = codec::limit(query.limit);
    let Some(key) = &query.job else { return history_of_all(db, (status, since, limit)) };
    let Some((row, job)) = load::job_record(db, key)? else { return Ok(Vec::new()) };
    views(db, key, &job, include_str!("sql/history_of_job.sql"), (row, status, since, limit))
}

fn history_of_all(db: &Connection, arguments: impl Params) -> Result<Vec<RunView>, Fault> {
    let mut statement = db.prepare_cached(include_str!("sql/history_of_all.sql"))?;
    let mut rows = statement.query(arguments)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let what = || "a run".to_owned();
        let columns = Columns::new(row, &what);
        let key = columns.job_key()?;
        let newest_started = columns.some_slot("newest_started")?;
        let newest_skipped = columns.some_slot("newest_skipped")?;
        let job = Job { newest_started, newest_skipped, ..Job::default() };
        found.push(view(db, &key, &job, load::decode_run(row, &what)?)?);
    }
    Ok(found)
}

/// All jobs, ordered by key.
pub(super) fn jobs(db: &Connection) -> Result<Vec<JobView>, Fault> {
    let mut statement = db.prepare_cached(include_str!("sql/all_jobs.sql"))?;
    let mut rows = statement.query([])?;
    let mut known = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let row = Columns::new(row, &|| "a job".to_owned());
        known.insert(row.job_key()?, load::decode_job(&row)?);
    }
    known.into_iter().map(|(key, (row, job))| job_view(db, key, row, job)).collect()
}

fn job_view(db: &Connection, key: JobKey, row: i64, job: Job) -> Result<JobView, Fault> {
    let newest = (row, None::<&str>, None::<i64>, 1);
    let last = views(db, &key, &job, include_str!("sql/history_of_job.sql"), newest)?;
    let count: i64 = db.prepare_cached(include_str!("sql/count_unfinished.sql"))?.query_row([row], |row| row.get(0))?;
    Ok(JobView {
        key,
        revision: job.revision,
        newest_started: job.newest_started,
        newest_skipped: job.newest_skipped,
        since: job.since,
        last_offered: job.last_offered,
        unfinished: count.cast_unsigned(),
        last: last.into_iter().next(),
    })
}

/// A run's log lines after the one with this number.
pub(super) fn log(db: &Connection, key: &RunKey, after: u64, limit: usize) -> Result<Vec<LogEntry>, Fault> {
    let Some((job, _)) = load::job_record(db, &key.job)? else { return Ok(Vec::new()) };
    let Some((run, _)) = load::run(db, &key.job, job, &key.run)? else { return Ok(Vec::new()) };
    let Ok(after) = i64::try_from(after) else { return Ok(Vec::new()) };
    let mut statement = db.prepare_cached(include_str!("sql/logs.sql"))?;
    let mut rows = statement.query((run, after, codec::limit(limit)))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(decode_log(&Columns::new(row, &|| format!("a log line of run {key}")))?);
    }
    Ok(found)
}

fn decode_log(row: &Columns<'_>) -> Result<LogEntry, Fault> {
    let line = LogLine {
        at: row.millis("at")?,
        level: row.parse("level", codec::level)?,
        target: row.get("target")?,
        message: row.get("message")?,
        fields: row.parse("fields", codec::pairs)?,
    };
    Ok(LogEntry { sequence: row.bits("sequence")?, attempt: leasehold_lease::id::Attempt(row.get("attempt")?), line })
}

/// The runs that a query gives, each with all that is kept of it.
fn views(db: &Connection, key: &JobKey, job: &Job, sql: &str, arguments: impl Params) -> Result<Vec<RunView>, Fault> {
    load::runs(db, key, sql, arguments)?.into_iter().map(|found| view(db, key, job, found)).collect()
}

fn view(db: &Connection, key: &JobKey, job: &Job, found: (RunId, i64, Run)) -> Result<RunView, Fault> {
    let (id, row, mut run) = found;
    run.attempts = load::attempts(db, key, row, include_str!("sql/attempts.sql"))?;
    run.outcome = load::outcome(db, key, row, &run)?;
    run.payload = load::payload(db, row)?;
    Ok(RunView {
        key: RunKey { job: key.clone(), run: id },
        run,
        newest_started: job.newest_started,
        newest_skipped: job.newest_skipped,
    })
}
