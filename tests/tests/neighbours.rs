//! A tenant that means harm is a non-event for the host and for other tenants.

use leasehold_tests::neighbour::{Deed, SHORT_LEASES, leave_their_neighbour_alone};
use leasehold_tests::{HostProcess, Workplace};
use serde_json::Value;

/// Deeds of a guest in Rust: what each is told to do, and what becomes of it.
fn told(wishes: &[(&str, &str, &'static str)]) -> Vec<Deed> {
    let plugin = Workplace::new("").plugin("unruly");
    let deed = |(name, wish, word): &(&str, &str, &'static str)| Deed {
        name: (*name).to_owned(),
        plugin: plugin.clone(),
        payload: Some(format!("{{ do = {wish} }}")),
        word,
        origins: Vec::new(),
    };
    wishes.iter().map(deed).collect()
}

#[test]
fn guests_that_burn_leave_a_neighbour_s_heartbeat_alone() {
    leave_their_neighbour_alone(&told(&[
        ("spin-1", "\"spin\"", "timeout: "),
        ("spin-2", "\"spin\"", "timeout: "),
        ("spin-3", "\"spin\"", "timeout: "),
        ("spin-4", "\"spin\"", "timeout: "),
        ("grow", "\"grow\"", "memory: "),
        ("recurse", "\"recurse\"", "stack: "),
        ("calls", "\"calls\"", "timeout: "),
    ]));
}

#[test]
fn guests_that_flood_leave_a_neighbour_s_heartbeat_alone() {
    leave_their_neighbour_alone(&told(&[
        ("flood-1", "\"flood\"", "success"),
        ("flood-2", "\"flood\"", "success"),
        ("chatter-1", "\"chatter\"", "timeout: "),
        ("chatter-2", "\"chatter\"", "timeout: "),
        ("values", "\"kv-flood\", size = 100000", "success"),
        ("output", "\"output\", bytes = 1500000", "output-too-large: "),
        ("complain", "\"complain\", bytes = 100000", "handler:ccc"),
    ]));
}

#[test]
fn forged_lines_stay_in_their_record_and_steer_no_terminal() {
    let w = Workplace::new(&format!("[defaults]\n{SHORT_LEASES}\n"));
    w.install("unruly", "noisy/unruly.wasm");
    w.write("plugins/noisy/unruly.toml", "[[jobs]]\nname = \"forge\"\nevery = \"4s\"\npayload = { do = \"forge\" }\n");
    let mut host = w.serve();
    let forged = host.wait_for("success", "noisy/forge");
    host.terminate();
    assert!(host.ended().0.success());
    let run = forged["run"].as_str().expect("a run has a slot");
    let text = w.leasehold(&["logs", "noisy/forge", run]);
    let json = w.leasehold(&["logs", "noisy/forge", run, "--json"]);
    let executed = w.leasehold(&["exec", "plugins/noisy/unruly.wasm", "--payload", r#"{"do":"forge"}"#]);
    // Four lines of log. On standard output, one of them is two lines, and there is one of bytes that are no text.
    let records = json.lines();
    assert_eq!(records.len(), 4 + 5 + 1, "{json:?}");
    assert!(records.iter().all(|record| record["job"] == "noisy/forge" && record["attempt"] == 1));
    for shown in [&text.stdout, &json.stdout, &executed.stderr] {
        let unsafe_char = |c: char| c.is_control() && c != '\n' || "\u{2028}\u{2029}\u{202e}".contains(c);
        assert!(!shown.contains(unsafe_char), "{shown:?}");
    }
    // What pretends to be a line of its own stands behind what says whose it is.
    let own = |line: &&str| line.starts_with("2026-01-01T00:00:00.000Z  success");
    assert_eq!(text.stdout.lines().filter(own).count(), 0, "{}", text.stdout);
    assert_eq!(executed.stderr.lines().filter(own).count(), 0, "{}", executed.stderr);
}

/// A host with these keys that was asked to stop while a guest spins, and the run of that.
fn stopped_while_it_spins(stop: &str) -> (Workplace, HostProcess, String) {
    let w = Workplace::new(&format!("[defaults]\n{SHORT_LEASES}\n{stop}"));
    w.install("unruly", "job.wasm");
    w.write("plugins/job.toml", "[[jobs]]\nname = \"job\"\nevery = \"4s\"\npayload = { do = \"spin\" }\n");
    let mut host = w.serve();
    let claimed = host.wait_for("claimed", "default/job");
    host.terminate();
    let run = claimed["run"].as_str().expect("a run has a slot").to_owned();
    (w, host, run)
}

#[test]
fn a_guest_that_ignores_the_stop_is_interrupted_at_stop_force_and_handed_over() {
    let (w, mut host, run) = stopped_while_it_spins("stop_timeout = \"20s\"\nstop_force = \"500ms\"\n");
    host.wait_for("interrupted", "default/job");
    assert!(host.ended().0.success());
    let run = w.show("job", &run);
    assert_eq!(
        (&run["outcome"], &run["released"], &run["hand_overs"]),
        (&Value::Null, &Value::from(true), &Value::from(1))
    );
    assert_eq!(run["attempts"][0]["end"], "handed-over", "{run}");
}

#[test]
fn without_force_a_guest_that_ignores_the_stop_is_left_to_its_lease() {
    let (w, host, run) = stopped_while_it_spins("stop_timeout = \"1s\"\nstop_force = \"never\"\n");
    let (_, stderr) = host.ended();
    assert!(stderr.contains("stop timeout has passed"), "{stderr}");
    let run = w.show("job", &run);
    assert_eq!((&run["outcome"], &run["released"]), (&Value::Null, &Value::from(false)), "{run}");
    assert_eq!(run["attempts"][0]["end"], Value::Null, "{run}");
}

#[test]
fn a_guest_that_ignores_the_stop_is_left_to_its_lease_at_its_own_tenant_s_stop_timeout() {
    let w = Workplace::new(&format!(
        "[defaults]\n{SHORT_LEASES}\nstop_timeout = \"60s\"\nstop_force = \"never\"\n[tenants.acme]\nstop_timeout = \"1s\"\n"
    ));
    w.install("unruly", "job.wasm");
    let job = |wish: &str| format!("[[jobs]]\nname = \"job\"\nevery = \"4s\"\npayload = {{ do = {wish} }}\n");
    w.write("plugins/job.toml", job("\"ignore\", ms = 25000"));
    w.install("unruly", "acme/job.wasm");
    w.write("plugins/acme/job.toml", job("\"spin\""));
    let mut host = w.serve();
    host.wait_for("claimed", "default/job");
    host.wait_for("claimed", "acme/job");
    host.terminate();
    // The other tenant's guest still has its time.
    host.wait_for("lost", "acme/job");
    assert!(host.events().iter().all(|event| event["event"] != "success"));
    host.wait_for("success", "default/job");
    assert!(host.ended().0.success());
}
