//! Reads a job as the rules want it: its record, the run in question, and the other runs that the operation weighs.

use std::collections::BTreeMap;

use leasehold_lease::id::{Attempt, DemandId, JobKey, RunId};
use leasehold_lease::policy::Terms;
use leasehold_lease::run::{AttemptRecord, DEMAND_ID_KEPT, Failure, Hold, Job, Outcome, Progress, Run, Status, Usage};
use leasehold_lease::time::Millis;
use leasehold_lease::write::LastWrite;
use rusqlite::{Connection, OptionalExtension, Params, Row};

use super::codec::{self, Columns};
use super::desk::Desk;
use super::error::Fault;

/// A job as it was before a rule was applied, and where its rows are.
#[derive(Clone)]
pub(super) struct Loaded {
    /// The job's row; none for a job that the file does not know.
    pub(super) job_row: Option<i64>,
    /// The rows of the runs that were loaded.
    pub(super) run_rows: BTreeMap<RunId, i64>,
    /// The job with those runs.
    pub(super) job: Job,
    /// Whether every running run is among them.
    pub(super) all_running: bool,
}

/// Which runs a rule may look at.
pub(super) enum Need<'a> {
    /// None.
    JobOnly,
    /// The named one: its attempts and its outcome.
    Run(&'a RunId),
    /// The named one with its payload, and every running one with its current attempt (S2, S7, S8).
    Claim(&'a RunId),
    /// Every running one with its current attempt.
    Running,
    /// The named one, and every unfinished one.
    Trigger(&'a DemandId),
    /// Every finished one, and the ids that are to be forgotten by now.
    Prune(Millis),
}

/// Reads a job for a rule, as far as it is not known already.
pub(super) fn job(desk: &Desk, key: &JobKey, need: &Need<'_>) -> Result<Loaded, Fault> {
    if let Some(mut known) = desk.take(key) {
        match need {
            Need::JobOnly | Need::Running => return Ok(known),
            Need::Run(id) | Need::Claim(id) => {
                if let Some(row) = known.job_row.filter(|_| !known.job.runs.contains_key(id)) {
                    known.named(desk, key, row, id)?;
                    known.payload(desk, id)?;
                }
                return Ok(known);
            }
            Need::Trigger(_) | Need::Prune(_) => {}
        }
    }
    read(desk, key, need)
}

fn read(db: &Connection, key: &JobKey, need: &Need<'_>) -> Result<Loaded, Fault> {
    let Some((row, record)) = job_record(db, key)? else {
        let (job_row, run_rows, job) = (None, BTreeMap::new(), Job::default());
        return Ok(Loaded { job_row, run_rows, job, all_running: true });
    };
    let (job_row, run_rows, all_running) = (Some(row), BTreeMap::new(), false);
    let mut loaded = Loaded { job_row, run_rows, job: record, all_running };
    match need {
        Need::JobOnly => {}
        Need::Run(id) => loaded.named(db, key, row, id)?,
        Need::Running => loaded.running(db, key, row)?,
        Need::Claim(id) => {
            loaded.running(db, key, row)?;
            loaded.named(db, key, row, id)?;
            loaded.payload(db, id)?;
        }
        Need::Trigger(id) => {
            let all = (row, None::<i64>, None::<&str>, i64::MAX);
            loaded.others(db, key, include_str!("sql/runs_unfinished.sql"), all)?;
            loaded.named(db, key, row, &RunId::OnDemand((*id).clone()))?;
            loaded.gone(db, key, include_str!("sql/gone_one.sql"), (row, id.as_str()))?;
        }
        Need::Prune(now) => {
            loaded.finals(db, key, row)?;
            loaded.gone(db, key, include_str!("sql/gone_before.sql"), (row, (*now - DEMAND_ID_KEPT).0))?;
        }
    }
    Ok(loaded)
}

/// A job's record and row, without runs.
pub(super) fn job_record(db: &Connection, key: &JobKey) -> Result<Option<(i64, Job)>, Fault> {
    let mut statement = db.prepare_cached(include_str!("sql/job.sql"))?;
    let mut rows = statement.query((key.tenant.as_str(), key.name.as_str()))?;
    rows.next()?.map(|row| decode_job(&Columns::new(row, &|| format!("job {key}")))).transpose()
}

pub(super) fn decode_job(row: &Columns<'_>) -> Result<(i64, Job), Fault> {
    let job = Job {
        revision: row.bits("revision")?,
        newest_started: row.some_slot("newest_started")?,
        newest_skipped: row.some_slot("newest_skipped")?,
        last_fence: row.fence("last_fence")?,
        since: row.some_millis("since")?,
        fingerprint: row.get("fingerprint")?,
        last_offered: row.some_millis("last_offered")?,
        largest_bound: row.duration("largest_bound_ms")?,
        hold: hold(row)?,
        stored: row.bits("stored")?,
        runs: BTreeMap::new(),
        gone: BTreeMap::new(),
    };
    Ok((row.get("id")?, job))
}

fn hold(row: &Columns<'_>) -> Result<Option<Hold>, Fault> {
    let (since, until) = (row.some_millis("hold_since")?, row.some_millis("hold_until")?);
    let note: Option<String> = row.get("hold_note")?;
    Ok(note.map(|note| Hold { since, until, note }))
}

impl Loaded {
    /// The run in question, with all its attempts.
    fn named(&mut self, db: &Connection, key: &JobKey, job_row: i64, id: &RunId) -> Result<(), Fault> {
        let Some((row, mut run)) = run(db, key, job_row, id)? else { return Ok(()) };
        run.attempts = attempts(db, key, row, include_str!("sql/attempts.sql"))?;
        run.outcome = outcome(db, key, row, &run, include_str!("sql/outcome.sql"))?;
        self.keep(id.clone(), row, run);
        Ok(())
    }

    /// Every running run, with its current attempt.
    fn running(&mut self, db: &Connection, key: &JobKey, job_row: i64) -> Result<(), Fault> {
        self.all_running = true;
        self.others(db, key, include_str!("sql/runs_running.sql"), [job_row])
    }

    /// Runs that stand beside it, with their current attempt.
    fn others(&mut self, db: &Connection, key: &JobKey, sql: &str, arguments: impl Params) -> Result<(), Fault> {
        for (id, row, mut run) in runs(db, key, sql, arguments)? {
            run.attempts = attempts(db, key, row, include_str!("sql/current_attempt.sql"))?;
            self.keep(id, row, run);
        }
        Ok(())
    }

    /// Finished runs, as far as prune looks at them.
    fn finals(&mut self, db: &Connection, key: &JobKey, job_row: i64) -> Result<(), Fault> {
        for (id, row, run) in runs(db, key, include_str!("sql/runs_final.sql"), [job_row])? {
            self.keep(id, row, run);
        }
        Ok(())
    }

    fn payload(&mut self, db: &Connection, id: &RunId) -> Result<(), Fault> {
        if let (Some(run), Some(row)) = (self.job.runs.get_mut(id), self.run_rows.get(id)) {
            run.payload = payload(db, *row)?;
        }
        Ok(())
    }

    fn gone(&mut self, db: &Connection, key: &JobKey, sql: &str, arguments: impl Params) -> Result<(), Fault> {
        let mut statement = db.prepare_cached(sql)?;
        let mut rows = statement.query(arguments)?;
        while let Some(row) = rows.next()? {
            let what = || format!("a pruned run of job {key}");
            let row = Columns::new(row, &what);
            self.job.gone.insert(row.parse("demand", |id: String| id.parse())?, row.millis("at")?);
        }
        Ok(())
    }

    fn keep(&mut self, id: RunId, row: i64, run: Run) {
        self.run_rows.insert(id.clone(), row);
        self.job.runs.insert(id, run);
    }
}

/// One run's row, without attempts, outcome and payload.
pub(super) fn run(db: &Connection, key: &JobKey, job_row: i64, id: &RunId) -> Result<Option<(i64, Run)>, Fault> {
    let (slot, demand) = codec::run_columns(id);
    let found = runs(db, key, include_str!("sql/run.sql"), (job_row, slot, demand))?;
    Ok(found.into_iter().next().map(|(_, row, run)| (row, run)))
}

/// The runs that a query gives, without attempts, outcome and payload.
pub(super) fn runs(
    db: &Connection,
    key: &JobKey,
    sql: &str,
    arguments: impl Params,
) -> Result<Vec<(RunId, i64, Run)>, Fault> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(arguments)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(decode_run(row, &|| format!("a run of job {key}"))?);
    }
    Ok(found)
}

