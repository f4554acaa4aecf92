//! Servers that die, freeze and come back under load, and sessions that are ended.

use std::time::Duration;

use leasehold_lease::op::{Accepted, ClaimAnswer, HeartbeatAnswer};
use leasehold_lease::run::Status;
use leasehold_test_servers::Proxy;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};
use tokio::time::timeout;

use super::support::{Database, END_SESSIONS, own_server, run, store, until};
use crate::error::StoreError;
use crate::store::LeaseStore;
use crate::test_support::{
    ENDS, Load, PATIENCE, all_recorded, beat, claim, finish, job, slot, status, told, until_answered, win,
};

/// A server that is killed and started again has all that it acknowledged, and the store goes on by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_is_used_again_when_it_is_back() {
    let Some(mut server) = own_server(&[]).await else { return };
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
    let (errors, finished) = load.end().await;
    assert!(errors > 0, "the load has noticed");
    all_recorded(&*store, &finished).await;
}

/// A server that shuts down in good order and starts again, likewise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_server_is_used_again() {
    let Some(mut server) = own_server(&[]).await else { return };
    let store = store(&server.url()).await;
    let load = Load::on(vec![store.clone()], store.now().await.expect("the time"));
    for _ in 0..2 {
        load.goes_on(20).await;
        server.restart().await.expect("restarted");
    }
    load.goes_on(20).await;
    all_recorded(&*store, &load.end().await.1).await;
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
    let load = Load::on(vec![store.clone()], now);
    for _ in 0..60 {
        administrator.execute(END_SESSIONS).await.expect("sessions are ended");
        load.goes_on(1).await;
    }
    let (errors, finished) = load.end().await;
    assert!(errors > 0, "the load has noticed");
    all_recorded(&*store, &finished).await;
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

/// Rights that an operator takes away are his to give back: what was refused meanwhile is still worth doing, and a finish
/// that was thrown away would let the run start again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_that_are_taken_away_and_given_back_lose_no_end() {
    let Some(server) = own_server(&[]).await else { return };
    let admin = server.url();
    // The administrator prepares the tables; the host's user may use them and owns nothing.
    drop(store(&admin).await);
    run(
        &admin,
        "CREATE USER host PASSWORD 'leasehold-test'; GRANT USAGE ON SCHEMA leasehold TO host; \
         GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA leasehold TO host; \
         GRANT ALL ON ALL TABLES IN SCHEMA leasehold TO host; GRANT ALL ON ALL SEQUENCES IN SCHEMA leasehold TO host",
    )
    .await;
    let store = store(&admin.replacen("postgres:leasehold-test@", "host:leasehold-test@", 1)).await;
    let held = win(&*store, &job("held"), store.now().await.expect("the time")).await;
    for (take, give) in [
        ("REVOKE USAGE ON SCHEMA leasehold FROM host", "GRANT USAGE ON SCHEMA leasehold TO host"),
        ("REVOKE ALL ON leasehold.runs FROM host", "GRANT ALL ON leasehold.runs TO host"),
    ] {
        run(&admin, take).await;
        let error = finish(&*store, &job("held"), &held).await.expect_err("it may not");
        assert!(
            matches!(error, StoreError::NotSent { .. }) && told(&error).contains("lacks rights"),
            "{}",
            told(&error)
        );
        let error = beat(&*store, &job("held"), &held).await.expect_err("it may not");
        assert!(matches!(error, StoreError::NotSent { .. }), "{}", told(&error));
        run(&admin, give).await;
        let renewed = beat(&*store, &job("held"), &held).await.expect("an answer");
        assert!(matches!(renewed, HeartbeatAnswer::Renewed { .. }), "{take}");
    }
    assert_eq!(finish(&*store, &job("held"), &held).await.expect("an answer"), Accepted::Done);
    assert_eq!(status(&*store, &job("held"), &held.run).await, Some(Status::Success));
}

/// Empties all tables, as an administrator might by mistake.
const EMPTY: &str = "DO $$ DECLARE t text; BEGIN FOR t IN SELECT tablename FROM pg_tables \
     WHERE schemaname = 'leasehold' AND tablename <> 'schema_version' LOOP \
     EXECUTE format('TRUNCATE leasehold.%I CASCADE', t); END LOOP; END $$";

/// A runner whose record is gone is refused and makes nothing. Who the store is, hosts that are there tell it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_database_refuses_old_runners_and_is_told_again_who_it_is() {
    let Some(database) = Database::create().await else { return };
    let first = store(&database.url).await;
    let held = win(&*first, &job("held"), first.now().await.expect("the time")).await;
    run(&database.url, EMPTY).await;
    assert_eq!(beat(&*first, &job("held"), &held).await.expect("an answer"), HeartbeatAnswer::Refused);
    assert_eq!(finish(&*first, &job("held"), &held).await.expect("an answer"), Accepted::Refused);
    assert_eq!(first.jobs(None, 100).await.expect("jobs").answer, Vec::new(), "a refusal creates nothing");
    let mut db = database.connect().await;
    let calling = async {
        loop {
            beat(&*first, &job("held"), &held).await.expect("an answer");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        never = calling => never,
        () = until(&mut db, "SELECT count(*) = 1 FROM leasehold.identities") => {}
    }
    let second = store(&database.url).await;
    assert_eq!(second.identity().await.expect("who"), first.identity().await.expect("who"));
}

/// Where a host that starts is faster, the one that was there keeps who it was, does nothing more and says what to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_does_not_go_on_in_a_database_that_another_has_made_anew() {
    let Some(database) = Database::create().await else { return };
    let first = store(&database.url).await;
    let before = first.identity().await.expect("who");
    run(&database.url, EMPTY).await;
    let second = store(&database.url).await;
    assert_ne!(second.identity().await.expect("who"), before);
    let now = second.now().await.expect("the time");
    let refused = async {
        for n in 0.. {
            let ask = claim(slot(now + Duration::from_millis(n)));
            if let Err(error) = first.claim(&job("a"), &ask).await {
                return (ask, error);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        unreachable!("the loop does not end")
    };
    let (ask, error) = timeout(PATIENCE, refused).await.expect("it finds out");
    let said = told(&error);
    assert!(matches!(error, StoreError::NotSent { .. }) && said.contains("restart this host"), "{said}");
    assert_eq!(status(&*second, &job("a"), &ask.run).await, None, "nothing was done");
    assert_eq!(first.identity().await.expect("who"), before, "idempotency keys stay the same in a process");
    win(&*second, &job("b"), now).await;
}
