//! `leasehold:job/state`: the run's checkpoint.

use wasmtime::Result;

use super::bindings::leasehold::job::state::{Host, StateError};
use super::stored;
use crate::guest::Guest;
use crate::storage::StorageError;

/// Bytes of a checkpoint.
const MAX_STATE: usize = 1 << 20;

impl Host for Guest {
    async fn load(&mut self) -> Result<Result<Option<Vec<u8>>, StateError>> {
        self.ensure_held()?;
        let load = self.outward.effects.storage.load_state();
        Ok(stored::read(&self.attempt, load).await.map_err(StateError::from))
    }

    async fn save(&mut self, data: Vec<u8>) -> Result<Result<(), StateError>> {
        self.ensure_held()?;
        if data.len() > MAX_STATE {
            return Ok(Err(StateError::TooLarge(MAX_STATE as u64)));
        }
        let effects = &self.outward.effects;
        let save = effects.storage.save_state(data);
        Ok(stored::write(&self.attempt, &*effects.gate, save).await.map_err(StateError::from))
    }
}

impl From<StorageError> for StateError {
    fn from(error: StorageError) -> StateError {
        match error {
            StorageError::Lost => StateError::Lost,
            StorageError::TooLarge(limit) => StateError::TooLarge(limit),
            // This interface has no case of its own for it.
            StorageError::OverQuota(_) => StateError::Other(error.to_string()),
            StorageError::Unavailable(why) => StateError::Unavailable(why),
            StorageError::Other(why) => StateError::Other(why),
        }
    }
}
