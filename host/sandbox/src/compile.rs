//! Bytes to machine code, in a process of its own: compilers are the easiest thing to attack with a file.
//!
//! A hundred kilobytes can ask a compiler for minutes and gigabytes, and nothing inside a process can take them back. So the
//! host itself reads a file once, looks at its size and its first bytes, and names it by its SHA-256. Everything beyond that
//! happens in a child process of the same binary: the structural scan, validation, making a core module a component, code
//! generation. The child limits itself
//! before it reads a byte ([`child`]), the host limits the time it waits ([`process`]), and a child that breaks off for
//! whatever reason is a refusal of that one file.
//!
//! **What a child that was taken over could do.** It runs as the host's user, so these limits are no jail: they are against
//! cost, not against intrusion. What it answers is read within bounds and believed no further than a stranger's file would
//! be. But the machine code it hands over is executed by the host, which cannot check it: whoever takes over the compiler
//! by a bug in it decides what that code does, exactly as if the compiler ran in the host. The compiler is safe Rust, and
//! that is the defence.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

mod child;
mod componentize;
mod confine;
mod embedded;
mod process;
mod protocol;

pub use child::run_compiler;
pub(crate) use process::Compiler;
pub(crate) use protocol::{Answer, Artifact, Why};

/// What compiling one plugin may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompileLimits {
    /// Bytes of address space of the compiler's process.
    pub memory: u64,
    /// Processor time, in whole seconds; a part of a second counts as one.
    pub cpu: Duration,
    /// Time by the clock, however little of it the process gets.
    pub wall: Duration,
    /// Bytes of machine code.
    pub output: u64,
}

impl Default for CompileLimits {
    /// 3 GiB, 60 s of processor time in 90 s, 256 MiB of machine code.
    fn default() -> Self {
        CompileLimits {
            memory: 3 << 30,
            cpu: Duration::from_secs(60),
            wall: Duration::from_secs(90),
            output: 256 << 20,
        }
    }
}

/// The program that compiles: it calls [`run_compiler`] with its last argument and does nothing before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompilerCommand {
    /// The program, by an absolute path: it is started in another folder.
    pub program: PathBuf,
    /// What stands before the argument that is meant for [`run_compiler`].
    pub args: Vec<OsString>,
}

impl CompilerCommand {
    /// The running program itself, with these arguments.
    ///
    /// On Linux it is the very file that runs, also when another one has taken its place since, as a deploy does: compiled code
    /// fits one version.
    ///
    /// # Errors
    ///
    /// The system does not say which program runs.
    pub fn this_program<A: Into<OsString>>(args: impl IntoIterator<Item = A>) -> io::Result<CompilerCommand> {
        let program =
            if cfg!(target_os = "linux") { PathBuf::from("/proc/self/exe") } else { std::env::current_exe()? };
        Ok(CompilerCommand { program, args: args.into_iter().map(Into::into).collect() })
    }
}
