//! Redis Cluster: three masters, tenants spread over them.

use std::sync::Arc;

use leasehold_lease::id::{JobKey, TenantName};
use leasehold_lease::op::{Announce, ClaimAnswer, Heartbeat, HeartbeatAnswer};
use leasehold_lease::run::Status;
use leasehold_lease::time::Millis;
use leasehold_test_servers::{RedisCluster, RedisKind, or_skip};

use super::support::{namespace, run, store};
use crate::conformance::{self, Bench, TestClock};
use crate::error::StoreError;
use crate::redis::{ConnectError, RedisStore, Warning};
use crate::store::LeaseStore;
use crate::test_support::{beat, claim, finish, job, told, until_answered, win};

/// Runs cases of the suite, each in a namespace of its own.
macro_rules! cases {
    ($url:expr; $($case:ident)*) => {
        $(
            let store = RedisStore::connect($url, &namespace()).await.expect("a store");
            conformance::$case(&Bench::new(Arc::new(store), TestClock::Real, ())).await;
        )*
    };
}

/// The suite passes, each verb at least once; each case lies in other slots.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_passes_the_suite() {
    let Some(cluster) = or_skip(RedisCluster::start(RedisKind::Redis).await) else { return };
    let url = &cluster.urls()[0];
    cases! { url;
        a_store_keeps_its_identity
        a_slot_is_won_once
        an_expired_run_is_taken_over
        a_hand_over_does_not_count
        runs_do_not_overlap_under_skip
        an_on_demand_run_is_stored_before_it_starts
        heartbeats_of_many_jobs_are_answered_in_order
        a_finish_is_final
        an_unknown_run_is_refused_and_nothing_is_created
        log_lines_are_kept_once_and_in_order
        a_checkpoint_passes_to_the_next_attempt_and_goes_with_the_end
        values_are_kept_byte_for_byte
        keys_are_listed_by_prefix_in_order
        tenants_have_their_own_values
        a_tenants_quota_holds_over_all_its_jobs
        a_cancelled_run_ends_or_its_runner_is_told
        a_held_job_skips_its_slots
        a_held_slot_does_not_start_later
        answers_are_kept_for_who_asks_why
        hosts_see_each_other
        what_a_host_offers_is_kept_with_its_record
        a_release_and_a_trigger_wake_those_who_listen
        an_announcement_tells_where_catching_up_begins
        unfinished_runs_are_listed_in_pages
        checked_runs_stand_in_the_order_asked
        history_is_newest_first_and_filtered
        jobs_are_listed_with_their_newest_run
        jobs_are_listed_in_brief
        jobs_are_listed_in_pages
        one_of_many_claimers_wins
    }
}

fn tenants() -> Vec<TenantName> {
    (0..30).map(|n| format!("tenant-{n}").parse().expect("a name")).collect()
}

/// Tenants lie on all masters, and one call asks them all. A script cache that one of them has lost is healed there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_lie_on_all_masters() {
    let Some(cluster) = or_skip(RedisCluster::start(RedisKind::Redis).await) else { return };
    let urls = cluster.urls();
    let store = store(&urls[1]).await;
    let now = store.now().await.expect("the time");
    let jobs: Vec<JobKey> = tenants().iter().map(|tenant| job(&format!("{tenant}/nightly"))).collect();
    let mut beats = Vec::new();
    for job in &jobs {
        let won = win(&*store, job, now).await;
        beats.push((job.clone(), Heartbeat { run: won.run, token: won.token, progress: None }));
    }
    for url in &urls {
        let keys: u64 = run(url, &["DBSIZE"]).await;
        assert!(keys > 2, "tenants lie on {url}");
        let _: () = run(url, &["SCRIPT", "FLUSH"]).await;
    }
    let answers = store.heartbeats(&beats).await.expect("answers");
    for answer in answers {
        assert!(matches!(answer.expect("an answer").answer, HeartbeatAnswer::Renewed { .. }));
    }
    let offers: Vec<_> = jobs.iter().map(|job| (job.clone(), Announce { fingerprint: "x".into() })).collect();
    assert!(store.announce(&offers).await.expect("answers").iter().all(Result::is_ok));
    let unfinished = store.unfinished(&tenants(), None, 1_000).await.expect("runs").answer;
    let mut expected = jobs.clone();
    expected.sort();
    assert_eq!(unfinished.into_iter().map(|run| run.key.job).collect::<Vec<_>>(), expected);
    assert_eq!(store.jobs(None, 100).await.expect("jobs").answer.len(), jobs.len());
}

