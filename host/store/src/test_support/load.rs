//! A load that goes on through faults, and remembers what it was told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leasehold_lease::id::RunKey;
use leasehold_lease::op::{Accepted, ClaimAnswer};
use leasehold_lease::run::Status;
use leasehold_lease::time::Millis;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::words::{PATIENCE, answered_after, beat, claim, finish, job, key, slot};
use crate::store::LeaseStore;

/// Claims, beats and finishes in eight jobs until it is told to stop. Each step is sent again until it is answered.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    errors: Arc<AtomicU64>,
    tasks: JoinSet<Vec<RunKey>>,
}

impl Load {
    /// Spread over these stores, which are one, with slots from this instant on.
    pub(crate) fn on(stores: Vec<Arc<dyn LeaseStore>>, start: Millis) -> Load {
        let mut load =
            Load { stop: Arc::default(), done: Arc::default(), errors: Arc::default(), tasks: JoinSet::new() };
        for n in 0..8 {
            let (store, stop) = (stores[n % stores.len()].clone(), load.stop.clone());
            let (done, errors) = (load.done.clone(), load.errors.clone());
            load.tasks.spawn(async move {
                let job = job(&format!("load-{n}"));
                let mut finished = Vec::new();
                for at in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let ask = claim(slot(Millis(start.0 + at)));
                    let (answer, first) = answered_after(|| store.claim(&job, &ask)).await;
                    assert!(matches!(answer.answer, ClaimAnswer::Won { .. }), "{answer:?}");
                    let (_, second) = answered_after(|| beat(&*store, &job, &ask)).await;
                    let (accepted, third) = answered_after(|| finish(&*store, &job, &ask)).await;
                    assert_eq!(accepted, Accepted::Done, "{}", ask.run);
                    finished.push(key(&job, &ask.run));
                    errors.fetch_add(first + second + third, Ordering::SeqCst);
                    done.fetch_add(1, Ordering::SeqCst);
                }
                finished
            });
        }
        load
    }

    /// Waits until this many more runs are done.
    pub(crate) async fn goes_on(&self, more: u64) {
        let target = self.done.load(Ordering::SeqCst) + more;
        let reached = async {
            while self.done.load(Ordering::SeqCst) < target {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(PATIENCE, reached).await.expect("the load goes on");
    }

    /// Ends it, and answers how many errors there were and which runs were finished.
    pub(crate) async fn end(mut self) -> (u64, Vec<RunKey>) {
        self.stop.store(true, Ordering::SeqCst);
        let mut finished = Vec::new();
        while let Some(ended) = self.tasks.join_next().await {
            finished.extend(ended.expect("the load has no other error"));
        }
        (self.errors.load(Ordering::SeqCst), finished)
    }
}

/// What was acknowledged is there.
pub(crate) async fn all_recorded(store: &dyn LeaseStore, finished: &[RunKey]) {
    assert!(!finished.is_empty(), "the load did something");
    for part in finished.chunks(500) {
        for found in store.check(part).await.expect("an answer").answer {
            let status = found.standing.map(|standing| standing.status);
            assert_eq!(status, Some(Status::Success), "{}", found.key);
        }
    }
}
