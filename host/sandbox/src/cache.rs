//! Compiled code on disk, so that a plugin is compiled once per host and version.
//!
//! The directory belongs to this host alone: mode 0700, owned by the user the host runs as, never shared and never filled
//! from outside. A file's name is the digest of the component and the hash of everything that code compiled for one engine
//! depends on, so that a new version of the host finds nothing and compiles anew.
//!
//! A file is the artifact as wasmtime wrote it and, behind it, its checksum: in one file, because one rename then moves both
//! and no crash leaves a pair that disagrees. wasmtime finds its sections from the file's front and ignores what follows
//! them. The checksum is against damage, such as a failing disk's, and not against an attacker: whoever can write to the
//! directory is this host's user already.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};
use thiserror::Error;
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::compile::Artifact;
use crate::plugin::Digest;

/// The directory for compiled code cannot be used.
#[derive(Debug, Error)]
pub enum CacheError {
    /// It could not be made or read.
    #[error("cannot use {} for compiled code", path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else could write to it.
    #[error(
        "{} is not safe for compiled code, which runs as this host: {problem}; give the host a directory of its own, \
         owned by its user and with mode 0700",
        path.display()
    )]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

/// The directory of compiled code.
#[derive(Debug)]
pub(crate) struct CodeCache {
    dir: PathBuf,
    engine_hash: String,
    limit: u64,
}

impl CodeCache {
    /// Makes the directory where it is missing.
    pub(crate) fn open(dir: &Path, engine: &Engine, limit: u64) -> Result<CodeCache, CacheError> {
        let failed = |source| CacheError::Io { path: dir.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
        let metadata = fs::symlink_metadata(dir).map_err(failed)?;
        let problem =
            if metadata.is_dir() { access_problem(&metadata) } else { Some("it is not a directory".to_owned()) };
        if let Some(problem) = problem {
            return Err(CacheError::Unsafe { path: dir.to_owned(), problem });
        }
        Ok(CodeCache { dir: dir.to_owned(), engine_hash: engine_hash(engine), limit })
    }

    /// The compiled component, where it is there and sound. A file that cannot be used is removed.
    pub(crate) fn load(&self, engine: &Engine, digest: &Digest) -> Option<Component> {
        let path = self.path(digest);
        match self.map(engine, &path) {
            Ok(component) => {
                if let Err(error) = mark_as_used(&path) {
                    tracing::debug!(path = %path.display(), %error, "cannot mark compiled code as used");
                }
                Some(component)
            }
            Err(Unusable::Missing) => None,
            Err(Unusable::Because(reason)) => {
                tracing::warn!(path = %path.display(), reason, "compiled code cannot be used and is made anew");
                if let Err(error) = fs::remove_file(&path) {
                    tracing::warn!(path = %path.display(), %error, "cannot remove it");
                }
                None
            }
        }
    }

    /// Keeps an artifact: written beside, synced and renamed, so that a reader never sees half of it.
    pub(crate) fn store(&self, digest: &Digest, artifact: &Artifact) -> io::Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = self.path(digest);
        let unique = format!("{}.{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let beside = path.with_extension(unique);
        let written =
            write_synced(&beside, &artifact.0, checksum(&artifact.0)).and_then(|()| fs::rename(&beside, &path));
        if written.is_err() {
            // Best effort: what remains is found by the next clean-up.
            let _ = fs::remove_file(&beside);
        }
        written?;
        if let Err(error) = self.evict(&path) {
            tracing::warn!(dir = %self.dir.display(), %error, "cannot clean up compiled code");
        }
        Ok(())
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.dir.join(format!("{digest}-{}.cwasm", self.engine_hash))
    }

    #[allow(unsafe_code)]
    fn map(&self, engine: &Engine, path: &Path) -> Result<Component, Unusable> {
        let metadata = fs::symlink_metadata(path)?;
        if !metadata.is_file() {
            return Err(Unusable::Because("it is not a regular file".to_owned()));
        }
        if let Some(problem) = access_problem(&metadata) {
            return Err(Unusable::Because(problem));
        }
        verify(File::open(path)?)?;
        // SAFETY: the bytes must be what wasmtime's compiler wrote for this engine, and must not change while they are mapped.
        // They were written by `store` from the compiler's output: nobody else can have put them there, because the directory
        // (checked when it was opened) and the file (checked above) belong to this user and give nobody else access. They
        // were written whole or not at all: `store` syncs before it renames. They do not change: files are replaced by
        // rename, never written in place. What the disk did to them since is noticed: the checksum, made from the compiler's
        // output in memory, has just been compared with what a read of the whole file gave. They fit the engine: its
        // compatibility hash is part of the name, and wasmtime compares version and settings itself.
        let component = unsafe { Component::deserialize_file(engine, path) };
        component.map_err(|error| Unusable::Because(format!("{error:#}")))
    }

    /// Removes what was used longest ago until the directory keeps its limit; never what was just written.
    fn evict(&self, newest: &Path) -> io::Result<()> {
        let mut files: Vec<(SystemTime, u64, OsString)> = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            // Another host process may remove files at any time.
            if let Ok(metadata) = entry.metadata()
                && metadata.is_file()
                && entry.path() != newest
            {
                files.push((metadata.modified()?, metadata.len(), entry.file_name()));
            }
        }
        files.sort();
        let mut total: u64 = files.iter().map(|(_, size, _)| size).sum::<u64>() + fs::metadata(newest)?.len();
        for (_, size, name) in files {
            if total <= self.limit {
                break;
            }
            match fs::remove_file(self.dir.join(&name)) {
                Ok(()) => tracing::info!(file = %name.display(), "removed compiled code that was not used for long"),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            total -= size;
        }
        Ok(())
    }
}

enum Unusable {
    Missing,
    Because(String),
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Self {
        // As `evict` of another host process does.
        if error.kind() == io::ErrorKind::NotFound { Unusable::Missing } else { Unusable::Because(error.to_string()) }
    }
}

fn access_problem(metadata: &Metadata) -> Option<String> {
    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != user {
        return Some(format!("it belongs to user {}, but the host runs as {user}", metadata.uid()));
    }
    let mode = metadata.mode() & 0o777;
    (mode & 0o077 != 0).then(|| format!("its mode is {mode:04o}, which lets others in"))
}

fn write_synced(path: &Path, artifact: &[u8], checksum: Checksum) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(artifact)?;
    file.write_all(&checksum)?;
    file.sync_all()
}

