//! Nothing of an attempt begins while its lease is in doubt, and nothing at all once it is lost.

mod support;

use std::sync::Arc;

use leasehold_sandbox::{Effects, FailureKind, Gate, MemoryStorage, StopReason, Storage, StorageError};
use support::gate::{GateState, ManualGate};
use support::outward::*;
use support::*;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

fn behind(gate: &Arc<ManualGate>, origins: &[&str]) -> Effects {
    let gate: Arc<dyn Gate> = gate.clone();
    Effects { gate, ..granting(origins) }
}

#[tokio::test]
async fn a_request_in_doubt_is_not_begun_before_the_lease_is_certain_again() {
    let sandbox = sandbox();
    for (turn, expected) in [(GateState::Open, "hello"), (GateState::Lost, "E0")] {
        let server = Server::start(Manner::Says(OK.into())).await;
        let gate = Arc::new(ManualGate::new(GateState::InDoubt));
        let execution = start_effects(&sandbox, asking(&get(server.url())), behind(&gate, &[&server.url()])).await;
        gate.was_asked(1).await;
        assert_eq!(server.seen().connections, 0);
        gate.set(turn);
        assert_eq!(output(&execution.await), expected.as_bytes());
        assert_eq!(server.seen().connections, usize::from(turn == GateState::Open));
    }
}

#[tokio::test]
async fn a_request_whose_lease_comes_into_doubt_before_the_head_keeps_its_head_back() {
    let sandbox = sandbox();
    for (turn, expected) in [(GateState::Open, "hello"), (GateState::Lost, "E0")] {
        let server = Server::start(Manner::Says(OK.into())).await;
        let gate = Arc::new(ManualGate::new(GateState::Open));
        gate.turn_at(2, GateState::InDoubt);
        let execution = start_effects(&sandbox, asking(&get(server.url())), behind(&gate, &[&server.url()])).await;
        gate.was_asked(2).await;
        server.until(|seen| seen.connections == 1).await;
        gate.set(turn);
        assert_eq!(output(&execution.await), expected.as_bytes());
        server.until(|seen| seen.ended == 1).await;
        assert_eq!(server.seen().requests.len(), usize::from(turn == GateState::Open));
    }
}

#[tokio::test]
async fn a_request_without_an_answer_is_reset_and_uncertain_when_the_lease_comes_into_doubt() {
    let sandbox = sandbox();
    for turn in [GateState::InDoubt, GateState::Lost] {
        for manner in [Manner::Silent, Manner::Pauses("HTTP/1.1 200", " OK\r\ncontent-length: 0\r\n\r\n")] {
            let server = Server::start(manner).await;
            let gate = Arc::new(ManualGate::new(GateState::Open));
            let execution = start_effects(&sandbox, asking(&get(server.url())), behind(&gate, &[&server.url()])).await;
            server.until(|seen| seen.requests.len() == 1).await;
            gate.set(turn);
            assert_eq!(output(&execution.await), b"E1");
            server.resume();
            server.until(|seen| seen.resets == 1).await;
        }
    }
}

#[tokio::test]
async fn a_body_whose_head_has_arrived_is_read_to_its_end_in_doubt() {
    let sandbox = sandbox();
    // Nothing outside shows when the head has been read. Where the doubt comes first, the request is uncertain, as the test
    // above proves: then with a longer pause.
    for pause in (0..10).map(|n| millis(10 << n)) {
        let server = Server::start(Manner::Pauses("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe", "llo")).await;
        let gate = Arc::new(ManualGate::new(GateState::Open));
        let execution = start_effects(&sandbox, asking(&get(server.url())), behind(&gate, &[&server.url()])).await;
        server.until(|seen| seen.requests.len() == 1).await;
        tokio::time::sleep(pause).await;
        gate.set(GateState::InDoubt);
        server.resume();
        let ended = execution.await;
        if output(&ended) != b"E1" {
            assert_eq!(output(&ended), b"hello");
            return;
        }
    }
    panic!("the head never arrived before the doubt");
}

