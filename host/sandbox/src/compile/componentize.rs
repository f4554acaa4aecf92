//! Core modules to components: the two ways in for what a toolchain made without a component in mind.

use std::panic;

use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_component::ComponentEncoder;

use super::embedded;
use super::protocol::{Why, shown};
use crate::scan::{CoreFacts, PREVIEW1};
use crate::text;

/// Makes a core module a component: of the type that is embedded in it, or a WASI command where it exports `_start`. What it
/// imports of WASI 0.1, wasmtime's adapter makes of WASI 0.2.
///
/// The module must have been validated. Nothing of the component has been looked at yet.
///
/// # Errors
///
/// Why it cannot be done, where that is not seen before, in the words of wit-component. It is made for what compilers put out
/// and breaks off on some of what they do not: that is no fault of this compiler's, but of the module.
pub(super) fn component_of(module: &[u8], facts: &CoreFacts) -> Result<Vec<u8>, Why> {
    let adapter = match facts {
        CoreFacts { start: true, .. } => Some(WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER),
        CoreFacts { preview1: true, .. } => Some(WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER),
        _ => None,
    };
    let modules: Vec<&[u8]> = [module].into_iter().chain(adapter).collect();
    embedded::look_at(&modules)?;
    // Nothing of it is used once it has broken off.
    let encoded = panic::catch_unwind(|| encode(module, adapter));
    let encoded =
        encoded.unwrap_or_else(|panic| Err(format!("the encoder broke off: {}", text::of_panic(panic.as_ref()))));
    encoded.map_err(|words| Why::Componentize { detail: shown(&words) })
}

fn encode(module: &[u8], adapter: Option<&[u8]>) -> Result<Vec<u8>, String> {
    let words = |error| format!("{error:#}");
    let mut encoder = ComponentEncoder::default().module(module).map_err(words)?;
    if let Some(adapter) = adapter {
        encoder = encoder.adapter(PREVIEW1, adapter).map_err(words)?;
    }
    encoder.encode().map_err(words)
}
