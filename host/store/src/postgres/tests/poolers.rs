//! PgBouncer between the hosts and the server.

use std::sync::Arc;

use leasehold_test_servers::{PgBouncer, PoolMode, or_skip};
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor};

use super::support::{own_server, store};
use crate::postgres::{ConnectError, PostgresStore};
use crate::store::LeaseStore;
use crate::test_support::{Load, all_recorded, told};

/// With the flag, three hosts share two server connections: all rules hold without a session of one's own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hosts_share_two_connections_of_a_transaction_pooler() {
    let Some(server) = own_server(&[]).await else { return };
    let pool = [("default_pool_size", "2")];
    let started = PgBouncer::start_with(&server, PoolMode::Transaction, &pool).await;
    let Some(pooler) = or_skip(started) else { return };
    let url = format!("{}?pooler=transaction", pooler.url());
    let stores: Vec<Arc<dyn LeaseStore>> = vec![store(&url).await, store(&url).await, store(&url).await];
    let load = Load::on(stores.clone(), stores[0].now().await.expect("the time"));
    load.goes_on(300).await;
    let (errors, finished) = load.end().await;
    assert_eq!(errors, 0, "no call has failed");
    all_recorded(&*stores[0], &finished).await;
    let identity = stores[0].identity().await.expect("an identity");
    assert_eq!(stores[1].identity().await.expect("an identity"), identity);
}

/// Without the flag a transaction pooler is refused at start with the hint, whether or not it takes session settings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_pooler_without_the_flag_is_refused_with_the_hint() {
    let Some(server) = own_server(&[]).await else { return };
    let lenient = [("ignore_startup_parameters", "extra_float_digits,options")];
    for settings in [&[][..], &lenient] {
        let started = PgBouncer::start_with(&server, PoolMode::Transaction, settings).await;
        let Some(pooler) = or_skip(started) else { return };
        let refused = PostgresStore::connect(&pooler.url(), "leasehold").await.err().expect("it is refused");
        assert!(matches!(refused, ConnectError::Pooler { .. }), "{}", told(&refused));
        assert!(refused.to_string().contains("?pooler=transaction"), "{refused}");
    }
}

/// So is one that gives out its connections in turn, where two clients at first meet two processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_takes_turns_is_refused_without_the_flag() {
    let Some(server) = own_server(&[]).await else { return };
    let settings = [("ignore_startup_parameters", "extra_float_digits,options"), ("server_round_robin", "1")];
    let started = PgBouncer::start_with(&server, PoolMode::Transaction, &settings).await;
    let Some(pooler) = or_skip(started) else { return };
    // Two at once, so that it has two connections.
    let url = pooler.url();
    let busy = || async {
        let mut db = PgConnection::connect(&url).await.expect("a connection");
        db.execute("SELECT pg_sleep(0.5)").await.expect("a while");
    };
    tokio::join!(busy(), busy());
    let refused = PostgresStore::connect(&url, "leasehold").await.err().expect("it is refused");
    assert!(matches!(refused, ConnectError::Pooler { .. }), "{}", told(&refused));
}

/// A pooler that is restarted costs errors that say so, and no restart of the host.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_pooler_is_used_again() {
    let Some(server) = own_server(&[]).await else { return };
    let started = PgBouncer::start(&server, PoolMode::Transaction).await;
    let Some(mut pooler) = or_skip(started) else { return };
    let store = store(&format!("{}?pooler=transaction", pooler.url())).await;
    let load = Load::on(vec![store.clone()], store.now().await.expect("the time"));
    load.goes_on(20).await;
    pooler.kill().await.expect("killed");
    pooler.restart().await.expect("restarted");
    load.goes_on(20).await;
    all_recorded(&*store, &load.end().await.1).await;
}
