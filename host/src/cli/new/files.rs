//! The files that `leasehold new` puts into a project. Written by scripts/list-templates.

use super::project::Embedded;

pub(super) const TEMPLATE_RUST: &[Embedded] = &[
    Embedded { path: ".gitignore", content: include_bytes!("../../../../host/templates/rust/.gitignore") },
    Embedded { path: "Cargo.toml", content: include_bytes!("../../../../host/templates/rust/Cargo.toml") },
    Embedded { path: "Makefile", content: include_bytes!("../../../../host/templates/rust/Makefile") },
    Embedded { path: "README.md", content: include_bytes!("../../../../host/templates/rust/README.md") },
    Embedded { path: "plugin-name.toml", content: include_bytes!("../../../../host/templates/rust/plugin-name.toml") },
    Embedded { path: "src/lib.rs", content: include_bytes!("../../../../host/templates/rust/src/lib.rs") },
];

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
    Embedded {
        path: "test/tsconfig.json",
        content: include_bytes!("../../../../host/templates/ts/test/tsconfig.json"),
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
    Embedded { path: "pyproject.toml", content: include_bytes!("../../../../host/templates/python/pyproject.toml") },
    Embedded { path: "src/handler.py", content: include_bytes!("../../../../host/templates/python/src/handler.py") },
    Embedded { path: "test", content: include_bytes!("../../../../host/templates/python/test") },
    Embedded {
        path: "tests/test_handler.py",
        content: include_bytes!("../../../../host/templates/python/tests/test_handler.py"),
    },
];

pub(super) const TEMPLATE_GO: &[Embedded] = &[
    Embedded { path: ".gitignore", content: include_bytes!("../../../../host/templates/go/.gitignore") },
    Embedded { path: "Makefile", content: include_bytes!("../../../../host/templates/go/Makefile") },
    Embedded { path: "README.md", content: include_bytes!("../../../../host/templates/go/README.md") },
    Embedded { path: "go.mod", content: include_bytes!("../../../../host/templates/go/go.mod") },
    Embedded { path: "main.go", content: include_bytes!("../../../../host/templates/go/main.go") },
    Embedded { path: "main_test.go", content: include_bytes!("../../../../host/templates/go/main_test.go") },
    Embedded { path: "plugin-name.toml", content: include_bytes!("../../../../host/templates/go/plugin-name.toml") },
];

pub(super) const TEMPLATE_C: &[Embedded] = &[
    Embedded { path: ".gitignore", content: include_bytes!("../../../../host/templates/c/.gitignore") },
    Embedded { path: "Makefile", content: include_bytes!("../../../../host/templates/c/Makefile") },
    Embedded { path: "README.md", content: include_bytes!("../../../../host/templates/c/README.md") },
    Embedded { path: "plugin-name.c", content: include_bytes!("../../../../host/templates/c/plugin-name.c") },
    Embedded { path: "plugin-name.toml", content: include_bytes!("../../../../host/templates/c/plugin-name.toml") },
    Embedded { path: "plugin-name_test.c", content: include_bytes!("../../../../host/templates/c/plugin-name_test.c") },
];

