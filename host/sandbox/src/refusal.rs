//! Why a file is not taken as a plugin. Every message says what was found, what was wanted, and what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::toolchain::Toolchain;

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
    /// A core module that cannot be made a component.
    #[error(
        "the file is a core WebAssembly module that is no plugin: {why}; {}",
        toolchain.map_or(NoComponent::ADVICE, Toolchain::advice)
    )]
    CoreModule {
        /// What it lacks.
        why: NoComponent,
        /// Who made it, where that can be told.
        toolchain: Option<Toolchain>,
    },
    /// A core module that does not do what its embedded type, or a WASI command, wants.
    #[error(
        "the core WebAssembly module could not be made a component: {detail}{}",
        toolchain.map_or(String::new(), |toolchain| format!("; {}", toolchain.advice()))
    )]
    Componentize {
        /// What does not fit.
        detail: String,
        /// Who made it, where that can be told and explains it.
        toolchain: Option<Toolchain>,
    },
    /// A component without the handler.
    #[error(
        "the component exports neither leasehold:job/handler@0.1.x nor, as a WASI command, wasi:cli/run@0.2.x; it exports {}; build \
         it against the world leasehold:job/job, as a project of `leasehold new` does, or as a command with a main function",
        list(found)
    )]
    NoHandler {
        /// What it exports instead, at most ten names.
        found: Vec<String>,
    },
    /// The handler of another version of the contract, or a command of another WASI.
    #[error(
        "the component exports {found}, but this host runs leasehold:job/handler@0.1.x and wasi:cli/run@0.2.x; build it against \
         one of these"
    )]
    WrongVersion {
        /// The export that was found.
        found: String,
    },
    /// The interface that is called, with another type.
    #[error(
        "the function that is to be called has another type than the contract's: {detail}; build it against the contract's WIT"
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
        what: Counted,
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
    /// Compiled, but it wants more memories, tables or instances than a guest may have.
    #[error("an instance of the component would be larger than one may be: {detail}")]
    Demanding {
        /// What the engine said.
        detail: String,
    },
    /// Compiling it used up what a compiler may use.
    #[error(
        "compiling the component takes more than {limit}, all that this host gives to one plugin; make its code smaller or \
         split it, or have the host's operator raise the limit"
    )]
    CompileLimit {
        /// Which limit.
        limit: CompileLimit,
    },
    /// The compiler broke off, and would again.
    #[error("the compiler broke off on this component: {how}; build it anew, with other optimisations")]
    CompilerBroke {
        /// How.
        how: String,
    },
    /// The compiler was ended by somebody else.
    #[error(
        "the compiler was killed from outside while it worked on the component, as the system does when memory runs out; it \
         is not tried again for some minutes"
    )]
    CompilerKilled,
    /// The compiler's process said something that is no answer.
    #[error(
        "the compiler's process gave no answer that makes sense: {how}; it is not tried again for some minutes, and if it goes \
         on, the host's installation is damaged"
    )]
    CompilerAnswer {
        /// What it said instead.
        how: String,
    },
}

impl Refusal {
    /// One word for programs and for searching: the same for the same cause, whatever the message says.
    pub fn word(&self) -> &'static str {
        match self {
            Refusal::Empty => "empty",
            Refusal::TooLarge { .. } => "too-large",
            Refusal::Text { .. } => "text",
            Refusal::NotWasm { .. } => "not-wasm",
            Refusal::Truncated { .. } => "truncated",
            Refusal::Precompiled => "precompiled",
            Refusal::CoreModule { .. } => "core-module",
            Refusal::Componentize { .. } => "componentize",
            Refusal::NoHandler { .. } => "no-handler",
            Refusal::WrongVersion { .. } => "wrong-version",
            Refusal::WrongType { .. } => "wrong-type",
            Refusal::UnknownImport { .. } => "unknown-import",
            Refusal::ImportMismatch { .. } => "import-mismatch",
            Refusal::TooComplex { .. } => "too-complex",
            Refusal::Invalid { .. } => "invalid",
            Refusal::Compile { .. } => "compile",
            Refusal::Demanding { .. } => "demanding",
            Refusal::CompileLimit { limit: CompileLimit::Cpu(_) } => "compile-cpu",
            Refusal::CompileLimit { limit: CompileLimit::Wall(_) } => "compile-time",
            Refusal::CompileLimit { limit: CompileLimit::Memory(_) } => "compile-memory",
            Refusal::CompileLimit { limit: CompileLimit::Output(_) } => "compile-output",
            Refusal::CompilerBroke { .. } => "compiler-broke",
            Refusal::CompilerKilled => "compiler-killed",
            Refusal::CompilerAnswer { .. } => "compiler-answer",
        }
    }

    /// Whether the cause may lie outside the bytes and pass: a machine that is busy or short of memory.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(
            self,
            Refusal::CompileLimit { limit: CompileLimit::Wall(_) }
                | Refusal::CompilerKilled
                | Refusal::CompilerAnswer { .. }
        )
    }
}

