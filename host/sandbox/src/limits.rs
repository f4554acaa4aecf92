//! What one attempt may use, and the meter for its memory.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::ResourceLimiter;

use crate::attempt::Attempt;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// What one attempt may use. [`Limits::default`] holds the values that are documented for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long the attempt may take, from its start. The guest is asked to stop [a little earlier](Limits::soft_deadline).
    pub timeout: Duration,
    /// Bytes of all memories and tables of the attempt together.
    pub memory: usize,
    /// Bytes of input.
    pub payload: usize,
    /// Bytes of output.
    pub output: usize,
    /// Bytes of log kept of the attempt; each line counts 64 bytes more than its text.
    pub log: usize,
    /// Bytes of one log line: target, message and fields together.
    pub log_line: usize,
    /// Bytes of an error's code.
    pub error_code: usize,
    /// Bytes of an error's message.
    pub error_message: usize,
    /// How many details an error may have.
    pub error_details: usize,
    /// Bytes of one detail, its key and its value together.
    pub error_detail: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            timeout: Duration::from_secs(5 * 60),
            memory: 128 * MIB,
            payload: MIB,
            output: MIB,
            log: MIB,
            log_line: 8 * KIB,
            error_code: 64,
            error_message: 8 * KIB,
            error_details: 32,
            error_detail: KIB,
        }
    }
}

impl Limits {
    /// When the guest is asked to stop: the smaller of a second and a tenth of the timeout before it.
    pub fn soft_deadline(&self) -> Duration {
        self.timeout - (self.timeout / 10).min(Duration::from_secs(1))
    }

    /// Bytes a guest may hand to the host in one call, its payload's size and a margin; a compare-and-set carries two values.
    pub(crate) fn hostcall_fuel(&self) -> usize {
        self.payload.max(2 * MIB).saturating_add(MIB)
    }

    /// Bytes a handler's result may have before it is not even copied out of the guest.
    pub(crate) fn result_fuel(&self) -> usize {
        self.output.saturating_add(MIB)
    }
}

/// Counts all memories and tables of an attempt against one limit: wasmtime's own limits are for each memory alone.
pub(crate) struct MemoryMeter {
    attempt: Arc<Attempt>,
    limit: usize,
    used: usize,
}

/// What wasmtime keeps for one table element.
const TABLE_ELEMENT: usize = size_of::<usize>();

impl MemoryMeter {
    pub(crate) fn new(attempt: Arc<Attempt>, limit: usize) -> Self {
        MemoryMeter { attempt, limit, used: 0 }
    }

    fn grow(&mut self, current: usize, desired: usize) -> bool {
        let growth = desired.saturating_sub(current);
        let total = self.used.saturating_add(growth);
        if total > self.limit {
            self.attempt.refuse_growth();
            return false;
        }
        self.used = total;
        self.attempt.set_memory(total);
        true
    }
}

impl ResourceLimiter for MemoryMeter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        // Growth beyond the memory's own maximum fails anyway and is the guest's affair, not our limit's.
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(true);
        }
        Ok(self.grow(current, desired))
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        // Nothing is given back: wasmtime also reports failures that it never asked about, and a guest must not be able to
        // earn memory by failing. What the system could not provide stays charged to the attempt that wanted it.
        tracing::debug!(%error, "a guest's memory could not grow");
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(true);
        }
        Ok(self.grow(current.saturating_mul(TABLE_ELEMENT), desired.saturating_mul(TABLE_ELEMENT)))
    }

    fn table_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        tracing::debug!(%error, "a guest's table could not grow");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::tests::attempt;

    #[test]
    fn the_soft_deadline_is_a_tenth_but_at_most_a_second_early() {
        let soft = |timeout| Limits { timeout, ..Limits::default() }.soft_deadline();
        assert_eq!(soft(Duration::from_secs(5)), Duration::from_millis(4_500));
        assert_eq!(soft(Duration::from_secs(300)), Duration::from_secs(299));
    }

    #[test]
    fn memories_and_tables_share_one_limit() {
        let attempt = attempt(Limits::default());
        let mut meter = MemoryMeter::new(attempt.clone(), 1_000);
        assert!(meter.memory_growing(0, 600, None).expect("no trap"));
        assert!(meter.table_growing(0, 40, None).expect("no trap"));
        assert!(!attempt.growth_was_refused());
        assert!(!meter.memory_growing(0, 81, None).expect("no trap"));
        assert!(attempt.growth_was_refused());
        assert_eq!(attempt.peak_memory(), 920);
    }

    #[test]
    fn failing_earns_no_memory() {
        let attempt = attempt(Limits::default());
        let mut meter = MemoryMeter::new(attempt.clone(), 1_000);
        assert!(meter.memory_growing(0, 600, None).expect("no trap"));
        meter.memory_grow_failed(wasmtime::format_err!("exceeds the type's limits")).expect("no trap");
        assert!(!meter.memory_growing(600, 1_001, None).expect("no trap"));
    }

    #[test]
    fn growth_beyond_the_memory_s_own_maximum_is_not_our_refusal() {
        let attempt = attempt(Limits::default());
        let mut meter = MemoryMeter::new(attempt.clone(), 1_000);
        assert!(meter.memory_growing(0, 600, None).expect("no trap"));
        assert!(meter.memory_growing(600, 2_000, Some(700)).expect("no trap"));
        meter.memory_grow_failed(wasmtime::format_err!("beyond its maximum")).expect("no trap");
        assert!(!attempt.growth_was_refused());
        assert!(meter.memory_growing(600, 700, Some(700)).expect("no trap"));
    }
}
