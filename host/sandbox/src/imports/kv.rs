//! `leasehold:job/kv`: the tenant's own key-value space.

use wasmtime::Result;

use super::bindings::leasehold::job::kv::{Host, KvError};
use super::stored;
use crate::guest::Guest;
use crate::storage::StorageError;

/// Bytes of a key.
const MAX_KEY: usize = 512;
/// Bytes of a value.
const MAX_VALUE: usize = 1 << 20;
/// Keys in one answer.
const MAX_LIST: usize = 1_000;

impl Host for Guest {
    async fn get(&mut self, key: String) -> Result<Result<Option<Vec<u8>>, KvError>> {
        self.ensure_held()?;
        if let Err(error) = check(&key, &[]) {
            return Ok(Err(error));
        }
        let get = self.outward.effects.storage.kv_get(&key);
        Ok(stored::read(&self.attempt, get).await.map_err(KvError::from))
    }

    async fn set(&mut self, key: String, value: Vec<u8>) -> Result<Result<(), KvError>> {
        self.ensure_held()?;
        if let Err(error) = check(&key, &value) {
            return Ok(Err(error));
        }
        let effects = &self.outward.effects;
        let set = effects.storage.kv_set(key, value);
        Ok(stored::write(&self.attempt, &*effects.gate, set).await.map_err(KvError::from))
    }

    async fn delete(&mut self, key: String) -> Result<Result<bool, KvError>> {
        self.ensure_held()?;
        if let Err(error) = check(&key, &[]) {
            return Ok(Err(error));
        }
        let effects = &self.outward.effects;
        let delete = effects.storage.kv_delete(key);
        Ok(stored::write(&self.attempt, &*effects.gate, delete).await.map_err(KvError::from))
    }

    async fn list_keys(
        &mut self,
        prefix: String,
        after: Option<String>,
        limit: u32,
    ) -> Result<Result<Vec<String>, KvError>> {
        self.ensure_held()?;
        for key in [Some(&prefix), after.as_ref()].into_iter().flatten() {
            if let Err(error) = check(key, &[]) {
                return Ok(Err(error));
            }
        }
        let limit = usize::try_from(limit).map_or(MAX_LIST, |limit| limit.min(MAX_LIST));
        let list = self.outward.effects.storage.kv_list(&prefix, after.as_deref(), limit);
        Ok(stored::read(&self.attempt, list).await.map_err(KvError::from))
    }

    async fn compare_and_set(
        &mut self,
        key: String,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
    ) -> Result<Result<bool, KvError>> {
        self.ensure_held()?;
        if let Err(error) = check(&key, &value) {
            return Ok(Err(error));
        }
        let effects = &self.outward.effects;
        let set = effects.storage.kv_compare_and_set(key, expected, value);
        Ok(stored::write(&self.attempt, &*effects.gate, set).await.map_err(KvError::from))
    }
}

fn check(key: &str, value: &[u8]) -> Result<(), KvError> {
    match (key.len() > MAX_KEY, value.len() > MAX_VALUE) {
        (true, _) => Err(KvError::TooLarge(MAX_KEY as u64)),
        (_, true) => Err(KvError::TooLarge(MAX_VALUE as u64)),
        _ => Ok(()),
    }
}

impl From<StorageError> for KvError {
    fn from(error: StorageError) -> KvError {
        match error {
            StorageError::Lost => KvError::Lost,
            StorageError::TooLarge(limit) => KvError::TooLarge(limit),
            StorageError::OverQuota(limit) => KvError::OverQuota(limit),
            StorageError::Unavailable(why) => KvError::Unavailable(why),
            StorageError::Other(why) => KvError::Other(why),
        }
    }
}
