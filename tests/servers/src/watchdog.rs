//! Whether the machine gave its processes their time, so that a test by the clock says something.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

const TICK: Duration = Duration::from_millis(10);

/// How late a watchdog may wake, at the most, for a test by the clock to count.
pub const IN_TIME: Duration = Duration::from_millis(50);

/// Wakes every 10 ms, on a thread of its own, and notes when it was late.
#[derive(Debug)]
pub struct Watchdog {
    ended: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Seen {
    latest: Duration,
    /// When it woke and was more than [`IN_TIME`] late, since boot, and how late.
    stalls: Vec<(Duration, Duration)>,
}

impl Watchdog {
    /// Watches from now on, until it is dropped.
    pub fn start() -> Watchdog {
        let (ended, seen) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Seen>>::default());
        let (end, note) = (Arc::clone(&ended), Arc::clone(&seen));
        let watch = move || {
            while !end.load(Ordering::Relaxed) {
                let due = since_boot() + TICK;
                std::thread::park_timeout(TICK);
                let woke = since_boot();
                let late = woke.saturating_sub(due);
                let mut seen = note.lock().expect("nobody panics with it");
                seen.latest = seen.latest.max(late);
                if late > IN_TIME {
                    seen.stalls.push((woke, late));
                }
            }
        };
        Watchdog { ended, seen, thread: Some(std::thread::spawn(watch)) }
    }

    /// How late it was at the most.
    pub fn latest(&self) -> Duration {
        self.seen.lock().expect("nobody panics with it").latest
    }

    /// Whether it was in time all the while, from one time since boot to another.
    pub fn was_in_time(&self, from: Duration, to: Duration) -> bool {
        let seen = self.seen.lock().expect("nobody panics with it");
        !seen.stalls.iter().any(|(woke, late)| *woke >= from && *woke - *late <= to)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It only waits; that it panicked would have been seen by whoever asked it.
            let _ = thread.join();
        }
    }
}

/// The time since boot, suspend included: the clock of the hosts' own timers.
pub fn since_boot() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).expect("the machine booted before");
    Duration::new(seconds, u32::try_from(now.tv_nsec).expect("less than a second"))
}
