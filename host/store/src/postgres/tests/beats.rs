//! Heartbeats that travel together.

use leasehold_lease::op::{Heartbeat, HeartbeatAnswer};

use super::support::{Database, run, store};
use crate::error::StoreError;
use crate::store::LeaseStore;
use crate::test_support::{heartbeats_go_on_while_the_runtime_stands_still, job, told, win};

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

/// H7: leases are renewed on threads of the store's own.
#[tokio::test]
async fn heartbeats_go_on_while_the_hosts_runtime_stands_still() {
    let Some(database) = Database::create().await else { return };
    heartbeats_go_on_while_the_runtime_stands_still(store(&database.url).await).await;
}
