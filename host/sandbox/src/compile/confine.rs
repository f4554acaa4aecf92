//! The limits a compiler's process sets itself before it reads a byte.

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::CompileLimits;

/// Limits this process. To be called first, while it has one thread and has opened nothing. Its low priority it has from the
/// thread of the host that started it.
///
/// # Errors
///
/// A limit that could not be set: nothing may be compiled then.
pub(super) fn confine(parent: u32, limits: &CompileLimits) -> io::Result<()> {
    die_with(parent)?;
    close_inherited()?;
    go_first_when_memory_runs_out();
    limit(Resource::Core, 0, 0)?;
    limit(Resource::As, limits.memory, limits.memory)?;
    limit(Resource::Fsize, limits.output, limits.output)?;
    // The first ends the process with a signal that tells why, the second without fail.
    let cpu = whole_seconds(limits.cpu);
    limit(Resource::Cpu, cpu, cpu + 1)
}

/// In whole seconds, and at least one: no time at all would end the process before it can say anything.
pub(super) fn whole_seconds(time: Duration) -> u64 {
    (time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(1)
}

/// Sets a limit, or keeps a lower one that holds already and could not be raised again.
fn limit(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let limit = Rlimit { current: Some(soft.min(most)), maximum: Some(hard.min(most)) };
    Ok(setrlimit(resource, limit)?)
}

/// Ends this process with the thread that started it, which waits for it.
#[cfg(target_os = "linux")]
fn die_with(parent: u32) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // The parent may have ended before that took hold.
    let now = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    if i64::from(now) == i64::from(parent) { Ok(()) } else { Err(io::Error::other("the host has ended already")) }
}

/// Elsewhere its own limits end it.
#[cfg(not(target_os = "linux"))]
fn die_with(_: u32) -> io::Result<()> {
    Ok(())
}

/// Closes what the host was started with and handed on without knowing, such as a supervisor's pipes. What the host opened
/// itself is not handed on.
#[allow(unsafe_code)]
fn close_inherited() -> io::Result<()> {
    const FOLDER: &str = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    let open: Vec<i32> = fs::read_dir(FOLDER)?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2)
        .collect();
    for fd in open {
        // SAFETY: nobody uses these descriptors. This process has one thread and has opened nothing yet but the listing, which
        // is closed already; so whatever is above standard error was inherited, and no owner of it exists in this process. The
        // listing's own number, which is in it, is told apart by asking first.
        unsafe {
            if rustix::io::fcntl_getfd(BorrowedFd::borrow_raw(fd)).is_ok() {
                rustix::io::close(fd);
            }
        }
    }
    Ok(())
}

/// When the machine has no memory left, this process is the one to end and not the host. Best effort: elsewhere than on Linux,
/// and in some containers, there is no such file.
fn go_first_when_memory_runs_out() {
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_rounded_up_to_seconds() {
        let seconds = [0, 1, 1_000, 1_001].map(|ms| whole_seconds(Duration::from_millis(ms)));
        assert_eq!(seconds, [1, 1, 1, 2]);
    }
}
