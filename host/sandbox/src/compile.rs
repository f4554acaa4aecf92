//! Bytes to machine code: a narrow door, because compilers are the easiest thing to attack with a file.
//!
//! What goes in has passed the structural scan; what comes out is an artifact for the cache. Nothing else of the sandbox is
//! touched here, so that the work can move into a process of its own.

use wasmtime::Engine;
use wasmtime::component::Component;

use crate::refusal::Refusal;
use crate::text;

/// Machine code for one component, as wasmtime writes it.
pub(crate) struct Artifact(pub(crate) Vec<u8>);

/// Validates and compiles a component. Takes long: call it on a thread of its own.
///
/// # Errors
///
/// [`Refusal::Invalid`] or [`Refusal::Compile`], with the compiler's words.
pub(crate) fn compile(engine: &Engine, component: &[u8]) -> Result<Artifact, Refusal> {
    engine.precompile_component(component).map(Artifact).map_err(|error| refusal(&error))
}

/// Like [`compile`], but for use at once, where there is nowhere to keep the artifact.
pub(crate) fn compile_in_memory(engine: &Engine, component: &[u8]) -> Result<Component, Refusal> {
    Component::from_binary(engine, component).map_err(|error| refusal(&error))
}

fn refusal(error: &wasmtime::Error) -> Refusal {
    let detail = text::bound(&text::escape(&format!("{error:#}")), 2 * 1024);
    // wasmtime reports validation with wasmparser's own error at the root.
    if error.downcast_ref::<wasmparser::BinaryReaderError>().is_some() || error.chain().any(is_validation) {
        Refusal::Invalid { detail }
    } else {
        Refusal::Compile { detail }
    }
}

fn is_validation(error: &(dyn std::error::Error + 'static)) -> bool {
    error.is::<wasmparser::BinaryReaderError>()
}
