//! `leasehold exec --watch`: a handler is run again when its file has changed, whatever is in it meanwhile.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use leasehold_tests::Workplace;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A WASI command that says this.
fn says(text: &str) -> Vec<u8> {
    let module = format!(
        r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\10\00\00\00\{:02x}\00\00\00")
  (data (i32.const 16) "{text}")
  (func (export "_start") (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#,
        text.len()
    );
    wat::parse_str(module).expect("a module")
}

/// Ends with its owner.
struct Watching {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Watching {
    fn start(w: &Workplace) -> Watching {
        let mut command = w.command(&["exec", "--watch", "--json", "x.wasm"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("leasehold can be started");
        let lines = BufReader::new(child.stdout.take().expect("it was asked for"));
        Watching { child, lines }
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("it goes on");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("not JSON: {error}: {line}"))
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // It may have ended already, as it does in the test that passes.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_changed_file_is_run_again_until_ctrl_c() {
    let w = Workplace::new("");
    w.write("x.wasm", says("one"));
    let mut watching = Watching::start(&w);
    assert_eq!(watching.next()["output_text"], "one");
    // In place.
    w.write("x.wasm", says("two"));
    assert_eq!(watching.next()["output_text"], "two");
    // What cannot be run is told, and the next change is waited for.
    w.write("x.wasm", "no plugin");
    let refused = watching.next();
    assert!(refused["error"]["message"].as_str().is_some_and(|why| why.contains("text")), "{refused}");
    // Gone, and then another one by rename, as linkers do.
    std::fs::remove_file(w.path().join("x.wasm")).expect("it is there");
    w.write("x.new", says("three"));
    std::fs::rename(w.path().join("x.new"), w.path().join("x.wasm")).expect("it is there");
    assert_eq!(watching.next()["output_text"], "three");
    kill_process(Pid::from_child(&watching.child), Signal::INT).expect("it is there");
    assert_eq!(watching.child.wait().expect("it ends").code(), Some(0));
}
