//! One running attempt's lease as its runner can know it: when to send a heartbeat, when the lease is in doubt, when it
//! is lost, and when the guest is interrupted.
//!
//! It is apart from [`crate::agent`] because it is driven from another thread, which nothing a guest does can delay.

use std::time::Duration;

use crate::policy::{OnUncertain, Policy};
use crate::time::Mono;

/// The state of one attempt's lease.
#[derive(Debug, Clone)]
pub struct Holding {
    lease: Duration,
    heartbeat: Duration,
    retry: Duration,
    lost_grace: Duration,
    on_uncertain: OnUncertain,
    /// The first sending of the claim, or of the last acknowledged heartbeat, whichever is later.
    confirmed: Mono,
    /// When the next heartbeat is to be sent; none while one is on its way.
    next_beat: Option<Mono>,
    /// Another one is to follow at once the one that is on its way.
    another: bool,
    /// No more are sent.
    let_go: bool,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The lease lasts.
    Sure,
    /// The lease may have ended.
    Uncertain,
    /// The lease is lost; the guest is interrupted then.
    Lost { force_at: Mono },
    /// The guest has been interrupted.
    Forced,
}

/// What happened to the holding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// It is [`Holding::next_wakeup`], or later.
    Wake,
    /// The heartbeat sent at this time was acknowledged.
    Acknowledged(Mono),
    /// The heartbeat was refused.
    Refused,
    /// The heartbeat was not answered in time.
    Unanswered,
}

/// What the host is to do about it, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Send a heartbeat now.
    Beat,
    /// The lease may have ended: hold outward effects.
    Hold,
    /// The lease is renewed after it was in doubt: let effects go on.
    Resume,
    /// H2: the lease is lost. Signal the guest, say so, fail its host calls.
    Lose,
    /// Interrupt the guest.
    Force,
}

impl Holding {
    /// An attempt whose claim was first sent at `first_sent`; a heartbeat is due a heartbeat later, or at once when
    /// that has passed.
    ///
    /// When the lease counted from there has passed already, it is in doubt until a heartbeat is acknowledged; that the
    /// handler is not started before is the agent's part.
    pub fn new(policy: &Policy, first_sent: Mono, now: Mono) -> Holding {
        Holding {
            lease: policy.lease,
            heartbeat: policy.heartbeat,
            retry: policy.store_deadline(),
            lost_grace: policy.lost_grace,
            on_uncertain: policy.on_uncertain,
            confirmed: first_sent,
            next_beat: Some(first_sent + policy.heartbeat),
            another: false,
            let_go: false,
            phase: if now < first_sent + policy.lease { Phase::Sure } else { Phase::Uncertain },
        }
    }

    /// The end of the lease as the runner can know it.
    pub fn local_lease_end(&self) -> Mono {
        self.confirmed + self.lease
    }

    /// Decides. Heartbeats come first, also after a late wake-up.
    pub fn handle(&mut self, now: Mono, sign: Sign) -> Vec<Act> {
        let mut acts = Vec::new();
        match sign {
            Sign::Wake => {}
            Sign::Acknowledged(sent) => {
                self.confirmed = self.confirmed.max(sent);
                // Never a burst: a beat that was missed is not made up for.
                let next = if std::mem::take(&mut self.another) { now } else { sent + self.heartbeat };
                self.next_beat = Some(next.max(now));
                if self.phase == Phase::Uncertain && now < self.local_lease_end() {
                    self.phase = Phase::Sure;
                    acts.push(Act::Resume);
                }
            }
            Sign::Refused => self.lose(now, &mut acts),
            Sign::Unanswered => self.next_beat = Some(now + self.retry),
        }
        // What is given up is not renewed: the run would stay live without a runner for another lease.
        let is_given_up = match self.phase {
            Phase::Sure => self.let_go || self.on_uncertain == OnUncertain::Stop,
            Phase::Uncertain => self.let_go,
            Phase::Lost { .. } | Phase::Forced => false,
        };
        if is_given_up && now >= self.local_lease_end() {
            self.lose(now, &mut acts);
        }
        if sign == Sign::Wake && self.beats(now) {
            acts.insert(0, Act::Beat);
        }
        match self.phase {
            Phase::Sure if now >= self.local_lease_end() => {
                self.phase = Phase::Uncertain;
                acts.push(Act::Hold);
            }
            Phase::Lost { force_at } if now >= force_at => {
                self.phase = Phase::Forced;
                acts.push(Act::Force);
            }
            _ => {}
        }
        acts
    }

