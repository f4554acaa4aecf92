//! What happens in one simulation besides what follows from it: policy, hosts, handlers, and faults with their times.

mod policy;

use std::collections::BTreeMap;

use leasehold_lease::dice::Dice;
use leasehold_lease::policy::Policy;

use crate::{MINUTE, Ms, SECOND, START};

/// Everything that a seed decides before the first event.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How many hosts there are.
    pub hosts: usize,
    /// The job's policy.
    pub policy: Policy,
    /// Hosts on which it has another one, with the same overlap and number of attempts.
    pub others: BTreeMap<usize, Policy>,
    /// Between two slots; none for a job without a schedule.
    pub interval: Option<Ms>,
    /// What that is changed to, on one host after the other.
    pub later: Option<Ms>,
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
    /// Messages take up to this long.
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
    /// A host has this many places.
    Places { host: usize, places: usize, lasts: Ms },
    /// A host lacks what it needs to start a handler.
    Want { host: usize, lasts: Ms },
    /// Someone asks a host to take nothing new.
    Drain { host: usize, lasts: Ms },
    /// No host offers the job any more.
    Gone { lasts: Ms },
    /// Someone asks for this many runs on demand.
    Trigger { runs: u64 },
    /// Someone cancels the newest unfinished run.
    Cancel,
    /// Someone holds the job back.
    Hold { lasts: Ms },
    /// Someone unblocks the job.
    Unblock,
    /// A host's plugin directory offers the job with the schedule to come.
    Reschedule { host: usize },
}

impl Plan {
    /// An hour: 45 minutes in which things go wrong, and a quarter of an hour in which nothing does.
    pub fn new(seed: u64) -> Plan {
        let mut dice = Dice::new(seed ^ 0x5eed);
        let hosts = 1 + dice.pick(&[1, 2, 2, 2, 3, 4]);
        let interval = dice.pick(&INTERVALS).filter(|_| !dice.percent(5));
        let policy = policy::draw(&mut dice, interval);
        let differ = dice.percent(20);
        let others = (0..hosts).filter(|_| differ && dice.percent(50)).collect::<Vec<_>>();
        let others = others.into_iter().map(|host| (host, policy::draw_other(&mut dice, interval, &policy))).collect();
        let pace = interval.unwrap_or(MINUTE);
        let longest = dice.pick(&[pace / 10, pace / 2, pace * 9 / 10, pace * 2]).min(5 * MINUTE);
        let mut plan = Plan {
            hosts,
            others,
            interval,
            later: None,
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
        if interval.is_some() && plan.others.is_empty() && dice.percent(10) {
            plan.reschedule(&mut dice);
        }
        // People do what they do in quiet times, too.
        let asked = if interval.is_some() { dice.pick(&[0, 0, 2, 10]) } else { 60 };
        for _ in 0..asked {
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
            others: BTreeMap::new(),
            interval: Some(60 * SECOND),
            later: None,
            takes: (50, 20 * SECOND),
            drift: vec![0; 3],
            wakeups: 100,
            faults: Vec::new(),
            ..plan
        }
    }

    /// Two jobs on the same hosts, to which the same happens.
    pub fn two(seed: u64) -> [Plan; 2] {
        let (one, other) = (Plan::new(seed), Plan::new(!seed));
        let hosts = one.hosts;
        let others = other.others.into_iter().filter(|(host, _)| *host < hosts).collect();
        let (drift, faults) = (one.drift.clone(), one.faults.clone());
        let other = Plan { hosts, others, later: None, drift, faults, ..other };
        [one, other]
    }

    /// The job's policy on this host.
    pub(crate) fn policy(&self, host: usize) -> &Policy {
        self.others.get(&host).unwrap_or(&self.policy)
    }

    /// The most of a time among all hosts' policies, in ms.
    pub(crate) fn most(&self, of: impl Fn(&Policy) -> std::time::Duration) -> Ms {
        (0..self.hosts).map(|host| of(self.policy(host)).as_millis() as Ms).max().unwrap_or_default()
    }

    /// Between two slots when nothing goes wrong any more.
    pub(crate) fn last_interval(&self) -> Option<Ms> {
        self.later.or(self.interval)
    }

    /// Hosts get another schedule, within five minutes of each other; one that is down or gets none has it in the end.
    fn reschedule(&mut self, dice: &mut Dice) {
        // A jitter must fit into it.
        let least = self.policy.jitter.as_millis() as Ms * 2;
        self.later = INTERVALS[dice.below(INTERVALS.len())].filter(|interval| *interval > least);
        let first = dice.between(START + SECOND, self.healed - 10 * MINUTE);
        for host in 0..self.hosts {
            self.faults.push((first + dice.between(0, 5 * MINUTE), Fault::Reschedule { host }));
        }
    }
}

/// Times between two slots.
const INTERVALS: [Option<Ms>; 8] = {
    let minutely = Some(MINUTE);
    [minutely, minutely, minutely, minutely, Some(10 * SECOND), Some(20 * SECOND), Some(90 * SECOND), Some(10 * MINUTE)]
};

fn fault(dice: &mut Dice, plan: &Plan) -> Fault {
    let host = dice.below(plan.hosts);
    let lease = plan.policy(host).lease.as_millis() as Ms;
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
            | Fault::Unblock
            | Fault::Reschedule { .. } => {}
        }
        self
    }
}
