//! What compiling costs, and whom: bombs, compilers that break off, turns, leftovers.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leasehold_sandbox::{
    CodeOrigin, CompileLimits, CompilerCommand, Limits, PluginError, Refusal, Sandbox, SandboxSettings,
};
use rustix::fs::{FlockOperation, flock};
use support::bombs::*;
use support::*;

const MIB: u64 = 1 << 20;

/// Honest guests need a tenth of it.
fn tight() -> CompileLimits {
    CompileLimits { cpu: Duration::from_secs(1), ..CompileLimits::default() }
}

fn limited(compile_limits: CompileLimits) -> Sandbox {
    Sandbox::new(SandboxSettings { compile_limits, ..settings() }).expect("a sandbox")
}

async fn refused(sandbox: &Sandbox, bytes: &[u8]) -> Refusal {
    match sandbox.load_bytes("bombs", bytes.to_vec()).await {
        Err(PluginError::Refused(refusal)) => refusal,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// The word for which these bytes are refused. Meanwhile this process does not grow, nor does anything run in it: they are
/// refused again from memory, at once.
async fn word(limits: CompileLimits, bytes: Vec<u8>) -> &'static str {
    let sandbox = limited(limits);
    // What every load needs is there before anything is measured.
    load(&sandbox, guest("", "")).await;
    fs::write("/proc/self/clear_refs", "5").expect("the peak can be reset");
    let before = memory("VmRSS");
    let (took, own_cpu) = (clock(), own_cpu());
    let refusal = refused(&sandbox, &bytes).await;
    let growth = memory("VmHWM").saturating_sub(before);
    eprintln!("{} bytes: {} after {:?}, {} KiB more: {refusal}", bytes.len(), refusal.word(), took(), growth >> 10);
    // Other tests in the same process would be measured, too.
    if std::env::var_os("NEXTEST").is_some() {
        assert!(growth < bytes.len() as u64 * 4 + 10 * MIB, "{growth} bytes more");
        assert!(self::own_cpu() - own_cpu < Duration::from_millis(500), "the work is done elsewhere");
    } else {
        eprintln!("memory and processor time are not judged: that takes a process for each test, as cargo nextest has");
    }
    let again = clock();
    assert_eq!(refused(&sandbox, &bytes).await, refusal);
    assert!(again() < Duration::from_millis(500), "it is remembered");
    // The next plugin is not worse off.
    load(&sandbox, guest("", "(nop)")).await;
    refusal.word()
}

/// Memory of this process, in bytes.
fn memory(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("it is there");
    let line = status.lines().find(|line| line.starts_with(key)).expect("it is told");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number") << 10
}

/// Processor time of this process, without its children.
fn own_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().expect("it is positive"), time.tv_nsec.try_into().expect("it is a part"))
}

#[tokio::test]
async fn a_small_file_with_superlinear_compile_time_is_refused_for_its_processor_time() {
    let bytes = guest(&nested_loops(5_000, 1_900), "");
    assert!(bytes.len() < 100_000);
    assert_eq!(word(tight(), bytes).await, "compile-cpu");
}

#[tokio::test]
async fn tens_of_thousands_of_locals_are_refused_before_they_are_compiled() {
    let locals = format!("(func (local {}))", "i32 ".repeat(40_000));
    assert_eq!(word(tight(), guest(&locals, "")).await, "too-complex");
}

#[tokio::test]
async fn huge_numbers_of_empty_functions_are_refused_before_they_are_compiled() {
    assert_eq!(word(tight(), guest(&empty_functions(300_000), "")).await, "too-complex");
}

#[tokio::test]
async fn a_tiny_file_of_components_that_instantiate_each_other_twice_is_refused_before_it_is_compiled() {
    let bytes = doubling_components(&guest("", ""), 50);
    assert!(bytes.len() < 10_000);
    assert_eq!(word(tight(), bytes).await, "too-complex");
}

#[tokio::test]
async fn code_that_needs_more_memory_than_a_compiler_may_have_is_refused_for_that() {
    let limits = CompileLimits { memory: 300 * MIB, ..CompileLimits::default() };
    assert_eq!(word(limits, guest(&empty_functions(49_000), "")).await, "compile-memory");
}

#[tokio::test]
async fn much_machine_code_is_refused_for_its_size() {
    let limits = CompileLimits { output: 200 << 10, ..CompileLimits::default() };
    assert_eq!(word(limits, guest(&much_code(20, 2_000), "")).await, "compile-output");
}

#[tokio::test]
async fn a_compiler_that_is_not_given_the_processor_is_given_up() {
    // Its own time is not used up, the host's patience is.
    let limits = CompileLimits { wall: millis(700), ..CompileLimits::default() };
    assert_eq!(word(limits, guest(&nested_loops(5_000, 1_900), "")).await, "compile-time");
}

