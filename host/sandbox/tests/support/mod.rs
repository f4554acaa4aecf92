//! Guests written as core WebAssembly text and made components against the project's own contract, and a sandbox to run them.

// Every test file is a crate of its own that includes this one and uses a part of it.
#![allow(dead_code, unreachable_pub)]

pub mod bombs;
pub mod gate;
pub mod outward;
pub mod watch;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold_sandbox::{
    CompilerCommand, Effects, Ended, Execution, Failure, GuestEnd, Invocation, Limits, LogLevel, LogLine, LogSink,
    MonotonicClock, Plugin, RunFacts, Sandbox, SandboxSettings, read_plugin_file,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// A component of the world `job` whose handler executes `body` and then returns the output `done`.
///
/// `items` are further imports and functions. In `body` local 14 and 15 are the input's address and length, `$i` and `$j` are
/// free locals, and memory from 2048 to 65535 is free.
pub fn guest(items: &str, body: &str) -> Vec<u8> {
    component(&core_module(items, MEMORY, body), &contract(), "guest")
}

/// The memory that guests export; where a guest has more of them, this is the first.
pub const MEMORY: &str = r#"(memory (export "memory") 2)"#;

/// Any core module as a component of any world.
pub fn component(core: &[u8], resolve: &Resolve, world: &str) -> Vec<u8> {
    ComponentEncoder::default()
        .validate(true)
        .module(&typed(core, resolve, world))
        .expect("the module has a component type")
        .encode()
        .expect("the module fits its world")
}

/// A core module with the type of the component that it is to become.
pub fn typed(core: &[u8], resolve: &Resolve, world: &str) -> Vec<u8> {
    let packages: Vec<_> = resolve.packages.iter().map(|(id, _)| id).collect();
    let world = resolve
        .worlds
        .iter()
        .find(|(_, found)| found.name == world)
        .map(|(id, _)| id)
        .unwrap_or_else(|| panic!("no world {world} in {packages:?}"));
    let mut module = core.to_vec();
    embed_component_metadata(&mut module, resolve, world, StringEncoding::UTF8).expect("the world can be embedded");
    module
}

/// The project's own contract, and a world that has a little of WASI beside it.
pub fn contract() -> Resolve {
    let mut resolve = Resolve::default();
    resolve.push_str("wasi.wit", WASI).expect("the excerpt of WASI parses");
    let job = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/job.wit");
    resolve.push_path(job).expect("the contract parses");
    resolve.push_str("guest.wit", GUEST_WORLD).expect("the guests' world parses");
    resolve
}

/// The parts of WASI that guests in these tests call.
const WASI: &str = "
package test:wasi;
package wasi:io@0.2.12 {
  interface poll { resource pollable { block: func(); } poll: func(in: list<borrow<pollable>>) -> list<u32>; }
  interface error { resource error; }
  interface streams {
    use error.{error};
    variant stream-error { last-operation-failed(error), closed }
    resource input-stream { blocking-read: func(len: u64) -> result<list<u8>, stream-error>; }
    resource output-stream { blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>; }
  }
}
package wasi:clocks@0.2.12 {
  interface monotonic-clock {
    use wasi:io/poll@0.2.12.{pollable};
    now: func() -> u64;
    subscribe-instant: func(when: u64) -> pollable;
    subscribe-duration: func(when: u64) -> pollable;
  }
}
package wasi:random@0.2.12 { interface random { get-random-bytes: func(len: u64) -> list<u8>; } }
package wasi:cli@0.2.12 {
  interface stdin { use wasi:io/streams@0.2.12.{input-stream}; get-stdin: func() -> input-stream; }
  interface stdout { use wasi:io/streams@0.2.12.{output-stream}; get-stdout: func() -> output-stream; }
  interface stderr { use wasi:io/streams@0.2.12.{output-stream}; get-stderr: func() -> output-stream; }
  interface exit { exit: func(status: result); }
  interface environment {
    get-environment: func() -> list<tuple<string, string>>;
    get-arguments: func() -> list<string>;
  }
}";

const GUEST_WORLD: &str = "
package test:guests;
world guest {
  include leasehold:job/job@0.1.0;
  import wasi:clocks/monotonic-clock@0.2.12;
  import wasi:random/random@0.2.12;
  import wasi:cli/stdin@0.2.12;
  import wasi:cli/stdout@0.2.12;
  import wasi:cli/stderr@0.2.12;
  import wasi:cli/exit@0.2.12;
  import wasi:cli/environment@0.2.12;
}";

pub fn core_module(items: &str, memory: &str, body: &str) -> Vec<u8> {
    let text = core_text(items, memory, body);
    wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

pub fn core_text(items: &str, memory: &str, body: &str) -> String {
    format!(
        r#"(module
  {items}
  {memory}
  (global $next (mut i32) (i32.const 65536))
  (data (i32.const 1024) "done")
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
    (global.set $next (i32.add (local.get $at) (local.get 3)))
    (local.get $at))
  (func $ok (param $at i32) (param $len i32) (result i32)
    (i32.store8 (i32.const 16) (i32.const 0))
    (i32.store (i32.const 20) (local.get $at))
    (i32.store (i32.const 24) (local.get $len))
    (i32.const 16))
  (func $handle (export "leasehold:job/handler@0.1.0#handle")
    (param i32 i32 i32 i32 i32 i32 i64 i32 i32 i64 i32 i32 i32 i32 i32 i32) (result i32)
    (local $i i32) (local $j i32)
    {body}
    (call $ok (i32.const 1024) (i32.const 4))))"#
    )
}

