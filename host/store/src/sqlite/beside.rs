//! What lies beside the records: checkpoints, values, log lines, answers kept for people, hosts.

use leasehold_lease::id::{JobKey, RunId, TenantName};
use leasehold_lease::log::LogLine;
use leasehold_lease::op::Stamped;
use leasehold_lease::rules;
use leasehold_lease::time::Millis;
use leasehold_lease::write::{Around, Change, Write, Written};
use rusqlite::{Connection, OptionalExtension, named_params};

use super::codec::{self, Columns};
use super::desk::Desk;
use super::error::Fault;
use super::load::{self, Loaded, Need};
use super::save;
use crate::view::{ANSWERS_KEPT, HOST_KEPT, HostAnswer, HostOrders, HostRecord, HostReport};

/// A write of an attempt: the rule decides, and what it allows is done in the same transaction.
pub(super) fn write(desk: &Desk, key: &JobKey, now: Millis, write: &Write) -> Result<Stamped<Written>, Fault> {
    let loaded = load::job(desk, key, &Need::Run(&write.run))?;
    let around = around(desk, &key.tenant, &write.change)?;
    let mut job = loaded.job.clone();
    let decided = rules::write(&mut job, now, write, &around);
    save::difference(desk, key, &loaded, job)?;
    if decided.answer.carry_out {
        carry_out(desk, key, &loaded, write, &around)?;
    }
    Ok(decided.map(|answer| answer.written))
}

/// What the rule has to know of the tenant.
fn around(db: &Connection, tenant: &TenantName, change: &Change) -> Result<Around, Fault> {
    let tenant = tenant.as_str();
    let mut beside = db.prepare_cached(include_str!("sql/stored_of_tenant.sql"))?;
    let beside: i64 = beside.query_row([tenant], |row| row.get(0))?;
    let mut values = db.prepare_cached(include_str!("sql/kv_size.sql"))?;
    let values: Option<i64> = values.query_row([tenant], |row| row.get(0)).optional()?;
    let present = change.key().map_or(Ok(None), |key| value(db, tenant, key))?;
    Ok(Around { stored: beside.cast_unsigned() + values.unwrap_or(0).cast_unsigned(), present })
}

fn carry_out(db: &Connection, key: &JobKey, loaded: &Loaded, write: &Write, around: &Around) -> Result<(), Fault> {
    let tenant = key.tenant.as_str();
    let row = loaded.run_rows[&write.run];
    match &write.change {
        Change::SaveState(data) => save::execute(db, include_str!("sql/save_state.sql"), (row, data))?,
        Change::KvSet { key, value } | Change::KvCompareAndSet { key, value, .. } => {
            save::execute(db, include_str!("sql/kv_set.sql"), (tenant, key.as_bytes(), value))?;
        }
        Change::KvDelete { key } => save::execute(db, include_str!("sql/kv_delete.sql"), (tenant, key.as_bytes()))?,
        Change::AppendLog(lines) => append(db, loaded, row, &write.run, lines)?,
    }
    if write.change.key().is_some() {
        let present = around.present.as_ref().map(|value| value.len() as u64);
        let grown = rules::growth(&write.change, present, None);
        save::execute(db, include_str!("sql/kv_grow.sql"), (tenant, grown))?;
    }
    Ok(())
}

