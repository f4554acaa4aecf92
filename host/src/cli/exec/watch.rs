//! `leasehold exec --watch`: runs a handler again whenever its file has changed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use leasehold_sandbox::{Sandbox, StopReason};

use super::Exec;
use super::said::Stderr;
use crate::cli::Exit;
use crate::cli::error::CliError;
use crate::cli::output::Output;
use crate::cli::signals::EndSignals;
use crate::cli::text::plain;

/// How often the file is looked at, and how long it must have stayed the same: as in a plugin directory.
const SETTLED: Duration = Duration::from_millis(300);

/// Runs it until a signal comes. Failures are told, and the next change is waited for.
///
/// # Errors
/// Signals or the output cannot be had.
pub(super) async fn run(exec: &Exec, sandbox: &Sandbox, out: &mut Output) -> Result<Exit, CliError> {
    let mut signals = EndSignals::listen()?;
    let stderr = Stderr::new();
    let name = plain(&exec.file.to_string_lossy());
    let mut ran = None;
    let mut seen = Version::of(&exec.file);
    loop {
        if seen.is_some() && seen != ran {
            ran = seen;
            let loaded = tokio::select! {
                loaded = exec.load(sandbox) => loaded,
                _ = signals.next() => return Ok(Exit::Success),
            };
            let told = match loaded {
                Err(error) => Err(error),
                Ok(plugin) => {
                    let (ended, said) = exec.execute(sandbox, &plugin, &mut signals, out.is_json()).await?;
                    let stopped = ended.stop == Some(StopReason::Stopping);
                    let told = exec.tell(ended, said, out);
                    if stopped {
                        return told;
                    }
                    told
                }
            };
            if let Err(error) = told {
                error.print();
                if out.is_json() {
                    out.object(&error.to_json())?;
                }
            }
            out.flush()?;
            if out.is_closed() {
                return Ok(Exit::Success);
            }
        }
        stderr.note(&format!("waiting for {name} to change; Ctrl-C ends"));
        seen = tokio::select! {
            seen = change(&exec.file, ran) => seen,
            _ = signals.next() => return Ok(Exit::Success),
        };
    }
}

/// What tells one version of a file from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Version {
    /// None while there is no file.
    fn of(path: &Path) -> Option<Version> {
        let found = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some(Version {
            file: (found.dev(), found.ino()),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

/// Waits until the file is another one than that which ran, and has stopped changing.
async fn change(path: &Path, ran: Option<Version>) -> Option<Version> {
    let mut before = None;
    loop {
        let seen = Version::of(path);
        if seen.is_some() && seen != ran && seen == before {
            return seen;
        }
        before = seen;
        tokio::time::sleep(SETTLED).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_that_is_missing_or_still_written_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.wasm");
        assert_eq!(Version::of(&path), None);
        assert_eq!(Version::of(folder.path()), None, "a folder is no plugin");
        fs::write(&path, b"one").unwrap();
        let first = Version::of(&path);
        let waiting = tokio::spawn({
            let path = path.clone();
            async move { change(&path, first).await }
        });
        for n in 0..3 {
            tokio::time::sleep(SETTLED / 3).await;
            fs::write(&path, format!("longer and longer {}", "x".repeat(n))).unwrap();
        }
        let seen = waiting.await.unwrap();
        assert_eq!(seen, Version::of(&path), "nothing earlier than what is there in the end");
        assert_ne!(seen, first);
    }
}
