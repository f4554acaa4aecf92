//! What holds a job's slots up, and what frees them: a clock that was wrong, and a run that no host survives.

use leasehold::clock;
use leasehold_tests::{HostProcess, Workplace, millis};
use serde_json::Value;

/// A lease that a test can wait for, and two attempts.
const TWO_ATTEMPTS: &str =
    "[defaults]\nlease = \"1s\"\nheartbeat = \"150ms\"\nmin_interval = \"1s\"\nmax_attempts = 2\n";

#[test]
fn a_job_whose_slot_started_in_the_stores_future_is_blocked_until_somebody_unblocks_it() {
    let w = Workplace::new(TWO_ATTEMPTS);
    w.install("hello", "hello.wasm");
    w.write("plugins/hello.toml", "[[jobs]]\nname = \"hello\"\nevery = \"2s\"\npayload = { name = \"world\" }\n");
    // On SQLite the hosts' clock is the store's.
    let Some(mut ahead) = w.serve_an_hour_ahead() else { return };
    ahead.wait_for("success", "default/hello");
    ahead.terminate();
    let (status, stderr) = ahead.ended();
    assert!(status.success(), "{stderr}");

    let mut host = w.serve();
    let blocked = host.wait_for("blocked", "default/hello");
    let half_an_hour = 1_800_000;
    assert!(millis(text(&blocked["run"])) > clock::wall().0 + half_an_hour, "{blocked}");
    assert!(text(&blocked["detail"]).contains("`leasehold unblock` frees the job"), "{blocked}");
    host.wait_for("superseded", "default/hello");
    assert!(text(&row(&w)["blocked_until"]) >= text(&blocked["run"]), "{}", row(&w));
    assert!(w.leasehold(&["jobs"]).stdout.contains("BLOCKED until"), "{:?}", w.leasehold(&["jobs"]));
    let present =
        |event: &Value| event["event"] == "claimed" && millis(text(&event["run"])) < clock::wall().0 + half_an_hour;
    assert!(!host.events().iter().any(present), "a slot started that was blocked: {:?}", host.events());

    // Refused while a run of a slot ahead lives, which was handed over and ends soon. Each try starts a process.
    let mut freed = w.leasehold(&["unblock", "hello", "--json"]);
    for _ in 0..1_000 {
        if freed.code == Some(0) {
            break;
        }
        freed = w.leasehold(&["unblock", "hello", "--json"]);
    }
    assert_eq!((freed.code, &freed.lines()[0]["answer"]), (Some(0), &"unblocked".into()), "{freed:?}");
    let claimed = host.wait_until("a slot of the present", present);
    ends(&mut host, &claimed, "success");
    assert_eq!(row(&w)["blocked_until"], Value::Null);
    let again = w.leasehold(&["unblock", "hello", "--json"]);
    assert_eq!((again.code, &again.lines()[0]["answer"]), (Some(0), &"not-blocked".into()), "{again:?}");
}

#[test]
fn a_run_that_no_host_survives_ends_after_max_attempts_and_blocks_no_later_slot() {
    let w = Workplace::new(TWO_ATTEMPTS);
    w.install("unruly", "job.wasm");
    w.write(
        "plugins/job.toml",
        "[[jobs]]\nname = \"job\"\nevery = \"20s\"\npayload = { do = \"wait\", ms = 600000 }\n",
    );
    let mut host = w.serve();
    let claimed = host.wait_for("claimed", "default/job");
    host.kill();
    let mut host = w.serve();
    let taken = host.wait_for("takeover", "default/job");
    assert_eq!((&taken["run"], &taken["attempt"]), (&claimed["run"], &2.into()), "{taken}");
    host.kill();
    let mut host = w.serve();
    ends(&mut host, &claimed, "interrupted");
    let run = w.show("job", text(&claimed["run"]));
    assert_eq!((&run["status"], &run["starts"]), (&"interrupted".into(), &2.into()), "{run}");
    let unblocked = w.leasehold(&["unblock", "job", "--json"]);
    assert_eq!(unblocked.lines()[0]["answer"], "not-blocked", "{unblocked:?}");
    let next = host.wait_until("the next slot", |event| event["event"] == "claimed" && event["job"] == "default/job");
    assert_eq!(next["attempt"], 1, "{next}");
    assert!(text(&next["run"]) > text(&claimed["run"]), "{next}");
}

/// Waits until the host tells that this run ends so.
fn ends(host: &mut HostProcess, claimed: &Value, how: &str) {
    host.wait_until(&format!("{how} of {claimed}"), |event| event["event"] == how && event["run"] == claimed["run"]);
}

/// What `leasehold jobs --json` says of the job.
fn row(w: &Workplace) -> Value {
    let answer = w.leasehold(&["jobs", "--json"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    answer.lines().remove(0)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}