pub(super) const SDK_RUST: &[Embedded] = &[
    Embedded { path: "Cargo.toml", content: include_bytes!("../../../../guest-sdk/rust/Cargo.toml") },
    Embedded { path: "README.md", content: include_bytes!("../../../../guest-sdk/rust/README.md") },
    Embedded { path: "src/error.rs", content: include_bytes!("../../../../guest-sdk/rust/src/error.rs") },
    Embedded { path: "src/host.rs", content: include_bytes!("../../../../guest-sdk/rust/src/host.rs") },
    Embedded { path: "src/host/native.rs", content: include_bytes!("../../../../guest-sdk/rust/src/host/native.rs") },
    Embedded {
        path: "src/host/native/limits.rs",
        content: include_bytes!("../../../../guest-sdk/rust/src/host/native/limits.rs"),
    },
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
    Embedded { path: "README.md", content: include_bytes!("../../../../guest-sdk/js/README.md") },
    Embedded { path: "build.mjs", content: include_bytes!("../../../../guest-sdk/js/build.mjs") },
    Embedded { path: "globals.d.ts", content: include_bytes!("../../../../guest-sdk/js/globals.d.ts") },
    Embedded { path: "guest/globals.js", content: include_bytes!("../../../../guest-sdk/js/guest/globals.js") },
    Embedded { path: "guest/host.js", content: include_bytes!("../../../../guest-sdk/js/guest/host.js") },
    Embedded { path: "guest/load.js", content: include_bytes!("../../../../guest-sdk/js/guest/load.js") },
    Embedded { path: "guest/promise.js", content: include_bytes!("../../../../guest-sdk/js/guest/promise.js") },
    Embedded { path: "guest/serve.js", content: include_bytes!("../../../../guest-sdk/js/guest/serve.js") },
    Embedded { path: "guest/text.js", content: include_bytes!("../../../../guest-sdk/js/guest/text.js") },
    Embedded { path: "index.d.ts", content: include_bytes!("../../../../guest-sdk/js/index.d.ts") },
    Embedded { path: "index.js", content: include_bytes!("../../../../guest-sdk/js/index.js") },
    Embedded { path: "lines.mjs", content: include_bytes!("../../../../guest-sdk/js/lines.mjs") },
    Embedded { path: "messages.mjs", content: include_bytes!("../../../../guest-sdk/js/messages.mjs") },
    Embedded { path: "package-lock.json", content: include_bytes!("../../../../guest-sdk/js/package-lock.json") },
    Embedded { path: "package.json", content: include_bytes!("../../../../guest-sdk/js/package.json") },
    Embedded { path: "src/console.js", content: include_bytes!("../../../../guest-sdk/js/src/console.js") },
    Embedded { path: "src/context.js", content: include_bytes!("../../../../guest-sdk/js/src/context.js") },
    Embedded { path: "src/data.js", content: include_bytes!("../../../../guest-sdk/js/src/data.js") },
    Embedded { path: "src/errors.js", content: include_bytes!("../../../../guest-sdk/js/src/errors.js") },
    Embedded { path: "src/fetch.js", content: include_bytes!("../../../../guest-sdk/js/src/fetch.js") },
    Embedded { path: "src/handler.js", content: include_bytes!("../../../../guest-sdk/js/src/handler.js") },
    Embedded { path: "src/host.js", content: include_bytes!("../../../../guest-sdk/js/src/host.js") },
    Embedded { path: "src/show.js", content: include_bytes!("../../../../guest-sdk/js/src/show.js") },
    Embedded { path: "src/stack.js", content: include_bytes!("../../../../guest-sdk/js/src/stack.js") },
    Embedded { path: "test.mjs", content: include_bytes!("../../../../guest-sdk/js/test.mjs") },
    Embedded { path: "test/build.test.js", content: include_bytes!("../../../../guest-sdk/js/test/build.test.js") },
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
    Embedded { path: "README.md", content: include_bytes!("../../../../guest-sdk/python/README.md") },
    Embedded { path: "build.py", content: include_bytes!("../../../../guest-sdk/python/build.py") },
    Embedded {
        path: "leasehold/__init__.py",
        content: include_bytes!("../../../../guest-sdk/python/leasehold/__init__.py"),
    },
    Embedded {
        path: "leasehold/_build.py",
        content: include_bytes!("../../../../guest-sdk/python/leasehold/_build.py"),
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
        path: "tests/test_build.py",
        content: include_bytes!("../../../../guest-sdk/python/tests/test_build.py"),
    },
    Embedded {
        path: "tests/test_context.py",
        content: include_bytes!("../../../../guest-sdk/python/tests/test_context.py"),
    },
    Embedded {
        path: "tests/test_handler.py",
        content: include_bytes!("../../../../guest-sdk/python/tests/test_handler.py"),
    },
];

