//! What is said at start about a server that cannot be used, or only at a risk.

use leasehold_test_servers::{Redis, RedisKind, RedisOptions, or_skip};

use super::support::{namespace, own_server, run, store};
use crate::redis::scripts::LAYOUT;
use crate::redis::{ConnectError, RedisStore, Warning};
use crate::store::LeaseStore;
use crate::test_support::{PATIENCE, job, told, win};

async fn refused(url: &str) -> ConnectError {
    RedisStore::connect(url, "prod").await.err().expect("it is no store")
}

/// The URL with this before the host.
fn as_user(url: &str, user: &str) -> String {
    url.replace("redis://", &format!("redis://{user}@"))
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_with_its_address() {
    let Some(mut server) = own_server(&[]).await else { return };
    server.stop().await.expect("stopped");
    let error = refused(&as_user(&server.url(), "u:secret")).await;
    let told = told(&error);
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{told}");
    assert!(told.contains(&server.port().to_string()) && !told.contains("secret"), "{told}");
    assert!(told.contains("is the server running there"), "{told}");
}

#[tokio::test]
async fn a_plain_server_asked_for_tls_is_told() {
    let Some(server) = own_server(&[]).await else { return };
    let error = refused(&server.url().replace("redis://", "rediss://")).await;
    assert!(matches!(error, ConnectError::Unreachable { .. } | ConnectError::Silent { .. }), "{}", told(&error));
}

#[tokio::test]
async fn a_wrong_password_and_a_missing_one_are_told_apart() {
    let options = RedisOptions { password: Some("secret".into()), ..RedisOptions::default() };
    let Some(server) = or_skip(Redis::start_with(RedisKind::Redis, options).await) else { return };
    let bare = format!("redis://127.0.0.1:{}", server.port());
    assert!(matches!(refused(&bare).await, ConnectError::NoPassword { .. }), "{}", told(&refused(&bare).await));
    for user in [":wr0ng", "nobody:wr0ng"] {
        let error = refused(&as_user(&bare, user)).await;
        assert!(matches!(error, ConnectError::WrongPassword { .. }), "{}", told(&error));
        assert!(!told(&error).contains("wr0ng"), "{}", told(&error));
    }
    RedisStore::connect(&server.url(), "prod").await.expect("the right one is taken");
}

/// A user with no more than the message allows it can do everything.
#[tokio::test]
async fn a_user_who_may_not_is_told_what_to_allow_and_then_may() {
    let Some(server) = own_server(&[]).await else { return };
    let _: () = run(&server.url(), &["ACL", "SETUSER", "app", "on", ">pw"]).await;
    let url = as_user(&server.url(), "app:pw");
    let error = refused(&url).await;
    assert!(matches!(error, ConnectError::NotPermitted { .. }), "{}", told(&error));
    let message = error.to_string();
    let fix = message.split("allow it: ").nth(1).expect("the fix").split(' ').collect::<Vec<_>>();
    let _: () = run(&server.url(), &fix).await;
    let store = store(&url).await;
    assert!(store.warnings().contains(&Warning::NotKept) || store.warnings().contains(&Warning::SnapshotsOnly));
    let now = store.now().await.expect("the time");
    win(&*store, &job("a"), now).await;
    let mut wakeups = store.wakeups().expect("wake-ups");
    let trigger = leasehold_lease::op::Trigger { id: "r".parse().expect("an id"), payload: None, pending_max: 1 };
    store.trigger(&job("a"), &trigger).await.expect("an answer");
    let woken = tokio::time::timeout(PATIENCE, wakeups.recv()).await.expect("it comes");
    assert_eq!(woken.expect("the store lives"), job("a"));
}

/// One that may not look at the server's settings is warned and works.
#[tokio::test]
async fn a_user_who_may_not_ask_for_the_settings_is_warned() {
    let Some(server) = own_server(&[]).await else { return };
    let may = ["ACL", "SETUSER", "app", "on", ">pw", "~leasehold:*", "&leasehold:*", "+@all", "-@dangerous"];
    let _: () = run(&server.url(), &may).await;
    let store = store(&as_user(&server.url(), "app:pw")).await;
    assert_eq!(store.warnings(), [Warning::Unseen]);
    let now = store.now().await.expect("the time");
    win(&*store, &job("a"), now).await;
}

/// A user who may do a part only is refused at start, before a script stops half-way.
#[tokio::test]
async fn a_user_with_a_part_of_the_rights_is_refused() {
    let Some(server) = own_server(&[]).await else { return };
    for lacks in ["-@hash", "-@sortedset", "-@list", "-@set", "-@string"] {
        let may = ["ACL", "SETUSER", "app", "reset", "on", ">pw", "~leasehold:*", "&leasehold:*", "+@all", lacks];
        let _: () = run(&server.url(), &may).await;
        let error = refused(&as_user(&server.url(), "app:pw")).await;
        assert!(matches!(error, ConnectError::NotPermitted { .. }), "{lacks}: {}", told(&error));
    }
    assert_eq!(run::<u64>(&server.url(), &["DBSIZE"]).await, 0, "nothing was made");
}

/// A server that is loading its data is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_loading_is_waited_for() {
    // Each key takes a while to be loaded; in between the server says that it is loading.
    let slow = [("key-load-delay", "4000"), ("loading-process-events-interval-bytes", "1024"), ("save", "3600 1")];
    let Some(mut server) = own_server(&slow).await else { return };
    let fill = "for i = 1, 500 do redis.call('SET', KEYS[1] .. i, string.rep('x', 100) .. i) end";
    let _: () = run(&server.url(), &["EVAL", fill, "1", "filling:"]).await;
    // It writes a snapshot when it is stopped.
    server.stop().await.expect("stopped");
    let url = server.url();
    let connecting = async {
        loop {
            match RedisStore::connect(&url, "prod").await {
                // It is not even there yet.
                Err(ConnectError::Unreachable { .. }) => {
                    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
                }
                answer => return answer,
            }
        }
    };
    let (restarted, store) = tokio::join!(server.restart(), connecting);
    restarted.expect("restarted");
    if let Err(error) = &store {
        panic!("{}", told(error));
    }
    assert_eq!(run::<u64>(&url, &["DBSIZE"]).await, 501, "it had the data to load, and now the store's identity");
}

