//! Guests that want all memory.

use std::sync::Arc;

use leasehold_sandbox::{Execution, FailureKind, Limits, Plugin, Refusal, Sandbox, SandboxSettings};

use crate::support::bombs::with_instances;
use crate::support::*;
use crate::watch::{hostile, tight};

const GROW: &str = "(loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) (unreachable)";

#[tokio::test]
async fn growing_one_memory_beyond_the_limit_is_memory() {
    let ended = hostile(guest("", GROW), tight()).await;
    let failure = failure(&ended);
    assert_eq!(failure.kind, FailureKind::Memory, "{failure}");
    assert!(
        failure.message.contains("than the 8 MiB of memory it may have (memory)") && !failure.message.contains("trap"),
        "{failure}"
    );
    assert!(ended.usage.peak_memory > 7 << 20 && ended.usage.peak_memory <= 8 << 20);
}

#[tokio::test]
async fn a_stack_that_overflows_after_growth_was_refused_is_memory() {
    let recurse = "(func $recurse (call $recurse))";
    let body = GROW.replace("(unreachable)", "(call $recurse)");
    let ended = hostile(guest(recurse, &body), tight()).await;
    assert_eq!(failure(&ended).kind, FailureKind::Memory, "{}", failure(&ended));
}

#[tokio::test]
async fn growing_thirty_two_memories_counts_their_sum() {
    let more: String = (1..32).map(|n| format!("(memory $m{n} 1)")).collect();
    // Each page is written to, so that the system must really give it.
    let grow: String = (1..32)
        .map(|n| {
            format!(
                "(br_if $out (i32.eq (memory.grow $m{n} (i32.const 1)) (i32.const -1)))
                 (memory.fill $m{n} (i32.const 0) (i32.const 7) (i32.mul (memory.size $m{n}) (i32.const 65536)))"
            )
        })
        .collect();
    let body = format!("(block $out (loop $more {grow} (br $more))) (unreachable)");
    let bytes = component(&core_module("", &format!("{MEMORY} {more}"), &body), &contract(), "guest");
    let ended = hostile(bytes, tight()).await;
    assert_eq!(failure(&ended).kind, FailureKind::Memory, "{}", failure(&ended));
    assert!(ended.usage.peak_memory > 7 << 20 && ended.usage.peak_memory <= 8 << 20, "{:?}", ended.usage);
}

#[tokio::test]
async fn a_guest_with_more_memories_than_the_pool_has_for_one_is_refused() {
    let more: String = (1..40).map(|n| format!("(memory $m{n} 1)")).collect();
    let bytes = component(&core_module("", &format!("{MEMORY} {more}"), ""), &contract(), "guest");
    let refused = sandbox().load_bytes("acme", bytes).await.expect_err("32 are the most");
    assert!(refused.to_string().contains("40"), "{refused}");
}

#[tokio::test]
async fn each_instance_of_a_module_is_charged_with_its_memory_and_its_table() {
    // A MiB of memory and 8 KiB of table each: 31 of them and what the guest has itself.
    let bytes = with_instances(&guest("", ""), "(memory 16) (table 1024 funcref)", 31);
    let sandbox = sandbox();
    let plugin = load(&sandbox, bytes).await;
    let ended = sandbox.start(&plugin, invocation(Limits { memory: 64 << 20, ..tight() })).await;
    assert_eq!(output(&ended), b"done");
    let least = 31 * ((1 << 20) + 1024 * size_of::<usize>());
    assert!((least..least + (1 << 20)).contains(&ended.usage.peak_memory), "{:?}", ended.usage);
    let ended = sandbox.start(&plugin, invocation(tight())).await;
    assert_eq!(failure(&ended).kind, FailureKind::Memory, "{}", failure(&ended));
    assert!(ended.usage.peak_memory <= 8 << 20, "{:?}", ended.usage);
    assert_eq!(sandbox.memory().used(), 0);
}

#[tokio::test]
async fn a_guest_with_more_instances_or_memories_than_one_may_have_is_refused() {
    for (module, count) in [("", 100), ("(memory 1)", 40)] {
        let bytes = with_instances(&guest("", ""), module, count);
        let refused = sandbox().load_bytes("acme", bytes).await.expect_err("too many of them");
        let is_demanding = matches!(&refused, leasehold_sandbox::PluginError::Refused(Refusal::Demanding { .. }));
        assert!(is_demanding, "{module} {count}: {refused:?}");
    }
}

#[tokio::test]
async fn a_growing_table_counts_as_memory() {
    let table = "(table $t 0 funcref)";
    let body = "(loop $more (br_if $more (i32.ne (table.grow $t (ref.null func) (i32.const 1000)) (i32.const -1))))
                (unreachable)";
    let ended = hostile(guest(table, body), Limits { memory: 512 << 10, ..tight() }).await;
    assert_eq!(failure(&ended).kind, FailureKind::Memory, "{}", failure(&ended));
}

#[tokio::test]
async fn a_table_that_is_huge_from_the_start_is_refused() {
    let refused =
        sandbox().load_bytes("acme", guest("(table $t 10000000 funcref)", "")).await.expect_err("80 MB of table");
    assert!(matches!(&refused, leasehold_sandbox::PluginError::Refused(Refusal::Demanding { .. })), "{refused:?}");
}

/// Grows its memory to about 5 MiB, says so, and waits.
fn holds_five() -> Vec<u8> {
    let body = "(drop (memory.grow (i32.const 80)))
        (call $update (i64.const 1) (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0))
        (drop (call $sleep (i64.const 3600000)))";
    guest(&format!("{UPDATE} {SLEEP}"), body)
}

