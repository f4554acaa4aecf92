//! The gate in front of a guest's effects, backed by the lease as its runner can know it.
//!
//! The heartbeat thread says until when the lease lasts, and that it is lost. The gate compares that end with the clock by
//! itself, each time it is asked: a thread that was frozen beyond the end lets nothing out, whoever wakes first. Under
//! `fence = "strict"` it has the store confirm the token besides, each time, save for writes to the store: that compares the
//! token when it carries them out, which no confirmation before can better.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use leasehold_lease::time::Mono;
use leasehold_sandbox::{Gate, Lost};
use tokio::sync::watch;

use crate::clock;
use crate::heartbeat::Confirmer;

/// What is known of a lease: its end as the runner can know it; none once it is lost.
type Known = Option<Mono>;

/// How often the clock is looked at besides: the timer stands still while the machine sleeps, the lease does not.
const LOOK: Duration = Duration::from_secs(1);

/// The heartbeat thread's end. When it is dropped, nobody keeps the lease any more, and the gate stays closed for ever.
#[derive(Debug)]
pub(crate) struct GateKeeper(watch::Sender<Known>);

impl GateKeeper {
    /// The lease lasts until then.
    pub(crate) fn lasts_until(&self, end: Mono) {
        // What is lost stays lost.
        self.0.send_if_modified(|known| {
            let changed = known.is_some_and(|known| known != end);
            if changed {
                *known = Some(end);
            }
            changed
        });
    }

    /// The lease is lost.
    pub(crate) fn lose(&self) {
        self.0.send_replace(None);
    }
}

/// Between two questions to a heartbeat thread that has not taken the attempt over yet.
const SOON: Duration = Duration::from_millis(10);

/// The guest's end.
#[derive(Debug, Clone)]
pub(crate) struct LeaseGate {
    known: watch::Receiver<Known>,
    /// Who has the store confirm the token before each effect elsewhere; none: the lease as it is known here is enough.
    confirmer: Option<Confirmer>,
}

/// A gate for a lease that ends then, unless its keeper says more.
pub(crate) fn gate(end: Mono) -> (GateKeeper, LeaseGate) {
    let (keeper, known) = watch::channel(Some(end));
    (GateKeeper(keeper), LeaseGate { known, confirmer: None })
}

impl LeaseGate {
    /// The same, which has the store confirm the token before each effect elsewhere.
    pub(crate) fn strict(self, confirmer: Confirmer) -> LeaseGate {
        LeaseGate { confirmer: Some(confirmer), ..self }
    }
}

/// Returns while the lease lasts, as it is known here: otherwise not before a heartbeat is acknowledged or refused.
async fn held(known: &mut watch::Receiver<Known>) -> Result<(), Lost> {
    // Before it is looked at: what changes afterwards is told.
    known.mark_unchanged();
    while !lasts(known)? {
        known.changed().await.map_err(|_| Lost)?;
    }
    Ok(())
}

/// Whether the lease lasts now, as it is known here.
fn lasts(known: &watch::Receiver<Known>) -> Result<bool, Lost> {
    let end = (*known.borrow()).ok_or(Lost)?;
    // A keeper that is gone keeps no lease, however long the last one lasts.
    if known.has_changed().is_err() {
        return Err(Lost);
    }
    Ok(clock::mono() < end)
}

#[async_trait]
impl Gate for LeaseGate {
    async fn pass(&self) -> Result<(), Lost> {
        let mut known = self.known.clone();
        loop {
            held(&mut known).await?;
            let Some(confirmer) = &self.confirmer else { return Ok(()) };
            if !confirmer.confirmed().await {
                tokio::time::sleep(SOON).await;
            } else if lasts(&known)? {
                return Ok(());
            }
        }
    }

    async fn pass_fenced(&self) -> Result<(), Lost> {
        held(&mut self.known.clone()).await
    }

    async fn in_doubt(&self) {
        let mut known = self.known.clone();
        loop {
            let Some(end) = *known.borrow_and_update() else { return };
            let over = poll_fn(|_| if clock::mono() >= end { Poll::Ready(()) } else { Poll::Pending });
            tokio::select! {
                biased;
                // Looked at on every poll, whatever woke the task.
                () = over => return,
                changed = known.changed() => if changed.is_err() { return },
                () = clock::sleep_until(end.min(clock::mono() + LOOK)) => {}
            }
        }
    }

