//! Small plugins, made from text.

use super::Flood;

/// Returns its input.
pub(super) fn echo() -> Vec<u8> {
    plugin("", "", "", "")
}

/// As small as [`echo`], and another for each number: nobody has compiled it yet.
pub(super) fn fresh(number: u32) -> Vec<u8> {
    plugin("", "", "", &format!("(drop (i32.const {number}))"))
}

/// As [`echo`], with as much code as an interpreter of another language has.
pub(super) fn large() -> Vec<u8> {
    let function = |n: u32| {
        let step =
            |i: u32| format!("(local.set 0 (i64.div_s (local.get 0) (i64.const {})))", 3 + (n * 1_000 + i) % 99_991);
        let body: String = (0..1_000).map(step).collect();
        format!("(func (export \"f{n}\") (param i64) (result i64) {body} (local.get 0))")
    };
    plugin("", "", &(0..500).map(function).collect::<String>(), "")
}

/// Asks whether it may go on until it may not.
pub(super) fn polls() -> Vec<u8> {
    let import = r#"(import "leasehold:job/control@0.1.0" (instance $control
        (export "should-continue" (func (result bool)))))
      (core func $ask (canon lower (func $control "should-continue")))"#;
    let core = r#"(import "host" "ask" (func $ask (result i32)))"#;
    plugin(import, r#"(export "ask" (func $ask))"#, core, "(loop $again (br_if $again (call $ask)))")
}

/// Never asks and never ends.
pub(super) fn spins() -> Vec<u8> {
    plugin("", "", "", "(loop $forever (br $forever))")
}

/// Waits in a host call for longer than anyone does.
pub(super) fn waits() -> Vec<u8> {
    let import = format!(
        r#"{CLOCK} (core func $timer (canon lower (func $clock "subscribe-duration")))
        (core func $block (canon lower (func $poll "[method]pollable.block")))"#
    );
    let core = r#"(import "host" "timer" (func $timer (param i64) (result i32)))
        (import "host" "block" (func $block (param i32)))"#;
    let exports = r#"(export "timer" (func $timer)) (export "block" (func $block))"#;
    plugin(&import, exports, core, "(call $block (call $timer (i64.const -1)))")
}

/// Has too much of something, without end.
pub(super) fn floods(flood: Flood) -> Vec<u8> {
    match flood {
        Flood::Stdout => {
            let import = format!(
                r#"{STDOUT} (core func $out (canon lower (func $stdout "get-stdout")))
                (core func $write (canon lower (func $streams "[method]output-stream.blocking-write-and-flush")
                    (memory $memory) (realloc $realloc)))"#
            );
            let core = r#"(import "host" "out" (func $out (result i32)))
                (import "host" "write" (func $write (param i32 i32 i32 i32)))"#;
            let exports = r#"(export "out" (func $out)) (export "write" (func $write))"#;
            let body = "(local.set $i (call $out))
                (loop $more (call $write (local.get $i) (i32.const 4096) (i32.const 4000) (i32.const 2048)) (br $more))";
            plugin(&import, exports, core, body)
        }
        Flood::Log => {
            let import = format!(
                r#"{LOG} (core func $emit (canon lower (func $log "emit") (memory $memory) (realloc $realloc)))"#
            );
            let core = r#"(import "host" "emit" (func $emit (param i32 i32 i32 i32 i32 i32 i32)))"#;
            let body = "(loop $more
                (call $emit (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 4096) (i32.const 8000) (i32.const 0) (i32.const 0))
                (br $more))";
            plugin(&import, r#"(export "emit" (func $emit))"#, core, body)
        }
        Flood::Handles => {
            let import = format!(r#"{CLOCK} (core func $timer (canon lower (func $clock "subscribe-duration")))"#);
            let core = r#"(import "host" "timer" (func $timer (param i64) (result i32)))"#;
            let body = "(loop $more (drop (call $timer (i64.const -1))) (br $more))";
            plugin(&import, r#"(export "timer" (func $timer))"#, core, body)
        }
        Flood::Random => {
            let import = r#"(import "wasi:random/random@0.2.0" (instance $random
                (export "get-random-bytes" (func (param "len" u64) (result (list u8))))))
              (core func $random (canon lower (func $random "get-random-bytes") (memory $memory) (realloc $realloc)))"#;
            let core = r#"(import "host" "random" (func $random (param i64 i32)))"#;
            // The same memory again and again: it is the host's that is to grow.
            let body = "(loop $more
                (global.set $next (i32.const 65536)) (call $random (i64.const 65536) (i32.const 2048)) (br $more))";
            plugin(import, r#"(export "random" (func $random))"#, core, body)
        }
        Flood::Result => {
            let body = "(drop (memory.grow (i32.const 100)))
                (return (call $ok (i32.const 0) (i32.mul (memory.size) (i32.const 65536))))";
            plugin("", "", "", body)
        }
    }
}

const CLOCK: &str = r#"(import "wasi:io/poll@0.2.0" (instance $poll
    (export "pollable" (type $pollable (sub resource)))
    (export "[method]pollable.block" (func (param "self" (borrow $pollable))))))
  (alias export $poll "pollable" (type $pollable))
  (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock
    (alias outer 1 $pollable (type $outer)) (export "pollable" (type $pollable (eq $outer)))
    (export "subscribe-duration" (func (param "when" u64) (result (own $pollable))))))"#;

const LOG: &str = r#"(import "leasehold:job/log@0.1.0" (instance $log
    (type $all (enum "trace" "debug" "info" "warn" "error")) (export "level" (type $level (eq $all)))
    (export "emit" (func (param "level" $level) (param "target" string) (param "message" string)
      (param "fields" (list (tuple string string)))))))"#;

