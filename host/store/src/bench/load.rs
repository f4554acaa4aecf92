//! What hosts do to a store, as fast as it answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use leasehold_lease::id::{Digest, JobKey, RunId, Token};
use leasehold_lease::op::{Accepted, Claim, ClaimAnswer, ClaimKind, Finish, Heartbeat, HeartbeatAnswer, Stamped};
use leasehold_lease::policy::Policy;
use leasehold_lease::run::{Outcome, Usage};
use leasehold_lease::time::{Millis, Slot};
use tokio::task::JoinSet;

use super::error::BenchError;
use crate::clock::since_boot;
use crate::error::StoreError;
use crate::store::LeaseStore;

/// Pairs of a round at most, so that a quick store does not fill its memory.
const MOST_PAIRS: u64 = 50_000;

/// Jobs that each caller takes in turn, as a host that has several.
const JOBS_EACH: usize = 20;

/// How often a call is sent again that was not answered, as a host does.
const SENT_AGAIN: u32 = 5;

/// Slots lie behind the present by so much at first, and each run takes a new one, a millisecond later than the last.
const BEHIND: Duration = Duration::from_secs(12 * 60 * 60);

/// So that no slot of a benchmark is late. Nothing else depends on it.
const MAX_LATE: Duration = Duration::from_secs(24 * 60 * 60);

/// A lease that outlives the benchmark.
const LEASE: Duration = Duration::from_secs(60 * 60);

/// Jobs of one tenant, as many as a tenant may have unless it is allowed more.
const JOBS_OF_A_TENANT: usize = 100;

/// A store and the callers of it.
#[derive(Clone)]
pub(super) struct Load {
    store: Arc<dyn LeaseStore>,
    shared: Arc<Shared>,
}

struct Shared {
    /// The next slot, and the part of the next token that differs.
    next: AtomicI64,
    /// The part of all tokens that nobody else has.
    nonce: [u8; 8],
    finished: AtomicU64,
    sent_again: AtomicU64,
}

/// A run that was won.
struct Won {
    run: RunId,
    token: Token,
    took: Duration,
}

