//! Sends what a handler says through `log` and `tracing` to the run's log.

use crate::host::log as host;

#[cfg(feature = "log")]
mod log_facade;
#[cfg(feature = "tracing")]
mod tracing_facade;

/// Called once an attempt, before the handler. Every attempt is an instance of its own, so this runs once in its life;
/// a logger that the plugin has set before, in a constructor of its own, stays.
pub(crate) fn start() {
    #[cfg(target_os = "unknown")]
    tell_panics();
    #[cfg(feature = "log")]
    log_facade::start();
    #[cfg(feature = "tracing")]
    tracing_facade::start();
}

/// wasm32-unknown-unknown has no standard error, where panics are told elsewhere.
#[cfg(target_os = "unknown")]
fn tell_panics() {
    std::panic::set_hook(Box::new(|panic| emit(host::Level::Error, "panic", &panic.to_string(), &Fields::new())));
}

type Fields = Vec<(String, String)>;

#[cfg(any(feature = "log", feature = "tracing", target_os = "unknown"))]
fn emit(level: host::Level, target: &str, message: &str, fields: &Fields) {
    host::emit(level, target, message, fields);
}
