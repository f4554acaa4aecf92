//! What happens in one simulation besides what follows from it: policy, hosts, handlers, and faults with their times.

use std::time::Duration;

use leasehold_lease::policy::{OnUncertain, Overlap, Policy};

use crate::{MINUTE, Ms, SECOND, START};
use leasehold_lease::dice::Dice;

/// Everything that a seed decides before the first event.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How many hosts there are.
    pub hosts: usize,
    /// The job's policy, the same on all.
    pub policy: Policy,
    /// Between two slots.
    pub interval: Ms,
    /// How long a handler takes, at least and at most.
    pub takes: (Ms, Ms),
    /// Of a hundred handlers, how many do not look at the signal.
    pub stubborn: u64,
    /// Of a hundred handlers, how many fail.
    pub failing: u64,
    /// Of a hundred releases and triggers, how many wake a host by a notification.
    pub wakeups: u64,
    /// How fast each host's timers go, in parts of a million too fast.
    pub drift: Vec<i64>,
    /// When what goes wrong.
    pub faults: Vec<(Ms, Fault)>,
    /// From here on nothing goes wrong, and liveness is demanded.
    pub healed: Ms,
    /// The end.
    pub end: Ms,
}

/// Something that goes wrong. Times are how long it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Fault {
    /// A host's process dies, and another one starts after that time.
    Crash { host: usize, down: Ms },
    /// A host does nothing for a while, and its timers go on.
    Freeze { host: usize, lasts: Ms },
    /// What a host sends, or what it is sent, gets lost.
    Cut { host: usize, to: bool, from: bool, lasts: Ms },
    /// The store answers nobody.
    Outage { lasts: Ms },
    /// So many of a hundred messages get lost.
    Loss { percent: u64, lasts: Ms },
    /// So many of a hundred requests arrive twice.
    Repeat { percent: u64, lasts: Ms },
    /// Messages take up to so long.
    Delay { up_to: Ms, lasts: Ms },
    /// A host's wall clock is set.
    Wall { host: usize, by: Ms },
    /// The store's clock is set.
    Store { by: Ms },
    /// A host is asked to stop, and another one starts that time after it has.
    Stop { host: usize, down: Ms },
    /// All hosts are replaced one after the other.
    Deploy,
    /// A host's plugin directory offers the job no more.
    Withdraw { host: usize, lasts: Ms },
    /// A host has so many places.
    Places { host: usize, places: usize, lasts: Ms },
    /// A host lacks what it needs to start a handler.
    Want { host: usize, lasts: Ms },
    /// Someone asks a host to take nothing new.
    Drain { host: usize, lasts: Ms },
    /// No host offers the job any more.
    Gone { lasts: Ms },
    /// Someone asks for so many runs on demand.
    Trigger { runs: u64 },
    /// Someone cancels the newest unfinished run.
    Cancel,
    /// Someone holds the job back.
    Hold { lasts: Ms },
    /// Someone unblocks the job.
    Unblock,
}

impl Plan {
    /// An hour: 45 minutes in which things go wrong, and a quarter of an hour in which nothing does.
    pub fn new(seed: u64) -> Plan {
        let mut dice = Dice::new(seed ^ 0x5eed);
        let hosts = 1 + dice.pick(&[1, 2, 2, 2, 3, 4]);
        let policy = policy(&mut dice);
        let interval = dice.pick(&[60, 60, 60, 60, 10, 20, 90, 600]) * SECOND;
        let longest = dice.pick(&[interval / 10, interval / 2, interval * 9 / 10, interval * 2]).min(5 * MINUTE);
        let mut plan = Plan {
            hosts,
            interval,
            takes: (50, longest.max(100)),
            stubborn: dice.pick(&[0, 20, 100]),
            failing: dice.pick(&[0, 10]),
            wakeups: dice.pick(&[0, 90]),
            drift: (0..hosts).map(|_| dice.between(-50, 50)).collect(),
            faults: Vec::new(),
            healed: START + 45 * MINUTE,
            end: START + 60 * MINUTE,
            policy,
        };
        let many = dice.pick(&[0, 1, 3, 8, 20]);
        for _ in 0..many {
            let at = dice.between(START + SECOND, plan.healed - MINUTE);
            let fault = fault(&mut dice, &plan);
            plan.faults.push((at, fault));
        }
        // People do what they do in quiet times, too.
        for _ in 0..dice.pick(&[0, 0, 2, 10]) {
            let at = dice.between(START + SECOND, plan.end - 6 * MINUTE);
            plan.faults.push((at, Fault::Trigger { runs: dice.pick(&[1, 1, 1, 5]) }));
        }
        plan.faults.sort_by_key(|(at, _)| *at);
        plan
    }

