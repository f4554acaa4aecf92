//! Many hosts and many jobs on the same second.

use std::sync::Arc;
use std::time::Duration;

use leasehold_lease::op::{Accepted, ClaimAnswer, Heartbeat, HeartbeatAnswer};
use leasehold_lease::run::Status;
use tokio::task::JoinSet;

use super::support::{Database, PATIENCE, answered_after, claim, finish, job, key, slot, store};
use crate::postgres::PostgresStore;
use crate::store::LeaseStore;

const HOSTS: usize = 4;
const JOBS: usize = 40;
const ROUNDS: u64 = 6;

/// One host: claims all jobs in an order of its own, beats all it has won in one call, finishes them and prunes, all at
/// the same time as the others. Answers the runs that it finished.
async fn host(store: Arc<PostgresStore>, host: usize, start: leasehold_lease::time::Millis) -> Vec<(usize, u64)> {
    let mut finished = Vec::new();
    for round in 0..ROUNDS {
        let run = slot(start + Duration::from_millis(round));
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
    }
    finished
}

/// Claims, heartbeats, ends and prunes of several hosts meet on the same rows in all orders: nobody is left with an error,
/// each run has one winner, and every end is recorded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_that_meet_on_the_same_rows_record_every_end() {
    let Some(database) = Database::create().await else { return };
    let mut hosts = JoinSet::new();
    let first = store(&database.url).await;
    let start = first.now().await.expect("the time");
    for n in 0..HOSTS {
        let store = if n == 0 { first.clone() } else { store(&database.url).await };
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
