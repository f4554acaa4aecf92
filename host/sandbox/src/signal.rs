//! The stop signal of one attempt: set from outside, mirrored to the guest.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;

/// Why an attempt must stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// The lease is lost. Overrides every other reason, and every host call that begins afterwards fails.
    Lost,
    /// The host is stopping and hands its runs over.
    Stopping,
    /// A person cancelled the run.
    Cancelled,
    /// The attempt's time is nearly up.
    Deadline,
}

impl StopReason {
    /// The word the guest is told, and the one that is recorded.
    pub fn as_str(self) -> &'static str {
        match self {
            StopReason::Lost => "lost",
            StopReason::Stopping => "stopping",
            StopReason::Cancelled => "cancelled",
            StopReason::Deadline => "deadline",
        }
    }

    fn code(self) -> u8 {
        match self {
            StopReason::Lost => LOST,
            StopReason::Stopping => 2,
            StopReason::Cancelled => 3,
            StopReason::Deadline => 4,
        }
    }

    fn from_code(code: u8) -> Option<StopReason> {
        [StopReason::Lost, StopReason::Stopping, StopReason::Cancelled, StopReason::Deadline]
            .into_iter()
            .find(|reason| reason.code() == code)
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A handle on a running attempt. Clones are the same signal; it may outlive the attempt and is harmless then.
#[derive(Debug, Clone, Default)]
pub struct Signal(Arc<State>);

#[derive(Debug, Default)]
struct State {
    stop: AtomicU8,
    force: AtomicU8,
    changed: Notify,
}

const RUNNING: u8 = 0;
const LOST: u8 = 1;

/// Who demanded that the guest be interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Force {
    /// [`Signal::force`].
    Caller,
    /// The attempt's own timeout.
    Timeout,
}

impl Signal {
    /// Asks the guest to stop: `should-continue` turns false and sleeping host calls return.
    ///
    /// The first reason wins; [`StopReason::Lost`] overrides all. Returns at once, from any thread.
    pub fn stop(&self, reason: StopReason) {
        let replaced =
            self.0.stop.fetch_update(Ordering::AcqRel, Ordering::Acquire, |current| match (current, reason) {
                (RUNNING, _) => Some(reason.code()),
                (LOST, _) => None,
                (_, StopReason::Lost) => Some(LOST),
                _ => None,
            });
        if replaced.is_ok() {
            self.0.changed.notify_waiters();
        }
    }

    /// Ends the guest whatever it does: running code traps at the next tick (10 ms), a blocked host call is dropped.
    ///
    /// Give a [reason](Signal::stop) first, so that the end says why. Returns at once; the [`Execution`](crate::Execution)
    /// tells when the guest has ended.
    pub fn force(&self) {
        self.set_force(Force::Caller);
    }

    /// Why the attempt must stop, or none while it may go on.
    pub fn reason(&self) -> Option<StopReason> {
        StopReason::from_code(self.0.stop.load(Ordering::Acquire))
    }

    /// Whether [`Signal::force`] or the timeout has interrupted the guest.
    pub fn is_forced(&self) -> bool {
        self.forced_by().is_some()
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.0.stop.load(Ordering::Acquire) == LOST
    }

    pub(crate) fn force_by_timeout(&self) {
        self.set_force(Force::Timeout);
    }

    pub(crate) fn forced_by(&self) -> Option<Force> {
        match self.0.force.load(Ordering::Acquire) {
            0 => None,
            1 => Some(Force::Caller),
            _ => Some(Force::Timeout),
        }
    }

    /// Returns once there is a reason to stop. Safe to drop.
    pub(crate) async fn stopped(&self) {
        self.wait_until(|| self.reason().is_some()).await;
    }

    /// Returns once the lease is lost. Safe to drop.
    pub(crate) async fn lost(&self) {
        self.wait_until(|| self.is_lost()).await;
    }

    /// Returns once the guest is to be interrupted. Safe to drop.
    pub(crate) async fn forced(&self) {
        self.wait_until(|| self.is_forced()).await;
    }

    fn set_force(&self, by: Force) {
        let code = match by {
            Force::Caller => 1,
            Force::Timeout => 2,
        };
        // The first one wins, so that the end names what really interrupted the guest.
        if self.0.force.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.0.changed.notify_waiters();
        }
    }

    async fn wait_until(&self, reached: impl Fn() -> bool) {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            // Registered before the check, so that a change in between is not missed.
            changed.as_mut().enable();
            if reached() {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_wins() {
        let signal = Signal::default();
        assert_eq!(signal.reason(), None);
        signal.stop(StopReason::Stopping);
        signal.stop(StopReason::Deadline);
        assert_eq!(signal.reason(), Some(StopReason::Stopping));
    }

    #[test]
    fn lost_overrides_every_reason_and_nothing_overrides_lost() {
        for reason in [StopReason::Stopping, StopReason::Cancelled, StopReason::Deadline] {
            let signal = Signal::default();
            signal.stop(reason);
            assert!(!signal.is_lost());
            signal.stop(StopReason::Lost);
            assert!(signal.is_lost());
            signal.stop(reason);
            assert_eq!(signal.reason(), Some(StopReason::Lost));
        }
    }

    #[test]
    fn the_first_force_names_the_cause() {
        let signal = Signal::default();
        signal.force_by_timeout();
        signal.force();
        assert_eq!(signal.forced_by(), Some(Force::Timeout));
    }

    #[tokio::test]
    async fn a_stop_wakes_every_waiter() {
        let signal = Signal::default();
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let signal = signal.clone();
                tokio::spawn(async move { signal.stopped().await })
            })
            .collect();
        signal.stop(StopReason::Cancelled);
        for waiter in waiters {
            waiter.await.expect("the waiter ends");
        }
    }
}
