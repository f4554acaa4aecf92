//! A gate that a test moves.

use std::sync::Mutex;

use leasehold_sandbox::{Gate, Lost};
use tokio::sync::watch;

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

/// A gate that is moved by hand; it counts how often it was asked.
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
        *self.plan.lock().expect("no test panics while it holds the lock") = Some((at, state));
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

#[async_trait::async_trait]
impl Gate for ManualGate {
    async fn pass(&self) -> Result<(), Lost> {
        let turn = *self.asked.borrow() + 1;
        let planned = *self.plan.lock().expect("no test panics while it holds the lock");
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

    fn is_open(&self) -> bool {
        *self.state.borrow() == GateState::Open
    }
}
