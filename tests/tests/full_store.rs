//! A store that answers questions and takes no changes, as one on a full disk does.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use leasehold_tests::{HostProcess, Workplace, soon_then_rarely};
use rusqlite::Connection;
use serde_json::Value;

/// Heartbeats that a test can wait for.
const CONFIGURATION: &str = "[defaults]\nlease = \"4s\"\nheartbeat = \"500ms\"\ntimeout = \"2m\"\n";

fn of_host(host: &mut HostProcess, kind: &str) -> Value {
    host.wait_until(kind, |event| event["event"] == kind && event["job"].is_null())
}

#[test]
fn heartbeats_that_fail_are_told_once_as_store_down_and_fill_no_log() {
    let w = Workplace::new(CONFIGURATION);
    w.install("unruly", "job.wasm");
    w.write("plugins/job.toml", soon_then_rarely("waits", "payload = { do = \"wait\", ms = 100000 }"));
    let mut host = w.serve();
    host.wait_for("claimed", "default/waits");
    // Its log line is in the store: only heartbeats are left to fail.
    while w.leasehold(&["logs", "waits"]).stdout.is_empty() {}
    let lock = Connection::open(w.path().join(".leasehold/leasehold.db")).expect("the store's file");
    lock.execute_batch("BEGIN IMMEDIATE").expect("nobody writes for long");
    let down = of_host(&mut host, "store-down");
    assert!(down["detail"].as_str().is_some_and(|detail| detail.contains("no answer within")), "{down}");
    // Many heartbeats later.
    host.wait_for("uncertain", "default/waits");
    lock.execute_batch("ROLLBACK").expect("it held the lock");
    of_host(&mut host, "store-up");
    host.wait_for_log("the lease is certain again");
    let told = host.events().iter().filter(|event| event["event"] == "store-down").count();
    assert_eq!(told, 1, "{:?}", host.events());
    host.terminate();
    let (status, stderr) = host.ended();
    assert!(status.success(), "{stderr}");
    let lines = stderr.lines().filter(|line| line.contains("renewing leases")).count();
    // Three in a row are an outage.
    assert!((1..=3).contains(&lines), "{lines} lines: {stderr}");
}

/// A file system of its own that is soon full; gone with its owner.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None where this user may not have one, which is said.
    fn at(path: PathBuf) -> Option<SmallDisk> {
        fs::create_dir_all(&path).expect("a folder can be made");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(&path).status();
        if !mounted.is_ok_and(|status| status.success()) {
            eprintln!("skipped: a small file system can be mounted by root only");
            return None;
        }
        Some(SmallDisk(path))
    }

    fn fill(&self) {
        let mut filler = fs::File::create(self.0.join("filler")).expect("there is room for a name");
        while filler.write_all(&[0; 4096]).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Its folder goes with the workplace; a test that fails should say why, and not this.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_host_whose_store_has_no_room_ends_without_waiting_for_some() {
    let w = Workplace::new(CONFIGURATION);
    let Some(disk) = SmallDisk::at(w.path().join(".leasehold")) else { return };
    w.install("unruly", "job.wasm");
    w.write("plugins/job.toml", soon_then_rarely("waits", "payload = { do = \"wait\", ms = 100000 }"));
    let mut host = w.serve();
    host.wait_for("claimed", "default/waits");
    disk.fill();
    of_host(&mut host, "store-down");
    host.terminate();
    let (status, stderr) = host.ended();
    assert!(status.success(), "{stderr}");
    assert!(stderr.contains("the store's disk is full") && !stderr.contains("stop timeout has passed"), "{stderr}");
}
