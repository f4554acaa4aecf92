//! The record as programs read it: stable names, times in RFC 3339, and never a token.

use leasehold_lease::id::{Attempt, RunId};
use leasehold_lease::run::{self, Failure, Outcome, Run, Usage};
use leasehold_lease::time::Millis;
use leasehold_store::{LogEntry, RunView};
use serde::Serialize;
use serde_json::value::RawValue;

use super::json_text;

/// A run.
#[derive(Debug, Serialize)]
pub(super) struct RunRecord {
    job: String,
    run: String,
    kind: &'static str,
    status: &'static str,
    attempt: u32,
    starts: u32,
    hand_overs: u32,
    runner: Option<String>,
    due: String,
    started_at: Option<String>,
    ended_at: Option<String>,
    lease_end: Option<String>,
    released: bool,
    outcome: Option<OutcomeRecord>,
    /// Why someone asked for its end.
    cancelled: Option<String>,
    progress: Option<ProgressRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<Vec<AttemptRecord>>,
}

impl RunRecord {
    /// A run as it is at `now`.
    pub(super) fn new(view: &RunView, now: Millis) -> RunRecord {
        let run = &view.run;
        RunRecord {
            job: view.key.job.to_string(),
            run: view.key.run.to_string(),
            kind: kind(&view.key.run),
            status: status(run, now),
            attempt: run.attempt().0,
            starts: run.starts,
            hand_overs: run.hand_overs,
            runner: run.current().map(|attempt| attempt.runner.clone()),
            due: run.due.to_string(),
            started_at: run.attempts.first().map(|first| first.started_at.to_string()),
            ended_at: run.ended_at.map(|at| at.to_string()),
            lease_end: run.current().map(|_| run.lease_end.to_string()),
            released: run.released,
            outcome: run.outcome.as_ref().map(OutcomeRecord::new),
            cancelled: run.cancelled.clone(),
            progress: run.progress.as_ref().map(ProgressRecord::new),
            attempts: None,
        }
    }

    /// A run as it is listed with its job: what was left out there is none, not empty.
    pub(super) fn brief(view: &RunView, now: Millis) -> RunRecord {
        let is_told = |outcome: &&Outcome| !matches!(outcome, Outcome::Success { .. });
        let outcome = view.run.outcome.as_ref().filter(is_told).map(OutcomeRecord::new);
        let first = view.run.attempts.first().filter(|first| first.attempt == Attempt(1));
        let started_at = first.map(|first| first.started_at.to_string());
        RunRecord { outcome, started_at, ..RunRecord::new(view, now) }
    }

    /// The same with all its attempts.
    pub(super) fn with_attempts(view: &RunView, now: Millis) -> RunRecord {
        let attempts = view.run.attempts.iter().map(AttemptRecord::new).collect();
        RunRecord { attempts: Some(attempts), ..RunRecord::new(view, now) }
    }
}

/// What kind of run it is.
pub(super) fn kind(run: &RunId) -> &'static str {
    match run {
        RunId::Slot(_) => "scheduled",
        RunId::OnDemand(_) => "on-demand",
    }
}

/// Where a run stands. "Released" and "expired" are never stored: they are what a run is whose status says running, and
/// whose host has given it back or has let its lease run out.
pub(super) fn status(run: &Run, now: Millis) -> &'static str {
    match (run.expired(now), run.released) {
        (true, true) => "released",
        (true, false) => "expired",
        (false, _) => run.status.word(),
    }
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum OutcomeRecord {
    Success(OutputRecord),
    Failed { error: FailureRecord },
    Interrupted { reason: String },
}

impl OutcomeRecord {
    fn new(outcome: &Outcome) -> OutcomeRecord {
        match outcome {
            Outcome::Success { output, cut } => OutcomeRecord::Success(OutputRecord::new(output, *cut)),
            Outcome::Failed(failure) => OutcomeRecord::Failed { error: FailureRecord::new(failure) },
            Outcome::Interrupted { reason } => OutcomeRecord::Interrupted { reason: reason.clone() },
        }
    }
}

/// An output: the value when it is JSON, else text, else hexadecimal digits.
#[derive(Debug, Serialize)]
pub(super) struct OutputRecord {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_hex: Option<String>,
    cut: bool,
}

