//! How punctual heartbeats are.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_lease::agent::Input;
use leasehold_lease::id::{JobKey, JobName, RunId, TenantName, Token};
use leasehold_lease::op::{Claim, ClaimAnswer, ClaimKind};
use leasehold_lease::policy::Policy;
use leasehold_lease::time::{Mono, Slot};
use leasehold_store::memory::MemoryStore;
use leasehold_store::{LeaseStore, StoreError};
use tokio::sync::watch;

use crate::clock::{self, StoreClock};
use crate::driver::{Down, News, NewsSender};
use crate::heartbeat::{Heart, Hold, Sent};

/// Heartbeats could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum GapsError {
    /// The store did not take a claim.
    #[error("the store of the benchmark failed")]
    Store(#[from] StoreError),
    /// It answered something else.
    #[error("the store of the benchmark answered a claim with {0}")]
    Answer(String),
    /// The system gave no thread or timer for the heartbeats.
    #[error("the heartbeat thread could not be started")]
    Heartbeat(#[source] io::Error),
    /// A lease was lost.
    #[error("a run of the benchmark was lost")]
    Lost,
}

/// Keeps the leases of `runs` runs, in memory, until together they have sent `beats` heartbeats after their first, and answers
/// the times between two of the same run. It is the thread and the code that keep a host's leases.
///
/// # Errors
/// See [`GapsError`].
pub async fn heartbeat_gaps(runs: u32, heartbeat: Duration, beats: usize) -> Result<Vec<Duration>, GapsError> {
    let store = Arc::new(MemoryStore::new());
    let (news, mut heard) = NewsSender::new();
    let (count, mut counted) = watch::channel(0);
    let gaps = Arc::new(Mutex::new(Gaps::default()));
    let ours = gaps.clone();
    let sent: Sent = Arc::new(move |beats| {
        let mut gaps = ours.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::mono();
        beats.iter().for_each(|(_, beat)| gaps.sent(beat.token, now));
        count.send_replace(gaps.all.len());
    });
    let heart = Heart::start_watched(store.clone(), Arc::new(StoreClock::new()), news, Down::default(), Some(sent))
        .map_err(GapsError::Heartbeat)?;
    let policy = Policy { heartbeat, ..Policy::with_lease(Duration::from_secs(30).max(heartbeat * 6)) };
    for n in 0..runs {
        heart.hold(claim(&*store, n, &policy).await?);
        // Apart from each other, as runs of many jobs are: what is due together shares a call.
        tokio::time::sleep(heartbeat / runs).await;
    }
    loop {
        tokio::select! {
            enough = counted.wait_for(|count| *count >= beats) => {
                enough.map_err(|_| GapsError::Lost)?;
                break;
            }
            Some(news) = heard.recv() => {
                if matches!(news, News::Input(_, Input::Lost(..) | Input::Uncertain(..))) {
                    return Err(GapsError::Lost);
                }
            }
        }
    }
    let gaps = gaps.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(gaps.all.clone())
}

#[derive(Default)]
struct Gaps {
    last: HashMap<[u8; 16], Mono>,
    all: Vec<Duration>,
}

impl Gaps {
    fn sent(&mut self, token: Token, now: Mono) {
        if let Some(before) = self.last.insert(token.0, now) {
            self.all.push(now.since(before));
        }
    }
}

async fn claim(store: &dyn LeaseStore, n: u32, policy: &Policy) -> Result<Hold, GapsError> {
    let name = |text: String| text.parse::<JobName>().map_err(|error| GapsError::Answer(error.to_string()));
    let tenant = "bench".parse::<TenantName>().map_err(|error| GapsError::Answer(error.to_string()))?;
    let job = JobKey { tenant, name: name(format!("run-{n}"))? };
    let (first_sent, now) = (clock::mono(), store.now().await?);
    let run = RunId::Slot(Slot(now));
    let token = Token(u128::from(n).to_be_bytes());
    let claim = Claim {
        run: run.clone(),
        kind: ClaimKind::Slot,
        token,
        runner: "bench".to_owned(),
        digest: None,
        terms: policy.terms(),
        not_after: now + Duration::from_secs(60),
    };
    match store.claim(&job, &claim).await?.answer {
        ClaimAnswer::Won { .. } => Ok(Hold { job, run, token, policy: policy.clone(), first_sent, guest: None }),
        other => Err(GapsError::Answer(format!("{other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_run_s_heartbeats_are_counted_apart() {
        let gaps = heartbeat_gaps(3, Duration::from_millis(50), 12).await.unwrap();
        assert!(gaps.len() >= 12);
        // Never early by more than the rounding of timers: a late one may be followed by one that is in time.
        assert!(gaps.iter().sum::<Duration>() >= Duration::from_millis(40) * 12, "{gaps:?}");
    }
}
