//! What is written beside a run: numbers, quotas, compare-and-set, and what is counted.

use super::*;
use crate::write::{ENTRY, LastWrite};

fn set(key: &str, value: &[u8]) -> Change {
    Change::KvSet { key: key.into(), value: value.to_vec() }
}

fn around(stored: u64, present: Option<&[u8]>) -> Around {
    Around { stored, present: present.map(<[u8]>::to_vec) }
}

const WRITE: WriteAnswer = WriteAnswer { written: Written::Done, carry_out: true };

fn only(written: Written) -> WriteAnswer {
    WriteAnswer { written, carry_out: false }
}

#[test]
fn a_compare_and_set_sent_again_gets_the_first_answer() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    let cas = |expected: Option<&[u8]>| Change::KvCompareAndSet {
        key: "k".into(),
        expected: expected.map(<[u8]>::to_vec),
        value: b"new".to_vec(),
    };
    assert_eq!(store.change(&run, 1, 1, cas(None), &around(0, None)), WRITE);
    // By now the value is there; the answer to the first copy was lost.
    let again = store.unchanged(|s| s.change(&run, 1, 1, cas(None), &around(70, Some(b"new"))));
    assert_eq!(again, only(Written::Done));
    assert_eq!(store.change(&run, 1, 2, cas(Some(b"old")), &around(70, Some(b"new"))), only(Written::NotDone));
    let again = store.unchanged(|s| s.change(&run, 1, 2, cas(Some(b"old")), &around(70, Some(b"old"))));
    assert_eq!(again, only(Written::NotDone), "it was told so, and must not be done now");
}

#[test]
fn a_delete_tells_whether_there_was_something() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    let delete = || Change::KvDelete { key: "k".into() };
    assert_eq!(store.change(&run, 1, 1, delete(), &around(70, Some(b"v"))), WRITE);
    assert_eq!(store.unchanged(|s| s.change(&run, 1, 1, delete(), &around(0, None))), only(Written::Done));
    assert_eq!(store.change(&run, 1, 2, delete(), &around(0, None)), only(Written::NotDone));
}

#[test]
fn a_value_or_key_over_its_limit_is_too_large() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    assert_eq!(store.change(&run, 1, 1, set("k", &[0; 100]), &around(0, None)), WRITE);
    assert_eq!(store.change(&run, 1, 2, set("k", &[0; 101]), &around(0, None)), only(Written::TooLarge));
    assert_eq!(store.change(&run, 1, 3, set(&"k".repeat(512), b""), &around(0, None)), WRITE);
    assert_eq!(store.change(&run, 1, 4, set(&"k".repeat(513), b""), &around(0, None)), only(Written::TooLarge));
    assert_eq!(store.save(&run, 1, 5, &[0; 101]), only(Written::TooLarge));
}

#[test]
fn a_full_tenant_may_replace_and_delete_but_not_grow() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    // One byte of key, one of value, and the entry.
    assert_eq!(store.change(&run, 1, 1, set("k", b"v"), &around(934, None)), WRITE);
    assert_eq!(store.change(&run, 1, 2, set("k", b"v"), &around(935, None)), only(Written::OverQuota));
    assert_eq!(store.change(&run, 1, 3, set("k", b"w"), &around(1_000, Some(b"v"))), WRITE);
    assert_eq!(store.change(&run, 1, 4, set("k", b"ww"), &around(1_000, Some(b"v"))), only(Written::OverQuota));
    assert_eq!(store.change(&run, 1, 5, set("k", b"v"), &around(5_000, Some(b"vv"))), WRITE, "it shrinks");
    assert_eq!(store.change(&run, 1, 6, Change::KvDelete { key: "k".into() }, &around(5_000, Some(b"v"))), WRITE);
}

#[test]
fn a_refusal_for_want_of_room_is_not_undone_by_a_late_copy() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    assert_eq!(store.change(&run, 1, 1, set("k", b"v"), &around(1_000, None)), only(Written::OverQuota));
    let copy = store.unchanged(|s| s.change(&run, 1, 1, set("k", b"v"), &around(0, None)));
    assert_eq!(copy, only(Written::OverQuota));
}

#[test]
fn log_and_effects_are_numbered_apart() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    assert_eq!(store.change(&run, 1, 7, set("k", b"v"), &around(0, None)), WRITE);
    assert_eq!(store.write(&run, 1, 1), Written::Done);
    let attempt = store.run(&run).current().expect("it runs").clone();
    assert_eq!(attempt.last_write, LastWrite { number: 7, written: Written::Done });
    assert_eq!(attempt.last_log, LastWrite { number: 1, written: Written::Done });
}

#[test]
fn a_checkpoint_goes_at_the_final_status_and_stays_for_the_next_attempt() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    assert_eq!(store.save(&run, 1, 1, &[0; 10]), WRITE);
    assert_eq!((store.run(&run).state_size, store.job.stored), (Some(10), 10 + ENTRY));
    assert_eq!(store.save(&run, 1, 2, &[0; 4]), WRITE);
    assert_eq!((store.run(&run).state_size, store.job.stored), (Some(4), 4 + ENTRY));
    store.go(31);
    store.take_over(0, 2);
    assert_eq!(store.run(&run).state_size, Some(4));
    store.finish(&run, 2, success());
    assert_eq!(store.run(&run).state_size, None);
}

#[test]
fn every_way_to_a_final_status_drops_the_checkpoint() {
    let ways: [fn(&mut Store); 4] = [
        |store| assert_eq!(store.cancel(&slot(0)), CancelAnswer::Interrupted),
        |store| assert_won(&store.claim(31, 2), 1),
        |store| {
            store.terms.max_attempts = 1;
            assert_eq!(store.take_over(0, 2), ClaimAnswer::Ended(Status::Interrupted));
        },
        |store| {
            store.go(100);
            assert_eq!(store.close(&slot(0)), CloseAnswer::Closed);
        },
    ];
    for way in ways {
        let mut store = Store::new();
        let run = store.running(0, 1);
        store.save(&run, 1, 1, b"data");
        store.go(31);
        way(&mut store);
        assert_eq!((store.run(&run).state_size, store.job.stored), (None, 0));
    }
}

#[test]
fn log_and_output_are_counted_until_the_run_is_pruned() {
    let mut store = Store::new();
    let run = store.running(0, 1);
    store.write(&run, 1, 1);
    assert_eq!(store.job.stored, 1 + ENTRY);
    store.finish(&run, 1, success());
    let output = match success() {
        Outcome::Success { output, .. } => output.len() as u64,
        _ => unreachable!("a success has an output"),
    };
    assert!(output > 0, "or it would not be counted");
    assert_eq!(store.job.stored, 1 + ENTRY + output + ENTRY);
    store.go(1_000);
    assert_eq!(store.prune(0), vec![run]);
    assert_eq!(store.job.stored, 0);
}
