//! What comes back of whole records: runs with all their attempts, and jobs.

use leasehold_lease::id::{Attempt, Fence};
use leasehold_lease::run::{AttemptEnd, AttemptRecord, Outcome, Progress, Run, Status, Usage};
use leasehold_lease::time::Millis;
use leasehold_lease::write::{LastWrite, Written};
use serde::Deserialize;

use super::answer::{KeySaid, Read, hold, job_key, slot};
use crate::view::{JobView, RunView};
use crate::wire::{Meta, WireError, WireOutcome, bytes, from_json, token};

/// How a run ended.
pub(super) fn outcome(text: &str) -> Read<Outcome> {
    from_json::<WireOutcome>("an outcome", text)?.outcome()
}

#[derive(Deserialize)]
struct WholeSaid {
    run: KeySaid,
    status: Status,
    due: i64,
    lease_end: i64,
    released: bool,
    starts: u32,
    hand_overs: u32,
    ended_at: Option<i64>,
    cancelled: Option<String>,
    state_size: Option<u64>,
    kept_size: u64,
    progress: Option<String>,
    outcome: Option<String>,
    payload: Option<String>,
    current: Option<AttemptSaid>,
    older: Option<Vec<AttemptSaid>>,
}

#[derive(Deserialize)]
struct AttemptSaid {
    attempt: u32,
    token: String,
    fence: u64,
    meta: String,
    started_at: i64,
    ended_at: Option<i64>,
    ended: Option<AttemptEnd>,
    usage: Option<String>,
    write_number: u64,
    write_word: String,
    log_number: u64,
    log_word: String,
}

impl AttemptSaid {
    fn record(self) -> Read<AttemptRecord> {
        let (runner, digest, terms) = from_json::<Meta>("an attempt's policy", &self.meta)?.parts()?;
        let last = |number, word: &str| {
            let written = Written::from_word(word).ok_or_else(|| WireError::new("a write's answer", word))?;
            Ok(LastWrite { number, written })
        };
        Ok(AttemptRecord {
            attempt: Attempt(self.attempt),
            // The server writes it with dashes.
            token: token(&self.token.replace('-', ""))?,
            fence: Fence(self.fence),
            runner,
            terms,
            digest,
            started_at: Millis(self.started_at),
            ended: self.ended_at.map(Millis).zip(self.ended),
            last_write: last(self.write_number, &self.write_word)?,
            last_log: last(self.log_number, &self.log_word)?,
            usage: self.usage.map(|text| from_json::<Usage>("an attempt's usage", &text)).transpose()?,
        })
    }
}

impl WholeSaid {
    fn view(self) -> Read<RunView> {
        let key = self.run.key()?;
        let attempts = self.older.unwrap_or_default().into_iter().chain(self.current);
        let run = Run {
            status: self.status,
            due: Millis(self.due),
            lease_end: Millis(self.lease_end),
            released: self.released,
            starts: self.starts,
            hand_overs: self.hand_overs,
            attempts: attempts.map(AttemptSaid::record).collect::<Read<_>>()?,
            ended_at: self.ended_at.map(Millis),
            outcome: self.outcome.map(|text| outcome(&text)).transpose()?,
            progress: self.progress.map(|text| from_json::<Progress>("a progress report", &text)).transpose()?,
            payload: self.payload.map(|text| bytes("a payload", &text)).transpose()?,
            cancelled: self.cancelled.map(|text| from_json("a reason", &text)).transpose()?,
            state_size: self.state_size,
            kept_size: self.kept_size,
        };
        Ok(RunView { key, run })
    }
}

/// All that is kept of a run.
pub(super) fn whole_run(said: &str) -> Read<RunView> {
    from_json::<WholeSaid>("a run", said)?.view()
}

/// A job.
pub(super) fn job(said: &str) -> Read<JobView> {
    #[derive(Deserialize)]
    struct Said {
        tenant: String,
        name: String,
        revision: u64,
        newest_started: Option<i64>,
        newest_skipped: Option<i64>,
        since: Option<i64>,
        fingerprint: String,
        last_offered: Option<i64>,
        hold: Option<String>,
        stored: u64,
        unfinished: u64,
        last: Option<WholeSaid>,
    }
    let said: Said = from_json("a job", said)?;
    Ok(JobView {
        key: job_key(&said.tenant, &said.name)?,
        revision: said.revision,
        newest_started: slot(said.newest_started),
        newest_skipped: slot(said.newest_skipped),
        since: said.since.map(Millis),
        fingerprint: from_json("a fingerprint", &said.fingerprint)?,
        last_offered: said.last_offered.map(Millis),
        hold: hold(said.hold)?,
        stored: said.stored,
        unfinished: said.unfinished,
        last: said.last.map(WholeSaid::view).transpose()?,
    })
}
