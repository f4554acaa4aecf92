//! What a file is, told from its bytes without compiling it.

use wasmparser::Parser;
use wasmtime::Engine;

use crate::fits::fits;
use crate::plugin::{Digest, PLUGIN_FILE_MAX};
use crate::refusal::Refusal;
use crate::scan::{self, Structure};

/// What kind of file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A WebAssembly component.
    Component,
    /// A core WebAssembly module.
    CoreModule,
    /// Machine code made by wasmtime.
    Precompiled,
    /// Text.
    Text,
    /// Nothing.
    Empty,
    /// Anything else.
    Other,
}

impl FileKind {
    /// The kind in words.
    pub fn as_str(self) -> &'static str {
        match self {
            FileKind::Component => "component",
            FileKind::CoreModule => "core module",
            FileKind::Precompiled => "precompiled code",
            FileKind::Text => "text",
            FileKind::Empty => "empty",
            FileKind::Other => "not WebAssembly",
        }
    }
}

/// What [`inspect`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// What kind of file it is.
    pub kind: FileKind,
    /// Names the bytes.
    pub digest: Digest,
    /// How many bytes there are.
    pub size: usize,
    /// What it imports, in its own order; of a core module "module.name", the first few.
    pub imports: Vec<String>,
    /// What it exports, in its own order.
    pub exports: Vec<String>,
    /// Whether it looks like a plugin. Only [loading](crate::Sandbox::load_bytes) also makes a core module a component, validates
    /// the code and compares types.
    pub verdict: Result<(), Refusal>,
}

/// Tells what a file is. Takes time linear in its size and compiles nothing.
///
/// It reads a stranger's bytes in the calling process: for commands that look at a file and end. A host, which has leases to
/// keep, [loads](crate::Sandbox::load_bytes), where the same is done in a process apart.
pub fn inspect(bytes: &[u8]) -> Inspection {
    let glance = Glance::new(bytes, Digest::of(bytes));
    let scanned = glance.verdict.clone().and_then(|()| scan::scan(bytes));
    match scanned {
        Ok(structure) => {
            let verdict = fits(&structure);
            glance.with(structure, verdict)
        }
        Err(refusal) => glance.with(Structure::default(), Err(refusal)),
    }
}

/// What is seen of a file without reading its structure: its size, its first bytes and its digest.
pub(crate) struct Glance {
    pub(crate) kind: FileKind,
    pub(crate) digest: Digest,
    pub(crate) size: usize,
    /// Whether it is worth a closer look.
    pub(crate) verdict: Result<(), Refusal>,
}

impl Glance {
    pub(crate) fn new(bytes: &[u8], digest: Digest) -> Glance {
        let kind = kind_of(bytes);
        Glance { kind, digest, size: bytes.len(), verdict: first_bytes_fit(kind, bytes) }
    }

    pub(crate) fn with(self, structure: Structure, verdict: Result<(), Refusal>) -> Inspection {
        Inspection {
            kind: self.kind,
            digest: self.digest,
            size: self.size,
            imports: structure.core.map_or(structure.imports, |core| core.foreign),
            exports: structure.exports,
            verdict,
        }
    }
}

const MAGIC: &[u8; 4] = b"\0asm";
/// Magic, version and layer.
const HEADER: usize = 8;
/// How many names a message lists.
pub(crate) const LISTED_NAMES: usize = 10;

fn kind_of(bytes: &[u8]) -> FileKind {
    if bytes.is_empty() {
        FileKind::Empty
    } else if Engine::detect_precompiled(bytes).is_some() {
        FileKind::Precompiled
    } else if Parser::is_component(bytes) {
        FileKind::Component
    } else if Parser::is_core_wasm(bytes) {
        FileKind::CoreModule
    } else if is_text(bytes) {
        FileKind::Text
    } else {
        FileKind::Other
    }
}

/// Whether a file's size and first bytes are those of something with a structure.
fn first_bytes_fit(kind: FileKind, bytes: &[u8]) -> Result<(), Refusal> {
    if bytes.len() as u64 > PLUGIN_FILE_MAX {
        return Err(Refusal::TooLarge { limit: PLUGIN_FILE_MAX });
    }
    Err(match kind {
        FileKind::Component | FileKind::CoreModule => return Ok(()),
        FileKind::Empty => Refusal::Empty,
        FileKind::Precompiled => Refusal::Precompiled,
        FileKind::Text => Refusal::Text { hint: text_hint(bytes) },
        FileKind::Other if bytes.len() < HEADER && is_cut_header(bytes) => Refusal::Truncated { size: bytes.len() },
        FileKind::Other if bytes.starts_with(MAGIC) => Refusal::Invalid {
            detail: format!(
                "it has WebAssembly's magic but the unknown version {}",
                hex(&bytes[4..bytes.len().min(8)])
            ),
        },
        FileKind::Other => Refusal::NotWasm { first_bytes: hex(&bytes[..bytes.len().min(4)]) },
    })
}

fn is_cut_header(bytes: &[u8]) -> bool {
    let headers: [&[u8]; 2] = [b"\0asm\x01\0\0\0", b"\0asm\x0d\0\x01\0"];
    headers.iter().any(|header| header.starts_with(bytes))
}

fn is_text(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(512)];
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        // The cut at 512 bytes may have hit a character.
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&start[..error.valid_up_to()]).unwrap_or(""),
        Err(_) => "",
    };
    !text.is_empty() && text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t'))
}

fn text_hint(bytes: &[u8]) -> Option<&'static str> {
    let start = bytes.trim_ascii_start();
    if start.starts_with(b"(component") || start.starts_with(b"(module") || start.starts_with(b";;") {
        return Some("WebAssembly text is made binary with `wasm-tools parse`");
    }
    if start.starts_with(b"version https://git-lfs") {
        return Some("this is a Git LFS pointer; fetch the file itself with `git lfs pull`");
    }
    start.starts_with(b"<").then_some("this looks like a web page, perhaps saved from a failed download")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}
