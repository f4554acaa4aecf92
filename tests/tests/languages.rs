//! The same checks against the conformance component of every language: each SDK says and hears the same of its host.
//!
//! `scripts/build-plugins --lang LANG` builds them from tests/conformance/LANG. A language whose component is not there is
//! skipped, and says so; with LEASEHOLD_REQUIRE_LANGUAGES=1 it fails instead.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use leasehold::clock;
use leasehold_tests::{HostProcess, Witness, Workplace, built_plugins, caches, until};
use serde_json::{Value, json};

/// Those that `leasehold new` knows.
const LANGUAGES: [&str; 6] = ["rust", "js", "ts", "python", "go", "c"];
/// The Rust SDK once more, for wasm32-unknown-unknown: a core module. Its target cannot be had everywhere, so it is never
/// demanded.
const RUST_CORE: &str = "rust-core";

/// A lease that a test can wait for. Hosts share what is compiled, which takes half a minute for some, and may take more than
/// is given to strangers' code; each has a store of its own.
fn settings() -> String {
    let data = caches().join("leasehold");
    format!(
        "[host]\ndata_dir = {data:?}\ncompile_cpu = \"400s\"\n[store]\nurl = \"sqlite://own.db\"\n[defaults]\nlease = \"3s\"\nheartbeat = \"500ms\"\n\
         min_interval = \"1s\"\ntimeout = \"1m\"\n"
    )
}

/// Latin, Greek, an astral character, a zero-width joiner, one that is written right to left, escapes.
const WORDS: &str = "grüße, κόσμε, 🦀👩‍👩‍👧, שלום, \\\"quoted\\\" \\\\ \\n \\u0001 \\ud83d\\ude00";

#[test]
fn every_language_returns_a_payload_byte_for_byte_up_to_a_mebibyte() {
    for_each_language(|language| {
        let w = workplace(language);
        // Blanks and escapes stay as they are: the bytes are the handler's, not a parser's.
        let small = format!("{{ \"check\" : \"echo\",\n \"words\": \"{WORDS}\" }}");
        let large = format!("{{\"check\":\"echo\",\"pad\":\"{}\"}}", "ü".repeat(500_000));
        let mut whole = String::from("{\"check\":\"echo\",\"pad\":\"\"}");
        whole.insert_str(whole.len() - 2, &"x".repeat((1 << 20) - whole.len()));
        assert_eq!(whole.len(), 1 << 20);
        for payload in [small, large, whole] {
            w.write("payload.json", &payload);
            let answer = w.leasehold(&["exec", "plugin.wasm", "--payload", "@payload.json"]);
            assert_eq!(answer.code, Some(0), "{language}: {}", answer.stderr);
            assert!(answer.stdout == payload, "{language}: {} bytes of {}", answer.stdout.len(), payload.len());
        }
    });
}

#[test]
fn every_language_returns_a_payload_that_is_no_json_as_it_is() {
    for_each_language(|language| {
        let w = workplace(language);
        w.write("payload.bin", every_byte());
        let mut exec = w.command(&["exec", "plugin.wasm", "--payload", "@payload.bin"]);
        let answer = exec.output().expect("leasehold can be run");
        assert!(answer.status.success() && answer.stdout == every_byte(), "{language}: {answer:?}");
    });
}

#[test]
fn every_language_knows_the_facts_of_its_run() {
    for_each_language(|language| {
        let w = workplace(language);
        let facts = output(&w, &json!({ "check": "facts" }));
        let same = [("tenant", json!("default")), ("job", json!("plugin")), ("attempt", json!(1)), ("fence", json!(1))];
        for (name, value) in same {
            assert_eq!(facts[name], value, "{language}: {facts}");
        }
        assert_eq!(facts["reason"], "on-demand", "{language}: {facts}");
        assert!(text(&facts["run_id"]).ends_with("/default/plugin/exec"), "{language}: {facts}");
        assert!(!text(&facts["key"]).is_empty(), "{language}: {facts}");
        let slot = facts["slot_ms"].as_i64().unwrap_or_else(|| panic!("{language}: no whole number: {facts}"));
        assert!((clock::wall().0 - slot).abs() < 600_000, "{language}: {facts}");
    });
}

