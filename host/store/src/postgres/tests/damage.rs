//! Records that cannot be read.

use leasehold_lease::op::{Announce, Heartbeat, HeartbeatAnswer};
use sqlx::Executor;

use super::support::{Database, store};
use crate::error::StoreError;
use crate::store::LeaseStore;
use crate::test_support::{finish, job, key, slot, told, win};

/// A record that somebody has damaged is told as such, and costs the other jobs nothing (S14).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_record_is_told_and_spoils_no_other() {
    let Some(database) = Database::create().await else { return };
    let store = store(&database.url).await;
    let now = store.now().await.expect("the time");
    let (bad, good) = (job("bad"), job("good"));
    let wins = [win(&*store, &bad, now).await, win(&*store, &good, now).await];
    let mut db = database.connect().await;
    db.execute(
        "UPDATE leasehold.jobs SET hold = 'rubbish' WHERE name = 'bad'; \
         UPDATE leasehold.runs SET meta = 'rubbish' WHERE job_id = (SELECT id FROM leasehold.jobs WHERE name = 'bad')",
    )
    .await
    .expect("damage");
    let offers = [&bad, &good].map(|job| (job.clone(), Announce { fingerprint: "x".into() }));
    let told_of = store.announce(&offers).await.expect("answers");
    let error = told_of[0].as_ref().expect_err("it is damaged");
    assert!(matches!(error, StoreError::Rejected { .. }) && told(error).contains("a hold"), "{}", told(error));
    assert!(told_of[1].is_ok());
    let error = store.show(&key(&bad, &slot(now))).await.expect_err("it is damaged");
    assert!(told(&error).contains("an attempt's policy"), "{}", told(&error));
    // What no rule looks into does not stop the run itself.
    let beats = [&bad, &good]
        .into_iter()
        .zip(&wins)
        .map(|(job, won)| (job.clone(), Heartbeat { run: won.run.clone(), token: won.token, progress: None }));
    for answer in store.heartbeats(&beats.collect::<Vec<_>>()).await.expect("answers") {
        assert!(matches!(answer.expect("an answer").answer, HeartbeatAnswer::Renewed { .. }));
    }
    finish(&*store, &bad, &wins[0]).await.expect("an answer");
}