pub(super) const SDK_GO: &[Embedded] = &[
    Embedded { path: ".gitignore", content: include_bytes!("../../../../guest-sdk/go/.gitignore") },
    Embedded { path: "README.md", content: include_bytes!("../../../../guest-sdk/go/README.md") },
    Embedded { path: "cmd/embed/calls.go", content: include_bytes!("../../../../guest-sdk/go/cmd/embed/calls.go") },
    Embedded {
        path: "cmd/embed/component-type.bin",
        content: include_bytes!("../../../../guest-sdk/go/cmd/embed/component-type.bin"),
    },
    Embedded { path: "cmd/embed/main.go", content: include_bytes!("../../../../guest-sdk/go/cmd/embed/main.go") },
    Embedded {
        path: "cmd/embed/main_test.go",
        content: include_bytes!("../../../../guest-sdk/go/cmd/embed/main_test.go"),
    },
    Embedded { path: "errors.go", content: include_bytes!("../../../../guest-sdk/go/errors.go") },
    Embedded { path: "export_native.go", content: include_bytes!("../../../../guest-sdk/go/export_native.go") },
    Embedded { path: "export_wasm.go", content: include_bytes!("../../../../guest-sdk/go/export_wasm.go") },
    Embedded { path: "failed_test.go", content: include_bytes!("../../../../guest-sdk/go/failed_test.go") },
    Embedded { path: "go.mod", content: include_bytes!("../../../../guest-sdk/go/go.mod") },
    Embedded { path: "http.go", content: include_bytes!("../../../../guest-sdk/go/http.go") },
    Embedded { path: "httpclient/client.go", content: include_bytes!("../../../../guest-sdk/go/httpclient/client.go") },
    Embedded {
        path: "internal/bindings/exports/export_leasehold_job_handler/handler.go",
        content: include_bytes!(
            "../../../../guest-sdk/go/internal/bindings/exports/export_leasehold_job_handler/handler.go"
        ),
    },
    Embedded {
        path: "internal/bindings/exports/wit_exports/wit_exports.go",
        content: include_bytes!("../../../../guest-sdk/go/internal/bindings/exports/wit_exports/wit_exports.go"),
    },
    Embedded {
        path: "internal/bindings/imports/leasehold_job_config/empty.s",
        content: include_bytes!("../../../../guest-sdk/go/internal/bindings/imports/leasehold_job_config/empty.s"),
    },
    Embedded {
        path: "internal/bindings/imports/leasehold_job_config/wit_bindings.go",
        content: include_bytes!(
            "../../../../guest-sdk/go/internal/bindings/imports/leasehold_job_config/wit_bindings.go"
        ),
    },
    Embedded {
        path: "internal/bindings/imports/leasehold_job_control/empty.s",
        content: include_bytes!("../../../../guest-sdk/go/internal/bindings/imports/leasehold_job_control/empty.s"),
    },
    Embedded {
        path: "internal/bindings/imports/leasehold_job_control/wit_bindings.go",
        content: include_bytes!(
            "../../../../guest-sdk/go/internal/bindings/imports/leasehold_job_control/wit_bindings.go"
        ),
    },
    Embedded {
        path: "internal/bindings/imports/leasehold_job_handler/empty.s",
        content: include_bytes!("../../../../guest-sdk/go/internal/bindings/imports/leasehold_job_handler/empty.s"),
    },
    Embedded {
        path: "internal/bindings/imports/leasehold_job_handler/wit_bindings.go",
        content: include_bytes!(
            "../../../../guest-sdk/go/internal/bindings/imports/leasehold_job_handler/wit_bindings.go"
        ),
    },
    Embedded {
        path: "internal/bindings/imports/leasehold_job_http/empty.s",
        content: include_bytes!("../../../../guest-sdk/go/internal/bindings/imports/leasehold_job_http/empty.s"),
    },
    Embedded {
        path: "internal/bindings/imports/leasehold_job_http/wit_bindings.go",
        content: include_bytes!(
            "../../../../guest-sdk/go/internal/bindings/imports/leasehold_job_http/wit_bindings.go"
        ),
    },
    Embedded {
        path: "internal/bindings/imports/leasehold_job_kv/empty.s",
        content: include_bytes!("../../../../guest-sdk/go/internal/bindings/imports/leasehold_job_kv/empty.s"),
    },
    Embedded {
        path: "internal/bindings/imports/leasehold_job_kv/wit_bindings.go",
        content: include_bytes!("../../../../guest-sdk/go/internal/bindings/imports/leasehold_job_kv/wit_bindings.go"),
    },
    Embedded {
        path: "internal/bindings/imports/leasehold_job_log/empty.s",
        content: include_bytes!("../../../../guest-sdk/go/internal/bindings/imports/leasehold_job_log/empty.s"),
    },
    Embedded {
        path: "internal/bindings/imports/leasehold_job_log/wit_bindings.go",
        content: include_bytes!("../../../../guest-sdk/go/internal/bindings/imports/leasehold_job_log/wit_bindings.go"),
    },
    Embedded {
        path: "internal/bindings/imports/leasehold_job_progress/empty.s",
        content: include_bytes!("../../../../guest-sdk/go/internal/bindings/imports/leasehold_job_progress/empty.s"),
    },
    Embedded {
        path: "internal/bindings/imports/leasehold_job_progress/wit_bindings.go",
        content: include_bytes!(
            "../../../../guest-sdk/go/internal/bindings/imports/leasehold_job_progress/wit_bindings.go"
        ),
    },
    Embedded {
        path: "internal/bindings/imports/leasehold_job_state/empty.s",
        content: include_bytes!("../../../../guest-sdk/go/internal/bindings/imports/leasehold_job_state/empty.s"),
    },
    Embedded {
        path: "internal/bindings/imports/leasehold_job_state/wit_bindings.go",
        content: include_bytes!(
            "../../../../guest-sdk/go/internal/bindings/imports/leasehold_job_state/wit_bindings.go"
        ),
    },
    Embedded {
        path: "internal/bindings/imports/leasehold_job_types/empty.s",
        content: include_bytes!("../../../../guest-sdk/go/internal/bindings/imports/leasehold_job_types/empty.s"),
    },
    Embedded {
        path: "internal/bindings/imports/leasehold_job_types/wit_bindings.go",
        content: include_bytes!(
            "../../../../guest-sdk/go/internal/bindings/imports/leasehold_job_types/wit_bindings.go"
        ),
    },
    Embedded {
        path: "internal/guest/guest.go",
        content: include_bytes!("../../../../guest-sdk/go/internal/guest/guest.go"),
    },
    Embedded {
        path: "internal/host/host.go",
        content: include_bytes!("../../../../guest-sdk/go/internal/host/host.go"),
    },
    Embedded { path: "leasehold.go", content: include_bytes!("../../../../guest-sdk/go/leasehold.go") },
    Embedded { path: "leasehold.mk", content: include_bytes!("../../../../guest-sdk/go/leasehold.mk") },
    Embedded { path: "leasehold_test.go", content: include_bytes!("../../../../guest-sdk/go/leasehold_test.go") },
    Embedded {
        path: "leaseholdtest/host.go",
        content: include_bytes!("../../../../guest-sdk/go/leaseholdtest/host.go"),
    },
    Embedded {
        path: "leaseholdtest/limits.go",
        content: include_bytes!("../../../../guest-sdk/go/leaseholdtest/limits.go"),
    },
    Embedded {
        path: "leaseholdtest/limits_test.go",
        content: include_bytes!("../../../../guest-sdk/go/leaseholdtest/limits_test.go"),
    },
    Embedded { path: "log.go", content: include_bytes!("../../../../guest-sdk/go/log.go") },
    Embedded { path: "panic.go", content: include_bytes!("../../../../guest-sdk/go/panic.go") },
    Embedded { path: "run.go", content: include_bytes!("../../../../guest-sdk/go/run.go") },
    Embedded { path: "storage.go", content: include_bytes!("../../../../guest-sdk/go/storage.go") },
    Embedded {
        path: "wit-bindgen/Cargo.lock",
        content: include_bytes!("../../../../guest-sdk/go/wit-bindgen/Cargo.lock"),
    },
    Embedded {
        path: "wit-bindgen/Cargo.toml",
        content: include_bytes!("../../../../guest-sdk/go/wit-bindgen/Cargo.toml"),
    },
    Embedded { path: "wit-bindgen/lib.rs", content: include_bytes!("../../../../guest-sdk/go/wit-bindgen/lib.rs") },
];

