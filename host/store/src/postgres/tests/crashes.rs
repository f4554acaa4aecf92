//! Client processes that are killed.

use std::env;
use std::process::Command;

use crate::conformance::{CRASH_WORK, a_client_killed_at_any_step_leaves_each_step_done_once, work_until_killed};

use super::support::{Database, store};

/// Tells a client process where the store is.
const URL: &str = "LEASEHOLD_TEST_CRASH_URL";

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_process_killed_at_any_step_leaves_each_step_done_once() {
    let Some(database) = Database::create().await else { return };
    let client = || {
        let mut client = Command::new(env::current_exe().expect("this program"));
        client.args(["--exact", "postgres::tests::crashes::a_process_is_killed", "--nocapture", "--ignored"]);
        client.env(URL, &database.url);
        client
    };
    a_client_killed_at_any_step_leaves_each_step_done_once(&*store(&database.url).await, client).await;
}

#[tokio::test]
#[ignore = "a part of a_process_killed_at_any_step_leaves_each_step_done_once, which starts it"]
async fn a_process_is_killed() {
    if env::var_os(CRASH_WORK).is_none() {
        return eprintln!("skipped: it is started by another test");
    }
    work_until_killed(&*store(&env::var(URL).expect("a URL")).await).await;
}
