//! Processor time of an attempt: what its turns on the guests' threads have taken.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::attempt::Attempt;

/// Counts processor time, in ns. A guest moves from thread to thread, but each of its turns is on one.
#[derive(Debug, Default)]
pub(crate) struct CpuMeter {
    /// Of the turns that are over.
    finished: AtomicU64,
    /// What the thread had used when the present turn began.
    turn_began: AtomicU64,
}

impl CpuMeter {
    /// All turns that are over.
    pub(crate) fn used(&self) -> Duration {
        Duration::from_nanos(self.finished.load(Ordering::Relaxed))
    }

    /// All turns and the present one so far. Only on the thread that has it.
    pub(crate) fn used_within_turn(&self) -> Duration {
        let turn = thread_cpu_nanos().saturating_sub(self.turn_began.load(Ordering::Relaxed));
        Duration::from_nanos(self.finished.load(Ordering::Relaxed).saturating_add(turn))
    }

    pub(crate) fn begin_turn(&self) {
        self.turn_began.store(thread_cpu_nanos(), Ordering::Relaxed);
    }

    fn end_turn(&self) {
        let turn = thread_cpu_nanos().saturating_sub(self.turn_began.load(Ordering::Relaxed));
        self.finished.fetch_add(turn, Ordering::Relaxed);
    }
}

/// A guest's future whose turns are counted: its own code, and the host functions it calls.
pub(crate) struct Metered<F> {
    attempt: Arc<Attempt>,
    inner: Pin<Box<F>>,
}

impl<F> Metered<F> {
    pub(crate) fn new(attempt: Arc<Attempt>, inner: F) -> Self {
        Metered { attempt, inner: Box::pin(inner) }
    }
}

impl<F: Future> Future for Metered<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.attempt.begin_turn();
        let polled = self.inner.as_mut().poll(cx);
        self.attempt.cpu.end_turn();
        polled
    }
}

fn thread_cpu_nanos() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = time.tv_sec.unsigned_abs();
    seconds.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_present_turn_counts_before_it_is_over() {
        let meter = CpuMeter::default();
        meter.begin_turn();
        while meter.used_within_turn() < Duration::from_millis(2) {}
        assert_eq!(meter.used(), Duration::ZERO);
        meter.end_turn();
        assert!(meter.used() >= Duration::from_millis(2));
    }
}
