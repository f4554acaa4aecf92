//! Servers, namespaces and clocks for these tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use leasehold_lease::time::Millis;
use leasehold_test_servers::{Redis, RedisKind, RedisOptions, ServerError, or_skip};
use redis::aio::MultiplexedConnection;

use crate::conformance::{Bench, SetClock, TestClock};
use crate::redis::RedisStore;
use crate::redis::scripts::{ON_A_SET_CLOCK, Scripts};

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
    with_scripts(server, &ON_A_SET_CLOCK).await
}

/// The same with these scripts.
pub(super) async fn with_scripts(server: Result<String, ServerError>, scripts: &'static Scripts) -> Option<Bench> {
    let url = or_skip(server)?;
    let namespace = namespace();
    let clock = ServerClock { key: format!("leasehold:{{{namespace}}}:clock"), operator: operator(&url).await };
    clock.set(START).await;
    let store = RedisStore::with_scripts(&url, &namespace, scripts).await.expect("a store");
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

/// A server of this test's own; none where it is not installed.
pub(super) async fn own_server(settings: &[(&str, &str)]) -> Option<Redis> {
    let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    or_skip(Redis::start_with(RedisKind::Redis, RedisOptions { settings, ..RedisOptions::default() }).await)
}

/// One of this kind, with the settings that it comes with.
pub(super) async fn server_of(kind: RedisKind) -> Option<Redis> {
    or_skip(Redis::start(kind).await)
}

/// One that keeps what it acknowledges.
pub(super) async fn keeping_server(kind: RedisKind) -> Option<Redis> {
    or_skip(Redis::start_with(kind, RedisOptions { persistent: true, ..RedisOptions::default() }).await)
}

/// Makes two tests of each case, which is given the kind of its servers.
macro_rules! on_redis_and_valkey {
    ($($case:ident)*) => {
        on_redis_and_valkey! { @on on_redis Redis; $($case)* }
        on_redis_and_valkey! { @on on_valkey Valkey; $($case)* }
    };
    (@on $name:ident $kind:ident; $($case:ident)*) => {
        mod $name {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::$case(leasehold_test_servers::RedisKind::$kind).await;
                }
            )*
        }
    };
}
pub(super) use on_redis_and_valkey;

/// A store in this server, in a namespace of its own.
pub(super) async fn store(url: &str) -> Arc<RedisStore> {
    Arc::new(RedisStore::connect(url, &namespace()).await.expect("a store"))
}

/// Runs a command of the operator and expects it to work.
pub(super) async fn run<A: redis::FromRedisValue>(url: &str, words: &[&str]) -> A {
    let mut cmd = redis::Cmd::new();
    words.iter().for_each(|word| {
        cmd.arg(*word);
    });
    cmd.query_async(&mut operator(url).await).await.expect("the operator's command works")
}
