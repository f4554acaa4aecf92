//! What is kept for people.

use leasehold_lease::time::Millis;
use sqlx::{Connection, Executor};

use super::support::{Database, store};
use crate::store::LeaseStore;
use crate::test_support::{job, key, slot, win};
use crate::view::{ANSWERS_KEPT, HostAnswer};

/// Hosts that trim what they were told about the same job never wait for each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_host_trims_is_left_to_it() {
    let Some(database) = Database::create().await else { return };
    let store = store(&database.url).await;
    let now = store.now().await.expect("the time");
    win(&*store, &job("a"), now).await;
    let told = |n: usize| HostAnswer {
        run: key(&job("a"), &slot(now)),
        host: "host-1".to_owned(),
        at: Millis(now.0),
        asked: format!("{n}"),
        answer: String::new(),
        detail: String::new(),
    };
    let full: Vec<_> = (0..ANSWERS_KEPT).map(told).collect();
    store.keep_answers(&full).await.expect("kept");
    let mut other = database.connect().await;
    let mut trimming = other.begin().await.expect("a transaction");
    trimming.execute("SELECT FROM leasehold.told ORDER BY id LIMIT 1 FOR UPDATE").await.expect("the oldest is held");
    store.keep_answers(&[told(ANSWERS_KEPT), told(ANSWERS_KEPT + 1)]).await.expect("kept, while another trims");
    let left = "SELECT (min((body::json->>'asked')::integer), count(*)) = (0, 1001) FROM leasehold.told";
    assert!(sqlx::query_scalar::<_, bool>(left).fetch_one(&mut *trimming).await.expect("a look"), "the second is gone");
    trimming.rollback().await.expect("the oldest is free");
    store.keep_answers(&[told(ANSWERS_KEPT + 2)]).await.expect("kept");
    let all = store.answers(&job("a"), None, usize::MAX >> 1).await.expect("what was told");
    assert_eq!((all.len(), all.last().map(|told| told.asked.as_str())), (ANSWERS_KEPT, Some("3")));
}
