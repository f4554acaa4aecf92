//! Servers that forget, freeze, die and come back under load.

use std::time::Duration;

use leasehold_lease::op::{Accepted, ClaimAnswer, HeartbeatAnswer};
use leasehold_test_servers::{Proxy, RedisKind, Tarpit};
use tokio::time::timeout;

use super::support::{keeping_server, namespace, on_redis_and_valkey, operator, run, server_of, store};
use crate::error::StoreError;
use crate::redis::{ConnectError, RedisStore};
use crate::store::LeaseStore;
use crate::test_support::{
    ENDS, Load, PATIENCE, all_recorded, beat, claim, finish, heartbeats_go_on_while_the_runtime_stands_still, job,
    slot, told, until_answered, win,
};

on_redis_and_valkey! {
    a_script_cache_that_is_emptied_under_load_is_not_noticed
    a_killed_server_is_used_again_when_it_is_back
    a_frozen_server_bounds_every_call_and_may_still_do_it
    after_a_flush_the_old_runner_is_refused_and_makes_nothing
    a_flushed_store_gets_its_identity_back
    a_store_that_is_flushed_under_a_host_is_told_who_it_is
    a_store_that_becomes_another_or_newer_is_left_until_it_is_put_right
    rights_that_are_taken_away_and_given_back_lose_no_end
    an_idle_connection_that_is_cut_costs_no_error
    a_silent_network_bounds_every_call_and_heals
    wake_ups_are_heard_again_after_a_loss
    a_connection_that_ends_at_once_is_made_anew_after_a_rest
}

/// NOSCRIPT is healed where it happens: nobody sees it.
async fn a_script_cache_that_is_emptied_under_load_is_not_noticed(kind: RedisKind) {
    let Some(server) = server_of(kind).await else { return };
    let store = store(&server.url()).await;
    let load = Load::on(vec![store.clone()], store.now().await.expect("the time"));
    for _ in 0..100 {
        let _: () = run(&server.url(), &["SCRIPT", "FLUSH"]).await;
        load.goes_on(1).await;
    }
    let (errors, finished) = load.end().await;
    assert_eq!(errors, 0, "no call has failed");
    all_recorded(&*store, &finished).await;
}

/// A server that is killed and started again has all that it acknowledged, and the store goes on by itself.
async fn a_killed_server_is_used_again_when_it_is_back(kind: RedisKind) {
    let Some(mut server) = keeping_server(kind).await else { return };
    let store = store(&server.url()).await;
    let now = store.now().await.expect("the time");
    let held = win(&*store, &job("held"), now).await;
    let load = Load::on(vec![store.clone()], now);
    for _ in 0..3 {
        load.goes_on(20).await;
        server.kill().await.expect("killed");
        let error = timeout(PATIENCE, async {
            loop {
                if let Err(error) = beat(&*store, &job("held"), &held).await {
                    return error;
                }
            }
        });
        let error = error.await.expect("calls fail while the server is dead");
        assert!(matches!(error, StoreError::NotSent { .. } | StoreError::Unknown { .. }), "{}", told(&error));
        server.restart().await.expect("restarted");
        let renewed = until_answered(async || beat(&*store, &job("held"), &held).await).await;
        assert!(matches!(renewed, HeartbeatAnswer::Renewed { .. }), "what was acknowledged is kept");
    }
    load.goes_on(20).await;
    let (_, finished) = load.end().await;
    all_recorded(&*store, &finished).await;
}

/// A frozen server bounds every call, and what was sent to it may be done when it goes on: sending again tells.
async fn a_frozen_server_bounds_every_call_and_may_still_do_it(kind: RedisKind) {
    let Some(mut server) = server_of(kind).await else { return };
    let store = store(&server.url()).await;
    let now = store.now().await.expect("the time");
    win(&*store, &job("a"), now).await;
    server.freeze().await.expect("frozen");
    let ask = claim(slot(now));
    let (b, c) = (job("b"), job("c"));
    let error = timeout(ENDS, store.claim(&b, &ask)).await.expect("it ends by itself").expect_err("no answer");
    assert!(matches!(error, StoreError::Unknown { .. }), "{}", told(&error));
    // The connection is given up; none can be made, so from now on nothing is sent.
    let error = timeout(ENDS, store.claim(&c, &ask)).await.expect("it ends by itself").expect_err("no answer");
    assert!(matches!(error, StoreError::NotSent { .. }), "{}", told(&error));
    server.thaw().expect("it goes on");
    let again = until_answered(|| store.claim(&b, &ask)).await;
    assert!(matches!(again.answer, ClaimAnswer::Won { .. }), "the same attempt: {again:?}");
    assert_eq!(again.revision, 1, "the first sending was done, or the second: not both");
    assert!(store.jobs(None, 100).await.expect("jobs").answer.iter().all(|view| view.key != c), "it was not sent");
}

