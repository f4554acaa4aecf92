//! Does what the tests of all languages ask for: one handler, told by its payload what to show.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_guest::http::{HttpError, Request};
use leasehold_guest::{Bytes, Error, Result, Run, StopReason, handler};
use serde::Deserialize;
use serde_json::{Value, json};

handler!(conform);

#[derive(Deserialize)]
#[serde(tag = "check", rename_all = "kebab-case")]
enum Check {
    Echo,
    Facts,
    Fail {
        kind: String,
        code: String,
        message: String,
        #[serde(default)]
        details: BTreeMap<String, String>,
    },
    Crash,
    Log,
    Poll,
    Sleep {
        ms: u64,
    },
    State,
    Kv,
    KvBytes,
    Config {
        key: String,
    },
    Http {
        method: String,
        url: String,
        #[serde(default)]
        headers: BTreeMap<String, String>,
        body: Option<String>,
    },
    HttpBytes {
        url: String,
    },
}

fn conform(run: &Run, input: Bytes) -> Result<Bytes> {
    // What is no JSON comes back as it is.
    let Ok(asked) = serde_json::from_slice::<Value>(&input.0) else { return Ok(input) };
    let check = serde_json::from_value(asked).map_err(|error| Error::permanent("bad-input", error))?;
    let output = match check {
        Check::Echo => return Ok(input),
        Check::Facts => facts(run),
        Check::Fail { kind, code, message, details } => return Err(failure(&kind, &code, &message, details)),
        Check::Crash => panic!("crash on purpose"),
        Check::Log => log_lines(),
        Check::Poll => poll(run),
        Check::Sleep { ms } => sleep(run, ms),
        Check::State => state(run)?,
        Check::Kv => kv(run)?,
        Check::KvBytes => kv_bytes(run)?,
        Check::Config { key } => json!(run.config(&key)),
        Check::Http { method, url, headers, body } => send(run, &method, &url, headers, body)?,
        Check::HttpBytes { url } => send_bytes(run, &url)?,
    };
    Ok(Bytes(output.to_string().into_bytes()))
}

fn facts(run: &Run) -> Value {
    json!({
        "tenant": run.tenant(), "job": run.job(), "attempt": run.attempt(), "reason": run.reason(), "run_id": run.id(),
        "fence": run.fence(), "slot_ms": run.slot_ms(), "key": run.idempotency_key("charge-42"),
    })
}

fn failure(kind: &str, code: &str, message: &str, details: BTreeMap<String, String>) -> Error {
    let error = match kind {
        "permanent" => Error::permanent(code, message),
        "retryable" => Error::retryable(code, message),
        "cancelled" => Error::cancelled(),
        _ => Error::permanent("bad-input", format!("no such kind: {kind}")),
    };
    details.into_iter().fold(error, |error, (key, value)| error.with_detail(key, value))
}

fn log_lines() -> Value {
    log::trace!(n = 7, s = "späß"; "line at trace: grüße");
    log::debug!(n = 7, s = "späß"; "line at debug: grüße");
    log::info!(n = 7, s = "späß"; "line at info: grüße");
    log::warn!(n = 7, s = "späß"; "line at warn: grüße");
    log::error!(n = 7, s = "späß"; "line at error: grüße");
    Value::Null
}

fn poll(run: &Run) -> Value {
    // What it answers is asked for again below, by the loop.
    while run.should_continue() {
        let _ = run.sleep(Duration::from_millis(5));
    }
    json!({ "stopped": run.stop_reason().as_ref().map(StopReason::as_str) })
}

fn sleep(run: &Run, ms: u64) -> Value {
    let slept = run.sleep(Duration::from_millis(ms)).is_ok();
    json!({ "slept": slept, "reason": run.stop_reason().as_ref().map(StopReason::as_str) })
}

fn state(run: &Run) -> Result<Value> {
    if let Some(found) = run.load_state::<Value>()? {
        return Ok(found);
    }
    run.save_state(&json!({ "from": run.attempt() }))?;
    log::info!("saved");
    loop {
        run.sleep(Duration::from_secs(60))?;
    }
}

fn kv(run: &Run) -> Result<Value> {
    let kv = run.kv();
    kv.set("conf/a", "1")?;
    let get = text(kv.get("conf/a")?);
    let cas_wrong = kv.compare_and_set("conf/a", Some(b"0"), "2")?;
    let cas_right = kv.compare_and_set("conf/a", Some(b"1"), "2")?;
    let keys = kv.keys("conf/", None, 10)?;
    let deleted = kv.delete("conf/a")?;
    let after = text(kv.get("conf/a")?);
    Ok(json!({
        "get": get, "cas_wrong": cas_wrong, "cas_right": cas_right, "keys": keys, "deleted": deleted, "after": after,
    }))
}

fn kv_bytes(run: &Run) -> Result<Value> {
    let (kv, key) = (run.kv(), "conf/b");
    let new = kv.compare_and_set(key, None, "")?;
    let empty = text(kv.get(key)?);
    let present = kv.compare_and_set(key, None, "x")?;
    let filled = kv.compare_and_set(key, Some(b""), every_byte())?;
    let bytes = kv.get(key)?;
    Ok(json!({ "new": new, "empty": empty, "present": present, "filled": filled, "bytes": bytes }))
}

fn every_byte() -> Vec<u8> {
    (0..=255).collect()
}

fn text(value: Option<Vec<u8>>) -> Option<String> {
    value.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn send(run: &Run, method: &str, url: &str, headers: BTreeMap<String, String>, body: Option<String>) -> Result<Value> {
    let mut request = Request::new(method, url);
    for (name, value) in &headers {
        request = request.header(name, value);
    }
    if let Some(body) = body {
        request = request.body(body);
    }
    let response = request.send(run).map_err(|error| Error::permanent(case(&error), &error))?;
    let body = String::from_utf8_lossy(&response.body);
    Ok(json!({ "status": response.status, "body": body, "header": response.header("x-reply") }))
}

fn send_bytes(run: &Run, url: &str) -> Result<Value> {
    let request = Request::post(url).header("x-tag", "a").header("x-tag", "b").body(every_byte());
    Ok(json!(request.send(run)?.body))
}

fn case(error: &HttpError) -> &'static str {
    match error {
        HttpError::Lost => "http-lost",
        HttpError::Uncertain => "http-uncertain",
        HttpError::Denied(_) => "http-denied",
        HttpError::Invalid(_) => "http-invalid",
        HttpError::Unreachable(_) => "http-unreachable",
        HttpError::Timeout => "http-timeout",
        HttpError::TooLarge(_) => "http-too-large",
        _ => "http-other",
    }
}
