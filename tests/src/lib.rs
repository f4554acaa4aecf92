//! The harness of the tests that run the real binary on real plugins.
//!
//! A test works in a [`Workplace`] of its own: a folder with a configuration, a plugin directory and a SQLite store. It
//! waits for what hosts tell, never for time to pass. `scripts/test` builds what the tests need; to run one alone, run
//! `scripts/build-plugins` and `cargo build -p leasehold` first.

mod host;
pub mod neighbour;
mod witness;
mod workplace;

pub use host::HostProcess;
pub use witness::{Effect, Witness};
pub use workplace::{Answer, Workplace, binary, built_plugins, caches, soon_then_rarely};

/// An instant of RFC 3339 in ms since the Unix epoch.
pub fn millis(instant: &str) -> i64 {
    instant.parse::<jiff::Timestamp>().unwrap_or_else(|e| panic!("no instant: {e}: {instant}")).as_millisecond()
}
