//! The ways to be a plugin beside a component with a handler: core modules with an embedded component type, and WASI commands.

mod support;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use leasehold_sandbox::{
    CodeOrigin, Ended, FailureKind, FileKind, Invocation, Limits, LogLevel, LogLine, LogSource, NoComponent,
    PluginError, Refusal, SandboxSettings, StopReason, Toolchain, inspect,
};
use support::*;
use wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER as COMMAND_ADAPTER;
use wit_component::ComponentEncoder;
use wit_parser::Resolve;

/// A WASI 0.1 command. `$say` writes bytes to a descriptor, `$hear` reads some of standard input to 1024 and tells how many.
fn command(body: &str) -> Vec<u8> {
    let text = format!(
        r#"(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $environ (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 4)
  (data (i32.const 512) "gr\c3\bc\c3\9fe\n")
  (func $say (param $fd i32) (param $at i32) (param $len i32)
    (i32.store (i32.const 16) (local.get $at))
    (i32.store (i32.const 20) (local.get $len))
    (if (call $write (local.get $fd) (i32.const 16) (i32.const 1) (i32.const 24)) (then unreachable)))
  (func $hear (result i32)
    (i32.store (i32.const 0) (i32.const 1024))
    (i32.store (i32.const 4) (i32.const 65536))
    (if (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)) (then unreachable))
    (i32.load (i32.const 8)))
  (func (export "_start") (local $heard i32) {body}))"#
    );
    wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Writes all that it reads.
const ECHO: &str = "(loop $more
    (local.set $heard (call $hear))
    (call $say (i32.const 1) (i32.const 1024) (local.get $heard))
    (br_if $more (local.get $heard)))";

async fn run_with(bytes: Vec<u8>, invocation: Invocation) -> (Ended, Vec<LogLine>) {
    let lines = Arc::new(Lines::default());
    let sandbox = sandbox();
    let plugin = load(&sandbox, bytes).await;
    let ended = sandbox.start(&plugin, Invocation { logs: lines.clone(), ..invocation }).await;
    (ended, lines.all())
}

#[tokio::test]
async fn a_command_s_payload_is_its_standard_input_and_its_standard_output_the_output() {
    for size in [0, 1, 100_000, 1 << 20] {
        let input: Vec<u8> = (0..size).map(|n: u32| (n % 251) as u8).collect();
        let invocation = Invocation { input: input.clone(), ..invocation(Limits::default()) };
        let (ended, lines) = run_with(command(ECHO), invocation).await;
        assert_eq!(output(&ended), input, "{size} bytes");
        assert!(lines.is_empty(), "{lines:?}");
    }
}

