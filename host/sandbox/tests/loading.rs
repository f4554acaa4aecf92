//! What is taken as a plugin, what is refused and why, and the cache of compiled code.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use leasehold_sandbox::{
    CacheError, CodeOrigin, FileKind, Limits, PluginError, Refusal, Sandbox, SandboxError, SandboxSettings, inspect,
};
use support::*;
use wit_parser::Resolve;

async fn refusal(bytes: &[u8]) -> Refusal {
    let looked = inspect(bytes).verdict;
    let loaded = match sandbox().load_bytes("acme", bytes.to_vec()).await {
        Err(PluginError::Refused(refusal)) => refusal,
        other => panic!("expected a refusal, got {other:?}"),
    };
    // Whoever only looks is told the same, where looking is enough to know.
    if let Err(looked) = looked {
        assert_eq!(looked, loaded);
    }
    assert!(!loaded.to_string().contains('\n'), "one line: {loaded}");
    loaded
}

#[tokio::test]
async fn what_is_not_webassembly_is_refused_with_its_reason() {
    assert_eq!(refusal(b"").await, Refusal::Empty);
    assert_eq!(refusal(b"hello, world\n").await, Refusal::Text { hint: None });
    assert_eq!(refusal("gr\u{fc}\u{df} Gott".repeat(100).as_bytes()).await, Refusal::Text { hint: None });
    assert!(matches!(refusal(b"(component)").await, Refusal::Text { hint: Some(hint) } if hint.contains("wasm-tools")));
    assert!(matches!(refusal(b"<!doctype html>").await, Refusal::Text { hint: Some(_) }));
    assert_eq!(refusal(b"\x7fELF\x02\x01").await, Refusal::NotWasm { first_bytes: "7f 45 4c 46".to_owned() });
    assert_eq!(refusal(b"\0asm").await, Refusal::Truncated { size: 4 });
    assert!(matches!(refusal(b"\0asm\x63\0\x01\0").await, Refusal::Invalid { .. }));
}

#[tokio::test]
async fn a_truncated_component_is_refused_wherever_it_ends() {
    let whole = guest("", "");
    let sandbox = sandbox();
    let step = whole.len() / 40;
    for size in (1..whole.len()).step_by(step) {
        match sandbox.load_bytes("acme", whole[..size].to_vec()).await {
            Err(PluginError::Refused(Refusal::Truncated { size: told })) => assert_eq!(told, size),
            // Between two sections nothing looks cut off, but then what makes it a plugin is missing.
            Err(PluginError::Refused(Refusal::NoHandler { .. } | Refusal::Invalid { .. })) => {}
            other => panic!("cut at {size}: {other:?}"),
        }
    }
    assert_eq!(inspect(&whole[..whole.len() / 2]).verdict, Err(Refusal::Truncated { size: whole.len() / 2 }));
}

#[tokio::test]
async fn precompiled_code_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    load(&caching(dir.path()), guest("", "")).await;
    let compiled = fs::read(only_file(&cache(dir.path()))).expect("the cached code");
    assert_eq!(refusal(&compiled).await, Refusal::Precompiled);
    assert_eq!(inspect(&compiled).kind, FileKind::Precompiled);
}

