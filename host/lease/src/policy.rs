//! What a job's operator and author may set: how long a lease is, how late a slot may start, who may overlap.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The grace added to every bound on lateness: clocks of healthy hosts differ by less than this.
pub const CLOCK_GRACE: Duration = Duration::from_secs(10);

/// Whether a run may start while another run of its job is live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overlap {
    /// It may not: the slot is skipped.
    #[default]
    Skip,
    /// It may.
    Allow,
}

impl Overlap {
    /// The word that people, manifests and records use.
    pub fn word(self) -> &'static str {
        match self {
            Overlap::Skip => "skip",
            Overlap::Allow => "allow",
        }
    }
}

/// What a host does with a run when it cannot reach the store and its own lease may have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnUncertain {
    /// Hold its outward effects until the store has answered.
    #[default]
    Hold,
    /// Treat the moment as a loss.
    Stop,
}

/// What must be known of a lease before an outward effect of its run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fencing {
    /// That it lasts, as its runner can know it.
    #[default]
    Held,
    /// That the store has just confirmed it: a heartbeat that was sent for this effect is acknowledged. A write to the store
    /// needs none, for the store compares its token when it carries it out.
    Strict,
}

/// When stop interrupts guests by force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopForce {
    /// After this time.
    After(Duration),
    /// Not at all: what still runs at `stop_timeout` is left to its lease.
    Never,
}

/// All policy keys of one job, with the defaults of the contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// How long a host counts as alive after its last heartbeat. At least 1 s.
    pub lease: Duration,
    /// How often a running attempt renews its lease. Under half the lease.
    pub heartbeat: Duration,
    /// How many starts, hand-overs not counted, a run may have.
    pub max_attempts: u32,
    /// May runs of this job overlap?
    pub overlap: Overlap,
    /// How old a missed slot may be and still be caught up. Zero turns catching up off.
    pub catch_up: Duration,
    /// How late a slot's claim may be, besides [`CLOCK_GRACE`].
    pub max_late: Duration,
    /// Each host waits a random time up to this before a slot's claim.
    pub jitter: Duration,
    /// The same before a catch-up claim.
    pub catch_up_jitter: Duration,
    /// Finished runs kept per job.
    pub history_size: u32,
    /// How long stop waits for handlers.
    pub stop_timeout: Duration,
    /// When stop interrupts guests that still run.
    pub stop_force: StopForce,
    /// What happens to a run whose lease is in doubt.
    pub on_uncertain: OnUncertain,
    /// What is asked of the lease before each outward effect.
    pub fence: Fencing,
    /// From the signal `lost` to force.
    pub lost_grace: Duration,
    /// On-demand runs that may wait per job.
    pub pending_max: u32,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy::with_lease(Duration::from_secs(30))
    }
}

impl Policy {
    /// The defaults of the contract for this lease: those that depend on the lease follow it.
    pub fn with_lease(lease: Duration) -> Policy {
        let heartbeat = Policy::default_heartbeat(lease);
        let stop_timeout = Duration::from_secs(30);
        Policy {
            lease,
            heartbeat,
            max_attempts: 3,
            overlap: Overlap::Skip,
            catch_up: Duration::from_secs(300),
            max_late: Duration::from_secs(60),
            jitter: Duration::from_millis(250),
            catch_up_jitter: Duration::from_secs(2),
            history_size: 100,
            stop_timeout,
            stop_force: Policy::default_stop_force(stop_timeout),
            on_uncertain: OnUncertain::Hold,
            fence: Fencing::Held,
            lost_grace: Policy::default_lost_grace(heartbeat),
            pending_max: 1_000,
        }
    }

    /// The smaller of 5 s and a sixth of the lease, in whole milliseconds.
    pub fn default_heartbeat(lease: Duration) -> Duration {
        whole_ms(lease / 6).min(Duration::from_secs(5))
    }

    /// Five sixths of the stop timeout.
    pub fn default_stop_force(stop_timeout: Duration) -> StopForce {
        StopForce::After(whole_ms(stop_timeout * 5 / 6))
    }

    /// One second, at most a heartbeat.
    pub fn default_lost_grace(heartbeat: Duration) -> Duration {
        heartbeat.min(Duration::from_secs(1))
    }

