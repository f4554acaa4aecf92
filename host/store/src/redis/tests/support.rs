//! Servers, namespaces and clocks for these tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use leasehold_lease::id::{JobKey, RunId, Token};
use leasehold_lease::op::{Accepted, Claim, ClaimAnswer, ClaimKind, Finish, Heartbeat, HeartbeatAnswer};
use leasehold_lease::policy::{Overlap, Policy, Terms};
use leasehold_lease::run::{Outcome, Usage};
use leasehold_lease::time::{Millis, Slot};
use leasehold_test_servers::{Redis, RedisKind, RedisOptions, ServerError, or_skip};
use redis::aio::MultiplexedConnection;

use crate::conformance::{Bench, SetClock, TestClock};
use crate::error::StoreError;
use crate::redis::RedisStore;
use crate::redis::scripts::{ON_A_SET_CLOCK, Scripts};
use crate::store::LeaseStore;

/// How long a test waits for a state.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

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

pub(super) fn job(name: &str) -> JobKey {
    name.parse().expect("a job")
}

pub(super) fn slot(at: Millis) -> RunId {
    RunId::Slot(Slot(at))
}

/// The contract's policy, runs side by side.
pub(super) fn allowing() -> Terms {
    Policy { overlap: Overlap::Allow, ..Policy::default() }.terms()
}

/// A claim of the run by its slot, with a new token.
pub(super) fn claim(run: RunId) -> Claim {
    let mut token = [0; 16];
    getrandom::fill(&mut token).expect("random bits");
    let (token, runner, not_after) = (Token(token), "host-1".to_owned(), Millis(i64::MAX));
    Claim { run, kind: ClaimKind::Slot, token, runner, digest: None, terms: allowing(), not_after }
}

/// Claims the slot and wins it.
pub(super) async fn win(store: &dyn LeaseStore, job: &JobKey, at: Millis) -> Claim {
    let ask = claim(slot(at));
    let answer = store.claim(job, &ask).await.expect("an answer").answer;
    assert!(matches!(answer, ClaimAnswer::Won { .. }), "{answer:?}");
    ask
}

pub(super) async fn beat(store: &dyn LeaseStore, job: &JobKey, won: &Claim) -> Result<HeartbeatAnswer, StoreError> {
    let beat = Heartbeat { run: won.run.clone(), token: won.token, progress: None };
    let mut answers = store.heartbeats(&[(job.clone(), beat)]).await?;
    answers.pop().expect("an answer for each").map(|stamped| stamped.answer)
}

pub(super) async fn finish(store: &dyn LeaseStore, job: &JobKey, won: &Claim) -> Result<Accepted, StoreError> {
    let outcome = Outcome::Success { output: b"done".to_vec(), cut: false };
    let finish = Finish { run: won.run.clone(), token: won.token, outcome, usage: Usage::default() };
    store.finish(job, &finish).await.map(|stamped| stamped.answer)
}

/// Asks again and again until the answer is there, as hosts do after `NotSent` and `Unknown`.
pub(super) async fn until_answered<A, F>(ask: impl FnMut() -> F) -> A
where
    F: Future<Output = Result<A, StoreError>>,
{
    answered_after(ask).await.0
}

/// The same, and after how many errors.
pub(super) async fn answered_after<A, F>(mut ask: impl FnMut() -> F) -> (A, u64)
where
    F: Future<Output = Result<A, StoreError>>,
{
    let asking = async {
        let mut errors = 0;
        loop {
            match ask().await {
                Ok(answer) => return (answer, errors),
                Err(StoreError::NotSent { .. } | StoreError::Unknown { .. }) => {
                    errors += 1;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(error) => panic!("{}", told(&error)),
            }
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("the store comes back")
}

/// An error with its causes.
pub(super) fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
