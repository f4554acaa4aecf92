//! The parts of the fault run. Each is bounded in time and answers its rows of the table.

mod frozen;
mod hand_over;
mod idle;
mod slots;
mod takeover;

use std::time::Duration;

use crate::board::{Binary, Policy, Setup};
use crate::clock;
use crate::cluster::{Cluster, PATIENCE};
use crate::record::Heard;
use crate::store::Kind;

pub use frozen::frozen;
pub use hand_over::hand_over;
pub use idle::idle;
pub use slots::{Storm, Stormed, slots};
pub use takeover::takeover;

/// What a part is told.
#[derive(Debug, Clone)]
pub struct Order {
    /// On which store.
    pub kind: Kind,
    /// Which `leasehold`.
    pub binary: Binary,
    /// What is drawn is drawn from it.
    pub seed: u64,
    /// How long it goes on, about.
    pub time: Duration,
}

/// Jobs whose handlers act at a pace and do not end by themselves.
fn endless(order: &Order, jobs: usize, policy: Policy, pace: u64) -> Setup {
    let Order { kind, binary, .. } = order.clone();
    // A run starts again after every fault.
    let max_attempts = 1_000;
    Setup {
        kind,
        binary,
        hosts: 3,
        jobs,
        policy,
        every: None,
        acts: 1_000_000,
        pace,
        max_attempts,
        clocks: false,
        log: None,
    }
}

/// Starts a cluster and waits until each job's run acts, and every host backs up what it does not run.
async fn running(setup: Setup) -> Option<Cluster> {
    let cluster = Cluster::start(setup).await?;
    for job in 0..cluster.setup.jobs {
        let acts = cluster.record().wait(PATIENCE, |heard| runner(heard, job)).await;
        assert!(acts.is_some(), "j{job} has not started: {}", cluster.folder().display());
    }
    for host in 0..cluster.setup.hosts {
        backs_up(&cluster, host, 0).await;
    }
    Some(cluster)
}

/// Waits until this host has a part in every job, of what it told since the `from`th event.
async fn backs_up(cluster: &Cluster, host: usize, from: usize) {
    let all = cluster.setup.jobs;
    let look = |heard: &Heard| {
        let part = |told: &&crate::Told| told.host == host && ["backup", "claimed"].contains(&told.word.as_str());
        let jobs: std::collections::BTreeSet<_> = heard.told[from..].iter().filter(part).map(|told| told.job).collect();
        (jobs.len() >= all).then_some(())
    };
    let has = cluster.record().wait(PATIENCE, look).await;
    assert!(has.is_some(), "h{host} does not back up all jobs: {}", cluster.folder().display());
}

/// Who runs a job, as which attempt: the newest of which an act was heard.
fn runner(heard: &Heard, job: usize) -> Option<(usize, u32)> {
    let effect = heard.effects.iter().rev().find(|effect| effect.job == job)?;
    Some((heard.runner(effect)?, effect.attempt))
}

/// Jobs that this host runs, each with its attempt.
fn jobs_of(cluster: &Cluster, host: usize) -> Vec<(usize, u32)> {
    let heard = cluster.record().lock();
    let runners = (0..cluster.setup.jobs).filter_map(|job| Some((job, runner(&heard, job)?)));
    runners.filter(|(_, (of, _))| *of == host).map(|(job, (_, attempt))| (job, attempt)).collect()
}

/// Waits until each of these jobs acts as a newer attempt: ms from `since` to its first act, and to the news of its win.
async fn replaced(cluster: &Cluster, jobs: &[(usize, u32)], since: Duration, from: (usize, usize)) -> Vec<(f64, f64)> {
    let mut all = Vec::new();
    for (job, attempt) in jobs {
        let acted = |effect: &crate::Effect| effect.job == *job && effect.attempt > *attempt;
        let effect = cluster.record().wait_effect(from.1, PATIENCE, acted).await;
        let effect = effect.unwrap_or_else(|| panic!("nobody takes j{job} over: {}", cluster.folder().display()));
        let won =
            |told: &crate::Told| told.word == "takeover" && told.job == Some(*job) && told.attempt > Some(*attempt);
        let won = cluster.record().wait_told(from.0, PATIENCE, won).await.expect("it acts, so it was won");
        let ms = |at: Duration| at.saturating_sub(since).as_secs_f64() * 1e3;
        all.push((ms(effect.at), ms(won.at)));
    }
    all
}

/// Whether a part's time is over.
struct Until(Duration);

impl Until {
    fn start(time: Duration) -> Until {
        Until(clock::mono() + time)
    }

    fn over(&self) -> bool {
        clock::mono() >= self.0
    }
}
