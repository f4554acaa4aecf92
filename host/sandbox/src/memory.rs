//! The memory of guests: of one attempt, of all attempts of a tenant, and of all guests of the host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wasmtime::ResourceLimiter;

use crate::attempt::Attempt;
use crate::engine::{CORE_INSTANCES, MEMORIES, TABLES};

/// What part of the host's memory one tenant may hold where nothing else is said.
const TENANT_PART: usize = 4;

/// From this part on, in percent, nothing new is started: what runs already may still grow.
const ADMISSION_PERCENT: u128 = 80;

/// The memory that all guests of a host hold together, and each tenant's part of it. Counted are memories and tables, and
/// responses while the host holds them; what else the host needs for an instance is not.
#[derive(Debug)]
pub struct MemoryLedger {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    /// Only tenants that hold something.
    tenants: HashMap<String, usize>,
}

/// Whose memory is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryFull {
    /// The attempt's own.
    Attempt,
    /// The tenant's, and how much that is.
    Tenant(usize),
    /// The host's, and how much that is.
    Host(usize),
}

impl MemoryLedger {
    /// Of a host whose guests may hold so many bytes together.
    pub fn new(limit: usize) -> Self {
        MemoryLedger { limit, state: Mutex::default() }
    }

    /// Bytes that all guests hold now.
    pub fn used(&self) -> usize {
        self.state().used
    }

    /// Bytes that all guests may hold together.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes that the attempts of one tenant may hold together: `wanted`, or a quarter of the host's.
    pub fn tenant_limit(&self, wanted: Option<usize>) -> usize {
        wanted.unwrap_or(self.limit / TENANT_PART).min(self.limit)
    }

    /// Whether another attempt of this tenant may be started: under four fifths of the host's memory and of the tenant's
    /// are in use. `tenant_limit` as in [`MemoryLedger::tenant_limit`].
    pub fn admits(&self, tenant: &str, tenant_limit: Option<usize>) -> bool {
        let below = |used: usize, limit: usize| (used as u128) * 100 < (limit as u128) * ADMISSION_PERCENT;
        let state = self.state();
        let held = state.tenants.get(tenant).copied().unwrap_or(0);
        below(state.used, self.limit) && below(held, self.tenant_limit(tenant_limit))
    }

    fn charge(&self, tenant: &str, tenant_limit: usize, bytes: usize) -> Result<(), MemoryFull> {
        let mut state = self.state();
        let used = state.used.saturating_add(bytes);
        let held = state.tenants.get(tenant).copied().unwrap_or(0).saturating_add(bytes);
        if held > tenant_limit {
            return Err(MemoryFull::Tenant(tenant_limit));
        }
        if used > self.limit {
            return Err(MemoryFull::Host(self.limit));
        }
        state.used = used;
        match state.tenants.get_mut(tenant) {
            Some(all) => *all = held,
            None => drop(state.tenants.insert(tenant.to_owned(), held)),
        }
        Ok(())
    }

