//! Core modules to components: the two ways in for what a toolchain made without a component in mind.

use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_component::ComponentEncoder;

use crate::scan::{CoreFacts, PREVIEW1};

/// Makes a core module a component: of the type that is embedded in it, or a WASI command where it exports `_start`. What it
/// imports of WASI 0.1, wasmtime's adapter makes of WASI 0.2.
///
/// The module must have been validated. Nothing of the component has been looked at yet.
///
/// # Errors
///
/// Why it cannot be done, in the words of wit-component.
pub(super) fn component_of(module: &[u8], facts: &CoreFacts) -> Result<Vec<u8>, String> {
    let words = |error| format!("{error:#}");
    let mut encoder = ComponentEncoder::default().module(module).map_err(words)?;
    if facts.start {
        encoder = encoder.adapter(PREVIEW1, WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER).map_err(words)?;
    } else if facts.preview1 {
        encoder = encoder.adapter(PREVIEW1, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER).map_err(words)?;
    }
    encoder.encode().map_err(words)
}
