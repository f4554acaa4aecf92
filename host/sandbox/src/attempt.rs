//! What the guest's side and the host's side of one attempt share, and what outlives the guest.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use crate::capture::Capture;
use crate::execution::Progress;
use crate::invocation::MonotonicClock;
use crate::limits::Limits;
use crate::outcome::Usage;
use crate::signal::Signal;

pub(crate) struct Attempt {
    pub(crate) signal: Signal,
    pub(crate) limits: Limits,
    pub(crate) log: Capture,
    pub(crate) progress: watch::Sender<Option<Progress>>,
    clock: MonotonicClock,
    started: Duration,
    memory: AtomicUsize,
    growth_refused: AtomicBool,
    host_calls: AtomicU64,
    cpu_nanos: AtomicU64,
    http_sent: AtomicU64,
    http_received: AtomicU64,
}

impl Attempt {
    pub(crate) fn new(
        limits: Limits,
        log: Capture,
        progress: watch::Sender<Option<Progress>>,
        clock: MonotonicClock,
    ) -> Self {
        Attempt {
            signal: Signal::default(),
            limits,
            log,
            progress,
            started: clock(),
            clock,
            memory: AtomicUsize::new(0),
            growth_refused: AtomicBool::new(false),
            host_calls: AtomicU64::new(0),
            cpu_nanos: AtomicU64::new(0),
            http_sent: AtomicU64::new(0),
            http_received: AtomicU64::new(0),
        }
    }

    /// Time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        (self.clock)().saturating_sub(self.started)
    }

    /// Time until the guest is interrupted by force.
    pub(crate) fn remaining(&self) -> Duration {
        self.limits.timeout.saturating_sub(self.elapsed())
    }

    /// Memory only grows while a guest lives, so what is used now is also the peak.
    pub(crate) fn set_memory(&self, total: usize) {
        self.memory.store(total, Ordering::Relaxed);
    }

    pub(crate) fn peak_memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    pub(crate) fn refuse_growth(&self) {
        self.growth_refused.store(true, Ordering::Relaxed);
    }

    pub(crate) fn growth_was_refused(&self) -> bool {
        self.growth_refused.load(Ordering::Relaxed)
    }

    pub(crate) fn count_host_call(&self) {
        self.host_calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_cpu(&self, time: Duration) {
        self.cpu_nanos.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn count_sent(&self, bytes: u64) {
        self.http_sent.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn count_received(&self, bytes: u64) {
        self.http_received.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            wall: self.elapsed(),
            cpu: Duration::from_nanos(self.cpu_nanos.load(Ordering::Relaxed)),
            peak_memory: self.peak_memory(),
            log_bytes: self.log.used(),
            host_calls: self.host_calls.load(Ordering::Relaxed),
            http_sent: self.http_sent.load(Ordering::Relaxed),
            http_received: self.http_received.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::capture::tests::Lines;
    use crate::log::LogLevel;

    /// An attempt whose clock stands still.
    pub(crate) fn attempt(limits: Limits) -> Arc<Attempt> {
        let log = Capture::new(Arc::new(Lines::default()), LogLevel::Info, &limits);
        let (progress, _) = watch::channel(None);
        Arc::new(Attempt::new(limits, log, progress, Arc::new(|| Duration::ZERO)))
    }
}
