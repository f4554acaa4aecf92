//! The memory of guests: of one attempt, of all attempts of a tenant, and of all guests of the host.

use std::collections::{BTreeMap, BTreeSet, HashMap};
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
///
/// Everything starts small and grows, so what was admitted may not fit later. Who pays for that is decided by even shares:
/// the host's memory is shared evenly by the tenants that hold some of it, and a tenant's by its attempts. Whoever asks for
/// more than its share when there is none left fails by its own doing. Whoever is refused within its share lacks what others
/// hold, so its run is handed over, to be tried again; and until one has got what it was refused, tenants that hold more
/// than their share leave it the part of the memory that nothing is admitted to.
#[derive(Debug)]
pub struct MemoryLedger {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    /// Only tenants that hold something, or have attempts.
    tenants: HashMap<String, Tenant>,
    /// Tenants of which an attempt was refused within its share, and what it would have held.
    wanting: BTreeMap<String, usize>,
}

#[derive(Debug, Default)]
struct Tenant {
    held: usize,
    attempts: usize,
}

impl State {
    /// Tenants among which the memory is shared: this one, those that hold some and those that were refused it.
    fn sharing(&self, tenant: &str) -> usize {
        let holding = self.tenants.iter().filter(|(_, other)| other.held > 0).map(|(name, _)| name.as_str());
        let all: BTreeSet<&str> = holding.chain(self.wanting.keys().map(String::as_str)).chain([tenant]).collect();
        all.len()
    }

    fn forget_idle(&mut self, tenant: &str) {
        if self.tenants.get(tenant).is_some_and(|tenant| tenant.held == 0 && tenant.attempts == 0) {
            self.tenants.remove(tenant);
        }
        if self.used == 0 {
            self.wanting.clear();
        }
    }
}