/// A CRC-32, little end first.
type Checksum = [u8; 4];

fn checksum(artifact: &[u8]) -> Checksum {
    crc32fast::hash(artifact).to_le_bytes()
}

/// Compares the artifact with the checksum behind it. wasmtime itself checks no more than the structure: damaged machine code
/// would be executed.
///
/// The file is read and not mapped, so that what the disk cannot read is an error and not a signal that ends the host.
fn verify(mut file: File) -> Result<(), Unusable> {
    // Fits the processor's cache, so that bytes are summed where they were just copied to.
    const PIECE: usize = 128 * 1024;
    let size = file.metadata()?.len();
    let Some(artifact_size) = size.checked_sub(size_of::<Checksum>() as u64) else {
        return Err(Unusable::Because(format!("it is cut off: {size} bytes are left")));
    };
    let mut hasher = crc32fast::Hasher::new();
    let mut piece = vec![0; PIECE];
    let mut left = artifact_size;
    while left > 0 {
        let wanted = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        file.read_exact(&mut piece[..wanted])?;
        hasher.update(&piece[..wanted]);
        left -= wanted as u64;
    }
    let mut kept = Checksum::default();
    file.read_exact(&mut kept)?;
    let (kept, found) = (u32::from_le_bytes(kept), hasher.finalize());
    if kept != found {
        let problem = format!("it is damaged or cut off: its checksum is {kept:08x}, but its content has {found:08x}");
        return Err(Unusable::Because(problem));
    }
    Ok(())
}

fn mark_as_used(path: &Path) -> io::Result<()> {
    let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    let times = rustix::fs::Timestamps { last_access: now, last_modification: now };
    Ok(rustix::fs::futimens(File::open(path)?, &times)?)
}

fn engine_hash(engine: &Engine) -> String {
    struct Sink(Sha256);
    impl Hasher for Sink {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            0
        }
    }
    let mut sink = Sink(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut sink);
    sink.0.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
