//! What a guest can call: the contract's interfaces, and WASI 0.2 with nothing behind it.

pub(crate) mod bindings;
mod config;
mod control;
mod http;
mod kv;
mod log;
mod progress;
mod state;
mod stored;
pub(crate) mod wasi;

use wasmtime::component::{HasSelf, Linker};
use wasmtime::{Engine, Result};

use crate::guest::Guest;

/// Links everything a plugin may import.
pub(crate) fn linker(engine: &Engine) -> Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    // All of WASI is linked and denied when called: several languages import it whether or not they use it.
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    bindings::Job::add_to_linker::<_, HasSelf<_>>(&mut linker, Guest::entered)?;
    Ok(linker)
}

/// Types only; nothing to call.
impl bindings::leasehold::job::types::Host for Guest {}