/// After FLUSHALL a run is unknown: its runner is refused, and nothing that it sends makes anything. New runs start,
/// and their jobs are seen again.
async fn after_a_flush_the_old_runner_is_refused_and_makes_nothing(kind: RedisKind) {
    let Some(server) = server_of(kind).await else { return };
    let store = store(&server.url()).await;
    let job = job("acme/nightly");
    let identity = store.identity().await.expect("an identity");
    let now = store.now().await.expect("the time");
    let won = win(&*store, &job, now).await;
    let load = Load::on(vec![store.clone()], now);
    load.goes_on(5).await;
    load.end().await;
    let _: () = run(&server.url(), &["FLUSHALL"]).await;
    assert_eq!(beat(&*store, &job, &won).await.expect("an answer"), HeartbeatAnswer::Refused);
    assert_eq!(finish(&*store, &job, &won).await.expect("an answer"), Accepted::Refused);
    let keys: Vec<String> = run(&server.url(), &["KEYS", "*"]).await;
    // The store may have been told who it is.
    assert!(keys.iter().all(|key| key.ends_with(":about")), "a refusal makes nothing: {keys:?}");
    win(&*store, &job, now).await;
    let jobs = store.jobs(None, 100).await.expect("jobs").answer;
    assert_eq!(jobs.iter().map(|view| view.key.clone()).collect::<Vec<_>>(), [job]);
    assert_eq!(store.identity().await.expect("an identity"), identity);
}

/// After a flush the first host that connects anew says who the store is, so that it is the same for all.
async fn a_flushed_store_gets_its_identity_back(kind: RedisKind) {
    let Some(mut server) = server_of(kind).await else { return };
    let namespace = namespace();
    let store = RedisStore::connect(&server.url(), &namespace).await.expect("a store");
    let identity = store.identity().await.expect("an identity");
    // It keeps nothing, so this is a flush and a restart in one.
    server.kill().await.expect("killed");
    server.restart().await.expect("restarted");
    until_answered(|| store.now()).await;
    let another = RedisStore::connect(&server.url(), &namespace).await.expect("a store");
    assert_eq!(another.identity().await.expect("an identity"), identity);
}

