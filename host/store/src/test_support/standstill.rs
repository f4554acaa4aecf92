//! A host whose runtime does nothing for a while.

use std::sync::Arc;

use leasehold_lease::op::HeartbeatAnswer;
use tokio::runtime::{Builder, Handle, RuntimeFlavor};

use super::words::{beat, job, win};
use crate::store::LeaseStore;

/// H7: the runtime that opened the store, this one, stands still, and leases are renewed all the same.
pub(crate) async fn heartbeats_go_on_while_the_runtime_stands_still(store: Arc<dyn LeaseStore>) {
    let flavor = Handle::current().runtime_flavor();
    assert_eq!(flavor, RuntimeFlavor::CurrentThread, "a runtime of more threads would not stand still");
    let now = store.now().await.expect("the time");
    let won = win(&*store, &job("a"), now).await;
    let beating = std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async { beat(&*store, &job("a"), &won).await })
    });
    // This holds up the only thread of the test's runtime.
    let renewed = beating.join().expect("no panic").expect("an answer");
    assert!(matches!(renewed, HeartbeatAnswer::Renewed { .. }), "{renewed:?}");
}