#[tokio::test]
async fn a_server_that_evicts_is_refused_and_one_that_may_is_warned_of() {
    let Some(server) = own_server(&[("maxmemory", "100mb"), ("maxmemory-policy", "allkeys-lru")]).await else { return };
    let error = refused(&server.url()).await;
    assert!(matches!(&error, ConnectError::Evicts { policy, .. } if policy == "allkeys-lru"), "{error}");
    assert!(error.to_string().contains("set maxmemory-policy noeviction"), "{error}");
    let _: () = run(&server.url(), &["CONFIG", "SET", "maxmemory", "0"]).await;
    let store = store(&server.url()).await;
    assert!(store.warnings().contains(&Warning::MayEvict { policy: "allkeys-lru".into() }));
}

#[tokio::test]
async fn what_a_server_keeps_on_disk_is_told() {
    let Some(server) = own_server(&[]).await else { return };
    assert!(store(&server.url()).await.warnings().contains(&Warning::NotKept));
    let _: () = run(&server.url(), &["CONFIG", "SET", "save", "3600 1"]).await;
    assert!(store(&server.url()).await.warnings().contains(&Warning::SnapshotsOnly));
    let _: () = run(&server.url(), &["CONFIG", "SET", "appendonly", "yes"]).await;
    let _: () = run(&server.url(), &["CONFIG", "SET", "appendfsync", "everysec"]).await;
    let late = Warning::SyncedLate { appendfsync: "everysec".into() };
    assert!(store(&server.url()).await.warnings().contains(&late));
    let _: () = run(&server.url(), &["CONFIG", "SET", "appendfsync", "always"]).await;
    assert_eq!(store(&server.url()).await.warnings(), []);
}

#[tokio::test]
async fn a_newer_layout_is_refused_and_left_alone() {
    let Some(server) = own_server(&[]).await else { return };
    let namespace = namespace();
    RedisStore::connect(&server.url(), &namespace).await.expect("a store");
    let key = format!("leasehold:{{{namespace}}}:about");
    let newer = (LAYOUT + 1).to_string();
    let _: u64 = run(&server.url(), &["HSET", &key, "layout", &newer]).await;
    let error = RedisStore::connect(&server.url(), &namespace).await.err().expect("it is refused");
    assert!(
        matches!(error, ConnectError::Newer { found, known, .. } if found == LAYOUT + 1 && known == LAYOUT),
        "{error}"
    );
    let kept: String = run(&server.url(), &["HGET", &key, "layout"]).await;
    assert_eq!(kept, newer);
}

/// Staging and production in one server see nothing of each other.
#[tokio::test]
async fn two_namespaces_are_apart() {
    let Some(server) = own_server(&[]).await else { return };
    let prod = RedisStore::connect(&server.url(), "prod").await.expect("a store");
    let staging = RedisStore::connect(&server.url(), "staging").await.expect("a store");
    assert_ne!(prod.identity().await.expect("it").id, staging.identity().await.expect("it").id);
    let mut heard = staging.wakeups().expect("wake-ups");
    let now = prod.now().await.expect("the time");
    win(&prod, &job("a"), now).await;
    let trigger = leasehold_lease::op::Trigger { id: "r".parse().expect("an id"), payload: None, pending_max: 1 };
    prod.trigger(&job("a"), &trigger).await.expect("an answer");
    assert_eq!(staging.jobs(None, 100).await.expect("jobs").answer, []);
    win(&staging, &job("a"), now).await;
    staging.trigger(&job("b"), &trigger).await.expect("an answer");
    let woken = tokio::time::timeout(PATIENCE, heard.recv()).await.expect("it comes");
    assert_eq!(woken.expect("the store lives"), job("b"), "the other one's trigger was not heard");
    assert_eq!(prod.jobs(None, 100).await.expect("jobs").answer.len(), 1);
}

/// A look must not give a namespace that was emptied a new identity: hosts that still work in it would refuse it.
#[tokio::test]
async fn to_ask_whether_a_namespace_is_there_does_not_make_it() {
    let Some(server) = own_server(&[]).await else { return };
    for _ in 0..2 {
        assert!(!RedisStore::exists(&server.url(), "prod").await.expect("an answer"));
    }
    drop(RedisStore::connect(&server.url(), "prod").await.expect("a store"));
    assert!(RedisStore::exists(&server.url(), "prod").await.expect("an answer"));
    assert!(!RedisStore::exists(&server.url(), "pro").await.expect("an answer"));
    let _: () = run(&server.url(), &["FLUSHALL"]).await;
    assert!(!RedisStore::exists(&server.url(), "prod").await.expect("an answer"));
}