#[test]
fn every_language_fails_in_each_of_the_three_ways() {
    for_each_language(|language| {
        let w = workplace(language);
        for (kind, retryable) in [("permanent", false), ("retryable", true)] {
            let (code, message) = ("upstream-odd", "grüße from upstream: \"5\" 🦀");
            let details = json!({ "port": "70000", "who": "späß" });
            let run = exec(
                &w,
                &json!({ "check": "fail", "kind": kind, "code": code, "message": message, "details": details }),
                &[],
            );
            assert_eq!(run["status"], "failed", "{language}: {run}");
            let error = &run["error"];
            assert_eq!((&error["code"], &error["retryable"]), (&json!(code), &json!(retryable)), "{language}: {run}");
            assert_eq!(error["message"], message, "{language}: {run}");
            for pair in [json!(["port", "70000"]), json!(["who", "späß"])] {
                assert!(list(&error["details"]).contains(&pair), "{language}: {run}");
            }
        }
        // Nobody asked it to stop, so this is a failure like any other.
        let run = exec(&w, &json!({ "check": "fail", "kind": "cancelled", "code": "", "message": "" }), &[]);
        assert_eq!(
            (&run["status"], &run["error"]["code"]),
            (&"failed".into(), &"cancelled".into()),
            "{language}: {run}"
        );
    });
}

#[test]
fn a_crash_in_any_language_fails_the_run_and_says_why() {
    for_each_language(|language| {
        let w = workplace(language);
        let run = exec(&w, &json!({ "check": "crash" }), &[]);
        // Where a language can, its SDK catches what nobody did; elsewhere the runtime traps.
        let code = match language {
            "js" | "ts" | "python" => "exception",
            "go" => "panic",
            _ => "trap",
        };
        assert_eq!((&run["status"], &run["error"]["code"]), (&"failed".into(), &code.into()), "{language}: {run}");
        assert_eq!(run["error"]["retryable"], false, "{language}: {run}");
        // A core module of Rust has no standard error, so its panic is in the log.
        let told =
            if language == RUST_CORE { run["logs"].to_string() } else { text(&run["error"]["message"]).to_owned() };
        assert!(told.contains("crash on purpose"), "{language}: {run}");
        // What was bundled is told by the author's own file.
        if let Some((file, source)) = bundled(language) {
            let line = 1 + source.lines().position(|line| line.contains("crash on purpose")).expect("the line");
            let details = run["error"]["details"].to_string();
            assert!(details.contains(&format!("({file}:{line}:")), "{language}: {run}");
            // The message is told by itself.
            assert!(details.contains("[\"stack\",\"    at "), "{language}: {run}");
        }
    });
}

#[test]
fn every_language_s_logging_reaches_the_run_s_log_at_every_level() {
    for_each_language(|language| {
        let w = workplace(language);
        let payload = json!({ "check": "log" });
        let run = exec(&w, &payload, &["--log-level", "trace"]);
        assert_eq!((&run["status"], &run["output"]), (&"success".into(), &Value::Null), "{language}: {run}");
        let lines = list(&run["logs"]);
        for level in ["trace", "debug", "info", "warn", "error"] {
            let message = format!("line at {level}: grüße");
            let line = lines.iter().find(|line| line["message"] == message.as_str());
            let line = line.unwrap_or_else(|| panic!("{language}: no {message:?}: {run}"));
            assert_eq!(line["level"], level, "{language}: {line}");
            let fields = line["fields"].to_string();
            assert!(fields.contains("[\"n\",\"7\"]") && fields.contains("[\"s\",\"späß\"]"), "{language}: {line}");
        }
        // What is less severe than what is kept is not said at all.
        let run = exec(&w, &payload, &["--log-level", "warn"]);
        let levels: Vec<&Value> = list(&run["logs"]).iter().map(|line| &line["level"]).collect();
        assert_eq!(levels, ["warn", "error"], "{language}: {run}");
    });
}

#[test]
fn a_wait_in_any_language_ends_by_itself_or_at_the_deadline() {
    for_each_language(|language| {
        let w = workplace(language);
        let short = output(&w, &json!({ "check": "sleep", "ms": 20 }));
        assert_eq!(short, json!({ "slept": true, "reason": null }), "{language}");
        let long = exec(&w, &json!({ "check": "sleep", "ms": 600_000 }), &["--timeout", "3s"]);
        assert_eq!(long["status"], "success", "{language}: {long}");
        assert_eq!(long["output"], json!({ "slept": false, "reason": "deadline" }), "{language}: {long}");
    });
}

#[test]
fn every_language_reads_and_writes_its_tenant_s_keys_and_settings() {
    for_each_language(|language| {
        let w = workplace(language);
        w.write("leasehold.toml", format!("{}[tenants.default.config]\nregion = \"eu – grüße\"\n", settings()));
        w.install(&component(language), "job.wasm");
        w.write("plugins/job.toml", "[[jobs]]\nname = \"job\"\nconfig = [\"region\"]\n");
        let host = serve(&w);
        let kv = triggered(&w, &json!({ "check": "kv" }));
        let expected = json!({
            "get": "1", "cas_wrong": false, "cas_right": true, "keys": ["conf/a"], "deleted": true, "after": null,
        });
        assert_eq!(kv["output"], expected, "{language}: {kv}");
        // What is empty is not what is missing, and any byte is kept.
        let kv = triggered(&w, &json!({ "check": "kv-bytes" }));
        let expected = json!({ "new": true, "empty": "", "present": false, "filled": true, "bytes": every_byte() });
        assert_eq!(kv["output"], expected, "{language}: {kv}");
        let region = triggered(&w, &json!({ "check": "config", "key": "region" }));
        assert_eq!(region["output"], "eu – grüße", "{language}: {region}");
        let unasked = triggered(&w, &json!({ "check": "config", "key": "nothing" }));
        assert_eq!(unasked["output"], Value::Null, "{language}: {unasked}");
        over(host);
    });
}

