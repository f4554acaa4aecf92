//! What the guest's side and the host's side of one attempt share, and what outlives the guest.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::capture::Capture;
use crate::command::Written;
use crate::cpu::CpuMeter;
use crate::execution::Progress;
use crate::invocation::MonotonicClock;
use crate::limits::{Breach, Limits};
use crate::memory::MemoryFull;
use crate::outbound::Origin;
use crate::outcome::Usage;
use crate::signal::Signal;

pub(crate) struct Attempt {
    pub(crate) signal: Signal,
    pub(crate) limits: Limits,
    pub(crate) log: Capture,
    pub(crate) progress: watch::Sender<Option<Progress>>,
    pub(crate) cpu: CpuMeter,
    /// What a WASI command has written to standard output; a handler's is part of its log.
    pub(crate) written: Option<Written>,
    clock: MonotonicClock,
    started: Duration,
    memory: AtomicUsize,
    growth_refused: OnceLock<MemoryFull>,
    /// Code of the guest has run.
    ran: AtomicBool,
    /// Code of the guest was interrupted by a tick, and waits for the thread that others have.
    waits_for_turn: AtomicBool,
    host_calls: AtomicU64,
    fuel: OnceLock<AtomicU64>,
    http_sent: AtomicU64,
    http_received: AtomicU64,
    /// Origins whose addresses were refused.
    denied: Mutex<HashSet<Origin>>,
}

/// How many origins' refusals an attempt may tell the operator.
const MOST_DENIALS: usize = 32;

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
            cpu: CpuMeter::default(),
            written: None,
            started: clock(),
            clock,
            memory: AtomicUsize::new(0),
            growth_refused: OnceLock::new(),
            ran: AtomicBool::new(false),
            waits_for_turn: AtomicBool::new(false),
            host_calls: AtomicU64::new(0),
            fuel: OnceLock::new(),
            http_sent: AtomicU64::new(0),
            http_received: AtomicU64::new(0),
            denied: Mutex::default(),
        }
    }

    /// When it began, by the clock it was made with.
    pub(crate) fn started(&self) -> Duration {
        self.started
    }

    /// Of a WASI command.
    pub(crate) fn of_command(mut self) -> Self {
        self.written = Some(Written::new(self.limits.output));
        self.log = self.log.of_command();
        self
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

    /// Remembers the first refusal.
    pub(crate) fn refuse_growth(&self, full: MemoryFull) {
        self.growth_refused.get_or_init(|| full);
    }

    pub(crate) fn growth_refused(&self) -> Option<MemoryFull> {
        self.growth_refused.get().copied()
    }

    pub(crate) fn mark_as_run(&self) {
        self.ran.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_run(&self) -> bool {
        self.ran.load(Ordering::Relaxed)
    }

    /// Its code gives its thread to others, and goes on in its next turn.
    pub(crate) fn give_way(&self) {
        self.waits_for_turn.store(true, Ordering::Relaxed);
    }

    pub(crate) fn waits_for_turn(&self) -> bool {
        self.waits_for_turn.load(Ordering::Relaxed)
    }

    pub(crate) fn begin_turn(&self) {
        self.waits_for_turn.store(false, Ordering::Relaxed);
        self.cpu.begin_turn();
    }

    /// Answers how many there were with this one.
    pub(crate) fn count_host_call(&self) -> u64 {
        self.host_calls.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// For the thread that the guest runs on.
    ///
    /// # Errors
    ///
    /// [`Breach::Cpu`] when its processor time is used up.
    pub(crate) fn check_cpu(&self) -> Result<(), Breach> {
        match self.limits.cpu {
            Some(limit) if self.cpu.used_within_turn() > limit => Err(Breach::Cpu { limit }),
            _ => Ok(()),
        }
    }

    /// What a metered guest has burnt so far.
    pub(crate) fn set_fuel_used(&self, fuel: u64) {
        self.fuel.get_or_init(AtomicU64::default).store(fuel, Ordering::Relaxed);
    }

    pub(crate) fn count_sent(&self, bytes: u64) {
        self.http_sent.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn count_received(&self, bytes: u64) {
        self.http_received.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether a refusal of this origin's addresses is news to the operator.
    pub(crate) fn is_first_denial(&self, origin: &Origin) -> bool {
        let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
        denied.len() < MOST_DENIALS && denied.insert(origin.clone())
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            wall: self.elapsed(),
            cpu: self.cpu.used(),
            peak_memory: self.peak_memory(),
            log_bytes: self.log.used(),
            host_calls: self.host_calls.load(Ordering::Relaxed),
            fuel: self.fuel.get().map(|fuel| fuel.load(Ordering::Relaxed)),
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
