//! Rows that other sessions hold.

use std::time::Duration;

use leasehold_lease::op::{ClaimAnswer, Heartbeat, HeartbeatAnswer};
use sqlx::{Connection, Executor};
use tokio::time::timeout;

use super::support::{
    Database, ENDS, allowing, beat, claim, finish, job, slot, store, told, until, until_answered, win,
};
use crate::error::StoreError;
use crate::store::LeaseStore;

/// Somebody waits for a row.
const ONE_WAITS: &str = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock')";

const HOLD: &str = "SELECT FROM leasehold.jobs WHERE name = 'held' FOR UPDATE";

/// The clock is read when the job is free, not when the statement began, in whatever time zone the server lives: a lease
/// is as long as it should be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_counts_from_when_the_job_was_free() {
    let Some(database) = Database::create().await else { return };
    let mut db = database.connect().await;
    db.execute(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone = ''Asia/Tokyo''', current_database()); END $$",
    )
    .await
    .expect("a time zone");
    let store = store(&database.url).await;
    let job = job("held");
    let now = store.now().await.expect("the time");
    let first = win(&*store, &job, now).await;
    finish(&*store, &job, &first).await.expect("an answer");
    for ask in [claim(slot(now + Duration::from_millis(1))), claim(slot(now))] {
        let mut holder = database.connect().await;
        let mut held = holder.begin().await.expect("a transaction");
        held.execute(HOLD).await.expect("the row is held");
        let claiming = tokio::spawn({
            let (store, job, ask) = (store.clone(), job.clone(), ask.clone());
            async move { store.claim(&job, &ask).await }
        });
        until(&mut db, ONE_WAITS).await;
        let query = sqlx::query_scalar::<_, i64>("SELECT leasehold.clock() FROM pg_sleep(0.4)");
        let freed: i64 = query.fetch_one(&mut *held).await.expect("the time");
        held.rollback().await.expect("the row is free");
        let answer = claiming.await.expect("it ends").expect("an answer");
        assert!(answer.now.0 >= freed, "{} is before {freed}", answer.now.0);
        if let ClaimAnswer::Won { .. } = answer.answer {
            let standing = store.check(&[super::support::key(&job, &ask.run)]).await.expect("an answer");
            let lease_end = standing.answer[0].standing.as_ref().expect("it is known").lease_end;
            assert_eq!(lease_end, answer.now + allowing().lease);
        } else {
            assert!(matches!(answer.answer, ClaimAnswer::Ended(_)), "{answer:?}");
        }
    }
}

/// S14: a job whose row somebody holds costs nobody else a lease, and its own calls end and say that nothing was done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_held_stands_in_nobody_elses_way() {
    let Some(database) = Database::create().await else { return };
    let store = store(&database.url).await;
    let now = store.now().await.expect("the time");
    let (stuck, free) = (job("held"), job("free"));
    let wins = [win(&*store, &stuck, now).await, win(&*store, &free, now).await];
    let mut holder = database.connect().await;
    let mut held = holder.begin().await.expect("a transaction");
    held.execute(HOLD).await.expect("the row is held");

    let beats = [&stuck, &free]
        .into_iter()
        .zip(&wins)
        .map(|(job, won)| (job.clone(), Heartbeat { run: won.run.clone(), token: won.token, progress: None }));
    let beats: Vec<_> = beats.collect();
    let answers = timeout(ENDS, store.heartbeats(&beats)).await.expect("it ends by itself").expect("answers");
    let error = answers[0].as_ref().expect_err("its row is held");
    assert!(matches!(error, StoreError::NotSent { .. }) && told(error).contains("55P03"), "{}", told(error));
    let renewed = answers[1].as_ref().expect("nobody holds it").answer;
    assert!(matches!(renewed, HeartbeatAnswer::Renewed { .. }), "{renewed:?}");

    // Together they travel in one call or in several: none waits for the one that is stuck.
    let mut claims = Vec::new();
    for (n, job) in [&stuck, &free, &stuck, &free, &free].into_iter().enumerate() {
        let (store, job) = (store.clone(), job.clone());
        let ask = claim(slot(now + Duration::from_millis(1 + n as u64)));
        claims.push((job.clone(), tokio::spawn(async move { timeout(ENDS, store.claim(&job, &ask)).await })));
    }
    for (job, claim) in claims {
        let answer = claim.await.expect("no panic").expect("it ends by itself");
        match answer {
            // Which of the free job's slots comes first is not said; an older one is superseded then.
            Ok(answer) => {
                let decided = matches!(answer.answer, ClaimAnswer::Won { .. } | ClaimAnswer::Superseded { .. });
                assert!(job == free && decided, "{answer:?}");
            }
            Err(error) => assert!(job == stuck && matches!(error, StoreError::NotSent { .. }), "{}", told(&error)),
        }
    }
    held.rollback().await.expect("the row is free");
    let renewed = until_answered(async || beat(&*store, &stuck, &wins[0]).await).await;
    assert!(matches!(renewed, HeartbeatAnswer::Renewed { .. }));
}

/// A caller that gives up does not cut the call: it is carried out, and a repetition is answered as the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_gives_up_cuts_no_call() {
    let Some(database) = Database::create().await else { return };
    let store = store(&database.url).await;
    let now = store.now().await.expect("the time");
    let job = job("held");
    win(&*store, &job, now).await;
    let mut db = database.connect().await;
    for n in 1..20 {
        let ask = claim(slot(now + Duration::from_millis(n)));
        let mut holder = database.connect().await;
        let mut held = holder.begin().await.expect("a transaction");
        held.execute(HOLD).await.expect("the row is held");
        {
            let claiming = store.claim(&job, &ask);
            tokio::pin!(claiming);
            tokio::select! {
                biased;
                answer = &mut claiming => panic!("the row is held: {answer:?}"),
                () = until(&mut db, ONE_WAITS) => {}
            }
        }
        held.rollback().await.expect("the row is free");
        let again = until_answered(|| store.claim(&job, &ask)).await;
        assert!(matches!(again.answer, ClaimAnswer::Won { .. }), "{again:?}");
        assert_eq!(again.revision, n + 1, "won once");
    }
}
