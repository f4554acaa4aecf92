//! The gate in front of everything a guest does to the world outside: one place where an attempt whose lease is in doubt
//! waits, and one whose lease is lost is refused.
//!
//! Whoever starts guests backs it with the lease. The sandbox only asks, right before each effect begins.

use std::sync::Mutex;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::attempt::Attempt;

/// The attempt has lost its run: nothing of it may begin any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the lease of this run is lost")]
pub struct Lost;

/// Whether an outward effect of one attempt may begin. All futures are safe to drop.
///
/// `pass` waits, so that an implementation may also confirm the lease with whoever keeps it before it answers.
#[async_trait]
pub trait Gate: Send + Sync {
    /// Returns once an effect may begin: at once while the lease lasts, later while it is in doubt.
    ///
    /// # Errors
    ///
    /// [`Lost`] once the lease is lost.
    async fn pass(&self) -> Result<(), Lost>;

    /// Returns once the lease is in doubt or lost, so that an effect which has begun and is not answered is uncertain.
    ///
    /// Every poll must look at the clock: a process that was stopped must not go on by what it knew before.
    async fn in_doubt(&self);
}

/// A gate without a lease behind it: always open.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenGate;

#[async_trait]
impl Gate for OpenGate {
    async fn pass(&self) -> Result<(), Lost> {
        Ok(())
    }

    async fn in_doubt(&self) {
        std::future::pending().await
    }
}

/// What a [`ManualGate`] is set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateState {
    /// Effects may begin.
    Open,
    /// Effects wait.
    InDoubt,
    /// Effects fail.
    Lost,
}

/// A gate that is moved by hand, for tests. It counts how often it was asked.
#[derive(Debug)]
pub struct ManualGate {
    state: watch::Sender<GateState>,
    asked: watch::Sender<usize>,
    /// What it turns to when it is asked for the n-th time, from 1.
    plan: Mutex<Option<(usize, GateState)>>,
}

impl ManualGate {
    /// One in this state.
    pub fn new(state: GateState) -> ManualGate {
        ManualGate { state: watch::channel(state).0, asked: watch::channel(0).0, plan: Mutex::new(None) }
    }

    /// Moves it.
    pub fn set(&self, state: GateState) {
        self.state.send_replace(state);
    }

    /// It turns to `state` right when it is asked for the `nth` time from now, before it answers.
    pub fn turn_at(&self, nth: usize, state: GateState) {
        let at = *self.asked.borrow() + nth;
        *self.plan.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some((at, state));
    }

    /// Waits until it was asked `times` times in all.
    pub async fn was_asked(&self, times: usize) {
        let mut asked = self.asked.subscribe();
        // The sender is `self`, so it is there.
        let _ = asked.wait_for(|asked| *asked >= times).await;
    }

    /// How often it was asked.
    pub fn asked(&self) -> usize {
        *self.asked.borrow()
    }
}

#[async_trait]
impl Gate for ManualGate {
    async fn pass(&self) -> Result<(), Lost> {
        let turn = *self.asked.borrow() + 1;
        let planned = *self.plan.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((at, state)) = planned
            && at == turn
        {
            self.set(state);
        }
        // Only now, so that who waits for the question finds the gate as planned.
        self.asked.send_replace(turn);
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| *state != GateState::InDoubt).await;
        // The sender is `self`, so it is there.
        match settled.map_or(GateState::Lost, |state| *state) {
            GateState::Open => Ok(()),
            GateState::InDoubt | GateState::Lost => Err(Lost),
        }
    }

    async fn in_doubt(&self) {
        let mut state = self.state.subscribe();
        // The sender is `self`, so it is there.
        let _ = state.wait_for(|state| *state != GateState::Open).await;
    }
}

/// Asks the gate for this attempt; the signal counts as well, whichever says first that the lease is lost.
///
/// # Errors
///
/// [`Lost`].
pub(crate) async fn pass(attempt: &Attempt, gate: &dyn Gate) -> Result<(), Lost> {
    tokio::select! {
        biased;
        () = attempt.signal.lost() => Err(Lost),
        passed = gate.pass() => passed,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::attempt::tests::attempt;
    use crate::limits::Limits;
    use crate::signal::StopReason;

    #[tokio::test]
    async fn who_waits_goes_on_when_the_lease_is_certain_again_and_fails_when_it_is_lost() {
        for (turn, expected) in [(GateState::Open, Ok(())), (GateState::Lost, Err(Lost))] {
            let gate = Arc::new(ManualGate::new(GateState::InDoubt));
            let waiting = tokio::spawn({
                let gate = gate.clone();
                async move { pass(&attempt(Limits::default()), &*gate).await }
            });
            gate.was_asked(1).await;
            gate.set(turn);
            assert_eq!(waiting.await.expect("it ends"), expected);
        }
    }

    #[tokio::test]
    async fn the_signal_alone_refuses_even_at_an_open_gate() {
        let attempt = attempt(Limits::default());
        attempt.signal.stop(StopReason::Lost);
        assert_eq!(pass(&attempt, &OpenGate).await, Err(Lost));
    }
}