impl Load {
    /// On this store.
    pub(super) async fn new(store: Arc<dyn LeaseStore>) -> Result<Load, BenchError> {
        let mut nonce = [0; 8];
        getrandom::fill(&mut nonce)?;
        let now = store.now().await.map_err(|source| BenchError::Store { times: 1, source })?;
        let next = AtomicI64::new((now - BEHIND).0);
        let (finished, sent_again) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Load { store, shared: Arc::new(Shared { next, nonce, finished, sent_again }) })
    }

    /// Runs that were finished until now.
    pub(super) fn finished(&self) -> u64 {
        self.shared.finished.load(Ordering::Relaxed)
    }

    /// Calls that were sent again because they were not answered.
    pub(super) fn sent_again(&self) -> u64 {
        self.shared.sent_again.load(Ordering::Relaxed)
    }

    /// Claims and finishes runs for as long as that, this many at the same time. Answers pairs a second.
    pub(super) async fn pairs(&self, in_flight: usize, round: Duration) -> Result<f64, BenchError> {
        let begun = since_boot();
        let share = MOST_PAIRS.div_ceil(in_flight as u64);
        let callers = (0..in_flight).map(|caller| {
            let load = self.clone();
            async move {
                let jobs: Vec<JobKey> = (0..JOBS_EACH).map(|n| job("pairs", caller * JOBS_EACH + n)).collect();
                let mut done = 0;
                while done < share && since_boot().saturating_sub(begun) < round {
                    load.pair(&jobs[done as usize % JOBS_EACH]).await?;
                    done += 1;
                }
                Ok(done)
            }
        });
        let done = together(callers).await?.into_iter().sum::<u64>();
        Ok(done as f64 / since_boot().saturating_sub(begun).as_secs_f64())
    }

    /// Gives this many jobs this many finished runs each, or as many as can be had in the time; all jobs the same number.
    pub(super) async fn fill(
        &self,
        jobs: usize,
        runs: usize,
        in_flight: usize,
        limit: Duration,
    ) -> Result<(), BenchError> {
        let begun = since_boot();
        let in_flight = in_flight.clamp(1, jobs);
        let callers = (0..in_flight).map(|caller| {
            let load = self.clone();
            async move {
                let jobs: Vec<JobKey> = (caller..jobs).step_by(in_flight).map(|n| job("full", n)).collect();
                for _ in 0..runs {
                    if since_boot().saturating_sub(begun) > limit {
                        break;
                    }
                    for job in &jobs {
                        load.pair(job).await?;
                    }
                }
                Ok(())
            }
        });
        together(callers).await.map(|_| ())
    }

    /// Claims one run of each of these jobs after the other, and finishes it. Answers how long each claim took, in ms.
    pub(super) async fn claims(&self, jobs: &[JobKey]) -> Result<Vec<f64>, BenchError> {
        let mut took = Vec::new();
        for job in jobs {
            took.push(self.pair(job).await?.as_secs_f64() * 1_000.0);
        }
        Ok(took)
    }

    /// Starts this many runs, and leaves them running.
    pub(super) async fn running(&self, many: usize, in_flight: usize) -> Result<Vec<(JobKey, Heartbeat)>, BenchError> {
        let callers = (0..in_flight).map(|caller| {
            let load = self.clone();
            async move {
                let mut beats = Vec::new();
                for job in (caller..many).step_by(in_flight).map(|n| job("beats", n)) {
                    let Won { run, token, .. } = load.claim(&job).await?;
                    beats.push((job, Heartbeat { run, token, progress: None }));
                }
                Ok(beats)
            }
        });
        Ok(together(callers).await?.concat())
    }

    /// Renews all these leases in one call, which is not sent again. Answers how long that took, in ms; nothing where one
    /// of them got no answer in time.
    pub(super) async fn renew(&self, beats: &[(JobKey, Heartbeat)]) -> Result<Option<f64>, BenchError> {
        let begun = since_boot();
        let Ok(answers) = self.store.heartbeats(beats).await else { return Ok(None) };
        let took = since_boot().saturating_sub(begun);
        for answer in answers {
            match answer {
                Ok(Stamped { answer: HeartbeatAnswer::Renewed { .. }, .. }) => {}
                Ok(Stamped { answer, .. }) => {
                    return Err(BenchError::Answer { asked: "a heartbeat", answer: format!("{answer:?}") });
                }
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(took.as_secs_f64() * 1_000.0))
    }

    /// Claims a run and finishes it. Answers how long the claim took.
    async fn pair(&self, job: &JobKey) -> Result<Duration, BenchError> {
        let Won { run, token, took } = self.claim(job).await?;
        let outcome = Outcome::Success { output: Vec::new(), cut: false };
        let usage = Usage { wall_ms: 1_234, cpu_ms: 56, peak_memory: 1 << 21, host_calls: 7, ..Usage::default() };
        let finish = Finish { run, token, outcome, usage };
        let answer = self.answered(|| self.store.finish(job, &finish)).await?.answer;
        if answer != Accepted::Done {
            return Err(BenchError::Answer { asked: "a finish", answer: format!("{answer:?}") });
        }
        self.shared.finished.fetch_add(1, Ordering::Relaxed);
        Ok(took)
    }

    /// Claims a new run, and wins it.
    async fn claim(&self, job: &JobKey) -> Result<Won, BenchError> {
        let next = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let mut token = [0; 16];
        token[..8].copy_from_slice(&self.shared.nonce);
        token[8..].copy_from_slice(&next.to_be_bytes());
        let claim = Claim {
            run: RunId::Slot(Slot(Millis(next))),
            kind: ClaimKind::Slot,
            token: Token(token),
            runner: "host-1.example.org".to_owned(),
            digest: Some(Digest([7; 32])),
            terms: Policy { lease: LEASE, max_late: MAX_LATE, ..Policy::default() }.terms(),
            not_after: Millis(i64::MAX),
        };
        let begun = since_boot();
        let answer = self.answered(|| self.store.claim(job, &claim)).await?.answer;
        let took = since_boot().saturating_sub(begun);
        match answer {
            ClaimAnswer::Won { .. } => Ok(Won { run: claim.run, token: claim.token, took }),
            answer => Err(BenchError::Answer { asked: "a claim", answer: format!("{answer:?}") }),
        }
    }

    /// The answer to a call, which is sent again where it was not answered: every verb is safe to repeat (S13).
    async fn answered<A, F: Future<Output = Result<A, StoreError>>>(
        &self,
        mut send: impl FnMut() -> F,
    ) -> Result<A, BenchError> {
        let mut times = 0;
        loop {
            times += 1;
            match send().await {
                Ok(answer) => return Ok(answer),
                Err(StoreError::NotSent { .. } | StoreError::Unknown { .. }) if times < SENT_AGAIN => {
                    self.shared.sent_again.fetch_add(1, Ordering::Relaxed);
                }
                Err(source) => return Err(BenchError::Store { times, source }),
            }
        }
    }
}

/// The n-th job of a group. The groups have tenants of their own.
pub(super) fn job(group: &str, n: usize) -> JobKey {
    let name = format!("{group}-{}/job-{n}", n / JOBS_OF_A_TENANT);
    name.parse().expect("letters, digits, a hyphen and one slash are a job's key")
}

/// Runs all these at the same time, until all are done or one fails.
async fn together<A: Send + 'static>(
    callers: impl Iterator<Item = impl Future<Output = Result<A, BenchError>> + Send + 'static>,
) -> Result<Vec<A>, BenchError> {
    let mut tasks: JoinSet<_> = callers.collect();
    let mut done = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        done.push(ended.map_err(BenchError::Ended)??);
    }
    Ok(done)
}