/// Why no more is to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Refused {
    full: MemoryFull,
    /// Whoever asked would not have held more than its even share.
    within_share: bool,
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
    /// Of a host whose guests may hold this many bytes together.
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
        let state = self.state();
        let held = state.tenants.get(tenant).map_or(0, |tenant| tenant.held);
        leaves_room(state.used, self.limit) && leaves_room(held, self.tenant_limit(tenant_limit))
    }

    /// Whether another attempt of any tenant may be started, as far as the host's memory is concerned.
    pub fn admits_anyone(&self) -> bool {
        leaves_room(self.used(), self.limit)
    }

    /// `own` is what the attempt holds of that already.
    fn charge(&self, tenant: &str, tenant_limit: usize, own: usize, bytes: usize) -> Result<(), Refused> {
        let mut state = self.state();
        let own = own.saturating_add(bytes);
        let used = state.used.saturating_add(bytes);
        let (held, attempts) = state.tenants.get(tenant).map_or((0, 1), |tenant| (tenant.held, tenant.attempts.max(1)));
        let held = held.saturating_add(bytes);
        if held > tenant_limit {
            let within_share = own <= tenant_limit / attempts;
            return Err(Refused { full: MemoryFull::Tenant(tenant_limit), within_share });
        }
        // Below that nobody has to be told apart.
        if used > self.admitted() {
            let within_share = held <= self.limit / state.sharing(tenant);
            let room = if within_share || state.wanting.is_empty() { self.limit } else { self.admitted() };
            if used > room {
                if within_share {
                    state.wanting.insert(tenant.to_owned(), own);
                }
                return Err(Refused { full: MemoryFull::Host(self.limit), within_share });
            }
        }
        state.used = used;
        match state.tenants.get_mut(tenant) {
            Some(tenant) => tenant.held = held,
            None => drop(state.tenants.insert(tenant.to_owned(), Tenant { held, attempts: 0 })),
        }
        Ok(())
    }

    fn give_back(&self, tenant: &str, bytes: usize) {
        let mut state = self.state();
        state.used = state.used.saturating_sub(bytes);
        if let Some(tenant) = state.tenants.get_mut(tenant) {
            tenant.held = tenant.held.saturating_sub(bytes);
        }
        state.forget_idle(tenant);
    }

    fn begin(&self, tenant: &str) {
        self.state().tenants.entry(tenant.to_owned()).or_default().attempts += 1;
    }

    /// An attempt has ended that held so much and was refused nothing that was its share.
    fn end(&self, tenant: &str, held: usize, content: bool) {
        let mut state = self.state();
        if let Some(tenant) = state.tenants.get_mut(tenant) {
            tenant.attempts = tenant.attempts.saturating_sub(1);
        }
        if content && state.wanting.get(tenant).is_some_and(|wanted| *wanted <= held) {
            state.wanting.remove(tenant);
        }
        state.forget_idle(tenant);
    }

    /// From here on, nothing is admitted.
    fn admitted(&self) -> usize {
        usize::try_from(self.limit as u128 * ADMISSION_PERCENT / 100).unwrap_or(usize::MAX)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in between can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether less than the part that nothing is admitted from is in use.
fn leaves_room(used: usize, limit: usize) -> bool {
    (used as u128) * 100 < (limit as u128) * ADMISSION_PERCENT
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
        self.charge(bytes).map_err(|refused| refused.full)
    }

    fn charge(&mut self, bytes: usize) -> Result<(), Refused> {
        self.ledger.charge(&self.tenant, self.tenant_limit, self.held, bytes)?;
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
    /// It was refused what was its share.
    wanting: bool,
}

/// An attempt wanted no more than its share, and others hold it: the guest ends with this, whatever it would have made of a
/// refusal, because another time it may have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", match .0 {
    MemoryFull::Host(limit) => format!(
        "its tenant holds no more than an even share, and all guests of this host, which may hold {limit} bytes together \
         ([host] memory), leave it no memory"
    ),
    MemoryFull::Tenant(limit) => format!(
        "it holds no more than an even share, and all attempts of its tenant on this host, which may hold {limit} bytes \
         together (tenant_memory), leave it no memory"
    ),
    MemoryFull::Attempt => "it may hold no more (memory)".to_owned(),
})]
pub(crate) struct WantOfMemory(MemoryFull);

/// What wasmtime keeps for one table element.
const TABLE_ELEMENT: usize = size_of::<usize>();

impl MemoryMeter {
    pub(crate) fn new(attempt: Arc<Attempt>, share: MemoryShare) -> Self {
        share.ledger.begin(&share.tenant);
        MemoryMeter { attempt, share, wanting: false }
    }

    /// Whether the guest may have it.
    ///
    /// # Errors
    ///
    /// [`WantOfMemory`].
    fn grow(&mut self, current: usize, desired: usize) -> wasmtime::Result<bool> {
        let growth = desired.saturating_sub(current);
        let grown = if self.share.held.saturating_add(growth) > self.attempt.limits.memory {
            Err(Refused { full: MemoryFull::Attempt, within_share: false })
        } else {
            self.share.charge(growth)
        };
        match grown {
            Ok(()) => self.attempt.set_memory(self.share.held),
            Err(Refused { full, within_share: true }) => {
                self.wanting = true;
                return Err(WantOfMemory(full).into());
            }
            Err(Refused { full, .. }) => self.attempt.refuse_growth(full),
        }
        Ok(grown.is_ok())
    }
}

impl Drop for MemoryMeter {
    fn drop(&mut self) {
        self.share.ledger.end(&self.share.tenant, self.share.held, !self.wanting);
    }
}

impl ResourceLimiter for MemoryMeter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        // Growth beyond the memory's own maximum fails anyway and is the guest's affair, not our limit's.
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(true);
        }
        self.grow(current, desired)
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
        self.grow(current.saturating_mul(TABLE_ELEMENT), desired.saturating_mul(TABLE_ELEMENT))
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
mod tests;
