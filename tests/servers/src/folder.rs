//! A folder for each server, which goes with it, at the latest when the next one is made after its owner died.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::ServerError;
use crate::account::Account;
use crate::postgres;

/// Where a server keeps its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Storage {
    /// In memory (`/dev/shm`) where it has room, for speed.
    #[default]
    Memory,
    /// On the disk, for tests and figures that are about the disk.
    Disk,
}

/// What a server in memory may take, in bytes, before the disk is taken instead.
const ROOM: u64 = 1 << 30;
const LOCK: &str = ".lock";
/// The folder in it that a server's data is in.
const DATA: &str = "data";

/// The folder of one server.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Locked while the value lives; the system unlocks it when the process dies, and then the folder is nobody's.
    _lock: File,
}

impl Folder {
    /// An empty folder that other accounts may pass through, but not list.
    pub(crate) fn create(storage: Storage) -> Result<Folder, ServerError> {
        let base = base(storage)?;
        // Held until the new folder is locked: it must not look like one whose owner died.
        let gate = open_lock(&base.join(LOCK))?;
        gate.lock().map_err(ServerError::file("lock", base.join(LOCK)))?;
        remove_orphans(&base)?;
        let path = tempfile::Builder::new()
            .prefix("server-")
            .permissions(fs::Permissions::from_mode(0o711))
            .disable_cleanup(true)
            .tempdir_in(&base)
            .map_err(ServerError::file("create a folder in", &base))?
            .keep();
        let lock = open_lock(&path.join(LOCK))?;
        lock.lock().map_err(ServerError::file("lock", path.join(LOCK)))?;
        Ok(Folder { path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder for the server's data, which only `account` (`None`: whoever runs the tests) may read.
    pub(crate) fn create_data(&self, account: Option<Account>) -> Result<PathBuf, ServerError> {
        let path = self.path.join(DATA);
        DirBuilder::new().mode(0o700).create(&path).map_err(ServerError::file("create", &path))?;
        account.map_or(Ok(()), |account| account.own(&path))?;
        Ok(path)
    }

    /// Writes a file in it that only `account` may read.
    pub(crate) fn write(&self, name: &str, text: &str, account: Option<Account>) -> Result<PathBuf, ServerError> {
        let path = self.path.join(name);
        fs::write(&path, text).map_err(ServerError::file("write", &path))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(ServerError::file("protect", &path))?;
        account.map_or(Ok(()), |account| account.own(&path))?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What a server that just died still holds is removed with the orphans, later.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The folder that all folders of this account's tests are in.
pub(crate) fn base(storage: Storage) -> Result<PathBuf, ServerError> {
    let memory = Path::new("/dev/shm");
    let parent = if storage == Storage::Memory && has_room(memory) { memory.to_owned() } else { std::env::temp_dir() };
    let uid = rustix::process::getuid().as_raw();
    let path = parent.join(format!("leasehold-tests-{uid}"));
    match DirBuilder::new().mode(0o711).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(ServerError::file("create", &path)(error));
        }
        _ => {}
    }
    // Anyone may create names in the parent: a folder or link that somebody else laid there is not used.
    let found = fs::symlink_metadata(&path).map_err(ServerError::file("look at", &path))?;
    if found.is_dir() && found.uid() == uid {
        return Ok(path);
    }
    Err(ServerError::file("use", path)(io::Error::other("it is there and is not a folder of ours; remove it")))
}

fn has_room(folder: &Path) -> bool {
    rustix::fs::statvfs(folder).is_ok_and(|is| is.f_bavail.saturating_mul(is.f_frsize) >= ROOM)
        && rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
}

fn open_lock(path: &Path) -> Result<File, ServerError> {
    File::options().create(true).append(true).open(path).map_err(ServerError::file("create", path))
}

/// Removes what test processes left that were killed.
fn remove_orphans(base: &Path) -> Result<(), ServerError> {
    for entry in fs::read_dir(base).map_err(ServerError::file("list", base))? {
        let path = entry.map_err(ServerError::file("list", base))?.path();
        let orphan = File::open(path.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok());
        // A server that is dying at this very moment keeps its folder until the next one comes.
        if orphan && postgres::memory::remove(&path.join(DATA)) {
            let _ = fs::remove_dir_all(&path);
        }
    }
    Ok(())
}