pub(super) fn decode_run(row: &Row<'_>, what: &dyn Fn() -> String) -> Result<(RunId, i64, Run), Fault> {
    let row = Columns::new(row, what);
    let progress = match row.get::<Option<String>>("progress_message")? {
        Some(message) => {
            Some(Progress { done: row.bits("progress_done")?, total: row.some_bits("progress_total")?, message })
        }
        None => None,
    };
    let run = Run {
        status: row.parse("status", codec::status)?,
        due: row.millis("due")?,
        lease_end: row.millis("lease_end")?,
        released: row.get("released")?,
        starts: row.get("starts")?,
        hand_overs: row.get("hand_overs")?,
        attempts: Vec::new(),
        ended_at: row.some_millis("ended_at")?,
        outcome: None,
        progress,
        payload: None,
        cancelled: row.get("cancelled")?,
        state_size: row.some_bits("state_size")?,
        kept_size: row.bits("kept_size")?,
    };
    Ok((row.run_id()?, row.get("id")?, run))
}

/// A run's attempts, oldest first.
pub(super) fn attempts(db: &Connection, key: &JobKey, run: i64, sql: &str) -> Result<Vec<AttemptRecord>, Fault> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([run])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(decode_attempt(&Columns::new(row, &|| format!("an attempt of job {key}")))?);
    }
    Ok(found)
}

