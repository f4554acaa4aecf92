//! Whether the store answers, as far as the last calls tell.

use std::time::Duration;

use leasehold_lease::time::Mono;

use super::calls::Side;

/// How soon a store that takes no changes is tried again, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(64));

/// So many changes in a row may fail before the store counts as down: a change of one job waits for whoever else changes
/// that job, and tells little of the others. A question waits for nobody.
const CHANGES_TOLERATED: u32 = 2;

/// What has changed for the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// The store stopped answering.
    Down,
    /// It answers again.
    Up,
}

/// What is known of the store. It may answer reads and take no changes: a full disk, a demoted replica. It is up when it
/// does both.
#[derive(Debug)]
pub(super) struct StoreHealth {
    reads: Known,
    changes: Known,
    /// When changes are tried again.
    next_probe: Option<Mono>,
    /// The rest before that. It grows where the trial succeeds and what it stands for fails again, so that a store that
    /// refuses claims alone does not go up and down every second.
    pause: Duration,
    /// When a trial brought changes up.
    tried: Option<Mono>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    up: bool,
    /// Since when.
    since: Mono,
    /// Calls that failed since one last went well.
    failed: u32,
    /// So many of them are no sign of an outage.
    tolerated: u32,
}

impl Known {
    /// A call has ended that began then. One that began before the store came back tells nothing of it now.
    fn heard(&mut self, up: bool, began: Mono, now: Mono) {
        if up {
            self.failed = 0;
        } else if began >= self.since {
            self.failed += 1;
        }
        if up != self.up && (up || self.failed > self.tolerated) {
            *self = Known { up, since: now, failed: 0, ..*self };
        }
    }
}

impl StoreHealth {
    /// Of a store that was opened a moment ago.
    pub(super) fn new() -> StoreHealth {
        let up = |tolerated| Known { up: true, since: Mono::default(), failed: 0, tolerated };
        StoreHealth { reads: up(0), changes: up(CHANGES_TOLERATED), next_probe: None, pause: PAUSE.0, tried: None }
    }

    pub(super) fn is_up(&self) -> bool {
        self.reads.up && self.changes.up
    }

    /// Takes the end of a call that began at `began`. Answers whether that turns anything.
    pub(super) fn heard(&mut self, side: Side, up: bool, began: Mono, now: Mono) -> Option<Turn> {
        let (was_up, took_changes) = (self.is_up(), self.changes.up);
        match side {
            Side::Reads => self.reads.heard(up, began, now),
            // That it takes what concerns a run it knows does not say that it takes anything else.
            Side::Held if up => {}
            Side::Changes | Side::Held | Side::Probe => self.changes.heard(up, began, now),
        }
        match (took_changes, self.changes.up) {
            (false, true) => self.tried = (side == Side::Probe).then_some(now),
            (true, false) => {
                let in_vain = self.tried.is_some_and(|tried| now.since(tried) <= 2 * self.pause);
                self.pause = if in_vain { (2 * self.pause).min(PAUSE.1) } else { PAUSE.0 };
                self.next_probe = Some(now + self.pause);
            }
            // It has failed again, or not even begun.
            (false, false) if self.next_probe.is_none() => self.next_probe = Some(now + self.pause),
            _ => {}
        }
        match (was_up, self.is_up()) {
            (true, false) => Some(Turn::Down),
            (false, true) => Some(Turn::Up),
            _ => None,
        }
    }

    /// When the next trial is due.
    pub(super) fn next_probe(&self) -> Option<Mono> {
        self.next_probe
    }

    /// The trial is due: whether it is still wanted.
    pub(super) fn take_probe(&mut self) -> bool {
        self.next_probe = None;
        !self.changes.up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Mono {
        Mono(Duration::from_millis(ms))
    }

    /// As many changes fail at once as bring it down.
    fn fails(store: &mut StoreHealth, side: Side, began: Mono, now: Mono) -> Option<Turn> {
        (0..=CHANGES_TOLERATED).filter_map(|_| store.heard(side, false, began, now)).last()
    }

    #[test]
    fn a_job_whose_changes_fail_does_not_bring_it_down_while_others_go_well() {
        let mut store = StoreHealth::new();
        for ms in 0..100 {
            assert_eq!(store.heard(Side::Changes, false, at(ms), at(ms)), None);
            assert_eq!(store.heard(Side::Held, false, at(ms), at(ms)), None);
            assert_eq!(store.heard(Side::Changes, true, at(ms), at(ms)), None);
        }
        assert_eq!(fails(&mut store, Side::Changes, at(100), at(100)), Some(Turn::Down));
    }

    #[test]
    fn it_is_down_while_it_takes_no_changes_or_answers_no_questions() {
        let mut store = StoreHealth::new();
        assert_eq!(fails(&mut store, Side::Changes, at(1), at(2)), Some(Turn::Down));
        assert_eq!(store.heard(Side::Reads, true, at(2), at(3)), None);
        assert_eq!(store.heard(Side::Reads, false, at(3), at(4)), None);
        assert_eq!(store.heard(Side::Changes, true, at(4), at(5)), None);
        assert_eq!(store.heard(Side::Reads, true, at(5), at(6)), Some(Turn::Up));
    }

    #[test]
    fn what_concerns_a_known_run_brings_it_down_and_does_not_bring_it_up() {
        let mut store = StoreHealth::new();
        assert_eq!(fails(&mut store, Side::Held, at(1), at(2)), Some(Turn::Down));
        assert_eq!(store.heard(Side::Held, true, at(2), at(3)), None);
        assert_eq!(store.heard(Side::Probe, true, at(3), at(4)), Some(Turn::Up));
    }

    #[test]
    fn calls_that_began_in_an_outage_do_not_bring_it_back() {
        let mut store = StoreHealth::new();
        fails(&mut store, Side::Changes, at(1), at(10));
        assert_eq!(store.heard(Side::Changes, true, at(11), at(20)), Some(Turn::Up));
        assert_eq!(fails(&mut store, Side::Changes, at(15), at(30)), None);
        assert_eq!(fails(&mut store, Side::Changes, at(25), at(40)), Some(Turn::Down));
    }

    #[test]
    fn trials_that_mislead_become_rare_and_after_a_quiet_time_frequent_again() {
        let mut store = StoreHealth::new();
        let mut now = 1_000;
        fails(&mut store, Side::Changes, at(now), at(now));
        for pause in [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 64_000] {
            assert_eq!(store.next_probe(), Some(at(now + pause)));
            now += pause;
            assert!(store.take_probe());
            assert_eq!(store.heard(Side::Probe, true, at(now), at(now)), Some(Turn::Up));
            assert_eq!(fails(&mut store, Side::Changes, at(now), at(now)), Some(Turn::Down));
        }
        now += 64_000;
        assert!(store.take_probe());
        store.heard(Side::Probe, true, at(now), at(now));
        now += 600_000;
        fails(&mut store, Side::Changes, at(now), at(now));
        assert_eq!(store.next_probe(), Some(at(now + 1_000)));
    }

    #[test]
    fn a_trial_that_fails_is_followed_by_another() {
        let mut store = StoreHealth::new();
        fails(&mut store, Side::Changes, at(0), at(0));
        assert!(store.take_probe());
        store.heard(Side::Probe, false, at(1_000), at(3_000));
        assert_eq!(store.next_probe(), Some(at(4_000)));
    }
}