#[tokio::test]
async fn a_request_that_is_answered_before_it_has_gone_out_goes_no_further_in_doubt() {
    const BODY: usize = 1 << 20;
    let sandbox = sandbox();
    let server = Server::start(Manner::Early("HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\nhello")).await;
    let gate = Arc::new(ManualGate::new(GateState::Open));
    let ask = Ask { method: "POST", body: Some(vec![b'x'; BODY]), ..get(server.url()) };
    let execution = start_effects(&sandbox, asking(&ask), behind(&gate, &[&server.url()])).await;
    // Memories are pages and tables are addresses: the odd bytes are the response's first.
    let answered = async {
        while sandbox.memory().used() % 8 != 5 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(millis(60_000), answered).await.expect("the head and five bytes have arrived");
    gate.set(GateState::InDoubt);
    assert_eq!(output(&execution.await), b"E1");
    server.resume();
    server.until(|seen| seen.ended == 1).await;
    let seen = server.seen();
    assert!(seen.resets == 1 && seen.late_bytes < BODY, "{} resets, {} bytes", seen.resets, seen.late_bytes);
}

#[tokio::test]
async fn a_loss_wakes_every_waiting_request_and_nothing_is_sent_after_it() {
    let sandbox = sandbox();
    // Held before it connects.
    let server = Server::start(Manner::Says(OK.into())).await;
    let gate = Arc::new(ManualGate::new(GateState::InDoubt));
    let execution = start_effects(&sandbox, asking(&get(server.url())), behind(&gate, &[&server.url()])).await;
    gate.was_asked(1).await;
    execution.signal().stop(StopReason::Lost);
    let ended = execution.await;
    assert_eq!((output(&ended), ended.stop), (&b"E0"[..], Some(StopReason::Lost)));
    gate.set(GateState::Open);
    assert_eq!(server.seen().connections, 0);
    // Held between connection and head.
    let gate = Arc::new(ManualGate::new(GateState::Open));
    gate.turn_at(2, GateState::InDoubt);
    let execution = start_effects(&sandbox, asking(&get(server.url())), behind(&gate, &[&server.url()])).await;
    gate.was_asked(2).await;
    execution.signal().stop(StopReason::Lost);
    assert_eq!(output(&execution.await), b"E0");
    server.until(|seen| seen.ended == 1).await;
    assert_eq!(server.seen().requests.len(), 0);
    // On the wire, and after the head.
    for manner in [Manner::Silent, Manner::Trickles("HTTP/1.1 200 OK\r\n\r\n")] {
        let server = Server::start(manner).await;
        let gate = Arc::new(ManualGate::new(GateState::Open));
        let execution = start_effects(&sandbox, asking(&get(server.url())), behind(&gate, &[&server.url()])).await;
        server.until(|seen| seen.requests.len() == 1).await;
        execution.signal().stop(StopReason::Lost);
        assert_eq!(output(&execution.await), b"E1");
        server.until(|seen| seen.ended == 1).await;
    }
}

#[tokio::test]
async fn a_guest_that_waits_for_a_request_is_ended_by_force_wherever_it_waits() {
    let held = Arc::new(ManualGate::new(GateState::InDoubt));
    let server = Server::start(Manner::Says(OK.into())).await;
    let sandbox = sandbox();
    let execution = start_effects(&sandbox, asking(&get(server.url())), behind(&held, &[&server.url()])).await;
    held.was_asked(1).await;
    ends_by_force(execution).await;
    assert_eq!(server.seen().connections, 0);

    let names = Names::new(&[]);
    let url = "http://name.example";
    let sandbox = names.sandbox();
    let execution = start_effects(&sandbox, asking(&get(url)), granting(&[url])).await;
    names.was_asked().await;
    ends_by_force(execution).await;

    for manner in [Manner::Silent, Manner::Trickles("HTTP/1.1 200 OK\r\n\r\n")] {
        let server = Server::start(manner).await;
        let execution = start_effects(&sandbox, asking(&get(server.url())), granting(&[&server.url()])).await;
        server.until(|seen| seen.requests.len() == 1).await;
        ends_by_force(execution).await;
        server.until(|seen| seen.ended == 1).await;
    }
}

#[tokio::test]
async fn writes_wait_for_a_lease_in_doubt_and_reads_do_not() {
    let sandbox = sandbox();
    for (import, params, call, writes) in STORED {
        for turn in [GateState::Open, GateState::Lost] {
            let gate = Arc::new(ManualGate::new(GateState::InDoubt));
            let storage = Arc::new(MemoryStorage::default());
            let effects = Effects { storage: storage.clone(), ..behind(&gate, &[]) };
            let execution = start_effects(&sandbox, calling(import, params, call), effects).await;
            if !writes {
                assert_eq!(output(&execution.await), b"done", "{import}");
                assert_eq!(gate.asked(), 0, "{import}");
                continue;
            }
            gate.was_asked(1).await;
            assert!(is_empty(&storage).await, "{import}");
            gate.set(turn);
            let open = turn == GateState::Open;
            assert_eq!(output(&execution.await), if open { &b"done"[..] } else { b"E0" }, "{import}");
            assert_eq!(is_empty(&storage).await, !open || *import == "kv.delete", "{import}");
        }
    }
}

#[tokio::test]
async fn a_loss_wakes_a_held_write_and_it_is_not_done() {
    let sandbox = sandbox();
    for (import, params, call, _) in STORED.iter().filter(|(.., writes)| *writes) {
        let gate = Arc::new(ManualGate::new(GateState::InDoubt));
        let storage = Arc::new(MemoryStorage::default());
        let effects = Effects { storage: storage.clone(), ..behind(&gate, &[]) };
        let execution = start_effects(&sandbox, calling(import, params, call), effects).await;
        gate.was_asked(1).await;
        execution.signal().stop(StopReason::Lost);
        assert_eq!(output(&execution.await), b"E0", "{import}");
        gate.set(GateState::Open);
        assert!(is_empty(&storage).await, "{import}");
    }
}

/// A guest that waits for a storage which never answers.
async fn stuck(sandbox: &leasehold_sandbox::Sandbox, guest: Vec<u8>) -> leasehold_sandbox::Execution {
    let storage = Arc::new(Stuck::default());
    let effects = Effects { storage: storage.clone(), ..Effects::default() };
    let execution = start_effects(sandbox, guest, effects).await;
    storage.reached.subscribe().wait_for(|reached| *reached).await.expect("it is there");
    execution
}

#[tokio::test]
async fn a_guest_that_waits_for_its_storage_is_ended_by_force_wherever_it_waits() {
    let sandbox = sandbox();
    for (import, params, call, writes) in STORED {
        let execution = stuck(&sandbox, calling(import, params, call)).await;
        ends_by_force(execution).await;
        if *writes {
            let gate = Arc::new(ManualGate::new(GateState::InDoubt));
            let execution = start_effects(&sandbox, calling(import, params, call), behind(&gate, &[])).await;
            gate.was_asked(1).await;
            ends_by_force(execution).await;
        }
    }
}

#[tokio::test]
async fn a_loss_wakes_a_guest_that_waits_for_its_storage() {
    let sandbox = sandbox();
    for (import, params, call, writes) in STORED {
        let execution = stuck(&sandbox, calling(import, params, call)).await;
        execution.signal().stop(StopReason::Lost);
        let said = execution.await;
        // A write that was sent may be done all the same, which `lost` would deny: it is `other` then.
        let other = if import.starts_with("state") { b"E3" } else { b"E4" };
        assert_eq!(output(&said), if *writes { &other[..] } else { b"E0" }, "{import}");
    }
}

#[tokio::test]
async fn what_one_attempt_saves_the_next_one_loads_and_more_than_the_limit_is_refused() {
    let sandbox = sandbox();
    let effects = Effects::default();
    for (import, params, call, _) in STORED {
        assert_eq!(
            output(&start_effects(&sandbox, calling(import, params, call), effects.clone()).await.await),
            b"done"
        );
    }
    assert_eq!(effects.storage.load_state().await, Ok(Some(b"value".to_vec())));
    assert_eq!(effects.storage.kv_get("key").await, Ok(Some(b"value".to_vec())));
    let large = "(drop (memory.grow (i32.const 70)))";
    for (import, params, call, expected) in [
        ("state.save", "i32 i32 i32", "(i32.const 0) (i32.const 1048577)", b"E1"),
        // A mebibyte as a list of numbers in JSON.
        ("state.save", "i32 i32 i32", "(i32.const 0) (i32.const 4194304)", b"E1"),
        ("kv.set", "i32 i32 i32 i32 i32", "(i32.const 4096) (i32.const 3) (i32.const 0) (i32.const 1048577)", b"E1"),
        ("kv.set", "i32 i32 i32 i32 i32", "(i32.const 4096) (i32.const 513) (i32.const 0) (i32.const 1)", b"E1"),
    ] {
        let (interface, function) = import.split_once('.').expect("interface.function");
        let items = format!(r#"(import "leasehold:job/{interface}@0.1.0" "{function}" (func $call (param {params})))"#);
        let body = format!(
            "{large} (call $call {call} (i32.const 2048))
             (i32.store8 (i32.const 2040) (i32.const 69))
             (i32.store8 (i32.const 2041) (i32.add (i32.const 48) (i32.load8_u (i32.const 2056))))
             (return (call $ok (i32.const 2040) (i32.const 2)))"
        );
        let execution = start_effects(&sandbox, guest(&items, &body), effects.clone()).await;
        assert_eq!(output(&execution.await), expected, "{call}");
    }
}

async fn ends_by_force(execution: leasehold_sandbox::Execution) {
    execution.signal().stop(StopReason::Cancelled);
    execution.signal().force();
    let ended = execution.await;
    assert_eq!(failure(&ended).kind, FailureKind::Interrupted, "{}", failure(&ended));
}

async fn is_empty(storage: &MemoryStorage) -> bool {
    storage.load_state().await == Ok(None) && storage.kv_list("", None, 1).await == Ok(vec![])
}

/// A store that never answers.
struct Stuck {
    reached: tokio::sync::watch::Sender<bool>,
}

impl Default for Stuck {
    fn default() -> Stuck {
        Stuck { reached: tokio::sync::watch::channel(false).0 }
    }
}

impl Stuck {
    async fn wait<T>(&self) -> Result<T, StorageError> {
        self.reached.send_replace(true);
        std::future::pending().await
    }
}

#[async_trait::async_trait]
impl Storage for Stuck {
    async fn load_state(&self) -> Result<Option<Vec<u8>>, StorageError> {
        self.wait().await
    }
    async fn save_state(&self, _: Vec<u8>) -> Result<(), StorageError> {
        self.wait().await
    }
    async fn kv_get(&self, _: &str) -> Result<Option<Vec<u8>>, StorageError> {
        self.wait().await
    }
    async fn kv_set(&self, _: String, _: Vec<u8>) -> Result<(), StorageError> {
        self.wait().await
    }
    async fn kv_delete(&self, _: String) -> Result<bool, StorageError> {
        self.wait().await
    }
    async fn kv_list(&self, _: &str, _: Option<&str>, _: usize) -> Result<Vec<String>, StorageError> {
        self.wait().await
    }
    async fn kv_compare_and_set(&self, _: String, _: Option<Vec<u8>>, _: Vec<u8>) -> Result<bool, StorageError> {
        self.wait().await
    }
}
