//! What comes back: rows read into answers, records and views.

use leasehold_lease::id::{Attempt, DemandId, Fence, JobKey, RunId, RunKey};
use leasehold_lease::op::{
    Accepted, CancelAnswer, ClaimAnswer, CloseAnswer, HeartbeatAnswer, Stamped, TriggerAnswer, UnblockAnswer,
};
use leasehold_lease::run::{AttemptEnd, AttemptRecord, Hold, Outcome, Progress, Run, Standing, Status, Usage};
use leasehold_lease::time::{Millis, Slot};
use leasehold_lease::write::{LastWrite, Written};
use serde::Deserialize;

use super::call::Row;
use crate::view::{AnnounceAnswer, Checked, HostOrders, HostRecord, HostReport, Identity, JobView, LogEntry};
use crate::view::{HostAnswer, RunStanding, RunView};
use crate::wire::{Meta, WireError, WireOutcome, bytes, from_json, token};

mod whole;

use whole::outcome;
pub(super) use whole::{host, identity, job, log_entry, told, whole_run};

/// An answer that was read, or why it was not.
pub(super) type Read<A> = Result<A, WireError>;

/// The text of a row that has one.
pub(super) fn text<'a>(what: &'static str, row: &'a Row) -> Read<&'a str> {
    row.answer.as_deref().ok_or_else(|| WireError::new(what, "it is empty"))
}

/// A row with its stamp.
pub(super) fn stamped<A>(row: &Row, read: impl FnOnce(&str) -> Read<A>) -> Read<Stamped<A>> {
    let answer = read(text("an answer", row)?)?;
    Ok(Stamped { now: Millis(row.at), revision: unsigned("a revision", row.revision)?, answer })
}

/// Rows behind the one that carries the clock, as far as they can be read. What cannot, which a newer host may have written,
/// is told and left out, so that it does not spoil the others.
pub(super) fn sound<A>(doing: &str, rows: Vec<Row>, read: impl Fn(&str) -> Read<A>) -> Read<Checked<Vec<A>>> {
    let now = time_of(&rows)?;
    let sound = |row: &Row| match text("an answer", row).and_then(&read) {
        Ok(answer) => Some(answer),
        Err(error) => {
            left_out(doing, &error);
            None
        }
    };
    Ok(Checked { now, answer: rows[1..].iter().filter_map(sound).collect() })
}

/// The row behind the one that carries the clock, if there is one.
pub(super) fn maybe_one<A>(rows: Vec<Row>, read: impl Fn(&str) -> Read<A>) -> Read<Checked<Option<A>>> {
    let now = time_of(&rows)?;
    let answer = rows.get(1).map(|row| read(text("an answer", row)?)).transpose()?;
    Ok(Checked { now, answer })
}

fn left_out(doing: &str, error: &WireError) {
    let error = error as &dyn std::error::Error;
    tracing::warn!(error, "a record cannot be read and is left out while {doing}; see what its row holds");
}

/// The rows of an answer without a clock.
pub(super) fn all<A>(rows: &[Row], read: impl Fn(&str) -> Read<A>) -> Read<Vec<A>> {
    rows.iter().map(|row| read(text("an answer", row)?)).collect()
}

/// The row of an answer that has one.
pub(super) fn only(rows: &[Row]) -> Read<&Row> {
    rows.first().ok_or_else(|| WireError::new("an answer", "it has no row"))
}

/// The clock alone.
pub(super) fn time(rows: Vec<Row>) -> Read<Millis> {
    time_of(&rows)
}

/// Bytes, where there are some.
pub(super) fn some_bytes(rows: Vec<Row>) -> Read<Option<Vec<u8>>> {
    rows.first().map(|row| bytes("a value", text("a value", row)?)).transpose()
}

/// A text, where there is one.
pub(super) fn some_text(rows: Vec<Row>) -> Read<Option<String>> {
    rows.first().map(|row| text("a text", row).map(str::to_owned)).transpose()
}

/// A key of a key-value space.
pub(super) fn kv_key(said: &str) -> Read<String> {
    String::from_utf8(bytes("a key", said)?).map_err(|error| WireError::new("a key", error))
}

/// How many.
pub(super) fn count(said: &str) -> Read<usize> {
    said.parse().map_err(|error| WireError::new("a count", error))
}

/// What one request to prune has done.
#[derive(Deserialize)]
pub(super) struct Pruned {
    /// How many runs were deleted.
    #[serde(rename = "pruned")]
    pub(super) runs: usize,
    /// Whether another request would delete more.
    #[serde(rename = "more")]
    pub(super) is_more: bool,
}

pub(super) fn pruned(said: &str) -> Read<Pruned> {
    from_json("the answer to a prune", said)
}

/// What a host is asked to do.
pub(super) fn orders(rows: Vec<Row>) -> Read<Checked<HostOrders>> {
    let row = only(&rows)?;
    let drain = from_json("a host's orders", text("a host's orders", row)?)?;
    Ok(Checked { now: Millis(row.at), answer: HostOrders { drain } })
}

