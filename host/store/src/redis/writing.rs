//! What attempts write beside their runs, and reading it again.

use leasehold_lease::id::{Attempt, JobKey, RunKey, TenantName};
use leasehold_lease::log::LogLine;
use leasehold_lease::op::Stamped;
use leasehold_lease::write::{Change, ENTRY, Lane, Write, Written};
use redis::Value;

use super::RedisStore;
use super::call::{Call, bounded};
use super::decode::{Fields, unreadable};
use super::keys::run_name;
use super::record::millis;
use crate::error::StoreError;
use crate::view::LogEntry;
use crate::wire::{WireError, from_json, to_json};

impl RedisStore {
    pub(super) async fn do_write(&self, job: &JobKey, write: &Write) -> Result<Stamped<Written>, StoreError> {
        const DOING: &str = "writing beside a run";
        let too_large = write.change.too_large(&write.quota);
        let call = self
            .about_run(&self.server.scripts.write, job, &write.run)
            .arg(&write.token.0[..])
            .arg(format!("{:020}", write.number))
            .arg(if write.change.lane() == Lane::Log { "log" } else { "effects" })
            .arg(u8::from(too_large))
            .arg(bounded(write.quota.stored));
        // What is refused for its size need not travel.
        let call = if too_large { call.arg("none") } else { with_change(call, &write.change) };
        let answer = self.calls.change(DOING, &call).await?;
        written(answer).map_err(unreadable(DOING))
    }

    pub(super) async fn read_state(&self, run: &RunKey) -> Result<Option<Vec<u8>>, StoreError> {
        const DOING: &str = "reading a checkpoint";
        let call = Call::plain("HGET").arg(self.server.keys.job("state", &run.job)).arg(run_name(&run.run));
        maybe_bytes("a checkpoint", self.calls.call(DOING, &call).await?).map_err(unreadable(DOING))
    }

    pub(super) async fn read_value(&self, tenant: &TenantName, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        const DOING: &str = "reading a value";
        let call = Call::plain("HGET").arg(self.server.keys.tenant(tenant) + "kv").arg(key);
        maybe_bytes("a value", self.calls.call(DOING, &call).await?).map_err(unreadable(DOING))
    }

    /// The keys lie in a sorted set in the order of their bytes, so a prefix is a place in it and never a pattern.
    pub(super) async fn read_keys(
        &self,
        tenant: &TenantName,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        const DOING: &str = "listing keys";
        let from = match after {
            Some(after) if after >= prefix => ["(", after].concat(),
            _ => ["[", prefix].concat(),
        };
        let call = Call::plain("ZRANGEBYLEX")
            .arg(self.server.keys.tenant(tenant) + "kv-keys")
            .arg(from)
            .arg("+")
            .arg("LIMIT")
            .arg(0)
            .arg(count(limit));
        let found = texts("the keys", self.calls.call(DOING, &call).await?).map_err(unreadable(DOING))?;
        Ok(found.into_iter().take_while(|key| key.starts_with(prefix)).collect())
    }

    pub(super) async fn read_log_lines(
        &self,
        run: &RunKey,
        after: u64,
        limit: usize,
    ) -> Result<Vec<LogEntry>, StoreError> {
        const DOING: &str = "reading a log";
        // An entry's sequence number is its place in the list, which only grows, from 1.
        let Ok(from) = i64::try_from(after) else { return Ok(Vec::new()) };
        if limit == 0 {
            return Ok(Vec::new());
        }
        let to = from.saturating_add(count(limit) - 1);
        let call = Call::plain("LRANGE").arg(self.server.keys.log(&run.job, &run.run)).arg(from).arg(to);
        let lines = texts("a log", self.calls.call(DOING, &call).await?).map_err(unreadable(DOING))?;
        let entries = lines.into_iter().zip(after + 1..).map(|(line, sequence)| log_entry(&line, sequence));
        entries.collect::<Result<_, _>>().map_err(unreadable(DOING))
    }
}

/// Adds what the script `write` wants to know of a change.
fn with_change(call: Call, change: &Change) -> Call {
    match change {
        Change::SaveState(data) => call.arg("save-state").arg(&data[..]),
        Change::KvSet { key, value } => call.arg("kv-set").arg(key).arg(&value[..]),
        Change::KvDelete { key } => call.arg("kv-delete").arg(key),
        Change::KvCompareAndSet { key, expected, value } => call
            .arg("kv-compare-and-set")
            .arg(key)
            .arg(&value[..])
            .arg(u8::from(expected.is_some()))
            .arg(expected.as_deref().unwrap_or_default()),
        Change::AppendLog(lines) => {
            let bytes: u64 = lines.iter().map(|line| line.size() + ENTRY).sum();
            lines.iter().fold(call.arg("append-log").arg(bytes), |call, line| call.arg(to_json(line)))
        }
    }
}

fn written(answer: Value) -> Result<Stamped<Written>, WireError> {
    let mut fields = Fields::of("an answer", answer)?;
    let (now, revision, word) = (millis(&mut fields)?, fields.number()?, fields.text()?);
    match Written::from_word(&word) {
        Some(answer) => Ok(Stamped { now, revision, answer }),
        None => fields.unknown(&word),
    }
}

/// A line with its attempt in front, as the script `write` keeps it.
fn log_entry(text: &str, sequence: u64) -> Result<LogEntry, WireError> {
    let (attempt, line) = text.split_once(' ').ok_or_else(|| WireError::new("a log line", "its attempt is missing"))?;
    let attempt = attempt.parse().map_err(|error| WireError::new("a log line's attempt", error))?;
    let line = from_json::<LogLine>("a log line", line)?;
    Ok(LogEntry { sequence, attempt: Attempt(attempt), line })
}

/// How many, as the server counts.
pub(super) fn count(limit: usize) -> i64 {
    i64::from(i32::try_from(limit).unwrap_or(i32::MAX))
}

/// Texts of a plain command.
pub(super) fn texts(what: &'static str, answer: Value) -> Result<Vec<String>, WireError> {
    let text = |value| match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).map_err(|error| WireError::new(what, error)),
        _ => Err(WireError::new(what, "one is not a text")),
    };
    match answer {
        Value::Array(values) | Value::Set(values) => values.into_iter().map(text).collect(),
        _ => Err(WireError::new(what, "it is not a list")),
    }
}

/// Bytes of a plain command, where there are some.
pub(super) fn maybe_bytes(what: &'static str, answer: Value) -> Result<Option<Vec<u8>>, WireError> {
    match answer {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => Ok(Some(bytes)),
        _ => Err(WireError::new(what, "it is not bytes")),
    }
}
