//! The memory of this process while guests run in it.

use std::fs;

/// What a host may need beside what the guest itself may have.
const SLACK: u64 = 10 << 20;

/// The memory of this process from now on.
pub struct Watch {
    before: Option<u64>,
}

impl Watch {
    pub fn start() -> Watch {
        // Other tests that run in the same process would be measured as well.
        let is = |variable, value| std::env::var(variable).as_deref() == Ok(value);
        if !is("NEXTEST_EXECUTION_MODE", "process-per-test") && !is("RUST_TEST_THREADS", "1") {
            eprintln!(
                "the host's memory is not measured: other tests run in this process. cargo nextest gives each its own, \
                 and RUST_TEST_THREADS=1 runs one after the other"
            );
            return Watch { before: None };
        }
        // "5" sets the peak to what is in use now.
        fs::write("/proc/self/clear_refs", "5").expect("a process may reset its own peak");
        Watch { before: Some(status("VmRSS:")) }
    }

    /// At its peak, the process held at most so much more than at the start, and a little.
    pub fn assert_flat(&self, guest: usize) {
        let Some(before) = self.before else { return };
        let grown = status("VmHWM:").saturating_sub(before);
        let most = guest as u64 + SLACK;
        eprintln!("the process grew by {grown} bytes at its peak, of {most}");
        assert!(grown <= most, "the process grew by {grown} bytes at its peak, more than {most}");
    }
}

fn status(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("the system tells");
    let line = status.lines().find(|line| line.starts_with(key)).expect("it tells of memory");
    let kib: u64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number of KiB");
    kib * 1024
}
