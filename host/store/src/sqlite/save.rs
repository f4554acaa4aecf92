//! Writes what a rule has changed, and nothing else.

use leasehold_lease::id::{JobKey, RunId};
use leasehold_lease::run::{AttemptRecord, Job, Outcome, Run};
use rusqlite::{Connection, ToSql, named_params};

use super::codec::{self, bits, ms};
use super::desk::Desk;
use super::error::Fault;
use super::load::Loaded;

/// Writes the difference between the job as it was loaded and as it is `after` a rule. A job that is unknown and was
/// refused stays unknown.
pub(super) fn difference(desk: &Desk, key: &JobKey, before: &Loaded, after: Job) -> Result<(), Fault> {
    if after.revision == before.job.revision {
        // S11: a refusal changes nothing. The record is compared in full, so a rule that forgot to say so is found.
        assert!(after == before.job, "the job changed and its revision did not");
        if before.job_row.is_some() && before.all_running {
            desk.keep(key, before.clone());
        }
        return Ok(());
    }
    let job = job_record(desk, key, before.job_row, &after)?;
    let mut run_rows = before.run_rows.clone();
    for (id, run) in &after.runs {
        match (before.run_rows.get(id), before.job.runs.get(id)) {
            (Some(row), Some(old)) => changed_run(desk, *row, old, run)?,
            _ => drop(run_rows.insert(id.clone(), new_run(desk, job, id, run)?)),
        }
    }
    for (id, row) in &before.run_rows {
        if !after.runs.contains_key(id) {
            execute(desk, include_str!("sql/delete_run.sql"), [row])?;
        }
    }
    gone(desk, job, &before.job, &after)?;
    desk.keep(key, Loaded { job_row: Some(job), run_rows, job: after, all_running: before.all_running });
    Ok(())
}

fn job_record(db: &Connection, key: &JobKey, row: Option<i64>, job: &Job) -> Result<i64, Fault> {
    let changing = named_params! {
        ":revision": bits(job.revision),
        ":newest_started": job.newest_started.map(|slot| slot.0.0),
        ":newest_skipped": job.newest_skipped.map(|slot| slot.0.0),
        ":last_fence": bits(job.last_fence.0),
        ":since": job.since.map(|at| at.0),
        ":fingerprint": job.fingerprint,
        ":last_offered": job.last_offered.map(|at| at.0),
        ":largest_bound_ms": ms(job.largest_bound),
        ":hold_since": job.hold.as_ref().and_then(|hold| hold.since).map(|at| at.0),
        ":hold_until": job.hold.as_ref().and_then(|hold| hold.until).map(|at| at.0),
        ":hold_note": job.hold.as_ref().map(|hold| &hold.note),
        ":stored": bits(job.stored),
    };
    match row {
        Some(row) => {
            let arguments = [changing, named_params! { ":id": row }].concat();
            execute_named(db, include_str!("sql/update_job.sql"), &arguments)?;
            Ok(row)
        }
        None => {
            let name = named_params! { ":tenant": key.tenant.as_str(), ":name": key.name.as_str() };
            execute_named(db, include_str!("sql/insert_job.sql"), &[changing, name].concat())?;
            Ok(db.last_insert_rowid())
        }
    }
}

/// Writes a run that is new, and answers its row.
fn new_run(db: &Connection, job: i64, id: &RunId, run: &Run) -> Result<i64, Fault> {
    let (slot, demand) = codec::run_columns(id);
    let name = named_params! { ":job": job, ":slot": slot, ":demand": demand, ":due": run.due.0 };
    run_record(db, include_str!("sql/insert_run.sql"), name, run)?;
    let row = db.last_insert_rowid();
    if let Some(payload) = &run.payload {
        execute(db, include_str!("sql/insert_payload.sql"), (row, payload))?;
    }
    attempts(db, row, &[], &run.attempts)?;
    run.outcome.as_ref().map_or(Ok(()), |outcome| new_outcome(db, row, outcome))?;
    Ok(row)
}

fn changed_run(db: &Connection, row: i64, old: &Run, run: &Run) -> Result<(), Fault> {
    if old == run {
        return Ok(());
    }
    // What names a run and what it was asked to work on never change, so no statement writes them again.
    assert!(old.due == run.due && old.payload == run.payload, "a run changed its due time or payload");
    run_record(db, include_str!("sql/update_run.sql"), named_params! { ":id": row }, run)?;
    attempts(db, row, &old.attempts, &run.attempts)?;
    if old.state_size.is_some() && run.state_size.is_none() {
        execute(db, include_str!("sql/delete_state.sql"), [row])?;
    }
    match (&old.outcome, &run.outcome) {
        (None, Some(outcome)) => new_outcome(db, row, outcome),
        (old, new) => {
            // S6: one outcome per run, final.
            assert!(old == new, "a run changed its outcome");
            Ok(())
        }
    }
}

