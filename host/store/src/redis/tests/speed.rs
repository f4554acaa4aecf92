//! Figures, beside the yardstick of the same server in the same run. They are printed and not judged: run them alone,
//! with `cargo test --release -p leasehold-store --lib redis::tests::speed -- --ignored --nocapture`.
#![allow(clippy::disallowed_methods, reason = "figures are measured by the machine's clock")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold_lease::id::{JobKey, RunId, Token};
use leasehold_lease::op::{Claim, ClaimAnswer, ClaimKind, Finish, Heartbeat, HeartbeatAnswer};
use leasehold_lease::policy::{Overlap, Policy};
use leasehold_lease::run::{Outcome, Usage};
use leasehold_lease::time::{Millis, Slot};
use leasehold_test_servers::{Redis, RedisKind, or_skip};

use super::support::{namespace, operator};
use crate::redis::RedisStore;
use crate::store::LeaseStore;

const IN_FLIGHT: u64 = 50;
const ROUNDS: usize = 5;
const YARDSTICK: &str =
    "redis.call('TIME'); redis.call('HSET', KEYS[1], 'a', ARGV[1]); return redis.call('HGET', KEYS[1], 'a')";

fn job(name: u64) -> JobKey {
    format!("acme/job-{name}").parse().expect("a job")
}

fn claim(run: RunId) -> Claim {
    let mut token = [0; 16];
    getrandom::fill(&mut token).expect("random bits");
    let terms = Policy { overlap: Overlap::Skip, ..Policy::default() }.terms();
    let runner = "host-1.example.org".to_owned();
    let digest = Some(leasehold_lease::id::Digest([7; 32]));
    Claim { run, kind: ClaimKind::Slot, token: Token(token), runner, digest, terms, not_after: Millis(i64::MAX) }
}

async fn pair(store: &dyn LeaseStore, job: &JobKey, slot: Millis) {
    let ask = claim(RunId::Slot(Slot(slot)));
    let won = store.claim(job, &ask).await.expect("an answer").answer;
    assert!(matches!(won, ClaimAnswer::Won { .. }), "{won:?}");
    let outcome = Outcome::Success { output: Vec::new(), cut: false };
    let finish = Finish { run: ask.run, token: ask.token, outcome, usage: Usage::default() };
    store.finish(job, &finish).await.expect("an answer");
}

/// Pairs a second, with a job for each that is in flight.
async fn pairs(store: &Arc<RedisStore>, each: u64) -> f64 {
    let start = store.now().await.expect("the time");
    let begun = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..IN_FLIGHT {
        let store = store.clone();
        tasks.spawn(async move {
            for i in 0..each {
                pair(&*store, &job(n), Millis(start.0 - 1_000 + i.cast_signed())).await;
            }
        });
    }
    tasks.join_all().await;
    (IN_FLIGHT * each) as f64 / begun.elapsed().as_secs_f64()
}

