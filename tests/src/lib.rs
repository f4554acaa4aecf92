//! The harness of the tests that run the real binary on real plugins.
//!
//! A test works in a [`Workplace`] of its own: a folder with a configuration, a plugin directory and a SQLite store. It
//! waits for what hosts tell, never for time to pass. `scripts/test` builds what the tests need; to run one alone, run
//! `scripts/build-plugins` and `cargo build -p leasehold` first.

use std::fmt::Debug;
use std::time::Duration;

use leasehold::clock;

mod host;
pub mod neighbour;
mod witness;
mod workplace;

pub use host::HostProcess;
pub use witness::{Effect, Witness};
pub use workplace::{Answer, Workplace, binary, built_plugins, caches, soon_then_rarely};

/// A configuration with a lease that a test can wait for.
pub const SHORT_LEASE: &str = "[defaults]\nlease = \"3s\"\nheartbeat = \"500ms\"\nmin_interval = \"1s\"\n";

/// How long a test waits for something that must come. Far beyond what it takes, for a machine that is busy; it includes a
/// slot of [`soon_then_rarely`] that comes a period later, since the plugin was not compiled by the first.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Asks until the answer fits.
pub fn until<T: Debug>(what: &str, mut ask: impl FnMut() -> T, fits: impl Fn(&T) -> bool) -> T {
    let end = clock::mono() + PATIENCE;
    loop {
        let answer = ask();
        if fits(&answer) {
            return answer;
        }
        assert!(clock::mono() < end, "not {what} in {PATIENCE:?}; last {answer:?}");
        std::thread::yield_now();
    }
}

/// An instant of RFC 3339 in ms since the Unix epoch.
pub fn millis(instant: &str) -> i64 {
    instant.parse::<jiff::Timestamp>().unwrap_or_else(|e| panic!("no instant: {e}: {instant}")).as_millisecond()
}