#[test]
fn every_language_sends_requests_and_is_told_why_one_is_denied() {
    for_each_language(|language| {
        let server = Witness::start();
        let origin = server.origin();
        let w = workplace(language);
        w.write("leasehold.toml", format!("{}[tenants.default.http]\nallow = [\"{origin}\"]\n", settings()));
        w.install(&component(language), "job.wasm");
        w.write("plugins/job.toml", format!("[[jobs]]\nname = \"job\"\nhttp = [\"{origin}\"]\n"));
        let host = serve(&w);
        let body = "{\"to\": \"späß 🦀\"}";
        let post = json!({
            "check": "http", "method": "POST", "url": format!("{origin}/orders?n=1"),
            "headers": { "x-ask": "please", "content-type": "application/json" }, "body": body,
        });
        let answer = triggered(&w, &post);
        let reply = "POST /orders?n=1 HTTP/1.1 please";
        assert_eq!(answer["output"], json!({ "status": 200, "body": body, "header": reply }), "{language}: {answer}");
        let get = json!({ "check": "http", "method": "GET", "url": format!("{origin}/"), "headers": {}, "body": null });
        let answer = triggered(&w, &get);
        let reply = "GET / HTTP/1.1 ";
        assert_eq!(answer["output"]["body"], "ok", "{language}: {answer}");
        assert_eq!(text(&answer["output"]["header"]).trim_end(), reply.trim_end(), "{language}: {answer}");
        assert_eq!(server.heard().len(), 2, "{language}");
        let get =
            json!({ "check": "http", "method": "GET", "url": "http://127.0.0.1:1/", "headers": {}, "body": null });
        let denied = triggered(&w, &get);
        assert_eq!(denied["error"]["code"], "http-denied", "{language}: {denied}");
        assert_eq!(denied["error"]["retryable"], false, "{language}: {denied}");
        over(host);
    });
}

#[test]
fn every_language_sends_and_receives_any_byte_and_each_value_of_a_header() {
    for_each_language(|language| {
        let server = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
        let origin = format!("http://{}", server.local_addr().expect("it is bound"));
        let w = workplace(language);
        w.write("leasehold.toml", format!("{}[tenants.default.http]\nallow = [\"{origin}\"]\n", settings()));
        w.install(&component(language), "job.wasm");
        w.write("plugins/job.toml", format!("[[jobs]]\nname = \"job\"\nhttp = [\"{origin}\"]\n"));
        let host = serve(&w);
        let asked = std::thread::spawn(move || answer_once(&server));
        let answer = triggered(&w, &json!({ "check": "http-bytes", "url": format!("{origin}/") }));
        assert_eq!(answer["output"], json!(every_byte()), "{language}: {answer}");
        let (head, body) = asked.join().expect("it was asked");
        assert_eq!(body, every_byte(), "{language}: {head}");
        // Two headers of one name, or both values in one, where a language has a name but once.
        let tags: Vec<&str> = head.lines().filter_map(|line| line.strip_prefix("x-tag: ")).collect();
        assert_eq!(tags.join(", "), "a, b", "{language}: {head}");
        over(host);
    });
}

#[test]
fn a_run_in_any_language_hears_that_it_was_cancelled() {
    for_each_language(|language| {
        let w = workplace(language);
        w.install(&component(language), "job.wasm");
        let mut host = serve(&w);
        let payload = json!({ "check": "poll" }).to_string();
        let asked = w.leasehold(&["trigger", "job", "--id", "long", "--payload", &payload]);
        assert_eq!(asked.code, Some(0), "{language}: {asked:?}");
        host.wait_for("claimed", "default/job");
        let cancelled = w.leasehold(&["cancel", "job", "long"]);
        assert_eq!(cancelled.code, Some(0), "{language}: {cancelled:?}");
        // It returned a value once it was told: what ends well is a success, whatever came first.
        host.wait_for("success", "default/job");
        let run = w.show("job", "long");
        assert_eq!(run["outcome"]["output"], json!({ "stopped": "cancelled" }), "{language}: {run}");
        over(host);
    });
}

