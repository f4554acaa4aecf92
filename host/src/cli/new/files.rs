//! The files that `leasehold new` puts into a project. Written by scripts/list-templates.

use super::project::Embedded;

pub(super) const TEMPLATE_RUST: &[Embedded] = &[];

pub(super) const TEMPLATE_JS: &[Embedded] = &[
    Embedded { path: ".gitignore", content: include_bytes!("../../../../host/templates/js/.gitignore") },
    Embedded { path: ".npmrc", content: include_bytes!("../../../../host/templates/js/.npmrc") },
    Embedded { path: "README.md", content: include_bytes!("../../../../host/templates/js/README.md") },
    Embedded { path: "package-lock.json", content: include_bytes!("../../../../host/templates/js/package-lock.json") },
    Embedded { path: "package.json", content: include_bytes!("../../../../host/templates/js/package.json") },
    Embedded { path: "plugin-name.toml", content: include_bytes!("../../../../host/templates/js/plugin-name.toml") },
    Embedded { path: "src/index.js", content: include_bytes!("../../../../host/templates/js/src/index.js") },
    Embedded {
        path: "test/index.test.js",
        content: include_bytes!("../../../../host/templates/js/test/index.test.js"),
    },
];

pub(super) const TEMPLATE_TS: &[Embedded] = &[
    Embedded { path: ".gitignore", content: include_bytes!("../../../../host/templates/ts/.gitignore") },
    Embedded { path: ".npmrc", content: include_bytes!("../../../../host/templates/ts/.npmrc") },
    Embedded { path: "README.md", content: include_bytes!("../../../../host/templates/ts/README.md") },
    Embedded { path: "package-lock.json", content: include_bytes!("../../../../host/templates/ts/package-lock.json") },
    Embedded { path: "package.json", content: include_bytes!("../../../../host/templates/ts/package.json") },
    Embedded { path: "plugin-name.toml", content: include_bytes!("../../../../host/templates/ts/plugin-name.toml") },
    Embedded { path: "src/index.ts", content: include_bytes!("../../../../host/templates/ts/src/index.ts") },
    Embedded {
        path: "test/index.test.ts",
        content: include_bytes!("../../../../host/templates/ts/test/index.test.ts"),
    },
    Embedded { path: "tsconfig.json", content: include_bytes!("../../../../host/templates/ts/tsconfig.json") },
];

pub(super) const TEMPLATE_PYTHON: &[Embedded] = &[
    Embedded { path: ".gitignore", content: include_bytes!("../../../../host/templates/python/.gitignore") },
    Embedded { path: "README.md", content: include_bytes!("../../../../host/templates/python/README.md") },
    Embedded { path: "build", content: include_bytes!("../../../../host/templates/python/build") },
    Embedded {
        path: "plugin-name.toml",
        content: include_bytes!("../../../../host/templates/python/plugin-name.toml"),
    },
    Embedded { path: "src/handler.py", content: include_bytes!("../../../../host/templates/python/src/handler.py") },
    Embedded { path: "test", content: include_bytes!("../../../../host/templates/python/test") },
    Embedded {
        path: "tests/test_handler.py",
        content: include_bytes!("../../../../host/templates/python/tests/test_handler.py"),
    },
];

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

