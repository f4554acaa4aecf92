//! What people ask of a cluster, by the real binary: runs on demand, pauses, hosts that drain, and why.

use std::collections::BTreeSet;

use leasehold_tests::{SHORT_LEASE, Witness, Workplace, millis, soon_then_rarely, until};
use serde_json::Value;

const EVERY_2S: &str = "[[jobs]]\nname = \"hello\"\nevery = \"2s\"\npayload = { name = \"world\" }\n";

#[test]
fn a_triggered_run_s_payload_reaches_the_handler_and_wait_ends_by_its_outcome() {
    let w = Workplace::new(SHORT_LEASE);
    w.install("hello", "hello.wasm");
    w.install("unruly", "acme/job.wasm");
    w.write("plugins/acme/job.toml", "[[jobs]]\nname = \"job\"\npayload = { do = \"fail\", code = \"c\" }\n");
    let _host = w.serve();
    // A plugin without a manifest is a job that only a trigger starts.
    known(&w, "default/hello");
    known(&w, "acme/job");
    let said = |payload: &str| {
        let answer = w.leasehold(&["trigger", "hello", "--payload", payload, "--wait"]);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        answer.lines().remove(0)["text"].clone()
    };
    assert_eq!(said("{\"name\": \"you\"}"), "Hello, you!");
    w.write("payload.json", "{\"name\": \"file\"}");
    assert_eq!(said("@payload.json"), "Hello, file!");

    let failed = w.leasehold(&["trigger", "acme/job", "--wait"]);
    assert_eq!((failed.code, failed.stdout.as_str()), (Some(1), ""), "{failed:?}");
    assert!(failed.stderr.contains("failed: c: as I was told"), "{failed:?}");
    let failed = w.leasehold(&["trigger", "acme/job", "--wait", "--json"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert_eq!(failed.lines()[0]["outcome"]["error"]["code"], "c");
}

#[test]
fn an_id_names_one_run_however_often_it_is_asked_for() {
    let w = Workplace::new(SHORT_LEASE);
    w.install("hello", "hello.wasm");
    let _host = w.serve();
    known(&w, "default/hello");
    let payload = "{\"name\": \"you\"}";
    let ask =
        |rest: &[&str]| w.leasehold(&[&["trigger", "hello", "--id", "order-1", "--payload", payload], rest].concat());
    let first = ask(&["--json"]);
    assert_eq!((first.code, &first.lines()[0]["run"]), (Some(0), &"order-1".into()), "{first:?}");
    assert_eq!(first.lines()[0]["status"], "pending");
    for _ in 0..2 {
        let again = ask(&["--wait"]);
        assert_eq!(again.code, Some(0), "{again:?}");
    }
    let runs = w.runs("hello");
    assert_eq!((runs.len(), &runs[0]["starts"]), (1, &1.into()), "{runs:?}");
    assert_eq!(w.show("hello", "order-1")["kind"], "on-demand");

    for (arguments, code, what) in [
        (&["trigger", "nothing"][..], 1, "there is no job default/nothing"),
        (&["trigger", "hello", "--payload", "{"], 2, "is not JSON"),
        (&["trigger", "hello", "--id", "latest"], 2, "the latest run"),
        (&["cancel", "hello", "order-2"], 1, "there is no run default/hello@order-2"),
        (&["why", "hello", "order-2"], 1, "nothing is known of default/hello@order-2"),
        (&["drain", "nobody"], 1, "no host of the name \"nobody\""),
        (&["pause", "nothing"], 1, "there is no job default/nothing"),
    ] {
        let refused = w.leasehold(arguments);
        assert!(refused.code == Some(code) && refused.stderr.contains(what), "{arguments:?}: {refused:?}");
    }
}

#[test]
fn a_drained_host_leaves_runs_to_others_until_it_is_let_go() {
    let w = Workplace::new(SHORT_LEASE);
    w.install("hello", "hello.wasm");
    w.write("plugins/hello.toml", EVERY_2S);
    let [mut one, mut two] = ["one", "two"].map(|name| w.serve_with("LEASEHOLD_HOST__NAME", name));
    hosts_until(&w, |hosts| hosts.len() == 2 && hosts.iter().all(|host| host["state"] == "serving"));
    let drain = w.leasehold(&["drain", "one"]);
    assert!(drain.code == Some(0) && drain.stdout.starts_with("one  takes nothing new"), "{drain:?}");
    one.wait_for_log("draining: this host");
    let drained = leasehold::clock::wall().0;
    // What was under way then may have been its own.
    let later = |event: &Value| event["event"] == "success" && millis(text(&event["run"])) > drained + 2_000;
    for n in 1..=3 {
        two.wait_until("runs of the other host", |event| {
            later(event) && millis(text(&event["run"])) > drained + n * 2_000
        });
    }
    let runs = w.runs("hello");
    let since: Vec<&Value> = runs.iter().filter(|run| millis(text(&run["due"])) > drained + 2_000).collect();
    assert!(since.len() >= 3 && since.iter().all(|run| run["runner"] == "two"), "{since:?}");
    hosts_until(&w, |hosts| hosts.iter().any(|host| host["host"] == "one" && host["state"] == "draining"));

    assert_eq!(w.leasehold(&["drain", "one", "--off"]).code, Some(0));
    one.wait_for_log("no longer draining");
    let back = leasehold::clock::wall().0;
    let takes_part = |event: &Value| ["claimed", "backup", "superseded"].iter().any(|kind| event["event"] == *kind);
    one.wait_until("its part", |event| takes_part(event) && millis(text(&event["at"])) > back);
    one.terminate();
    let (status, stderr) = one.ended();
    assert!(status.success(), "{stderr}");
    hosts_until(&w, |hosts| hosts.iter().any(|host| host["host"] == "one" && host["state"] == "stopped"));
}

#[test]
fn why_tells_what_every_host_was_told_of_a_slot() {
    let w = Workplace::new(SHORT_LEASE);
    w.install("hello", "hello.wasm");
    w.write("plugins/hello.toml", EVERY_2S);
    let mut hosts = ["one", "two"].map(|name| w.serve_with("LEASEHOLD_HOST__NAME", name));
    hosts_until(&w, |hosts| hosts.len() == 2);
    let both = leasehold::clock::wall().0 + 2_000;
    let of_host = |event: &Value| event["event"] == "success" && millis(text(&event["run"])) > both;
    // Whoever runs it: both ask.
    let run = loop {
        if let Some(event) =
            hosts.iter_mut().find_map(|host| host.events().iter().find(|event| of_host(event)).cloned())
        {
            break text(&event["run"]).to_owned();
        }
        std::thread::yield_now();
    };
    let mut last = Value::Null;
    let told = (0..1_000).any(|_| {
        last = w.leasehold(&["why", "hello", &run, "--json"]).lines().remove(0);
        let answers = last["answers"].as_array().expect("a list");
        answers.iter().map(|answer| text(&answer["host"])).collect::<BTreeSet<_>>().len() == 2
    });
    assert!(told, "{last}");
    let won = last["answers"].as_array().into_iter().flatten().filter(|answer| answer["answer"] == "won").count();
    assert_eq!((won, &last["record"]["status"]), (1, &"success".into()), "{last}");
    let shown = w.leasehold(&["why", "hello", &run]);
    let won = |line: &str| line.contains("  slot ") && line.contains("  won ") && line.contains("  attempt 1, fence ");
    assert!(shown.code == Some(0) && shown.stdout.lines().any(won), "{shown:?}");
}

#[test]
fn why_explains_a_slot_that_no_host_took() {
    let w = Workplace::new(SHORT_LEASE);
    w.install("hello", "hello.wasm");
    w.write("plugins/hello.toml", EVERY_2S);
    let mut host = w.serve_with("LEASEHOLD_HOST__NAME", "one");
    host.wait_for("success", "default/hello");
    let now = || leasehold::clock::wall().0;
    let slot = |ms: i64| leasehold_lease::time::Slot(leasehold_lease::time::Millis(ms / 2_000 * 2_000)).to_string();
    let why = |slot: &str| w.leasehold(&["why", "hello", slot]);
    let ahead = why(&slot(now() + 3_600_000));
    assert!(ahead.code == Some(0) && ahead.stdout.contains("because   it is not due yet"), "{ahead:?}");

    assert_eq!(w.leasehold(&["drain", "one"]).code, Some(0));
    host.wait_for_log("draining: this host");
    let drained = now();
    let [first, third] = [4_000, 8_000].map(|later| slot(drained + later));
    let mut said = why(&third);
    let draining = (0..1_000).any(|_| {
        said = why(&third);
        said.stdout.contains("because   no host takes anything new: one is draining")
    });
    assert!(draining, "{said:?}");
    // Of several the last one alone is told.
    assert_eq!(w.leasehold(&["drain", "one", "--off"]).code, Some(0));
    host.wait_for("missed", "default/hello");
    let covered = (0..1_000).any(|_| {
        said = why(&first);
        said.stdout.contains("  missed  no host took the slots from ")
    });
    assert!(covered && said.stdout.contains("answers of the slots before and after it"), "{said:?}");
}

#[test]
fn a_paused_job_s_slots_are_skipped_and_why_says_so() {
    let w = Workplace::new(SHORT_LEASE);
    w.install("hello", "hello.wasm");
    w.write("plugins/hello.toml", EVERY_2S);
    let mut host = w.serve();
    host.wait_for("success", "default/hello");
    let paused = w.leasehold(&["pause", "hello", "--until", "1h", "--note", "backup"]);
    assert!(paused.code == Some(0) && paused.stdout.contains("paused until 20"), "{paused:?}");
    let held = host.wait_for("held", "default/hello");
    assert!(w.leasehold(&["jobs"]).stdout.contains("PAUSED until"), "{:?}", w.leasehold(&["jobs"]));
    let why = || w.leasehold(&["why", "hello", text(&held["run"])]);
    assert!((0..1_000).any(|_| why().stdout.contains("  held  the job is paused until 20")), "{:?}", why());
    assert!(why().stdout.contains("(backup)"), "{:?}", why());
    assert!(w.leasehold(&["resume", "hello"]).stdout.contains("resumed"));
    let resumed = leasehold::clock::wall().0;
    host.wait_until("a run", |event| event["event"] == "claimed" && millis(text(&event["at"])) > resumed);
    assert!(w.leasehold(&["resume", "hello"]).stdout.contains("was not paused"));
    let free = w.leasehold(&["unblock", "hello"]);
    assert!(free.code == Some(0) && free.stdout.contains("nothing stood in its way\nthe store's clock"), "{free:?}");
}

#[test]
fn a_cancelled_run_s_handler_is_stopped_and_the_record_says_why() {
    let w = Workplace::new(SHORT_LEASE);
    w.install("unruly", "job.wasm");
    let mut host = w.serve();
    known(&w, "default/job");
    let wait = "{\"do\": \"wait\", \"ms\": 600000}";
    assert_eq!(w.leasehold(&["trigger", "job", "--id", "long", "--payload", wait]).code, Some(0));
    host.wait_for("claimed", "default/job");
    let cancelled = w.leasehold(&["cancel", "job", "long", "--reason", "too long", "--json"]);
    assert_eq!((cancelled.code, &cancelled.lines()[0]["answer"]), (Some(0), &"told".into()), "{cancelled:?}");
    host.wait_for("cancelled", "default/job");
    let run = w.show("job", "long");
    assert_eq!((&run["status"], &run["cancelled"]), (&"interrupted".into(), &"too long".into()), "{run}");
    let again = w.leasehold(&["cancel", "job", "long"]);
    assert!(again.code == Some(0) && again.stdout.contains("had ended before: interrupted"), "{again:?}");
    let again = w.leasehold(&["cancel", "job", "long", "--json"]).lines().remove(0);
    assert_eq!((&again["answer"], &again["status"]), (&"ended".into(), &"interrupted".into()), "{again}");
}

#[test]
fn what_goes_wrong_is_an_object_for_programs_and_words_for_people() {
    let w = Workplace::new(SHORT_LEASE);
    w.install("hello", "hello.wasm");
    let _host = w.serve();
    known(&w, "default/hello");
    for (arguments, code, words) in [
        (&["show", "nope", "latest"][..], 1, "default/nope"),
        (&["runs", "--job", "nope"], 1, "default/nope"),
        (&["why", "nope"], 1, "default/nope"),
        (&["trigger", "nope"], 1, "default/nope"),
        (&["trigger", "hello", "--payload", "{"], 2, "is not JSON"),
        (&["cancel", "hello", "no-such-run"], 1, "no-such-run"),
        (&["drain", "nowhere"], 1, "nowhere"),
        (&["pause", "hello", "--until", "2020-01-01T00:00:00Z"], 2, "is not ahead"),
    ] {
        let answer = w.leasehold(&[arguments, &["--json"]].concat());
        assert_eq!(answer.code, Some(code), "{answer:?}");
        let message = answer.lines()[0]["error"]["message"].as_str().expect("a message").to_owned();
        assert!(message.contains(words) && answer.stderr.contains(words), "{answer:?}");
        assert_eq!(w.leasehold(arguments).stdout, "", "{arguments:?}");
    }
    assert_eq!(w.leasehold(&["resume", "hello", "--json"]).lines()[0]["was_paused"], false);
}

#[test]
fn a_run_whose_job_no_host_offers_any_more_is_given_up() {
    let w = Workplace::new(SHORT_LEASE);
    w.install("hello", "hello.wasm");
    w.write("plugins/hello.toml", EVERY_2S);
    // The tenant has one host, and the other has looked at all jobs when there was no run of it.
    w.install("unruly", "../others/acme/job.wasm");
    let mut host = w.serve();
    host.wait_for("success", "default/hello");
    w.write("others/acme/job.toml", soon_then_rarely("job", "payload = { do = \"wait\", ms = 600000 }"));
    let mut other = w.serve_with("LEASEHOLD_HOST__PLUGINS", "others");
    let claimed = other.wait_for("claimed", "acme/job");
    hosts_until(&w, |hosts| hosts.len() == 2);
    host.wait_for("success", "default/hello");
    other.kill();
    host.wait_for("no-plugin", "acme/job");
    let given_up = host.wait_for("interrupted", "acme/job");
    assert_eq!(given_up["run"], claimed["run"]);
    let run = w.show("acme/job", text(&claimed["run"]));
    assert_eq!(run["status"], "interrupted");
    assert_eq!(run["outcome"]["reason"], "no host has offered its job for 60 s");
}

#[test]
fn a_due_slot_of_a_job_whose_plugin_is_refused_is_told_and_why_shows_it() {
    let w = Workplace::new(SHORT_LEASE);
    w.install("hello", "hello.wasm");
    w.write("plugins/hello.toml", EVERY_2S);
    let mut host = w.serve();
    host.wait_for("success", "default/hello");
    host.terminate();
    host.ended();
    w.write("plugins/hello.wasm", "this is no plugin");
    let mut host = w.serve();
    let told = host.wait_for("no-plugin", "default/hello");
    let (slot, detail) = (text(&told["run"]), text(&told["detail"]));
    assert!(detail.starts_with("this host neither starts nor backs up its runs: "), "{told}");
    let shown = |answer: &Value| answer["run"] == slot && answer["answer"] == "no-plugin";
    let asked = |_| {
        let answers = w.leasehold(&["why", "hello", "--json"]);
        answers.lines()[0]["answers"].as_array().is_some_and(|all| all.iter().any(shown))
    };
    // Each look starts a process: these are minutes. Answers are written once a second.
    assert!((0..1_000).any(asked), "{:?}", w.leasehold(&["why", "hello"]));
}

#[test]
fn hosts_that_differ_about_a_job_say_so() {
    let w = Workplace::new(SHORT_LEASE);
    w.install("hello", "hello.wasm");
    w.write("plugins/hello.toml", EVERY_2S);
    let mut one = w.serve_with("LEASEHOLD_HOST__NAME", "one");
    let _other = w.serve_with("LEASEHOLD_DEFAULTS__LEASE", "4s");
    let differs = one.wait_for("policy-differs", "default/hello");
    assert!(text(&differs["detail"]).starts_with("lease: 3000 ms here, 4000 ms on "), "{differs}");
    let serves = |host: &Value| host["plugins"][0]["plugin"] == "default/hello";
    hosts_until(&w, |hosts| hosts.len() == 2 && hosts.iter().all(serves));
}

#[test]
fn under_a_strict_fence_effects_are_confirmed_and_arrive() {
    let witness = Witness::start();
    let origin = witness.origin();
    let w =
        Workplace::new(&format!("{SHORT_LEASE}fence = \"strict\"\n[tenants.default.http]\nallow = [\"{origin}\"]\n"));
    w.install("unruly", "job.wasm");
    w.write("plugins/job.toml", format!("[[jobs]]\nname = \"job\"\nhttp = [\"{origin}\"]\n"));
    let mut host = w.serve_with("LEASEHOLD_LOG", "debug");
    known(&w, "default/job");
    let wish = format!("{{\"do\": \"send\", \"url\": \"{origin}/\", \"times\": 10, \"ms\": 0}}");
    let sent = w.leasehold(&["trigger", "job", "--payload", &wish, "--wait"]);
    assert_eq!((sent.code, witness.heard().len()), (Some(0), 10), "{sent:?}");
    // Before the connection and before the head: the heartbeat by itself comes twice a second.
    host.wait_for_log("the lease is kept no more");
    host.terminate();
    let (_, stderr) = host.ended();
    let beats = stderr.split("heartbeats=").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
    assert!(beats.is_some_and(|beats| beats >= 20), "{beats:?}: {stderr}");
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

/// Waits until a host has told the store of the job.
fn known(w: &Workplace, job: &str) {
    let offered = |row: &Value| row["job"] == job && row["last_offered"].is_string();
    until(&format!("{job} offered"), || w.leasehold(&["jobs", "--json"]).lines(), |jobs| jobs.iter().any(offered));
}

/// Waits until `leasehold hosts` shows this.
fn hosts_until(w: &Workplace, fits: impl Fn(&[Value]) -> bool) {
    until("shown by hosts", || w.leasehold(&["hosts", "--json"]).lines(), |hosts| fits(hosts));
}
