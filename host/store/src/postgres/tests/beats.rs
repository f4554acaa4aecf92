//! Heartbeats that travel together.

use leasehold_lease::op::{Heartbeat, HeartbeatAnswer};

use super::support::{Database, beat, job, run, store, told, win};
use crate::error::StoreError;
use crate::store::LeaseStore;

/// S14: runs whose records are damaged, or whose heartbeats are cancelled, cost no other its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_that_is_refused_spoils_no_other() {
    let Some(database) = Database::create().await else { return };
    let store = store(&database.url).await;
    let now = store.now().await.expect("the time");
    let mut beats = Vec::new();
    for n in 0..40 {
        let job = job(&format!("job-{n}"));
        let won = win(&*store, &job, now).await;
        beats.push((job, Heartbeat { run: won.run, token: won.token, progress: None }));
    }
    run(
        &database.url,
        "UPDATE leasehold.runs SET lease = NULL WHERE job_id = (SELECT id FROM leasehold.jobs WHERE name = 'job-7'); \
         CREATE FUNCTION public.cancel() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE EXCEPTION 'cancelled' USING ERRCODE = '57014'; END $$; \
         CREATE TRIGGER cancel BEFORE UPDATE ON leasehold.jobs FOR EACH ROW \
         WHEN (NEW.name = 'job-31') EXECUTE FUNCTION public.cancel()",
    )
    .await;
    let answers = store.heartbeats(&beats).await.expect("answers");
    for (n, answer) in answers.into_iter().enumerate() {
        match (n, answer) {
            (7, Err(StoreError::Rejected { .. })) | (31, Err(StoreError::NotSent { .. })) => {}
            (_, Ok(answer)) => assert!(matches!(answer.answer, HeartbeatAnswer::Renewed { .. }), "{n}: {answer:?}"),
            (_, Err(error)) => panic!("{n}: {}", told(&error)),
        }
    }
}

/// H7: the runtime that opened the store stands still, and leases are renewed all the same.
#[tokio::test]
async fn heartbeats_go_on_while_the_hosts_runtime_stands_still() {
    let Some(database) = Database::create().await else { return };
    let store = store(&database.url).await;
    let now = store.now().await.expect("the time");
    let won = win(&*store, &job("a"), now).await;
    let beating = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async { beat(&*store, &job("a"), &won).await })
    });
    // This holds up the only thread of the test's runtime.
    let renewed = beating.join().expect("no panic").expect("an answer");
    assert!(matches!(renewed, HeartbeatAnswer::Renewed { .. }), "{renewed:?}");
}
