//! What a host costs that has many jobs of which none is due, beside another one.

use std::time::Duration;

use leasehold_test_servers::{memory, processor_time};

use super::Order;
use crate::board::{Policy, Setup, far_away};
use crate::clock;
use crate::cluster::{Cluster, PATIENCE};
use crate::table::Row;

const JOBS: usize = 10_000;

/// The hosts tell of every call to the store, in JSON.
const LOG: &str = "warn,leasehold::driver::calls=trace";
const CALL: &str = "\"a call to the store\"";

/// By which the store is told of a thousand jobs.
const TELLING: &str = "telling the store of jobs";

/// Watches two hosts for as long as there is time, and answers what the more costly one took. None where the store is not
/// installed.
pub async fn idle(order: &Order) -> Option<Vec<Row>> {
    let Order { kind, binary, time, .. } = order.clone();
    let every = Some(far_away());
    let policy = Policy::DEFAULT;
    let (hosts, jobs, log) = (2, JOBS, Some(LOG));
    let setup =
        Setup { kind, binary, hosts, jobs, policy, every, acts: 0, pace: 0, max_attempts: 3, clocks: false, log };
    let cluster = Cluster::start(setup).await?;
    let patience = clock::mono() + PATIENCE;
    for host in 0..hosts {
        // All are known when the store has been told of this many thousands; and they settle.
        while cluster.count_in_log(host, TELLING) < JOBS / 1_000 {
            assert!(clock::mono() < patience, "h{host} does not tell of its jobs: {}", cluster.folder().display());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    tokio::time::sleep(Policy::DEFAULT.heartbeat * 2).await;
    let look = async || {
        let mut all = Vec::new();
        for host in 0..hosts {
            all.push((cluster.count_in_log(host, CALL), processor_time(cluster.process_of(host).await)));
        }
        (clock::mono(), all)
    };
    let (from, before) = look().await;
    tokio::time::sleep(time).await;
    let (to, after) = look().await;
    let seconds = (to - from).as_secs_f64();
    let (mut calls, mut busy, mut most) = (0.0_f64, 0.0_f64, 0);
    for host in 0..hosts {
        calls = calls.max((after[host].0 - before[host].0) as f64 / seconds);
        busy = busy.max((after[host].1 - before[host].1).as_secs_f64() / seconds * 100.0);
        most = most.max(memory(cluster.process_of(host).await).0);
    }
    cluster.end().await;
    cluster.forget();
    let row = |what: &str, value, target: &str| {
        Row::value(&format!("{what} of an idle host with 10 000 jobs"), kind, value, seconds as u64, target)
    };
    Some(vec![
        row("requests to the store a second", format!("{calls:.2}"), "≤ 1"),
        row("processor", format!("{busy:.2} %"), "≤ 1 % of a core"),
        row("memory", format!("{} MiB", most >> 20), "≤ 100 MiB without plugins"),
    ])
}