#[tokio::test]
async fn what_compiles_and_could_never_be_started_is_refused() {
    let sandbox = sandbox();
    let refusal = refused(&sandbox, &doubling_components(&guest("", ""), 8)).await;
    assert_eq!(refusal.word(), "demanding", "{refusal}");
}

/// A sandbox whose compiler is a shell script; what it writes lies in the directory of compiled code.
fn scripted(dir: &Path, script: &str) -> Sandbox {
    let path = dir.join("compiler");
    fs::write(&path, format!("#!/bin/sh\necho begun >> begun\n{script}\n")).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("it may be run");
    let compiler = CompilerCommand { program: path, args: Vec::new() };
    // One try with all the time there is.
    let first_try = Duration::MAX;
    let compile_limits = CompileLimits { wall: Duration::from_secs(2), ..CompileLimits::default() };
    Sandbox::new(SandboxSettings {
        compiler,
        compile_limits,
        first_try,
        cache_dir: Some(dir.join("code")),
        ..settings()
    })
    .expect("a sandbox")
}

#[tokio::test]
async fn a_compiler_that_breaks_off_or_babbles_is_a_refusal_and_is_not_started_again() {
    for (script, word) in [
        ("kill -SEGV $$", "compiler-broke"),
        ("echo 'memory allocation of 7 bytes failed' >&2; kill -ABRT $$", "compile-memory"),
        ("echo 'thread x has overflowed its stack' >&2; kill -ABRT $$", "compiler-broke"),
        ("kill -XCPU $$", "compile-cpu"),
        ("kill -XFSZ $$", "compile-output"),
        ("kill -KILL $$", "compiler-killed"),
        ("exit 3", "compiler-answer"),
        ("", "compiler-answer"),
        ("echo fine", "compiler-answer"),
        (r#"echo '{"compiled":{"structure":{"imports":[],"exports":[],"core":null}}}'"#, "compiler-answer"),
        ("exec cat /dev/zero", "compiler-answer"),
        ("cat /dev/zero >&2", "compile-time"),
        ("exec sleep 60", "compile-time"),
        // It says nothing more and does not end: nobody waits for it.
        ("exec >&-; sleep 60", "compiler-killed"),
        // Somebody it left behind holds its output open.
        ("sleep 60 & exit 0", "compile-time"),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let sandbox = scripted(dir.path(), script);
        let bytes = guest("", "");
        let refusal = refused(&sandbox, &bytes).await;
        assert_eq!(refusal.word(), word, "{script}: {refusal}");
        assert_eq!(refused(&sandbox, &bytes).await, refusal, "{script}");
        let begun = fs::read_to_string(dir.path().join("code/begun")).expect("it has begun");
        assert_eq!(begun, "begun\n", "{script}: once");
        assert_eq!(drafts(&dir.path().join("code")).len(), 0, "{script}: nothing is left");
    }
}

#[tokio::test]
async fn a_compiler_that_claims_what_it_has_not_written_is_not_believed() {
    let dir = tempfile::tempdir().expect("a directory");
    let structure = r#"{"imports":[],"exports":["leasehold:job/handler@0.1.0"],"core":null}"#;
    let answer = format!(r#"{{"compiled":{{"structure":{structure},"artifact":{{"size":9,"checksum":1}}}}}}"#);
    let sandbox = scripted(dir.path(), &format!("echo '{answer}'"));
    let failed = sandbox.load_bytes("acme", guest("", "")).await.expect_err("nothing was written");
    assert!(matches!(failed, PluginError::Host(_)), "{failed:?}");
    // The same with as many bytes as it says, which are no code.
    let script = format!("for draft in *.tmp; do printf 'thirteenbytes' > $draft; done; echo '{answer}'");
    let failed = scripted(dir.path(), &script).load_bytes("acme", guest("", "")).await.expect_err("that is no code");
    assert!(matches!(failed, PluginError::Host(_)), "{failed:?}");
}

#[tokio::test]
async fn a_failure_of_the_host_is_not_held_against_the_plugin() {
    let dir = tempfile::tempdir().expect("a directory");
    let sandbox = scripted(dir.path(), "");
    let program = dir.path().join("compiler");
    let bytes = guest("", "");
    fs::remove_file(&program).expect("the compiler goes");
    assert!(matches!(sandbox.load_bytes("acme", bytes.clone()).await, Err(PluginError::Host(_))));
    // It starts, but cannot write.
    let real = compiler().program;
    let script = format!("#!/bin/sh\nrm -f *.tmp\nexec {} \"$@\"\n", real.display());
    fs::write(&program, script)
        .and_then(|()| fs::set_permissions(&program, fs::Permissions::from_mode(0o700)))
        .expect("a program");
    let failed = sandbox.load_bytes("acme", bytes.clone()).await.expect_err("it cannot write");
    assert!(matches!(failed, PluginError::Host(_)), "{failed:?}");
    fs::remove_file(&program).and_then(|()| std::os::unix::fs::symlink(real, &program)).expect("it is put right");
    assert_eq!(load(&sandbox, bytes).await.origin(), CodeOrigin::Compiled);
}

#[tokio::test]
async fn a_compiler_finds_no_environment_and_works_in_the_directory_of_compiled_code() {
    let dir = tempfile::tempdir().expect("a directory");
    refused(&scripted(dir.path(), "env > env; pwd > pwd; ls /proc/self/fd > fds"), &guest("", "")).await;
    let said = |name: &str| fs::read_to_string(dir.path().join("code").join(name)).expect("it was written");
    let names: Vec<String> =
        said("env").lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name.to_owned()).collect();
    // What a shell sets itself.
    assert!(names.iter().all(|name| ["PWD", "OLDPWD", "SHLVL", "_"].contains(&name.as_str())), "{names:?}");
    assert_eq!(
        said("pwd").trim(),
        dir.path().join("code").canonicalize().expect("it is there").to_str().expect("UTF-8")
    );
}

#[tokio::test]
async fn a_compiler_limits_itself_and_keeps_nothing_that_was_open() {
    let sandbox =
        limited(CompileLimits { memory: 2_000 * MIB, cpu: Duration::from_secs(2), ..CompileLimits::default() });
    // Somebody else's descriptor, handed on to every child.
    let leaked = tempfile::tempfile().expect("a file");
    rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).expect("it is handed on");
    let watch = tokio::task::spawn_blocking(|| {
        loop {
            if let Some(facts) = compiler_facts() {
                return facts;
            }
        }
    });
    refused(&sandbox, &guest(&nested_loops(5_000, 1_900), "")).await;
    let (limits, oom, open) = watch.await.expect("it was seen");
    let row = |name: &str| limits.lines().find(|line| line.starts_with(name)).expect(name).to_owned();
    assert!(row("Max address space").contains("2097152000"), "{limits}");
    assert!(row("Max cpu time").split_whitespace().any(|word| word == "2"), "{limits}");
    assert!(row("Max file size").contains("268435456") && row("Max core file size").contains(" 0 "), "{limits}");
    assert_eq!(oom.trim(), "1000");
    assert!(open.iter().all(|fd| *fd <= 2), "{open:?}");
}

