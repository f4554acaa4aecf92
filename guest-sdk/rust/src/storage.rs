//! What a run keeps: its checkpoint, and the tenant's key-value space.

use std::fmt;
use std::marker::PhantomData;

use serde::{Serialize, de::DeserializeOwned};

use crate::{Error, ErrorKind, Result, Run, host};

/// Why the host did not keep or find something.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StorageError {
    /// This attempt has lost the run; nothing was written.
    Lost,
    /// Larger than this many bytes.
    TooLarge(u64),
    /// The tenant would keep more than this many bytes.
    OverQuota(u64),
    /// The store does not answer.
    Unavailable(String),
    /// Anything else.
    Other(String),
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost => f.write_str("this attempt has lost its run"),
            Self::TooLarge(limit) => write!(f, "it is larger than the {limit} bytes allowed"),
            Self::OverQuota(limit) => write!(f, "the tenant would keep more than the {limit} bytes it may"),
            Self::Unavailable(why) => write!(f, "the store is unavailable: {why}"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for StorageError {}

impl StorageError {
    /// What `?` makes of it: see [`Error`].
    pub(crate) fn meaning(&self) -> (ErrorKind, &'static str) {
        match self {
            Self::Lost => (ErrorKind::Cancelled, "cancelled"),
            Self::TooLarge(_) => (ErrorKind::Permanent, "storage-too-large"),
            Self::OverQuota(_) => (ErrorKind::Permanent, "storage-over-quota"),
            Self::Unavailable(_) => (ErrorKind::Retryable, "storage-unavailable"),
            Self::Other(_) => (ErrorKind::Permanent, "storage"),
        }
    }
}

/// The tenant's key-value space: shared by all its jobs, kept when runs end. Get it by [`Run::kv`].
///
/// Keys have at most 512 bytes, values 1 MiB. Writes are durable before they return and refused once the lease is lost;
/// while it is in doubt they wait.
#[derive(Clone, Copy, Debug)]
pub struct Kv<'a>(PhantomData<&'a Run>);

impl Run {
    /// The checkpoint that this or an earlier attempt of the run saved last, as JSON.
    ///
    /// # Errors
    ///
    /// The store does not answer, or the checkpoint does not fit `T` (permanent `bad-state`).
    pub fn load_state<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let Some(bytes) = host::load_state()? else { return Ok(None) };
        let bad = |error| Error::permanent("bad-state", format!("the checkpoint does not fit: {error}"));
        serde_json::from_slice(&bytes).map(Some).map_err(bad)
    }

    /// Saves a checkpoint for the next attempt, as JSON of at most 1 MiB. It goes when the run ends for good.
    ///
    /// # Errors
    ///
    /// See [`StorageError`]; or the value has no form in JSON (permanent `bad-state`).
    pub fn save_state<T: Serialize>(&self, state: &T) -> Result<()> {
        let bad = |error| Error::permanent("bad-state", format!("the checkpoint is not JSON: {error}"));
        Ok(host::save_state(&serde_json::to_vec(state).map_err(bad)?)?)
    }

    /// The tenant's key-value space.
    #[must_use]
    pub fn kv(&self) -> Kv<'_> {
        Kv(PhantomData)
    }

    /// A setting the operator gave the tenant and the job's manifest asks for. A secret is a placeholder, which the host
    /// replaces in the one header and towards the one origin it was granted for.
    #[must_use]
    pub fn config(&self, key: &str) -> Option<String> {
        host::config(key)
    }
}

impl Kv<'_> {
    /// A value.
    ///
    /// # Errors
    ///
    /// See [`StorageError`]; likewise below.
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StorageError> {
        host::kv_get(key)
    }

    /// Sets a value.
    ///
    /// # Errors
    ///
    /// See [`StorageError`].
    pub fn set(&self, key: &str, value: impl AsRef<[u8]>) -> Result<(), StorageError> {
        host::kv_set(key, value.as_ref())
    }

    /// Deletes a value. False when there was none.
    ///
    /// # Errors
    ///
    /// See [`StorageError`].
    pub fn delete(&self, key: &str) -> Result<bool, StorageError> {
        host::kv_delete(key)
    }

    /// Keys that begin with `prefix`, in order, after `after`; at most `limit`, and never more than 1 000.
    ///
    /// # Errors
    ///
    /// See [`StorageError`].
    pub fn keys(&self, prefix: &str, after: Option<&str>, limit: u32) -> Result<Vec<String>, StorageError> {
        host::kv_list(prefix, after, limit)
    }

    /// Sets a value if the present one is `expected` (`None`: if there is none). False when it is not.
    ///
    /// # Errors
    ///
    /// See [`StorageError`].
    pub fn compare_and_set(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<bool, StorageError> {
        host::kv_compare_and_set(key, expected, value.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, testing};

    #[test]
    fn a_checkpoint_comes_back_as_it_was_saved() {
        let run = testing::run();
        assert_eq!(run.load_state::<Vec<u32>>().unwrap(), None);
        run.save_state(&vec![1, 2]).unwrap();
        assert_eq!(run.load_state::<Vec<u32>>().unwrap(), Some(vec![1, 2]));
        assert_eq!(run.load_state::<String>().unwrap_err().code(), "bad-state");
    }

    #[test]
    fn the_double_keeps_keys_in_order_and_compares() {
        let run = testing::run();
        let kv = run.kv();
        for key in ["b", "a/2", "a/1"] {
            kv.set(key, key).unwrap();
        }
        assert_eq!(kv.keys("a/", None, 10).unwrap(), ["a/1", "a/2"]);
        assert_eq!(kv.keys("a/", Some("a/1"), 10).unwrap(), ["a/2"]);
        assert!(!kv.compare_and_set("b", None, "x").unwrap() && kv.compare_and_set("b", Some(b"b"), "x").unwrap());
        assert_eq!(kv.get("b").unwrap().as_deref(), Some(&b"x"[..]));
        assert!(kv.delete("b").unwrap() && !kv.delete("b").unwrap());
    }

    #[test]
    fn a_lost_run_is_cancelled_and_other_trouble_has_its_code() {
        assert_eq!(Error::from(StorageError::Lost).kind(), ErrorKind::Cancelled);
        let error = Error::from(StorageError::Unavailable("x".into()));
        assert_eq!((error.kind(), error.code()), (ErrorKind::Retryable, "storage-unavailable"));
        assert_eq!(Error::from(StorageError::OverQuota(1)).code(), "storage-over-quota");
    }
}
