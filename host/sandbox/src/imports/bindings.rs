//! Generated from the contract in `wit/`.

#![allow(missing_docs, unreachable_pub)]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "job",
    imports: {
        // The only function that waits.
        "leasehold:job/control.sleep": async | trappable,
        default: trappable,
    },
    exports: { default: async },
});