#[test]
fn a_checkpoint_of_any_language_is_there_for_the_next_attempt() {
    for_each_language(|language| {
        let w = workplace(language);
        w.install(&component(language), "job.wasm");
        let mut first = serve(&w);
        let payload = json!({ "check": "state" }).to_string();
        let asked = w.leasehold(&["trigger", "job", "--id", "resumes", "--payload", &payload]);
        assert_eq!(asked.code, Some(0), "{language}: {asked:?}");
        let claimed = first.wait_for("claimed", "default/job");
        let run = text(&claimed["run"]);
        logged(&w, "saved");
        // Told to stop, it ends, and its host hands the run over.
        over(first);
        let mut second = w.serve();
        second.wait_until("success", |event| event["event"] == "success" && event["run"] == run);
        let shown = w.show("job", run);
        assert_eq!(shown["outcome"]["output"], json!({ "from": 1 }), "{language}: {shown}");
        assert_eq!(shown["starts"], 2, "{language}: {shown}");
        over(second);
    });
}

/// Those whose components are there. A missing one is skipped with a line, or fails where all are demanded.
fn for_each_language(check: impl Fn(&str)) {
    let built = built_plugins("conformance-");
    let missing: Vec<&str> = LANGUAGES.into_iter().filter(|language| !built.iter().any(|b| b == language)).collect();
    let demanded = std::env::var("LEASEHOLD_REQUIRE_LANGUAGES").is_ok_and(|value| value == "1");
    assert!(!demanded || missing.is_empty(), "not built: {missing:?}; run scripts/build-plugins --lang for each");
    let core = (!built.iter().any(|b| b == RUST_CORE)).then_some(RUST_CORE);
    for language in missing.into_iter().chain(core) {
        eprintln!("skipped {language}: tests/plugins/conformance-{language}.wasm is not built");
    }
    built.iter().for_each(|language| check(language));
}

fn component(language: &str) -> String {
    format!("conformance-{language}")
}

/// A folder with the language's component as `plugin.wasm`.
fn workplace(language: &str) -> Workplace {
    let w = Workplace::new(&settings());
    w.write("plugin.wasm", w.plugin(&component(language)));
    w
}

/// The handler's file and its text, where one script is made of all of a plugin.
fn bundled(language: &str) -> Option<(&'static str, &'static str)> {
    match language {
        "js" => Some(("handler.js", include_str!("../conformance/js/handler.js"))),
        "ts" => Some(("handler.ts", include_str!("../conformance/ts/handler.ts"))),
        _ => None,
    }
}

/// From 0 to 255.
fn every_byte() -> Vec<u8> {
    (0..=255).collect()
}

/// Answers one request with every byte; its head and its body.
fn answer_once(server: &TcpListener) -> (String, Vec<u8>) {
    let (mut stream, _) = server.accept().expect("a connection");
    let mut reader = BufReader::new(stream.try_clone().expect("a stream can be cloned"));
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).expect("a head"), 0, "cut short: {head}");
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).expect("a body");
    let answer = every_byte();
    let status = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
    stream.write_all(&[status.as_bytes(), &answer].concat()).expect("the host takes an answer");
    (head, body)
}

/// `leasehold exec --json`.
fn exec(w: &Workplace, payload: &Value, more: &[&str]) -> Value {
    let payload = payload.to_string();
    let answer = w.leasehold(&[&["exec", "plugin.wasm", "--json", "--payload", &payload], more].concat());
    let lines = answer.lines();
    lines.into_iter().next().unwrap_or_else(|| panic!("no answer: {answer:?}"))
}

/// The output of a run that must succeed.
fn output(w: &Workplace, payload: &Value) -> Value {
    let run = exec(w, payload, &[]);
    assert_eq!(run["status"], "success", "{run}");
    run["output"].clone()
}

/// A host that knows the job.
fn serve(w: &Workplace) -> HostProcess {
    let host = w.serve();
    let offered = |job: &Value| job["job"] == "default/job" && job["last_offered"].is_string();
    until("known", || w.leasehold(&["jobs", "--json"]).lines(), |jobs| jobs.iter().any(offered));
    host
}

/// The outcome of a run on demand.
fn triggered(w: &Workplace, payload: &Value) -> Value {
    let answer = w.leasehold(&["trigger", "job", "--payload", &payload.to_string(), "--wait", "--json"]);
    let run = answer.lines().into_iter().next().unwrap_or_else(|| panic!("no answer: {answer:?}"));
    run["outcome"].clone()
}

/// The host hands over and ends.
fn over(host: HostProcess) {
    host.terminate();
    let (status, stderr) = host.ended();
    assert!(status.success(), "{stderr}");
}

/// Waits until the job has logged this.
fn logged(w: &Workplace, words: &str) {
    until(&format!("logged {words:?}"), || w.leasehold(&["logs", "job"]).stdout, |logs| logs.contains(words));
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}"))
}
