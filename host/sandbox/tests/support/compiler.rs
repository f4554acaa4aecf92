//! The compiler's process of this crate's tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    leasehold_sandbox::run_compiler(&std::env::args().next_back().unwrap_or_default())
}
