//! What can go wrong with a database file, in words for the person who has to mend it.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::error::StoreError;

/// A database file that cannot be opened as a store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder of the file cannot be made or looked at.
    #[error("cannot use the folder {} for the store; create it and let this user write to it", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file cannot be created.
    #[error("cannot create the store's file {}; let this user write to its folder", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file lies where locks cannot be trusted.
    #[error(
        "{} lies on a network or foreign file system ({kind}), where SQLite's locks may fail and a job could run \
         twice; put the store on a local disk, or use a database server for several machines",
        path.display()
    )]
    NotLocal {
        /// The folder or file.
        path: PathBuf,
        /// The kind of file system.
        kind: &'static str,
    },
    /// The file is a database of something else.
    #[error(
        "{} is an SQLite database, but not one of Leasehold (application id {application_id:#x}); nothing was changed; \
         name another file in [store] url",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it says it is.
        application_id: i32,
    },
    /// The file was written by a newer version.
    #[error(
        "{} has schema {found}, and this version of Leasehold knows schemas up to {known}; nothing was changed; run a \
         newer Leasehold, or restore a copy of the file from before the update",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i32,
        /// The newest schema this version knows.
        known: i32,
    },
    /// The file was written by an older version, or by none yet, and is only to be read.
    #[error(
        "{} {}; a host of this version brings it to schema {known} when it starts (`leasehold serve`)",
        path.display(),
        if *found == 0 { "is still empty".to_owned() } else { format!("has the older schema {found}") }
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// Its schema, 0 for an empty file.
        found: i32,
        /// The schema of this version.
        known: i32,
    },
    /// SQLite refused.
    #[error("cannot open the store {} while {doing}{}", path.display(), advice(source))]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Which step failed.
        doing: &'static str,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// The operating system gave no random bits.
    #[error("cannot make an identity for the store {}: the operating system gives no random bits", path.display())]
    Random {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: getrandom::Error,
    },
    /// The operating system gave no thread.
    #[error("cannot start a thread for the store {}; see the limits on processes and memory", path.display())]
    Thread {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Why a call to an open database failed: the source of a [`StoreError`].
#[derive(Debug, thiserror::Error)]
pub enum SqliteError {
    /// SQLite refused.
    #[error("SQLite refused to {step} in {}{}", path.display(), advice(source))]
    Refused {
        /// The file.
        path: PathBuf,
        /// What it was asked for.
        step: &'static str,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// A record that no version of Leasehold writes.
    #[error(
        "the record of {what} in {} is damaged: {reason}; restore the file from a copy, or move it away",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Which record.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A rule found the record in a state that cannot be.
    #[error(
        "a rule was broken in {}: {message}; this is a fault in Leasehold or damage to the file, please report it",
        path.display()
    )]
    RuleBroken {
        /// The file.
        path: PathBuf,
        /// What the rule said.
        message: String,
    },
    /// Another process has brought the file to a newer schema since it was opened.
    #[error(
        "a newer Leasehold has brought {} to schema {found}, and this process knows {known}; update and restart it",
        path.display()
    )]
    Outdated {
        /// The file.
        path: PathBuf,
        /// The schema found.
        found: i32,
        /// The newest schema this version knows.
        known: i32,
    },
    /// The file was deleted, moved or replaced since it was opened.
    #[error(
        "{} is not as it was opened: {how}; put it back, or end all processes that have the file open and start them \
         again to go on with what is there",
        path.display()
    )]
    Moved {
        /// The file.
        path: PathBuf,
        /// What is there instead.
        how: &'static str,
    },
    /// What was committed could not be put on the disk.
    #[error(
        "what was written to {} may not survive the loss of power, because the disk refused to keep it; see the system's \
         log: the disk may be failing",
        path.display()
    )]
    NotFlushed {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The call took too long.
    #[error("{} did not answer in time; look for a slow or failing disk, or a process that keeps it locked", path.display())]
    Slow {
        /// The file.
        path: PathBuf,
    },
    /// The thread of this connection has ended.
    #[error("the thread that serves {} has ended; restart this process", path.display())]
    Ended {
        /// The file.
        path: PathBuf,
    },
}

impl SqliteError {
    pub(super) fn slow(path: &Path) -> SqliteError {
        SqliteError::Slow { path: path.to_path_buf() }
    }
}

