//! Guests whose structure costs the host what no limit of memory counts, in each way that the host runs guests.

use leasehold_sandbox::{Allocation, FailureKind, PluginError, Refusal, Sandbox, SandboxSettings};

use crate::support::bombs::many_instances;
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
