//! Processes and their descendants, by `/proc`.
//!
//! A process group is not enough: every backend of PostgreSQL makes a session of its own.

use std::fs;
use std::io;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// How a process is, as far as tests care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Stopped,
    /// Ended, whether or not somebody has asked for its exit status.
    Gone,
    Running,
}

pub(crate) fn state(pid: Pid) -> State {
    match read_stat(pid.as_raw_pid()) {
        Some(('T' | 't', _)) => State::Stopped,
        Some(('Z' | 'X', _)) | None => State::Gone,
        Some(_) => State::Running,
    }
}

/// The children of a process.
pub(crate) fn children(parent: Pid) -> io::Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        if read_stat(pid).is_some_and(|(_, of)| of == parent.as_raw_pid()) {
            found.extend(Pid::from_raw(pid));
        }
    }
    Ok(found)
}

/// All descendants of a process, parents before children. Whoever is started meanwhile may be missing.
pub(crate) fn descendants(of: Pid) -> io::Result<Vec<Pid>> {
    let mut found = children(of)?;
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        found.extend(children(pid)?);
        next += 1;
    }
    Ok(found)
}

/// Sends a signal; that the process is gone is no error.
pub(crate) fn signal(pid: Pid, signal: Signal) -> io::Result<()> {
    match kill_process(pid, signal) {
        Err(rustix::io::Errno::SRCH) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Takes the exit status of one that has ended, if it is ours to take.
pub(crate) fn reap(pid: Pid) {
    // No child of ours, or one that has been asked already: both are as good.
    let _ = waitpid(Some(pid), WaitOptions::NOHANG);
}

/// Waits until a killed process has ended, if it is ours to wait for.
pub(crate) fn wait(pid: Pid) {
    let _ = waitpid(Some(pid), WaitOptions::empty());
}

/// State letter and parent of a process. The name, in parentheses, may hold spaces and parentheses of its own.
fn read_stat(pid: i32) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
