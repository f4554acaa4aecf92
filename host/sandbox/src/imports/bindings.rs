//! Generated from the contract in `wit/`.

#![allow(missing_docs, unreachable_pub)]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "job",
    imports: {
        // The functions that wait.
        "leasehold:job/control.sleep": async | trappable,
        "leasehold:job/state.load": async | trappable,
        "leasehold:job/state.save": async | trappable,
        "leasehold:job/kv.get": async | trappable,
        "leasehold:job/kv.set": async | trappable,
        "leasehold:job/kv.delete": async | trappable,
        "leasehold:job/kv.list-keys": async | trappable,
        "leasehold:job/kv.compare-and-set": async | trappable,
        "leasehold:job/http.send": async | trappable,
        default: trappable,
    },
    exports: { default: async },
});
