//! A plugin that is made to cost its compiler everything costs a host, its heartbeats and other tenants nothing.

#[path = "../../host/sandbox/tests/support/bombs.rs"]
mod bombs;

use std::fs;
use std::path::Path;

use leasehold_tests::{HostProcess, SHORT_LEASE, Workplace, until};
use serde_json::Value;

const HELLO: &str = "[[jobs]]\nname = \"hello\"\nevery = \"1s\"\npayload = { name = \"world\" }\n";

/// A workplace with a job of tenant `default` every second, where a compiler has so much processor time.
fn workplace(compile_cpu: &str) -> Workplace {
    let w = Workplace::new(&format!("[host]\ncompile_cpu = \"{compile_cpu}\"\n{SHORT_LEASE}"));
    w.install("hello", "hello.wasm");
    w.write("plugins/hello.toml", HELLO);
    w
}

fn bomb(w: &Workplace) -> Vec<u8> {
    bombs::with_nested_loops(&w.plugin("hello"), 5_000, 1_900)
}

/// Waits until the host has a compiler, and answers with its process.
fn compiler(host: &HostProcess) -> u32 {
    until("compiled by a child", || host.children().first().copied(), Option::is_some).expect("it is there")
}

fn successes(host: &mut HostProcess, job: &str) -> usize {
    host.events().iter().filter(|event| event["event"] == "success" && event["job"] == job).count()
}

#[test]
fn while_a_bomb_compiles_heartbeats_and_other_tenants_go_on_and_the_host_does_not_grow() {
    let w = workplace("3s");
    let mut host = w.serve();
    host.wait_for("success", "default/hello");
    host.reset_peak_memory();
    let (before, _) = host.memory();
    w.drop_in("evil/bomb.wasm", &bomb(&w));
    compiler(&host);
    let at_start = successes(&mut host, "default/hello");
    // Another tenant comes while it compiles.
    w.install("hello", "acme/hello.wasm");
    w.write("plugins/acme/hello.toml", HELLO);
    host.wait_for_log("compile-cpu: compiling the component takes more than 3s of processor time");
    let meanwhile = successes(&mut host, "default/hello") - at_start;
    assert!(meanwhile >= 2, "{meanwhile} runs ended while the bomb was compiled");
    host.wait_for("success", "acme/hello");
    let (_, peak) = host.memory();
    let growth = peak.saturating_sub(before) >> 20;
    assert!(growth < 64, "the host has grown by {growth} MiB");
    let missed = |event: &&Value| matches!(event["event"].as_str(), Some("uncertain" | "lost" | "takeover"));
    assert_eq!(host.events().iter().filter(missed).count(), 0);
    // What was refused is not tried again: nobody compiles any more, though the file lies there.
    w.write("plugins/evil/bomb.toml", "[[jobs]]\nname = \"bomb\"\nevery = \"10s\"\n");
    host.wait_until("another run", |event| event["event"] == "claimed" && event["job"] == "acme/hello");
    assert_eq!(host.children(), [0; 0]);
    host.terminate();
    let (status, stderr) = host.ended();
    assert!(status.success(), "{stderr}");
}

#[test]
fn new_versions_of_others_are_compiled_before_bombs_are_given_up() {
    let w = workplace("60s");
    let mut host = w.serve();
    host.wait_for("success", "default/hello");
    for n in 0..3 {
        w.drop_in(&format!("evil{n}/bomb.wasm"), &bombs::with_nested_loops(&w.plugin("hello"), 5_000, 1_900 + n));
    }
    compiler(&host);
    w.install_version("hello", "acme/hello.wasm", "new");
    w.write("plugins/acme/hello.toml", HELLO);
    host.wait_for("success", "acme/hello");
    host.terminate();
    let (status, stderr) = host.ended();
    assert!(status.success(), "{stderr}");
    assert!(
        !stderr.contains("compile-cpu") && !stderr.contains("compile-time"),
        "a bomb came to its end first: {stderr}"
    );
}

#[test]
fn a_compiler_ends_with_its_host() {
    let w = workplace("60s");
    let mut host = w.serve();
    host.wait_for("success", "default/hello");
    w.drop_in("evil/bomb.wasm", &bomb(&w));
    let compiler = compiler(&host);
    host.kill();
    until("rid of the compiler", || Path::new(&format!("/proc/{compiler}/exe")).exists(), |there| !there);
}

#[test]
fn a_host_compiles_with_its_own_version_after_its_file_was_replaced() {
    let w = Workplace::new(SHORT_LEASE);
    let (mut host, file) = w.serve_own_file();
    host.wait_for_log("plugins");
    fs::remove_file(&file).expect("the file can be removed");
    fs::write(&file, "another version").expect("a file takes its place");
    w.install("hello", "hello.wasm");
    w.write("plugins/hello.toml", HELLO);
    host.wait_for("success", "default/hello");
}

#[test]
fn check_compile_warms_the_cache_and_tells_of_each_plugin() {
    let w = workplace("2s");
    let good = w.leasehold(&["check", "--compile", "--json"]);
    assert_eq!(good.code, Some(0), "{good:?}");
    let [row] = good.lines().try_into().expect("one plugin");
    assert_eq!((&row["result"], &row["word"]), (&"compiled".into(), &Value::Null), "{row}");
    assert!(row["ready_ms"].is_u64() && row["size"].is_u64(), "{row}");
    w.drop_in("evil/bomb.wasm", &bomb(&w));
    w.drop_in("evil/text.wasm", b"this is text");
    let bad = w.leasehold(&["check", "--compile", "--json"]);
    assert_eq!(bad.code, Some(1), "{bad:?}");
    let row = |file: &str| {
        let rows = bad.lines();
        let mut fit = rows.into_iter().filter(|row| row["file"].as_str().is_some_and(|name| name.ends_with(file)));
        let row = fit.next().unwrap_or_else(|| panic!("nothing of {file}: {bad:?}"));
        assert!(fit.next().is_none(), "{file} is told once: {bad:?}");
        row
    };
    assert_eq!(row("plugins/hello.wasm")["result"], "cached");
    assert_eq!(row("evil/bomb.wasm")["word"], "compile-cpu");
    assert_eq!((&row("evil/text.wasm")["result"], &row("evil/text.wasm")["word"]), (&"refused".into(), &"text".into()));
    // A host finds what was compiled.
    let mut host = w.serve();
    host.wait_for("success", "default/hello");
    let people = w.leasehold(&["check", "--compile"]);
    assert!(people.stdout.contains("hello.wasm: compiled before, ready in"), "{people:?}");
}