fn run_record(db: &Connection, sql: &str, name: &[(&'static str, &dyn ToSql)], run: &Run) -> Result<(), Fault> {
    let progress = run.progress.as_ref();
    let record = named_params! {
        ":status": run.status.word(),
        ":lease_end": run.lease_end.0,
        ":released": run.released,
        ":starts": run.starts,
        ":hand_overs": run.hand_overs,
        ":ended_at": run.ended_at.map(|at| at.0),
        ":progress_done": progress.map(|p| bits(p.done)),
        ":progress_total": progress.and_then(|p| p.total).map(bits),
        ":progress_message": progress.map(|p| &p.message),
        ":cancelled": run.cancelled,
        ":state_size": run.state_size.map(bits),
        ":kept_size": bits(run.kept_size),
    };
    execute_named(db, sql, &[record, name].concat())
}

fn attempts(db: &Connection, run: i64, old: &[AttemptRecord], new: &[AttemptRecord]) -> Result<(), Fault> {
    for attempt in new {
        match old.iter().rev().find(|a| a.attempt == attempt.attempt) {
            Some(before) if before == attempt => {}
            Some(_) => attempt_record(db, include_str!("sql/update_attempt.sql"), run, attempt, &[])?,
            None => new_attempt(db, run, attempt)?,
        }
    }
    match (old.first(), new.first()) {
        (Some(old), Some(new)) if old.attempt < new.attempt => {
            execute(db, include_str!("sql/delete_attempts.sql"), (run, new.attempt.0))
        }
        _ => Ok(()),
    }
}

fn new_attempt(db: &Connection, run: i64, attempt: &AttemptRecord) -> Result<(), Fault> {
    let started = named_params! {
        ":token": attempt.token.0,
        ":fence": bits(attempt.fence.0),
        ":runner": attempt.runner,
        ":lease_ms": ms(attempt.terms.lease),
        ":max_attempts": attempt.terms.max_attempts,
        ":overlap": attempt.terms.overlap.word(),
        ":catch_up_ms": ms(attempt.terms.catch_up),
        ":max_late_ms": ms(attempt.terms.max_late),
        ":history_size": attempt.terms.history_size,
        ":digest": attempt.digest.map(|digest| digest.0),
        ":started_at": attempt.started_at.0,
    };
    attempt_record(db, include_str!("sql/insert_attempt.sql"), run, attempt, started)
}

fn attempt_record(
    db: &Connection,
    sql: &str,
    run: i64,
    attempt: &AttemptRecord,
    started: &[(&'static str, &dyn ToSql)],
) -> Result<(), Fault> {
    let usage = attempt.usage.as_ref();
    let record = named_params! {
        ":ended_at": attempt.ended.map(|(at, _)| at.0),
        ":ended": attempt.ended.map(|(_, how)| how.word()),
        ":last_log": bits(attempt.last_log.number),
        ":last_log_answer": attempt.last_log.written.word(),
        ":last_write": bits(attempt.last_write.number),
        ":last_write_answer": attempt.last_write.written.word(),
        ":wall_ms": usage.map(|u| bits(u.wall_ms)),
        ":cpu_ms": usage.map(|u| bits(u.cpu_ms)),
        ":peak_memory": usage.map(|u| bits(u.peak_memory)),
        ":host_calls": usage.map(|u| bits(u.host_calls)),
        ":log_bytes": usage.map(|u| bits(u.log_bytes)),
        ":http_sent": usage.map(|u| bits(u.http_sent)),
        ":http_received": usage.map(|u| bits(u.http_received)),
        ":fuel": usage.and_then(|u| u.fuel).map(bits),
        ":run": run,
        ":attempt": attempt.attempt.0,
    };
    execute_named(db, sql, &[record, started].concat())
}

fn new_outcome(db: &Connection, run: i64, outcome: &Outcome) -> Result<(), Fault> {
    let (output, cut) = match outcome {
        Outcome::Success { output, cut } => (Some(output), Some(*cut)),
        _ => (None, None),
    };
    let failure = match outcome {
        Outcome::Failed(failure) => Some(failure),
        _ => None,
    };
    let reason = match outcome {
        Outcome::Interrupted { reason } => Some(reason),
        _ => None,
    };
    execute_named(
        db,
        include_str!("sql/insert_outcome.sql"),
        named_params! {
            ":run": run,
            ":output": output,
            ":cut": cut,
            ":code": failure.map(|f| &f.code),
            ":message": failure.map(|f| &f.message),
            ":details": failure.map(|f| codec::pairs_text(&f.details)).transpose()?,
            ":retryable": failure.map(|f| f.retryable),
            ":reason": reason,
        },
    )
}

fn gone(db: &Connection, job: i64, before: &Job, after: &Job) -> Result<(), Fault> {
    for (id, at) in &after.gone {
        if !before.gone.contains_key(id) {
            execute(db, include_str!("sql/insert_gone.sql"), (job, id.as_str(), at.0))?;
        }
    }
    for id in before.gone.keys() {
        if !after.gone.contains_key(id) {
            execute(db, include_str!("sql/delete_gone.sql"), (job, id.as_str()))?;
        }
    }
    Ok(())
}

/// Binds values whose names lie in the order of the statement: looking each name up took a busy writer a twentieth of its
/// time. In tests the names are compared.
fn execute_named(db: &Connection, sql: &str, values: &[(&str, &dyn ToSql)]) -> Result<(), Fault> {
    let mut statement = db.prepare_cached(sql)?;
    assert_eq!(values.len(), statement.parameter_count(), "values for {sql}");
    for (place, (name, value)) in (1..).zip(values) {
        debug_assert_eq!(statement.parameter_name(place), Some(*name), "the order of values in {sql}");
        statement.raw_bind_parameter(place, value)?;
    }
    statement.raw_execute()?;
    Ok(())
}

pub(super) fn execute(db: &Connection, sql: &str, arguments: impl rusqlite::Params) -> Result<(), Fault> {
    db.prepare_cached(sql)?.execute(arguments)?;
    Ok(())
}
