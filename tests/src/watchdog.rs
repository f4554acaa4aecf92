//! Whether the machine gave this process its time, so that a test by the clock says something.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use leasehold::clock;

const TICK: Duration = Duration::from_millis(10);

/// How late a watchdog may wake, at the most, for a test by the clock to count.
pub const IN_TIME: Duration = Duration::from_millis(50);

/// Wakes every 10 ms and notes how late it is.
#[derive(Debug)]
pub struct Watchdog {
    stop: Sender<()>,
    thread: JoinHandle<Duration>,
}

impl Watchdog {
    /// Watches from now on.
    pub fn start() -> Watchdog {
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            let mut latest = Duration::ZERO;
            loop {
                let due = clock::mono() + TICK;
                match stopped.recv_timeout(TICK) {
                    Err(RecvTimeoutError::Timeout) => latest = latest.max(clock::mono().since(due)),
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return latest,
                }
            }
        });
        Watchdog { stop, thread }
    }

    /// How late it was at the most.
    pub fn latest(self) -> Duration {
        drop(self.stop);
        self.thread.join().expect("the watchdog only waits")
    }
}