#[tokio::test]
async fn a_component_of_another_world_is_refused_with_what_was_found() {
    let other = of_world("package other:thing; world other { export shout: func(); }", r#"(func (export "shout"))"#);
    let refused = refusal(&other).await;
    assert_eq!(refused, Refusal::NoHandler { found: vec!["shout".to_owned()] });
    assert!(refused.to_string().contains("leasehold:job/handler@0.1.x"), "{refused}");
    assert!(matches!(refusal(b"\0asm\x0d\0\x01\0").await, Refusal::NoHandler { found } if found.is_empty()));
}

#[tokio::test]
async fn a_handler_of_another_version_is_refused_and_named() {
    for version in ["0.2.0", "0.1.0-rc.1"] {
        let name = format!("leasehold:job/handler@{version}");
        let next = of_world(
            &format!(
                "package leasehold:job@{version}; interface handler {{ handle: func(); }} world other {{ export handler; }}"
            ),
            &format!(r#"(func (export "{name}#handle"))"#),
        );
        assert_eq!(refusal(&next).await, Refusal::WrongVersion { found: name });
    }
}

#[tokio::test]
async fn a_handler_of_another_type_is_refused() {
    let odd = of_world(
        "package leasehold:job@0.1.0; interface handler { handle: func(); } world other { export handler; }",
        r#"(func (export "leasehold:job/handler@0.1.0#handle"))"#,
    );
    assert!(matches!(refusal(&odd).await, Refusal::WrongType { .. }));
}

#[tokio::test]
async fn a_later_patch_of_the_contract_is_taken() {
    let later =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/job.wit")).expect("the contract");
    let later = later.replace("package leasehold:job@0.1.0;", "package leasehold:job@0.1.7;");
    let mut resolve = Resolve::default();
    resolve.push_str("io.wit", "package wasi:io@0.2.12; interface poll { resource pollable; }").expect("it parses");
    resolve.push_str("job.wit", &later).expect("it parses");
    let text = core_text(SHOULD_CONTINUE, MEMORY, "").replace("@0.1.0", "@0.1.7");
    let plugin = component(&wat::parse_str(text).expect("it parses"), &resolve, "job");
    let sandbox = sandbox();
    let plugin = load(&sandbox, plugin).await;
    assert!(plugin.exports().contains(&"leasehold:job/handler@0.1.7".to_owned()), "{:?}", plugin.exports());
    assert_eq!(output(&sandbox.start(&plugin, invocation(Limits::default())).await), b"done");
}

#[tokio::test]
async fn an_unknown_import_is_refused_and_named() {
    let mut resolve = contract();
    resolve
        .push_str(
            "more.wit",
            "package test:more; interface strange { act: func(); } world more { include test:guests/guest; import strange; }",
        )
        .expect("it parses");
    let act = r#"(import "test:more/strange" "act" (func $act))"#;
    let plugin = component(&core_module(act, MEMORY, "(call $act)"), &resolve, "more");
    assert!(matches!(refusal(&plugin).await, Refusal::UnknownImport { names, .. } if names == ["test:more/strange"]));
}

#[tokio::test]
async fn a_part_of_the_contract_that_does_not_work_yet_is_refused_with_a_hint() {
    let mut resolve = contract();
    resolve
        .push_str(
            "more.wit",
            "package test:more; world more { include test:guests/guest; import leasehold:job/control-poll@0.1.0; }",
        )
        .expect("it parses");
    let subscribe = r#"(import "leasehold:job/control-poll@0.1.0" "subscribe-stop" (func $subscribe (result i32)))"#;
    let plugin = component(&core_module(subscribe, MEMORY, ""), &resolve, "more");
    let refused = refusal(&plugin).await;
    assert!(matches!(&refused, Refusal::UnknownImport { hint: Some(_), .. }), "{refused}");
}

#[tokio::test]
async fn invalid_code_is_refused() {
    let mut broken = guest("", "(drop (i32.const 123456789))");
    let instruction = [0x41, 0x95, 0x9a, 0xef, 0x3a];
    let at = broken.windows(5).position(|window| window == instruction).expect("the instruction is there");
    // No instruction has this number.
    broken[at] = 0xff;
    assert!(matches!(refusal(&broken).await, Refusal::Invalid { .. }));
}

#[tokio::test]
async fn what_would_cost_the_compiler_too_much_is_refused_before_it_is_compiled() {
    let too = |refusal: Refusal| match refusal {
        Refusal::TooComplex { what, .. } => what.as_str(),
        other => panic!("got {other}"),
    };
    let locals = format!("(func (local {}))", "i32 ".repeat(2_001));
    assert_eq!(too(refusal(&guest(&locals, "")).await), "locals in one function");
    assert_eq!(too(refusal(&guest(&"(func)".repeat(50_001), "")).await), "functions");
    let long = format!("(func {})", "(drop (i32.const 1))".repeat(400_000));
    assert_eq!(too(refusal(&guest(&long, "")).await), "bytes in one function");
    let modules = format!("(component {})", "(core module)".repeat(33));
    assert_eq!(too(refusal(&wat::parse_str(modules).expect("it parses")).await), "core modules");
}

#[tokio::test]
async fn what_a_file_is_can_be_read_from_disk_within_bounds() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("plugin.wasm");
    let sandbox = sandbox();
    assert!(matches!(sandbox.load("acme", &path).await, Err(PluginError::Read { path: told, .. }) if told == path));
    fs::write(&path, guest("", "")).expect("written");
    assert!(sandbox.load("acme", &path).await.is_ok());
    // A directory is none, and a sparse file of 64 MiB and a byte is too large.
    assert!(matches!(sandbox.load("acme", dir.path()).await, Err(PluginError::Read { .. })));
    fs::File::create(&path).and_then(|file| file.set_len((64 << 20) + 1)).expect("a sparse file");
    assert!(matches!(sandbox.load("acme", &path).await, Err(PluginError::Refused(Refusal::TooLarge { .. }))));
}

#[tokio::test]
async fn compiled_code_is_found_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let bytes = guest("", "");
    assert_eq!(load(&caching(dir.path()), bytes.clone()).await.origin(), CodeOrigin::Compiled);
    let sandbox = caching(dir.path());
    let plugin = load(&sandbox, bytes).await;
    assert_eq!(plugin.origin(), CodeOrigin::Cache);
    assert_eq!(output(&sandbox.start(&plugin, invocation(Limits::default())).await), b"done");
}

