//! Bytes to machine code: a narrow door, because compilers are the easiest thing to attack with a file.
//!
//! What goes in has passed the structural scan; what comes out is an artifact for the cache. Nothing else of the sandbox is
//! touched here, so that the work can move into a process of its own.

use wasmparser::Validator;
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
/// [`Refusal::Invalid`] or [`Refusal::Compile`], in the validator's and the compiler's words.
pub(crate) fn compile(engine: &Engine, component: &[u8]) -> Result<Artifact, Refusal> {
    validate(engine, component)?;
    engine.precompile_component(component).map(Artifact).map_err(|error| not_compiled(&error))
}

/// Like [`compile`], but for use at once, where there is nowhere to keep the artifact.
pub(crate) fn compile_in_memory(engine: &Engine, component: &[u8]) -> Result<Component, Refusal> {
    validate(engine, component)?;
    Component::from_binary(engine, component).map_err(|error| not_compiled(&error))
}

/// The compiler validates as well, but mixed with its own work: what is wrong with the file is told apart here.
fn validate(engine: &Engine, component: &[u8]) -> Result<(), Refusal> {
    let features = engine.get_wasm_features();
    match Validator::new_with_features(features).validate_all(component) {
        Ok(_) => Ok(()),
        Err(error) => Err(Refusal::Invalid { detail: text::bound(&text::escape(&error.to_string()), MAX_DETAIL) }),
    }
}

const MAX_DETAIL: usize = 2 * 1024;

fn not_compiled(error: &wasmtime::Error) -> Refusal {
    Refusal::Compile { detail: text::bound(&text::escape(&format!("{error:#}")), MAX_DETAIL) }
}
