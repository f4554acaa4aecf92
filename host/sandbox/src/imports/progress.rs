//! `leasehold:job/progress`: how far the run is.

use wasmtime::Result;

use super::bindings::leasehold::job::progress;
use crate::execution::Progress;
use crate::guest::Guest;
use crate::text;

const MAX_MESSAGE: usize = 1024;

impl progress::Host for Guest {
    fn update(&mut self, done: u64, total: Option<u64>, message: String) -> Result<()> {
        self.ensure_held()?;
        let message = text::bound(&message, MAX_MESSAGE);
        // Replaces what nobody has read yet: reports are coalesced, however many a guest makes.
        self.attempt.progress.send_replace(Some(Progress { done, total, message }));
        Ok(())
    }
}