fn start_for(sandbox: &Sandbox, plugin: &Arc<Plugin>, tenant: &str, tenant_memory: Option<usize>) -> Execution {
    let mut invocation = invocation(tight());
    invocation.run.tenant = tenant.to_owned();
    invocation.tenant_memory = tenant_memory;
    sandbox.start(plugin, invocation)
}

/// Wants about 3 MiB, and would take it for an error of its own if it were refused.
fn wants_three() -> Vec<u8> {
    guest("", "(if (i32.eq (memory.grow (i32.const 48)) (i32.const -1)) (then (unreachable)))")
}

#[tokio::test]
async fn attempts_of_a_tenant_share_its_memory_and_other_tenants_have_theirs() {
    let sandbox = sandbox();
    let holds = load(&sandbox, holds_five()).await;
    let grows = load(&sandbox, guest("", GROW)).await;
    let seven = Some(7 << 20);
    let holding = start_for(&sandbox, &holds, "acme", seven);
    is_there(&holding).await;
    let full = start_for(&sandbox, &grows, "acme", seven).await;
    assert_eq!(failure(&full).kind, FailureKind::NoResources, "{}", failure(&full));
    assert!(failure(&full).message.contains("tenant_memory"), "{}", failure(&full));
    assert!(full.usage.peak_memory <= 2 << 20, "{:?}", full.usage);
    let other = start_for(&sandbox, &grows, "globex", seven).await;
    assert!(failure(&other).message.contains("tenant_memory"), "{}", failure(&other));
    assert_eq!(
        failure(&other).kind,
        FailureKind::Memory,
        "alone in its tenant, it fails by itself: {}",
        failure(&other)
    );
    holding.signal().force();
    holding.await;
    assert_eq!(sandbox.memory().used(), 0);
}

#[tokio::test]
async fn all_guests_share_the_host_s_memory_and_who_wants_no_more_than_its_share_does_not_fail_for_others() {
    let sandbox = Sandbox::new(SandboxSettings { memory: 8 << 20, ..settings() }).expect("a sandbox");
    let holds = load(&sandbox, holds_five()).await;
    let modest = load(&sandbox, wants_three()).await;
    let grows = load(&sandbox, guest("", GROW)).await;
    let all = Some(usize::MAX);
    let holding = start_for(&sandbox, &holds, "acme", all);
    is_there(&holding).await;
    let refused = start_for(&sandbox, &modest, "globex", all).await;
    assert_eq!(failure(&refused).kind, FailureKind::NoResources, "{}", failure(&refused));
    assert!(failure(&refused).message.contains("[host] memory"), "{}", failure(&refused));
    // The greedy one is beyond its share already.
    let greedy = start_for(&sandbox, &grows, "acme", all).await;
    assert_eq!(failure(&greedy).kind, FailureKind::Memory, "{}", failure(&greedy));
    assert!(failure(&greedy).message.contains("[host] memory"), "{}", failure(&greedy));
    holding.signal().force();
    holding.await;
    let ended = start_for(&sandbox, &modest, "globex", all).await;
    assert_eq!(output(&ended), b"done", "there is room again");
}

#[tokio::test]
async fn a_start_that_finds_no_memory_is_a_want_of_the_host_and_no_failure_of_the_guest() {
    let sandbox = Sandbox::new(SandboxSettings { memory: 6 << 20, ..settings() }).expect("a sandbox");
    let holds = load(&sandbox, holds_five()).await;
    let holding = start_for(&sandbox, &holds, "acme", Some(usize::MAX));
    is_there(&holding).await;
    let large = format!("{MEMORY} (memory $more 20)");
    let large = load(&sandbox, component(&core_module("", &large, ""), &contract(), "guest")).await;
    let refused = start_for(&sandbox, &large, "globex", Some(usize::MAX)).await;
    assert_eq!(failure(&refused).kind, FailureKind::NoResources, "{}", failure(&refused));
    holding.signal().force();
    holding.await;
    let ended = start_for(&sandbox, &large, "globex", Some(usize::MAX)).await;
    assert_eq!(output(&ended), b"done", "there is room again");
}

#[tokio::test]
async fn a_guest_that_fills_the_host_from_its_start_function_fails_by_itself() {
    // Were it a want of the host, hosts would hand it to each other for ever.
    let sandbox = Sandbox::new(SandboxSettings { memory: 4 << 20, ..settings() }).expect("a sandbox");
    let items = format!("(func $fill {GROW}) (start $fill)");
    let plugin = load(&sandbox, guest(&items, "")).await;
    let ended = start_for(&sandbox, &plugin, "acme", Some(usize::MAX)).await;
    assert_eq!(failure(&ended).kind, FailureKind::Memory, "{}", failure(&ended));
}

#[tokio::test]
async fn the_pool_has_room_for_as_many_guests_as_the_host_takes_however_many_memories_each_has() {
    let more: String = (1..32).map(|n| format!("(memory $m{n} 1)")).collect();
    let body = "(call $update (i64.const 1) (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0))
        (drop (call $sleep (i64.const 3600000)))";
    let items = format!("{UPDATE} {SLEEP}");
    let sandbox = sandbox();
    let bytes = component(&core_module(&items, &format!("{MEMORY} {more}"), body), &contract(), "guest");
    let plugin = load(&sandbox, bytes).await;
    let all: Vec<_> = (0..settings().max_guests).map(|_| start_for(&sandbox, &plugin, "acme", None)).collect();
    for execution in &all {
        is_there(execution).await;
    }
}
