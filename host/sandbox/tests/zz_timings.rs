#![allow(clippy::disallowed_methods)]
mod support;
use leasehold_sandbox::*;
use std::time::Instant;
use support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn timings() {
    let bytes = read_plugin_file(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plugins/hello.wasm").as_path(),
    )
    .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let settings = SandboxSettings { cache_dir: Some(dir.path().join("code")), ..settings() };
    let t = Instant::now();
    let sandbox = Sandbox::new(settings).unwrap();
    eprintln!("sandbox new {:?} {:?}", t.elapsed(), sandbox.allocation());
    let plugin = load(&sandbox, bytes.clone()).await;
    eprintln!("hello {} bytes compiled {:?}", bytes.len(), plugin.ready_in());
    let mut v = vec![];
    for _ in 0..20 {
        v.push(load(&sandbox, bytes.clone()).await.ready_in());
    }
    v.sort();
    eprintln!("cached p50 {:?} max {:?}", v[10], v[19]);
    let mut walls = vec![];
    let mut cpus = vec![];
    for _ in 0..3000 {
        let mut inv = invocation(Limits::default());
        inv.input = br#"{"name":"Ada"}"#.to_vec();
        let t = Instant::now();
        let ended = sandbox.start(&plugin, inv).await;
        walls.push(t.elapsed());
        cpus.push(ended.usage.cpu);
        assert!(matches!(ended.end, GuestEnd::Output(_)));
    }
    walls.sort();
    cpus.sort();
    eprintln!(
        "hello run: wall p50 {:?} p99 {:?}; guest cpu (store+instantiate+call) p50 {:?} p99 {:?}",
        walls[1500], walls[2970], cpus[1500], cpus[2970]
    );
    let tiny = load(&sandbox, guest("", "")).await;
    let mut walls = vec![];
    let mut cpus = vec![];
    for _ in 0..3000 {
        let t = Instant::now();
        let ended = sandbox.start(&tiny, invocation(Limits::default())).await;
        walls.push(t.elapsed());
        cpus.push(ended.usage.cpu);
    }
    walls.sort();
    cpus.sort();
    eprintln!("tiny run: wall p50 {:?} p99 {:?}; cpu p50 {:?}", walls[1500], walls[2970], cpus[1500]);
    for (name, g) in [
        ("poll", guest(SHOULD_CONTINUE, "(loop $again (br_if $again (call $should_continue)))")),
        ("spin", guest("", SPIN)),
        ("blocked", guest(TIMER, "(call $block (call $timer (i64.const 3600000000000)))")),
    ] {
        let plugin = load(&sandbox, g).await;
        let mut v = vec![];
        for _ in 0..60 {
            let e = sandbox.start(&plugin, invocation(Limits::default()));
            tokio::time::sleep(std::time::Duration::from_millis(15)).await;
            let t = Instant::now();
            e.signal().stop(StopReason::Stopping);
            if name != "poll" {
                e.signal().force();
            }
            e.await;
            v.push(t.elapsed());
        }
        v.sort();
        eprintln!("{name}: stop p50 {:?} p95 {:?} max {:?}", v[30], v[57], v[59]);
    }
}
