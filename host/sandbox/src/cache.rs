//! Compiled code on disk, so that a plugin is compiled once per host and version.
//!
//! The directory belongs to this host alone: mode 0700, owned by the user the host runs as, never shared and never filled
//! from outside. A file's name is the digest of the component and the hash of everything that code compiled for one engine
//! depends on, so that a new version of the host finds nothing and compiles anew.
//!
//! A file is the artifact as wasmtime wrote it and, behind it, its checksum: in one file, because one rename then moves both
//! and no crash leaves a pair that disagrees. wasmtime finds its sections from the file's front and ignores what follows
//! them. The checksum is against damage, such as a failing disk's or a power cut's, and not against an attacker: whoever can
//! write to the directory is this host's user already. A whole file is compared with it once after each start of the machine;
//! what was compared, and when the file changed last, is noted in a small file beside it (`integrity.rs`).
//!
//! A compiler writes into a [`Draft`], a temporary file that the host has made and locked; the host looks at what it has
//! become and renames it. A draft that nobody has locked belongs to a host that is gone, and is removed.
//!
//! Tenants share what is kept: the same bytes are compiled once. When the directory is full, who keeps most makes room
//! (`eviction.rs`), and code counts for the tenant that used it last.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;
use thiserror::Error;
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::compile::Artifact;
use crate::engine;
use crate::plugin::Digest;

mod eviction;
mod integrity;

use eviction::Kept;
pub(crate) use integrity::checksum;

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
    /// Where the directory is this sandbox's alone, it goes with it.
    _private: Option<Private>,
}

/// A directory among the system's temporary files, and the lock that says that somebody still uses it. A process that is
/// killed leaves it behind, and the next one removes it.
#[derive(Debug)]
struct Private {
    _dir: TempDir,
    _lock: File,
}

/// What the names of such directories begin with.
const PRIVATE: &str = "leasehold-compiled-";

/// A younger directory may belong to somebody who has not locked it yet.
const SETTLED: Duration = Duration::from_secs(60);

/// A temporary file in the directory for a compiler to write to; removed unless it is kept.
#[derive(Debug)]
pub(crate) struct Draft {
    path: PathBuf,
    name: String,
    /// Holds the lock that says that somebody still wants it.
    file: File,
}

const DRAFT: &str = "tmp";
const CODE: &str = "cwasm";

impl CodeCache {
    /// Makes the directory where it is missing, and removes what dead hosts have left in it.
    pub(crate) fn open(dir: &Path, engine: &Engine, limit: u64) -> Result<CodeCache, CacheError> {
        let failed = |source| CacheError::Io { path: dir.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
        let metadata = fs::symlink_metadata(dir).map_err(failed)?;
        let problem =
            if metadata.is_dir() { access_problem(&metadata) } else { Some("it is not a directory".to_owned()) };
        if let Some(problem) = problem {
            return Err(CacheError::Unsafe { path: dir.to_owned(), problem });
        }
        // A compiler is started in this directory, so it must be found from everywhere.
        let dir = dir.canonicalize().map_err(failed)?;
        let cache = CodeCache { dir, engine_hash: engine::compatibility(engine), limit, _private: None };
        if let Err(error) = cache.remove_abandoned() {
            tracing::warn!(dir = %cache.dir.display(), %error, "cannot clean up after compilers that are gone");
        }
        Ok(cache)
    }

    /// A directory for this sandbox alone, where the system keeps temporary files; it goes with the sandbox.
    pub(crate) fn private(engine: &Engine, limit: u64) -> Result<CodeCache, CacheError> {
        let among = std::env::temp_dir();
        let failed = |source| CacheError::Io { path: among.clone(), source };
        if let Err(error) = remove_left_behind(&among) {
            tracing::debug!(dir = %among.display(), %error, "cannot clean up after processes that are gone");
        }
        let made = tempfile::Builder::new()
            .prefix(PRIVATE)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&among)
            .map_err(failed)?;
        let lock = File::open(made.path()).map_err(failed)?;
        flock(&lock, FlockOperation::NonBlockingLockShared).map_err(|error| failed(error.into()))?;
        let cache = CodeCache::open(made.path(), engine, limit)?;
        Ok(CodeCache { _private: Some(Private { _dir: made, _lock: lock }), ..cache })
    }

