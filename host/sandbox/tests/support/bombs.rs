//! Components that are small and valid, and ask a compiler for more than anybody has. Made, never stored.

// Each test file that includes this one uses a part of it.
#![allow(dead_code, unreachable_pub)]

use std::fmt::Write;

/// A function whose compile time is superlinear: nested loops that carry all its locals around. Core WebAssembly text, for the
/// items of a guest.
pub fn nested_loops(loops: usize, locals: usize) -> String {
    let mut text = format!("(func (local {})\n", "i32 ".repeat(locals));
    text.push_str(&"loop\n".repeat(loops));
    for local in 0..locals {
        let _infallible = writeln!(text, "local.get {local} i32.const 1 i32.add local.set {}", (local + 1) % locals);
    }
    text.push_str(&"local.get 0 br_if 0 end\n".repeat(loops));
    text.push(')');
    text
}

/// Functions that do nothing, as many as asked for.
pub fn empty_functions(count: usize) -> String {
    "(func)".repeat(count)
}

/// Distinct functions with much code, so that machine code is large beside its source.
pub fn much_code(functions: usize, instructions: usize) -> String {
    let function = |n: usize| {
        let body: String = (0..instructions)
            .map(|i| {
                format!("local.get 0 i64.const {} i64.div_s local.set 0\n", 3 + (n * instructions + i) % 1_000_003)
            })
            .collect();
        format!("(func (export \"f{n}\") (param i64) (result i64)\n{body}local.get 0)")
    };
    (0..functions).map(function).collect()
}

/// A plugin with a tail of a few hundred bytes: `depth` components, each of which instantiates the one before twice.
pub fn doubling_components(plugin: &[u8], depth: usize) -> Vec<u8> {
    let mut text =
        String::from("(component\n(component $c0 (core module $m (func)) (core instance (instantiate $m)))\n");
    for n in 1..=depth {
        let made = format!("(instance (instantiate $c{}))", n - 1);
        let _infallible = writeln!(text, "(component $c{n} {made} {made})");
    }
    let _infallible = writeln!(text, "(instance (instantiate $c{depth})))");
    with_instance_of(plugin, &wat::parse_str(&text).expect("the text is a component"))
}

/// A plugin with one more module in it, of which it makes this many instances.
pub fn many_instances(plugin: &[u8], count: usize, module: &str) -> Vec<u8> {
    let instances = "(core instance (instantiate $m))".repeat(count);
    let text = format!("(component (core module $m {module}) {instances})");
    with_instance_of(plugin, &wat::parse_str(&text).expect("the text is a component"))
}

/// A plugin with one more module in it: [`nested_loops`].
pub fn with_nested_loops(plugin: &[u8], loops: usize, locals: usize) -> Vec<u8> {
    let text = format!("(component (core module {}))", nested_loops(loops, locals));
    with_instance_of(plugin, &wat::parse_str(&text).expect("the text is a component"))
}

/// The plugin, with an instance of another component in it, in the text format.
pub fn with_component(plugin: &[u8], text: &str) -> Vec<u8> {
    with_instance_of(plugin, &wat::parse_str(text).expect("the text is a component"))
}

/// The plugin, with this many instances of one more module in it.
pub fn with_instances(plugin: &[u8], module: &str, count: usize) -> Vec<u8> {
    let text = format!("(component (core module $m {module}) {})", "(core instance (instantiate $m))".repeat(count));
    with_instance_of(plugin, &wat::parse_str(&text).expect("the text is a component"))
}

/// The plugin, with an instance of another component in it.
fn with_instance_of(plugin: &[u8], component: &[u8]) -> Vec<u8> {
    const COMPONENT_SECTION: u8 = 4;
    const INSTANCE_SECTION: u8 = 5;
    let (mut depth, mut index) = (0, 0);
    for payload in wasmparser::Parser::new(0).parse_all(plugin) {
        match payload.expect("the plugin is sound") {
            wasmparser::Payload::ModuleSection { .. } => depth += 1,
            wasmparser::Payload::ComponentSection { .. } => {
                index += u32::from(depth == 0);
                depth += 1;
            }
            wasmparser::Payload::End(_) => depth -= 1,
            _ => {}
        }
    }
    let mut bytes = plugin.to_vec();
    section(&mut bytes, COMPONENT_SECTION, component);
    // One instance, of the component with this index, without arguments.
    let mut instance = vec![1, 0];
    leb(&mut instance, index);
    instance.push(0);
    section(&mut bytes, INSTANCE_SECTION, &instance);
    bytes
}

fn section(bytes: &mut Vec<u8>, id: u8, content: &[u8]) {
    bytes.push(id);
    leb(bytes, u32::try_from(content.len()).expect("a small section"));
    bytes.extend_from_slice(content);
}

fn leb(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}