    /// The part that goes to the store with every claim.
    pub fn terms(&self) -> Terms {
        Terms {
            lease: self.lease,
            max_attempts: self.max_attempts,
            overlap: self.overlap,
            catch_up: self.catch_up,
            max_late: self.max_late,
            history_size: self.history_size,
        }
    }

    /// How long one call to the store may take: the smaller of 2 s and half a heartbeat.
    pub fn store_deadline(&self) -> Duration {
        (self.heartbeat / 2).min(Duration::from_secs(2))
    }

    /// Every combination that cannot work, as key and reason; empty when the policy is sound.
    ///
    /// `interval` is the least time between two slots of the job, where it has a schedule.
    pub fn problems(&self, interval: Option<Duration>) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        let mut refuse = |wrong: bool, key, reason: String| {
            if wrong {
                found.push((key, reason));
            }
        };
        let show = |d: Duration| format!("{} s", d.as_secs_f64());
        refuse(self.lease < Duration::from_secs(1), "lease", "it must be at least 1 s".into());
        refuse(self.heartbeat < Duration::from_millis(10), "heartbeat", "it must be at least 10 ms".into());
        refuse(
            self.heartbeat * 2 >= self.lease,
            "heartbeat",
            format!(
                "a heartbeat of {} must be under half the lease of {} (under {}), or one late heartbeat loses the run",
                show(self.heartbeat),
                show(self.lease),
                show(self.lease / 2)
            ),
        );
        refuse(self.max_attempts == 0, "max_attempts", "it must be at least 1".into());
        refuse(
            self.jitter >= self.max_late && !self.jitter.is_zero(),
            "jitter",
            format!(
                "{} must be under max_late ({}), or a slot may be late by chance",
                show(self.jitter),
                show(self.max_late)
            ),
        );
        if let Some(interval) = interval {
            refuse(
                self.jitter * 2 >= interval,
                "jitter",
                format!("{} must be under half the interval of {}", show(self.jitter), show(interval)),
            );
        }
        if let StopForce::After(after) = self.stop_force {
            refuse(
                after > self.stop_timeout,
                "stop_force",
                format!("{} must not exceed stop_timeout ({})", show(after), show(self.stop_timeout)),
            );
        }
        refuse(
            self.lost_grace > self.heartbeat,
            "lost_grace",
            format!("{} must not exceed the heartbeat ({})", show(self.lost_grace), show(self.heartbeat)),
        );
        found
    }
}

/// The part of a policy that the store applies to a claim and keeps with the attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// See [`Policy::lease`]; the attempt's heartbeats renew by it.
    pub lease: Duration,
    /// See [`Policy::max_attempts`].
    pub max_attempts: u32,
    /// See [`Policy::overlap`].
    pub overlap: Overlap,
    /// See [`Policy::catch_up`].
    pub catch_up: Duration,
    /// See [`Policy::max_late`].
    pub max_late: Duration,
    /// See [`Policy::history_size`].
    pub history_size: u32,
}

impl Terms {
    /// The largest age at which a claim under these terms can still be in time.
    pub fn bound(&self) -> Duration {
        self.max_late.max(self.catch_up)
    }
}

fn whole_ms(d: Duration) -> Duration {
    Duration::from_millis(u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_sound_for_every_lease() {
        for ms in [1_000, 1_001, 3_000, 30_000, 3_600_000] {
            let policy = Policy::with_lease(Duration::from_millis(ms));
            assert_eq!(policy.problems(None), vec![], "lease {ms} ms");
        }
        assert_eq!(Policy::default().heartbeat, Duration::from_secs(5));
        assert_eq!(Policy::default().stop_force, StopForce::After(Duration::from_secs(25)));
    }

    #[test]
    fn a_heartbeat_that_is_not_under_half_the_lease_is_refused_with_both_numbers() {
        let policy = Policy { heartbeat: Duration::from_secs(20), ..Policy::default() };
        let problems = policy.problems(None);
        assert_eq!(problems[0].0, "heartbeat");
        assert!(problems[0].1.contains("20 s") && problems[0].1.contains("30 s"), "{problems:?}");
    }

    #[test]
    fn jitter_stays_under_half_the_interval() {
        let policy = Policy { jitter: Duration::from_secs(1), ..Policy::default() };
        assert_eq!(policy.problems(Some(Duration::from_secs(3))), vec![]);
        assert_eq!(policy.problems(Some(Duration::from_secs(2)))[0].0, "jitter");
    }
}
