use super::*;
use crate::attempt::tests::attempt;
use crate::limits::Limits;

fn ledger(limit: usize) -> Arc<MemoryLedger> {
    Arc::new(MemoryLedger::new(limit))
}

fn meter(ledger: &Arc<MemoryLedger>, tenant: &str, memory: usize) -> (Arc<Attempt>, MemoryMeter) {
    let attempt = attempt(Limits { memory, ..Limits::default() });
    let share = MemoryShare::new(ledger.clone(), tenant.to_owned(), None);
    (attempt.clone(), MemoryMeter::new(attempt, share))
}

fn memory(meter: &mut MemoryMeter, current: usize, desired: usize) -> bool {
    meter.memory_growing(current, desired, None).expect("no trap")
}

#[test]
fn memories_and_tables_share_one_limit() {
    let (attempt, mut meter) = meter(&ledger(usize::MAX), "a", 1_000);
    assert!(memory(&mut meter, 0, 600));
    assert!(meter.table_growing(0, 40, None).expect("no trap"));
    assert_eq!(attempt.growth_refused(), None);
    assert!(!memory(&mut meter, 0, 81));
    assert_eq!(attempt.growth_refused(), Some(MemoryFull::Attempt));
    assert_eq!(attempt.peak_memory(), 920);
}

#[test]
fn failing_earns_no_memory() {
    let (_, mut meter) = meter(&ledger(usize::MAX), "a", 1_000);
    assert!(memory(&mut meter, 0, 600));
    meter.memory_grow_failed(wasmtime::format_err!("exceeds the type's limits")).expect("no trap");
    assert!(!memory(&mut meter, 600, 1_001));
}

#[test]
fn growth_beyond_the_memory_s_own_maximum_is_not_our_refusal() {
    let (attempt, mut meter) = meter(&ledger(usize::MAX), "a", 1_000);
    assert!(memory(&mut meter, 0, 600));
    assert!(meter.memory_growing(600, 2_000, Some(700)).expect("no trap"));
    meter.memory_grow_failed(wasmtime::format_err!("beyond its maximum")).expect("no trap");
    assert_eq!(attempt.growth_refused(), None);
    assert!(meter.memory_growing(600, 700, Some(700)).expect("no trap"));
}

/// Refused within its share.
fn wants(meter: &mut MemoryMeter, current: usize, desired: usize) -> bool {
    let grown = meter.memory_growing(current, desired, None);
    grown.is_err_and(|error| error.is::<WantOfMemory>())
}

#[test]
fn a_tenant_has_a_quarter_and_all_tenants_share_the_host_s() {
    let ledger = ledger(1_000);
    let (one, mut first) = meter(&ledger, "a", 1_000);
    let (two, mut second) = meter(&ledger, "a", 1_000);
    assert!(memory(&mut first, 0, 200));
    assert!(!memory(&mut second, 0, 126), "more than half of what its tenant has");
    assert_eq!((one.growth_refused(), two.growth_refused()), (None, Some(MemoryFull::Tenant(250))));
    assert!(wants(&mut second, 0, 51), "less than half of it");
    let others: Vec<_> = ["b", "c", "d"].map(|tenant| meter(&ledger, tenant, 1_000)).into();
    for (_, mut meter) in others {
        assert!(memory(&mut meter, 0, 250), "a quarter each");
        // Kept until the end of the test: what is dropped is given back.
        std::mem::forget(meter);
    }
    let (full, mut last) = meter(&ledger, "e", 1_000);
    assert!(!memory(&mut last, 0, 201), "more than a fifth, and they are five");
    assert_eq!(full.growth_refused(), Some(MemoryFull::Host(1_000)));
    assert!(memory(&mut last, 0, 50) && wants(&mut last, 50, 60));
    assert_eq!(ledger.used(), 1_000);
}

fn greedy(ledger: &Arc<MemoryLedger>, tenant: &str) -> (Arc<Attempt>, MemoryMeter) {
    let attempt = attempt(Limits { memory: 1_000, ..Limits::default() });
    let share = MemoryShare::new(ledger.clone(), tenant.to_owned(), Some(usize::MAX));
    (attempt.clone(), MemoryMeter::new(attempt, share))
}

#[test]
fn who_was_refused_its_share_finds_it_left_to_it_the_next_time() {
    let ledger = ledger(1_000);
    let (_, mut large) = greedy(&ledger, "large");
    assert!(memory(&mut large, 0, 900));
    let (_, mut small) = meter(&ledger, "small", 1_000);
    assert!(memory(&mut small, 0, 50) && wants(&mut small, 50, 200));
    drop((large, small));
    assert!(ledger.state().wanting.is_empty(), "nobody holds anything that could be missing");

    let (_, mut large) = greedy(&ledger, "large");
    let (_, mut other) = greedy(&ledger, "other");
    assert!(memory(&mut large, 0, 510) && memory(&mut other, 0, 250));
    let (_, mut small) = meter(&ledger, "small", 1_000);
    assert!(memory(&mut small, 0, 200) && wants(&mut small, 200, 250));
    drop(small);
    assert!(!memory(&mut large, 510, 551), "the last fifth is left to others");
    let (_, mut less) = meter(&ledger, "small", 1_000);
    assert!(memory(&mut less, 0, 200), "they find it there");
    drop(less);
    assert!(!memory(&mut large, 510, 551), "that was less than what was refused");
    drop(other);
    let (_, mut again) = meter(&ledger, "small", 1_000);
    assert!(memory(&mut again, 0, 250));
    drop(again);
    assert!(memory(&mut large, 510, 1_000), "it has had what it was refused");
}

#[test]
fn what_an_attempt_held_is_given_back_when_it_is_gone() {
    let ledger = ledger(1_000);
    let (_, mut gone) = meter(&ledger, "a", 1_000);
    assert!(memory(&mut gone, 0, 250));
    drop(gone);
    assert_eq!(ledger.used(), 0);
    assert!(ledger.state().tenants.is_empty(), "a tenant without guests is forgotten");
}

#[test]
fn nothing_is_admitted_beyond_four_fifths_of_the_host_or_the_tenant() {
    let ledger = ledger(1_000);
    let (_, mut a) = meter(&ledger, "a", 1_000);
    assert!(memory(&mut a, 0, 190) && ledger.admits("a", None));
    assert!(memory(&mut a, 190, 200) && !ledger.admits("a", None), "a tenant has 250, four fifths of it are 200");
    assert!(ledger.admits("a", Some(1_000)) && ledger.admits("b", None));
    let share = |tenant: &str| MemoryShare::new(ledger.clone(), tenant.to_owned(), Some(1_000));
    let mut b = share("b");
    b.grow(600).expect("there is room");
    assert!(!ledger.admits("c", None), "four fifths of the host are in use");
    drop(b);
    assert!(ledger.admits("c", None));
}
