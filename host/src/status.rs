//! What a host tells of its plugins to people on the same machine: a file in its data directory, which needs no store
//! and no port. It is replaced as a whole when something changes and touched every few seconds besides, so that its age
//! shows whether the host moves. A lock that ends with the process shows whether the host lives.
//!
//! `<data_dir>/hosts/<random>.json` is the file and `<random>.lock` beside it the lock. What dead hosts have left is
//! removed when one starts.

use leasehold_lease::id::hex;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use leasehold_lease::time::Millis;
use rustix::fs::{AtFlags, CWD, FlockOperation, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, flock, utimensat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::plugins::Survey;
use crate::running::{Running, RunningVersion};
use crate::{clock, regular_file};

/// No host tells more than this, in bytes.
const FILE_MAX: u64 = 32 << 20;
/// More hosts than this on one data directory are not looked at.
const HOSTS_MAX: usize = 1_000;
/// How often it is looked whether something has changed.
const TICK: Duration = Duration::from_millis(500);
/// After this many ticks without a change the file is touched.
const TICKS_AT_REST: u32 = 8;
/// A living host whose file is older than this does not move: it is frozen, or its disk is full.
pub const SILENT_AFTER: Duration = Duration::from_secs(15);

/// Who tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The host's name.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// The version of its program.
    pub version: String,
    /// The plugin directory it follows.
    pub plugins: PathBuf,
}

/// What a host tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostStatus {
    /// Who tells.
    pub about: About,
    /// When something changed last.
    pub changed: Millis,
    /// Its plugin directory.
    pub survey: Survey,
    /// The versions that running attempts use.
    pub running: Vec<RunningVersion>,
}

/// A living host.
#[derive(Debug)]
pub struct FoundHost {
    /// What it has told last.
    pub status: HostStatus,
    /// For how long it has not said that this is still so.
    pub silent: Duration,
}

/// The hosts that keep their data in one folder.
#[derive(Debug, Default)]
pub struct Living {
    /// Those that live, by name.
    pub hosts: Vec<FoundHost>,
    /// Files that look as if a host had made them and cannot be read.
    pub unread: Vec<UnreadFile>,
}

/// A file in the folder of hosts that does not say what it should.
#[derive(Debug, thiserror::Error)]
#[error(
    "what a host tells of its plugins cannot be read from {}: {source}. Run `leasehold` as the user and in the version of \
     that host; if no host made the file, remove it",
    file.display()
)]
pub struct UnreadFile {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub source: io::Error,
}

/// A host's own file. It is removed when this is dropped.
#[derive(Debug)]
pub struct StatusFile {
    file: PathBuf,
    lock: PathBuf,
    _held: File,
}

impl StatusFile {
    /// Makes a lock of the host's own, and removes what dead hosts have left. Blocks on the disk.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn create(data_dir: &Path) -> io::Result<StatusFile> {
        let folder = folder(data_dir);
        fs::create_dir_all(&folder)?;
        remove_dead(&folder)?;
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let stem = hex(&random);
        let lock = folder.join(format!("{stem}.lock"));
        // It gets its name when it is held: under its name it is never found free while the host lives.
        let beside = folder.join(format!("{stem}.tmp"));
        let held = File::create_new(&beside)?;
        flock(&held, FlockOperation::NonBlockingLockExclusive)?;
        fs::rename(&beside, &lock)?;
        Ok(StatusFile { file: folder.join(format!("{stem}.json")), lock, _held: held })
    }

    /// Replaces what is told. Blocks on the disk.
    fn write(&self, status: &HostStatus) -> io::Result<()> {
        let beside = self.file.with_extension("tmp");
        fs::write(&beside, serde_json::to_vec(status)?)?;
        fs::rename(&beside, &self.file)
    }

    /// Says that it is still so. Blocks on the disk.
    fn touch(&self) -> io::Result<()> {
        let (omit, now) = (Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, Timespec { tv_sec: 0, tv_nsec: UTIME_NOW });
        let times = Timestamps { last_access: omit, last_modification: now };
        Ok(utimensat(CWD, &self.file, &times, AtFlags::empty())?)
    }
}

