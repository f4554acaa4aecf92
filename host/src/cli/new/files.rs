//! The files that `leasehold new` puts into a project. Written by scripts/list-templates.

use super::project::Embedded;

pub(super) const TEMPLATE_RUST: &[Embedded] = &[];

pub(super) const TEMPLATE_JS: &[Embedded] = &[];

pub(super) const TEMPLATE_TS: &[Embedded] = &[];

pub(super) const TEMPLATE_PYTHON: &[Embedded] = &[];

pub(super) const TEMPLATE_GO: &[Embedded] = &[];

pub(super) const TEMPLATE_C: &[Embedded] = &[];

pub(super) const SDK_RUST: &[Embedded] = &[
    Embedded { path: "Cargo.toml", content: include_bytes!("../../../../guest-sdk/rust/Cargo.toml") },
    Embedded { path: "README.md", content: include_bytes!("../../../../guest-sdk/rust/README.md") },
    Embedded { path: "src/error.rs", content: include_bytes!("../../../../guest-sdk/rust/src/error.rs") },
    Embedded { path: "src/host.rs", content: include_bytes!("../../../../guest-sdk/rust/src/host.rs") },
    Embedded { path: "src/host/native.rs", content: include_bytes!("../../../../guest-sdk/rust/src/host/native.rs") },
    Embedded { path: "src/host/wasm.rs", content: include_bytes!("../../../../guest-sdk/rust/src/host/wasm.rs") },
    Embedded { path: "src/http.rs", content: include_bytes!("../../../../guest-sdk/rust/src/http.rs") },
    Embedded { path: "src/lib.rs", content: include_bytes!("../../../../guest-sdk/rust/src/lib.rs") },
    Embedded { path: "src/logging.rs", content: include_bytes!("../../../../guest-sdk/rust/src/logging.rs") },
    Embedded {
        path: "src/logging/log_facade.rs",
        content: include_bytes!("../../../../guest-sdk/rust/src/logging/log_facade.rs"),
    },
    Embedded {
        path: "src/logging/tracing_facade.rs",
        content: include_bytes!("../../../../guest-sdk/rust/src/logging/tracing_facade.rs"),
    },
    Embedded { path: "src/payload.rs", content: include_bytes!("../../../../guest-sdk/rust/src/payload.rs") },
    Embedded { path: "src/run.rs", content: include_bytes!("../../../../guest-sdk/rust/src/run.rs") },
    Embedded { path: "src/storage.rs", content: include_bytes!("../../../../guest-sdk/rust/src/storage.rs") },
    Embedded { path: "src/testing.rs", content: include_bytes!("../../../../guest-sdk/rust/src/testing.rs") },
];

pub(super) const SDK_JS: &[Embedded] = &[];

pub(super) const SDK_PYTHON: &[Embedded] = &[];

pub(super) const SDK_GO: &[Embedded] = &[];

pub(super) const SDK_C: &[Embedded] = &[];

pub(super) const WIT: &[Embedded] = &[
    Embedded { path: "README.md", content: include_bytes!("../../../../wit/README.md") },
    Embedded { path: "deps/io/poll.wit", content: include_bytes!("../../../../wit/deps/io/poll.wit") },
    Embedded { path: "job.wit", content: include_bytes!("../../../../wit/job.wit") },
];
