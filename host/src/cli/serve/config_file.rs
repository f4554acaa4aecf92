//! The configuration file while a host runs. It is read once, at the start; when it says something else later, people are
//! told, because nothing else shows that their change is not in force.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold::config::FILE_MAX;
use leasehold::regular_file;
use tokio::sync::watch;

/// How often the file is looked at.
const PAUSE: Duration = Duration::from_secs(5);

/// The file with what it said when the host started.
#[derive(Debug)]
pub(super) struct ConfigFile {
    path: PathBuf,
    content: Vec<u8>,
}

impl ConfigFile {
    /// The file as it is now; none when it cannot be read.
    pub(super) fn read(path: &Path) -> Option<ConfigFile> {
        content(path).ok().map(|content| ConfigFile { path: path.to_owned(), content })
    }

    /// Warns once, when the file says something else; ends with that, or when nobody sends to `alive` any more.
    pub(super) async fn tell_when_it_changes<T>(self, mut alive: watch::Receiver<T>) {
        let path = self.path.clone();
        let watched = async {
            loop {
                tokio::time::sleep(PAUSE).await;
                if self.has_changed() {
                    return;
                }
            }
        };
        tokio::select! {
            () = watched => tracing::warn!(
                "{} has changed since this host started, and is read at the start only: restart the host",
                path.display()
            ),
            () = async { while alive.changed().await.is_ok() {} } => {}
        }
    }

    /// A few KiB are read faster than a thread is found for it. One that cannot be read just now has not changed.
    fn has_changed(&self) -> bool {
        match content(&self.path) {
            Ok(now) => now != self.content,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }
}

fn content(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    regular_file::open(path)?.take(FILE_MAX).read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_has_changed_when_it_says_something_else_and_not_when_it_was_only_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("leasehold.toml");
        assert!(ConfigFile::read(&path).is_none());
        fs::write(&path, "a = 1").unwrap();
        let file = ConfigFile::read(&path).unwrap();
        fs::write(&path, "a = 1").unwrap();
        assert!(!file.has_changed());
        fs::write(&path, "a = 2").unwrap();
        assert!(file.has_changed());
        fs::remove_file(&path).unwrap();
        assert!(file.has_changed());
    }
}