/// A master that takes no writes says so for all that lies there, and not as a fault of each record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn announcements_to_a_master_without_its_replicas_may_be_sent_again() {
    let Some(cluster) = or_skip(RedisCluster::start(RedisKind::Redis).await) else { return };
    let urls = cluster.urls();
    let store = store(&urls[0]).await;
    let master_of = async |key: String| run::<usize>(&urls[0], &["CLUSTER", "KEYSLOT", &key]).await / 5_462;
    // Not the one that the registry of tenants lies on.
    let without = (master_of(store.server.keys.tenants()).await + 1) % 3;
    let _: () = run(&urls[without], &["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    let offers: Vec<(JobKey, Announce)> = tenants()
        .iter()
        .map(|tenant| (job(&format!("{tenant}/nightly")), Announce { fingerprint: "x".into() }))
        .collect();
    let answers = store.announce(&offers).await.expect("the others answer");
    let mut refused = 0;
    for ((job, _), answer) in offers.iter().zip(answers) {
        match answer {
            Ok(_) => assert_ne!(master_of(store.server.keys.tenant(&job.tenant)).await, without),
            Err(error) => {
                assert_eq!(master_of(store.server.keys.tenant(&job.tenant)).await, without);
                assert!(matches!(error, StoreError::Unknown { .. }), "{}", told(&error));
                assert!(told(&error).contains("NOREPLICAS"), "{}", told(&error));
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "some tenant lies there");
    let _: () = run(&urls[without], &["CONFIG", "SET", "min-replicas-to-write", "0"]).await;
    assert!(store.announce(&offers).await.expect("answers").iter().all(Result::is_ok));
}

/// A master that is killed costs its tenants; the others go on, and so do they when it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_comes_back_is_used_again() {
    let Some(mut cluster) = or_skip(RedisCluster::start(RedisKind::Redis).await) else { return };
    // By default a cluster with a hole serves nothing.
    for url in cluster.urls() {
        let _: () = run(&url, &["CONFIG", "SET", "cluster-require-full-coverage", "no"]).await;
    }
    let store = store(&cluster.urls()[0]).await;
    let now = store.now().await.expect("the time");
    let jobs: Vec<JobKey> = tenants().iter().map(|tenant| job(&format!("{tenant}/nightly"))).collect();
    let mut won = Vec::new();
    for job in &jobs {
        won.push(win(&*store, job, now).await);
    }
    cluster.nodes()[2].kill().await.expect("killed");
    let (mut renewed, mut failed) = (0, 0);
    for (job, won) in jobs.iter().zip(&won) {
        match beat(&*store, job, won).await {
            Ok(HeartbeatAnswer::Renewed { .. }) => renewed += 1,
            Ok(HeartbeatAnswer::Refused) => panic!("nobody has refused"),
            Err(_) => failed += 1,
        }
    }
    assert!(renewed > 0 && failed > 0, "{renewed} renewed, {failed} failed");
    cluster.nodes()[2].restart().await.expect("restarted");
    for (job, won) in jobs.iter().zip(&won) {
        // It keeps nothing, so its runs are unknown, and refused.
        until_answered(|| beat(&*store, job, won)).await;
        until_answered(|| finish(&*store, job, won)).await;
    }
}

/// A user who may not ask how a server is set up learns that it is a cluster all the same, and works there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_not_ask_for_the_settings_works_in_a_cluster() {
    let Some(cluster) = or_skip(RedisCluster::start(RedisKind::Redis).await) else { return };
    for url in cluster.urls() {
        let may = ["ACL", "SETUSER", "app", "on", ">pw", "~leasehold:*", "&leasehold:*", "+@all", "-@dangerous"];
        let _: () = run(&url, &may).await;
    }
    let store = store(&cluster.urls()[0].replace("redis://", "redis://app:pw@")).await;
    assert_eq!(store.warnings(), [Warning::Unseen]);
    let now = store.now().await.expect("the time");
    for tenant in tenants() {
        win(&*store, &job(&format!("{tenant}/nightly")), now).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_replicas_is_refused_in_a_cluster() {
    let Some(cluster) = or_skip(RedisCluster::start(RedisKind::Redis).await) else { return };
    let url = format!("{}?wait=1", cluster.urls()[0]);
    let error = RedisStore::connect(&url, "prod").await.err().expect("it is refused");
    assert!(matches!(error, ConnectError::WaitInCluster { .. }), "{}", told(&error));
}

/// While a slot moves from one master to another neither has all of a job: nothing is answered, and nothing is won
/// again. When it has moved, all goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_answers_nothing_until_it_has_moved() {
    let Some(cluster) = or_skip(RedisCluster::start(RedisKind::Redis).await) else { return };
    let urls = cluster.urls();
    let store = store(&urls[0]).await;
    let now = store.now().await.expect("the time");
    // A job whose slot lies on the second master: the store's own records stay where they are.
    let (job, keys_slot) = {
        let mut found = None;
        for tenant in tenants() {
            let slot: u16 = run(&urls[0], &["CLUSTER", "KEYSLOT", &store.server.keys.tenant(&tenant)]).await;
            if (5461..=10922).contains(&slot) {
                found = Some((job(&format!("{tenant}/nightly")), slot.to_string()));
            }
        }
        found.expect("one of thirty tenants lies there")
    };
    let (done, live) = (win(&*store, &job, now).await, win(&*store, &job, Millis(now.0 + 1)).await);
    finish(&*store, &job, &done).await.expect("an answer");
    let ids = [run::<String>(&urls[1], &["CLUSTER", "MYID"]).await, run(&urls[2], &["CLUSTER", "MYID"]).await];
    let _: () = run(&urls[2], &["CLUSTER", "SETSLOT", &keys_slot, "IMPORTING", &ids[0]]).await;
    let _: () = run(&urls[1], &["CLUSTER", "SETSLOT", &keys_slot, "MIGRATING", &ids[1]]).await;
    let stranger = claim(live.run.clone());
    let nothing_is_answered = async || {
        let error = store.claim(&job, &stranger).await.expect_err("neither master has all of it");
        assert!(matches!(error, StoreError::Unknown { .. } | StoreError::NotSent { .. }), "{}", told(&error));
        let error = beat(&*store, &job, &live).await.expect_err("neither master has all of it");
        assert!(matches!(error, StoreError::Unknown { .. } | StoreError::NotSent { .. }), "{}", told(&error));
    };
    nothing_is_answered().await;
    let keys: Vec<String> = run(&urls[1], &["CLUSTER", "GETKEYSINSLOT", &keys_slot, "100"]).await;
    assert!(keys.len() > 2, "{keys:?}");
    let port = urls[2].trim_end_matches('/').rsplit(':').next().expect("a port").to_owned();
    let mut half_way = false;
    for key in keys {
        let _: String = run(&urls[1], &["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"]).await;
        if !half_way {
            nothing_is_answered().await;
            half_way = true;
        }
    }
    nothing_is_answered().await;
    for url in [&urls[2], &urls[1], &urls[0]] {
        let _: () = run(url, &["CLUSTER", "SETSLOT", &keys_slot, "NODE", &ids[1]]).await;
    }
    let answer = until_answered(|| store.claim(&job, &stranger)).await.answer;
    assert!(matches!(answer, ClaimAnswer::Running { .. }), "{answer:?}");
    let again = claim(done.run.clone());
    let answer = until_answered(|| store.claim(&job, &again)).await.answer;
    assert_eq!(answer, ClaimAnswer::Ended(Status::Success));
    let renewed = until_answered(|| beat(&*store, &job, &live)).await;
    assert!(matches!(renewed, HeartbeatAnswer::Renewed { .. }), "{renewed:?}");
}
