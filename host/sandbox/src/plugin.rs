//! A plugin that is ready to start.

use std::fmt;
use std::io::Read;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime_wasi::p2::bindings::CommandPre;

use crate::guest::Guest;
use crate::imports::bindings::JobPre;
use crate::inspect::Inspection;
use crate::refusal::{PluginError, Refusal};
use crate::regular_file;

/// No plugin's file is longer than this, in bytes.
pub const PLUGIN_FILE_MAX: u64 = 64 << 20;

/// The SHA-256 of a plugin's bytes: what an attempt records as the code it ran.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    #[cfg(test)]
    pub(crate) fn new(bytes: [u8; 32]) -> Self {
        Digest(bytes)
    }

    pub(crate) fn of(bytes: &[u8]) -> Self {
        Digest(Sha256::digest(bytes).into())
    }

    /// The digest itself.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// What was read of a plugin's file, and its digest, which is computed once: when it is first asked for.
#[derive(Clone)]
pub struct PluginBytes(Arc<Content>);

struct Content {
    bytes: Vec<u8>,
    digest: OnceLock<Digest>,
}

impl PluginBytes {
    /// The SHA-256. Computing it takes about a millisecond for each megabyte or two.
    pub fn digest(&self) -> Digest {
        *self.0.digest.get_or_init(|| Digest::of(&self.0.bytes))
    }
}

impl From<Vec<u8>> for PluginBytes {
    fn from(bytes: Vec<u8>) -> PluginBytes {
        PluginBytes(Arc::new(Content { bytes, digest: OnceLock::new() }))
    }
}

impl Deref for PluginBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl fmt::Debug for PluginBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PluginBytes({} bytes)", self.len())
    }
}

/// Where a plugin's machine code came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CodeOrigin {
    /// Compiled just now.
    Compiled,
    /// Found in the directory of compiled code.
    Cache,
}

/// How a plugin is called.
pub(crate) enum Entry {
    /// It exports the contract's handler.
    Handler(JobPre<Guest>),
    /// It is a WASI command.
    Command(CommandPre<Guest>),
}

/// A component that was validated, compiled and linked: each attempt is a fresh instance of it.
pub struct Plugin {
    pub(crate) entry: Entry,
    inspection: Inspection,
    origin: CodeOrigin,
    ready_in: Duration,
}

impl Plugin {
    pub(crate) fn new(entry: Entry, inspection: Inspection, origin: CodeOrigin, ready_in: Duration) -> Self {
        Plugin { entry, inspection, origin, ready_in }
    }

    /// The engine that runs it.
    pub(crate) fn engine(&self) -> &Engine {
        match &self.entry {
            Entry::Handler(pre) => pre.engine(),
            Entry::Command(pre) => pre.engine(),
        }
    }

    /// Whether it is a WASI command, which takes its payload from standard input.
    pub fn is_command(&self) -> bool {
        matches!(self.entry, Entry::Command(_))
    }

    /// Names the plugin's bytes.
    pub fn digest(&self) -> Digest {
        self.inspection.digest
    }

    /// How many bytes its file has.
    pub fn size(&self) -> usize {
        self.inspection.size
    }

    /// What it imports, by name.
    pub fn imports(&self) -> &[String] {
        &self.inspection.imports
    }

    /// What it exports, by name.
    pub fn exports(&self) -> &[String] {
        &self.inspection.exports
    }

    /// Whether its code was compiled or found.
    pub fn origin(&self) -> CodeOrigin {
        self.origin
    }

    /// How long it took to become ready, by the caller's clock, waiting for other compilations not counted.
    pub fn ready_in(&self) -> Duration {
        self.ready_in
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin")
            .field("digest", &self.digest())
            .field("size", &self.size())
            .field("origin", &self.origin)
            .field("ready_in", &self.ready_in)
            .finish_non_exhaustive()
    }
}

/// Reads a plugin's file: a regular file of at most 64 MiB, never waiting for a pipe. Blocks on the disk.
///
/// The path is followed as it is; whether it may be read at all is the caller's question.
///
/// # Errors
///
/// [`PluginError::Read`], or [`Refusal::TooLarge`].
pub fn read_plugin_file(path: &Path) -> Result<Vec<u8>, PluginError> {
    let failed = |source| PluginError::Read { path: path.to_owned(), source: Arc::new(source) };
    let file = regular_file::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let mut bytes = Vec::with_capacity(size.min(PLUGIN_FILE_MAX) as usize);
    // One byte more than allowed shows that there is more, however the file grows meanwhile.
    file.take(PLUGIN_FILE_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > PLUGIN_FILE_MAX {
        return Err(Refusal::TooLarge { limit: PLUGIN_FILE_MAX }.into());
    }
    Ok(bytes)
}
