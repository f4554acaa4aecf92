//! How fast a tenant may use the store from this host: calls and bytes a second, shared by all its attempts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_lease::id::TenantName;
use leasehold_lease::time::Mono;

use crate::clock;

/// How many calls a second.
const CALLS: u32 = 200;
/// How many bytes a second.
const BYTES: u64 = 8 << 20;
/// How much of a second's share may be used at once after a rest.
const BURST: Duration = Duration::from_secs(1);

/// The throttles of a host's tenants, made when they are first asked for. As many as the host has tenants.
#[derive(Debug, Default)]
pub(crate) struct Throttles(HashMap<TenantName, Arc<Throttle>>);

impl Throttles {
    /// A tenant's.
    pub(crate) fn of(&mut self, tenant: &TenantName) -> Arc<Throttle> {
        // Who has no attempt any more and has rested needs no memory of it.
        self.0.retain(|_, throttle| Arc::strong_count(throttle) > 1 || !throttle.has_rested(clock::mono()));
        self.0.entry(tenant.clone()).or_default().clone()
    }
}

/// One tenant's share of the store.
#[derive(Debug, Default)]
pub(crate) struct Throttle(Mutex<Debts>);

/// By when what was taken is paid for at the tenant's rate.
#[derive(Debug, Default)]
struct Debts {
    calls: Mono,
    bytes: Mono,
}

impl Throttle {
    /// Waits for the turn of a call that carries this many bytes. Who stops waiting has had the turn all the same.
    pub(crate) async fn call(&self, bytes: u64) {
        let turn = self.take(1, bytes, clock::mono());
        while clock::mono() < turn {
            clock::sleep_until(turn).await;
        }
    }

    /// Bytes of an answer, whose number is known only afterwards: the next calls wait for them.
    pub(crate) fn answered(&self, bytes: u64) {
        self.take(0, bytes, clock::mono());
    }

    /// When it is the turn of what is taken now.
    fn take(&self, calls: u32, bytes: u64, now: Mono) -> Mono {
        let mut debts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rested = Mono(now.0.saturating_sub(BURST));
        debts.calls = debts.calls.max(rested) + Duration::from_secs(1) / CALLS * calls;
        debts.bytes = debts.bytes.max(rested) + Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / BYTES);
        debts.calls.max(debts.bytes)
    }

    fn has_rested(&self, now: Mono) -> bool {
        let debts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        debts.calls.max(debts.bytes) + BURST <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Mono = Mono(Duration::from_secs(1_000));

    #[test]
    fn after_a_rest_a_second_s_calls_come_at_once_and_the_rest_at_the_rate() {
        let throttle = Throttle::default();
        assert!((0..CALLS).all(|_| throttle.take(1, 0, NOW) <= NOW));
        for n in 1..=400_u32 {
            assert_eq!(throttle.take(1, 0, NOW).since(NOW), Duration::from_millis(5) * n);
        }
    }

    #[test]
    fn bytes_count_as_well_also_those_of_answers() {
        let throttle = Throttle::default();
        assert_eq!(throttle.take(1, BYTES, NOW), NOW);
        assert_eq!(throttle.take(1, BYTES / 2, NOW).since(NOW), Duration::from_millis(500));
        throttle.take(0, BYTES, NOW);
        assert_eq!(throttle.take(1, 0, NOW).since(NOW), Duration::from_millis(1_500));
    }

    #[test]
    fn a_tenant_that_rests_is_forgotten_and_one_that_floods_is_not() {
        let mut throttles = Throttles::default();
        let (quiet, loud): (TenantName, TenantName) = ("quiet".parse().unwrap(), "loud".parse().unwrap());
        throttles.of(&quiet);
        throttles.of(&loud).take(100_000, 0, clock::mono());
        throttles.of(&"other".parse().unwrap());
        assert!(!throttles.0.contains_key(&quiet) && throttles.0.contains_key(&loud));
    }
}
