//! Whether what has a certain structure is a plugin, as far as names can tell.
//!
//! There are three ways to be one: a component that exports the contract's handler; a WASI command, which is a component that
//! exports `wasi:cli/run` or a core module with `_start`; and a core module in which the type of the component that it is to
//! become is embedded.

use crate::inspect::LISTED_NAMES;
use crate::refusal::{NoComponent, Refusal};
use crate::scan::{CoreFacts, Structure};
use crate::toolchain::Toolchain;

/// The interface of a handler.
pub const HANDLER_INTERFACE: &str = "leasehold:job/handler@0.1.0";

/// Whether this is a plugin, or may become one.
pub(crate) fn fits(structure: &Structure) -> Result<(), Refusal> {
    match &structure.core {
        Some(core) => fits_the_encoder(core, structure),
        None => fits_the_world(structure),
    }
}

/// A core module with a type says itself what its imports are; a command has WASI 0.1 only.
fn fits_the_encoder(core: &CoreFacts, structure: &Structure) -> Result<(), Refusal> {
    let why = if core.embedded_type {
        return Ok(());
    } else if !core.start {
        NoComponent::NoWayIn { exports: first_few(&structure.exports) }
    } else if !core.foreign.is_empty() {
        NoComponent::ForeignImports { names: core.foreign.clone() }
    } else if core.preview1 && core.toolchain == Some(Toolchain::Go) {
        // The adapter asks `memory.grow` for its room where a module exports no `cabi_realloc`. Go's runtime (sbrk in
        // runtime/mem_wasm.go) takes it that what it grows begins where its last growth ended.
        NoComponent::OwnHeap
    } else {
        return Ok(());
    };
    Err(Refusal::CoreModule { why, toolchain: core.toolchain })
}

fn fits_the_world(structure: &Structure) -> Result<(), Refusal> {
    // A plugin's exports may be more than the world's: some languages add their own.
    let exports =
        |interface: &str, version: &str| structure.exports.iter().any(|name| is_compatible(name, interface, version));
    if !exports("leasehold:job/handler", "0.1.") && !exports("wasi:cli/run", "0.2.") {
        let other = |interface| structure.exports.iter().find(|name| interface_of(name) == interface);
        return Err(match other("leasehold:job/handler").or_else(|| other("wasi:cli/run")) {
            Some(found) => Refusal::WrongVersion { found: found.clone() },
            None => Refusal::NoHandler { found: first_few(&structure.exports) },
        });
    }
    let unknown: Vec<String> =
        structure.imports.iter().filter(|name| !is_offered(name)).take(LISTED_NAMES).cloned().collect();
    match unknown.first() {
        Some(first) => Err(Refusal::UnknownImport { hint: import_hint(first), names: unknown }),
        None => Ok(()),
    }
}

fn first_few(names: &[String]) -> Vec<String> {
    names.iter().take(LISTED_NAMES).cloned().collect()
}

const OFFERED: [&str; 8] = [
    "leasehold:job/types",
    "leasehold:job/control",
    "leasehold:job/log",
    "leasehold:job/progress",
    "leasehold:job/state",
    "leasehold:job/kv",
    "leasehold:job/config",
    "leasehold:job/http",
];
const WASI_PACKAGES: [&str; 6] =
    ["wasi:cli/", "wasi:clocks/", "wasi:filesystem/", "wasi:io/", "wasi:random/", "wasi:sockets/"];

/// By name; whether the types fit as well is the linker's judgement.
fn is_offered(name: &str) -> bool {
    OFFERED.iter().any(|interface| is_compatible(name, interface, "0.1."))
        || WASI_PACKAGES.iter().any(|package| name.starts_with(package)) && version_of(name).starts_with("0.2.")
}

fn import_hint(name: &str) -> Option<&'static str> {
    let interface = interface_of(name);
    if interface.starts_with("leasehold:job/") {
        return Some("that part of the contract does not work in this version yet, or the contract's version differs");
    }
    if interface.starts_with("wasi:http/") {
        return Some("requests go through leasehold:job/http");
    }
    interface.starts_with("wasi:").then_some("this host offers WASI 0.2")
}

fn is_compatible(name: &str, interface: &str, version: &str) -> bool {
    // A release candidate is another version: what it has may have changed since.
    let is_release = !version_of(name).contains(['-', '+']);
    interface_of(name) == interface && version_of(name).starts_with(version) && is_release
}

fn interface_of(name: &str) -> &str {
    name.split_once('@').map_or(name, |(interface, _)| interface)
}

fn version_of(name: &str) -> &str {
    name.split_once('@').map_or("", |(_, version)| version)
}
