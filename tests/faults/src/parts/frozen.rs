//! What a runner does that was frozen for two leases, or cut off from the store, after the end of its lease: nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_test_servers::Watchdog;
use rustix::process::Signal;

use super::{Order, Until, endless, jobs_of, running};
use crate::board::LEASE;
use crate::clock;
use crate::cluster::{Cluster, PATIENCE};
use crate::fault::{Fault, Way};
use crate::record::{Effect, Heard, Told};
use crate::store::Kind;
use crate::table::Row;

/// Each of them is a try.
const JOBS: usize = 40;

/// From when an act begins until the witness has read of it, on a machine that gives both their time.
const UNDER_WAY: Duration = Duration::from_millis(20);

/// What became of one way to lose a lease.
#[derive(Debug, Default)]
struct Tries {
    tries: u64,
    late: Vec<String>,
}

/// Freezes the hosts in turn, and cuts them off, as long as there is time. None where the store is not installed. What was
/// wrong is told beside the rows.
pub async fn frozen(order: &Order) -> Option<(Vec<Row>, Vec<String>)> {
    let cluster = running(endless(order, JOBS, LEASE, 100)).await?;
    let watchdog = Watchdog::start();
    let (mut frozen, mut cut) = (Tries::default(), Tries::default());
    let until = Until::start(order.time);
    let ways = [Way::Both, Way::There, Way::Back];
    for (round, host) in (0..cluster.setup.hosts).cycle().enumerate() {
        if until.over() {
            break;
        }
        freeze(&cluster, host, &mut frozen).await;
        if order.kind != Kind::Sqlite {
            let other = (host + 1) % cluster.setup.hosts;
            cut_off(&cluster, other, ways[round % ways.len()], &watchdog, &mut cut).await;
        }
    }
    let never = |what: &str, tries: &Tries| Row::never(what, order.kind, tries.late.len() as u64, tries.tries);
    let mut rows = vec![never("acts after the lease of a runner that was frozen for two leases", &frozen)];
    if order.kind != Kind::Sqlite {
        rows.push(never("acts after the lease of a runner that was cut off from the store", &cut));
    }
    let wrong: Vec<String> = frozen.late.into_iter().chain(cut.late).collect();
    if wrong.is_empty() {
        cluster.forget();
    } else {
        eprintln!("events and logs are kept: {}", cluster.folder().display());
    }
    Some((rows, wrong))
}

async fn freeze(cluster: &Cluster, host: usize, tries: &mut Tries) {
    let (jobs, from) = (jobs_of(cluster, host), cluster.record().lengths());
    cluster.signal_host(host, Signal::STOP).await;
    tokio::time::sleep(LEASE.lease * 2).await;
    let thawed = clock::mono();
    cluster.signal_host(host, Signal::CONT).await;
    // It has acted on what it found when it is told of each run, one way or the other.
    settled(cluster, host, &jobs, from.0).await;
    // Held back for as long as the host was frozen, it would come now.
    tokio::time::sleep(LEASE.heartbeat * 2).await;
    let end = clock::mono();
    tries.tries += won(cluster, &jobs, from, (thawed, end), &mut tries.late);
}

async fn cut_off(cluster: &Cluster, host: usize, way: Way, watchdog: &Watchdog, tries: &mut Tries) {
    let (jobs, from) = (jobs_of(cluster, host), cluster.record().lengths());
    let began = clock::mono();
    Fault::Cut(host, way, LEASE.lease * 2, false).strike(cluster).await;
    let healed = clock::mono();
    // By the clock it can be said of each run, also of one whose heartbeats arrive while their answers do not.
    let by_clock = watchdog.was_in_time(began, healed);
    if by_clock {
        let lease_end = began + LEASE.lease + UNDER_WAY;
        let heard = cluster.record().lock();
        let acts = heard.effects[from.1..].iter().filter(|act| act.at > lease_end && act.at < healed);
        for act in acts.filter(|act| jobs.contains(&(act.job, act.attempt))) {
            tries.late.push(format!("H3: cut off ({way:?}), {:?} after the lease's end: {act:?}", act.at - lease_end));
        }
    }
    settled(cluster, host, &jobs, from.0).await;
    tokio::time::sleep(LEASE.heartbeat * 2).await;
    let won = won(cluster, &jobs, from, (healed, clock::mono()), &mut tries.late);
    tries.tries += if by_clock { jobs.len() as u64 } else { won };
}

/// Waits until each run is lost to the host, or acts again as the attempt it was: nobody had taken it over.
async fn settled(cluster: &Cluster, host: usize, jobs: &[(usize, u32)], from: usize) {
    let came_back = clock::mono();
    let look = |heard: &Heard| {
        let lost = heard.told[from..].iter().filter(|told| told.host == host && told.word == "lost");
        let mut known: BTreeSet<_> = lost.filter_map(|told| Some((told.job?, told.attempt?))).collect();
        let acts = heard.effects.iter().rev().take_while(|act| act.at > came_back);
        known.extend(acts.map(|act| (act.job, act.attempt)));
        jobs.iter().all(|job| known.contains(job)).then_some(())
    };
    let all = cluster.record().wait(PATIENCE, look).await;
    assert!(all.is_some(), "h{host} does not say what became of its runs: {}", cluster.folder().display());
}

/// Counts runs that another host won meanwhile. Acts of the older attempt after the news of that are wrong, however busy the
/// machine was.
fn won(
    cluster: &Cluster,
    jobs: &[(usize, u32)],
    from: (usize, usize),
    (back, end): (Duration, Duration),
    wrong: &mut Vec<String>,
) -> u64 {
    let heard = cluster.record().lock();
    let mut count = 0;
    for (job, attempt) in jobs {
        let newer = |told: &&Told| told.word == "takeover" && told.job == Some(*job) && told.attempt > Some(*attempt);
        let Some(won) = heard.told[from.0..].iter().find(newer) else { continue };
        count += 1;
        let of_it = |act: &&Effect| (act.job, act.attempt) == (*job, *attempt);
        for act in heard.effects[from.1..].iter().filter(of_it).filter(|act| act.at > won.at && act.at < end) {
            let (after_back, after_won) = (act.at.saturating_sub(back), act.at - won.at);
            wrong.push(format!("H3: {after_back:?} after it came back, {after_won:?} after a newer win: {act:?}"));
        }
    }
    count
}
