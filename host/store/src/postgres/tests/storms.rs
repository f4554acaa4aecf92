//! Many hosts and many jobs on the same second.

use std::sync::Arc;
use std::time::Duration;

use leasehold_lease::id::{DemandId, RunId};
use leasehold_lease::op::{
    Accepted, Announce, Cancel, Claim, ClaimAnswer, ClaimKind, Heartbeat, HeartbeatAnswer, Release, Trigger,
};
use leasehold_lease::run::{Status, Usage};
use leasehold_lease::time::Millis;
use leasehold_lease::write::{Change, Quota, Write, Written};
use tokio::task::JoinSet;

use super::support::{Database, run, store};
use crate::postgres::PostgresStore;
use crate::store::LeaseStore;
use crate::test_support::{PATIENCE, answered_after, claim, finish, job, key, slot, status};
use crate::view::HostAnswer;

const HOSTS: usize = 4;
const JOBS: usize = 40;
const ROUNDS: u64 = 6;

/// One host: claims all jobs in an order of its own, beats all it has won in one call, writes, finishes them and prunes,
/// all at the same time as the others. Answers the runs that it finished.
async fn host(store: Arc<PostgresStore>, host: usize, start: Millis) -> Vec<(usize, u64)> {
    let mut finished = Vec::new();
    for round in 0..ROUNDS {
        let run = slot(start + Duration::from_millis(round));
        let aside = tokio::spawn(aside(store.clone(), host, round, start));
        let mut claims = JoinSet::new();
        for n in 0..JOBS {
            let n = if host.is_multiple_of(2) { n } else { JOBS - 1 - n };
            let (store, ask) = (store.clone(), claim(run.clone()));
            claims.spawn(async move {
                let job = job(&format!("job-{n}"));
                let (answer, _) = answered_after(|| store.claim(&job, &ask)).await;
                (n, job, ask, matches!(answer.answer, ClaimAnswer::Won { .. }))
            });
        }
        let won: Vec<_> = claims.join_all().await.into_iter().filter(|(.., won)| *won).collect();
        let beats: Vec<_> = won
            .iter()
            .map(|(_, job, ask, _)| (job.clone(), Heartbeat { run: ask.run.clone(), token: ask.token, progress: None }))
            .collect();
        let mut ends = JoinSet::new();
        for (n, job, ask, _) in won {
            let store = store.clone();
            ends.spawn(async move {
                let write = set(&ask, n);
                let written = answered_after(|| store.write(&job, &write)).await.0.answer;
                assert_eq!(written, Written::Done, "{job} {}", ask.run);
                let (accepted, _) = answered_after(|| finish(&*store, &job, &ask)).await;
                assert_eq!(accepted, Accepted::Done, "{job} {}", ask.run);
                answered_after(|| store.prune(&job, 1_000)).await;
                (n, round)
            });
        }
        // Some were finished before: those are refused, and none fails.
        for answer in store.heartbeats(&beats).await.expect("answers") {
            let answer = answer.expect("an answer for each").answer;
            assert!(matches!(answer, HeartbeatAnswer::Renewed { .. } | HeartbeatAnswer::Refused));
        }
        finished.extend(ends.join_all().await);
        aside.await.expect("no panic");
    }
    finished
}

/// A value of the tenant that all jobs share, under one of few keys.
fn set(won: &Claim, n: usize) -> Write {
    let change = Change::KvSet { key: format!("key-{}", n % 3), value: vec![b'v'; n] };
    Write { run: won.run.clone(), token: won.token, number: 1, quota: Quota::default(), change }
}

/// What a host does meanwhile: it offers all jobs, keeps what it was told, asks for a run of one of them, hands that
/// over, and has it cancelled.
async fn aside(store: Arc<PostgresStore>, host: usize, round: u64, start: Millis) {
    let mut offers: Vec<_> =
        (0..JOBS).map(|n| (job(&format!("job-{n}")), Announce { fingerprint: "x".into() })).collect();
    if host.is_multiple_of(2) {
        offers.reverse();
    }
    answered_after(async || store.announce(&offers).await?.into_iter().collect::<Result<Vec<_>, _>>()).await;
    let (id, pending_max) = (format!("r-{host}-{round}").parse::<DemandId>().expect("an id"), 100);
    let (name, run) = (job(&format!("job-{round}")), RunId::OnDemand(id.clone()));
    let (asked, answer, detail) = ("on-demand".into(), "won".into(), String::new());
    let told = HostAnswer { run: key(&name, &run), host: format!("host-{host}"), at: start, asked, answer, detail };
    answered_after(|| store.keep_answers(std::slice::from_ref(&told))).await;
    let trigger = Trigger { id, payload: None, pending_max };
    answered_after(|| store.trigger(&name, &trigger)).await;
    let ask = Claim { kind: ClaimKind::OnDemand, ..claim(run.clone()) };
    let answer = answered_after(|| store.claim(&name, &ask)).await.0.answer;
    assert!(matches!(answer, ClaimAnswer::Won { .. }), "{answer:?}");
    let release = Release { run: run.clone(), token: ask.token, usage: Usage::default() };
    assert_eq!(answered_after(|| store.release(&name, &release)).await.0.answer, Accepted::Done);
    let cancel = Cancel { run: run.clone(), reason: "the storm is over".into() };
    answered_after(|| store.cancel(&name, &cancel)).await;
    assert_eq!(status(&*store, &name, &run).await, Some(Status::Interrupted), "{name} {run}");
}