impl Drop for StatusFile {
    fn drop(&mut self) {
        for file in [&self.file, &self.lock] {
            if let Err(error) = fs::remove_file(file)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::debug!(%error, file = %file.display(), "left behind; the next host removes it");
            }
        }
    }
}

/// Tells what changes, until the plugin directory is no longer followed.
pub async fn keep(file: StatusFile, about: About, mut survey: watch::Receiver<Arc<Survey>>, running: Arc<Running>) {
    let file = Arc::new(file);
    let (mut told, mut at_rest, mut is_failing) = (None, 0, false);
    loop {
        let now = (Arc::clone(&survey.borrow_and_update()), running.now());
        let is_new = told.as_ref() != Some(&now);
        if is_new || at_rest >= TICKS_AT_REST {
            let (file, about, (survey, running)) = (Arc::clone(&file), about.clone(), now.clone());
            let work = move || match is_new {
                true => file.write(&HostStatus { about, changed: clock::wall(), survey: (*survey).clone(), running }),
                false => file.touch(),
            };
            let done = tokio::task::spawn_blocking(work).await.map_err(io::Error::other).flatten();
            match &done {
                Ok(()) if is_new => told = Some(now),
                Err(error) if !is_failing => {
                    tracing::warn!(%error, "`leasehold plugins` shows what is old: the data directory cannot be written");
                }
                _ => {}
            }
            (is_failing, at_rest) = (done.is_err(), 0);
        }
        at_rest += 1;
        let ended = async { while survey.changed().await.is_ok() {} };
        tokio::select! {
            // Hundreds of files that come together are told together.
            () = tokio::time::sleep(TICK) => {}
            () = ended => return,
        }
    }
}

/// The living hosts that keep their data here, and what could not be read of them. Blocks on the disk.
///
/// # Errors
/// The folder is there and cannot be read.
pub fn living(data_dir: &Path) -> io::Result<Living> {
    let mut found = Living::default();
    for lock in locks(&folder(data_dir))? {
        let file = match is_held(&lock) {
            Ok(false) => continue,
            Ok(true) => lock.with_extension("json"),
            Err(source) => {
                found.unread.push(UnreadFile { file: lock, source });
                continue;
            }
        };
        match read(&file) {
            Ok(host) => found.hosts.extend(host),
            Err(source) => found.unread.push(UnreadFile { file, source }),
        }
    }
    found.hosts.sort_by(|a, b| a.status.about.host.cmp(&b.status.about.host));
    found.unread.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(found)
}

