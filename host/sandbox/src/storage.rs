//! What a guest keeps: the run's checkpoint and the tenant's key-value space, behind a trait that whoever starts guests
//! implements over a store.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

/// Why the storage did not do what a guest asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// The attempt has lost its run: nothing was written.
    #[error("the lease of this run is lost")]
    Lost,
    /// Larger than this many bytes. Nothing was written.
    #[error("it is larger than the {0} bytes allowed")]
    TooLarge(u64),
    /// The tenant would keep more than this many bytes. Nothing was written.
    #[error("the tenant would keep more than the {0} bytes it may")]
    OverQuota(u64),
    /// The store does not answer. Whoever reads may try again; a write is not answered so unless it was not done.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The store refused.
    #[error("{0}")]
    Other(String),
}

/// One attempt's storage. A guest calls one function at a time; all futures are safe to drop, and a write that was begun
/// may be done all the same then.
///
/// Writes are durable before they return, and refused once the lease is lost, by the store itself: the
/// [gate](crate::Gate) before them only keeps them from being tried.
#[async_trait]
pub trait Storage: Send + Sync {
    /// The checkpoint that this or an earlier attempt of the run saved last.
    ///
    /// # Errors
    /// See [`StorageError`]; likewise below.
    async fn load_state(&self) -> Result<Option<Vec<u8>>, StorageError>;

    /// Replaces the checkpoint.
    ///
    /// # Errors
    /// See [`StorageError`].
    async fn save_state(&self, data: Vec<u8>) -> Result<(), StorageError>;

    /// A value of the tenant.
    ///
    /// # Errors
    /// See [`StorageError`].
    async fn kv_get(&self, key: &str) -> Result<Option<Vec<u8>>, StorageError>;

    /// Sets a value.
    ///
    /// # Errors
    /// See [`StorageError`].
    async fn kv_set(&self, key: String, value: Vec<u8>) -> Result<(), StorageError>;

    /// Deletes a value. False when there was none.
    ///
    /// # Errors
    /// See [`StorageError`].
    async fn kv_delete(&self, key: String) -> Result<bool, StorageError>;

    /// Keys that begin with `prefix`, in the order of their bytes, after `after`, at most `limit`.
    ///
    /// # Errors
    /// See [`StorageError`].
    async fn kv_list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>, StorageError>;

    /// Sets a value if the present one is `expected` (none: if there is none). False when it is not.
    ///
    /// # Errors
    /// See [`StorageError`].
    async fn kv_compare_and_set(
        &self,
        key: String,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
    ) -> Result<bool, StorageError>;
}

/// Bytes that a [`MemoryStorage`] keeps, keys included.
const MEMORY_QUOTA: u64 = 256 << 20;

/// A storage that is gone with its owner: for handlers that are run once without a store, and for tests.
#[derive(Debug, Default)]
pub struct MemoryStorage(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    state: Option<Vec<u8>>,
    values: BTreeMap<String, Vec<u8>>,
}

impl MemoryStorage {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn set(&mut self, key: String, value: Vec<u8>) -> Result<(), StorageError> {
        let others: usize =
            self.values.iter().filter(|(other, _)| **other != key).map(|(key, value)| key.len() + value.len()).sum();
        if (others + key.len() + value.len()) as u64 > MEMORY_QUOTA {
            return Err(StorageError::OverQuota(MEMORY_QUOTA));
        }
        self.values.insert(key, value);
        Ok(())
    }
}

#[async_trait]
impl Storage for MemoryStorage {
    async fn load_state(&self) -> Result<Option<Vec<u8>>, StorageError> {
        Ok(self.kept().state.clone())
    }

    async fn save_state(&self, data: Vec<u8>) -> Result<(), StorageError> {
        self.kept().state = Some(data);
        Ok(())
    }

    async fn kv_get(&self, key: &str) -> Result<Option<Vec<u8>>, StorageError> {
        Ok(self.kept().values.get(key).cloned())
    }

    async fn kv_set(&self, key: String, value: Vec<u8>) -> Result<(), StorageError> {
        self.kept().set(key, value)
    }

    async fn kv_delete(&self, key: String) -> Result<bool, StorageError> {
        Ok(self.kept().values.remove(&key).is_some())
    }

    async fn kv_list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>, StorageError> {
        let kept = self.kept();
        let fits = |key: &&String| key.starts_with(prefix) && after.is_none_or(|after| key.as_str() > after);
        Ok(kept.values.keys().filter(fits).take(limit).cloned().collect())
    }

    async fn kv_compare_and_set(
        &self,
        key: String,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
    ) -> Result<bool, StorageError> {
        let mut kept = self.kept();
        if kept.values.get(&key) != expected.as_ref() {
            return Ok(false);
        }
        kept.set(key, value).map(|()| true)
    }
}