fn decode_attempt(row: &Columns<'_>) -> Result<AttemptRecord, Fault> {
    let usage = match row.some_bits("wall_ms")? {
        Some(wall_ms) => Some(Usage {
            wall_ms,
            cpu_ms: row.bits("cpu_ms")?,
            peak_memory: row.bits("peak_memory")?,
            host_calls: row.bits("host_calls")?,
            log_bytes: row.bits("log_bytes")?,
            http_sent: row.some_bits("http_sent")?.unwrap_or(0),
            http_received: row.some_bits("http_received")?.unwrap_or(0),
            fuel: row.some_bits("fuel")?,
        }),
        None => None,
    };
    Ok(AttemptRecord {
        attempt: Attempt(row.get("attempt")?),
        token: row.parse("token", codec::token)?,
        fence: row.fence("fence")?,
        runner: row.get("runner")?,
        terms: Terms {
            lease: row.duration("lease_ms")?,
            max_attempts: row.get("max_attempts")?,
            overlap: row.parse("overlap", codec::overlap)?,
            catch_up: row.duration("catch_up_ms")?,
            max_late: row.duration("max_late_ms")?,
            history_size: row.get("history_size")?,
        },
        digest: row.parse_some("digest", codec::digest)?,
        started_at: row.millis("started_at")?,
        ended: row.some_millis("ended_at")?.zip(row.parse_some("ended", codec::attempt_end)?),
        last_write: last_write(row, "last_write", "last_write_answer")?,
        last_log: last_write(row, "last_log", "last_log_answer")?,
        usage,
    })
}

/// The newest write of a lane.
fn last_write(row: &Columns<'_>, number: &str, answer: &str) -> Result<LastWrite, Fault> {
    Ok(LastWrite { number: row.bits(number)?, written: row.parse(answer, codec::written)? })
}

/// How a finished run ended.
pub(super) fn outcome(db: &Connection, key: &JobKey, row: i64, run: &Run, sql: &str) -> Result<Option<Outcome>, Fault> {
    if !run.status.is_final() {
        return Ok(None);
    }
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([row])?;
    let what = || format!("the outcome of a run of job {key}");
    let missing = || Fault::Damaged { what: what(), reason: "it is missing".into() };
    let row = Columns::new(rows.next()?.ok_or_else(missing)?, &what);
    Ok(Some(match run.status {
        Status::Success => Outcome::Success { output: row.get("output")?, cut: row.get("cut")? },
        Status::Failed => Outcome::Failed(Failure {
            code: row.get("code")?,
            message: row.get("message")?,
            details: row.parse("details", codec::pairs)?,
            retryable: row.get("retryable")?,
        }),
        _ => Outcome::Interrupted { reason: row.get("reason")? },
    }))
}

/// What an on-demand run works on.
pub(super) fn payload(db: &Connection, row: i64) -> Result<Option<Vec<u8>>, Fault> {
    let mut statement = db.prepare_cached(include_str!("sql/payload.sql"))?;
    Ok(statement.query_row([row], |row| row.get(0)).optional()?)
}