pub(super) const SDK_JS: &[Embedded] = &[
    Embedded { path: ".gitignore", content: include_bytes!("../../../../guest-sdk/js/.gitignore") },
    Embedded { path: ".npmrc", content: include_bytes!("../../../../guest-sdk/js/.npmrc") },
    Embedded { path: "build.mjs", content: include_bytes!("../../../../guest-sdk/js/build.mjs") },
    Embedded { path: "guest/globals.js", content: include_bytes!("../../../../guest-sdk/js/guest/globals.js") },
    Embedded { path: "guest/host.js", content: include_bytes!("../../../../guest-sdk/js/guest/host.js") },
    Embedded { path: "guest/promise.js", content: include_bytes!("../../../../guest-sdk/js/guest/promise.js") },
    Embedded { path: "guest/serve.js", content: include_bytes!("../../../../guest-sdk/js/guest/serve.js") },
    Embedded { path: "guest/text.js", content: include_bytes!("../../../../guest-sdk/js/guest/text.js") },
    Embedded { path: "index.d.ts", content: include_bytes!("../../../../guest-sdk/js/index.d.ts") },
    Embedded { path: "index.js", content: include_bytes!("../../../../guest-sdk/js/index.js") },
    Embedded { path: "package-lock.json", content: include_bytes!("../../../../guest-sdk/js/package-lock.json") },
    Embedded { path: "package.json", content: include_bytes!("../../../../guest-sdk/js/package.json") },
    Embedded { path: "src/console.js", content: include_bytes!("../../../../guest-sdk/js/src/console.js") },
    Embedded { path: "src/context.js", content: include_bytes!("../../../../guest-sdk/js/src/context.js") },
    Embedded { path: "src/errors.js", content: include_bytes!("../../../../guest-sdk/js/src/errors.js") },
    Embedded { path: "src/fetch.js", content: include_bytes!("../../../../guest-sdk/js/src/fetch.js") },
    Embedded { path: "src/handler.js", content: include_bytes!("../../../../guest-sdk/js/src/handler.js") },
    Embedded { path: "src/host.js", content: include_bytes!("../../../../guest-sdk/js/src/host.js") },
    Embedded { path: "test/context.test.js", content: include_bytes!("../../../../guest-sdk/js/test/context.test.js") },
    Embedded { path: "test/guest.test.js", content: include_bytes!("../../../../guest-sdk/js/test/guest.test.js") },
    Embedded { path: "test/handler.test.js", content: include_bytes!("../../../../guest-sdk/js/test/handler.test.js") },
    Embedded { path: "test/tsconfig.json", content: include_bytes!("../../../../guest-sdk/js/test/tsconfig.json") },
    Embedded { path: "test/types.ts", content: include_bytes!("../../../../guest-sdk/js/test/types.ts") },
    Embedded { path: "testing.d.ts", content: include_bytes!("../../../../guest-sdk/js/testing.d.ts") },
    Embedded { path: "testing.js", content: include_bytes!("../../../../guest-sdk/js/testing.js") },
];

pub(super) const SDK_PYTHON: &[Embedded] = &[
    Embedded { path: ".gitignore", content: include_bytes!("../../../../guest-sdk/python/.gitignore") },
    Embedded { path: "build.py", content: include_bytes!("../../../../guest-sdk/python/build.py") },
    Embedded {
        path: "leasehold/__init__.py",
        content: include_bytes!("../../../../guest-sdk/python/leasehold/__init__.py"),
    },
    Embedded {
        path: "leasehold/_context.py",
        content: include_bytes!("../../../../guest-sdk/python/leasehold/_context.py"),
    },
    Embedded {
        path: "leasehold/_errors.py",
        content: include_bytes!("../../../../guest-sdk/python/leasehold/_errors.py"),
    },
    Embedded {
        path: "leasehold/_guest.py",
        content: include_bytes!("../../../../guest-sdk/python/leasehold/_guest.py"),
    },
    Embedded {
        path: "leasehold/_handler.py",
        content: include_bytes!("../../../../guest-sdk/python/leasehold/_handler.py"),
    },
    Embedded { path: "leasehold/_host.py", content: include_bytes!("../../../../guest-sdk/python/leasehold/_host.py") },
    Embedded { path: "leasehold/_http.py", content: include_bytes!("../../../../guest-sdk/python/leasehold/_http.py") },
    Embedded {
        path: "leasehold/_logging.py",
        content: include_bytes!("../../../../guest-sdk/python/leasehold/_logging.py"),
    },
    Embedded { path: "leasehold/py.typed", content: include_bytes!("../../../../guest-sdk/python/leasehold/py.typed") },
    Embedded {
        path: "leasehold/testing.py",
        content: include_bytes!("../../../../guest-sdk/python/leasehold/testing.py"),
    },
    Embedded { path: "requirements.txt", content: include_bytes!("../../../../guest-sdk/python/requirements.txt") },
    Embedded { path: "tests/__init__.py", content: include_bytes!("../../../../guest-sdk/python/tests/__init__.py") },
    Embedded {
        path: "tests/test_context.py",
        content: include_bytes!("../../../../guest-sdk/python/tests/test_context.py"),
    },
    Embedded {
        path: "tests/test_handler.py",
        content: include_bytes!("../../../../guest-sdk/python/tests/test_handler.py"),
    },
];

pub(super) const SDK_GO: &[Embedded] = &[];

pub(super) const SDK_C: &[Embedded] = &[];

pub(super) const WIT: &[Embedded] = &[
    Embedded { path: "README.md", content: include_bytes!("../../../../wit/README.md") },
    Embedded { path: "deps/io/poll.wit", content: include_bytes!("../../../../wit/deps/io/poll.wit") },
    Embedded { path: "job.wit", content: include_bytes!("../../../../wit/job.wit") },
];
