//! A short storm on each store: about twenty faults each, drawn from a seed that is printed. `LEASEHOLD_FAULTS_SEED` asks for
//! another one.
//!
//! The hosts run the guest `pulse`, which acts on a witness outside.

use std::time::Duration;

use leasehold_faults::parts::{Order, Storm};
use leasehold_faults::{Binary, Kind};
use tokio::sync::Mutex;

/// A storm takes the whole machine.
static ALONE: Mutex<()> = Mutex::const_new(());

const FAULTS: usize = 20;

async fn storm(kind: Kind, hosts: usize, forgets: bool) {
    let _alone = ALONE.lock().await;
    let binary = Binary::beside().unwrap_or_else(|what| panic!("{what}"));
    let asked = std::env::var("LEASEHOLD_FAULTS_SEED").ok();
    let seed = asked.map_or(5, |seed| seed.parse().expect("LEASEHOLD_FAULTS_SEED is a number"));
    eprintln!("{kind}, seed {seed}: LEASEHOLD_FAULTS_SEED={seed} cargo test -p leasehold-faults --test seeded");
    let faults = if forgets { FAULTS / 2 } else { FAULTS };
    let order = Order { kind, binary, seed, time: Duration::ZERO };
    let storm = Storm { forgets, ..Storm::short(order, hosts, 8, faults) };
    // Without its server there is nothing to prove, which has been said.
    let Some(came) = storm.run().await else { return };
    eprintln!("done: {:?}\nthere were: {:?}; stall {:?}", came.done, came.verdict.counts, came.stall);
    assert!(came.verdict.wrong.is_empty(), "{:?}\n{}", came.kept, came.verdict.wrong.join("\n"));
    // It has seen what it is about, or it proves nothing.
    let counts = &came.verdict.counts;
    for what in ["slots that ran", "successes"].into_iter().chain((!forgets).then_some("takeovers")) {
        assert!(counts.get(what).is_some_and(|n| *n > 0), "no {what}: {counts:?}");
    }
    assert_eq!(came.done.contains_key("data forgotten"), forgets, "{:?}", came.done);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite_faults_break_no_promise() {
    storm(Kind::Sqlite, 3, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgresql_faults_break_no_promise() {
    storm(Kind::Postgres, 4, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis_faults_break_no_promise() {
    storm(Kind::Redis, 5, false).await;
}

/// What the store forgot is not promised any more; all that comes later is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis_that_forgets_its_data_faults_break_no_later_promise() {
    storm(Kind::Redis, 3, true).await;
}