    fn give_back(&self, tenant: &str, bytes: usize) {
        let mut state = self.state();
        state.used = state.used.saturating_sub(bytes);
        if let Some(held) = state.tenants.get_mut(tenant) {
            *held = held.saturating_sub(bytes);
            if *held == 0 {
                state.tenants.remove(tenant);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in between can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one attempt holds of the host's memory; given back when it is dropped, which is when its instance is gone.
#[derive(Debug)]
pub struct MemoryShare {
    ledger: Arc<MemoryLedger>,
    tenant: String,
    tenant_limit: usize,
    held: usize,
}

impl MemoryShare {
    /// Holds nothing yet. `tenant_limit` as in [`MemoryLedger::tenant_limit`].
    pub fn new(ledger: Arc<MemoryLedger>, tenant: String, tenant_limit: Option<usize>) -> Self {
        let tenant_limit = ledger.tenant_limit(tenant_limit);
        MemoryShare { ledger, tenant, tenant_limit, held: 0 }
    }

    /// Holds so much, if it does not yet.
    ///
    /// # Errors
    ///
    /// As [`MemoryShare::grow`].
    pub(crate) fn grow_to(&mut self, bytes: usize) -> Result<(), MemoryFull> {
        self.grow(bytes.saturating_sub(self.held))
    }

    /// Holds so much more.
    ///
    /// # Errors
    ///
    /// The tenant or the host has no more to give; then nothing has changed.
    pub fn grow(&mut self, bytes: usize) -> Result<(), MemoryFull> {
        self.ledger.charge(&self.tenant, self.tenant_limit, bytes)?;
        self.held += bytes;
        Ok(())
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.ledger.give_back(&self.tenant, self.held);
    }
}

/// Counts all memories and tables of an attempt against one limit, and against those of its tenant and its host: wasmtime's
/// own limits are for each memory alone.
pub(crate) struct MemoryMeter {
    attempt: Arc<Attempt>,
    share: MemoryShare,
}

/// What wasmtime keeps for one table element.
const TABLE_ELEMENT: usize = size_of::<usize>();

impl MemoryMeter {
    pub(crate) fn new(attempt: Arc<Attempt>, share: MemoryShare) -> Self {
        MemoryMeter { attempt, share }
    }

    fn grow(&mut self, current: usize, desired: usize) -> bool {
        let growth = desired.saturating_sub(current);
        let grown = if self.share.held.saturating_add(growth) > self.attempt.limits.memory {
            Err(MemoryFull::Attempt)
        } else {
            self.share.grow(growth)
        };
        match grown {
            Ok(()) => self.attempt.set_memory(self.share.held),
            Err(full) => self.attempt.refuse_growth(full),
        }
        grown.is_ok()
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

    // The pool's bounds, for where there is no pool: each instance costs the host what nobody is charged for.

    fn instances(&self) -> usize {
        CORE_INSTANCES as usize
    }

    fn memories(&self) -> usize {
        MEMORIES as usize
    }

    fn tables(&self) -> usize {
        TABLES as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::tests::attempt;
    use crate::limits::Limits;

    fn ledger(limit: usize) -> Arc<MemoryLedger> {
        Arc::new(MemoryLedger::new(limit))
    }

    fn meter(ledger: &Arc<MemoryLedger>, tenant: &str, memory: usize) -> (Arc<Attempt>, MemoryMeter) {
        let attempt = attempt(Limits { memory, ..Limits::default() });
        let share = MemoryShare::new(ledger.clone(), tenant.to_owned(), None);
        (attempt.clone(), MemoryMeter::new(attempt, share))
    }

    fn memory(meter: &mut MemoryMeter, current: usize, desired: usize) -> bool {
        meter.memory_growing(current, desired, None).expect("no trap")
    }

    #[test]
    fn memories_and_tables_share_one_limit() {
        let (attempt, mut meter) = meter(&ledger(usize::MAX), "a", 1_000);
        assert!(memory(&mut meter, 0, 600));
        assert!(meter.table_growing(0, 40, None).expect("no trap"));
        assert_eq!(attempt.growth_refused(), None);
        assert!(!memory(&mut meter, 0, 81));
        assert_eq!(attempt.growth_refused(), Some(MemoryFull::Attempt));
        assert_eq!(attempt.peak_memory(), 920);
    }

    #[test]
    fn failing_earns_no_memory() {
        let (_, mut meter) = meter(&ledger(usize::MAX), "a", 1_000);
        assert!(memory(&mut meter, 0, 600));
        meter.memory_grow_failed(wasmtime::format_err!("exceeds the type's limits")).expect("no trap");
        assert!(!memory(&mut meter, 600, 1_001));
    }

    #[test]
    fn growth_beyond_the_memory_s_own_maximum_is_not_our_refusal() {
        let (attempt, mut meter) = meter(&ledger(usize::MAX), "a", 1_000);
        assert!(memory(&mut meter, 0, 600));
        assert!(meter.memory_growing(600, 2_000, Some(700)).expect("no trap"));
        meter.memory_grow_failed(wasmtime::format_err!("beyond its maximum")).expect("no trap");
        assert_eq!(attempt.growth_refused(), None);
        assert!(meter.memory_growing(600, 700, Some(700)).expect("no trap"));
    }

    #[test]
    fn a_tenant_has_a_quarter_and_all_tenants_share_the_host_s() {
        let ledger = ledger(1_000);
        let (one, mut first) = meter(&ledger, "a", 1_000);
        let (two, mut second) = meter(&ledger, "a", 1_000);
        assert!(memory(&mut first, 0, 200));
        assert!(!memory(&mut second, 0, 51));
        assert_eq!((one.growth_refused(), two.growth_refused()), (None, Some(MemoryFull::Tenant(250))));
        let others: Vec<_> = ["b", "c", "d"].map(|tenant| meter(&ledger, tenant, 1_000)).into();
        for (_, mut meter) in others {
            assert!(memory(&mut meter, 0, 250), "a quarter each");
            // Kept until the end of the test: what is dropped is given back.
            std::mem::forget(meter);
        }
        let (full, mut last) = meter(&ledger, "e", 1_000);
        assert!(memory(&mut last, 0, 50) && !memory(&mut last, 50, 60));
        assert_eq!(full.growth_refused(), Some(MemoryFull::Host(1_000)));
        assert_eq!(ledger.used(), 1_000);
    }

    #[test]
    fn what_an_attempt_held_is_given_back_when_it_is_gone() {
        let ledger = ledger(1_000);
        let (_, mut gone) = meter(&ledger, "a", 1_000);
        assert!(memory(&mut gone, 0, 250));
        drop(gone);
        assert_eq!(ledger.used(), 0);
        assert!(ledger.state().tenants.is_empty(), "a tenant without guests is forgotten");
    }

    #[test]
    fn nothing_is_admitted_beyond_four_fifths_of_the_host_or_the_tenant() {
        let ledger = ledger(1_000);
        let (_, mut a) = meter(&ledger, "a", 1_000);
        assert!(memory(&mut a, 0, 190) && ledger.admits("a", None));
        assert!(memory(&mut a, 190, 200) && !ledger.admits("a", None), "a tenant has 250, four fifths of it are 200");
        assert!(ledger.admits("a", Some(1_000)) && ledger.admits("b", None));
        let share = |tenant: &str| MemoryShare::new(ledger.clone(), tenant.to_owned(), Some(1_000));
        let mut b = share("b");
        b.grow(600).expect("there is room");
        assert!(!ledger.admits("c", None), "four fifths of the host are in use");
        drop(b);
        assert!(ledger.admits("c", None));
    }
}