impl OutputRecord {
    /// An output of which only the beginning is kept when it is `cut`.
    pub(super) fn new(bytes: &[u8], cut: bool) -> OutputRecord {
        let none = OutputRecord { output: None, output_text: None, output_hex: None, cut };
        // The beginning of a JSON value can be another one, such as 12 of 1234.
        if let Some(value) = json_text::compact(bytes).filter(|_| !cut) {
            return OutputRecord { output: Some(value), ..none };
        }
        match text_of(bytes, cut) {
            Some(text) => OutputRecord { output_text: Some(text.to_owned()), ..none },
            None => OutputRecord { output_hex: Some(bytes.iter().map(|b| format!("{b:02x}")).collect()), ..none },
        }
    }
}

/// The text, if it is one; a cut may have hit a character in the middle.
pub(super) fn text_of(bytes: &[u8], cut: bool) -> Option<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) if cut && error.error_len().is_none() => std::str::from_utf8(&bytes[..error.valid_up_to()]).ok(),
        Err(_) => None,
    }
}

/// Why a handler failed.
#[derive(Debug, Serialize)]
pub(super) struct FailureRecord {
    code: String,
    message: String,
    retryable: bool,
    /// Pairs, because a handler may use a key twice.
    details: Vec<(String, String)>,
}

impl FailureRecord {
    /// A failure.
    pub(super) fn new(failure: &Failure) -> FailureRecord {
        let Failure { code, message, details, retryable } = failure.clone();
        FailureRecord { code, message, retryable, details }
    }
}

#[derive(Debug, Serialize)]
struct ProgressRecord {
    done: u64,
    total: Option<u64>,
    message: String,
}

impl ProgressRecord {
    fn new(progress: &run::Progress) -> ProgressRecord {
        ProgressRecord { done: progress.done, total: progress.total, message: progress.message.clone() }
    }
}

#[derive(Debug, Serialize)]
struct AttemptRecord {
    attempt: u32,
    runner: String,
    digest: Option<String>,
    fence: u64,
    started_at: String,
    ended_at: Option<String>,
    end: Option<&'static str>,
    usage: Option<Usage>,
}

impl AttemptRecord {
    fn new(record: &run::AttemptRecord) -> AttemptRecord {
        AttemptRecord {
            attempt: record.attempt.0,
            runner: record.runner.clone(),
            digest: record.digest.map(|digest| digest.to_string()),
            fence: record.fence.0,
            started_at: record.started_at.to_string(),
            ended_at: record.ended.map(|(at, _)| at.to_string()),
            end: record.ended.map(|(_, how)| how.word()),
            usage: record.usage,
        }
    }
}

/// A log line of a run.
#[derive(Debug, Serialize)]
pub(super) struct LogRecord<'a> {
    job: String,
    run: String,
    attempt: u32,
    sequence: u64,
    at: String,
    level: leasehold_lease::log::LogLevel,
    target: &'a str,
    message: &'a str,
    fields: &'a [(String, String)],
}