/// What went wrong inside a transaction, before it is known which file and which call it was.
#[derive(Debug)]
pub(super) enum Fault {
    /// SQLite refused.
    Sql(rusqlite::Error),
    /// See [`SqliteError::Damaged`].
    Damaged { what: String, reason: String },
    /// See [`SqliteError::RuleBroken`].
    RuleBroken(String),
    /// See [`SqliteError::Outdated`].
    Outdated { found: i32, known: i32 },
    /// See [`SqliteError::Moved`].
    Moved(&'static str),
    /// See [`SqliteError::NotFlushed`].
    NotFlushed(std::io::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        Fault::Sql(error)
    }
}

impl Fault {
    /// Of a transaction that was rolled back: the effect has not happened. Whether trying again can help is what
    /// decides between `NotSent` and `Rejected`.
    pub(super) fn rolled_back(&self, path: &Path, doing: &'static str) -> StoreError {
        let source = Box::new(self.explain(path, "read or write"));
        if self.may_pass() { StoreError::NotSent { doing, source } } else { StoreError::Rejected { doing, source } }
    }

    /// Of a commit that failed: the effect may have happened.
    pub(super) fn uncommitted(&self, path: &Path, doing: &'static str) -> StoreError {
        StoreError::Unknown { doing, source: Box::new(self.explain(path, "commit")) }
    }

    /// Whether the cause lies around the file rather than in the call or in the record.
    fn may_pass(&self) -> bool {
        let error = match self {
            Fault::Sql(error) => error,
            // It may be put back; the disk may recover.
            Fault::Moved(_) | Fault::NotFlushed(_) => return true,
            _ => return false,
        };
        matches!(
            error.sqlite_error_code(),
            Some(
                ErrorCode::DatabaseBusy
                    | ErrorCode::DatabaseLocked
                    | ErrorCode::DiskFull
                    | ErrorCode::SystemIoFailure
                    | ErrorCode::ReadOnly
                    | ErrorCode::CannotOpen
                    | ErrorCode::PermissionDenied
                    | ErrorCode::OutOfMemory
                    | ErrorCode::OperationAborted
                    | ErrorCode::OperationInterrupted
                    | ErrorCode::FileLockingProtocolFailed
            )
        )
    }

    fn explain(&self, path: &Path, step: &'static str) -> SqliteError {
        let path = path.to_path_buf();
        match self {
            Fault::Sql(error) => SqliteError::Refused { path, step, source: copy(error) },
            Fault::Damaged { what, reason } => {
                SqliteError::Damaged { path, what: what.clone(), reason: reason.clone() }
            }
            Fault::RuleBroken(message) => SqliteError::RuleBroken { path, message: message.clone() },
            Fault::Outdated { found, known } => SqliteError::Outdated { path, found: *found, known: *known },
            Fault::Moved(how) => SqliteError::Moved { path, how },
            Fault::NotFlushed(error) => SqliteError::NotFlushed { path, source: copy_io(error) },
        }
    }
}

/// One failure can have to be told to many callers, and rusqlite's error is not `Clone`.
fn copy(error: &rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, text) => rusqlite::Error::SqliteFailure(*code, text.clone()),
        other => described(other.to_string()),
    }
}

/// The same of the operating system.
fn copy_io(error: &std::io::Error) -> std::io::Error {
    match error.raw_os_error() {
        Some(code) => std::io::Error::from_raw_os_error(code),
        None => std::io::Error::new(error.kind(), error.to_string()),
    }
}

/// An error of SQLite in words of our own.
pub(super) fn described(words: String) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ERROR), Some(words))
}

/// What to do about it, where that is known.
fn advice(error: &rusqlite::Error) -> &'static str {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "; another process kept it locked: look for one that holds it open, or for a disk that is very slow"
        }
        Some(ErrorCode::DiskFull) => "; the disk is full: free some space",
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            "; it cannot be written: see the rights of file and folder"
        }
        Some(ErrorCode::CannotOpen) => "; it cannot be opened: see whether file and folder exist and their rights",
        Some(ErrorCode::SystemIoFailure) => {
            "; the disk failed or is full (see the system's log), or files beside it (-wal, -shm) were removed while \
             another process has it open: end that one first"
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            "; the file is damaged: restore it from a copy, or move it away to start empty"
        }
        Some(ErrorCode::NotADatabase) => "; the file is not an SQLite database: name another file in [store] url",
        _ => "",
    }
}
