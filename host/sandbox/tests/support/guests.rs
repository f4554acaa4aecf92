//! Guests written as core WebAssembly text and made components against the project's own contract.

// Each test file that includes this one uses a part of it.
#![allow(dead_code, unreachable_pub)]

use std::path::Path;

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
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("wit/job.wit"));
    let job = above.into_iter().find(|file| file.is_file()).expect("the package lies in the repository");
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
