//! What is wrong at start is said in one message, with what to do.

use std::time::Duration;

use leasehold_lease::op::{ClaimAnswer, HeartbeatAnswer};
use leasehold_test_servers::Tarpit;
use sqlx::Executor;
use tokio::time::timeout;

use super::support::{Database, END_SESSIONS, beside, own_server, run, store};
use crate::error::StoreError;
use crate::postgres::{ConnectError, PostgresStore};
use crate::store::LeaseStore;
use crate::test_support::{ENDS, PATIENCE, beat, claim, job, slot, told, until_answered, win};

async fn refused(url: &str) -> ConnectError {
    let connecting = timeout(ENDS * 2, PostgresStore::connect(url, "leasehold")).await.expect("it ends by itself");
    let error = connecting.err().expect("it is refused");
    assert!(!told(&error).contains("leasehold-test") && !told(&error).contains("s3cret"), "a password: {error:?}");
    error
}

#[tokio::test]
async fn a_url_that_is_none_is_refused() {
    for url in ["", "mysql://h/d", "postgres://u:s3cret@h:port/d", "postgres://h/d?pooler=statement"] {
        let error = refused(url).await;
        assert!(matches!(error, ConnectError::Url { .. }), "{url}: {}", told(&error));
    }
    let long = "n".repeat(65);
    for namespace in ["", "a\nb", long.as_str()] {
        let error = PostgresStore::connect("postgres://h/d", namespace).await.err().expect("it is refused");
        assert!(matches!(error, ConnectError::Namespace { .. }), "{}", told(&error));
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_or_says_nothing_is_told_apart() {
    let error = refused("postgres://u:s3cret@127.0.0.1:9/d").await;
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{}", told(&error));
    let tarpit = Tarpit::start().await.expect("a tarpit");
    let error = refused(&format!("postgres://u:s3cret@127.0.0.1:{}/d", tarpit.port())).await;
    assert!(matches!(error, ConnectError::Silent { .. }), "{}", told(&error));
}

#[tokio::test]
async fn a_wrong_password_and_a_missing_database_are_told_apart() {
    let Some(database) = Database::create().await else { return };
    let (start, end) = database.url.split_once('@').expect("a user");
    let (start, _) = start.rsplit_once(':').expect("a password");
    let error = refused(&format!("{start}:s3cret@{end}")).await;
    assert!(matches!(error, ConnectError::Login { .. }), "{}", told(&error));
    let error = refused(&beside(&database.url, "no_such_database")).await;
    assert!(matches!(error, ConnectError::NoDatabase { .. }), "{}", told(&error));
}

/// A user that may not make the schema, one that may not use it, and one that may not connect any more.
#[tokio::test]
async fn a_user_without_rights_is_told_which() {
    let Some(server) = own_server(&[]).await else { return };
    let admin = server.url();
    run(&admin, "CREATE USER guest PASSWORD 'leasehold-test'").await;
    let guest = admin.replacen("postgres:leasehold-test@", "guest:leasehold-test@", 1);
    let error = refused(&guest).await;
    assert!(matches!(error, ConnectError::NoRights { .. }) && told(&error).contains("GRANT"), "{}", told(&error));
    // What was granted is enough.
    run(&admin, "GRANT CREATE ON DATABASE postgres TO guest").await;
    store(&guest).await;
    run(&admin, "ALTER USER guest CONNECTION LIMIT 0").await;
    let error = refused(&guest).await;
    assert!(matches!(error, ConnectError::Full { .. }), "{}", told(&error));
    run(&admin, "CREATE USER other PASSWORD 'leasehold-test'").await;
    let error = refused(&admin.replacen("postgres:leasehold-test@", "other:leasehold-test@", 1)).await;
    assert!(matches!(error, ConnectError::NoRights { .. }), "{}", told(&error));
}

#[tokio::test]
async fn a_database_that_only_reads_is_refused_and_one_that_does_so_later_is_left() {
    let Some(server) = own_server(&[]).await else { return };
    let url = server.url();
    let store = store(&url).await;
    let now = store.now().await.expect("the time");
    let held = win(&*store, &job("held"), now).await;
    run(&url, "ALTER DATABASE postgres SET default_transaction_read_only = on").await;
    let error = refused(&url).await;
    assert!(matches!(error, ConnectError::ReadOnly { .. }), "{}", told(&error));
    // Connections that are there write on; new ones do not.
    run(&url, END_SESSIONS).await;
    let ask = claim(slot(now + Duration::from_millis(1)));
    let refused = async {
        loop {
            let error = store.claim(&job("a"), &ask).await.expect_err("it only reads");
            // Until then a connection had not noticed that it was ended.
            if told(&error).contains("25006") {
                return error;
            }
        }
    };
    let error = timeout(PATIENCE, refused).await.expect("it finds out");
    assert!(matches!(error, StoreError::NotSent { .. }) && told(&error).contains("only reads"), "{}", told(&error));
    // An administrator's session may write all the same.
    run(&url, "SET TRANSACTION READ WRITE; ALTER DATABASE postgres RESET default_transaction_read_only").await;
    let answer = until_answered(async || store.claim(&job("a"), &ask).await).await;
    assert_eq!((matches!(answer.answer, ClaimAnswer::Won { .. }), answer.revision), (true, 1), "not done before");
    let renewed = until_answered(async || beat(&*store, &job("held"), &held).await).await;
    assert!(matches!(renewed, HeartbeatAnswer::Renewed { .. }));
}

/// A standby is refused until it becomes the primary, and a store that it served before goes on then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_is_refused_until_it_is_promoted() {
    let Some(mut server) = own_server(&[]).await else { return };
    let url = server.url();
    let store = store(&url).await;
    let now = store.now().await.expect("the time");
    let held = win(&*store, &job("held"), now).await;
    server.restart_as_standby().await.expect("it is a standby");
    let error = refused(&url).await;
    assert!(matches!(&error, ConnectError::ReadOnly { reason, .. } if reason.contains("standby")), "{}", told(&error));
    let refused = async {
        loop {
            let error = beat(&*store, &job("held"), &held).await.expect_err("it only reads");
            if told(&error).contains("25006") {
                return error;
            }
        }
    };
    let error = timeout(PATIENCE, refused).await.expect("it finds out");
    assert!(matches!(error, StoreError::NotSent { .. }), "{}", told(&error));
    run(&url, "SELECT pg_promote()").await;
    PostgresStore::connect(&url, "leasehold").await.expect("it is the primary now");
    let renewed = until_answered(async || beat(&*store, &job("held"), &held).await).await;
    assert!(matches!(renewed, HeartbeatAnswer::Renewed { .. }), "what was acknowledged is kept");
}

/// What a disk that is full makes of a call: nothing was done, and the message says what to do.
#[tokio::test]
async fn a_full_disk_is_told_and_nothing_is_done() {
    let Some(database) = Database::create().await else { return };
    let store = store(&database.url).await;
    let mut db = database.connect().await;
    // A disk cannot be filled here, so the server says what it would say then.
    db.execute(
        "CREATE OR REPLACE FUNCTION leasehold.clock() RETURNS bigint LANGUAGE plpgsql AS \
         $$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$",
    )
    .await
    .expect("the clock is replaced");
    let error = store.now().await.expect_err("it fails");
    assert!(matches!(error, StoreError::NotSent { .. }), "{}", told(&error));
    assert!(told(&error).contains("disk is full"), "{}", told(&error));
}

/// A look must not give a namespace that was emptied a new identity: hosts that still work in it would refuse it.
#[tokio::test]
async fn to_ask_whether_a_namespace_is_there_does_not_make_it() {
    let Some(database) = Database::create().await else { return };
    for pooler in ["", "?pooler=transaction"] {
        let url = format!("{}{pooler}", database.url);
        assert!(!PostgresStore::exists(&url, "prod").await.expect("an answer"), "{pooler}: no schema");
    }
    let schema = "SELECT 1 FROM pg_namespace WHERE nspname = 'leasehold'";
    let mut db = database.connect().await;
    assert!(db.fetch_optional(schema).await.expect("an answer").is_none());
    drop(store(&database.url).await);
    assert!(PostgresStore::exists(&database.url, "leasehold").await.expect("an answer"));
    assert!(!PostgresStore::exists(&database.url, "prod").await.expect("an answer"));
    db.execute("TRUNCATE leasehold.identities CASCADE").await.expect("emptied");
    assert!(!PostgresStore::exists(&database.url, "leasehold").await.expect("an answer"));
}
