//! How long it takes until another host goes on with a run whose host was killed.

use super::{Order, Until, backs_up, endless, jobs_of, replaced, running};
use crate::board::Policy;
use crate::clock;
use crate::table::Row;

/// Kills the hosts in turn, each with all it runs, as long as there is time. None where the store is not installed.
pub async fn takeover(order: &Order, policy: Policy, jobs: usize) -> Option<Vec<Row>> {
    let cluster = running(endless(order, jobs, policy, 500)).await?;
    let (mut acted, mut won) = (Vec::new(), Vec::new());
    let until = Until::start(order.time);
    for host in (0..cluster.setup.hosts).cycle() {
        let jobs = jobs_of(&cluster, host);
        let (from, since) = (cluster.record().lengths(), clock::mono());
        cluster.kill_host(host).await;
        for (act, win) in replaced(&cluster, &jobs, since, from).await {
            acted.push(act);
            won.push(win);
        }
        if until.over() {
            break;
        }
        let (from, _) = cluster.record().lengths();
        cluster.start_host(host).await;
        backs_up(&cluster, host, from).await;
    }
    let kind = order.kind;
    let (name, target) = if policy == Policy::DEFAULT {
        ("at the defaults", "median about 30 s, p99 ≤ 41 s")
    } else {
        ("at lease 3 s, heartbeat 0.5 s", "p99 ≤ 4.3 s")
    };
    cluster.forget();
    Some(vec![
        Row::times(&format!("from SIGKILL until another host has won the run, {name}"), kind, won, target),
        Row::times(&format!("… and until its handler acts, {name}"), kind, acted, ""),
    ])
}