#[tokio::test]
async fn a_command_knows_its_run_by_variables_and_its_job_by_the_program_s_name() {
    let body = "
      (drop (call $environ_sizes (i32.const 32) (i32.const 36)))
      (drop (call $environ (i32.const 2048) (i32.const 4096)))
      (call $say (i32.const 1) (i32.const 4096) (i32.load (i32.const 36)))
      (drop (call $args_sizes (i32.const 32) (i32.const 36)))
      (drop (call $args (i32.const 2048) (i32.const 4096)))
      (call $say (i32.const 1) (i32.const 4096) (i32.load (i32.const 36)))";
    let (ended, _) = run_with(command(body), invocation(Limits::default())).await;
    let told = String::from_utf8(output(&ended).to_vec()).expect("text");
    let told: Vec<_> = told.trim_end_matches('\0').split('\0').collect();
    let expected = [
        "LEASEHOLD_RUN_ID=ns/acme/report/1",
        "LEASEHOLD_TENANT=acme",
        "LEASEHOLD_JOB=report",
        "LEASEHOLD_SLOT_MS=1790000000000",
        "LEASEHOLD_ATTEMPT=1",
        "LEASEHOLD_MAX_ATTEMPTS=3",
        "LEASEHOLD_FENCE=7",
        "LEASEHOLD_REASON=schedule",
        "LEASEHOLD_META_CONTENT_TYPE=application/json",
        "report",
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_command_s_standard_error_is_its_log() {
    let (ended, lines) =
        run_with(command("(call $say (i32.const 2) (i32.const 512) (i32.const 8))"), invocation(Limits::default()))
            .await;
    assert_eq!(output(&ended), b"");
    let [line] = lines.as_slice() else { panic!("one line, got {lines:?}") };
    assert_eq!((line.message.as_str(), line.source, line.level), ("grüße", LogSource::Stderr, LogLevel::Info));
}

#[tokio::test]
async fn a_command_succeeds_by_exit_code_zero_only() {
    let exits = |code: i32| {
        command(&format!(
            "(call $say (i32.const 1) (i32.const 512) (i32.const 8)) (call $say (i32.const 2) (i32.const 512) (i32.const 8))
             (call $exit (i32.const {code}))"
        ))
    };
    let (ended, _) = run_with(exits(0), invocation(Limits::default())).await;
    assert_eq!(output(&ended), "grüße\n".as_bytes());
    for code in [1, 3] {
        let (ended, _) = run_with(exits(code), invocation(Limits::default())).await;
        let failure = failure(&ended);
        assert_eq!((failure.kind, failure.stderr.as_str()), (FailureKind::Exit, "grüße"));
        assert!(failure.message.contains("exit code"), "{failure}");
    }
    let (ended, _) = run_with(command("unreachable"), invocation(Limits::default())).await;
    assert_eq!(failure(&ended).kind, FailureKind::Trap);
}

#[tokio::test]
async fn a_command_that_writes_more_than_its_output_may_have_ends_there() {
    let limits = Limits { output: 10_000, ..Limits::default() };
    let flood = command("(loop $on (call $say (i32.const 1) (i32.const 1024) (i32.const 60000)) (br $on))");
    let (ended, _) = run_with(flood, invocation(limits)).await;
    let failure = failure(&ended);
    assert_eq!(failure.kind, FailureKind::OutputTooLarge);
    assert!(failure.message.contains("10000 bytes"), "{failure}");
}

#[tokio::test]
async fn a_command_that_cannot_see_the_signal_is_ended_by_force() {
    let sandbox = sandbox();
    let plugin = load(&sandbox, command(SPIN)).await;
    assert!(plugin.is_command());
    let execution = sandbox.start(&plugin, invocation(Limits::default()));
    let signal = execution.signal();
    signal.stop(StopReason::Stopping);
    signal.force();
    let ended = execution.await;
    assert_eq!((failure(&ended).kind, ended.stop), (FailureKind::Interrupted, Some(StopReason::Stopping)));
}

#[tokio::test]
async fn a_command_may_come_as_a_component_and_is_one_when_it_is_found_compiled() {
    let component = ComponentEncoder::default()
        .module(&command(ECHO))
        .and_then(|encoder| encoder.adapter("wasi_snapshot_preview1", COMMAND_ADAPTER))
        .and_then(|mut encoder| encoder.encode())
        .expect("a component");
    let dir = tempfile::tempdir().expect("a directory");
    for (bytes, kind) in [(component, FileKind::Component), (command(ECHO), FileKind::CoreModule)] {
        let found = inspect(&bytes);
        assert_eq!((found.kind, found.verdict), (kind, Ok(())));
        for origin in [CodeOrigin::Compiled, CodeOrigin::Cache] {
            let settings = SandboxSettings { cache_dir: Some(dir.path().join("code")), ..settings() };
            let sandbox = leasehold_sandbox::Sandbox::new(settings).expect("a sandbox");
            let plugin = load(&sandbox, bytes.clone()).await;
            assert_eq!(plugin.origin(), origin);
            assert!(plugin.is_command() && plugin.exports().iter().any(|name| name.starts_with("wasi:cli/run@0.2.")));
            assert_eq!(output(&sandbox.start(&plugin, invocation(Limits::default())).await), b"{}");
        }
    }
}

#[tokio::test]
async fn a_core_module_with_an_embedded_type_is_made_a_component() {
    let bytes = typed(&core_module(SHOULD_CONTINUE, MEMORY, ""), &contract(), "guest");
    assert_eq!((inspect(&bytes).kind, inspect(&bytes).verdict), (FileKind::CoreModule, Ok(())));
    let sandbox = sandbox();
    let plugin = load(&sandbox, bytes).await;
    assert!(!plugin.is_command());
    assert!(plugin.imports().contains(&"leasehold:job/control@0.1.0".to_owned()), "{:?}", plugin.imports());
    assert_eq!(output(&sandbox.start(&plugin, invocation(Limits::default())).await), b"done");
}

#[tokio::test]
async fn what_it_imports_of_wasi_0_1_is_adapted() {
    let write = r#"(import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))"#;
    let body = "(i32.store (i32.const 2048) (i32.const 1024)) (i32.store (i32.const 2052) (i32.const 4))
      (drop (call $write (i32.const 2) (i32.const 2048) (i32.const 1) (i32.const 2056)))";
    // That of the adapter's own WASI, which has more than the excerpt that other tests use.
    // The adapter takes room for itself from the module's own allocator.
    let memory = r#"(memory (export "memory") 8)"#;
    let bytes = typed(&core_module(write, memory, body), &contract(), "job");
    let (ended, lines) = run_with(bytes, invocation(Limits::default())).await;
    assert_eq!(output(&ended), b"done");
    let [line] = lines.as_slice() else { panic!("one line, got {lines:?}") };
    assert_eq!((line.message.as_str(), line.source, line.level), ("done", LogSource::Stderr, LogLevel::Warn));
}

async fn refusal(bytes: &[u8]) -> Refusal {
    match sandbox().load_bytes("acme", bytes.to_vec()).await {
        Err(PluginError::Refused(refusal)) => refusal,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[tokio::test]
async fn an_embedded_type_that_the_module_does_not_keep_is_refused_and_says_what_is_missing() {
    let bytes = typed(&wat::parse_str("(module)").expect("a module"), &contract(), "job");
    let refused = refusal(&bytes).await;
    assert!(matches!(&refused, Refusal::Componentize { detail, .. } if detail.contains("handle")), "{refused}");
}

#[tokio::test]
async fn an_embedded_type_that_goes_in_a_circle_is_refused_and_overflows_no_stack() {
    // The handler is of another package than its world, whose types it uses.
    let mut bytes = typed(&core_module("", MEMORY, ""), &contract(), "job");
    let name = b"leasehold:job/handler@0.1.0";
    let last = bytes.windows(name.len()).rposition(|found| found == name).expect("the type names the handler");
    bytes[last..][..name.len()].copy_from_slice(b"leasehold:jab/handler@0.1.0");
    let refused = refusal(&bytes).await;
    assert!(matches!(&refused, Refusal::Componentize { detail, .. } if detail.contains("in a circle")), "{refused}");
}

#[tokio::test]
async fn an_embedded_type_of_another_version_is_refused_by_its_version() {
    let contract =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/job.wit")).expect("the contract");
    let mut resolve = Resolve::default();
    resolve.push_str("io.wit", "package wasi:io@0.2.12; interface poll { resource pollable; }").expect("it parses");
    resolve.push_str("job.wit", &contract.replace("job@0.1.0;", "job@0.2.0;")).expect("it parses");
    let text = core_text("", MEMORY, "").replace("@0.1.0", "@0.2.0");
    let bytes = typed(&wat::parse_str(text).expect("it parses"), &resolve, "job");
    assert_eq!(refusal(&bytes).await, Refusal::WrongVersion { found: "leasehold:job/handler@0.2.0".to_owned() });
}

/// Core modules as toolchains make them for somebody else, and what their users are told.
#[tokio::test]
async fn what_cannot_be_a_plugin_is_told_so_in_the_words_of_its_toolchain() {
    let memory = r#"(memory (export "memory") 1)"#;
    let start = r#"(func (export "_start"))"#;
    let import = |module: &str, name: &str| format!(r#"(import "{module}" "{name}" (func))"#);
    let cases = [
        (import("wbg", "__wbg_log_1d99"), Toolchain::WasmBindgen, "cargo build --release --target wasm32-wasip2"),
        (import("env", "emscripten_resize_heap") + start, Toolchain::Emscripten, "-sSTANDALONE_WASM"),
        (import("env", "abort") + r#"(func (export "add"))"#, Toolchain::AssemblyScript, "wasi-shim"),
        (import("gojs", "runtime.ticks") + r#"(func (export "go_scheduler"))"#, Toolchain::TinyGo, "-target=wasip1"),
        (import("gojs", "runtime.wasmWrite") + r#"(func (export "run"))"#, Toolchain::GoJs, "leasehold new --lang go"),
        (r#"(func (export "leasehold:job/handler@0.1.0#handle"))"#.to_owned(), Toolchain::WitBindgen, "wasm-strip"),
    ];
    for (items, maker, advice) in cases {
        // Imports stand first.
        let text = format!("(module {items} {memory})");
        let bytes = wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let refused = refusal(&bytes).await;
        assert_eq!(inspect(&bytes).verdict, Err(refused.clone()));
        assert!(matches!(&refused, Refusal::CoreModule { toolchain: Some(told), .. } if *told == maker), "{refused:?}");
        let told = refused.to_string();
        assert!(told.contains(advice) && told.contains(maker.as_str().split(' ').next().unwrap_or_default()), "{told}");
    }
}

#[tokio::test]
async fn a_core_module_of_nobody_s_is_told_what_it_lacks() {
    let parse = |text: &str| wat::parse_str(text).expect("it parses");
    let add = refusal(&parse(r#"(module (func (export "add")))"#)).await;
    let why = NoComponent::NoWayIn { exports: vec!["add".to_owned()] };
    assert_eq!(add, Refusal::CoreModule { why, toolchain: None });
    assert!(add.to_string().contains("it exports add; build a component"), "{add}");

    let foreign = refusal(&parse(r#"(module (import "env" "host_log" (func)) (func (export "_start")))"#)).await;
    let why = NoComponent::ForeignImports { names: vec!["env.host_log".to_owned()] };
    assert_eq!(foreign, Refusal::CoreModule { why, toolchain: None });
    assert_eq!(foreign.word(), "core-module");
}

#[tokio::test]
async fn a_producers_section_tells_who_made_a_module() {
    let mut module = wat::parse_str(r#"(module (func (export "add")))"#).expect("it parses");
    let mut section = vec![0, 0, 9];
    section.extend(b"producers");
    section.extend([1, 12]);
    section.extend(b"processed-by");
    section.extend([1, 6]);
    section.extend(b"TinyGo");
    section.extend([6]);
    section.extend(b"0.39.0");
    section[1] = (section.len() - 2) as u8;
    module.extend(section);
    assert!(matches!(refusal(&module).await, Refusal::CoreModule { toolchain: Some(Toolchain::TinyGo), .. }));
}
