//! How long a deploy holds a run up.

use rustix::process::Signal;

use super::{Order, Until, backs_up, endless, jobs_of, replaced, running};
use crate::board::Policy;
use crate::clock;
use crate::store::Kind;
use crate::table::Row;

/// Few, so that their starts do not wait for each other.
const JOBS: usize = 6;

/// Stops the hosts in turn as long as there is time. None where the store is not installed.
pub async fn hand_over(order: &Order) -> Option<Vec<Row>> {
    let cluster = running(endless(order, JOBS, Policy::SHORT, 500)).await?;
    let mut acted = Vec::new();
    let until = Until::start(order.time);
    for host in (0..cluster.setup.hosts).cycle() {
        let jobs = jobs_of(&cluster, host);
        let (from, since) = (cluster.record().lengths(), clock::mono());
        cluster.signal_host(host, Signal::TERM).await;
        acted.extend(replaced(&cluster, &jobs, since, from).await.into_iter().map(|(act, _)| act));
        cluster.host_ended(host).await;
        if until.over() {
            break;
        }
        let (from, _) = cluster.record().lengths();
        cluster.start_host(host).await;
        backs_up(&cluster, host, from).await;
        // L2: what others could have seen for two heartbeats.
        tokio::time::sleep(Policy::SHORT.heartbeat * 2).await;
    }
    // A file tells nobody of a release: hosts look every one to two heartbeats.
    let target = if order.kind == Kind::Sqlite { "polls: ≤ 2 × heartbeat" } else { "median ≤ 50 ms" };
    cluster.forget();
    Some(vec![Row::times("from SIGTERM until the handler acts on another host", order.kind, acted, target)])
}
