//! What a guest may use, by the configuration and its manifest: each breach has its own word, and what was used is recorded.

use leasehold_tests::{Workplace, soon_then_rarely};
use serde_json::Value;

const DEFAULTS: &str =
    "lease = \"3s\"\nheartbeat = \"500ms\"\nmin_interval = \"1s\"\ntimeout = \"2s\"\nmemory = \"64MiB\"";

/// One job a wish, each due every four seconds; `keys` are further keys of its manifest.
fn unruly(configuration: &str, wishes: &[(&str, &str, &str)]) -> Workplace {
    let w = Workplace::new(configuration);
    w.install("unruly", "unruly.wasm");
    let job = |(name, wish, keys): &(&str, &str, &str)| {
        format!("[[jobs]]\nname = \"{name}\"\nevery = \"4s\"\npayload = {{ do = {wish} }}\n{keys}\n")
    };
    w.write("plugins/unruly.toml", wishes.iter().map(job).collect::<String>());
    w
}

#[test]
fn every_way_to_fail_has_its_own_word_and_no_heartbeat_is_missed() {
    let wishes = [
        ("spin", "\"spin\"", "", "timeout"),
        ("burn", "\"spin\"", "cpu = \"50ms\"", "cpu"),
        ("fuel", "\"spin\"", "fuel = 1000000", "fuel"),
        ("calls", "\"calls\"", "host_calls = 1", "budget"),
        ("grow", "\"grow\"", "", "memory"),
        ("recurse", "\"recurse\"", "", "stack"),
        ("panic", "\"panic\"", "", "trap"),
        ("exit", "\"exit\"", "", "exit"),
        ("output", "\"output\", bytes = 2000", "output_max = \"1KiB\"", "output-too-large"),
        ("giant", "\"output\", bytes = 12000000", "", "output-too-large"),
        ("fail", "\"fail\", code = \"upstream-down\"", "", "upstream-down"),
        ("complain", "\"complain\", bytes = 100000", "", "handler:ccc"),
    ];
    let mut jobs: Vec<_> = wishes.iter().map(|(name, wish, keys, _)| (*name, *wish, *keys)).collect();
    jobs.push(("flood", "\"flood\"", ""));
    let w = unruly(&format!("[defaults]\n{DEFAULTS}\n"), &jobs);
    w.install("hello", "hello.wasm");
    w.write("plugins/hello.toml", "[[jobs]]\nname = \"hello\"\nevery = \"1s\"\npayload = { name = \"world\" }\n");
    let mut host = w.serve();
    for (name, _, _, word) in wishes {
        let failed = host.wait_for("failed", &format!("default/{name}"));
        let detail = failed["detail"].as_str().expect("a failure says why");
        assert!(detail.starts_with(word), "{name}: {detail}");
        assert!(word == "handler:ccc" || detail.starts_with(&format!("{word}: ")), "{name}: {detail}");
    }
    // It prints until its time is up; the log is cut, the run is well.
    host.wait_for("success", "default/flood");
    host.wait_for("success", "default/hello");
    let missed = |event: &&Value| matches!(event["event"].as_str(), Some("uncertain" | "lost" | "takeover"));
    assert_eq!(host.events().iter().filter(missed).count(), 0);
    host.terminate();
    assert!(host.ended().0.success());
    let panicked = w.leasehold(&["show", "panic", "latest"]);
    assert!(panicked.stdout.contains("as I was told"), "the panic's message is kept: {panicked:?}");
    let complained = ended(&w, "complain");
    let error = &complained["outcome"]["error"];
    assert!(error["code"].as_str().is_some_and(|code| code.len() <= 64), "{error}");
    assert!(error["message"].as_str().is_some_and(|message| message.len() <= 8 * 1024), "{error}");
}

#[test]
fn what_an_attempt_used_is_recorded() {
    let w = unruly(
        &format!("[defaults]\n{DEFAULTS}\n"),
        &[("burn", "\"spin\"", "cpu = \"200ms\""), ("flood", "\"flood\"", "")],
    );
    let mut host = w.serve();
    host.wait_for("failed", "default/burn");
    host.wait_for("success", "default/flood");
    host.terminate();
    assert!(host.ended().0.success());
    let used = |job, key: &str| ended(&w, job)["attempts"][0]["usage"][key].as_u64().expect("a number");
    assert!((200..600).contains(&used("burn", "cpu_ms")), "{}", used("burn", "cpu_ms"));
    assert!(used("burn", "wall_ms") >= 200);
    assert!((1 << 20..64 << 20).contains(&used("burn", "peak_memory")));
    assert!(used("flood", "host_calls") > 1_000);
    assert!((900_000..=1 << 20).contains(&used("flood", "log_bytes")), "{}", used("flood", "log_bytes"));
}