/// Imports of the contract, for [`guest`].
pub const SHOULD_CONTINUE: &str =
    r#"(import "leasehold:job/control@0.1.0" "should-continue" (func $should_continue (result i32)))"#;
pub const SLEEP: &str = r#"(import "leasehold:job/control@0.1.0" "sleep" (func $sleep (param i64) (result i32)))"#;
pub const EMIT: &str = r#"(import "leasehold:job/log@0.1.0" "emit" (func $emit (param i32 i32 i32 i32 i32 i32 i32)))"#;
pub const UPDATE: &str =
    r#"(import "leasehold:job/progress@0.1.0" "update" (func $update (param i64 i32 i64 i32 i32)))"#;

pub const TIMER: &str = r#"
  (import "wasi:clocks/monotonic-clock@0.2.12" "subscribe-duration" (func $timer (param i64) (result i32)))
  (import "wasi:io/poll@0.2.12" "[method]pollable.block" (func $block (param i32)))"#;
pub const RANDOM: &str = r#"(import "wasi:random/random@0.2.12" "get-random-bytes" (func $random (param i64 i32)))"#;
pub const EXIT: &str = r#"(import "wasi:cli/exit@0.2.12" "exit" (func $exit (param i32)))"#;
pub const ENVIRONMENT: &str = r#"
  (import "wasi:cli/environment@0.2.12" "get-environment" (func $environment (param i32)))
  (import "wasi:cli/environment@0.2.12" "get-arguments" (func $arguments (param i32)))"#;
pub const STREAMS: &str = r#"
  (import "wasi:cli/stdout@0.2.12" "get-stdout" (func $stdout (result i32)))
  (import "wasi:cli/stderr@0.2.12" "get-stderr" (func $stderr (result i32)))
  (import "wasi:io/streams@0.2.12" "[method]output-stream.blocking-write-and-flush"
    (func $write (param i32 i32 i32 i32)))"#;

pub const SPIN: &str = "(loop $forever (br $forever))";

/// Keeps what a guest says.
#[derive(Default)]
pub struct Lines(Mutex<Vec<LogLine>>);

impl LogSink for Lines {
    fn line(&self, line: LogLine) {
        self.0.lock().expect("no test panics while it holds the lock").push(line);
    }
}

impl Lines {
    pub fn all(&self) -> Vec<LogLine> {
        self.0.lock().expect("no test panics while it holds the lock").clone()
    }
}

/// The tests' clock: the product gets it from the caller, so a test brings its own.
#[allow(clippy::disallowed_methods)]
pub fn clock() -> MonotonicClock {
    let origin = Instant::now();
    Arc::new(move || origin.elapsed())
}

pub fn settings() -> SandboxSettings {
    SandboxSettings { guest_threads: 2, max_guests: 64, ..SandboxSettings::new(compiler(), clock()) }
}

/// This crate's own: in the host it is the host itself.
pub fn compiler() -> CompilerCommand {
    CompilerCommand { program: env!("CARGO_BIN_EXE_leasehold-test-compiler").into(), args: Vec::new() }
}

pub fn sandbox() -> Sandbox {
    Sandbox::new(settings()).expect("a sandbox")
}

pub async fn load(sandbox: &Sandbox, bytes: Vec<u8>) -> Arc<Plugin> {
    sandbox.load_bytes("acme", bytes).await.expect("the guest loads")
}

pub fn invocation(limits: Limits) -> Invocation {
    Invocation {
        run: RunFacts {
            run_id: "ns/acme/report/1".to_owned(),
            tenant: "acme".to_owned(),
            job: "report".to_owned(),
            slot_ms: 1_790_000_000_000,
            attempt: 1,
            max_attempts: 3,
            fence: 7,
            reason: "schedule".to_owned(),
            metadata: vec![("content-type".to_owned(), "application/json".to_owned())],
        },
        input: b"{}".to_vec(),
        limits,
        tenant_memory: None,
        logs: Arc::new(Lines::default()),
        log_level: LogLevel::Info,
        idempotency_secret: [7; 32],
        effects: Effects::default(),
    }
}

/// Starts a guest with the default limits.
pub async fn start(sandbox: &Sandbox, bytes: Vec<u8>) -> Execution {
    start_with(sandbox, bytes, Limits::default()).await
}

pub async fn start_with(sandbox: &Sandbox, bytes: Vec<u8>, limits: Limits) -> Execution {
    let plugin = load(sandbox, bytes).await;
    sandbox.start(&plugin, invocation(limits))
}

/// Waits until a guest reports that it is there.
pub async fn is_there(execution: &Execution) {
    execution.progress().wait_for(Option::is_some).await.expect("the guest reports before it ends");
}

/// Runs a guest with a timeout that no test is meant to reach.
pub async fn run(bytes: Vec<u8>, limits: Limits) -> Ended {
    let sandbox = sandbox();
    start_with(&sandbox, bytes, limits).await.await
}

pub fn failure(ended: &Ended) -> &Failure {
    match &ended.end {
        GuestEnd::Failure(failure) => failure,
        other => panic!("expected a failure, got {other:?}"),
    }
}

pub fn output(ended: &Ended) -> &[u8] {
    match &ended.end {
        GuestEnd::Output(output) => output,
        other => panic!("expected an output, got {other:?}"),
    }
}

pub fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The smallest example's component, where it has been built.
pub fn hello() -> Option<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plugins/hello.wasm");
    if !path.exists() {
        eprintln!("skipped: {} is missing; scripts/build-plugins makes it", path.display());
        return None;
    }
    Some(read_plugin_file(&path).expect("the example can be read"))
}
