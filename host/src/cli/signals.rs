//! SIGTERM and SIGINT, which ask the process to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::error::CliError;

/// Both signals.
pub(super) struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl EndSignals {
    /// From now on these signals no longer end the process by themselves.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn listen() -> Result<EndSignals, CliError> {
        let of = |kind| signal(kind).map_err(CliError::Signals);
        Ok(EndSignals { terminate: of(SignalKind::terminate())?, interrupt: of(SignalKind::interrupt())? })
    }

    /// Waits for the next one and says which it is. Safe to drop.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
