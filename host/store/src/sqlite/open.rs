//! Finds, guards and opens the database file.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::busy;
use super::error::OpenError;
use super::worker::Access;

/// Statements a connection keeps prepared.
const STATEMENTS: usize = 64;

/// Pages in the write-ahead log after which the writer copies them into the file: 16 MB. With SQLite's usual 4 MB a busy
/// writer copies most pages again and again.
const CHECKPOINT: i64 = 4_000;

/// Pages of the file that a writer keeps in memory, in KiB.
const WRITER_CACHE: i64 = 16 * 1024;

/// The write-ahead log is cut back to this after a checkpoint.
const LOG_KEPT: i64 = 16 * 1024 * 1024;

/// Makes folder and file where they are missing, for this user only, and refuses a place where locks cannot be trusted.
/// Answers the file's absolute path.
pub(super) fn place(path: &Path) -> Result<PathBuf, OpenError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| OpenError::Folder { path, source }
    };
    // Absolute, so that no name means something special to SQLite.
    let path = std::path::absolute(path).map_err(failed(path))?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed(folder))?;
    refuse_network(folder)?;
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(source) => return Err(OpenError::Create { path, source }),
    }
    // Again for the file itself, which may be a link to elsewhere.
    refuse_network(&path)?;
    Ok(path)
}

/// The absolute path of a file that is there, unless it lies where locks cannot be trusted. Makes nothing.
pub(super) fn existing(path: &Path) -> Result<PathBuf, OpenError> {
    let absolute = std::path::absolute(path);
    let path = absolute.map_err(|source| OpenError::Folder { path: path.to_path_buf(), source })?;
    refuse_network(&path)?;
    Ok(path)
}

/// What SQLite keeps beside a database file: `-wal` is the write-ahead log, `-shm` its index and the locks.
pub(super) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(end);
    beside.into()
}

/// Opens a connection with all that holds for each.
pub(super) fn connect(path: &Path, access: Access) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags)
        .and_then(|mut db| configure(&mut db, access).map(|()| db))
        .map_err(|source| OpenError::Sqlite { path: path.to_path_buf(), doing: "opening it", source })
}

fn configure(db: &mut Connection, access: Access) -> rusqlite::Result<()> {
    db.busy_handler(Some(busy::wait))?;
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    // Or statements are planned anew whenever another value is bound: measured, reads took twice as long.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    db.pragma_update(None, "trusted_schema", false)?;
    db.pragma_update(None, "foreign_keys", true)?;
    // The log is flushed before it is written back, and before anybody is answered: see `flushes`.
    db.pragma_update(None, "synchronous", "NORMAL")?;
    if access != Access::Read {
        // A negative size is in KiB. With the usual 2 MB a busy writer reads its indexes' pages again and again, and so do
        // heartbeats of some thousand runs.
        db.pragma_update(None, "cache_size", -WRITER_CACHE)?;
        // Both writers alike: one with less would copy after each of its commits what the other leaves in the log.
        db.pragma_update(None, "wal_autocheckpoint", CHECKPOINT)?;
    }
    db.pragma_update_and_check(None, "journal_size_limit", LOG_KEPT, |_| Ok(()))?;
    // Or what a statement keeps to undo itself goes to a temporary file.
    db.pragma_update(None, "temp_store", "MEMORY")?;
    db.pragma_update(None, "query_only", access == Access::Read)
}

/// Two machines on one file would both win: SQLite's locks do not reach across a network.
fn refuse_network(path: &Path) -> Result<(), OpenError> {
    let system = rustix::fs::statfs(path)
        .map_err(|errno| OpenError::Folder { path: path.to_path_buf(), source: errno.into() })?;
    // The field's width and sign differ between machines; the magic numbers have 32 bits.
    match foreign_kind(system.f_type as u64 & 0xffff_ffff) {
        Some(kind) => Err(OpenError::NotLocal { path: path.to_path_buf(), kind }),
        None => Ok(()),
    }
}

/// Which file system with files that another machine may have open has this magic number; none for one of this machine.
fn foreign_kind(magic: u64) -> Option<&'static str> {
    FOREIGN.iter().find(|(known, _)| *known == magic).map(|(_, kind)| *kind)
}

/// File systems whose files another machine may have open, by the magic numbers of statfs(2).
const FOREIGN: [(u64, &str); 15] = [
    (0x0000_6969, "NFS"),
    (0x0000_517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB 2"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "FUSE"),
    (0x5346_414f, "AFS"),
    (0x7375_7245, "Coda"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x7461_636f, "OCFS2"),
    (0x0116_1970, "GFS2"),
    (0x786f_4256, "a VirtualBox shared folder"),
    (0xbacb_acbc, "a VMware shared folder"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_of_other_machines_are_refused_and_those_of_this_one_are_not() {
        let (nfs, cifs, smb_2, plan_9, fuse) = (0x6969, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997, 0x6573_5546);
        for magic in [nfs, cifs, smb_2, plan_9, fuse] {
            assert!(foreign_kind(magic).is_some(), "{magic:#x}");
        }
        let (ext4, tmpfs, xfs, overlay, btrfs) = (0xef53, 0x0102_1994, 0x5846_5342, 0x794c_7630, 0x9123_683e);
        for magic in [ext4, tmpfs, xfs, overlay, btrfs] {
            assert_eq!(foreign_kind(magic), None, "{magic:#x}");
        }
    }
}