/// A flush cuts no connection: a host that looks on tells the store who it is, before another starts.
async fn a_store_that_is_flushed_under_a_host_is_told_who_it_is(kind: RedisKind) {
    let Some(server) = server_of(kind).await else { return };
    let namespace = namespace();
    let store = RedisStore::connect(&server.url(), &namespace).await.expect("a store");
    let _: () = run(&server.url(), &["FLUSHALL"]).await;
    timeout(PATIENCE, async {
        while run::<u64>(&server.url(), &["DBSIZE"]).await == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("it is told");
    let another = RedisStore::connect(&server.url(), &namespace).await.expect("a store");
    assert_eq!(another.identity().await.expect("an identity"), store.identity().await.expect("an identity"));
}

/// What becomes of a store under a host that has a connection all along is noticed, and goes by when it is put right.
async fn a_store_that_becomes_another_or_newer_is_left_until_it_is_put_right(kind: RedisKind) {
    let Some(server) = server_of(kind).await else { return };
    let namespace = namespace();
    let store = RedisStore::connect(&server.url(), &namespace).await.expect("a store");
    let about = store.server.keys.all() + "about";
    for (field, other, message) in [("id", "somebody-else", "restart this host"), ("layout", "99", "newer Leasehold")] {
        let before: String = run(&server.url(), &["HGET", &about, field]).await;
        let _: () = run(&server.url(), &["HSET", &about, field, other]).await;
        let error = timeout(PATIENCE, async {
            loop {
                match store.now().await {
                    Ok(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                    Err(error) => return error,
                }
            }
        });
        let error = error.await.expect("it is noticed");
        assert!(matches!(error, StoreError::NotSent { .. }), "{}", told(&error));
        assert!(told(&error).contains(message), "{}", told(&error));
        let _: () = run(&server.url(), &["HSET", &about, field, &before]).await;
        until_answered(|| store.now()).await;
    }
}

/// Rights that are taken away and given back lose no end: a run that has ended does not start again.
async fn rights_that_are_taken_away_and_given_back_lose_no_end(kind: RedisKind) {
    let Some(server) = server_of(kind).await else { return };
    let everything = ["ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all"];
    let _: () = run(&server.url(), &everything).await;
    let store = store(&server.url().replace("redis://", "redis://app:pw@")).await;
    let now = store.now().await.expect("the time");
    let won = win(&*store, &job("a"), now).await;
    let _: () = run(&server.url(), &["ACL", "SETUSER", "app", "-@all"]).await;
    let error = finish(&*store, &job("a"), &won).await.expect_err("it may not");
    assert!(matches!(error, StoreError::NotSent { .. } | StoreError::Unknown { .. }), "{}", told(&error));
    let _: () = run(&server.url(), &everything).await;
    let accepted = until_answered(async || finish(&*store, &job("a"), &won).await).await;
    assert_eq!(accepted, Accepted::Done);
}

/// Something that takes connections and never answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connecting_to_a_tarpit_ends_and_says_so() {
    let tarpit = Tarpit::start().await.expect("a tarpit");
    let url = format!("redis://127.0.0.1:{}", tarpit.port());
    let connecting = timeout(ENDS, RedisStore::connect(&url, "prod"));
    let error = connecting.await.expect("it ends by itself").err().expect("it is no store");
    assert!(matches!(error, ConnectError::Silent { .. }), "{error}");
}

/// A connection that was cut while nothing was said on it costs nothing: it was made anew before it is wanted.
async fn an_idle_connection_that_is_cut_costs_no_error(kind: RedisKind) {
    let Some(server) = server_of(kind).await else { return };
    let store = store(&server.url()).await;
    let connections = async || {
        let list: String = run(&server.url(), &["CLIENT", "LIST", "TYPE", "normal"]).await;
        list.lines().filter(|line| line.contains("cmd=evalsha") || line.contains("cmd=eval ")).count()
    };
    let at_first = connections().await;
    assert!(at_first >= 2, "both connections have asked who the store is");
    let _: () = run(&server.url(), &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    timeout(PATIENCE, async {
        while connections().await < at_first {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
    .expect("they come back");
    store.now().await.expect("no error");
}

/// A network that swallows everything, without a word to either side.
async fn a_silent_network_bounds_every_call_and_heals(kind: RedisKind) {
    let Some(server) = server_of(kind).await else { return };
    let proxy = Proxy::start(server.port()).await.expect("a proxy");
    let store = store(&proxy.url(&server.url())).await;
    let now = store.now().await.expect("the time");
    let won = win(&*store, &job("a"), now).await;
    proxy.blackhole();
    for _ in 0..3 {
        let error = timeout(ENDS, beat(&*store, &job("a"), &won)).await.expect("it ends by itself");
        let error = error.expect_err("nobody answers");
        assert!(matches!(error, StoreError::NotSent { .. } | StoreError::Unknown { .. }), "{}", told(&error));
    }
    proxy.heal().await;
    let renewed = until_answered(async || beat(&*store, &job("a"), &won).await).await;
    assert!(matches!(renewed, HeartbeatAnswer::Renewed { .. }));
}

/// A wake-up is heard again after the connection that hears was lost.
async fn wake_ups_are_heard_again_after_a_loss(kind: RedisKind) {
    let Some(server) = server_of(kind).await else { return };
    let store = store(&server.url()).await;
    let mut wakeups = store.wakeups().expect("this store can wake");
    let _: () = run(&server.url(), &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    let channel = store.server.keys.channel();
    let heard = async {
        loop {
            let _: u64 = redis::cmd("PUBLISH")
                .arg(&channel)
                .arg("acme/nightly")
                .query_async(&mut operator(&server.url()).await)
                .await
                .expect("published");
            if let Ok(Ok(woken)) = timeout(Duration::from_millis(20), wakeups.recv()).await {
                return woken;
            }
        }
    };
    assert_eq!(timeout(PATIENCE, heard).await.expect("it is heard"), job("acme/nightly"));
}

/// What ends every connection as soon as it is made does not keep the store and the server busy with making new ones.
async fn a_connection_that_ends_at_once_is_made_anew_after_a_rest(kind: RedisKind) {
    let Some(server) = server_of(kind).await else { return };
    let store = store(&server.url()).await;
    let made = async || {
        let info: redis::InfoDict = run(&server.url(), &["INFO", "stats"]).await;
        info.get::<u64>("total_connections_received").expect("a number")
    };
    let (before, mut operator) = (made().await, operator(&server.url()).await);
    for _ in 0..100 {
        let _: u64 = redis::cmd("CLIENT")
            .arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"])
            .query_async(&mut operator)
            .await
            .expect("killed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Two links, each after rests of 50 ms, 100 ms, 200 ms and so on, and the operator's own connections.
    let new = made().await - before;
    assert!(new < 30, "{new} connections in two seconds");
    until_answered(|| store.now()).await;
}

/// H7: leases are renewed on threads of the store's own.
#[tokio::test]
async fn heartbeats_go_on_while_the_hosts_runtime_stands_still() {
    let Some(server) = server_of(RedisKind::Redis).await else { return };
    heartbeats_go_on_while_the_runtime_stands_still(store(&server.url()).await).await;
}