/// Why a core module cannot be made a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoComponent {
    /// Neither a type nor a command's start.
    NoWayIn {
        /// What it exports, at most ten names.
        exports: Vec<String>,
    },
    /// A command with imports that are not WASI's.
    ForeignImports {
        /// Those, "module.name", at most ten.
        names: Vec<String>,
    },
    /// Its runtime and the WASI adapter would both use the same memory.
    OwnHeap,
}

impl NoComponent {
    const ADVICE: &str = "build a component (in Rust with `cargo build --release --target wasm32-wasip2`) or a WASI command, or put \
        the contract's type into it with `wasm-tools component embed`; `leasehold new` writes a project that does";
}

impl fmt::Display for NoComponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoComponent::NoWayIn { exports } => write!(
                f,
                "no component type is embedded in it, and it exports no function `_start` as a WASI command does; it exports {}",
                list(exports)
            ),
            NoComponent::ForeignImports { names } => {
                write!(f, "it imports {}, which is not of WASI (wasi_snapshot_preview1)", list(names))
            }
            NoComponent::OwnHeap => f.write_str(
                "it takes all memory behind its data for its own, and with it that of the adapter between WASI 0.1 and 0.2: it \
                 would overwrite what it is told",
            ),
        }
    }
}

/// What compiling a plugin used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompileLimit {
    /// Processor time.
    Cpu(Duration),
    /// Time by the clock, for want of processor time.
    Wall(Duration),
    /// Bytes of memory.
    Memory(u64),
    /// Bytes of machine code.
    Output(u64),
}

impl fmt::Display for CompileLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileLimit::Cpu(time) => write!(f, "{time:?} of processor time"),
            CompileLimit::Wall(time) => write!(f, "{time:?} on this busy machine"),
            CompileLimit::Memory(bytes) => write!(f, "{} of memory", size(*bytes)),
            CompileLimit::Output(bytes) => write!(f, "{} of machine code", size(*bytes)),
        }
    }
}

fn size(bytes: u64) -> String {
    if bytes >= 1 << 20 { format!("{} MiB", bytes >> 20) } else { format!("{bytes} bytes") }
}

/// What of a component is counted before it is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counted {
    /// Core modules in it.
    CoreModules,
    /// Components in it.
    Components,
    /// Functions.
    Functions,
    /// Instances of components.
    ComponentInstances,
    /// Globals.
    Globals,
    /// Imports of core modules.
    CoreImports,
    /// Items of passive element segments.
    PassiveElements,
    /// Bytes of all types.
    TypeBytes,
    /// Levels of types in types.
    TypeNesting,
    /// Bytes of the component types that are embedded in a core module.
    EmbeddedTypeBytes,
    /// Bytes of one function.
    BodyBytes,
    /// Locals of one function.
    Locals,
    /// Imports of the component itself.
    Imports,
    /// Exports of the component itself.
    Exports,
}

impl Counted {
    /// In words, behind a number.
    pub fn as_str(self) -> &'static str {
        match self {
            Counted::CoreModules => "core modules",
            Counted::Components => "nested components",
            Counted::Functions => "functions",
            Counted::ComponentInstances => "instances of components",
            Counted::Globals => "globals",
            Counted::CoreImports => "imports of core modules",
            Counted::PassiveElements => "items in passive element segments",
            Counted::TypeBytes => "bytes of types",
            Counted::TypeNesting => "levels of types in types",
            Counted::EmbeddedTypeBytes => "bytes of embedded component types",
            Counted::BodyBytes => "bytes in one function",
            Counted::Locals => "locals in one function",
            Counted::Imports => "imports",
            Counted::Exports => "exports",
        }
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}
