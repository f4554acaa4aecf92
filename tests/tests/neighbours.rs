//! A tenant that means harm is a non-event for the host and for other tenants.

use std::time::Duration;

use leasehold_tests::{HostProcess, IN_TIME, Watchdog, Workplace};
use serde_json::Value;

const FAULTS: &str = "lease = \"1s\"\nheartbeat = \"150ms\"\nmin_interval = \"1s\"\njitter = \"0s\"";

/// A neighbour that only waits: as long as its heartbeats are sent, it is attempt 1 that ends well.
const CALM: &str = "[[jobs]]\nname = \"calm\"\nevery = \"8s\"\npayload = { do = \"wait\", ms = 5000 }\n";

fn noisy(wishes: &[(&str, &str)]) -> Workplace {
    let guest = "timeout = \"3s\"\nmemory = \"8MiB\"\n[tenants.calm]\ntimeout = \"1m\"\n";
    let w = Workplace::new(&format!("[defaults]\n{FAULTS}\n{guest}"));
    w.install("unruly", "calm/unruly.wasm");
    w.write("plugins/calm/unruly.toml", CALM);
    w.install("unruly", "noisy/unruly.wasm");
    let job = |(name, wish): &(&str, &str)| {
        format!("[[jobs]]\nname = \"{name}\"\nevery = \"4s\"\npayload = {{ do = {wish} }}\n")
    };
    w.write("plugins/noisy/unruly.toml", wishes.iter().map(job).collect::<String>());
    w
}

/// The interval of the neighbour's heartbeats.
const HEARTBEAT: Duration = Duration::from_millis(150);

/// The neighbour's run began and ended well beside them, as attempt 1, no two of its heartbeats were sent further apart than
/// twice their interval (H7), and the host's memory stayed flat. A machine that keeps this process waiting says nothing of
/// the host: then it is tried again.
fn leaves_its_neighbour_alone(wishes: &[(&str, &str)]) {
    for _ in 0..3 {
        match gap_beside(wishes) {
            (gap, _) if gap < 2 * HEARTBEAT => return,
            (gap, late) if late > IN_TIME => {
                eprintln!("tried again: a gap of {gap:?}, but this process itself was kept waiting for {late:?}");
            }
            (gap, _) => panic!("two heartbeats were {gap:?} apart, their interval is {HEARTBEAT:?}"),
        }
    }
    panic!("this machine is too busy to judge heartbeats: three times, both they and this process were kept waiting");
}

/// Runs the neighbour once. The longest gap between its heartbeats, and how late this process was meanwhile.
fn gap_beside(wishes: &[(&str, &str)]) -> (Duration, Duration) {
    let w = noisy(wishes);
    let mut host = w.serve_with("LEASEHOLD_LOG", "warn,leasehold::heartbeat=debug");
    let calm = host.wait_for("claimed", "calm/calm");
    let watchdog = Watchdog::start();
    host.reset_peak_memory();
    let (before, _) = host.memory();
    host.wait_until("the end of the neighbour's run", |event| {
        event["job"] == "calm/calm"
            && event["run"] == calm["run"]
            && !matches!(event["event"].as_str(), Some("claimed"))
    });
    // It began beside guests that may hold nothing yet: all of theirs is new, and the log lines on their way.
    let (_, peak) = host.memory();
    let most = (wishes.len() as u64 * 8 + 10) << 20;
    assert!(peak.saturating_sub(before) <= most, "the host grew from {before} to {peak} bytes");
    let noise = |event: &Value| event["job"].as_str().is_some_and(|job| job.starts_with("noisy/"));
    let ends = |event: &&Value| noise(event) && matches!(event["event"].as_str(), Some("failed" | "success"));
    assert!(host.events().iter().filter(ends).count() >= wishes.len(), "they ran beside it: {:?}", host.events());
    let late = watchdog.latest();
    let slot = calm["run"].as_str().expect("a run has a slot");
    let run = w.show("calm/calm", slot);
    let missed = |event: &Value| matches!(event["event"].as_str(), Some("uncertain" | "lost" | "takeover"));
    let missed = host.events().iter().any(missed);
    host.terminate();
    let (gap, heartbeats) = gap_of(&host.ended().1, slot);
    if gap < 2 * HEARTBEAT {
        assert!(!missed, "heartbeats were sent in time, and yet a lease was in doubt");
        let attempts = run["attempts"].as_array().map(Vec::len);
        assert_eq!((&run["status"], attempts), (&Value::from("success"), Some(1)), "{run}");
        assert!(heartbeats >= 20, "five seconds of them: {heartbeats}");
    }
    eprintln!("{heartbeats} heartbeats, the longest gap {gap:?}; this process was {late:?} late at the most");
    (gap, late)
}

/// What the host's heartbeat thread says of the neighbour's run: the longest gap, and how many heartbeats there were.
fn gap_of(told: &str, slot: &str) -> (Duration, u64) {
    let of_run =
        |line: &&str| line.contains("longest_gap_ms=") && line.contains("job=calm/calm") && line.contains(slot);
    let line = told.lines().find(of_run).unwrap_or_else(|| panic!("the host says nothing of heartbeats: {told}"));
    let number = |key: &str| {
        let (_, behind) = line.split_once(key).expect("it is in the line");
        let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().expect("a number")
    };
    (Duration::from_millis(number("longest_gap_ms=")), number("heartbeats="))
}

#[test]
fn guests_that_burn_leave_a_neighbour_s_heartbeat_alone() {
    leaves_its_neighbour_alone(&[
        ("spin-1", "\"spin\""),
        ("spin-2", "\"spin\""),
        ("spin-3", "\"spin\""),
        ("spin-4", "\"spin\""),
        ("grow", "\"grow\""),
        ("recurse", "\"recurse\""),
        ("calls", "\"calls\""),
    ]);
}

#[test]
fn guests_that_flood_leave_a_neighbour_s_heartbeat_alone() {
    leaves_its_neighbour_alone(&[
        ("flood-1", "\"flood\""),
        ("flood-2", "\"flood\""),
        ("chatter-1", "\"chatter\""),
        ("chatter-2", "\"chatter\""),
        ("output", "\"output\", bytes = 3000000"),
        ("complain", "\"complain\", bytes = 1000000"),
    ]);
}

#[test]
fn forged_lines_stay_in_their_record_and_steer_no_terminal() {
    let w = noisy(&[("forge", "\"forge\"")]);
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
    let w = Workplace::new(&format!("[defaults]\n{FAULTS}\n{stop}"));
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
