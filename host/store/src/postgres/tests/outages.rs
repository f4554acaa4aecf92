//! Servers that die, freeze and come back under load, and sessions that are ended.

use std::time::Duration;

use leasehold_lease::op::{ClaimAnswer, HeartbeatAnswer};
use leasehold_test_servers::Proxy;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};
use tokio::time::timeout;

use super::support::{
    ENDS, Load, PATIENCE, all_recorded, beat, claim, job, own_server, slot, status, store, told, until_answered, win,
};
use crate::error::StoreError;
use crate::store::LeaseStore;

/// Ends every session but the one that asks.
const END_SESSIONS: &str =
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname IS NOT NULL";

/// A server that is killed and started again has all that it acknowledged, and the store goes on by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_is_used_again_when_it_is_back() {
    let Some(mut server) = own_server(&[]).await else { return };
    let store = store(&server.url()).await;
    let now = store.now().await.expect("the time");
    let held = win(&*store, &job("held"), now).await;
    let load = Load::on(std::slice::from_ref(&store), now);
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
    let (errors, finished) = load.end().await;
    assert!(errors > 0, "the load has noticed");
    all_recorded(&store, &finished).await;
}

/// A server that shuts down in good order and starts again, likewise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_server_is_used_again() {
    let Some(mut server) = own_server(&[]).await else { return };
    let store = store(&server.url()).await;
    let load = Load::on(std::slice::from_ref(&store), store.now().await.expect("the time"));
    for _ in 0..2 {
        load.goes_on(20).await;
        server.restart().await.expect("restarted");
    }
    load.goes_on(20).await;
    all_recorded(&store, &load.end().await.1).await;
}

/// A frozen server bounds every call, and what was sent to it may be done when it goes on: sending again tells.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_bounds_every_call_and_may_still_do_it() {
    let Some(mut server) = own_server(&[]).await else { return };
    let store = store(&server.url()).await;
    let now = store.now().await.expect("the time");
    // Two at once, so that both connections are there.
    let (first, second) = (claim(slot(now)), claim(slot(now)));
    let (a, b) = (job("a"), job("b"));
    let (first, second) = tokio::join!(store.claim(&a, &first), store.claim(&b, &second));
    first.and(second).expect("answers");
    server.freeze().await.expect("frozen");
    let ask = claim(slot(now + Duration::from_millis(1)));
    let began = timeout(ENDS, store.claim(&a, &ask)).await.expect("it ends by itself");
    let error = began.expect_err("no answer");
    assert!(matches!(error, StoreError::Unknown { .. } | StoreError::NotSent { .. }), "{}", told(&error));
    let mut others = Vec::new();
    for n in 0..4 {
        let (store, ask) = (store.clone(), claim(slot(now)));
        others.push(tokio::spawn(async move { timeout(ENDS, store.claim(&job(&format!("c-{n}")), &ask)).await }));
    }
    for other in others {
        let error = other.await.expect("no panic").expect("it ends by itself").expect_err("no answer");
        assert!(matches!(error, StoreError::Unknown { .. } | StoreError::NotSent { .. }), "{}", told(&error));
    }
    server.thaw().expect("it goes on");
    let again = until_answered(|| store.claim(&a, &ask)).await;
    assert!(matches!(again.answer, ClaimAnswer::Won { .. }), "the same attempt: {again:?}");
    assert_eq!(again.revision, 2, "the first sending was done, or the second: not both");
}

/// Sessions that are ended at any step: the store goes on, nothing acknowledged is lost, and what was not sent was not
/// done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_are_ended_at_any_step_lose_nothing() {
    let Some(server) = own_server(&[]).await else { return };
    let store = store(&server.url()).await;
    let now = store.now().await.expect("the time");
    let mut administrator = PgConnection::connect(&server.url()).await.expect("a connection");
    let load = Load::on(std::slice::from_ref(&store), now);
    for _ in 0..60 {
        administrator.execute(END_SESSIONS).await.expect("sessions are ended");
        load.goes_on(1).await;
    }
    let (errors, finished) = load.end().await;
    assert!(errors > 0, "the load has noticed");
    all_recorded(&store, &finished).await;
}

/// `NotSent` is the truth: nothing of it was done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_sent_was_not_done() {
    let Some(server) = own_server(&[]).await else { return };
    let store = store(&server.url()).await;
    let now = store.now().await.expect("the time");
    let mut administrator = PgConnection::connect(&server.url()).await.expect("a connection");
    let mut not_sent = Vec::new();
    for n in 0..150 {
        let run = slot(now + Duration::from_millis(n));
        let ask = claim(run.clone());
        let name = job(&format!("job-{n}"));
        let (ended, answer) = tokio::join!(administrator.execute(END_SESSIONS), store.claim(&name, &ask));
        ended.expect("sessions are ended");
        if let Err(StoreError::NotSent { .. }) = answer {
            not_sent.push((name, run));
        }
    }
    for (job, run) in not_sent {
        assert_eq!(until_answered(async || Ok(status(&*store, &job, &run).await)).await, None, "{job} {run}");
    }
}

/// An idle connection that was cut without a word costs a moment and no error: it is asked before it is trusted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_connection_that_is_cut_costs_no_error() {
    let Some(server) = own_server(&[]).await else { return };
    let proxy = Proxy::start(server.port()).await.expect("a proxy");
    let store = store(&proxy.url(&server.url())).await;
    let now = store.now().await.expect("the time");
    let held = win(&*store, &job("held"), now).await;
    beat(&*store, &job("held"), &held).await.expect("an answer");
    // Idle for longer than a connection is trusted.
    tokio::time::sleep(super::super::link::TRUSTED * 2).await;
    proxy.drop_connections();
    let renewed = beat(&*store, &job("held"), &held).await.expect("no error");
    assert!(matches!(renewed, HeartbeatAnswer::Renewed { .. }));
}

/// A network that swallows everything, without a word to either side.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_network_bounds_every_call_and_heals() {
    let Some(server) = own_server(&[]).await else { return };
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

/// A wake-up from another host is heard, and again after the connection that hears was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wake_ups_are_heard_again_after_a_loss() {
    let Some(server) = own_server(&[]).await else { return };
    let (teller, hearer) = (store(&server.url()).await, store(&server.url()).await);
    let mut wakeups = hearer.wakeups().expect("this store can wake");
    let now = teller.now().await.expect("the time");
    let mut administrator = PgConnection::connect(&server.url()).await.expect("a connection");
    let nightly = job("acme/nightly");
    for round in 0..2 {
        let heard = async {
            for n in 0.. {
                let at = now + Duration::from_millis(round * 10_000 + n);
                let won = until_answered(|| async {
                    let ask = claim(slot(at));
                    teller.claim(&nightly, &ask).await.map(|_| ask)
                });
                let won = won.await;
                let release = leasehold_lease::op::Release {
                    run: won.run,
                    token: won.token,
                    usage: leasehold_lease::run::Usage::default(),
                };
                until_answered(|| teller.release(&nightly, &release)).await;
                if let Ok(Ok(woken)) = timeout(Duration::from_millis(100), wakeups.recv()).await {
                    return woken;
                }
            }
            unreachable!("the loop does not end")
        };
        assert_eq!(timeout(PATIENCE, heard).await.expect("it is heard"), nightly);
        administrator.execute(END_SESSIONS).await.expect("sessions are ended");
    }
}
