//! How fast it is, beside a yardstick on the same server. Run by hand:
//! `cargo test -p leasehold-store --all-features --lib postgres::tests::speed -- --ignored --nocapture --test-threads 1`

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use leasehold_lease::id::{JobKey, RunId, Token};
use leasehold_lease::op::{Accepted, Claim, ClaimAnswer, ClaimKind, Finish, Heartbeat, HeartbeatAnswer};
use leasehold_lease::policy::Policy;
use leasehold_lease::run::{Outcome, Usage};
use leasehold_lease::time::{Millis, Slot};
use leasehold_test_servers::{PASSWORD, Postgres, PostgresOptions, Storage, USER, or_skip};

use super::support::{beside, run, store};
use crate::postgres::PostgresStore;
use crate::postgres::link::now;
use crate::store::LeaseStore;

/// Pairs in flight.
const LANES: usize = 16;

/// What a server takes to compile its functions on each connection does not count.
const WARM_UP: Duration = Duration::from_secs(1);

/// How long each figure is measured.
const TIME: Duration = Duration::from_secs(3);

fn job(name: &str) -> JobKey {
    name.parse().expect("a name")
}

fn claim(slot: Millis, token: u128) -> Claim {
    Claim {
        run: RunId::Slot(Slot(slot)),
        kind: ClaimKind::Slot,
        token: Token(token.to_le_bytes()),
        runner: "host-1".into(),
        digest: None,
        terms: Policy::default().terms(),
        not_after: Millis(i64::MAX),
    }
}

async fn pair(store: &PostgresStore, job: &JobKey, slot: Millis, token: u128) {
    let claim = claim(slot, token);
    let won = store.claim(job, &claim).await.expect("an answer").answer;
    assert!(matches!(won, ClaimAnswer::Won { .. }), "{won:?}");
    let outcome = Outcome::Success { output: b"{}".to_vec(), cut: false };
    let finish = Finish { run: claim.run, token: claim.token, outcome, usage: Usage::default() };
    assert_eq!(store.finish(job, &finish).await.expect("an answer").answer, Accepted::Done);
}

/// Pairs a second.
async fn pairs(store: &Arc<PostgresStore>, round: u128) -> f64 {
    let start = store.now().await.expect("the time");
    let begun = now() + WARM_UP;
    let lanes: Vec<_> = (0..LANES)
        .map(|lane| {
            let store = store.clone();
            tokio::spawn(async move {
                let job = job(&format!("lane-{lane}"));
                let (mut done, mut warm) = (0_u32, 0);
                while now() < begun + TIME {
                    let token = round << 64 | (lane as u128) << 32 | u128::from(done);
                    pair(&store, &job, start + Duration::from_millis(u64::from(done)), token).await;
                    warm += u32::from(now() < begun);
                    done += 1;
                }
                done - warm
            })
        })
        .collect();
    let mut done = 0;
    for lane in lanes {
        done += lane.await.expect("a lane ends");
    }
    f64::from(done) / (now() - begun).as_secs_f64()
}

/// A server that waits for the disk.
async fn on_disk() -> Option<Postgres> {
    or_skip(Postgres::start_with(PostgresOptions { storage: Storage::Disk, settings: Vec::new() }).await)
}

/// Scripts a second of `pgbench`.
fn yardstick(server: &Postgres) -> f64 {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/postgres/tests/yardstick.sql");
    let output = Command::new("/usr/lib/postgresql/15/bin/pgbench")
        .env("PGPASSWORD", PASSWORD)
        .args(["-n", "-c", "16", "-j", "2", "-T", "3", "-h", "127.0.0.1", "-U", USER, "-p"])
        .arg(server.port().to_string())
        .args(["-f", script, "speed"])
        .output()
        .expect("pgbench runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let tps = text.lines().find_map(|line| line.strip_prefix("tps = "));
    let tps = tps.and_then(|rest| rest.split(' ').next()).and_then(|number| number.parse().ok());
    tps.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures for a minute; run it by hand"]
async fn claims_and_finishes_beside_pgbench() {
    let Some(server) = on_disk().await else { return };
    run(&server.url(), "CREATE DATABASE speed").await;
    let url = beside(&server.url(), "speed");
    run(&url, "CREATE TABLE yardstick (k bigint PRIMARY KEY, v text)").await;
    let store = store(&url).await;
    for round in 1..=2 {
        let yard = if std::env::var("TUNE_NOYARD").is_ok() { 1.0 } else { yardstick(&server) };
        let ours = pairs(&store, round).await;
        println!("pgbench {yard:.0} scripts/s, claim + finish {ours:.0} pairs/s: {:.0} %", 100.0 * ours / yard);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures for a minute; run it by hand"]
async fn ten_thousand_heartbeats() {
    let Some(server) = on_disk().await else { return };
    let store = store(&server.url()).await;
    let start = store.now().await.expect("the time");
    let mut beats = Vec::new();
    let mut claims = tokio::task::JoinSet::new();
    for nth in 0..10_000_u128 {
        let job = job(&format!("job-{nth}"));
        let claim = claim(start, nth);
        beats.push((job.clone(), Heartbeat { run: claim.run.clone(), token: claim.token, progress: None }));
        let store = store.clone();
        claims.spawn(async move { store.claim(&job, &claim).await.expect("an answer") });
        if claims.len() == 64 {
            claims.join_next().await;
        }
    }
    claims.join_all().await;
    for count in [100, 1_000, 10_000, 10_000, 10_000, 10_000, 10_000] {
        let begun = now();
        let answers = store.heartbeats(&beats[..count]).await.expect("an answer");
        let took = now() - begun;
        for answer in answers {
            let answer = answer.expect("each is answered").answer;
            assert!(matches!(answer, HeartbeatAnswer::Renewed { .. }), "{answer:?}");
        }
        println!("{count} heartbeats in {} ms", took.as_millis());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "fills a million rows; run it by hand"]
async fn a_claim_beside_a_long_history() {
    let Some(server) = on_disk().await else { return };
    let store = store(&server.url()).await;
    let empty = pairs(&store, 1).await;
    run(&server.url(), include_str!("history.sql")).await;
    let full = pairs(&store, 2).await;
    println!(
        "empty {empty:.0} pairs/s, with 10 000 jobs of 100 finished runs {full:.0} pairs/s: {:.2} x",
        empty / full
    );
}
