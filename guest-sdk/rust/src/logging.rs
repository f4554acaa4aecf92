//! Sends what a handler says through `log` and `tracing` to the run's log.

use crate::host::log as host;

#[cfg(feature = "log")]
mod log_facade;
#[cfg(feature = "tracing")]
mod tracing_facade;

/// Called once an attempt, before the handler. Every attempt is an instance of its own, so this runs once in its life;
/// a logger that the plugin has set before, in a constructor of its own, stays.
pub(crate) fn start() {
    #[cfg(feature = "log")]
    log_facade::start();
    #[cfg(feature = "tracing")]
    tracing_facade::start();
}

type Fields = Vec<(String, String)>;

#[cfg(any(feature = "log", feature = "tracing"))]
fn emit(level: host::Level, target: &str, message: &str, fields: &Fields) {
    host::emit(level, target, message, fields);
}