/// Writes log lines behind those that the run has.
fn append(db: &Connection, loaded: &Loaded, row: i64, run: &RunId, lines: &[LogLine]) -> Result<(), Fault> {
    let attempt = loaded.job.runs[run].attempt();
    let last: i64 = db.prepare_cached(include_str!("sql/last_log.sql"))?.query_row([row], |row| row.get(0))?;
    let mut statement = db.prepare_cached(include_str!("sql/insert_log.sql"))?;
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

/// A value of the tenant.
pub(super) fn value(db: &Connection, tenant: &str, key: &str) -> Result<Option<Vec<u8>>, Fault> {
    let mut statement = db.prepare_cached(include_str!("sql/kv_get.sql"))?;
    Ok(statement.query_row((tenant, key.as_bytes()), |row| row.get(0)).optional()?)
}

/// The tenant's keys that begin with `prefix`, after `after`.
pub(super) fn keys(
    db: &Connection,
    tenant: &TenantName,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<String>, Fault> {
    let mut statement = db.prepare_cached(include_str!("sql/kv_list.sql"))?;
    let (after, limit) = (after.map(str::as_bytes), codec::limit(limit));
    let mut rows = statement.query((tenant.as_str(), prefix.as_bytes(), after, behind(prefix), limit))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let what = || format!("a key of tenant {tenant}");
        found.push(Columns::new(row, &what).parse("key", String::from_utf8)?);
    }
    Ok(found)
}

/// The least bytes behind all that begin with `prefix`; none where there are no such bytes.
fn behind(prefix: &str) -> Option<Vec<u8>> {
    let mut bytes = prefix.as_bytes().to_vec();
    while let Some(last) = bytes.pop() {
        if last < u8::MAX {
            bytes.push(last + 1);
            return Some(bytes);
        }
    }
    None
}

/// A run's checkpoint.
pub(super) fn state(db: &Connection, key: &JobKey, run: &RunId) -> Result<Option<Vec<u8>>, Fault> {
    let Some((job, _)) = load::job_record(db, key)? else { return Ok(None) };
    let Some((row, _)) = load::run(db, key, job, run)? else { return Ok(None) };
    let mut statement = db.prepare_cached(include_str!("sql/state.sql"))?;
    Ok(statement.query_row([row], |row| row.get(0)).optional()?)
}

/// Keeps answers, and forgets the oldest of each job.
pub(super) fn keep_answers(db: &Connection, told: &[HostAnswer]) -> Result<(), Fault> {
    let mut jobs = std::collections::BTreeMap::new();
    for told in told {
        let key = &told.run.job;
        if !jobs.contains_key(key) {
            jobs.insert(key.clone(), load::job_record(db, key)?.map(|(row, _)| row));
        }
        // A job that is unknown has nothing to explain.
        let Some(job) = jobs[key] else { continue };
        let (slot, demand) = codec::run_columns(&told.run.run);
        db.prepare_cached(include_str!("sql/insert_told.sql"))?.execute(named_params! {
            ":job": job,
            ":slot": slot,
            ":demand": demand,
            ":host": told.host,
            ":at": told.at.0,
            ":asked": told.asked,
            ":answer": told.answer,
            ":detail": told.detail,
        })?;
    }
    for job in jobs.values().flatten() {
        save::execute(db, include_str!("sql/trim_told.sql"), (job, codec::limit(ANSWERS_KEPT)))?;
    }
    Ok(())
}

/// Answers about a job or one of its runs, newest first.
pub(super) fn answers(
    db: &Connection,
    key: &JobKey,
    run: Option<&RunId>,
    limit: usize,
) -> Result<Vec<HostAnswer>, Fault> {
    let Some((job, _)) = load::job_record(db, key)? else { return Ok(Vec::new()) };
    let (slot, demand) = run.map_or((None, None), codec::run_columns);
    let mut statement = db.prepare_cached(include_str!("sql/told.sql"))?;
    let mut rows = statement.query((job, slot, demand, codec::limit(limit)))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let what = || format!("an answer about job {key}");
        let row = Columns::new(row, &what);
        found.push(HostAnswer {
            run: leasehold_lease::id::RunKey { job: key.clone(), run: row.run_id()? },
            host: row.get("host")?,
            at: row.millis("at")?,
            asked: row.get("asked")?,
            answer: row.get("answer")?,
            detail: row.get("detail")?,
        });
    }
    Ok(found)
}

/// A host is there.
pub(super) fn report_host(db: &Connection, now: Millis, report: &HostReport) -> Result<HostOrders, Fault> {
    save::execute(db, include_str!("sql/forget_hosts.sql"), [(now - HOST_KEPT).0])?;
    let mut statement = db.prepare_cached(include_str!("sql/save_host.sql"))?;
    let arguments = named_params! {
        ":name": report.name,
        ":instance": report.instance,
        ":version": report.version,
        ":clock_offset_ms": report.clock_offset_ms,
        ":details": report.details,
        ":now": now.0,
    };
    Ok(HostOrders { drain: statement.query_row(arguments, |row| row.get(0))? })
}

/// The hosts, by name and instance.
pub(super) fn hosts(db: &Connection) -> Result<Vec<HostRecord>, Fault> {
    let mut statement = db.prepare_cached(include_str!("sql/hosts.sql"))?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let row = Columns::new(row, &|| "a host".to_owned());
        let report = HostReport {
            instance: row.get("instance")?,
            name: row.get("name")?,
            version: row.get("version")?,
            clock_offset_ms: row.get("clock_offset_ms")?,
            details: row.get("details")?,
        };
        let orders = HostOrders { drain: row.get("drain")? };
        let (first_seen, last_seen) = (row.millis("first_seen")?, row.millis("last_seen")?);
        found.push(HostRecord { report, first_seen, last_seen, orders });
    }
    Ok(found)
}

/// Keeps what a host offers, if it was heard of.
pub(super) fn keep_offers(db: &Connection, name: &str, instance: &str, offers: &str) -> Result<(), Fault> {
    db.prepare_cached(include_str!("sql/save_offers.sql"))?.execute((name, instance, offers))?;
    Ok(())
}

/// What a host offers, where it has said so.
pub(super) fn host_offers(db: &Connection, name: &str, instance: &str) -> Result<Option<String>, Fault> {
    let mut statement = db.prepare_cached(include_str!("sql/offers.sql"))?;
    Ok(statement.query_row((name, instance), |row| row.get(0)).optional()?)
}

/// Asks hosts of this name to drain or to go on. Answers how many there are.
pub(super) fn drain(db: &Connection, host: &str, drain: bool) -> Result<usize, Fault> {
    Ok(db.prepare_cached(include_str!("sql/drain_hosts.sql"))?.execute((host, drain))?)
}