    /// Another attempt's heartbeat is sent now: whether this one's goes along, because it is due within a quarter of a
    /// heartbeat. Then it counts as sent. So attempts that began at different times come to share their calls.
    pub fn goes_along(&mut self, now: Mono) -> bool {
        self.beats(now + self.heartbeat / 4)
    }

    fn beats(&mut self, by: Mono) -> bool {
        let due = self.renews() && self.next_beat.is_some_and(|at| at <= by);
        if due {
            self.next_beat = None;
        }
        due
    }

    /// Wants a heartbeat that is sent from now on: at once, or right behind the one that is on its way.
    pub fn hurry(&mut self, now: Mono) {
        match &mut self.next_beat {
            Some(at) => *at = (*at).min(now),
            None => self.another = true,
        }
    }

    /// Renews the lease no more: when it has ended, the attempt is lost.
    pub fn let_go(&mut self) {
        self.let_go = true;
    }

    /// When [`Sign::Wake`] is due; none when nothing will happen by itself.
    pub fn next_wakeup(&self) -> Option<Mono> {
        let by_phase = match self.phase {
            Phase::Sure => Some(self.local_lease_end()),
            Phase::Uncertain => self.let_go.then(|| self.local_lease_end()),
            Phase::Forced => None,
            Phase::Lost { force_at } => Some(force_at),
        };
        let beat = self.next_beat.filter(|_| self.renews());
        by_phase.into_iter().chain(beat).min()
    }

    /// Whether the attempt may still hold its run.
    pub fn holds(&self) -> bool {
        matches!(self.phase, Phase::Sure | Phase::Uncertain)
    }

    fn renews(&self) -> bool {
        self.holds() && !self.let_go
    }

