//! Reads a web server's access log and says what is in it.
//!
//! The payload is the log itself, in the common or the combined log format, as `payload_file` hands it over. It may
//! instead be a JSON object, `{ "log": "…", "pace_ms": 20 }`: then the handler waits that long after each chunk of
//! lines, so that it can be watched at work, and stopped or killed in the middle of it.

use std::time::Duration;

use leasehold_guest::{Bytes, Error, Result, Run, handler};
use serde::Deserialize;

use summary::{Counts, Summary};

mod line;
mod summary;

handler!(report);

/// How many lines are read between two looks at the signal.
const CHUNK: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    log: String,
    #[serde(default)]
    pace_ms: u64,
}

fn report(run: &Run, input: Bytes) -> Result<Summary> {
    let (log, pace) = read(input)?;
    let lines: Vec<&[u8]> = log.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).collect();
    log::info!(lines = lines.len(), attempt = run.attempt(); "reading an access log");

    let mut counts = Counts::default();
    for chunk in lines.chunks(CHUNK) {
        run.ensure_continue()?;
        chunk.iter().for_each(|line| counts.add(line));
        run.progress(counts.lines(), Some(lines.len() as u64), "lines read");
        if !pace.is_zero() {
            run.sleep(pace)?;
        }
    }
    if counts.malformed() > 0 {
        log::warn!(malformed = counts.malformed(); "some lines are not in the common or combined log format");
    }
    Ok(counts.into_summary())
}

/// The log and the wait after each chunk.
fn read(Bytes(payload): Bytes) -> Result<(Vec<u8>, Duration)> {
    // No line of an access log begins with a brace: its first field is a host name or an address.
    if !payload.trim_ascii_start().starts_with(b"{") {
        return Ok((payload, Duration::ZERO));
    }
    let request: Request = serde_json::from_slice(&payload).map_err(|error| {
        Error::permanent("bad-input", format!("the payload is neither an access log nor a request: {error}"))
    })?;
    Ok((request.log.into_bytes(), Duration::from_millis(request.pace_ms)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_guest::{ErrorKind, StopReason, testing};
    use serde_json::{Value, json};

    const LINE: &str = r#"192.0.2.1 - - [29/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 100 "-" "curl/8.5.0""#;

    fn reported(payload: &[u8]) -> Value {
        let output = testing::call(&testing::run(), payload, report).expect("a report");
        serde_json::from_slice(&output).expect("JSON")
    }

    #[test]
    fn a_raw_log_is_counted_and_its_broken_lines_too() {
        let summary = reported(format!("{LINE}\n\nnonsense\n{LINE}\r\n").as_bytes());
        assert_eq!(summary["lines"], json!(3));
        assert_eq!(summary["malformed"], json!(1));
        assert_eq!(summary["by_status"], json!({ "200": 2 }));
        assert_eq!(summary["by_path"], json!([{ "path": "/a", "count": 2, "bytes": 200 }]));
    }

    #[test]
    fn a_request_with_a_pace_gives_the_same_report_as_the_raw_log() {
        let request = json!({ "log": LINE, "pace_ms": 20 }).to_string();
        assert_eq!(reported(request.as_bytes()), reported(LINE.as_bytes()));
    }

    #[test]
    fn an_empty_log_gives_a_report_of_nothing() {
        let summary = reported(b"");
        assert_eq!((&summary["lines"], &summary["response_size"]), (&json!(0), &Value::Null));
    }

    #[test]
    fn a_request_with_an_unknown_key_is_refused() {
        let error = testing::call(&testing::run(), br#"{ "log": "", "pace": 20 }"#, report).expect_err("a typo");
        assert_eq!((error.kind(), error.code()), (ErrorKind::Permanent, "bad-input"));
    }

    #[test]
    fn it_stops_between_two_chunks() {
        let run = testing::run();
        testing::stop_after(2, StopReason::Lost);
        let log = format!("{LINE}\n").repeat(3 * CHUNK);
        let error = testing::call(&run, log.as_bytes(), report).expect_err("stopped");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        assert_eq!(testing::progress().expect("a report of progress").done, 2 * CHUNK as u64);
    }

    #[test]
    fn the_sample_is_read_to_its_end() {
        let summary = reported(include_bytes!("../access.log"));
        assert!(summary["lines"].as_u64() > Some(2_000), "{summary}");
        assert!(summary["malformed"].as_u64() > Some(0), "the sample has broken lines on purpose: {summary}");
    }
}
