//! Why a file is not taken as a plugin. Every message says what was found, what was wanted, and what to do.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

/// A plugin could not be loaded.
#[derive(Debug, Clone, Error)]
pub enum PluginError {
    /// The file could not be read.
    #[error("cannot read the plugin {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The bytes are not a plugin this host runs. The same bytes are always refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The host failed while it loaded the plugin; the bytes may be good.
    #[error("this host could not load the plugin just now; it is worth another try")]
    Host(#[source] Arc<io::Error>),
    /// The sandbox ended while the plugin was being loaded.
    #[error("the sandbox was shut down while the plugin was being loaded")]
    ShutDown,
}

/// What is wrong with a file's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Nothing in it.
    #[error("the file is empty; if it is still being copied, it is tried again when it changes")]
    Empty,
    /// Larger than a plugin may be.
    #[error(
        "the file is larger than {limit} bytes, the most a plugin may have; strip debug information or data from it"
    )]
    TooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// Text where a binary was expected.
    #[error("the file is text, not WebAssembly{}", hint.map_or(String::new(), |hint| format!("; {hint}")))]
    Text {
        /// What to do with this text, where that is known.
        hint: Option<&'static str>,
    },
    /// Some other binary.
    #[error("the file is not WebAssembly: it begins with {first_bytes} instead of 00 61 73 6d")]
    NotWasm {
        /// The first bytes in hexadecimal.
        first_bytes: String,
    },
    /// Ends in the middle.
    #[error("the file is truncated: it ends after {size} bytes, in the middle of its content; copy or build it again")]
    Truncated {
        /// How many bytes there are.
        size: usize,
    },
    /// Machine code made by some wasmtime: never run, because it cannot be checked.
    #[error(
        "the file is precompiled machine code, which is never loaded from outside; give the .wasm component it was made from"
    )]
    Precompiled,
    /// A core module, not a component.
    #[error(
        "the file is a core WebAssembly module, not a component{}; build a component, in Rust with \
         `cargo build --release --target wasm32-wasip2`, or turn the module into one with `wasm-tools component new`",
        if *embedded_type { " (it carries a component type, but this version takes finished components only)" } else { "" }
    )]
    CoreModule {
        /// Whether a component type is embedded in it.
        embedded_type: bool,
    },
    /// A component without the handler.
    #[error("the component exports no leasehold:job/handler@0.1.x, which a plugin must; it exports {}", list(found))]
    NoHandler {
        /// What it exports instead, at most ten names.
        found: Vec<String>,
    },
    /// The handler of another version of the contract.
    #[error(
        "the component exports {found}, but this host runs leasehold:job/handler@0.1.x; build it against the 0.1 contract"
    )]
    WrongVersion {
        /// The export that was found.
        found: String,
    },
    /// The handler's interface with another type.
    #[error(
        "the component's handler has another type than the contract's: {detail}; build it against the contract's WIT"
    )]
    WrongType {
        /// What differs.
        detail: String,
    },
    /// Imports that this host does not offer.
    #[error("the component imports {}, which this host does not offer{}", list(names), hint.map_or(String::new(), |hint| format!(" ({hint})")))]
    UnknownImport {
        /// The imports, at most ten names.
        names: Vec<String>,
        /// What to do about the first one, where that is known.
        hint: Option<&'static str>,
    },
    /// Imports of a known name with another type.
    #[error("the component's imports do not fit what this host offers: {detail}")]
    ImportMismatch {
        /// What differs.
        detail: String,
    },
    /// Too large in one respect to be compiled safely.
    #[error("the component has {found} {what}, more than the {limit} this host compiles")]
    TooComplex {
        /// What is counted.
        what: &'static str,
        /// How many there are: at least this many.
        found: u64,
        /// How many there may be.
        limit: u64,
    },
    /// Not valid WebAssembly, or using proposals that are off.
    #[error("the file is not a valid component: {detail}")]
    Invalid {
        /// What the validator said.
        detail: String,
    },
    /// Valid but not compiled.
    #[error("the component could not be compiled: {detail}")]
    Compile {
        /// What the compiler said.
        detail: String,
    },
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}
