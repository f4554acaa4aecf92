//! Telling this process that a job was released or triggered.

use leasehold_lease::id::JobKey;
use tokio::sync::broadcast;

/// Wake-ups that a slow listener may fall behind by; what it misses, polling finds.
const KEPT: usize = 256;

/// Those who want to know, in this process.
pub(crate) struct Wakeups(broadcast::Sender<JobKey>);

impl Default for Wakeups {
    fn default() -> Wakeups {
        Wakeups(broadcast::Sender::new(KEPT))
    }
}

impl Wakeups {
    /// Tells everyone who listens; nobody has to.
    pub(crate) fn wake(&self, job: &JobKey) {
        let _ = self.0.send(job.clone());
    }

    /// Wake-ups from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<JobKey> {
        self.0.subscribe()
    }
}
