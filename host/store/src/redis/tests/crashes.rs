//! Client processes that are killed.

use std::env;
use std::process::Command;

use leasehold_test_servers::{ServerError, or_skip, shared_redis, shared_valkey};

use super::support::namespace;
use crate::conformance::{CRASH_WORK, a_client_killed_at_any_step_leaves_each_step_done_once, work_until_killed};
use crate::redis::RedisStore;

/// Tells a client process where the store is.
const URL: &str = "LEASEHOLD_TEST_CRASH_URL";

/// And in which namespace.
const NAMESPACE: &str = "LEASEHOLD_TEST_CRASH_NAMESPACE";

#[tokio::test]
async fn a_process_killed_at_any_step_leaves_each_step_done_once_on_redis() {
    a_process_is_killed_at_each_step(shared_redis().await).await;
}

#[tokio::test]
async fn a_process_killed_at_any_step_leaves_each_step_done_once_on_valkey() {
    a_process_is_killed_at_each_step(shared_valkey().await).await;
}

async fn a_process_is_killed_at_each_step(server: Result<String, ServerError>) {
    let Some(url) = or_skip(server) else { return };
    let namespace = namespace();
    let client = || {
        let mut client = Command::new(env::current_exe().expect("this program"));
        client.args(["--exact", "redis::tests::crashes::a_process_is_killed", "--nocapture", "--ignored"]);
        client.env(URL, &url).env(NAMESPACE, &namespace);
        client
    };
    let store = RedisStore::connect(&url, &namespace).await.expect("a store");
    a_client_killed_at_any_step_leaves_each_step_done_once(&store, client).await;
}

#[tokio::test]
#[ignore = "a part of a_process_killed_at_any_step_leaves_each_step_done_once, which starts it"]
async fn a_process_is_killed() {
    if env::var_os(CRASH_WORK).is_none() {
        return eprintln!("skipped: it is started by another test");
    }
    let var = |name| env::var(name).expect("the test that starts this process sets it");
    work_until_killed(&RedisStore::connect(&var(URL), &var(NAMESPACE)).await.expect("a store")).await;
}
