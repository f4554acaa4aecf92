//! A thread for what nothing else may delay.

use std::io;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// A thread with a runtime of its own: the connection for heartbeats lives there, so that whatever the process does on
/// its other threads stands in no heartbeat's way. The thread ends with this, and what was spawned there with it.
pub(crate) struct Aside {
    runtime: Handle,
    _alive: oneshot::Sender<()>,
}

impl Aside {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The system has no thread or no timer to give.
    pub(crate) fn start() -> io::Result<Aside> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (alive, ended) = oneshot::channel();
        let aside = Aside { runtime: runtime.handle().clone(), _alive: alive };
        std::thread::Builder::new().name("lh-store-beats".to_owned()).spawn(move || {
            // Nothing is ever sent: it ends when the other side is dropped.
            let _ = runtime.block_on(ended);
        })?;
        Ok(aside)
    }

    /// Where to spawn.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn what_is_aside_goes_on_while_its_maker_stands_still_and_ends_with_it() {
        let aside = Aside::start().expect("a thread");
        let (send, hear) = mpsc::channel();
        let (alive, ended) = mpsc::channel::<()>();
        aside.runtime().spawn(async move {
            let _alive = alive;
            tokio::time::sleep(Duration::from_millis(1)).await;
            send.send(()).expect("the test hears it");
            std::future::pending::<()>().await;
        });
        // This blocks the only thread of this test's runtime.
        hear.recv_timeout(Duration::from_secs(30)).expect("it goes on");
        drop(aside);
        let gone = ended.recv_timeout(Duration::from_secs(30));
        assert_eq!(gone, Err(mpsc::RecvTimeoutError::Disconnected), "it was dropped with its thread");
    }
}
