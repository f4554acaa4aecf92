//! Write a Leasehold job handler in Rust.
//!
//! A handler is a function from a run and its payload to an output. The [`handler!`] macro makes it what a plugin
//! exports; build it with `cargo build --target wasm32-wasip2`, as a library of `crate-type = ["cdylib"]`. For
//! `wasm32-unknown-unknown` it becomes a core module, of which the host makes a component.
//!
//! ```
//! use leasehold_guest::{Result, Run, handler};
//! use serde::{Deserialize, Serialize};
//!
//! handler!(greet);
//!
//! #[derive(Deserialize)]
//! struct Greeting {
//!     name: String,
//! }
//!
//! #[derive(Serialize)]
//! struct Reply {
//!     text: String,
//! }
//!
//! fn greet(run: &Run, input: Greeting) -> Result<Reply> {
//!     log::info!(attempt = run.attempt(); "greeting {}", input.name);
//!     run.ensure_continue()?; // before every side effect
//!     Ok(Reply { text: format!("Hello, {}!", input.name) })
//! }
//!
//! // On the native target a handler is tested like any function; see `testing`.
//! let reply = greet(&leasehold_guest::testing::run(), Greeting { name: "Ada".into() }).unwrap();
//! assert_eq!(reply.text, "Hello, Ada!");
//! ```
//!
//! # Payloads
//!
//! Input and output are JSON through serde: any `DeserializeOwned` type in, any `Serialize` type out,
//! [`serde_json::Value`] included. An empty payload reads as JSON `null`, so `Option<T>` and `()` accept it. A payload
//! that does not fit ends the run as a permanent error with the code `bad-input`. Use [`Bytes`] on either side for
//! payloads that are not JSON.
//!
//! # Stopping
//!
//! A run that has lost its lease must not go on: another host may have started it. Put [`Run::ensure_continue`] before
//! each side effect and in every long loop, and wait with [`Run::sleep`], which ends early. Both return an error that
//! `?` passes on; the host then hands the run over or ends it, whichever the reason asks for.
//!
//! # Effects
//!
//! [`Run::save_state`] keeps a checkpoint that the next attempt finds with [`Run::load_state`]; [`Run::kv`] is the tenant's
//! key-value space; [`Run::config`] reads settings; [`http::Request`] goes to origins that the operator and the job's
//! manifest both allow. The host holds them back while the lease is in doubt and refuses them once it is lost.
//!
//! # Logs
//!
//! The default feature `log` sends what is said through the `log` facade, key-values included, to the run's log; the
//! feature `tracing` does so for `tracing`, with the fields of the surrounding spans. What is printed to standard output
//! or standard error is kept as well, a panic's message among it.

mod error;
mod host;
pub mod http;
#[cfg(target_family = "wasm")]
mod logging;
mod payload;
mod run;
mod storage;
#[cfg(not(target_family = "wasm"))]
pub mod testing;

pub use error::{Error, ErrorKind, Result};
pub use payload::{Bytes, Input, Output};
pub use run::{Run, StopReason};
pub use storage::{Kv, StorageError};

/// Makes a function the handler that this plugin exports.
///
/// It takes the name of one function of the shape `fn(&Run, I) -> Result<O, E>`, where `I` is an [`Input`], `O` an
/// [`Output`] and `E` converts into [`Error`]. A plugin has one handler, so a crate uses this once. On a target other
/// than WebAssembly the function's shape is checked and nothing is exported, so that a plugin's unit tests run natively.
#[macro_export]
macro_rules! handler {
    ($function:path) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            struct LeaseholdHandler;

            impl $crate::__private::Guest for LeaseholdHandler {
                fn handle(
                    run: $crate::__private::RunInfo,
                    input: ::std::vec::Vec<u8>,
                ) -> ::std::result::Result<::std::vec::Vec<u8>, $crate::__private::HandlerError> {
                    $crate::__private::handle(run, input, $function)
                }
            }

            $crate::__private::export! { LeaseholdHandler with_types_in $crate::__private }
        };
        #[cfg(not(target_family = "wasm"))]
        const _: fn() = || $crate::__private::check_shape($function);
    };
}

/// What [`handler!`] expands to refers to; not part of the interface.
#[doc(hidden)]
pub use host::__private;

/// So that its examples are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
