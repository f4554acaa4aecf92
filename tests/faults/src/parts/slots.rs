//! Many jobs with a slot each second, and one fault after the other. What comes of it is held against the invariants.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_test_servers::Watchdog;
use serde_json::Value;

use super::{Order, Until};
use crate::board::{LEASE, Policy, Setup};
use crate::clock;
use crate::cluster::{Cluster, PATIENCE};
use crate::draw::Draw;
use crate::fault::Fault;
use crate::judge::{Case, Verdict, judge};
use crate::store::Kind;
use crate::table::Row;
use crate::witness::instant;

/// How many of the runs that began more than once are looked into.
const SHOWN: usize = 40;

/// What is done.
#[derive(Debug, Clone)]
pub struct Storm {
    /// The cluster's store, and for how long faults go on when there is no number of them.
    pub order: Order,
    /// How many hosts.
    pub hosts: usize,
    /// How many jobs, each with a slot a second.
    pub jobs: usize,
    /// Of all of them.
    pub policy: Policy,
    /// This many, however long they take.
    pub faults: Option<usize>,
    /// Whether the store forgets what it acknowledged, between other faults.
    pub forgets: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Stormed {
    /// What is wrong, and what there was.
    pub verdict: Verdict,
    /// What was done, and how often.
    pub done: BTreeMap<String, u64>,
    /// The most that the machine kept the harness waiting.
    pub stall: Duration,
    /// Where events and logs lie, if anything is wrong.
    pub kept: Option<std::path::PathBuf>,
}

impl Storm {
    /// That of a test: short leases, so that there are many faults in a short time.
    pub fn short(order: Order, hosts: usize, jobs: usize, faults: usize) -> Storm {
        Storm { order, hosts, jobs, policy: LEASE, faults: Some(faults), forgets: false }
    }

    /// Does it. None where the store is not installed.
    pub async fn run(&self) -> Option<Stormed> {
        let Order { kind, binary, seed, time } = self.order.clone();
        let every = Some(Duration::from_secs(1));
        let (hosts, jobs, policy, max_attempts) = (self.hosts, self.jobs, self.policy, 3);
        let setup = Setup {
            kind,
            binary,
            hosts,
            jobs,
            policy,
            every,
            acts: 3,
            pace: 60,
            max_attempts,
            clocks: self.clocks(),
            log: None,
        };
        let cluster = Cluster::start(setup).await?;
        if self.clocks() && !cluster.setup.clocks {
            eprintln!("skipped: clock steps (libfaketime is not installed)");
        }
        let watchdog = Watchdog::start();
        for host in 0..hosts {
            let speaks = cluster.record().wait_told(0, PATIENCE, |told| told.host == host && told.slot.is_some()).await;
            assert!(speaks.is_some(), "h{host} says nothing of any run: {}", cluster.folder().display());
        }
        let from = clock::wall() + 1_000;
        let done = self.strike(&cluster, &mut Draw::new(seed), Until::start(time)).await;
        let healed = clock::mono();
        // Liveness is demanded of what comes now.
        tokio::time::sleep(policy.lease * 2 + Duration::from_secs(6)).await;
        let to = clock::wall() - 1_000;
        ended(&cluster, (from, to)).await;
        cluster.end().await;
        let runs = records(&cluster).await;
        let shown = several(&cluster, &runs).await;
        let verdict = {
            let heard = cluster.record().lock();
            judge(&Case {
                setup: &cluster.setup,
                heard: &heard,
                runs: &runs,
                shown: &shown,
                slots: (from, to),
                healed,
                watchdog: &watchdog,
            })
        };
        let kept = (!verdict.wrong.is_empty()).then(|| cluster.folder().to_owned());
        if kept.is_none() {
            cluster.forget();
        }
        Some(Stormed { verdict, done, stall: watchdog.latest(), kept })
    }

    /// Where one clock is everybody's, many jobs would be long in an operator's hands afterwards.
    fn clocks(&self) -> bool {
        self.order.kind != Kind::Sqlite || self.jobs <= 20
    }

