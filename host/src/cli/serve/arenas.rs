//! How much memory that is not used the C library keeps for a host.

use std::io;

/// Glibc gives nearly every thread an arena of its own, and each keeps what its threads have needed once: of a host with
/// 10 000 jobs that is a quarter of all its memory. With two arenas threads wait for each other now and then, which no
/// figure shows. Glibc reads the setting when a process begins, so the process begins once more, as itself: with the same
/// id, arguments and descriptors. Where the setting is there already, it is left as it is.
///
/// # Errors
/// It cannot begin once more. It may as well go on.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(in crate::cli) fn limit() -> io::Result<()> {
    use std::os::unix::process::CommandExt;

    /// Of mallopt(3).
    const SETTING: &str = "MALLOC_ARENA_MAX";
    /// Says that it was tried. From a program that has more rights than its user, the linker takes the setting away, and it
    /// would begin again and again.
    const TRIED: &str = "MALLOC_ARENA_MAX_TRIED";

    if std::env::var_os(SETTING).is_some() || std::env::var_os(TRIED).is_some() {
        return Ok(());
    }
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    // By its path, for that is the name under which people see it.
    let program = std::env::current_exe()?;
    Err(std::process::Command::new(program).arg0(name).args(arguments).env(SETTING, "2").env(TRIED, "1").exec())
}

/// Elsewhere there is no such setting.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(in crate::cli) fn limit() -> io::Result<()> {
    Ok(())
}