/// Claims, heartbeats, writes, ends and prunes of several hosts meet on the same rows in all orders: nobody is left with an error,
/// each run has one winner, and every end is recorded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_that_meet_on_the_same_rows_record_every_end() {
    if let Some(database) = Database::create().await {
        storm(&database.url).await;
    }
}

/// The functions lock a job and then read what is newest: what an administrator has set for the database is not for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_whose_default_is_a_stricter_isolation_is_served_as_well() {
    for isolation in ["serializable", "repeatable read"] {
        for transport in ["", "?pooler=transaction"] {
            let Some(database) = Database::create().await else { return };
            let (_, name) = database.url.rsplit_once('/').expect("the URL names a database");
            let set = format!("ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'");
            run(&database.url, &set).await;
            storm(&format!("{}{transport}", database.url)).await;
        }
    }
}

async fn storm(url: &str) {
    let mut hosts = JoinSet::new();
    let first = store(url).await;
    let start = first.now().await.expect("the time");
    for n in 0..HOSTS {
        let store = if n == 0 { first.clone() } else { store(url).await };
        hosts.spawn(host(store, n, start));
    }
    let all = tokio::time::timeout(PATIENCE, hosts.join_all()).await.expect("the storm ends");
    let mut finished: Vec<_> = all.into_iter().flatten().collect();
    finished.sort_unstable();
    let expected: Vec<_> = (0..JOBS).flat_map(|n| (0..ROUNDS).map(move |round| (n, round))).collect();
    assert_eq!(finished, expected, "each run was won and finished once");
    for (n, round) in finished {
        let run = key(&job(&format!("job-{n}")), &slot(start + Duration::from_millis(round)));
        let view = first.show(&run).await.expect("an answer").answer.expect("it is kept");
        assert_eq!((view.run.status, view.run.starts), (Status::Success, 1), "{run}");
    }
}

/// Hosts, jobs and runs that are under way when everybody chose midnight.
const MIDNIGHT: (usize, usize, usize) = (5, 500, 100);

/// All hosts claim all jobs on the same second, while runs are under way: each job is won once, and no lease is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_chose_midnight_and_running_runs_keep_their_leases() {
    let Some(database) = Database::create().await else { return };
    let (hosts, jobs, running) = MIDNIGHT;
    let mut stores = Vec::new();
    for _ in 0..hosts {
        stores.push(store(&database.url).await);
    }
    let midnight = stores[0].now().await.expect("the time");
    let mut beats = Vec::new();
    for n in 0..running {
        let name = job(&format!("running-{n}"));
        let ask = claim(slot(midnight));
        answered_after(|| stores[0].claim(&name, &ask)).await;
        beats.push((name, Heartbeat { run: ask.run, token: ask.token, progress: None }));
    }
    let mut claims = JoinSet::new();
    for store in &stores {
        for n in 0..jobs {
            let (store, name, ask) = (store.clone(), job(&format!("job-{n}")), claim(slot(midnight)));
            claims.spawn(async move {
                let answer = answered_after(|| store.claim(&name, &ask)).await.0.answer;
                (n, matches!(answer, ClaimAnswer::Won { .. }))
            });
        }
    }
    let mut won = vec![0; jobs];
    let storm = async {
        while let Some(claimed) = claims.join_next().await {
            let (n, has_won) = claimed.expect("no panic");
            won[n] += u32::from(has_won);
        }
    };
    let renewing = async {
        loop {
            for answer in stores[0].heartbeats(&beats).await.expect("answers") {
                let answer = answer.expect("its job is in nobody's way").answer;
                assert!(matches!(answer, HeartbeatAnswer::Renewed { .. }), "{answer:?}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        () = storm => {}
        never = renewing => never,
    }
    assert_eq!(won, vec![1; jobs], "each job is won once");
}
