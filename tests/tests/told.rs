//! What people are told of a host that runs: by the host itself, and by the commands that look at it.

use leasehold_tests::{Workplace, soon_then_rarely, until};
use serde_json::Value;

/// What `leasehold jobs --json` says of one job.
fn row(w: &Workplace, job: &str) -> Value {
    let answer = w.leasehold(&["jobs", "--json"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let found = answer.lines().into_iter().find(|row| row["job"] == job && row["state"] != "refused");
    found.unwrap_or_else(|| panic!("no {job} in {answer:?}"))
}

/// Waits until it says what fits.
fn row_until(w: &Workplace, job: &str, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
    until(&format!("{job} {what}"), || row(w, job), fits)
}

#[test]
fn while_a_host_serves_the_older_version_jobs_and_next_say_so() {
    let w = Workplace::new("");
    w.install("hello", "hello.wasm");
    w.write("plugins/hello.toml", soon_then_rarely("job", "payload = { name = \"world\" }"));
    let alone = w.leasehold(&["jobs"]);
    assert!(alone.stderr.contains("no host of this machine follows"), "{alone:?}");
    let mut host = w.serve();
    let fine = row_until(&w, "default/job", "served", |row| row["served_by"] != serde_json::json!([]));
    assert_eq!(fine["state"], "offered", "{fine}");
    assert!(!w.leasehold(&["jobs"]).stderr.contains("no host"));

    let cut = w.plugin("hello")[..100].to_vec();
    w.drop_in("hello.wasm", &cut);
    host.wait_for_log("the older version goes on serving");
    let stale = row_until(&w, "default/job", "stale", |row| row["state"] == "stale");
    assert!(stale["next"].is_string(), "{stale}");
    let next = w.leasehold(&["next", "job", "-n", "1"]);
    assert_eq!((next.code, next.stdout.lines().count()), (Some(0), 1), "{next:?}");
    assert!(next.stderr.contains("goes on serving"), "{next:?}");

    host.terminate();
    assert!(host.ended().0.success());
    assert_eq!(row(&w, "default/job")["state"], "not-runnable");
    let next = w.leasehold(&["next", "job"]);
    assert_eq!(next.code, Some(1), "{next:?}");
    assert!(next.stderr.contains("the job default/job cannot run: its plugin hello.wasm does not serve"), "{next:?}");
}

#[test]
fn a_host_tells_of_a_configuration_that_it_does_not_go_by_and_of_another_of_its_name() {
    let w = Workplace::new("[host]\nname = \"web-1\"\n");
    let mut first = w.serve();
    let named = |answer: &leasehold_tests::Answer| answer.stdout.contains("(process ");
    assert!(!named(&w.leasehold(&["plugins"])));
    w.install("hello", "hello.wasm");
    first.wait_for_log("job default/hello is handled by");
    let mut second = w.serve();
    second.wait_for_log("is called web-1, too");
    until("told apart", || w.leasehold(&["plugins"]), named);
    w.write("leasehold.toml", "[host]\nname = \"web-1\"\n[tenants.default.http]\nallow = [\"https://a.example\"]\n");
    first.wait_for_log("leasehold.toml has changed since this host started");
}

#[test]
fn exec_says_what_it_was_not_given_and_what_it_never_grants() {
    let w = Workplace::new("");
    w.install("hello", "hello.wasm");
    let bare = w.leasehold(&["exec", "plugins/hello.wasm"]);
    assert_eq!(bare.code, Some(1), "{bare:?}");
    assert!(
        bare.stderr.contains("bad-input") && bare.stderr.contains("it was given no payload: write --payload"),
        "{bare:?}"
    );
    let wrong = w.leasehold(&["exec", "plugins/hello.wasm", "--payload", "7"]);
    assert!(!wrong.stderr.contains("it was given no payload"), "{wrong:?}");
    w.install("unruly", "unruly.wasm");
    let send = r#"{"do": "send", "url": "https://a.example/", "times": 1, "ms": 0}"#;
    let denied = w.leasehold(&["exec", "plugins/unruly.wasm", "--payload", send]);
    let words = "https://a.example is not granted to this job: `leasehold exec` grants nothing";
    assert!(denied.stdout.contains(words), "{denied:?}");
}
