//! The gate in front of a guest's effects, backed by the lease as its runner can know it.
//!
//! The heartbeat thread says until when the lease lasts, and that it is lost. The gate compares that end with the clock by
//! itself, each time it is asked: a thread that was frozen beyond the end lets nothing out, whoever wakes first.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use leasehold_lease::time::Mono;
use leasehold_sandbox::{Gate, Lost};
use tokio::sync::watch;

use crate::clock;

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

/// The guest's end.
#[derive(Debug, Clone)]
pub(crate) struct LeaseGate(watch::Receiver<Known>);

/// A gate for a lease that ends then, unless its keeper says more.
pub(crate) fn gate(end: Mono) -> (GateKeeper, LeaseGate) {
    let (keeper, known) = watch::channel(Some(end));
    (GateKeeper(keeper), LeaseGate(known))
}

#[async_trait]
impl Gate for LeaseGate {
    async fn pass(&self) -> Result<(), Lost> {
        let mut known = self.0.clone();
        loop {
            let end = (*known.borrow_and_update()).ok_or(Lost)?;
            // A keeper that is gone keeps no lease, however long the last one lasts.
            if known.has_changed().is_err() {
                return Err(Lost);
            }
            if clock::mono() < end {
                return Ok(());
            }
            // Held until a heartbeat is acknowledged or refused.
            known.changed().await.map_err(|_| Lost)?;
        }
    }

    async fn in_doubt(&self) {
        let mut known = self.0.clone();
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_ms(ms: u64) -> Mono {
        clock::mono() + Duration::from_millis(ms)
    }

    const LONG: u64 = 3_600_000;

    #[tokio::test]
    async fn it_is_open_until_the_lease_ends_whoever_is_asleep() {
        let (_keeper, gate) = gate(in_ms(30));
        assert_eq!(gate.pass().await, Ok(()));
        // Nobody says that it ends: the clock alone does.
        gate.in_doubt().await;
        let held = tokio::time::timeout(Duration::from_millis(50), gate.pass()).await;
        assert!(held.is_err(), "an effect began after the end of the lease");
    }

    #[tokio::test]
    async fn who_is_held_goes_on_when_a_heartbeat_is_acknowledged_and_fails_when_it_is_refused() {
        for renewed in [true, false] {
            let (keeper, gate) = gate(in_ms(0));
            let held = tokio::spawn({
                let gate = gate.clone();
                async move { gate.pass().await }
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
        assert_eq!(lost.pass().await, Err(Lost));
        lost.in_doubt().await;
        let (keeper, left) = gate(in_ms(LONG));
        drop(keeper);
        assert_eq!(left.pass().await, Err(Lost));
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
}
