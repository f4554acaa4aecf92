//! The policies that are drawn: mostly the defaults, and what may be set to the edge of what a configuration takes.

use std::time::Duration;

use leasehold_lease::dice::Dice;
use leasehold_lease::policy::{Fencing, OnUncertain, Overlap, Policy, StopForce};

use crate::{MINUTE, Ms, SECOND};

const LEASES: [Ms; 12] = {
    let default = 30 * SECOND;
    let long = 5 * MINUTE;
    [default, default, default, default, default, SECOND, 3 * SECOND, 3 * SECOND, MINUTE, MINUTE, long, long]
};

/// A policy for a job with this time between two slots, where it has a schedule.
pub(super) fn draw(dice: &mut Dice, interval: Option<Ms>) -> Policy {
    // An hour of short leases has the most messages, and costs as much time as many others.
    let lease = dice.pick(&LEASES);
    let heartbeat = match dice.below(6) {
        // As long as it may be: one that gets lost may cost the lease.
        0 => (lease - 1) / 2,
        1 => lease / 3,
        _ => millis(Policy::default_heartbeat(time(lease))),
    };
    let stop_timeout = time(dice.pick(&[30 * SECOND, 5 * SECOND]));
    let default_grace = millis(Policy::default_lost_grace(time(heartbeat)));
    let max_late = dice.pick(&[MINUTE, MINUTE, MINUTE, 0, 5 * SECOND, 10 * MINUTE]);
    let by_interval = interval.map_or(MINUTE, |interval| (interval - 1) / 2);
    let jitter = dice.pick(&[250, 250, 250, 0, 2 * SECOND, 20 * SECOND]).min(by_interval).min((max_late - 1).max(0));
    Policy {
        heartbeat: time(heartbeat),
        max_attempts: dice.pick(&[3, 3, 1, 2]),
        overlap: dice.pick(&[Overlap::Skip, Overlap::Skip, Overlap::Skip, Overlap::Allow]),
        catch_up: Duration::from_secs(dice.pick(&[300, 300, 0, 60])),
        max_late: time(max_late),
        jitter: time(jitter),
        catch_up_jitter: time(dice.pick(&[2 * SECOND, 2 * SECOND, 0, 20 * SECOND])),
        history_size: dice.pick(&[10, 3, 0]),
        stop_timeout,
        stop_force: match dice.below(4) {
            0 => StopForce::Never,
            _ => Policy::default_stop_force(stop_timeout),
        },
        on_uncertain: dice.pick(&[OnUncertain::Hold, OnUncertain::Hold, OnUncertain::Stop]),
        fence: dice.pick(&[Fencing::Held, Fencing::Held, Fencing::Held, Fencing::Strict]),
        lost_grace: time(dice.pick(&[default_grace, default_grace, 0, heartbeat])),
        pending_max: dice.pick(&[1_000, 1_000, 1, 3]),
        ..Policy::with_lease(time(lease))
    }
}

/// The policy of a host that differs from the others. What promises need all hosts to agree on is the same.
pub(super) fn draw_other(dice: &mut Dice, interval: Option<Ms>, policy: &Policy) -> Policy {
    Policy { overlap: policy.overlap, max_attempts: policy.max_attempts, ..draw(dice, interval) }
}

fn time(ms: Ms) -> Duration {
    Duration::from_millis(ms.unsigned_abs())
}

fn millis(time: Duration) -> Ms {
    time.as_millis() as Ms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_that_is_drawn_is_one_that_a_configuration_may_have() {
        for seed in 0..2_000 {
            let mut dice = Dice::new(seed);
            let interval = dice.pick(&[None, Some(10 * SECOND), Some(MINUTE), Some(10 * MINUTE)]);
            let policy = draw(&mut dice, interval);
            assert_eq!(policy.problems(interval.map(time)), vec![], "seed {seed}: {policy:?}");
        }
    }
}