    async fn strike(&self, cluster: &Cluster, draw: &mut Draw, until: Until) -> BTreeMap<String, u64> {
        let mut done = BTreeMap::new();
        for n in 0.. {
            if self.faults.map_or_else(|| until.over(), |faults| n >= faults) {
                break;
            }
            let forget = self.forgets && cluster.setup.kind == Kind::Redis && n % 3 == 2;
            let fault = if forget { Fault::DataForgotten } else { Fault::draw(draw, &cluster.setup) };
            let other = Fault::draw(draw, &cluster.setup);
            let apart = matches!((fault.host(), other.host()), (Some(one), Some(two)) if one != two);
            let both = draw.one_in(3) && apart && cluster.setup.hosts > 2;
            eprintln!("{:>4}  {fault}{}", n + 1, if both { format!(", and {other}") } else { String::new() });
            *done.entry(fault.kind().to_owned()).or_default() += 1;
            if both {
                *done.entry(other.kind().to_owned()).or_default() += 1;
                tokio::join!(fault.strike(cluster), other.strike(cluster));
            } else {
                fault.strike(cluster).await;
            }
            tokio::time::sleep(draw.ms(200, 1_500)).await;
        }
        done
    }
}

/// Waits until all of these slots have ended, or nobody can wait any longer.
async fn ended(cluster: &Cluster, (from, to): (i64, i64)) {
    let end = clock::mono() + PATIENCE / 4;
    let is_one = |run: &Value| {
        let slot = run["run"].as_str().and_then(instant).expect("a run of a schedule has a slot");
        (from..to).contains(&slot)
    };
    while clock::mono() < end {
        let mut open = 0;
        for status in ["running", "released", "expired"] {
            let runs = cluster.read(&["runs", "--status", status, "--limit", "100000"]).await;
            open += runs.iter().filter(|run| is_one(run)).count();
        }
        if open == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Each job's runs.
async fn records(cluster: &Cluster) -> Vec<Vec<Value>> {
    // Each is a process.
    const AT_ONCE: usize = 3;
    let mut all = vec![Vec::new(); cluster.setup.jobs];
    let read = async |first: usize| {
        let mut mine = Vec::new();
        for job in (first..cluster.setup.jobs).step_by(AT_ONCE) {
            mine.push((job, cluster.read(&["runs", "--job", &format!("j{job}"), "--limit", "100000"]).await));
        }
        mine
    };
    let (one, two, three) = tokio::join!(read(0), read(1), read(2));
    for (job, runs) in one.into_iter().chain(two).chain(three) {
        all[job] = runs;
    }
    all
}

/// All that is known of runs that began more than once.
async fn several(cluster: &Cluster, runs: &[Vec<Value>]) -> Vec<Value> {
    let again = runs.iter().flatten().filter(|run| run["starts"].as_u64() > Some(1));
    let mut shown = Vec::new();
    for run in again.take(SHOWN) {
        let (job, run) = (run["job"].as_str().expect("a name"), run["run"].as_str().expect("a slot"));
        shown.extend(cluster.read(&["show", job, run]).await);
    }
    shown
}

/// Does it for as long as the order says, with as many jobs, and answers rows and what was wrong.
pub async fn slots(order: &Order, jobs: usize) -> Option<(Vec<Row>, Vec<String>)> {
    let storm = Storm { order: order.clone(), hosts: 3, jobs, policy: Policy::SHORT, faults: None, forgets: false };
    let Stormed { verdict, done, stall, kept } = storm.run().await?;
    eprintln!("{}, done: {done:?}", order.kind);
    eprintln!("there were: {:?}; the machine kept the harness waiting for {stall:?} at most", verdict.counts);
    if let Some(folder) = kept {
        eprintln!("events and logs are kept: {}", folder.display());
    }
    let slots = verdict.counts.get("slots").copied().unwrap_or_default();
    let faults = done.values().sum::<u64>();
    let what = format!("double starts, lost slots, takeovers without a fault; slots with {faults} faults");
    let rows = vec![
        Row::never(&what, order.kind, verdict.wrong.len() as u64, slots),
        Row::times("from a slot until its claim is known, faults over (jitter 250 ms)", order.kind, verdict.delays, ""),
    ];
    Some((rows, verdict.wrong))
}