    /// A minutely job at the defaults, three hosts, and nothing that goes wrong: what an hour costs.
    pub fn quiet(seed: u64) -> Plan {
        let plan = Plan::new(seed);
        Plan {
            hosts: 3,
            policy: Policy::default(),
            interval: 60 * SECOND,
            takes: (50, 20 * SECOND),
            drift: vec![0; 3],
            wakeups: 100,
            faults: Vec::new(),
            ..plan
        }
    }
}

fn policy(dice: &mut Dice) -> Policy {
    let lease = dice.pick(&[30_000, 30_000, 30_000, 1_000, 3_000, 60_000]);
    let stop_timeout = dice.pick(&[30_000, 5_000]);
    Policy {
        max_attempts: dice.pick(&[3, 3, 1, 2]),
        overlap: dice.pick(&[Overlap::Skip, Overlap::Skip, Overlap::Skip, Overlap::Allow]),
        catch_up: Duration::from_secs(dice.pick(&[300, 300, 0, 60])),
        history_size: dice.pick(&[10, 3, 0]),
        stop_timeout: Duration::from_millis(stop_timeout),
        stop_force: Policy::default_stop_force(Duration::from_millis(stop_timeout)),
        on_uncertain: dice.pick(&[OnUncertain::Hold, OnUncertain::Hold, OnUncertain::Stop]),
        ..Policy::with_lease(Duration::from_millis(lease))
    }
}

fn fault(dice: &mut Dice, plan: &Plan) -> Fault {
    let host = dice.below(plan.hosts);
    let lease = plan.policy.lease.as_millis() as Ms;
    let lasts = dice.pick(&[lease / 8, lease / 2, lease, lease * 2, 3 * MINUTE, 7 * MINUTE]);
    let lasts = dice.between(lasts / 2, lasts + 1);
    match dice.below(19) {
        0 | 1 => Fault::Crash { host, down: lasts },
        2 | 3 => Fault::Freeze { host, lasts },
        4 => Fault::Cut { host, to: true, from: true, lasts },
        5 => Fault::Cut { host, to: dice.percent(50), from: true, lasts },
        6 => Fault::Outage { lasts },
        7 => Fault::Loss { percent: dice.pick(&[5, 30, 70]), lasts },
        8 => Fault::Repeat { percent: dice.pick(&[10, 90]), lasts },
        9 => Fault::Delay { up_to: dice.pick(&[500, 3_000, 40_000]), lasts },
        10 => Fault::Wall { host, by: step(dice) },
        11 => match dice.percent(50) {
            true => Fault::Store { by: step(dice) },
            false => Fault::Deploy,
        },
        12 => Fault::Stop { host, down: lasts },
        13 => match dice.percent(50) {
            true => Fault::Withdraw { host, lasts },
            false => Fault::Want { host, lasts },
        },
        14 => Fault::Drain { host, lasts },
        15 => match dice.percent(30) {
            true => Fault::Gone { lasts: lasts * 3 },
            false => Fault::Cancel,
        },
        16 => Fault::Hold { lasts },
        17 => Fault::Unblock,
        _ => Fault::Places { host, places: dice.below(2), lasts },
    }
}

/// How far a clock is set.
fn step(dice: &mut Dice) -> Ms {
    let far = dice.pick(&[2 * SECOND, 8 * SECOND, 15 * SECOND, MINUTE, 10 * MINUTE]);
    let by = dice.between(1, far);
    if dice.percent(50) { by } else { -by }
}

impl Fault {
    /// The same, over after that time at the latest.
    pub(crate) fn within(mut self, most: Ms) -> Fault {
        match &mut self {
            Fault::Crash { down: lasts, .. }
            | Fault::Stop { down: lasts, .. }
            | Fault::Freeze { lasts, .. }
            | Fault::Cut { lasts, .. }
            | Fault::Outage { lasts }
            | Fault::Loss { lasts, .. }
            | Fault::Repeat { lasts, .. }
            | Fault::Delay { lasts, .. }
            | Fault::Withdraw { lasts, .. }
            | Fault::Places { lasts, .. }
            | Fault::Drain { lasts, .. }
            | Fault::Gone { lasts }
            | Fault::Hold { lasts }
            | Fault::Want { lasts, .. } => *lasts = (*lasts).min(most),
            Fault::Wall { .. }
            | Fault::Store { .. }
            | Fault::Deploy
            | Fault::Trigger { .. }
            | Fault::Cancel
            | Fault::Unblock => {}
        }
        self
    }
}
