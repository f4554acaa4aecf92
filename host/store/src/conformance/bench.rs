//! A store under test, its clock, and the words that the cases are written in.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use leasehold_lease::id::{JobKey, RunId, RunKey, Token};
use leasehold_lease::op::{
    Accepted, Claim, ClaimAnswer, ClaimKind, Finish, Heartbeat, HeartbeatAnswer, Release, Trigger, TriggerAnswer,
};
use leasehold_lease::policy::{Overlap, Terms};
use leasehold_lease::run::{Outcome, Usage};
use leasehold_lease::time::{Millis, Slot};
use leasehold_lease::write::{Change, Quota, Write, Written};

use crate::clock::Clock;
use crate::store::LeaseStore;
use crate::view::RunView;

/// The clock of a store under test.
#[derive(Clone)]
pub enum TestClock {
    /// The test sets it; the value is in whole milliseconds since the Unix epoch.
    Settable(Arc<AtomicI64>),
    /// The test sets it on the server that the store asks.
    Remote(Arc<dyn SetClock>),
    /// It goes by itself: the cases wait for it.
    Real,
}

/// A server's clock, as far as a test may set it.
#[async_trait]
pub trait SetClock: Send + Sync + 'static {
    /// From now on the server's clock stands at this instant.
    async fn set(&self, at: Millis);
}

impl TestClock {
    /// A clock that can be set, and the same for the store to read.
    pub fn settable() -> (TestClock, Clock) {
        let at = Arc::new(AtomicI64::new(1_700_000_000_000));
        let read = at.clone();
        (TestClock::Settable(at), Arc::new(move || Millis(read.load(Ordering::SeqCst))))
    }
}

/// A store under test.
pub struct Bench {
    /// The store.
    pub store: Arc<dyn LeaseStore>,
    /// Its clock.
    pub clock: TestClock,
    /// What has to live as long as the store: its folder, its server.
    pub keep: Box<dyn Any + Send + Sync>,
    tokens: AtomicU64,
}

impl Bench {
    /// A bench for this store.
    pub fn new(store: Arc<dyn LeaseStore>, clock: TestClock, keep: impl Any + Send + Sync) -> Bench {
        Bench { store, clock, keep: Box::new(keep), tokens: AtomicU64::new(1) }
    }

    /// The store's time.
    pub(super) async fn now(&self) -> Millis {
        self.store.now().await.expect("the store tells its time")
    }

    /// Goes to this instant or, where the clock goes by itself, waits until it is there.
    pub(super) async fn reach(&self, at: Millis) {
        match &self.clock {
            TestClock::Settable(clock) => return clock.store(at.0, Ordering::SeqCst),
            TestClock::Remote(clock) => return clock.set(at).await,
            TestClock::Real => {}
        }
        loop {
            let now = self.now().await;
            if now >= at {
                return;
            }
            tokio::time::sleep(at.since(now)).await;
        }
    }

    /// Sets the clock back, if it can be set; says so if not.
    pub(super) async fn set_back(&self, by: Duration) -> bool {
        if matches!(self.clock, TestClock::Real) {
            eprintln!("skipped: this store's clock cannot be set");
            return false;
        }
        self.reach(self.now().await - by).await;
        true
    }

    /// A lease that a test can wait for.
    pub(super) fn lease(&self) -> Duration {
        match self.clock {
            TestClock::Settable(_) | TestClock::Remote(_) => Duration::from_secs(30),
            TestClock::Real => Duration::from_millis(400),
        }
    }

    /// The contract's policy with that lease.
    pub(super) fn terms(&self) -> Terms {
        Terms {
            lease: self.lease(),
            max_attempts: 3,
            overlap: Overlap::Skip,
            catch_up: Duration::from_secs(300),
            max_late: Duration::from_secs(60),
            history_size: 100,
        }
    }

    pub(super) fn allowing(&self) -> Terms {
        Terms { overlap: Overlap::Allow, ..self.terms() }
    }