#[tokio::test]
async fn damaged_or_exposed_compiled_code_is_made_anew() {
    let dir = tempfile::tempdir().expect("a directory");
    let sandbox = caching(dir.path());
    let bytes = guest("", "");
    load(&sandbox, bytes.clone()).await;
    let file = only_file(&cache(dir.path()));
    let sound = fs::read(&file).expect("the compiled code");
    let exposed = fs::Permissions::from_mode(0o666);
    let damages = [
        "overwritten",
        "empty",
        "cut off",
        "its last byte cut off",
        "flipped in the middle",
        "one bit of it",
        "exposed",
    ];
    for damage in damages {
        match damage {
            "overwritten" => fs::write(&file, b"garbage"),
            "empty" => fs::write(&file, b""),
            "cut off" => fs::write(&file, &sound[..sound.len() / 2]),
            "its last byte cut off" => fs::write(&file, &sound[..sound.len() - 1]),
            "flipped in the middle" => fs::write(&file, flipped(&sound, 4_000, 0xff)),
            "one bit of it" => fs::write(&file, flipped(&sound, 1, 1)),
            _ => fs::set_permissions(&file, exposed.clone()),
        }
        .expect("the damage is done");
        let plugin = load(&sandbox, bytes.clone()).await;
        assert_eq!(plugin.origin(), CodeOrigin::Compiled, "{damage}");
        assert_eq!(load(&sandbox, bytes.clone()).await.origin(), CodeOrigin::Cache, "after {damage}");
        assert_eq!(output(&sandbox.start(&plugin, invocation(Limits::default())).await), b"done");
    }
}

#[tokio::test]
async fn a_cache_directory_that_others_can_write_to_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    drop(caching(dir.path()));
    fs::set_permissions(cache(dir.path()), fs::Permissions::from_mode(0o770)).expect("changed");
    let settings = SandboxSettings { cache_dir: Some(cache(dir.path())), ..settings() };
    let refused = Sandbox::new(settings).expect_err("refused");
    assert!(matches!(refused, SandboxError::Cache(CacheError::Unsafe { .. })), "{refused}");
}

#[tokio::test]
async fn what_was_used_longest_ago_leaves_a_full_cache() {
    let dir = tempfile::tempdir().expect("a directory");
    let guests: Vec<_> = (0..3).map(|n| guest("", &format!("(drop (i32.const {n}))"))).collect();
    load(&caching(dir.path()), guests[0].clone()).await;
    let one = fs::metadata(only_file(&cache(dir.path()))).expect("its size").len();
    let settings = SandboxSettings { cache_dir: Some(cache(dir.path())), cache_bytes: 2 * one + one / 2, ..settings() };
    let sandbox = Sandbox::new(settings).expect("a sandbox");
    load(&sandbox, guests[1].clone()).await;
    // File times are coarse: what happens within a few milliseconds would be told apart by luck.
    for (age, bytes) in guests[..2].iter().enumerate() {
        let digest = inspect(bytes).digest.to_string();
        let entries = fs::read_dir(cache(dir.path())).expect("the cache").map(|entry| entry.expect("an entry").path());
        let ours: Vec<_> = entries.filter(|file| file.to_string_lossy().contains(&digest)).collect();
        assert_eq!(ours.len(), 2, "its code is kept, and a note beside it");
        for file in ours {
            let file = fs::File::options().write(true).open(file).expect("it opens");
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(age as u64)).expect("its time is set");
        }
    }
    assert_eq!(load(&sandbox, guests[0].clone()).await.origin(), CodeOrigin::Cache);
    load(&sandbox, guests[2].clone()).await;
    assert_eq!(load(&sandbox, guests[0].clone()).await.origin(), CodeOrigin::Cache, "used last");
    assert_eq!(load(&sandbox, guests[1].clone()).await.origin(), CodeOrigin::Compiled, "used longest ago");
}

/// The same bytes but for `count` in the middle.
fn flipped(bytes: &[u8], count: usize, mask: u8) -> Vec<u8> {
    let mut flipped = bytes.to_vec();
    let from = (bytes.len() - count) / 2;
    flipped[from..from + count].iter_mut().for_each(|byte| *byte ^= mask);
    flipped
}

fn of_world(wit: &str, items: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    resolve.push_str("other.wit", wit).expect("it parses");
    component(&wat::parse_str(format!("(module {items})")).expect("it parses"), &resolve, "other")
}

fn caching(dir: &Path) -> Sandbox {
    Sandbox::new(SandboxSettings { cache_dir: Some(cache(dir)), ..settings() }).expect("a sandbox")
}

fn cache(dir: &Path) -> PathBuf {
    dir.join("code")
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(dir).expect("the cache").map(|entry| entry.expect("an entry").path());
    all.filter(|file| file.extension().is_some_and(|extension| extension == "cwasm")).collect()
}

fn only_file(dir: &Path) -> PathBuf {
    let files = files(dir);
    let [file] = files.as_slice() else { panic!("one file, got {files:?}") };
    file.clone()
}
