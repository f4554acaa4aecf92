//! The gate in front of everything a guest does to the world outside: one place where an attempt whose lease is in doubt
//! waits, and one whose lease is lost is refused.
//!
//! Whoever starts guests backs it with the lease. The sandbox only asks, right before each effect begins.

use async_trait::async_trait;

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

    /// Likewise, for an effect that whoever keeps the lease carries out itself, and refuses by itself once the lease is
    /// lost: to have it confirm the lease before that would tell nothing more.
    ///
    /// # Errors
    ///
    /// [`Lost`] once the lease is lost.
    async fn pass_fenced(&self) -> Result<(), Lost> {
        self.pass().await
    }

    /// Returns once the lease is in doubt or lost, so that an effect which has begun and is not answered is uncertain.
    ///
    /// Every poll must look at the clock: a process that was stopped must not go on by what it knew before.
    async fn in_doubt(&self);

    /// Whether the lease lasts at this instant, by the clock. Asked between one system call and the next, so that a process
    /// which is stopped in between has next to no chance of going on with what it was about to do.
    fn is_open(&self) -> bool;
}

/// A gate without a lease behind it: always open.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OpenGate;

#[async_trait]
impl Gate for OpenGate {
    async fn pass(&self) -> Result<(), Lost> {
        Ok(())
    }

    async fn in_doubt(&self) {
        std::future::pending().await
    }

    fn is_open(&self) -> bool {
        true
    }
}

/// Asks the gate for this attempt; the signal counts as well, whichever says first that the lease is lost.
///
/// # Errors
///
/// [`Lost`].
pub(crate) async fn pass(attempt: &Attempt, gate: &dyn Gate) -> Result<(), Lost> {
    unless_lost(attempt, gate.pass()).await
}

/// Likewise, before an effect that the store refuses by itself once the lease is lost.
///
/// # Errors
///
/// [`Lost`].
pub(crate) async fn pass_fenced(attempt: &Attempt, gate: &dyn Gate) -> Result<(), Lost> {
    unless_lost(attempt, gate.pass_fenced()).await
}

async fn unless_lost(attempt: &Attempt, passed: impl Future<Output = Result<(), Lost>>) -> Result<(), Lost> {
    tokio::select! {
        biased;
        () = attempt.signal.lost() => Err(Lost),
        passed = passed => passed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::tests::attempt;
    use crate::limits::Limits;
    use crate::signal::StopReason;

    #[tokio::test]
    async fn the_signal_alone_refuses_even_at_an_open_gate() {
        let attempt = attempt(Limits::default());
        attempt.signal.stop(StopReason::Lost);
        assert_eq!(pass(&attempt, &OpenGate).await, Err(Lost));
        assert_eq!(pass_fenced(&attempt, &OpenGate).await, Err(Lost));
    }
}
