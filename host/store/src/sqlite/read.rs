//! What people and backups look at. Nothing here decides or changes anything.

use std::collections::BTreeSet;

use leasehold_lease::id::{JobKey, RunId, RunKey, TenantName};
use leasehold_lease::log::LogLine;
use leasehold_lease::order;
use leasehold_lease::run::{Job, Run, Standing, Status};
use leasehold_lease::time::Millis;
use rusqlite::{Connection, OptionalExtension, Params, Row};

use super::codec::{self, Columns};
use super::error::Fault;
use super::load;
use crate::view::{HistoryQuery, JobView, LogEntry, RunStanding, RunView};

/// Unfinished runs of these tenants, ordered by key, from after `after`, at most `limit`.
///
/// A record that cannot be read is told in the log and passed over: the others still need their backups.
pub(super) fn unfinished(
    db: &Connection,
    tenants: &[TenantName],
    after: Option<&RunKey>,
    limit: usize,
) -> Result<Vec<RunStanding>, Fault> {
    let tenants: BTreeSet<&TenantName> =
        tenants.iter().filter(|tenant| after.is_none_or(|after| after.job.tenant <= **tenant)).collect();
    let mut found = Vec::new();
    for tenant in tenants {
        let from = after.filter(|after| after.job.tenant == *tenant).map_or("", |after| after.job.name.as_str());
        let mut statement = db.prepare_cached(include_str!("sql/jobs_of_tenant.sql"))?;
        let mut rows = statement.query((tenant.as_str(), from))?;
        while let Some(row) = rows.next()? {
            if found.len() >= limit {
                return Ok(found);
            }
            match unfinished_of(db, row, after, limit - found.len()) {
                Err(Fault::Damaged { what, reason }) => {
                    tracing::error!(what, reason, "a record cannot be read; the runs of its job have no backup");
                }
                of_job => found.extend(of_job?),
            }
        }
    }
    Ok(found)
}

fn unfinished_of(
    db: &Connection,
    row: &Row<'_>,
    after: Option<&RunKey>,
    limit: usize,
) -> Result<Vec<RunStanding>, Fault> {
    let what = || "a job".to_owned();
    let columns = Columns::new(row, &what);
    let (key, (row, job)) = (columns.job_key()?, load::decode_job(&columns)?);
    let (slot, demand) = match after {
        Some(after) if after.job == key => codec::run_columns(&after.run),
        _ => (None, None),
    };
    let arguments = (row, slot, demand, codec::limit(limit));
    let found = load::runs(db, &key, include_str!("sql/runs_unfinished.sql"), arguments)?;
    found.into_iter().map(|found| standing(db, &key, &job, found)).collect()
}

/// Where the runs of these keys stand, in their order.
pub(super) fn check(db: &Connection, runs: &[RunKey]) -> Result<Vec<RunStanding>, Fault> {
    let one = |key: &RunKey| {
        let unknown = RunStanding { key: key.clone(), standing: None, newest_started: None, newest_skipped: None };
        let Some((row, job)) = load::job_record(db, &key.job)? else { return Ok(unknown) };
        match load::run(db, &key.job, row, &key.run)? {
            Some((row, run)) => standing(db, &key.job, &job, (key.run.clone(), row, run)),
            None => {
                let Job { newest_started, newest_skipped, .. } = job;
                Ok(RunStanding { newest_started, newest_skipped, ..unknown })
            }
        }
    };
    runs.iter().map(one).collect()
}

/// Where a run stands: its record with its current attempt, and why it was given up.
fn standing(db: &Connection, key: &JobKey, job: &Job, found: (RunId, i64, Run)) -> Result<RunStanding, Fault> {
    let (id, row, mut run) = found;
    run.attempts = load::attempts(db, key, row, include_str!("sql/current_attempt.sql"))?;
    let mut standing = Standing::from(&run);
    if run.status == Status::Interrupted {
        let mut statement = db.prepare_cached(include_str!("sql/outcome_reason.sql"))?;
        standing.reason = statement.query_row([row], |row| row.get(0)).optional()?;
    }
    Ok(RunStanding {
        key: RunKey { job: key.clone(), run: id },
        standing: Some(standing),
        newest_started: job.newest_started,
        newest_skipped: job.newest_skipped,
    })
}

/// All that is kept of a run.
pub(super) fn show(db: &Connection, key: &RunKey) -> Result<Option<RunView>, Fault> {
    let Some((row, _)) = load::job_record(db, &key.job)? else { return Ok(None) };
    let (slot, demand) = codec::run_columns(&key.run);
    let found = views(db, &key.job, include_str!("sql/run.sql"), (row, slot, demand))?;
    Ok(found.into_iter().next())
}