/// Limits, readiness to be killed and open descriptors of a compiler of this process that has read its input.
fn compiler_facts() -> Option<(String, String, Vec<i32>)> {
    let tasks = fs::read_dir("/proc/self/task").expect("it is there");
    let children: String =
        tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok()).collect();
    let proc = PathBuf::from("/proc").join(children.split_whitespace().next()?);
    // Its worker has begun, so it has limited itself.
    let threads = fs::read_dir(proc.join("task")).ok()?.count();
    let limits = fs::read_to_string(proc.join("limits")).ok()?;
    let oom = fs::read_to_string(proc.join("oom_score_adj")).ok()?;
    let open = fs::read_dir(proc.join("fd")).ok()?;
    let open = open.filter_map(|fd| fd.ok()?.file_name().to_str()?.parse().ok()).collect();
    (threads > 1 && limits.contains("2097152000")).then_some((limits, oom, open))
}

#[tokio::test]
async fn a_tenant_with_many_bombs_keeps_another_waiting_for_one_turn() {
    let sandbox = limited(tight());
    let bombs = (0..12).map(|n| guest(&nested_loops(5_000, 1_900), &format!("(drop (i32.const {n}))")));
    let bombs: Vec<Vec<u8>> = bombs.collect();
    let blown = std::sync::atomic::AtomicUsize::new(0);
    let compilers = (std::thread::available_parallelism().map_or(1, usize::from) / 2).max(1);
    let all = async {
        let each = bombs.iter().take(compilers * 4).map(|bomb| async {
            refused(&sandbox, bomb).await;
            blown.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        });
        join_all(each).await;
    };
    let other = async {
        tokio::task::yield_now().await;
        sandbox.load_bytes("acme", guest("", "(nop)")).await.expect("it loads");
        blown.load(std::sync::atomic::Ordering::Relaxed)
    };
    let ((), before) = tokio::join!(all, other);
    // Those that had their turn when it came, and one each that may have ended beside it.
    assert!(before <= compilers * 2, "{before} bombs of {} came first", compilers * 4);
}

