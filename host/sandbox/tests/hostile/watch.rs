//! The memory of this process while a guest runs in it.

use std::fs;
use std::sync::Arc;

use leasehold_sandbox::{Ended, Limits, LogLine};

use crate::support::{Lines, invocation, load, millis, sandbox};

/// What a host may need beside what the guest itself may have.
const SLACK: u64 = 10 << 20;

/// Small, so that whatever the host keeps for a guest beyond it shows.
pub(crate) fn tight() -> Limits {
    Limits { memory: 8 << 20, timeout: millis(60_000), ..Limits::default() }
}

/// Runs a guest that means harm; the host's memory must stay flat.
pub(crate) async fn hostile(bytes: Vec<u8>, limits: Limits) -> Ended {
    hostile_with_log(bytes, limits).await.0
}

/// Likewise, and answers what it said.
pub(crate) async fn hostile_with_log(bytes: Vec<u8>, limits: Limits) -> (Ended, Vec<LogLine>) {
    let sandbox = sandbox();
    let plugin = load(&sandbox, bytes).await;
    let lines = Arc::new(Lines::default());
    let mut invocation = invocation(limits);
    invocation.logs = lines.clone();
    let watch = Watch::start();
    let ended = sandbox.start(&plugin, invocation).await;
    watch.assert_flat(limits.memory);
    assert_eq!(sandbox.memory().used(), 0, "what the guest held is given back");
    (ended, lines.all())
}

/// The memory of this process from now on.
pub(crate) struct Watch {
    before: Option<u64>,
}

impl Watch {
    pub(crate) fn start() -> Watch {
        // Other tests in the same process would be measured as well.
        if std::env::var("NEXTEST_EXECUTION_MODE").as_deref() != Ok("process-per-test") {
            eprintln!(
                "the host's memory is not measured: this test has no process of its own (cargo nextest gives it one)"
            );
            return Watch { before: None };
        }
        // "5" sets the peak to what is in use now.
        fs::write("/proc/self/clear_refs", "5").expect("a process may reset its own peak");
        Watch { before: Some(status("VmRSS:")) }
    }

    /// At its peak, the process held at most so much more than at the start, and a little.
    pub(crate) fn assert_flat(&self, guest: usize) {
        let Some(before) = self.before else { return };
        let grown = status("VmHWM:").saturating_sub(before);
        let most = guest as u64 + SLACK;
        assert!(grown <= most, "the process grew by {grown} bytes at its peak, more than {most}");
    }
}

fn status(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("the system tells");
    let line = status.lines().find(|line| line.starts_with(key)).expect("it tells of memory");
    let kib: u64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number of KiB");
    kib * 1024
}
