//! The payload files that one manifest names, each read once and all of them bounded together.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::PAYLOADS_MAX;
use super::beneath::{Denied, Folder};
use super::look::Sight;
use crate::config::reader::shown_size;

pub(super) struct PayloadFiles<'a> {
    folder: &'a Folder,
    seen: BTreeMap<String, Sight>,
    /// Jobs that name the same file share its content.
    read: BTreeMap<String, Arc<[u8]>>,
    /// Bytes that may still be read.
    left: u64,
}

impl<'a> PayloadFiles<'a> {
    pub(super) fn of(folder: &'a Folder) -> PayloadFiles<'a> {
        PayloadFiles { folder, seen: BTreeMap::new(), read: BTreeMap::new(), left: PAYLOADS_MAX }
    }

    /// The content of a file of at most `max` bytes, or why there is none.
    pub(super) fn read(&mut self, path: &str, max: u64) -> Result<Arc<[u8]>, String> {
        if let Some(known) = self.read.get(path) {
            let fits = known.len() as u64 <= max;
            return if fits { Ok(Arc::clone(known)) } else { Err(Denied::TooLarge { max }.to_string()) };
        }
        let read = self.folder.read(Path::new(path), max.min(self.left));
        // What could not be read is looked at again, too: it may come or be put right.
        let sight = match &read {
            Ok((_, stamp)) => Sight::File(*stamp),
            Err(_) => Sight::of(self.folder, Path::new(path)),
        };
        self.seen.insert(path.to_owned(), sight);
        let bytes: Arc<[u8]> = match read {
            Ok((bytes, _)) => bytes.into(),
            Err(Denied::TooLarge { max: left }) if left < max => return Err(too_much()),
            Err(denied) => return Err(denied.to_string()),
        };
        self.left -= bytes.len() as u64;
        self.read.insert(path.to_owned(), Arc::clone(&bytes));
        Ok(bytes)
    }

    /// The files, and which version of each was read.
    pub(super) fn seen(self) -> BTreeMap<String, Sight> {
        self.seen
    }
}

/// Why a payload is refused that is not too large by itself.
pub(super) fn too_much() -> String {
    format!("with it, the payloads of the tenant's jobs take more than {} together", shown_size(PAYLOADS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_once_and_all_together_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            let file = std::fs::File::create(dir.path().join(name)).unwrap();
            file.set_len(PAYLOADS_MAX * 2 / 5).unwrap();
        }
        let folder = Folder::open(dir.path()).unwrap();
        let mut files = PayloadFiles::of(&folder);
        let a = files.read("a", PAYLOADS_MAX).unwrap();
        assert!(Arc::ptr_eq(&a, &files.read("a", PAYLOADS_MAX).unwrap()));
        assert!(files.read("a", 10).unwrap_err().contains("larger than 10 bytes"));
        assert!(files.read("b", PAYLOADS_MAX).is_ok());
        assert!(files.read("c", PAYLOADS_MAX).unwrap_err().contains("more than 64MiB together"));
        assert!(files.read("c", 10).unwrap_err().contains("larger than 10 bytes"));
        assert_eq!(files.seen().len(), 3, "what is refused is looked at again, too");
    }
}
