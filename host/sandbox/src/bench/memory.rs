//! The memory of this process, as the system counts it.

use std::fs;

use super::BenchError;

/// What a flooding guest may hold itself, in bytes.
pub(super) const GUEST: usize = 8 << 20;

/// How much a process grew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    /// At the peak, beyond what the guest itself may hold, in bytes.
    pub beyond_guest: u64,
}

/// The process as it was.
pub(super) struct Before {
    resident: u64,
}

impl Before {
    /// Sets the peak to what is in use now.
    pub(super) fn now() -> Result<Before, BenchError> {
        fs::write("/proc/self/clear_refs", "5").map_err(|_| BenchError::NoMemory)?;
        Ok(Before { resident: status("VmRSS:")? })
    }

    pub(super) fn growth(&self) -> Result<Growth, BenchError> {
        let grown = status("VmHWM:")?.saturating_sub(self.resident);
        Ok(Growth { beyond_guest: grown.saturating_sub(GUEST as u64) })
    }
}

fn status(key: &str) -> Result<u64, BenchError> {
    let status = fs::read_to_string("/proc/self/status").map_err(|_| BenchError::NoMemory)?;
    let line = status.lines().find(|line| line.starts_with(key)).ok_or(BenchError::NoMemory)?;
    let kib: u64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).ok_or(BenchError::NoMemory)?;
    Ok(kib * 1024)
}