    fn is_open(&self) -> bool {
        lasts(&self.known) == Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use leasehold_lease::id::{JobKey, RunId, Token};
    use leasehold_lease::op::{Claim, ClaimAnswer, ClaimKind, Release};
    use leasehold_lease::policy::Policy;
    use leasehold_lease::time::{Millis, Slot};
    use leasehold_store::LeaseStore;
    use leasehold_store::memory::MemoryStore;

    use super::*;
    use crate::clock::StoreClock;
    use crate::driver::{Down, NewsSender};
    use crate::heartbeat::{Guest, Heart, Hold, Sent};

    fn in_ms(ms: u64) -> Mono {
        clock::mono() + Duration::from_millis(ms)
    }

    const LONG: u64 = 3_600_000;

    #[tokio::test]
    async fn it_is_open_until_the_lease_ends_whoever_is_asleep() {
        let (_keeper, gate) = gate(in_ms(30));
        assert_eq!((gate.pass().await, gate.is_open()), (Ok(()), true));
        // Nobody says that it ends: the clock alone does.
        gate.in_doubt().await;
        assert!(!gate.is_open());
        for fenced in [false, true] {
            let pass = async { if fenced { gate.pass_fenced().await } else { gate.pass().await } };
            let held = tokio::time::timeout(Duration::from_millis(50), pass).await;
            assert!(held.is_err(), "an effect began after the end of the lease; fenced by the store: {fenced}");
        }
    }

    #[tokio::test]
    async fn who_is_held_goes_on_when_a_heartbeat_is_acknowledged_and_fails_when_it_is_refused() {
        for (renewed, fenced) in [(true, false), (false, false), (true, true), (false, true)] {
            let (keeper, gate) = gate(in_ms(0));
            let held = tokio::spawn({
                let gate = gate.clone();
                async move { if fenced { gate.pass_fenced().await } else { gate.pass().await } }
            });
            if renewed {
                keeper.lasts_until(in_ms(LONG));
            } else {
                keeper.lose();
            }
            assert_eq!(held.await.expect("it ends"), if renewed { Ok(()) } else { Err(Lost) });
        }
    }

    #[tokio::test]
    async fn a_lost_lease_stays_lost_and_so_does_one_that_nobody_keeps() {
        let (keeper, lost) = gate(in_ms(LONG));
        keeper.lose();
        keeper.lasts_until(in_ms(LONG));
        assert_eq!((lost.pass().await, lost.pass_fenced().await, lost.is_open()), (Err(Lost), Err(Lost), false));
        lost.in_doubt().await;
        let (keeper, left) = gate(in_ms(LONG));
        drop(keeper);
        assert_eq!((left.pass().await, left.pass_fenced().await, left.is_open()), (Err(Lost), Err(Lost), false));
        left.in_doubt().await;
    }

    #[tokio::test]
    async fn a_renewal_moves_the_doubt() {
        let (keeper, gate) = gate(in_ms(LONG));
        let doubt = tokio::spawn({
            let gate = gate.clone();
            async move { gate.in_doubt().await }
        });
        keeper.lasts_until(in_ms(10));
        doubt.await.expect("the nearer end counts");
    }

    /// A run that is won in this store.
    async fn won(store: &MemoryStore, token: Token) -> (JobKey, RunId) {
        let (job, run) = ("acme/x".parse().expect("a job"), RunId::Slot(Slot(Millis(clock::wall().0))));
        let claim = Claim {
            run: run.clone(),
            kind: ClaimKind::Slot,
            token,
            runner: "h".to_owned(),
            digest: None,
            terms: Policy::default().terms(),
            not_after: Millis(i64::MAX),
        };
        let answer = store.claim(&job, &claim).await.expect("an answer").answer;
        assert!(matches!(answer, ClaimAnswer::Won { .. }), "{answer:?}");
        (job, run)
    }

    #[tokio::test]
    async fn a_strict_gate_asks_the_store_before_each_effect_elsewhere_and_is_closed_when_it_refuses() {
        let (store, token) = (Arc::new(MemoryStore::new()), Token([7; 16]));
        let (job, run) = won(&store, token).await;
        let (news, _heard) = NewsSender::new();
        let (sent, beats) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&beats);
        let count: Sent = Arc::new(move |all| {
            counted.fetch_add(all.len(), Ordering::SeqCst);
        });
        let clock = Arc::new(StoreClock::new());
        let heart = Heart::start_watched(store.clone(), clock, news, Down::default(), Some(count)).expect("a thread");
        let (keeper, gate) = gate(in_ms(30_000));
        let gate = gate.strict(heart.confirmer(token));
        let (_progress, progress) = watch::channel(None);
        let guest = Some(Guest { signal: leasehold_sandbox::Signal::default(), progress, gate: keeper });
        let asked = tokio::spawn({
            let (gate, sent) = (gate.clone(), Arc::clone(&sent));
            async move {
                for _ in 0..3 {
                    gate.pass().await.expect("the lease is held");
                    sent.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        // Whoever asks before the thread has the attempt waits for that.
        let policy = Policy::default();
        heart.hold(Hold { job: job.clone(), run: run.clone(), token, policy, first_sent: clock::mono(), guest });
        asked.await.expect("they pass");
        // The first heartbeat by itself is due in five seconds.
        assert_eq!((sent.load(Ordering::SeqCst), beats.load(Ordering::SeqCst)), (3, 3));
        gate.pass_fenced().await.expect("the lease is held");
        assert_eq!(beats.load(Ordering::SeqCst), 3, "the store compares the token of a write by itself");
        let release = Release { run, token, usage: Default::default() };
        store.release(&job, &release).await.expect("an answer");
        assert_eq!(gate.pass().await, Err(Lost), "an effect began that the store had not confirmed");
    }
}
