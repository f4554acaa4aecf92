//! Servers, namespaces and clocks for these tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use leasehold_lease::time::Millis;
use leasehold_test_servers::{ServerError, or_skip};
use redis::aio::MultiplexedConnection;

use crate::conformance::{Bench, SetClock, TestClock};
use crate::redis::RedisStore;
use crate::redis::scripts::ON_A_SET_CLOCK;

/// Where a clock that is set begins.
const START: Millis = Millis(1_700_000_000_000);

/// A namespace that no other test has.
pub(super) fn namespace() -> String {
    static TESTS: AtomicU64 = AtomicU64::new(0);
    let mut random = [0; 4];
    getrandom::fill(&mut random).expect("random bits");
    format!("t{}-{}", u32::from_le_bytes(random), TESTS.fetch_add(1, Ordering::Relaxed))
}

/// A connection beside the store, as an operator has one.
pub(super) async fn operator(url: &str) -> MultiplexedConnection {
    let client = redis::Client::open(url).expect("a URL");
    client.get_multiplexed_async_connection().await.expect("the server answers")
}

/// A store on the server's own clock.
pub(super) async fn on_its_own_clock(server: Result<String, ServerError>) -> Option<Bench> {
    let url = or_skip(server)?;
    let store = RedisStore::connect(&url, &namespace()).await.expect("a store");
    Some(Bench::new(Arc::new(store), TestClock::Real, ()))
}

/// A store on a clock that the test sets.
pub(super) async fn on_a_set_clock(server: Result<String, ServerError>) -> Option<Bench> {
    let url = or_skip(server)?;
    let namespace = namespace();
    let clock = ServerClock { key: format!("leasehold:{{{namespace}}}:clock"), operator: operator(&url).await };
    clock.set(START).await;
    let store = RedisStore::with_scripts(&url, &namespace, &ON_A_SET_CLOCK).await.expect("a store");
    Some(Bench::new(Arc::new(store), TestClock::Remote(Arc::new(clock)), ()))
}

/// The clock that `test_clock.lua` reads.
struct ServerClock {
    key: String,
    operator: MultiplexedConnection,
}

#[async_trait]
impl SetClock for ServerClock {
    async fn set(&self, at: Millis) {
        let mut operator = self.operator.clone();
        let set: () = redis::cmd("SET").arg(&self.key).arg(at.0).query_async(&mut operator).await.expect("it is set");
        set
    }
}