    fn lose(&mut self, now: Mono, acts: &mut Vec<Act>) {
        if self.holds() {
            self.phase = Phase::Lost { force_at: now + self.lost_grace };
            acts.push(Act::Lose);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Mono {
        Mono(Duration::from_millis(ms))
    }

    fn holding() -> Holding {
        Holding::new(&Policy::with_lease(Duration::from_secs(30)), at(0), at(0))
    }

    #[test]
    fn a_heartbeat_follows_every_heartbeat() {
        let mut h = holding();
        assert_eq!(h.next_wakeup(), Some(at(5_000)));
        assert_eq!(h.handle(at(5_000), Sign::Wake), [Act::Beat]);
        assert_eq!(h.handle(at(5_001), Sign::Wake), [], "one at a time");
        assert_eq!(h.handle(at(5_010), Sign::Acknowledged(at(5_000))), []);
        assert_eq!(h.next_wakeup(), Some(at(10_000)));
    }

    #[test]
    fn the_first_act_after_a_late_wake_up_is_a_heartbeat() {
        let mut h = holding();
        assert_eq!(h.handle(at(40_000), Sign::Wake), [Act::Beat, Act::Hold]);
        assert_eq!(h.handle(at(40_100), Sign::Acknowledged(at(40_000))), [Act::Resume]);
    }

    #[test]
    fn the_lease_is_counted_from_the_sending_of_the_last_acknowledged_heartbeat() {
        let mut h = holding();
        h.handle(at(5_000), Sign::Wake);
        h.handle(at(6_900), Sign::Acknowledged(at(5_000)));
        assert_eq!(h.local_lease_end(), at(35_000));
    }

    #[test]
    fn an_unanswered_heartbeat_is_sent_again_after_the_deadline_of_a_store_call() {
        let mut h = holding();
        h.handle(at(5_000), Sign::Wake);
        h.handle(at(7_000), Sign::Unanswered);
        assert_eq!(h.handle(at(9_000), Sign::Wake), [Act::Beat]);
    }

    #[test]
    fn a_heartbeat_that_is_wanted_is_sent_at_once_or_right_behind_the_one_on_its_way() {
        let mut h = holding();
        h.hurry(at(1_000));
        assert_eq!(h.next_wakeup(), Some(at(1_000)));
        assert_eq!(h.handle(at(1_000), Sign::Wake), [Act::Beat]);
        h.hurry(at(1_005));
        assert_eq!(h.handle(at(1_006), Sign::Wake), [], "one at a time");
        h.handle(at(1_010), Sign::Acknowledged(at(1_000)));
        assert_eq!(h.handle(at(1_010), Sign::Wake), [Act::Beat]);
        h.handle(at(1_020), Sign::Acknowledged(at(1_010)));
        assert_eq!(h.next_wakeup(), Some(at(6_010)), "then as before");
    }

    #[test]
    fn a_refusal_loses_first_and_forces_after_the_grace() {
        let mut h = holding();
        h.handle(at(5_000), Sign::Wake);
        assert_eq!(h.handle(at(5_010), Sign::Refused), [Act::Lose]);
        assert_eq!(h.next_wakeup(), Some(at(6_010)));
        assert_eq!(h.handle(at(6_010), Sign::Wake), [Act::Force]);
        assert_eq!(h.next_wakeup(), None);
        assert_eq!(h.handle(at(9_000), Sign::Acknowledged(at(5_000))), [], "a lost lease stays lost");
    }

    #[test]
    fn a_late_win_is_in_doubt_until_a_heartbeat_is_acknowledged() {
        let policy = Policy { on_uncertain: OnUncertain::Stop, ..Policy::default() };
        let mut h = Holding::new(&policy, at(0), at(31_000));
        assert_eq!(h.handle(at(31_000), Sign::Wake), [Act::Beat], "in doubt is not lost here");
        assert_eq!(h.handle(at(31_010), Sign::Acknowledged(at(31_000))), [Act::Resume]);
    }

    #[test]
    fn on_uncertain_stop_treats_doubt_as_loss() {
        let policy = Policy { on_uncertain: OnUncertain::Stop, ..Policy::default() };
        let mut h = Holding::new(&policy, at(0), at(0));
        assert_eq!(h.handle(at(30_000), Sign::Wake), [Act::Lose], "and nothing renews it");
    }

    #[test]
    fn what_is_let_go_is_renewed_no_more_and_lost_when_its_lease_ends() {
        let mut h = holding();
        h.let_go();
        assert_eq!(h.next_wakeup(), Some(h.local_lease_end()));
        assert!(!h.goes_along(at(10_000)));
        assert_eq!(h.handle(at(10_000), Sign::Wake), []);
        assert_eq!(h.handle(h.local_lease_end(), Sign::Wake), [Act::Lose]);
    }

    #[test]
    fn what_is_in_doubt_already_is_lost_at_once_when_it_is_let_go() {
        let mut h = holding();
        h.goes_along(at(5_000));
        assert_eq!(h.handle(h.local_lease_end(), Sign::Wake), [Act::Hold]);
        assert_eq!(h.next_wakeup(), None);
        h.let_go();
        assert_eq!(h.next_wakeup(), Some(h.local_lease_end()));
        assert_eq!(h.handle(at(40_000), Sign::Wake), [Act::Lose]);
    }

    #[test]
    fn a_heartbeat_that_is_due_soon_may_go_along_with_another() {
        let mut h = holding();
        assert!(!h.goes_along(at(3_749)) && h.goes_along(at(3_750)));
        assert_eq!(h.handle(at(5_000), Sign::Wake), [], "it is on its way");
        h.handle(at(5_100), Sign::Acknowledged(at(3_750)));
        assert_eq!(h.next_wakeup(), Some(at(8_750)));
    }
}