impl LogRecord<'_> {
    /// A line of this run.
    pub(super) fn new<'a>(view: &RunView, entry: &'a LogEntry) -> LogRecord<'a> {
        LogRecord {
            job: view.key.job.to_string(),
            run: view.key.run.to_string(),
            attempt: entry.attempt.0,
            sequence: entry.sequence,
            at: entry.line.at.to_string(),
            level: entry.line.level,
            target: &entry.line.target,
            message: &entry.line.message,
            fields: &entry.line.fields,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use leasehold_lease::id::{Attempt, Digest, Fence, RunKey, Token};
    use leasehold_lease::policy::Policy;
    use leasehold_lease::run::{AttemptEnd, Status};
    use leasehold_lease::time::Slot;
    use serde_json::{Value, json};

    /// A run at slot 0 that was taken over once and is being executed, with a lease to 60 s.
    pub(in crate::cli) fn taken_over() -> RunView {
        let attempt = |n, ended| run::AttemptRecord {
            attempt: Attempt(n),
            token: Token([0xab; 16]),
            fence: Fence(u64::from(n)),
            runner: format!("host-{n}"),
            terms: Policy::default().terms(),
            digest: Some(Digest([0x12; 32])),
            started_at: Millis(i64::from(n) * 1_000),
            ended,
            last_write: Default::default(),
            last_log: Default::default(),
            usage: None,
        };
        let mut run = Run::new(Millis(0), None);
        run.status = Status::Running;
        run.lease_end = Millis(60_000);
        run.starts = 2;
        run.attempts = vec![attempt(1, Some((Millis(2_000), AttemptEnd::Lost))), attempt(2, None)];
        let key = RunKey { job: "acme/x".parse().unwrap(), run: RunId::Slot(Slot(Millis(0))) };
        RunView { key, run }
    }

    fn json(record: &RunRecord) -> Value {
        serde_json::to_value(record).unwrap()
    }

    #[test]
    fn a_run_has_stable_names_and_no_token() {
        let record = json(&RunRecord::with_attempts(&taken_over(), Millis(60_000)));
        assert!(!record.to_string().contains("abab") && !record.to_string().contains("171,171"), "{record}");
        let attempts = &record["attempts"];
        assert_eq!(attempts[0]["end"], "lost");
        assert_eq!(attempts[1]["ended_at"], Value::Null);
        let mut record = record;
        record.as_object_mut().unwrap().remove("attempts");
        let expected = json!({
            "job": "acme/x", "run": "1970-01-01T00:00:00.000Z", "kind": "scheduled", "status": "running",
            "attempt": 2, "starts": 2, "hand_overs": 0, "runner": "host-2", "due": "1970-01-01T00:00:00.000Z",
            "started_at": "1970-01-01T00:00:01.000Z", "ended_at": null, "lease_end": "1970-01-01T00:01:00.000Z",
            "released": false, "outcome": null, "cancelled": null, "progress": null,
        });
        assert_eq!(record, expected);
    }

    #[test]
    fn what_a_list_of_jobs_leaves_out_is_none() {
        let mut view = taken_over();
        view.run.outcome = Some(Outcome::Success { output: Vec::new(), cut: true });
        let whole = json(&RunRecord::brief(&view, Millis(0)));
        assert_eq!((&whole["outcome"], &whole["started_at"]), (&Value::Null, &json!("1970-01-01T00:00:01.000Z")));
        view.run.attempts.remove(0);
        view.run.outcome = Some(Outcome::Interrupted { reason: "r".into() });
        let brief = json(&RunRecord::brief(&view, Millis(0)));
        assert_eq!((&brief["outcome"], &brief["started_at"]), (&json!({"reason": "r"}), &Value::Null), "{brief}");
    }

    #[test]
    fn a_run_whose_lease_is_over_is_expired_and_one_that_was_given_back_is_released() {
        let mut view = taken_over();
        assert_eq!(status(&view.run, Millis(60_000)), "running");
        assert_eq!(status(&view.run, Millis(60_001)), "expired");
        view.run.released = true;
        assert_eq!(status(&view.run, Millis(0)), "released");
        view.run.status = Status::Success;
        assert_eq!(status(&view.run, Millis(60_001)), "success");
    }

    #[test]
    fn an_output_is_json_text_or_digits() {
        let record = |bytes: &[u8], cut| serde_json::to_string(&OutputRecord::new(bytes, cut)).unwrap();
        assert_eq!(
            record(b"{\"n\": 18446744073709551616}", false),
            r#"{"output":{"n":18446744073709551616},"cut":false}"#
        );
        assert_eq!(record(b"12", true), r#"{"output_text":"12","cut":true}"#);
        assert_eq!(record("hellö".as_bytes(), false), r#"{"output_text":"hellö","cut":false}"#);
        assert_eq!(record(&"hellö".as_bytes()[..5], true), r#"{"output_text":"hell","cut":true}"#);
        assert_eq!(record(&[0xff, 0x00], false), r#"{"output_hex":"ff00","cut":false}"#);
        assert_eq!(record(b"", false), r#"{"output_text":"","cut":false}"#);
    }

    #[test]
    fn each_outcome_has_its_own_fields() {
        let of = |outcome: Outcome| serde_json::to_value(OutcomeRecord::new(&outcome)).unwrap();
        let failure =
            Failure { code: "c".into(), message: "m".into(), details: vec![("k".into(), "v".into())], retryable: true };
        let error = json!({"code": "c", "message": "m", "retryable": true, "details": [["k", "v"]]});
        assert_eq!(of(Outcome::Failed(failure)), json!({ "error": error }));
        assert_eq!(of(Outcome::Interrupted { reason: "r".into() }), json!({"reason": "r"}));
        assert_eq!(of(Outcome::Success { output: b"[1]".to_vec(), cut: false }), json!({"output": [1], "cut": false}));
    }
}
