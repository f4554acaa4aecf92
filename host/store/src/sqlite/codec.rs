//! How values lie in columns.

use std::cell::Cell;
use std::time::Duration;

use leasehold_lease::id::{DemandId, Digest, Fence, JobKey, RunId, Token};
use leasehold_lease::log::LogLevel;
use leasehold_lease::policy::Overlap;
use leasehold_lease::run::{AttemptEnd, Status};
use leasehold_lease::time::{Millis, Slot};
use leasehold_lease::write::Written;
use rusqlite::Row;
use rusqlite::types::FromSql;

use super::error::Fault;

/// A row, with what it describes for the case that it cannot be read.
pub(super) struct Columns<'a> {
    row: &'a Row<'a>,
    what: &'a dyn Fn() -> String,
    /// The column after the one that was read last.
    next: Cell<usize>,
}

impl<'a> Columns<'a> {
    pub(super) fn new(row: &'a Row<'a>, what: &'a dyn Fn() -> String) -> Columns<'a> {
        Columns { row, what, next: Cell::new(0) }
    }

    /// A column as SQLite gives it.
    pub(super) fn get<T: FromSql>(&self, name: &str) -> Result<T, Fault> {
        self.row.get(self.place(name)?).map_err(|error| match error {
            rusqlite::Error::SqliteFailure(..) => Fault::Sql(error),
            other => self.damaged(name, other),
        })
    }

    /// Where a column lies. Most are read in their order, and SQLite itself would compare one name after the other:
    /// measured, a twentieth of a busy writer's time.
    fn place(&self, name: &str) -> Result<usize, Fault> {
        let columns = self.row.as_ref();
        let mut place = self.next.get();
        if columns.column_name(place).ok() != Some(name) {
            place = columns.column_index(name).map_err(|error| self.damaged(name, error))?;
        }
        self.next.set(place + 1);
        Ok(place)
    }

    /// A column whose text or number has to be understood.
    pub(super) fn parse<T: FromSql, A, E: ToString>(
        &self,
        name: &str,
        parse: impl FnOnce(T) -> Result<A, E>,
    ) -> Result<A, Fault> {
        parse(self.get(name)?).map_err(|error| self.damaged(name, error))
    }

    /// The same for a column that may be NULL.
    pub(super) fn parse_some<T: FromSql, A, E: ToString>(
        &self,
        name: &str,
        parse: impl FnOnce(T) -> Result<A, E>,
    ) -> Result<Option<A>, Fault> {
        self.get::<Option<T>>(name)?.map(parse).transpose().map_err(|error| self.damaged(name, error))
    }

    pub(super) fn millis(&self, name: &str) -> Result<Millis, Fault> {
        self.get(name).map(Millis)
    }

    pub(super) fn some_millis(&self, name: &str) -> Result<Option<Millis>, Fault> {
        Ok(self.get::<Option<i64>>(name)?.map(Millis))
    }

    pub(super) fn some_slot(&self, name: &str) -> Result<Option<Slot>, Fault> {
        Ok(self.some_millis(name)?.map(Slot))
    }

    pub(super) fn duration(&self, name: &str) -> Result<Duration, Fault> {
        self.parse(name, |ms: i64| u64::try_from(ms)).map(Duration::from_millis)
    }

    /// An unsigned number, bit for bit.
    pub(super) fn bits(&self, name: &str) -> Result<u64, Fault> {
        self.get(name).map(i64::cast_unsigned)
    }

    pub(super) fn some_bits(&self, name: &str) -> Result<Option<u64>, Fault> {
        Ok(self.get::<Option<i64>>(name)?.map(i64::cast_unsigned))
    }

    pub(super) fn fence(&self, name: &str) -> Result<Fence, Fault> {
        self.bits(name).map(Fence)
    }

    pub(super) fn job_key(&self) -> Result<JobKey, Fault> {
        let tenant = self.parse("tenant", |text: String| text.parse())?;
        Ok(JobKey { tenant, name: self.parse("name", |text: String| text.parse())? })
    }

    pub(super) fn run_id(&self) -> Result<RunId, Fault> {
        match self.some_slot("slot")? {
            Some(slot) => Ok(RunId::Slot(slot)),
            None => self.parse("demand", |id: String| id.parse::<DemandId>()).map(RunId::OnDemand),
        }
    }

    fn damaged(&self, column: &str, reason: impl ToString) -> Fault {
        Fault::Damaged { what: (self.what)(), reason: format!("column {column}: {}", reason.to_string()) }
    }
}

/// An unsigned number, bit for bit: a guest may report any, and SQLite's numbers are signed.
pub(super) fn bits(number: u64) -> i64 {
    number.cast_signed()
}

/// Whole milliseconds, as far as a column can hold them.
pub(super) fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// How many rows a query may give.
pub(super) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// The columns `slot` and `demand` of a run.
pub(super) fn run_columns(id: &RunId) -> (Option<i64>, Option<&str>) {
    match id {
        RunId::Slot(slot) => (Some(slot.0.0), None),
        RunId::OnDemand(id) => (None, Some(id.as_str())),
    }
}

pub(super) fn status(word: String) -> Result<Status, String> {
    let all = [Status::Pending, Status::Running, Status::Success, Status::Failed, Status::Interrupted];
    all.into_iter().find(|s| s.word() == word).ok_or_else(|| format!("{word:?} is not a status"))
}

pub(super) fn attempt_end(word: String) -> Result<AttemptEnd, String> {
    use AttemptEnd::{Cancelled, Expired, Failed, HandedOver, Lost, Success};
    let all = [Success, Failed, Lost, HandedOver, Expired, Cancelled];
    all.into_iter().find(|e| e.word() == word).ok_or_else(|| format!("{word:?} is not an end of an attempt"))
}

pub(super) fn overlap(word: String) -> Result<Overlap, String> {
    let all = [Overlap::Skip, Overlap::Allow];
    all.into_iter().find(|o| o.word() == word).ok_or_else(|| format!("{word:?} is not an overlap"))
}

pub(super) fn level_word(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Trace => "trace",
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Warn => "warn",
        LogLevel::Error => "error",
    }
}

pub(super) fn level(word: String) -> Result<LogLevel, String> {
    let all = [LogLevel::Trace, LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Error];
    all.into_iter().find(|l| level_word(*l) == word).ok_or_else(|| format!("{word:?} is not a log level"))
}

pub(super) fn written(word: String) -> Result<Written, String> {
    Written::from_word(&word).ok_or_else(|| format!("{word:?} is not an answer to a write"))
}

pub(super) fn token(bytes: [u8; 16]) -> Result<Token, String> {
    Ok(Token(bytes))
}

pub(super) fn digest(bytes: [u8; 32]) -> Result<Digest, String> {
    Ok(Digest(bytes))
}

/// Names and values as JSON.
pub(super) fn pairs_text(pairs: &[(String, String)]) -> Result<String, Fault> {
    serde_json::to_string(pairs)
        .map_err(|error| Fault::Damaged { what: "named values".into(), reason: error.to_string() })
}

pub(super) fn pairs(text: String) -> Result<Vec<(String, String)>, serde_json::Error> {
    serde_json::from_str(&text)
}
