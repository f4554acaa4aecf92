//! Replicas: demotion, promotion, failover, and waiting for them.

use leasehold_lease::op::{Accepted, Claim, ClaimAnswer, HeartbeatAnswer};
use leasehold_lease::time::Millis;
use leasehold_test_servers::{Redis, RedisKind};

use super::support::{namespace, on_redis_and_valkey, run, server_of, store};
use crate::error::StoreError;
use crate::redis::{ConnectError, RedisStore, Warning};
use crate::store::LeaseStore;
use crate::test_support::{beat, claim, finish, job, slot, told, until_answered, win};

on_redis_and_valkey! {
    a_demoted_server_answers_nothing_until_it_is_promoted
    a_replica_is_refused_at_start_and_named_at_run_time
    after_a_failover_the_old_runner_is_refused
    a_change_waits_for_a_replica_where_the_url_says_so
    changes_that_wait_together_hold_up_neither_each_other_nor_reads
}

/// Makes one server follow the other, and waits until it does.
async fn follow(replica: &Redis, primary: &Redis) {
    let _: () = run(&replica.url(), &["REPLICAOF", "127.0.0.1", &primary.port().to_string()]).await;
    linked(replica, primary).await;
}

async fn linked(replica: &Redis, primary: &Redis) {
    loop {
        let info: redis::InfoDict = run(&replica.url(), &["INFO", "replication"]).await;
        let port = info.get::<String>("master_port");
        if info.get::<String>("master_link_status").as_deref() == Some("up") && port == Some(primary.port().to_string())
        {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// Wins a run of job `a` where changes wait. A replica that has just begun to follow says what it knows a moment later.
async fn win_with_a_replica(store: &RedisStore, at: Millis) -> Claim {
    let ask = claim(slot(at));
    let answer = until_answered(async || store.claim(&job("a"), &ask).await).await.answer;
    assert!(matches!(answer, ClaimAnswer::Won { .. }), "{answer:?}");
    ask
}

async fn promote(replica: &Redis) {
    let _: () = run(&replica.url(), &["REPLICAOF", "NO", "ONE"]).await;
}

/// A server that follows another one now answers nothing any more, refusals included: what it knows may be old. When it
/// leads again it is used again, without a restart.
async fn a_demoted_server_answers_nothing_until_it_is_promoted(kind: RedisKind) {
    let (Some(server), Some(other)) = (server_of(kind).await, server_of(kind).await) else { return };
    let store = store(&server.url()).await;
    let now = store.now().await.expect("the time");
    let won = win(&*store, &job("a"), now).await;
    let stranger = claim(slot(now));
    follow(&server, &other).await;
    // A wrong token, which is a refusal where the server leads; and the run's own, which the other one never knew.
    for ask in [&stranger, &won] {
        let error = beat(&*store, &job("a"), ask).await.expect_err("no answer");
        assert!(matches!(error, StoreError::NotSent { .. }), "{}", told(&error));
        let error = finish(&*store, &job("a"), ask).await.expect_err("no answer");
        assert!(matches!(error, StoreError::NotSent { .. }), "{}", told(&error));
        let error = store.claim(&job("a"), ask).await.expect_err("no answer");
        assert!(matches!(error, StoreError::NotSent { .. }), "{}", told(&error));
    }
    promote(&server).await;
    let refused = until_answered(async || beat(&*store, &job("a"), &won).await).await;
    assert_eq!(refused, HeartbeatAnswer::Refused, "it has what the other one had: nothing");
    win(&*store, &job("a"), now).await;
}

/// Connections are made anew after a demotion: the message says what is wrong and what to do.
async fn a_replica_is_refused_at_start_and_named_at_run_time(kind: RedisKind) {
    let (Some(server), Some(other)) = (server_of(kind).await, server_of(kind).await) else { return };
    let store = store(&server.url()).await;
    follow(&server, &other).await;
    let error = RedisStore::connect(&server.url(), &namespace()).await.err().expect("a replica is no store");
    assert!(matches!(&error, ConnectError::Replica { primary: Some(_), .. }), "{error}");
    let told = loop {
        let error =
            store.claim(&job("a"), &claim(slot(leasehold_lease::time::Millis(0)))).await.expect_err("no answer");
        let told = told(&error);
        if told.contains("there is no connection") {
            break told;
        }
    };
    assert!(told.contains("is a replica and takes no writes; name the primary in the URL"), "{told}");
}

/// A failover may lose an acknowledged claim. Then the slot may run again elsewhere; the old runner is refused, and
/// nothing that it sends brings its run back.
async fn after_a_failover_the_old_runner_is_refused(kind: RedisKind) {
    let (Some(old), Some(new)) = (server_of(kind).await, server_of(kind).await) else { return };
    let namespace = namespace();
    let at_old = RedisStore::connect(&old.url(), &namespace).await.expect("a store");
    let now = at_old.now().await.expect("the time");
    follow(&new, &old).await;
    // The network between them is cut: the replica is promoted, and the old primary does not know.
    promote(&new).await;
    let won = win(&at_old, &job("a"), now).await;
    let at_new = RedisStore::connect(&new.url(), &namespace).await.expect("a store");
    assert_eq!(at_new.identity().await.expect("it"), at_old.identity().await.expect("it"), "it was replicated");
    assert_eq!(beat(&at_new, &job("a"), &won).await.expect("an answer"), HeartbeatAnswer::Refused);
    assert_eq!(finish(&at_new, &job("a"), &won).await.expect("an answer"), Accepted::Refused);
    assert_eq!(at_new.jobs(None, 100).await.expect("jobs").answer, [], "a refusal makes nothing");
    let again = win(&at_new, &job("a"), now).await;
    // The old primary comes back as a replica, and has lost what it acknowledged.
    follow(&old, &new).await;
    promote(&old).await;
    let refused = until_answered(async || beat(&at_old, &job("a"), &won).await).await;
    assert_eq!(refused, HeartbeatAnswer::Refused);
    let renewed = beat(&at_old, &job("a"), &again).await.expect("an answer");
    assert!(matches!(renewed, HeartbeatAnswer::Renewed { .. }), "the second runner holds it");
}

/// With `?wait=1` a change counts as done when a replica has it, and is unknown until then.
async fn a_change_waits_for_a_replica_where_the_url_says_so(kind: RedisKind) {
    let (Some(server), Some(mut replica)) = (server_of(kind).await, server_of(kind).await) else { return };
    follow(&replica, &server).await;
    let url = format!("{}?wait=1", server.url());
    let store = RedisStore::connect(&url, &namespace()).await.expect("a store");
    assert!(!store.warnings().iter().any(|warning| matches!(warning, Warning::Replicas { .. })));
    let now = store.now().await.expect("the time");
    let won = win_with_a_replica(&store, now).await;
    assert_eq!(finish(&store, &job("a"), &won).await.expect("an answer"), Accepted::Done);
    replica.freeze().await.expect("frozen");
    let ask = claim(slot(now));
    let error = store.claim(&job("b"), &ask).await.expect_err("no replica knows of it");
    assert!(matches!(error, StoreError::Unknown { .. }), "{}", told(&error));
    assert!(told(&error).contains("0 of the 1 replicas"), "{}", told(&error));
    replica.thaw().expect("it goes on");
    let again = until_answered(async || store.claim(&job("b"), &ask).await).await;
    assert!(matches!(again.answer, ClaimAnswer::Won { .. }), "{again:?}");
    assert_eq!(again.revision, 1, "it was done at the first sending");
}

/// With no replica there, many changes at once are told so within the limit of a call, and reading goes on.
async fn changes_that_wait_together_hold_up_neither_each_other_nor_reads(kind: RedisKind) {
    let (Some(server), Some(mut replica)) = (server_of(kind).await, server_of(kind).await) else { return };
    follow(&replica, &server).await;
    let store = RedisStore::connect(&format!("{}?wait=1", server.url()), &namespace()).await.expect("a store");
    let store = std::sync::Arc::new(store);
    let now = store.now().await.expect("the time");
    let won = win_with_a_replica(&store, now).await;
    replica.freeze().await.expect("frozen");
    let mut claims = tokio::task::JoinSet::new();
    for n in 0..12 {
        let store = store.clone();
        claims.spawn(async move {
            // Not all at the same moment: some come while others wait.
            tokio::time::sleep(std::time::Duration::from_millis(100 * n)).await;
            store.claim(&job(&format!("b{n}")), &claim(slot(now))).await.expect_err("no replica knows of it")
        });
    }
    while let Some(error) = claims.join_next().await {
        let error = error.expect("no panic");
        assert!(told(&error).contains("0 of the 1 replicas"), "{}", told(&error));
        store.jobs(None, 100).await.expect("reading goes on");
    }
    replica.thaw().expect("it goes on");
    let accepted = until_answered(async || finish(&*store, &job("a"), &won).await).await;
    assert_eq!(accepted, Accepted::Done);
}
