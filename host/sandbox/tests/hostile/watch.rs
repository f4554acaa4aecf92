//! Guests that mean harm, run while the host's memory is watched.

use std::sync::Arc;

use leasehold_sandbox::{Ended, Limits, LogLine};

use crate::support::watch::Watch;
use crate::support::{Lines, invocation, load, millis, sandbox};

/// Small, so that whatever the host keeps for a guest beyond it shows.
pub(crate) fn tight() -> Limits {
    Limits { memory: 8 << 20, timeout: millis(60_000), ..Limits::default() }
}

/// Runs a guest that means harm; the host's memory must stay flat.
pub(crate) async fn hostile(bytes: Vec<u8>, limits: Limits) -> Ended {
    hostile_with_log(bytes, limits).await.0
}

/// Likewise, and answers what it said.
pub(crate) async fn hostile_with_log(bytes: Vec<u8>, limits: Limits) -> (Ended, Vec<LogLine>) {
    let sandbox = sandbox();
    let plugin = load(&sandbox, bytes).await;
    let lines = Arc::new(Lines::default());
    let mut invocation = invocation(limits);
    invocation.logs = lines.clone();
    let watch = Watch::start();
    let ended = sandbox.start(&plugin, invocation).await;
    watch.assert_flat(limits.memory);
    assert_eq!(sandbox.memory().used(), 0, "what the guest held is given back");
    (ended, lines.all())
}
