//! What people look at: whole runs, jobs, logs, answers and hosts.

use super::*;

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
pub(in crate::postgres) fn whole_run(said: &str) -> Read<RunView> {
    from_json::<WholeSaid>("a run", said)?.view()
}

/// A job.
pub(in crate::postgres) fn job(said: &str) -> Read<JobView> {
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

/// A log line.
pub(in crate::postgres) fn log_entry(said: &str) -> Read<LogEntry> {
    #[derive(Deserialize)]
    struct Said {
        sequence: u64,
        attempt: u32,
        line: String,
    }
    let said: Said = from_json("a log line", said)?;
    Ok(LogEntry { sequence: said.sequence, attempt: Attempt(said.attempt), line: from_json("a log line", &said.line)? })
}

/// What a host was told about a run of this job.
pub(in crate::postgres) fn told(job: &JobKey, said: &str) -> Read<HostAnswer> {
    #[derive(Deserialize)]
    struct Said {
        slot: i64,
        demand: String,
        body: String,
    }
    let said: Said = from_json("what a host was told", said)?;
    let body: crate::postgres::told::Body<'_> = from_json("what a host was told", &said.body)?;
    Ok(body.told(RunKey { job: job.clone(), run: run_id(said.slot, &said.demand)? }))
}

/// A host.
pub(in crate::postgres) fn host(said: &str) -> Read<HostRecord> {
    #[derive(Deserialize)]
    struct Said {
        report: String,
        first_seen: i64,
        last_seen: i64,
        drain: bool,
    }
    let said: Said = from_json("a host", said)?;
    let report: HostReport = from_json::<crate::postgres::told::Report<'_>>("a host's report", &said.report)?.into();
    Ok(HostRecord {
        report,
        first_seen: Millis(said.first_seen),
        last_seen: Millis(said.last_seen),
        orders: HostOrders { drain: said.drain },
    })
}

/// Who a store is.
pub(in crate::postgres) fn identity(rows: &[Row]) -> Read<Identity> {
    #[derive(Deserialize)]
    struct Said {
        id: String,
        secret: String,
    }
    let said: Said = from_json("an identity", text("an identity", only(rows)?)?)?;
    let secret = bytes("a secret", &said.secret)?;
    let secret = secret.try_into().map_err(|_| WireError::new("a secret", "it has not 32 bytes"))?;
    Ok(Identity { id: said.id, secret })
}
