//! SIGTERM and SIGINT, which ask the process to end.

use std::time::Duration;

use leasehold::clock;
use leasehold_lease::time::Mono;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::error::CliError;

/// Signals that come this soon after one that was told are the same request: who ends a whole process group signals a
/// process directly, too.
const ONE_REQUEST: Duration = Duration::from_millis(500);

/// Both signals.
pub(super) struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
    /// When the last one was told.
    told: Option<Mono>,
}

impl EndSignals {
    /// From now on these signals no longer end the process by themselves.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn listen() -> Result<EndSignals, CliError> {
        let of = |kind| signal(kind).map_err(CliError::Signals);
        Ok(EndSignals { terminate: of(SignalKind::terminate())?, interrupt: of(SignalKind::interrupt())?, told: None })
    }

    /// Waits for the next request and says which signal it is. Safe to drop.
    pub(super) async fn next(&mut self) -> &'static str {
        loop {
            let word = tokio::select! {
                _ = self.terminate.recv() => "SIGTERM",
                _ = self.interrupt.recv() => "SIGINT",
            };
            let now = clock::mono();
            if is_another(self.told, now) {
                self.told = Some(now);
                return word;
            }
        }
    }
}

/// Whether a signal that comes now is a request of its own.
fn is_another(told: Option<Mono>, now: Mono) -> bool {
    told.is_none_or(|told| now.since(told) >= ONE_REQUEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_come_together_are_one_request_and_a_later_one_is_another() {
        let at = |ms| Mono(Duration::from_millis(ms));
        assert!(is_another(None, at(0)));
        assert!(!is_another(Some(at(1_000)), at(1_000)) && !is_another(Some(at(1_000)), at(1_499)));
        assert!(is_another(Some(at(1_000)), at(1_500)));
    }
}
