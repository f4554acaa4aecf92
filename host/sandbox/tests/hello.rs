//! A plugin as people write them: the smallest example, built from the Rust SDK.

mod support;

use std::sync::Arc;

use leasehold_sandbox::{CodeOrigin, GuestEnd, Limits, LogLevel, LogSource, SandboxSettings};
use support::*;

#[tokio::test]
async fn the_example_greets_and_says_so() {
    let Some(bytes) = hello() else { return };
    let sandbox = sandbox();
    let plugin = load(&sandbox, bytes).await;
    let lines = Arc::new(Lines::default());
    let mut invocation = invocation(Limits::default());
    invocation.input = br#"{"name":"Ada"}"#.to_vec();
    invocation.logs = lines.clone();
    let ended = sandbox.start(&plugin, invocation).await;
    assert_eq!(String::from_utf8_lossy(output(&ended)), r#"{"text":"Hello, Ada!"}"#);
    let lines = lines.all();
    let [line] = lines.as_slice() else { panic!("one line, got {lines:?}") };
    assert_eq!((line.level, line.source, line.message.as_str()), (LogLevel::Info, LogSource::Guest, "greeting Ada"));
}

#[tokio::test]
async fn input_the_example_does_not_understand_is_its_error_and_not_a_failure() {
    let Some(bytes) = hello() else { return };
    let sandbox = sandbox();
    let plugin = load(&sandbox, bytes).await;
    let mut invocation = invocation(Limits::default());
    invocation.input = b"not JSON".to_vec();
    let ended = sandbox.start(&plugin, invocation).await;
    assert!(matches!(ended.end, GuestEnd::Error(_)), "{:?}", ended.end);
}

#[tokio::test]
async fn the_example_s_code_is_cached() {
    let Some(bytes) = hello() else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let settings = SandboxSettings { cache_dir: Some(dir.path().join("code")), ..settings() };
    let sandbox = leasehold_sandbox::Sandbox::new(settings).expect("a sandbox");
    let compiled = load(&sandbox, bytes.clone()).await;
    let cached = load(&sandbox, bytes).await;
    assert_eq!((compiled.origin(), cached.origin()), (CodeOrigin::Compiled, CodeOrigin::Cache));
    assert_eq!(compiled.digest(), cached.digest());
    eprintln!("compiled in {:?}, found in {:?}", compiled.ready_in(), cached.ready_in());
}