    /// A token that no other claim of this bench has.
    pub(super) fn token(&self) -> Token {
        let mut token = [0xab; 16];
        token[..8].copy_from_slice(&self.tokens.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        Token(token)
    }

    /// A claim with a token of its own, which waits for long.
    pub(super) fn ask(&self, run: &RunId, kind: ClaimKind, terms: &Terms) -> Claim {
        let (run, terms, token) = (run.clone(), terms.clone(), self.token());
        Claim { run, kind, token, runner: "host-1".into(), digest: None, terms, not_after: Millis(i64::MAX) }
    }

    pub(super) async fn send(&self, job: &JobKey, claim: &Claim) -> ClaimAnswer {
        self.store.claim(job, claim).await.expect("the store answers a claim").answer
    }

    /// Claims the run by its slot and wins it.
    pub(super) async fn win(&self, job: &JobKey, run: &RunId, terms: &Terms) -> Token {
        let kind = match run {
            RunId::Slot(_) => ClaimKind::Slot,
            RunId::OnDemand(_) => ClaimKind::OnDemand,
        };
        let ask = self.ask(run, kind, terms);
        let answer = self.send(job, &ask).await;
        assert!(matches!(answer, ClaimAnswer::Won { .. }), "{run} should be won: {answer:?}");
        ask.token
    }

    /// Takes the run over, if it can be.
    pub(super) async fn take_over(&self, job: &JobKey, run: &RunId) -> (Token, ClaimAnswer) {
        let ask = self.ask(run, ClaimKind::Takeover, &self.terms());
        let answer = self.send(job, &ask).await;
        (ask.token, answer)
    }

    pub(super) async fn beat(&self, job: &JobKey, run: &RunId, token: Token) -> HeartbeatAnswer {
        let beat = Heartbeat { run: run.clone(), token, progress: None };
        let beats = self.store.heartbeats(&[(job.clone(), beat)]).await.expect("the store answers heartbeats");
        beats[0].as_ref().expect("the record is sound").answer
    }

    pub(super) async fn finish(&self, job: &JobKey, run: &RunId, token: Token, outcome: Outcome) -> Accepted {
        let finish = Finish { run: run.clone(), token, outcome, usage: Usage::default() };
        self.store.finish(job, &finish).await.expect("the store answers a finish").answer
    }

    pub(super) async fn release(&self, job: &JobKey, run: &RunId, token: Token) -> Accepted {
        let release = Release { run: run.clone(), token, usage: Usage::default() };
        self.store.release(job, &release).await.expect("the store answers a release").answer
    }

    pub(super) async fn trigger(&self, job: &JobKey, id: &str) -> TriggerAnswer {
        let RunId::OnDemand(id) = on_demand(id) else { unreachable!("an on-demand run has an id") };
        let trigger = Trigger { payload: Some(id.as_str().into()), id, pending_max: 2 };
        self.store.trigger(job, &trigger).await.expect("the store answers a trigger").answer
    }

    /// The run, if the store knows it.
    pub(super) async fn look(&self, job: &JobKey, run: &RunId) -> Option<RunView> {
        let key = RunKey { job: job.clone(), run: run.clone() };
        self.store.show(&key).await.expect("the store shows a run").answer
    }

    /// Sends a write under the contract's quota.
    pub(super) async fn write(&self, job: &JobKey, run: &RunId, token: Token, number: u64, change: Change) -> Written {
        let write = Write { run: run.clone(), token, number, quota: Quota::default(), change };
        self.store.write(job, &write).await.expect("the store answers a write").answer
    }

    /// The job's newest started slot.
    pub(super) async fn newest_started(&self, job: &JobKey) -> Option<Slot> {
        let key = RunKey { job: job.clone(), run: slot(Millis(0)) };
        self.store.check(&[key]).await.expect("the store checks a run").answer[0].newest_started
    }

    /// The job's revision, 0 for an unknown one.
    pub(super) async fn revision(&self, job: &JobKey) -> u64 {
        self.store.job(job).await.expect("the store shows a job").answer.map_or(0, |view| view.revision)
    }
}

pub(super) fn job(name: &str) -> JobKey {
    name.parse().expect("a test's job has a name")
}

/// The scheduled run due at this instant.
pub(super) fn slot(at: Millis) -> RunId {
    RunId::Slot(Slot(at))
}

pub(super) fn on_demand(id: &str) -> RunId {
    RunId::OnDemand(id.parse().expect("a test's run has an id"))
}

pub(super) fn success() -> Outcome {
    Outcome::Success { output: b"{}".to_vec(), cut: false }
}

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