/// Where the runs of these keys stand, in their order.
pub(super) fn standings(keys: &[RunKey], rows: Vec<Row>) -> Read<Checked<Vec<RunStanding>>> {
    let now = time_of(&rows)?;
    if rows.len() != keys.len() + 1 {
        return Err(WireError::new("where runs stand", "it is not one row a run"));
    }
    let answer = keys.iter().zip(&rows[1..]).map(|(key, row)| {
        let stands = text("where a run stands", row).and_then(|said| standing(key.clone(), said));
        // One that cannot be read is left unknown: no claim for it is answered either.
        stands.unwrap_or_else(|error| {
            left_out("looking at runs", &error);
            RunStanding { key: key.clone(), standing: None, newest_started: None, newest_skipped: None }
        })
    });
    Ok(Checked { now, answer: answer.collect() })
}

fn time_of(rows: &[Row]) -> Read<Millis> {
    Ok(Millis(only(rows)?.at))
}

fn unsigned(what: &'static str, number: i64) -> Read<u64> {
    u64::try_from(number).map_err(|error| WireError::new(what, error))
}

/// A run's id as answers name it.
#[derive(Deserialize)]
#[serde(untagged)]
enum IdSaid {
    Slot(i64),
    OnDemand(DemandId),
}

impl From<IdSaid> for RunId {
    fn from(said: IdSaid) -> RunId {
        match said {
            IdSaid::Slot(slot) => RunId::Slot(Slot(Millis(slot))),
            IdSaid::OnDemand(id) => RunId::OnDemand(id),
        }
    }
}

/// A run's id in columns.
pub(super) fn run_id(slot: i64, demand: &str) -> Read<RunId> {
    if demand.is_empty() {
        return Ok(RunId::Slot(Slot(Millis(slot))));
    }
    demand.parse().map(RunId::OnDemand).map_err(|error| WireError::new("a run's id", error))
}

#[derive(Deserialize)]
struct KeySaid {
    tenant: String,
    name: String,
    slot: i64,
    demand: String,
}

impl KeySaid {
    fn key(&self) -> Read<RunKey> {
        Ok(RunKey { job: job_key(&self.tenant, &self.name)?, run: run_id(self.slot, &self.demand)? })
    }
}

fn job_key(tenant: &str, name: &str) -> Read<JobKey> {
    let bad = |error| WireError::new("a job's key", error);
    Ok(JobKey { tenant: tenant.parse().map_err(bad)?, name: name.parse().map_err(bad)? })
}

fn slot(said: Option<i64>) -> Option<Slot> {
    said.map(|slot| Slot(Millis(slot)))
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ClaimSaid {
    Won {
        attempt: u32,
        fence: u64,
        payload: Option<String>,
    },
    Ended(Status),
    Running {
        attempt: u32,
        lease_end: i64,
    },
    Overlap(IdSaid),
    Stale,
    #[serde(rename = "none")]
    Unknown(Option<i64>),
    Late,
    Early,
    Superseded(Option<i64>),
    Held(Option<i64>),
    Old,
}

pub(super) fn claim(said: &str) -> Read<ClaimAnswer> {
    Ok(match from_json("the answer to a claim", said)? {
        ClaimSaid::Won { attempt, fence, payload } => ClaimAnswer::Won {
            attempt: Attempt(attempt),
            fence: Fence(fence),
            payload: payload.map(|payload| bytes("a payload", &payload)).transpose()?,
        },
        ClaimSaid::Ended(status) => ClaimAnswer::Ended(status),
        ClaimSaid::Running { attempt, lease_end } => {
            ClaimAnswer::Running { attempt: Attempt(attempt), lease_end: Millis(lease_end) }
        }
        ClaimSaid::Overlap(with) => ClaimAnswer::Overlap { with: with.into() },
        ClaimSaid::Stale => ClaimAnswer::Stale,
        ClaimSaid::Unknown(newest) => ClaimAnswer::None { newest_started: slot(newest) },
        ClaimSaid::Late => ClaimAnswer::Late,
        ClaimSaid::Early => ClaimAnswer::Early,
        ClaimSaid::Superseded(newest) => ClaimAnswer::Superseded { newest_started: slot(newest) },
        ClaimSaid::Held(until) => ClaimAnswer::Held { until: until.map(Millis) },
        ClaimSaid::Old => ClaimAnswer::Old,
    })
}

/// What a heartbeat is answered; none: another session holds the job.
pub(super) fn heartbeat(said: &str) -> Read<Option<HeartbeatAnswer>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Said {
        Renewed { lease_end: i64, cancelled: bool },
        Refused,
        Locked,
    }
    Ok(match from_json("the answer to a heartbeat", said)? {
        Said::Renewed { lease_end, cancelled } => {
            Some(HeartbeatAnswer::Renewed { lease_end: Millis(lease_end), cancelled })
        }
        Said::Refused => Some(HeartbeatAnswer::Refused),
        Said::Locked => None,
    })
}