pub(super) const SDK_C: &[Embedded] = &[
    Embedded { path: ".gitignore", content: include_bytes!("../../../../guest-sdk/c/.gitignore") },
    Embedded { path: "Makefile", content: include_bytes!("../../../../guest-sdk/c/Makefile") },
    Embedded { path: "README.md", content: include_bytes!("../../../../guest-sdk/c/README.md") },
    Embedded { path: "bindings/job.c", content: include_bytes!("../../../../guest-sdk/c/bindings/job.c") },
    Embedded { path: "bindings/job.h", content: include_bytes!("../../../../guest-sdk/c/bindings/job.h") },
    Embedded {
        path: "bindings/job_component_type.o",
        content: include_bytes!("../../../../guest-sdk/c/bindings/job_component_type.o"),
    },
    Embedded { path: "bytes.c", content: include_bytes!("../../../../guest-sdk/c/bytes.c") },
    Embedded { path: "leasehold.c", content: include_bytes!("../../../../guest-sdk/c/leasehold.c") },
    Embedded { path: "leasehold.h", content: include_bytes!("../../../../guest-sdk/c/leasehold.h") },
    Embedded { path: "leasehold.mk", content: include_bytes!("../../../../guest-sdk/c/leasehold.mk") },
    Embedded { path: "testing.c", content: include_bytes!("../../../../guest-sdk/c/testing.c") },
    Embedded { path: "testing.h", content: include_bytes!("../../../../guest-sdk/c/testing.h") },
    Embedded { path: "tests/test.c", content: include_bytes!("../../../../guest-sdk/c/tests/test.c") },
];

pub(super) const WIT: &[Embedded] = &[
    Embedded { path: "README.md", content: include_bytes!("../../../../wit/README.md") },
    Embedded { path: "deps/io/poll.wit", content: include_bytes!("../../../../wit/deps/io/poll.wit") },
    Embedded { path: "job.wit", content: include_bytes!("../../../../wit/job.wit") },
];