/// Runs, newest first.
pub(super) fn history(db: &Connection, query: &HistoryQuery, now: Millis) -> Result<Vec<RunView>, Fault> {
    let status = query.status.map(|status| status.word());
    let of_job = match &query.job {
        Some(key) => match load::job_record(db, key)? {
            Some((row, _)) => Some((key, row)),
            None => return Ok(Vec::new()),
        },
        None => None,
    };
    let mut found = Vec::new();
    for (first, last) in spans(query.since, now) {
        let limit = codec::limit(query.limit - found.len());
        found.extend(match of_job {
            Some((key, row)) => {
                views(db, key, include_str!("sql/history_of_job.sql"), (row, status, first, last, limit))?
            }
            None => history_of_all(db, (status, first, last, limit))?,
        });
    }
    Ok(found)
}

/// From when until when those runs are due that stand in front, and those behind them; in each span the one due last
/// comes first. See [`order::newest_first`].
fn spans(since: Option<Millis>, now: Millis) -> [(i64, i64); 2] {
    let (first, present) = (since.map_or(i64::MIN, |since| since.0), order::present(now).0);
    [(first, present), (first.max(present.saturating_add(1)), i64::MAX)]
}

fn history_of_all(db: &Connection, arguments: impl Params) -> Result<Vec<RunView>, Fault> {
    let mut statement = db.prepare_cached(include_str!("sql/history_of_all.sql"))?;
    let mut rows = statement.query(arguments)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let what = || "a run".to_owned();
        let columns = Columns::new(row, &what);
        let key = columns.job_key()?;
        found.push(view(db, &key, load::decode_run(row, &what)?)?);
    }
    Ok(found)
}

/// Jobs, ordered by key.
pub(super) fn jobs(db: &Connection, after: Option<&JobKey>, limit: usize, now: Millis) -> Result<Vec<JobView>, Fault> {
    // No tenant's name is empty.
    let (tenant, name) = after.map_or(("", ""), |key| (key.tenant.as_str(), key.name.as_str()));
    let mut statement = db.prepare_cached(include_str!("sql/jobs.sql"))?;
    let mut rows = statement.query((tenant, name, codec::limit(limit)))?;
    let mut views = Vec::new();
    while let Some(row) = rows.next()? {
        let row = Columns::new(row, &|| "a job".to_owned());
        let key = row.job_key()?;
        let read = load::decode_job(&row).and_then(|(row, job)| job_view(db, key.clone(), row, job, now));
        match read {
            Ok(view) => views.push(view),
            Err(Fault::Damaged { what, reason }) => {
                tracing::warn!(job = %key, what, reason, "a record cannot be read and is left out while listing jobs");
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(views)
}

/// One job, if it is known.
pub(super) fn job(db: &Connection, key: &JobKey, now: Millis) -> Result<Option<JobView>, Fault> {
    let found = load::job_record(db, key)?;
    found.map(|(row, job)| job_view(db, key.clone(), row, job, now)).transpose()
}

/// The newest of a job's runs, without attempts, outcome and payload.
fn newest(db: &Connection, key: &JobKey, row: i64, now: Millis) -> Result<Option<(RunId, i64, Run)>, Fault> {
    for (first, last) in spans(None, now) {
        let arguments = (row, None::<&str>, first, last, 1);
        let found = load::runs(db, key, include_str!("sql/history_of_job.sql"), arguments)?.pop();
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn job_view(db: &Connection, key: JobKey, row: i64, job: Job, now: Millis) -> Result<JobView, Fault> {
    let mut last = None;
    if let Some((id, row, mut run)) = newest(db, &key, row, now)? {
        run.attempts = load::attempts(db, &key, row, include_str!("sql/current_attempt.sql"))?;
        run.outcome = load::outcome(db, &key, row, &run, include_str!("sql/outcome_brief.sql"))?;
        last = Some(RunView { key: RunKey { job: key.clone(), run: id }, run }.brief());
    }
    let count: i64 = db.prepare_cached(include_str!("sql/count_unfinished.sql"))?.query_row([row], |row| row.get(0))?;
    Ok(JobView {
        key,
        revision: job.revision,
        newest_started: job.newest_started,
        newest_skipped: job.newest_skipped,
        since: job.since,
        fingerprint: job.fingerprint,
        last_offered: job.last_offered,
        hold: job.hold,
        stored: job.stored,
        unfinished: count.cast_unsigned(),
        last,
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
fn views(db: &Connection, key: &JobKey, sql: &str, arguments: impl Params) -> Result<Vec<RunView>, Fault> {
    load::runs(db, key, sql, arguments)?.into_iter().map(|found| view(db, key, found)).collect()
}

fn view(db: &Connection, key: &JobKey, found: (RunId, i64, Run)) -> Result<RunView, Fault> {
    let (id, row, mut run) = found;
    run.attempts = load::attempts(db, key, row, include_str!("sql/attempts.sql"))?;
    run.outcome = load::outcome(db, key, row, &run, include_str!("sql/outcome.sql"))?;
    run.payload = load::payload(db, row)?;
    Ok(RunView { key: RunKey { job: key.clone(), run: id }, run })
}