pub(super) fn accepted(said: &str) -> Read<Accepted> {
    match said {
        "\"done\"" => Ok(Accepted::Done),
        "\"refused\"" => Ok(Accepted::Refused),
        other => Err(WireError::new("the answer to an end", other)),
    }
}

pub(super) fn written(said: &str) -> Read<Written> {
    let word: String = from_json("the answer to a write", said)?;
    Written::from_word(&word).ok_or_else(|| WireError::new("the answer to a write", word))
}

pub(super) fn trigger(said: &str) -> Read<TriggerAnswer> {
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Said {
        Stored,
        Exists(Status),
        Ended,
        Full,
    }
    Ok(match from_json("the answer to a trigger", said)? {
        Said::Stored => TriggerAnswer::Stored,
        Said::Exists(status) => TriggerAnswer::Exists(status),
        Said::Ended => TriggerAnswer::Ended,
        Said::Full => TriggerAnswer::Full,
    })
}

pub(super) fn cancel(said: &str) -> Read<CancelAnswer> {
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Said {
        Interrupted,
        Told,
        Ended(Status),
        #[serde(rename = "none")]
        Unknown,
    }
    Ok(match from_json("the answer to a cancel", said)? {
        Said::Interrupted => CancelAnswer::Interrupted,
        Said::Told => CancelAnswer::Told,
        Said::Ended(status) => CancelAnswer::Ended(status),
        Said::Unknown => CancelAnswer::None,
    })
}

pub(super) fn close(said: &str) -> Read<CloseAnswer> {
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Said {
        Closed,
        Live,
        Offered,
        Ended(Status),
        #[serde(rename = "none")]
        Unknown,
    }
    Ok(match from_json("the answer to a close", said)? {
        Said::Closed => CloseAnswer::Closed,
        Said::Live => CloseAnswer::Live,
        Said::Offered => CloseAnswer::Offered,
        Said::Ended(status) => CloseAnswer::Ended(status),
        Said::Unknown => CloseAnswer::None,
    })
}

pub(super) fn unblock(said: &str) -> Read<UnblockAnswer> {
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Said {
        Unblocked,
        NotBlocked,
        Live(IdSaid),
    }
    Ok(match from_json("the answer to an unblock", said)? {
        Said::Unblocked => UnblockAnswer::Unblocked,
        Said::NotBlocked => UnblockAnswer::NotBlocked,
        Said::Live(run) => UnblockAnswer::Live { run: run.into() },
    })
}

fn hold(said: Option<String>) -> Read<Option<Hold>> {
    said.map(|text| from_json("a hold", &text)).transpose()
}

pub(super) fn announced(said: &str) -> Read<AnnounceAnswer> {
    #[derive(Deserialize)]
    struct Said {
        since: i64,
        newest_started: Option<i64>,
        newest_skipped: Option<i64>,
        hold: Option<String>,
    }
    let said: Said = from_json("the answer to an announcement", said)?;
    Ok(AnnounceAnswer {
        since: Millis(said.since),
        newest_started: slot(said.newest_started),
        newest_skipped: slot(said.newest_skipped),
        hold: hold(said.hold)?,
    })
}

#[derive(Deserialize)]
struct StandingSaid {
    newest_started: Option<i64>,
    newest_skipped: Option<i64>,
    standing: Option<RunSaid>,
}

#[derive(Deserialize)]
struct RunSaid {
    status: Status,
    due: i64,
    lease_end: i64,
    released: bool,
    attempt: u32,
    lease: u64,
    outcome: Option<String>,
}

/// Where the run of this key stands.
pub(super) fn standing(key: RunKey, said: &str) -> Read<RunStanding> {
    let said: StandingSaid = from_json("where a run stands", said)?;
    let read = |said: RunSaid| {
        let reason = match said.outcome.map(|text| outcome(&text)).transpose()? {
            Some(Outcome::Interrupted { reason }) => Some(reason),
            _ => None,
        };
        Ok(Standing {
            status: said.status,
            due: Millis(said.due),
            lease_end: Millis(said.lease_end),
            released: said.released,
            attempt: Attempt(said.attempt),
            lease: std::time::Duration::from_millis(said.lease),
            reason,
        })
    };
    Ok(RunStanding {
        key,
        standing: said.standing.map(read).transpose()?,
        newest_started: slot(said.newest_started),
        newest_skipped: slot(said.newest_skipped),
    })
}

/// A standing that says which run it is of.
pub(super) fn keyed_standing(said: &str) -> Read<RunStanding> {
    #[derive(Deserialize)]
    struct Said<'a> {
        run: KeySaid,
        #[serde(borrow)]
        at: &'a serde_json::value::RawValue,
    }
    let found: Said<'_> = from_json("an unfinished run", said)?;
    standing(found.run.key()?, found.at.get())
}