const STDOUT: &str = r#"(import "wasi:io/error@0.2.0" (instance $errors (export "error" (type (sub resource)))))
  (alias export $errors "error" (type $io-error))
  (import "wasi:io/streams@0.2.0" (instance $streams
    (alias outer 1 $io-error (type $outer)) (export "error" (type $error (eq $outer)))
    (export "output-stream" (type $stream (sub resource)))
    (type $all (variant (case "last-operation-failed" (own $error)) (case "closed")))
    (export "stream-error" (type $stream-error (eq $all)))
    (export "[method]output-stream.blocking-write-and-flush"
      (func (param "self" (borrow $stream)) (param "contents" (list u8)) (result (result (error $stream-error)))))))
  (alias export $streams "output-stream" (type $stream))
  (import "wasi:cli/stdout@0.2.0" (instance $stdout
    (alias outer 1 $stream (type $outer)) (export "output-stream" (type $stream (eq $outer)))
    (export "get-stdout" (func (result (own $stream))))))"#;

/// The contract's types, as a component spells them.
const TYPES: &str = r#"
  (type $facts (record (field "run-id" string) (field "tenant" string) (field "job" string) (field "slot-ms" u64)
    (field "attempt" u32) (field "max-attempts" u32) (field "fence" u64) (field "reason" string)
    (field "metadata" (list (tuple string string)))))
  (type $about (record (field "code" string) (field "message" string) (field "details" (list (tuple string string)))))"#;

/// A component that exports the contract's handler. It lowers `imports` to core functions, given to its core module by
/// `given`, which takes them by `core`; `body` comes before the input is returned.
fn plugin(imports: &str, given: &str, core: &str, body: &str) -> Vec<u8> {
    let text = format!(
        r#"(component
  (core module $Memory
    (memory (export "memory") 2)
    (global $next (export "next") (mut i32) (i32.const 65536))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      (local $at i32)
      (local.set $at (i32.and (i32.add (global.get $next) (i32.const 7)) (i32.const -8)))
      (global.set $next (i32.add (local.get $at) (local.get 3)))
      (local.get $at)))
  (core instance $memory (instantiate $Memory))
  (alias core export $memory "memory" (core memory $memory))
  (alias core export $memory "realloc" (core func $realloc))
  {imports}
  (core module $Main
    (import "memory" "memory" (memory 2))
    (import "memory" "next" (global $next (mut i32)))
    {core}
    (func $ok (param $at i32) (param $len i32) (result i32)
      (i32.store8 (i32.const 16) (i32.const 0))
      (i32.store (i32.const 20) (local.get $at)) (i32.store (i32.const 24) (local.get $len))
      (i32.const 16))
    (func (export "handle")
      (param i32 i32 i32 i32 i32 i32 i64 i32 i32 i64 i32 i32 i32 i32 i32 i32) (result i32)
      (local $i i32)
      {body}
      (call $ok (local.get 14) (local.get 15))))
  (core instance $host {given})
  (core instance $main (instantiate $Main (with "memory" (instance $memory)) (with "host" (instance $host))))
  (import "leasehold:job/types@0.1.0" (instance $types
    {TYPES}
    (export "run-info" (type (eq $facts)))
    (export "error-info" (type $named-about (eq $about)))
    (type $all (variant (case "retryable" $named-about) (case "permanent" $named-about) (case "cancelled")))
    (export "handler-error" (type (eq $all)))))
  (alias export $types "run-info" (type $facts))
  (alias export $types "error-info" (type $about))
  (alias export $types "handler-error" (type $error))
  (type $handle (func (param "run" $facts) (param "input" (list u8)) (result (result (list u8) (error $error)))))
  (func $handle (type $handle)
    (canon lift (core func $main "handle") (memory $memory) (realloc $realloc)))
  (component $Handler
    {TYPES}
    (import "facts" (type $run-info (eq $facts)))
    (import "about" (type $error-info (eq $about)))
    (type $all (variant (case "retryable" $error-info) (case "permanent" $error-info) (case "cancelled")))
    (import "error" (type $handler-error (eq $all)))
    (import "handle" (func $handle (param "run" $run-info) (param "input" (list u8))
      (result (result (list u8) (error $handler-error)))))
    (export $shown-run "run-info" (type $run-info))
    (export $shown-info "error-info" (type $error-info))
    (export $shown-error "handler-error" (type $handler-error))
    (export "handle" (func $handle) (func (param "run" $shown-run) (param "input" (list u8))
      (result (result (list u8) (error $shown-error))))))
  (instance $handler (instantiate $Handler
    (with "facts" (type $facts)) (with "about" (type $about)) (with "error" (type $error))
    (with "handle" (func $handle))))
  (export "leasehold:job/handler@0.1.0" (instance $handler)))"#
    );
    wat::parse_str(&text).unwrap_or_else(|error| panic!("the benchmark's guest is no component: {error}"))
}

#[cfg(test)]
mod tests {
    use wasmparser::Validator;

    use super::*;
    use crate::inspect::inspect;

    #[test]
    fn every_guest_is_a_plugin() {
        let floods = [Flood::Stdout, Flood::Log, Flood::Handles, Flood::Random, Flood::Result].map(floods);
        for bytes in [echo(), fresh(1), large(), polls(), spins(), waits()].into_iter().chain(floods) {
            Validator::new().validate_all(&bytes).expect("it is valid");
            assert_eq!(inspect(&bytes).verdict, Ok(()));
        }
    }
}
