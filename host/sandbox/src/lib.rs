//! Runs plugins in wasmtime: bounded, interruptible, and apart from everything that must stay prompt.
//!
//! A [`Sandbox`] owns the engine, the threads that guests run on and the cache of compiled code. It [loads](Sandbox::load)
//! a file into a [`Plugin`], refusing what is not one with a [`Refusal`] that says why (a process apart looks into it and
//! compiles it), and [starts](Sandbox::start) one
//! attempt of it as an [`Execution`]: something to wait for, and a [`Signal`] to stop it by. What came of it is told by
//! [`Ended`], whatever the guest did.
//!
//! This crate knows plugins and guests. It knows nothing of leases, schedules or stores: who may run is decided elsewhere.

mod attempt;
pub mod bench;
mod cache;
mod capture;
mod command;
mod compile;
mod cpu;
mod effects;
mod engine;
mod execution;
mod fits;
mod gate;
mod guest;
mod imports;
mod inspect;
mod invocation;
mod limits;
mod load;
mod log;
mod memory;
mod outbound;
mod outcome;
mod plugin;
mod refusal;
mod refused;
pub mod regular_file;
mod sandbox;
mod scan;
mod settings;
mod signal;
mod storage;
mod text;
mod ticker;
mod toolchain;
mod turns;

pub use cache::CacheError;
pub use compile::{CompileLimits, CompilerCommand, run_compiler};
pub use effects::Effects;
pub use engine::Allocation;
pub use execution::{Execution, Progress};
pub use fits::HANDLER_INTERFACE;
pub use gate::{Gate, Lost};
pub use inspect::{FileKind, Inspection, inspect};
pub use invocation::{Invocation, MonotonicClock, RunFacts};
pub use limits::Limits;
pub use log::{LogLevel, LogLine, LogSink, LogSource};
pub use memory::{MemoryFull, MemoryLedger, MemoryShare};
pub use outbound::{HttpGrants, Origin, OriginError, Resolve, header_is_the_hosts, is_header_value};
pub use outcome::{Ended, ErrorInfo, Failure, FailureKind, GuestEnd, HandlerError, Usage};
pub use plugin::{CodeOrigin, Digest, PLUGIN_FILE_MAX, Plugin, PluginBytes, read_plugin_file};
pub use refusal::{CompileLimit, Counted, NoComponent, PluginError, Refusal};
pub use sandbox::{Sandbox, SandboxError, SandboxSettings};
pub use settings::{Secret, SecretText, Settings};
pub use signal::{Signal, StopReason};
pub use storage::{MemoryStorage, Storage, StorageError};
pub use text::escape;
pub use toolchain::Toolchain;
