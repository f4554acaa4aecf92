//! The words that the tests are written in.

use std::time::Duration;

use leasehold_lease::id::{JobKey, RunId, RunKey, Token};
use leasehold_lease::op::{Accepted, Claim, ClaimAnswer, ClaimKind, Finish, Heartbeat, HeartbeatAnswer};
use leasehold_lease::policy::{Overlap, Policy, Terms};
use leasehold_lease::run::{Outcome, Status, Usage};
use leasehold_lease::time::{Millis, Slot};
use tokio::time::timeout;

use crate::error::StoreError;
use crate::store::LeaseStore;

/// How long a test waits for a state before it fails: long, since no test is about this bound.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A call ends by itself a little after its limit, on a machine that is busy too.
pub(crate) const ENDS: Duration = Duration::from_secs(4);

pub(crate) fn job(name: &str) -> JobKey {
    name.parse().expect("a job")
}

pub(crate) fn slot(at: Millis) -> RunId {
    RunId::Slot(Slot(at))
}

pub(crate) fn key(job: &JobKey, run: &RunId) -> RunKey {
    RunKey { job: job.clone(), run: run.clone() }
}

/// The contract's policy, runs side by side.
pub(crate) fn allowing() -> Terms {
    Policy { overlap: Overlap::Allow, ..Policy::default() }.terms()
}

/// A claim of the run by its slot, with a new token.
pub(crate) fn claim(run: RunId) -> Claim {
    let mut token = [0; 16];
    getrandom::fill(&mut token).expect("random bits");
    let (token, runner, not_after) = (Token(token), "host-1".to_owned(), Millis(i64::MAX));
    Claim { run, kind: ClaimKind::Slot, token, runner, digest: None, terms: allowing(), not_after }
}

/// Claims the slot and wins it.
pub(crate) async fn win(store: &dyn LeaseStore, job: &JobKey, at: Millis) -> Claim {
    let ask = claim(slot(at));
    let answer = store.claim(job, &ask).await.expect("an answer").answer;
    assert!(matches!(answer, ClaimAnswer::Won { .. }), "{answer:?}");
    ask
}

pub(crate) async fn beat(store: &dyn LeaseStore, job: &JobKey, won: &Claim) -> Result<HeartbeatAnswer, StoreError> {
    let beat = Heartbeat { run: won.run.clone(), token: won.token, progress: None };
    let mut answers = store.heartbeats(&[(job.clone(), beat)]).await?;
    answers.pop().expect("an answer for each").map(|stamped| stamped.answer)
}

pub(crate) async fn finish(store: &dyn LeaseStore, job: &JobKey, won: &Claim) -> Result<Accepted, StoreError> {
    let outcome = Outcome::Success { output: b"done".to_vec(), cut: false };
    let finish = Finish { run: won.run.clone(), token: won.token, outcome, usage: Usage::default() };
    store.finish(job, &finish).await.map(|stamped| stamped.answer)
}

/// The run's status, if the store knows it.
pub(crate) async fn status(store: &dyn LeaseStore, job: &JobKey, run: &RunId) -> Option<Status> {
    store.show(&key(job, run)).await.expect("an answer").answer.map(|view| view.run.status)
}

/// Asks again and again until the answer is there, as hosts do after `NotSent` and `Unknown`. Answers after how many
/// errors that was.
pub(crate) async fn answered_after<A, F>(mut ask: impl FnMut() -> F) -> (A, u64)
where
    F: Future<Output = Result<A, StoreError>>,
{
    let asking = async {
        let mut errors = 0;
        loop {
            match ask().await {
                Ok(answer) => return (answer, errors),
                Err(StoreError::NotSent { .. } | StoreError::Unknown { .. }) => {
                    errors += 1;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(error) => panic!("{}", told(&error)),
            }
        }
    };
    timeout(PATIENCE, asking).await.expect("the store comes back")
}

/// The same, without the number.
pub(crate) async fn until_answered<A, F>(ask: impl FnMut() -> F) -> A
where
    F: Future<Output = Result<A, StoreError>>,
{
    answered_after(ask).await.0
}

/// An error with its causes.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