#[tokio::test]
async fn what_takes_long_to_compile_keeps_nobody_waiting_after_its_first_try() {
    let first_try = Duration::from_secs(1);
    let sandbox = Arc::new(Sandbox::new(SandboxSettings { first_try, ..settings() }).expect("a sandbox"));
    // More of them than there can be compilers, each of another tenant.
    let count = std::thread::available_parallelism().map_or(1, usize::from) + 1;
    let bombs: Vec<_> = (0..count)
        .map(|n| {
            let (sandbox, bytes) = (sandbox.clone(), guest(&nested_loops(5_000, 1_900 + n), ""));
            tokio::spawn(async move { sandbox.load_bytes(&format!("evil{n}"), bytes).await })
        })
        .collect();
    let children = || {
        let tasks = fs::read_dir("/proc/self/task").expect("it is there");
        tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok()).any(|all| !all.is_empty())
    };
    while !children() {
        tokio::task::yield_now().await;
    }
    for n in 0..3 {
        let plugin = sandbox.load_bytes("good", guest("", &format!("(drop (i32.const {n}))"))).await;
        assert_eq!(plugin.expect("it loads").origin(), CodeOrigin::Compiled);
    }
    assert!(bombs.iter().all(|bomb| !bomb.is_finished()), "a bomb came to its end first");
}

#[tokio::test]
async fn what_takes_longer_than_the_first_try_is_compiled_all_the_same_and_then_spared_it() {
    let sandbox = Sandbox::new(SandboxSettings { first_try: Duration::from_secs(1), ..settings() }).expect("a sandbox");
    let slow = guest(&nested_loops(1_500, 1_000), "");
    let tried = sandbox.try_bytes("acme", slow.clone(), false).await.expect("it is no bomb");
    assert!(tried.is_none(), "this machine compiles it within a second");
    assert!(sandbox.try_bytes("acme", slow.clone(), false).await.expect("it is no bomb").is_none());
    let plugin = sandbox.load_bytes("acme", slow.clone()).await.expect("it takes its time");
    assert_eq!(plugin.origin(), CodeOrigin::Compiled);
    assert!(sandbox.try_bytes("acme", slow, false).await.expect("it is compiled").is_some());
}

async fn join_all(work: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut work: Vec<_> = work.map(Box::pin).collect();
    std::future::poll_fn(move |context| {
        work.retain_mut(|one| one.as_mut().poll(context).is_pending());
        if work.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test]
async fn the_same_bytes_are_compiled_once_however_many_load_them_at_once() {
    let sandbox = sandbox();
    let bytes = guest("", "");
    let load = |tenant| sandbox.load_bytes(tenant, bytes.clone());
    let (a, b, c) = tokio::join!(load("a"), load("b"), load("c"));
    let origins = [a, b, c].map(|plugin| plugin.expect("it loads").origin());
    assert_eq!(origins.iter().filter(|origin| **origin == CodeOrigin::Compiled).count(), 1, "{origins:?}");
}

#[tokio::test]
async fn what_dead_compilers_left_behind_is_removed_and_what_a_living_one_writes_is_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let code = dir.path().join("code");
    let new = || Sandbox::new(SandboxSettings { cache_dir: Some(code.clone()), ..settings() }).expect("a sandbox");
    let sandbox = new();
    load(&sandbox, guest("", "")).await;
    fs::write(code.join("dead.tmp"), "left").expect("written");
    let living = fs::File::create(code.join("living.tmp")).expect("made");
    flock(&living, FlockOperation::LockExclusive).expect("locked");
    drop(new());
    assert_eq!(drafts(&code), ["living.tmp"]);
    drop(living);
    load(&sandbox, guest("", "(nop)")).await;
    assert_eq!(drafts(&code).len(), 0);
}

#[tokio::test]
async fn without_a_directory_compiled_code_is_kept_while_the_sandbox_lives() {
    let sandbox = sandbox();
    let bytes = guest("", "");
    load(&sandbox, bytes.clone()).await;
    let plugin = load(&sandbox, bytes).await;
    assert_eq!(plugin.origin(), CodeOrigin::Cache);
    assert_eq!(output(&sandbox.start(&plugin, invocation(Limits::default())).await), b"done");
}

/// Names of temporary files.
fn drafts(dir: &Path) -> Vec<String> {
    let all = fs::read_dir(dir).expect("it is there").map(|entry| entry.expect("an entry").file_name());
    all.filter_map(|name| name.into_string().ok()).filter(|name| name.ends_with(".tmp")).collect()
}
