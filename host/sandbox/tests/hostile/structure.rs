//! Guests whose structure costs the host what no limit of memory counts, in each way that the host runs guests.

use leasehold_sandbox::{Allocation, FailureKind, PluginError, Refusal, Sandbox, SandboxSettings};

use crate::support::bombs::{many_instances, with_component};
use crate::support::watch::Watch;
use crate::support::*;
use crate::watch::tight;

/// More guests than a process has address space for: there is no pool.
fn without_pool() -> Sandbox {
    let sandbox = Sandbox::new(SandboxSettings { max_guests: 1_000_000, ..settings() }).expect("a sandbox");
    assert_eq!(sandbox.allocation(), Allocation::OnDemand);
    sandbox
}

/// Guests with more instances, memories and tables than one may have.
fn demanding() -> [(&'static str, Vec<u8>); 4] {
    let globals = "(global i64 (i64.const 0))".repeat(2_000);
    let tables = "(table 1 funcref)".repeat(65);
    [
        ("instances", many_instances(&guest("", ""), 65, "")),
        ("large instances", many_instances(&guest("", ""), 65, &globals)),
        ("memories", many_instances(&guest("", ""), 33, "(memory 0)")),
        ("tables", many_instances(&guest("", ""), 1, &tables)),
    ]
}

#[tokio::test]
async fn a_guest_of_more_instances_memories_or_tables_than_one_may_have_is_refused_metered_or_not() {
    let sandbox = sandbox();
    for (what, bytes) in demanding() {
        let plain = sandbox.load_bytes("acme", bytes.clone()).await.expect_err(what);
        let metered = sandbox.load_bytes_metered("acme", bytes).await.expect_err(what);
        for refused in [plain, metered] {
            assert!(
                matches!(&refused, PluginError::Refused(Refusal::Demanding { .. } | Refusal::TooComplex { .. })),
                "{what}: {refused:?}"
            );
        }
    }
}

#[tokio::test]
async fn large_instances_are_refused_metered_or_not_though_there_are_few() {
    let sandbox = sandbox();
    // 32 times 9 999 places of 16 bytes are five times the 1 MiB that a guest may have.
    let bytes = many_instances(&guest("", ""), 32, &"(global i64 (i64.const 0))".repeat(9_999));
    for metered in [false, true] {
        let bytes = bytes.clone();
        let loaded = match metered {
            false => sandbox.load_bytes("acme", bytes).await,
            true => sandbox.load_bytes_metered("acme", bytes).await,
        };
        let refused = loaded.expect_err("it is too large");
        assert!(matches!(&refused, PluginError::Refused(Refusal::Demanding { .. })), "{metered}: {refused:?}");
    }
}

#[tokio::test]
async fn without_a_pool_a_guest_beyond_the_same_bounds_is_not_started() {
    let sandbox = without_pool();
    for (what, bytes) in demanding() {
        for metered in [false, true] {
            let bytes = bytes.clone();
            let loaded = match metered {
                false => sandbox.load_bytes("acme", bytes).await,
                true => sandbox.load_bytes_metered("acme", bytes).await,
            };
            let plugin = loaded.unwrap_or_else(|refused| panic!("{what}: {refused}"));
            let watch = Watch::start();
            let ended = sandbox.start(&plugin, invocation(tight())).await;
            assert_eq!(failure(&ended).kind, FailureKind::Start, "{what} {metered}: {}", failure(&ended));
            assert!(failure(&ended).message.contains("count too high"), "{what} {metered}: {}", failure(&ended));
            watch.assert_flat(tight().memory);
        }
    }
}

#[tokio::test]
async fn more_globals_than_a_guest_may_have_are_too_complex() {
    let globals = "(global i64 (i64.const 0))".repeat(10_000);
    let refused = sandbox().load_bytes("acme", guest(&globals, "")).await.expect_err("and the guest's own");
    assert!(matches!(&refused, PluginError::Refused(Refusal::TooComplex { .. })), "{refused:?}");
    assert!(refused.to_string().contains("globals"), "{refused}");
}

#[tokio::test]
async fn more_imports_of_core_modules_than_a_guest_may_have_are_too_complex() {
    let imports = "(import \"a\" \"b\" (func))".repeat(10_001);
    let refused = sandbox().load_bytes("acme", many_instances(&guest("", ""), 0, &imports)).await;
    let refused = refused.expect_err("and the guest's own");
    assert!(refused.to_string().contains("imports of core modules"), "{refused}");
}

#[tokio::test]
async fn element_segments_that_every_instance_would_keep_are_too_complex() {
    // What filled a host's memory: sixty instances of a module with 200 000 items, in a file of 200 KB.
    let functions = format!("(table 1 funcref) (func $f) (elem func {})", "$f ".repeat(200_000));
    let nulls = format!("(elem funcref {})", "(ref.null func) ".repeat(1_001));
    let halves = format!("(elem funcref {})", "(ref.null func) ".repeat(501)).repeat(2);
    let sandbox = sandbox();
    for (items, count) in [(functions, 60), (nulls, 1), (halves, 1)] {
        let bytes = many_instances(&guest("", ""), count, &items);
        let refused = sandbox.load_bytes("acme", bytes).await.expect_err("too many items");
        assert!(matches!(&refused, PluginError::Refused(Refusal::TooComplex { .. })), "{refused:?}");
        assert!(refused.to_string().contains("passive element segments"), "{refused}");
    }
}

#[tokio::test]
async fn types_that_fill_the_host_s_memory_are_too_complex() {
    // What took sixty times its size, in a plugin that is never run.
    let ty = |n: usize| {
        let params: String = (0..14).map(|bit| if n >> bit & 1 == 1 { "i64 " } else { "i32 " }).collect();
        format!("(type (func (param {params})))")
    };
    let types: String = (0..12_000).map(ty).collect();
    let refused = sandbox().load_bytes("acme", many_instances(&guest("", ""), 0, &types)).await;
    let refused = refused.expect_err("too many bytes");
    assert!(matches!(&refused, PluginError::Refused(Refusal::TooComplex { .. })), "{refused:?}");
    assert!(refused.to_string().contains("bytes of types"), "{refused}");
}

#[tokio::test]
async fn as_many_element_items_as_a_guest_may_have_cost_the_host_no_more_than_they_are_worth() {
    let items = format!("(elem funcref {})", "(ref.null func) ".repeat(1_000));
    let body = "(call $update (i64.const 1) (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0))
        (drop (call $sleep (i64.const 3600000)))";
    let plain = guest(&format!("{UPDATE} {SLEEP}"), body);
    let sandbox = sandbox();
    let plugin = load(&sandbox, many_instances(&plain, 60, &items)).await;
    let watch = Watch::start();
    let running: Vec<_> = (0..8).map(|_| sandbox.start(&plugin, invocation(tight()))).collect();
    for execution in &running {
        is_there(execution).await;
    }
    // A MiB of items for each; the memory of all is charged and counts for itself.
    watch.assert_flat(sandbox.memory().used() + (8 << 20));
}

#[tokio::test]
async fn active_segments_and_declared_ones_cost_nothing_for_each_instance_and_are_taken() {
    let items = "(table $all 5000 funcref) (func $f)";
    let active = format!("(elem (table $all) (i32.const 0) func {})", "$f ".repeat(5_000));
    let declared = format!("(elem declare func {})", "$f ".repeat(5_000));
    let plugin = load(&sandbox(), guest(&format!("{items} {active} {declared}"), "")).await;
    assert!(plugin.size() > 10_000);
}

#[tokio::test]
async fn components_that_instantiate_each_other_over_and_over_are_too_complex() {
    let ones = "(instance (instantiate $one))".repeat(100);
    let tens = "(instance (instantiate $ten))".repeat(11);
    let text =
        format!("(component (component $one) (component $ten (alias outer 1 $one (component $one)) {ones}) {tens})");
    let bytes = with_component(&guest("", ""), &text);
    let refused = sandbox().load_bytes("acme", bytes).await.expect_err("eleven hundred instances");
    assert!(refused.to_string().contains("instances of components"), "{refused}");
}
