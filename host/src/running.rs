//! Which versions of plugins are in use by running attempts: an attempt ends on the version it started with, however
//! often its file is replaced meanwhile.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_sandbox::{Digest, Plugin};
use serde::{Deserialize, Serialize};

/// Counts running attempts by plugin file and version.
#[derive(Debug, Default)]
pub struct Running(Mutex<BTreeMap<(PathBuf, Digest), InUse>>);

#[derive(Debug)]
struct InUse {
    size: u64,
    attempts: usize,
}

/// A version that running attempts use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningVersion {
    /// The path of the plugin's code, where that version lay.
    pub file: String,
    /// The SHA-256 of its bytes, in hexadecimal digits.
    pub digest: String,
    /// Bytes.
    pub size: u64,
    /// How many attempts run on it.
    pub attempts: usize,
}

impl Running {
    /// What is in use now.
    pub fn now(&self) -> Vec<RunningVersion> {
        let one = |((file, digest), used): (&(PathBuf, Digest), &InUse)| RunningVersion {
            file: crate::config::plain(&file.to_string_lossy()),
            digest: digest.to_string(),
            size: used.size,
            attempts: used.attempts,
        };
        self.all().iter().map(one).collect()
    }

    /// Counts an attempt until what is answered is dropped.
    pub(crate) fn enter(self: &Arc<Self>, file: &Path, plugin: &Plugin) -> Use {
        self.count(file, plugin.digest(), plugin.size() as u64)
    }

    fn count(self: &Arc<Self>, file: &Path, digest: Digest, size: u64) -> Use {
        let key = (file.to_owned(), digest);
        self.all().entry(key.clone()).or_insert(InUse { size, attempts: 0 }).attempts += 1;
        Use { running: Arc::clone(self), key }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<(PathBuf, Digest), InUse>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One attempt that uses a version.
#[derive(Debug)]
pub(crate) struct Use {
    running: Arc<Running>,
    key: (PathBuf, Digest),
}

impl Drop for Use {
    fn drop(&mut self) {
        let mut all = self.running.all();
        if let Some(used) = all.get_mut(&self.key) {
            used.attempts -= 1;
            if used.attempts == 0 {
                all.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use leasehold_sandbox::inspect;

    use super::*;

    #[test]
    fn versions_are_counted_while_attempts_use_them() {
        let running = Arc::new(Running::default());
        let digest = |text: &str| inspect(text.as_bytes()).digest;
        let enter = |version: &str| running.count(Path::new("p/a.wasm"), digest(version), 7);
        let uses = [enter("old"), enter("old"), enter("new")];
        let attempts = || running.now().iter().map(|version| version.attempts).collect::<Vec<_>>();
        let mut found = attempts();
        found.sort_unstable();
        assert_eq!(found, [1, 2]);
        assert_eq!((running.now()[0].file.as_str(), running.now()[0].size), ("p/a.wasm", 7));
        let [first, second, third] = uses;
        drop((first, third));
        assert_eq!(attempts(), [1]);
        drop(second);
        assert!(running.now().is_empty());
    }
}
