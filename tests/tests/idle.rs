//! What a host costs that has nothing to do.

use std::fmt::Write;
use std::time::Duration;

use leasehold::clock;
use leasehold_tests::{Workplace, until};

const JOBS: usize = 10_000;

/// What every call to the store leaves in the log.
const CALL: &str = "a call to the store";

#[test]
fn an_idle_host_with_10_000_jobs_makes_at_most_one_request_a_second() {
    let w = Workplace::new("[defaults]\njobs_max = 100000\n");
    w.install("hello", "hello.wasm");
    let mut manifest = String::new();
    for n in 1..=JOBS {
        // None of them is due while the test runs, but on one minute of four years.
        write!(manifest, "[[jobs]]\nname = \"j{n}\"\nschedule = \"0 0 29 2 *\"\n").expect("a text takes more");
    }
    w.write("plugins/hello.toml", manifest);
    let mut host = w.serve_with("LEASEHOLD_LOG", "warn,leasehold::driver::calls=trace");
    host.wait_for_log("telling the store of jobs");
    // All of them are known when the store has been told of this many thousands.
    let told = |host: &leasehold_tests::HostProcess| host.count_in_log("what=\"telling the store of jobs\"");
    until("told of all", || told(&host), |calls| *calls >= JOBS / 1_000);
    // More than a lease, in which all are told of again.
    let (window, before, cpu) = (Duration::from_secs(35), host.count_in_log(CALL), host.cpu());
    let end = clock::mono() + window;
    let (stop, waits) = std::sync::mpsc::channel::<()>();
    // Nothing is sent: this only waits without taking the processor from the host.
    assert!(waits.recv_timeout(end.since(clock::mono())).is_err());
    drop(stop);
    let (calls, used, memory) = (host.count_in_log(CALL) - before, host.cpu() - cpu, host.memory().0 >> 20);
    eprintln!("{calls} calls in {window:?}, {used:?} of the processor (without optimisation), {memory} MiB");
    assert!(calls <= 35, "{calls} calls in {window:?}");
    // What a quarter of its memory would be kept in otherwise.
    assert_eq!(host.variable("MALLOC_ARENA_MAX").as_deref(), Some("2"));
    assert!(told(&host) >= 2 * JOBS / 1_000, "a lease without being told of");
}
