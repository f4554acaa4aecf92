//! A sandbox for tests, and guests to run in it.

// Every test file is a crate of its own that includes this one and uses a part of it.
#![allow(dead_code, unreachable_pub)]

pub mod bombs;
pub mod gate;
pub mod guests;
pub mod outward;
pub mod watch;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold_sandbox::{
    CompilerCommand, Effects, Ended, Execution, Failure, GuestEnd, Invocation, Limits, LogLevel, LogLine, LogSink,
    MonotonicClock, Plugin, RunFacts, Sandbox, SandboxSettings, read_plugin_file,
};

pub use self::guests::*;

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
