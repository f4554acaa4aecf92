//! `leasehold compile-plugin`, hidden: what a host starts to have one plugin compiled. It answers one request and ends.

use std::process::ExitCode;

use clap::Args;

/// The command's name.
pub(super) const NAME: &str = "compile-plugin";

/// The arguments of `leasehold compile-plugin`.
#[derive(Debug, Args)]
pub(super) struct CompilePlugin {
    /// What the host asks for
    request: String,
}

impl CompilePlugin {
    /// Compiles.
    pub(super) fn run(&self) -> ExitCode {
        leasehold_sandbox::run_compiler(&self.request)
    }
}