#[test]
fn a_job_that_asks_for_more_than_its_tenant_has_is_refused_key_by_key() {
    let configuration =
        format!("[defaults]\n{DEFAULTS}\n[tenants.default]\ncpu = \"1s\"\nfuel = 1000\nhost_calls = 10\n");
    let keys = [
        ("cpu", "\"2s\""),
        ("fuel", "1001"),
        ("host_calls", "11"),
        ("handles_max", "10001"),
        ("random_max", "\"1MiB\""),
    ];
    let all: String = keys.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    let w =
        unruly(&configuration, &[("greedy", "\"spin\"", &all), ("modest", "\"spin\"", "cpu = \"500ms\"\nfuel = 999")]);
    let checked = w.leasehold(&["check"]);
    assert_eq!(checked.code, Some(2), "{checked:?}");
    let told = checked.stdout + &checked.stderr;
    for (key, _) in keys {
        assert!(told.contains(&format!("jobs.greedy.{key}")), "{key}: {told}");
    }
    assert!(told.contains("above the tenant's limit") && !told.contains("modest"), "{told}");
}

#[test]
fn exec_takes_every_limit() {
    let w = unruly("", &[]);
    let exec = |payload: &str, limits: &[&str]| {
        let fixed = ["exec", "plugins/unruly.wasm", "--json", "--payload", payload];
        let answer = w.leasehold(&[&fixed[..], limits].concat());
        assert_eq!(answer.code, Some(1), "{answer:?}");
        answer.lines().remove(0)
    };
    let burnt = exec(r#"{"do":"spin"}"#, &["--cpu", "200ms"]);
    assert_eq!((&burnt["error"]["code"], &burnt["usage"]["fuel"]), (&Value::from("cpu"), &Value::Null));
    let burnt = exec(r#"{"do":"spin"}"#, &["--fuel", "1000000"]);
    assert_eq!((&burnt["error"]["code"], &burnt["usage"]["fuel"]), (&Value::from("fuel"), &Value::from(1_000_000)));
    let called = exec(r#"{"do":"calls"}"#, &["--host-calls", "1"]);
    assert_eq!(called["error"]["code"], "budget");
    let grown = exec(r#"{"do":"grow"}"#, &["--memory", "4MiB"]);
    assert_eq!(grown["error"]["code"], "memory");
}

#[test]
fn a_host_whose_memory_is_in_use_starts_nothing_until_there_is_room() {
    let configuration =
        format!("[host]\nmemory = \"24MiB\"\n[defaults]\n{DEFAULTS}\ntimeout = \"10s\"\ntenant_memory = \"24MiB\"\n");
    let configuration = configuration.replace("timeout = \"2s\"\n", "");
    let w = unruly(&configuration, &[("holds", "\"hold\", mib = 20, ms = 2500", "")]);
    w.install("hello", "acme/hello.wasm");
    w.write("plugins/acme/hello.toml", "[[jobs]]\nname = \"hello\"\nevery = \"1s\"\npayload = { name = \"world\" }\n");
    let mut host = w.serve();
    let waits = host.wait_until("a run that waits for memory", |event| {
        event["event"] == "no-place" && event["detail"].as_str().is_some_and(|detail| detail.contains("memory"))
    });
    assert_eq!(waits["job"], "acme/hello");
    let ended = host.wait_for("success", "default/holds");
    // The slot that waited, or a newer one that came before it.
    host.wait_until("its turn", |event| {
        // Times of one format are in the order of their text.
        event["event"] == "success" && event["job"] == "acme/hello" && event["at"].as_str() > ended["at"].as_str()
    });
    assert!(host.events().iter().all(|event| event["event"] != "failed"), "nothing fails for want of memory");
}

#[test]
fn a_run_that_finds_its_share_of_the_memory_in_others_hands_is_handed_over_and_succeeds_when_it_is_free() {
    let defaults = DEFAULTS.replace("timeout = \"2s\"", "timeout = \"20s\"\ntenant_memory = \"64MiB\"");
    let w = Workplace::new(&format!("[host]\nmemory = \"64MiB\"\n[defaults]\n{defaults}\n"));
    for plugin in ["greedy/job", "modest/job"] {
        w.install("unruly", &format!("{plugin}.wasm"));
    }
    let job = |mib, ms| soon_then_rarely("holds", &format!("payload = {{ do = \"hold\", mib = {mib}, ms = {ms} }}"));
    w.write("plugins/greedy/job.toml", job(40, 12_000));
    let mut host = w.serve();
    host.wait_for_log("job greedy/holds is handled");
    let before = host.memory().0;
    host.wait_for("claimed", "greedy/holds");
    while host.memory().0 < before + (38 << 20) {
        std::thread::yield_now();
    }
    w.write("plugins/modest/job.toml", job(26, 10));
    let handed_over = host.wait_for("interrupted", "modest/holds");
    assert!(handed_over["detail"].as_str().is_some_and(|detail| detail.contains("[host] memory")), "{handed_over}");
    let ended = host.wait_for("success", "modest/holds");
    assert_eq!(ended["run"], handed_over["run"]);
    assert!(host.events().iter().all(|event| event["event"] != "failed"), "nobody fails for want of memory");
}

#[test]
fn a_plugin_whose_instance_cannot_be_made_fails_each_slot_at_once_and_blocks_none() {
    // A page is less than the guest has from its start.
    let w = Workplace::new(&format!("[defaults]\n{DEFAULTS}\n"));
    w.install("unruly", "job.wasm");
    w.write(
        "plugins/job.toml",
        "[[jobs]]\nname = \"job\"\nevery = \"1s\"\nmemory = \"64KiB\"\npayload = { do = \"spin\" }\n",
    );
    let mut host = w.serve();
    let mut failed = Vec::new();
    while failed.len() < 4 {
        let seen = failed.clone();
        let next = host.wait_until("another failure", |event| {
            event["event"] == "failed" && event["job"] == "default/job" && !seen.contains(&event["run"])
        });
        let detail = next["detail"].as_str().expect("a failure says why");
        assert!(detail.starts_with("memory: ") && detail.contains("64 KiB"), "{detail}");
        failed.push(next["run"].clone());
    }
    assert!(host.events().iter().all(|event| !matches!(event["event"].as_str(), Some("skip" | "lost" | "takeover"))));
    host.terminate();
    assert!(host.ended().0.success());
    for run in w.runs("job").iter().filter(|run| run["status"] == "failed") {
        let shown = w.show("job", run["run"].as_str().expect("a run has a slot"));
        assert!(shown["attempts"][0]["usage"]["wall_ms"].as_u64().is_some_and(|ms| ms < 1_000), "{shown}");
    }
}

#[test]
fn a_plugin_whose_compiled_code_is_gone_from_the_disk_goes_on_serving_and_is_compiled_anew_at_the_next_start() {
    let w = unruly(&format!("[defaults]\n{DEFAULTS}\n"), &[]);
    w.install("hello", "hello.wasm");
    w.write("plugins/hello.toml", "[[jobs]]\nname = \"hello\"\nevery = \"1s\"\npayload = { name = \"world\" }\n");
    let mut host = w.serve();
    let first = host.wait_for("success", "default/hello");
    std::fs::remove_dir_all(w.path().join(".leasehold/compiled")).expect("it is there");
    // Instances are made from what is mapped.
    host.wait_until("a later run", |event| {
        event["event"] == "success" && event["job"] == "default/hello" && event["run"] != first["run"]
    });
    host.terminate();
    assert!(host.ended().0.success());
    let mut again = w.serve();
    again.wait_for("success", "default/hello");
    assert!(again.events().iter().all(|event| event["event"] != "failed"), "{:?}", again.events());
}

#[test]
fn a_run_that_finds_no_place_waits_for_one_and_fails_nothing() {
    let w = unruly(
        &format!("[host]\nconcurrency = 1\n[defaults]\n{DEFAULTS}\n"),
        &[("first", "\"wait\", ms = 1500", ""), ("second", "\"wait\", ms = 1500", "")],
    );
    let mut host = w.serve();
    let waits = host.wait_until("a run that waits for a place", |event| {
        event["event"] == "no-place" && event["detail"].as_str().is_some_and(|detail| detail.contains("concurrency"))
    });
    host.wait_until("its turn", |event| event["event"] == "success" && event["job"] == waits["job"]);
    assert!(host.events().iter().all(|event| event["event"] != "failed"), "{:?}", host.events());
}

/// The newest run of the job that has ended.
fn ended(w: &Workplace, job: &str) -> Value {
    let runs = w.runs(job);
    let has_ended = |run: &&Value| run["outcome"] != Value::Null;
    let run = runs.iter().find(has_ended).unwrap_or_else(|| panic!("no run of {job} has ended"));
    w.show(job, run["run"].as_str().expect("a run has a slot"))
}

#[test]
fn the_benchmark_of_the_sandbox_measures_every_figure() {
    let w = unruly("", &[]);
    let plugin = ["--plugin", "plugins/unruly.wasm"];
    let answer =
        w.leasehold(&[&["bench", "sandbox", "--rounds", "1", "--beats", "10", "--json"], &plugin[..]].concat());
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let rows = answer.lines();
    let asked = rows.iter().filter(|row| row["target"].is_number() && row["met"].is_boolean()).count();
    assert_eq!((rows.len(), asked), (17, 15), "{rows:#?}");
    assert!(rows.iter().all(|row| row["value"].is_number()));
    assert!(rows[0]["bare_wasmtime"].as_f64().is_some_and(|bare| bare > 0.0), "{}", rows[0]);
}
