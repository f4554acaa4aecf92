//! The clock that a store decides by.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use leasehold_lease::time::Millis;

/// Where a store reads the time. A test hands in one that it can set.
pub type Clock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// The machine's wall clock, for stores that have no clock of their own.
pub fn machine() -> Clock {
    Arc::new(wall)
}

#[allow(
    clippy::disallowed_methods,
    reason = "a store in this process decides by the machine's clock; this is its door"
)]
fn wall() -> Millis {
    let ms = |d: std::time::Duration| i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(after) => Millis(ms(after)),
        Err(before) => Millis(-ms(before.duration())),
    }
}