    /// Names the engine that compiled code in here fits.
    pub(crate) fn engine_hash(&self) -> &str {
        &self.engine_hash
    }

    /// Where it is, as an absolute path.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The compiled component for a tenant, where it is there and sound. A file that cannot be used is removed.
    pub(crate) fn load(&self, engine: &Engine, digest: &Digest, tenant: &str) -> Option<Component> {
        match self.load_kept(engine, digest, tenant) {
            Ok(component) => Some(component),
            Err(Unusable::Missing) => None,
            Err(Unusable::Because(reason) | Unusable::Refused(reason)) => {
                tracing::warn!(%digest, reason, "compiled code cannot be used and is made anew");
                None
            }
        }
    }

    /// The same where the code has just been made, so that it should be there.
    pub(crate) fn load_kept(&self, engine: &Engine, digest: &Digest, tenant: &str) -> Result<Component, Unusable> {
        let path = self.path(digest);
        let mapped = self.map(engine, &path, tenant);
        if let Err(Unusable::Because(_) | Unusable::Refused(_)) = &mapped {
            integrity::forget(&path);
            if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "cannot remove compiled code that cannot be used");
            }
        }
        mapped
    }

    /// A new, empty file for a compiler to write to.
    pub(crate) fn draft(&self, digest: &Digest) -> io::Result<Draft> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{digest}-{}.{}.{number}.{DRAFT}", self.engine_hash, std::process::id());
        let path = self.dir.join(&name);
        // Whoever cleans up takes this lock alone, and so never sees a draft before its owner has locked it.
        let dir = File::open(&self.dir)?;
        flock(&dir, FlockOperation::LockShared)?;
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        let draft = Draft { path, name, file };
        flock(&draft.file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(draft)
    }

    /// Takes over what a compiler has written for a tenant: by rename, so that a reader never sees half of it.
    pub(crate) fn keep(&self, digest: &Digest, draft: Draft, artifact: &Artifact, tenant: &str) -> io::Result<()> {
        let found = draft.file.metadata()?.len();
        let told = artifact.size.saturating_add(integrity::TRAILER);
        if found != told {
            return Err(io::Error::other(format!("the compiler told of {told} bytes and wrote {found}")));
        }
        let path = self.path(digest);
        fs::rename(&draft.path, &path)?;
        if let Err(error) = self.evict(&path, tenant).and_then(|()| self.remove_abandoned()) {
            tracing::warn!(dir = %self.dir.display(), %error, "cannot clean up compiled code");
        }
        Ok(())
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.dir.join(format!("{digest}-{}.{CODE}", self.engine_hash))
    }

    #[allow(unsafe_code)]
    fn map(&self, engine: &Engine, path: &Path, tenant: &str) -> Result<Component, Unusable> {
        let metadata = fs::symlink_metadata(path)?;
        if !metadata.is_file() {
            return Err(Unusable::Because("it is not a regular file".to_owned()));
        }
        if let Some(problem) = access_problem(&metadata) {
            return Err(Unusable::Because(problem));
        }
        if !integrity::is_known(path, &metadata) {
            integrity::verify(File::open(path)?)?;
        }
        // SAFETY: the bytes must be what wasmtime's compiler wrote for this engine, and must not change while they are mapped.
        // They were written by this program, started as a compiler, from wasmtime's output: nobody else can have put them there,
        // because the directory (checked when it was opened) and the file (checked above) belong to this user and give nobody
        // else access. The path, which has no links in it, is resolved once for each of these looks: it could lead elsewhere
        // meanwhile only for who may rename a folder above the directory, and that is for the host's user to see to, as with
        // the host's own program; within the directory, only hosts of this user rename files. They do not change: a compiler has ended, with all it may have started, before its file gets this
        // name, and files are replaced by rename, never written in place. They are whole, and what the disk did to them is
        // noticed: the checksum, made from wasmtime's output in memory, was compared with what a read of the whole file gave,
        // just now or since the machine was started, and nothing has written to the file from then on. They fit the engine: its
        // compatibility hash is part of the name, and wasmtime compares version and settings itself.
        let component = unsafe { Component::deserialize_file(engine, path) };
        let component = component.map_err(|error| {
            let is_systems = error.chain().any(|cause| cause.is::<io::Error>() || cause.is::<rustix::io::Errno>());
            let reason = format!("{error:#}");
            if is_systems { Unusable::Because(reason) } else { Unusable::Refused(reason) }
        })?;
        if let Err(error) = mark_as_used(path, &metadata, tenant) {
            tracing::debug!(path = %path.display(), %error, "cannot mark compiled code as used");
        }
        Ok(component)
    }

    /// Removes drafts whose owners are gone.
    fn remove_abandoned(&self) -> io::Result<()> {
        let dir = File::open(&self.dir)?;
        // Somebody else is about to make a draft or cleans up already.
        if flock(&dir, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(());
        }
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != DRAFT) {
                continue;
            }
            let Ok(file) = File::open(&path) else { continue };
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                fs::remove_file(&path)?;
                tracing::debug!(path = %path.display(), "removed what a compiler that is gone has left");
            }
        }
        Ok(())
    }

    /// Makes the directory keep its limit; what was just written for this tenant stays.
    fn evict(&self, newest: &Path, tenant: &str) -> io::Result<()> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            // Another host process may remove files at any time.
            let path = entry.path();
            if let Ok(metadata) = entry.metadata()
                && metadata.is_file()
                && path != newest
                && path.extension().is_some_and(|extension| extension == CODE)
            {
                let used = integrity::noted_at(&path).max(metadata.modified().ok());
                all.push(Kept { path, size: metadata.len(), used, tenant: None });
            }
        }
        let size = fs::metadata(newest)?.len();
        if size + all.iter().map(|kept| kept.size).sum::<u64>() <= self.limit {
            return Ok(());
        }
        // Whose they are takes reading a note for each: only when something has to go.
        all.iter_mut().for_each(|kept| kept.tenant = integrity::noted_tenant(&kept.path));
        for Kept { path, tenant, .. } in eviction::surplus(all, &integrity::noted_name(tenant), size, self.limit) {
            integrity::forget(&path);
            match fs::remove_file(&path) {
                Ok(()) => {
                    tracing::info!(file = %path.display(), tenant, "removed compiled code that was not used for long");
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Removes the private directories of this user whose owners are gone.
fn remove_left_behind(among: &Path) -> io::Result<()> {
    for entry in fs::read_dir(among)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(PRIVATE) {
            continue;
        }
        // Somebody else may be removing it at the same time.
        let Ok(metadata) = fs::symlink_metadata(entry.path()) else { continue };
        let is_settled = metadata.modified()?.elapsed().is_ok_and(|age| age > SETTLED);
        if !metadata.is_dir() || access_problem(&metadata).is_some() || !is_settled {
            continue;
        }
        let Ok(dir) = File::open(entry.path()) else { continue };
        if flock(&dir, FlockOperation::NonBlockingLockExclusive).is_ok() {
            fs::remove_dir_all(entry.path())?;
            tracing::debug!(path = %entry.path().display(), "removed compiled code that a process has left");
        }
    }
    Ok(())
}

impl Draft {
    /// Its name in the directory.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // One that was kept has another name by now. What cannot be removed is found by the next clean-up.
        let _ = fs::remove_file(&self.path);
    }
}

/// Why compiled code cannot be used.
pub(crate) enum Unusable {
    Missing,
    /// The file is damaged, or the system does not give it.
    Because(String),
    /// The engine does not take what is in it.
    Refused(String),
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

/// Notes that the file that was found is whole, and used now for this tenant.
fn mark_as_used(path: &Path, found: &Metadata, tenant: &str) -> io::Result<()> {
    let now = fs::symlink_metadata(path)?;
    // Another host process may have put its own in place.
    if (now.dev(), now.ino()) == (found.dev(), found.ino()) { integrity::note(path, &now, tenant) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
