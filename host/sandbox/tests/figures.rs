//! Figures of loading, to be looked at: `cargo nextest run --run-ignored only -E 'binary(figures)' --no-capture`.

mod support;

use std::time::Duration;

use leasehold_sandbox::{Sandbox, SandboxSettings};
use support::bombs::much_code;
use support::*;

#[tokio::test]
#[ignore = "it prints figures and judges nothing"]
async fn what_loading_costs() {
    let dir = tempfile::tempdir().expect("a directory");
    let new =
        || Sandbox::new(SandboxSettings { cache_dir: Some(dir.path().join("code")), ..settings() }).expect("a sandbox");
    let sandbox = new();
    // A compiler that refuses at once: what is left is the process.
    let mut times = Vec::new();
    for n in 0..20_u32 {
        let modules = format!("(component {} (core module (func (drop (i32.const {n})))))", "(core module)".repeat(33));
        let bytes = wat::parse_str(modules).expect("it parses");
        let took = clock();
        sandbox.load_bytes("acme", bytes).await.expect_err("too many modules");
        times.push(took());
    }
    tell("a compiler's process that refuses at once", &mut times);
    let times_of = async |n: u32| load(&sandbox, guest("", &format!("(drop (i32.const {n}))"))).await.ready_in();
    let mut times = Vec::new();
    for n in 0..20 {
        times.push(times_of(n).await);
    }
    tell("the smallest guest, compiled", &mut times);
    let large = guest(&much_code(1_000, 2_000), "");
    for (what, bytes) in [("the smallest guest", guest("", "")), ("a large guest", large)] {
        let compiled = load(&sandbox, bytes.clone()).await;
        let code = std::fs::read_dir(dir.path().join("code")).expect("it is there");
        let largest = code.filter_map(|entry| entry.ok()?.metadata().ok()).map(|found| found.len()).max().unwrap_or(0);
        eprintln!("{what}: {} bytes, compiled in {:?}; largest code {largest} bytes", bytes.len(), compiled.ready_in());
        let mut times = Vec::new();
        for _ in 0..20 {
            times.push(load(&new(), bytes.clone()).await.ready_in());
        }
        tell(&format!("{what}, found compiled"), &mut times);
    }
}

fn tell(what: &str, times: &mut [Duration]) {
    times.sort();
    eprintln!("{what}: median {:?}, most {:?}", times[times.len() / 2], times[times.len() - 1]);
}
