//! Two systems in one database.

use std::time::Duration;

use leasehold_lease::op::Trigger;
use leasehold_lease::op::{ClaimAnswer, TriggerAnswer};
use leasehold_lease::write::{Change, Quota, Write, Written};
use tokio::time::timeout;

use super::support::Database;
use crate::postgres::PostgresStore;
use crate::store::LeaseStore;
use crate::test_support::{PATIENCE, claim, job, key, slot};

/// Staging and production with the same jobs in one database never meet: not in runs, values, hosts, wake-ups or
/// identity.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_namespaces_of_one_database_never_meet() {
    let Some(database) = Database::create().await else { return };
    let open = async |namespace| PostgresStore::connect(&database.url, namespace).await.expect("the store opens");
    let (staging, production) = (open("staging").await, open("production").await);
    let job = job("acme/nightly");
    let now = staging.now().await.expect("the time");
    let mut elsewhere = production.wakeups().expect("it can wake");
    for store in [&staging, &production] {
        let ask = claim(slot(now));
        let won = store.claim(&job, &ask).await.expect("an answer");
        assert!(matches!(won.answer, ClaimAnswer::Won { .. }) && won.revision == 1, "{won:?}");
        let change = Change::KvSet { key: "k".into(), value: vec![1] };
        let write = Write { run: ask.run, token: ask.token, number: 1, quota: Quota::default(), change };
        if std::ptr::eq(store, &staging) {
            assert_eq!(store.write(&job, &write).await.expect("an answer").answer, Written::Done);
        }
    }
    assert_eq!(production.kv_get(&job.tenant, "k").await.expect("an answer"), None);
    let trigger = Trigger { id: "r".parse().expect("an id"), payload: None, pending_max: 1 };
    assert_eq!(staging.trigger(&job, &trigger).await.expect("an answer").answer, TriggerAnswer::Stored);
    let run = key(&job, &leasehold_lease::id::RunId::OnDemand(trigger.id.clone()));
    assert_eq!(production.show(&run).await.expect("an answer").answer, None);
    assert_ne!(staging.identity().await.expect("an identity"), production.identity().await.expect("an identity"));
    // A hint of one's own is heard, so the other's would have been heard before it.
    assert_eq!(production.trigger(&job, &trigger).await.expect("an answer").answer, TriggerAnswer::Stored);
    let heard = timeout(PATIENCE, elsewhere.recv()).await.expect("its own is heard").expect("it is a hint");
    assert_eq!(heard, job);
    let twice = timeout(Duration::from_millis(300), async {
        loop {
            // Its own hint comes back from the server once more.
            elsewhere.recv().await.expect("it is a hint");
        }
    });
    assert!(twice.await.is_err());
    let jobs = production.jobs(None, 100).await.expect("jobs").answer;
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].revision, 2, "a claim and a trigger of its own");
}
