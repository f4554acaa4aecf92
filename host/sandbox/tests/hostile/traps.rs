//! Guests that trap wherever the host calls them, and that exit.

use leasehold_sandbox::FailureKind;

use crate::support::*;
use crate::watch::{hostile, tight};

/// A guest of which one export traps. `realloc` is what it does when the host asks it for memory.
fn guest_with(items: &str, realloc: &str, body: &str) -> Vec<u8> {
    let text = core_text(items, MEMORY, body);
    let text = text.replacen("(local $at i32)", &format!("(local $at i32) {realloc}"), 1);
    component(&wat::parse_str(&text).expect("the text is right"), &contract(), "guest")
}

#[tokio::test]
async fn a_trap_in_any_export_is_trap() {
    let post = r#"(func (export "cabi_post_leasehold:job/handler@0.1.0#handle") (param i32) (unreachable))"#;
    let all = [
        ("handle", guest_with("", "", "(unreachable)")),
        ("realloc", guest_with("", "(unreachable)", "")),
        ("post-return", guest_with(post, "", "")),
        ("start", guest_with("(func $start (unreachable)) (start $start)", "", "")),
        ("initialize", guest_with(r#"(func (export "_initialize") (unreachable))"#, "", "")),
    ];
    for (export, bytes) in all {
        let ended = hostile(bytes, tight()).await;
        assert_eq!(failure(&ended).kind, FailureKind::Trap, "{export}: {}", failure(&ended));
        assert!(failure(&ended).message.contains("unreachable"), "{export}: {}", failure(&ended));
    }
}

#[tokio::test]
async fn an_allocation_that_lies_outside_of_memory_fails_the_run_and_not_the_host() {
    for at in ["-8", "2147483640", "131064"] {
        let ended = hostile(guest_with("", &format!("(return (i32.const {at}))"), ""), tight()).await;
        assert_eq!(failure(&ended).kind, FailureKind::Trap, "{at}: {}", failure(&ended));
    }
}

#[tokio::test]
async fn different_traps_are_told_apart() {
    let division = "(drop (i32.div_s (i32.const 1) (local.get $i)))";
    let outside = "(drop (i32.load (i32.const -8)))";
    for (body, words) in [("(unreachable)", "unreachable"), (division, "divide by zero"), (outside, "out of bounds")] {
        let ended = hostile(guest("", body), tight()).await;
        assert_eq!(failure(&ended).kind, FailureKind::Trap);
        assert!(failure(&ended).message.contains(words), "{}", failure(&ended));
    }
}

#[tokio::test]
async fn exit_is_a_failure_of_its_own_whatever_the_code() {
    for (status, how) in [(0, "success"), (1, "failure")] {
        let ended = hostile(guest(EXIT, &format!("(call $exit (i32.const {status}))")), tight()).await;
        assert_eq!(failure(&ended).kind, FailureKind::Exit, "{}", failure(&ended));
        assert!(failure(&ended).message.contains(&format!("exited with {how}")), "{}", failure(&ended));
    }
}

/// The module with one more custom section.
fn with_section(module: &mut Vec<u8>, name: &str, content: &[u8]) {
    let leb = |mut number: usize| {
        let mut bytes = Vec::new();
        while number >= 0x80 {
            bytes.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    };
    let name = [leb(name.len()), name.as_bytes().to_vec()].concat();
    module.push(0);
    module.extend(leb(name.len() + content.len()));
    module.extend(name);
    module.extend_from_slice(content);
}

/// Empty units: a length of eight, version 4, abbreviations at 0, addresses of four bytes, and one entry without anything.
fn many_units() -> (Vec<u8>, Vec<u8>) {
    (vec![1, 0x11, 0, 0, 0, 0], [8, 0, 0, 0, 4, 0, 0, 0, 0, 0, 4, 1].repeat(300_000))
}

/// Functions inlined into one another, each of which covers all code: who reads it recurses.
fn deep_entries() -> (Vec<u8>, Vec<u8>) {
    const DEPTH: usize = 100_000;
    let everywhere = [1_u32.to_le_bytes(), 0x7fff_ff00_u32.to_le_bytes()].concat();
    // Low and high address; what is inlined is the function at 20.
    let range = [0x11, 1, 0x12, 6];
    let mut abbreviations = Vec::new();
    for (code, tag, more) in [(1, 0x11, &[][..]), (2, 0x2e, &[]), (3, 0x1d, &[0x31, 0x13])] {
        abbreviations.extend([&[code, tag, 1][..], &range, more, &[0, 0]].concat());
    }
    abbreviations.push(0);
    let inlined = [&[3][..], &everywhere, &20_u32.to_le_bytes()].concat();
    let entries = [&[1][..], &everywhere, &[2], &everywhere, &inlined.repeat(DEPTH), &vec![0; DEPTH + 2]].concat();
    let unit = [&[4, 0, 0, 0, 0, 0, 4][..], &entries].concat();
    let length = u32::try_from(unit.len()).expect("it is short").to_le_bytes();
    (abbreviations, [&length[..], &unit].concat())
}

#[tokio::test]
async fn what_a_plugin_says_of_its_own_source_is_not_read_when_it_traps() {
    for (abbreviations, info) in [many_units(), deep_entries()] {
        let mut module = core_module("", MEMORY, "(unreachable)");
        with_section(&mut module, ".debug_abbrev", &abbreviations);
        with_section(&mut module, ".debug_info", &info);
        let bytes = component(&module, &contract(), "guest");
        assert!(bytes.len() > info.len(), "it is in the plugin");
        let ended = hostile(bytes, tight()).await;
        assert_eq!(failure(&ended).kind, FailureKind::Trap, "{}", failure(&ended));
        assert!(!failure(&ended).backtrace.is_empty());
    }
}