/// Requests a second of the yardstick.
async fn yardstick(port: u16, hash: &str) -> f64 {
    let port = port.to_string();
    let arguments = ["-p", &port, "-c", "50", "-n", "100000", "-q", "EVALSHA", hash, "1", "k", "v"];
    let output = tokio::task::spawn_blocking({
        let arguments = arguments.map(ToOwned::to_owned);
        move || std::process::Command::new("redis-benchmark").args(arguments).output()
    });
    let output = output.await.expect("it ends").expect("redis-benchmark is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = text.split('\r').rfind(|line| line.contains("requests per second")).expect("a figure");
    let figure = last.split("requests per second").next().and_then(|line| line.split_whitespace().last());
    figure.and_then(|figure| figure.parse().ok()).expect("a number")
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

async fn info<A: redis::FromRedisValue>(url: &str, key: &str) -> A {
    let info: redis::InfoDict = redis::cmd("INFO").query_async(&mut operator(url).await).await.expect("info");
    info.get(key).expect("the server says it")
}

async fn memory(url: &str) -> u64 {
    info(url, "used_memory").await
}

/// Seconds that the server's main thread has worked: what it can do at most, whoever else is busy.
async fn worked(url: &str) -> f64 {
    info::<f64>(url, "used_cpu_user_main_thread").await + info::<f64>(url, "used_cpu_sys_main_thread").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures"]
async fn pairs_beside_the_yardstick() {
    for kind in [RedisKind::Redis, RedisKind::Valkey] {
        let Some(server) = or_skip(Redis::start(kind).await) else { continue };
        let url = server.url();
        let store = Arc::new(RedisStore::connect(&url, &namespace()).await.expect("a store"));
        let load = redis::cmd("SCRIPT").arg("LOAD").arg(YARDSTICK).to_owned();
        let hash: String = load.query_async(&mut operator(&url).await).await.expect("loaded");
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let (mut our_work, mut their_work) = (Vec::new(), Vec::new());
        let before = memory(&url).await;
        for _ in 0..ROUNDS {
            let begin = worked(&url).await;
            theirs.push(yardstick(server.port(), &hash).await);
            let middle = worked(&url).await;
            ours.push(pairs(&store, 400).await);
            their_work.push((middle - begin) * 1e6 / 100_000.0);
            our_work.push((worked(&url).await - middle) * 1e6 / (IN_FLIGHT * 400) as f64);
        }
        let runs = ROUNDS as u64 * IN_FLIGHT * 400;
        let bytes = (memory(&url).await - before) / runs;
        let (ours, theirs) = (median(ours), median(theirs));
        eprintln!(
            "{kind:?}: {ours:.0} pairs/s, yardstick {theirs:.0}/s: {:.1} %; {bytes} bytes a run; the server works \
             {:.1} us a pair, {:.1} us a request of the yardstick",
            100.0 * ours / theirs,
            median(our_work),
            median(their_work)
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures"]
async fn heartbeats_of_one_host() {
    let Some(server) = or_skip(Redis::start(RedisKind::Redis).await) else { return };
    let store = Arc::new(RedisStore::connect(&server.url(), &namespace()).await.expect("a store"));
    let now = store.now().await.expect("the time");
    let mut beats = Vec::new();
    for n in 0..10_000 {
        let ask = claim(RunId::Slot(Slot(now)));
        store.claim(&job(n), &ask).await.expect("an answer");
        beats.push((job(n), Heartbeat { run: ask.run, token: ask.token, progress: None }));
    }
    for many in [1, 100, 1_000, 10_000] {
        let mut took = Vec::new();
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            let answers = store.heartbeats(&beats[..many]).await.expect("answers");
            took.push(begun.elapsed().as_secs_f64() * 1_000.0);
            let renewed = |each: &crate::view::Each<HeartbeatAnswer>| {
                matches!(each.as_ref().expect("an answer").answer, HeartbeatAnswer::Renewed { .. })
            };
            assert!(answers.iter().all(renewed));
        }
        eprintln!("{many} heartbeats: {:.1} ms", median(took));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures"]
async fn a_claim_in_a_full_store_beside_an_empty_one() {
    let Some(server) = or_skip(Redis::start(RedisKind::Redis).await) else { return };
    let store = Arc::new(RedisStore::connect(&server.url(), &namespace()).await.expect("a store"));
    let one_by_one = async |first: u64| {
        let now = store.now().await.expect("the time");
        let begun = Instant::now();
        for n in 0..2_000 {
            pair(&*store, &job(first + n % 10), Millis(now.0 + n.cast_signed())).await;
        }
        begun.elapsed() / 2_000
    };
    one_by_one(30_000).await;
    let empty: Vec<Duration> = [one_by_one(20_000).await, one_by_one(20_010).await, one_by_one(20_020).await].into();
    let before = memory(&server.url()).await;
    let mut tasks = tokio::task::JoinSet::new();
    for part in 0..IN_FLIGHT {
        let store = store.clone();
        tasks.spawn(async move {
            for n in (0..10_000).filter(|n| n % IN_FLIGHT == part) {
                let now = store.now().await.expect("the time");
                for i in 0..100 {
                    pair(&*store, &job(n), Millis(now.0 - 60_000 + i)).await;
                }
            }
        });
    }
    tasks.join_all().await;
    let bytes = (memory(&server.url()).await - before) / 1_000_000;
    let full: Vec<Duration> = [one_by_one(0).await, one_by_one(500).await, one_by_one(5_000).await].into();
    eprintln!("a pair, one after the other: {empty:?} empty, {full:?} full; {bytes} bytes a run");
}
