//! The store in memory, for orientation: what the rules themselves cost.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::place::{Missing, Place, Subject};
use crate::memory::MemoryStore;

/// The store in memory.
pub(super) fn subject() -> Subject {
    Subject {
        name: "memory".into(),
        store: Arc::new(MemoryStore::new()),
        place: Box::new(Memory),
        in_flight: 50,
        pairs: None,
        heartbeats: None,
        full: None,
    }
}

struct Memory;

#[async_trait]
impl Place for Memory {
    fn yardstick(&self) -> Option<&'static str> {
        None
    }

    async fn turn(&self, _: usize, _: Duration) -> Result<f64, Missing> {
        Err(Missing("there is nothing to compare it with".into()))
    }

    fn medium(&self) -> &'static str {
        "in memory"
    }

    async fn bytes(&self) -> Result<u64, Missing> {
        let missing = |why: &dyn std::fmt::Display| Missing(format!("/proc/self/status does not tell: {why}"));
        let status = std::fs::read_to_string("/proc/self/status").map_err(|error| missing(&error))?;
        resident(&status).ok_or_else(|| missing(&"it has no line VmRSS"))
    }
}

/// The process's resident memory, in bytes.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read() {
        assert_eq!(resident("Name:\tx\nVmHWM:\t    9 kB\nVmRSS:\t    1234 kB\nThreads:\t1\n"), Some(1_263_616));
        assert_eq!(resident("Name:\tx\n"), None);
    }
}
