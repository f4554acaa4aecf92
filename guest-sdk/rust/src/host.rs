//! The host, as this crate calls it: the real one inside a plugin, a double for unit tests on the native target.

#[cfg(not(target_family = "wasm"))]
mod native;
#[cfg(target_family = "wasm")]
mod wasm;

#[cfg(not(target_family = "wasm"))]
pub use native::__private;
#[cfg(not(target_family = "wasm"))]
pub(crate) use native::*;
#[cfg(target_family = "wasm")]
pub use wasm::__private;
#[cfg(target_family = "wasm")]
pub(crate) use wasm::*;
