//! What lies ahead of the present, and the order in which people look at runs and by which a job's last runs are kept.

use std::cmp::Reverse;

use crate::policy::CLOCK_GRACE;
use crate::time::Millis;

/// A run's place among others, newest first: the least stands in front. Runs in the same place stand in the order of
/// their keys.
///
/// First come the runs due in the [`present`], the one due last in front. Those due later come behind all of them: a
/// clock that was ahead has made them, and in front they would hide, until their time has come, all that runs meanwhile.
///
/// No rule of leases goes by this order: what is newest there (S7, S8, S10) is so by its slot alone.
pub fn newest_first(due: Millis, now: Millis) -> (bool, Reverse<Millis>) {
    (is_ahead(due, now), Reverse(due))
}

/// Further in the store's future than the clocks of healthy hosts differ: later than the [`present`].
pub fn is_ahead(at: Millis, now: Millis) -> bool {
    at > present(now)
}

/// The last due time that a run can have unless a clock was ahead when it was made: a claim for a later slot is refused
/// as early. A hold that begins later was begun by such a clock, too.
pub fn present(now: Millis) -> Millis {
    now + CLOCK_GRACE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_clock_that_was_ahead_has_made_stands_behind_all_others() {
        let mut due = [-1, 0, 9_999, 10_000, 10_001, 10_002, i64::MAX].map(Millis);
        due.sort_by_key(|due| newest_first(*due, Millis(0)));
        assert_eq!(due.map(|due| due.0), [10_000, 9_999, 0, -1, i64::MAX, 10_002, 10_001]);
    }

    #[test]
    fn at_the_end_of_time_all_is_present() {
        let (older, newer) = (Millis(i64::MIN), Millis(i64::MAX));
        assert!(newest_first(newer, newer) < newest_first(older, newer));
    }
}
