//! Hints of the store that something of a job was released or triggered just now.

use std::collections::BTreeSet;

use leasehold_lease::id::JobKey;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

/// What the store hints at; none where it cannot.
pub(super) struct Hints(Option<Receiver<JobKey>>);

/// What has come since the last look.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Hint {
    /// These jobs, each once however often it was named.
    Jobs(BTreeSet<JobKey>),
    /// More than could be kept: any job.
    Missed,
}

impl Hints {
    pub(super) fn new(from: Option<Receiver<JobKey>>) -> Hints {
        Hints(from)
    }

    /// Waits for hints, for ever where none come. Safe to drop.
    pub(super) async fn next(&mut self) -> Hint {
        let Some(from) = &mut self.0 else { return std::future::pending().await };
        let mut jobs = match from.recv().await {
            Ok(job) => BTreeSet::from([job]),
            Err(RecvError::Lagged(_)) => return Hint::Missed,
            Err(RecvError::Closed) => {
                self.0 = None;
                return std::future::pending().await;
            }
        };
        loop {
            match from.try_recv() {
                Ok(job) => {
                    jobs.insert(job);
                }
                Err(TryRecvError::Lagged(_)) => return Hint::Missed,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return Hint::Jobs(jobs),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::broadcast;

    use super::*;

    #[tokio::test]
    async fn hints_that_came_together_are_one_and_lost_ones_are_told() {
        let job = |name: &str| name.parse::<JobKey>().expect("a job");
        let (send, from) = broadcast::channel(4);
        let mut hints = Hints::new(Some(from));
        for name in ["a/x", "a/y", "a/x"] {
            send.send(job(name)).expect("somebody listens");
        }
        assert_eq!(hints.next().await, Hint::Jobs([job("a/x"), job("a/y")].into()));
        for _ in 0..5 {
            send.send(job("a/x")).expect("somebody listens");
        }
        assert_eq!(hints.next().await, Hint::Missed);
    }
}
