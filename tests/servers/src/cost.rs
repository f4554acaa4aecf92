//! What a process costs, as Linux tells it.

use std::time::Duration;

/// The processor time that a process has used, in steps of 10 ms.
///
/// # Panics
/// There is no such process.
pub fn processor_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process is there");
    // The name, in parentheses, may have blanks in it.
    let (_, behind) = stat.rsplit_once(") ").expect("the system tells of processes");
    let ticks = behind.split(' ').skip(11).take(2).map(|n| n.parse::<u64>().expect("a number of ticks"));
    // Linux tells all programs a hundred ticks a second, whatever it does itself.
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

/// The memory that a process has, and the most it had, in bytes.
///
/// # Panics
/// There is no such process.
pub fn memory(pid: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is there");
    let kib = |key: &str| {
        let line = status.lines().find(|line| line.starts_with(key)).expect("the system tells of memory");
        line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).expect("a number of KiB")
    };
    (kib("VmRSS:") * 1024, kib("VmHWM:") * 1024)
}
