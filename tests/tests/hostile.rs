//! Every hostile guest that the sandbox is made for, on a real host beside a neighbour that must not notice: each comes to
//! its own end, the host's memory stays flat, and no heartbeat is late.
//!
//! What a guest does inside the sandbox is told apart in the sandbox's own tests (`host/sandbox/tests`, see
//! `tests/README.md` for which proves what); here it is only that all of it together harms nobody.

#[path = "../../host/sandbox/tests/support/bombs.rs"]
mod bombs;
#[path = "../../host/sandbox/tests/support/guests.rs"]
mod guests;

use guests::*;
use leasehold_tests::neighbour::{Deed, Scene, leave_their_neighbour_alone, leave_their_neighbour_alone_on};

/// A job of this guest.
fn deed(name: &str, plugin: Vec<u8>, word: &'static str) -> Deed {
    Deed { name: name.to_owned(), plugin, payload: Some("{}".to_owned()), word, origins: Vec::new() }
}

/// A file that lies there.
fn file(name: &str, plugin: Vec<u8>, word: &'static str) -> Deed {
    Deed { name: name.to_owned(), plugin, payload: None, word, origins: Vec::new() }
}

fn forever(call: &str) -> String {
    format!("(loop $more {call} (br $more))")
}

/// Takes pages until there are no more.
const GROW: &str = "(loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) (unreachable)";

/// One table has at most 100 000 elements, which is less than the guest may have.
fn growing_sixteen_tables() -> Vec<u8> {
    let tables: String = (0..16).map(|n| format!("(table $t{n} 0 funcref)")).collect();
    let grow = |n| {
        format!(
            "(loop $more{n}
               (br_if $more{n} (i32.ne (table.grow $t{n} (ref.null func) (i32.const 1000)) (i32.const -1))))"
        )
    };
    guest(&tables, &format!("{} (unreachable)", (0..16).map(grow).collect::<String>()))
}

fn growing_thirty_two_memories() -> Vec<u8> {
    let more: String = (1..32).map(|n| format!("(memory $m{n} 1)")).collect();
    let grow = |n| format!("(br_if $out (i32.eq (memory.grow $m{n} (i32.const 1)) (i32.const -1)))");
    let body = format!("(block $out (loop $more {} (br $more))) (unreachable)", (1..32).map(grow).collect::<String>());
    component(&core_module("", &format!("{MEMORY} {more}"), &body), &contract(), "guest")
}

#[test]
fn guests_that_take_what_they_can_leave_a_neighbour_s_heartbeat_alone() {
    let spins_at_start = format!("(func $spin {SPIN}) (start $spin)");
    leave_their_neighbour_alone(&[
        deed("loop", guest("", SPIN), "timeout: "),
        deed("loop-in-start", guest(&spins_at_start, ""), "timeout: "),
        deed("recursion", guest("(func $deep (call $deep))", "(call $deep)"), "stack: "),
        deed("memory", guest("", GROW), "memory: "),
        deed("memories", growing_thirty_two_memories(), "memory: "),
        deed("tables", growing_sixteen_tables(), "memory: "),
        deed("random", guest(RANDOM, &random_forever()), "timeout: "),
        deed("handles", guest(TIMER, &forever("(drop (call $timer (i64.const 1)))")), "handles: "),
        deed("sleep", guest(SLEEP, &forever("(drop (call $sleep (i64.const -1)))")), "timeout: "),
        deed("block", guest(TIMER, "(call $block (call $timer (i64.const -1)))"), "timeout: "),
    ]);
}

/// Four gigabytes of random bytes and more, into the same place.
fn random_forever() -> String {
    forever("(global.set $next (i32.const 65536)) (call $random (i64.const 65536) (i32.const 2048))")
}

#[test]
fn guests_that_say_too_much_or_end_badly_leave_a_neighbour_s_heartbeat_alone() {
    let line = |bytes: u32| {
        format!(
            "(call $emit (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 4096) (i32.const {bytes}) (i32.const 0) (i32.const 0))"
        )
    };
    let write = "(call $write (local.get $j) (i32.const 4096) (i32.const 4000) (i32.const 2048))";
    let stdout = format!("(local.set $j (call $stdout)) {}", forever(write));
    let giant = "(drop (memory.grow (i32.const 60))) (return (call $ok (i32.const 0) (i32.const 3900000)))";
    // A permanent error whose code and message are everything that lies in memory.
    let error = "(drop (memory.grow (i32.const 60)))
        (i32.store8 (i32.const 16) (i32.const 1)) (i32.store8 (i32.const 20) (i32.const 1))
        (i32.store (i32.const 24) (i32.const 131072)) (i32.store (i32.const 28) (i32.const 3000000))
        (i32.store (i32.const 32) (i32.const 131072)) (i32.store (i32.const 36) (i32.const 3000000))
        (i32.store (i32.const 40) (i32.const 0)) (i32.store (i32.const 44) (i32.const 0)) (return (i32.const 16))";
    let traps_in_start = "(func $start (unreachable)) (start $start)";
    let post = r#"(func (export "cabi_post_leasehold:job/handler@0.1.0#handle") (param i32) (unreachable))"#;
    // Told to stop, it calls on: it has till its timeout.
    let calls_on = forever("(drop (call $should_continue))");
    leave_their_neighbour_alone(&[
        deed("result", guest("", giant), "output-too-large: "),
        deed("line", guest(EMIT, &format!("(drop (memory.grow (i32.const 60))) {}", line(3_900_000))), "success"),
        deed("lines", guest(EMIT, &forever(&line(1_000))), "timeout: "),
        deed("error", guest("", error), "output-too-large: "),
        deed("stdout", guest(STREAMS, &stdout), "timeout: "),
        deed("trap", guest("", "(unreachable)"), "trap: "),
        deed("trap-in-start", guest(traps_in_start, ""), "trap: "),
        deed("trap-afterwards", guest(post, ""), "trap: "),
        deed("exit", guest(EXIT, "(call $exit (i32.const 0))"), "exit: "),
        deed("calls-after-the-stop", guest(SHOULD_CONTINUE, &calls_on), "timeout: "),
    ]);
}

#[test]
fn plugins_that_are_bombs_or_none_leave_a_neighbour_s_heartbeat_alone() {
    let plain = guest("", "");
    let locals = format!("(func (local {}))", "i32 ".repeat(40_000));
    leave_their_neighbour_alone(&[
        file("time", guest(&bombs::nested_loops(5_000, 1_900), ""), "compile-cpu"),
        file("locals", guest(&locals, ""), "too-complex"),
        file("functions", guest(&bombs::empty_functions(300_000), ""), "too-complex"),
        file("doubling", bombs::doubling_components(&plain, 50), "too-complex"),
        file("text", b"this is text".to_vec(), "text"),
        file("half", plain[..plain.len() / 2].to_vec(), "truncated"),
    ]);
}

#[test]
fn a_plugin_that_takes_all_of_a_compiler_s_memory_leaves_a_neighbour_s_heartbeat_alone() {
    // What uses up a compiler's time takes memory faster: of which there is little here, and much time, also for a debug build.
    let scene = Scene { compiler: "compile_cpu = \"60s\"\ncompile_memory = \"256MiB\"", ..Scene::default() };
    let bomb = file("space", guest(&bombs::nested_loops(5_000, 1_900), ""), "compile-memory: ");
    leave_their_neighbour_alone_on(&scene, &[bomb]);
}