/// None when the host has not told anything yet, or has ended a moment ago.
fn read(file: &Path) -> io::Result<Option<FoundHost>> {
    let opened = match regular_file::open(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let modified = opened.metadata()?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    let modified = Millis(i64::try_from(modified.as_millis()).unwrap_or(i64::MAX));
    let mut bytes = Vec::new();
    opened.take(FILE_MAX).read_to_end(&mut bytes)?;
    let status = serde_json::from_slice(&bytes)?;
    Ok(Some(FoundHost { status, silent: clock::wall().since(modified) }))
}

fn folder(data_dir: &Path) -> PathBuf {
    data_dir.join("hosts")
}

fn locks(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths = entries.take(3 * HOSTS_MAX).map(|entry| entry.map(|entry| entry.path()));
    let mut locks: Vec<PathBuf> = paths.collect::<io::Result<_>>()?;
    locks.retain(|path| path.extension().is_some_and(|extension| extension == "lock"));
    Ok(locks)
}

/// Whether a living process holds it.
fn is_held(lock: &Path) -> io::Result<bool> {
    let file = match regular_file::open(lock) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// What cannot be removed is no reason not to start: `leasehold plugins` tells of it.
fn remove_dead(folder: &Path) -> io::Result<()> {
    for lock in locks(folder)? {
        match is_held(&lock) {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, file = %lock.display(), "cannot tell whether a host has this file");
                continue;
            }
        }
        for file in [lock.with_extension("json"), lock.with_extension("tmp"), lock] {
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(%error, file = %file.display(), "cannot remove what a dead host has left");
                }
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::Odd;

    fn about() -> About {
        About { host: "h".to_owned(), pid: 1, version: "0".to_owned(), plugins: "plugins".into() }
    }

    fn survey(file: &str) -> Arc<Survey> {
        Arc::new(Survey { odd: vec![Odd { file: file.to_owned(), problem: None }], ..Survey::default() })
    }

    fn status(file: &str) -> HostStatus {
        HostStatus { about: about(), changed: Millis(1), survey: (*survey(file)).clone(), running: Vec::new() }
    }

    fn hosts(data_dir: &Path) -> Vec<FoundHost> {
        let found = living(data_dir).unwrap();
        assert!(found.unread.is_empty(), "{:?}", found.unread);
        found.hosts
    }

    #[test]
    fn a_file_that_cannot_be_read_hides_no_other_host_and_keeps_none_from_starting() {
        let dir = tempfile::tempdir().unwrap();
        let newer = StatusFile::create(dir.path()).unwrap();
        fs::write(&newer.file, r#"{"about":"of another version"}"#).unwrap();
        let foreign = folder(dir.path()).join("foreign.lock");
        fs::create_dir(&foreign).unwrap();
        let sound = StatusFile::create(dir.path()).unwrap();
        sound.write(&status("one")).unwrap();
        let found = living(dir.path()).unwrap();
        assert_eq!(found.hosts.len(), 1);
        assert_eq!(found.hosts[0].status, status("one"));
        let mut unread: Vec<_> = found.unread.iter().map(|unread| unread.file.clone()).collect();
        unread.sort();
        let mut expected = vec![foreign, newer.file.clone()];
        expected.sort();
        assert_eq!(unread, expected);
        let told = found.unread.iter().map(ToString::to_string).collect::<String>();
        assert!(told.contains("invalid type") && told.contains("remove it"), "{told}");
    }

    #[test]
    fn a_living_host_is_found_with_what_it_told_last_and_a_dead_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        assert!(hosts(dir.path()).is_empty());
        let file = StatusFile::create(dir.path()).unwrap();
        assert!(hosts(dir.path()).is_empty(), "it has told nothing yet");
        file.write(&status("one")).unwrap();
        file.write(&status("two")).unwrap();
        let found = hosts(dir.path());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].status, status("two"));
        drop(file);
        assert!(hosts(dir.path()).is_empty());
        assert_eq!(fs::read_dir(folder(dir.path())).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_host_leaves_is_not_shown_and_goes_when_another_starts() {
        let dir = tempfile::tempdir().unwrap();
        let killed = StatusFile::create(dir.path()).unwrap();
        killed.write(&status("one")).unwrap();
        // As the kernel does: the lock ends, the files stay.
        flock(&killed._held, FlockOperation::Unlock).unwrap();
        assert!(hosts(dir.path()).is_empty());
        let other = StatusFile::create(dir.path()).unwrap();
        assert!(!killed.file.exists() && !killed.lock.exists());
        other.write(&status("two")).unwrap();
        assert_eq!(hosts(dir.path()).len(), 1);
    }

    #[test]
    fn its_age_shows_for_how_long_a_host_has_not_moved() {
        let dir = tempfile::tempdir().unwrap();
        let file = StatusFile::create(dir.path()).unwrap();
        file.write(&status("one")).unwrap();
        let old = Timespec { tv_sec: clock::wall().0 / 1_000 - 60, tv_nsec: 0 };
        let times = Timestamps { last_access: old, last_modification: old };
        utimensat(CWD, &file.file, &times, AtFlags::empty()).unwrap();
        assert!(hosts(dir.path())[0].silent > SILENT_AFTER);
        file.touch().unwrap();
        assert!(hosts(dir.path())[0].silent < SILENT_AFTER);
    }

    #[tokio::test]
    async fn what_changes_is_told_until_the_directory_is_no_longer_followed() {
        let dir = tempfile::tempdir().unwrap();
        let file = StatusFile::create(dir.path()).unwrap();
        let (send, receive) = watch::channel(survey("one"));
        let task = tokio::spawn(keep(file, about(), receive, Arc::default()));
        for name in ["one", "two"] {
            send.send_replace(survey(name));
            let told = || hosts(dir.path()).first().is_some_and(|host| host.status.survey == *survey(name));
            let wait = async {
                while !told() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(30), wait).await.expect("it is told");
        }
        drop(send);
        task.await.unwrap();
        assert!(hosts(dir.path()).is_empty());
    }
}
