//! When a host gives up runs of jobs that it does not offer.
//!
//! The store knows by its own clock when a host last offered a job. A store that was away, or whose clock was set forward,
//! calls all of that long ago. So whoever gives a run up has seen besides, by its own timer and for as long, that nobody
//! offered the job anew: while any host does, and reaches the store, no run of the job is given up.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use crate::id::{JobKey, RunId};
use crate::op::Close;
use crate::time::{Millis, Mono};

/// Jobs that the store is asked about after one poll; the others wait for the next.
const ASKS: usize = 16;

/// Runs of a job that are given up at a time; the others wait for the next poll.
const CLOSES: usize = 16;

/// What one host knows of runs that nobody executes, of jobs that it does not offer.
#[derive(Debug, Default)]
pub struct Orphans {
    /// What the last poll found, and how it would be given up.
    found: BTreeMap<JobKey, BTreeMap<RunId, Close>>,
    watched: BTreeMap<JobKey, Watched>,
    /// The job that the store was asked about last: the next ones follow it.
    asked: Option<JobKey>,
}

#[derive(Debug)]
struct Watched {
    /// When a host last offered the job, as the store has told.
    last_offered: Option<Millis>,
    /// Since when it has told nothing else.
    since: Mono,
    /// The run that was given up last, while more are to follow.
    after: Option<RunId>,
}

impl Orphans {
    /// One that knows nothing yet.
    pub fn new() -> Orphans {
        Orphans::default()
    }

    /// A poll has found these runs and no others. Answers jobs that the store is to be asked about: when has a host last
    /// offered them?
    pub fn found(&mut self, runs: impl IntoIterator<Item = (JobKey, Close)>, now: Mono) -> Vec<JobKey> {
        self.found.clear();
        for (job, close) in runs {
            self.found.entry(job).or_default().insert(close.run.clone(), close);
        }
        self.watched.retain(|job, _| self.found.contains_key(job));
        let is_due = |job: &JobKey, runs: &BTreeMap<RunId, Close>| {
            self.watched.get(job).is_none_or(|watched| now >= watched.since + patience(runs))
        };
        let mut due: Vec<&JobKey> =
            self.found.iter().filter(|(job, runs)| is_due(job, runs)).map(|(job, _)| job).collect();
        let asked = due.partition_point(|job| Some(*job) <= self.asked.as_ref());
        due.rotate_left(asked);
        let due: Vec<JobKey> = due.into_iter().take(ASKS).cloned().collect();
        self.asked = due.last().cloned();
        due
    }

    /// The store has told when a host last offered the job. Answers what is to be given up now.
    pub fn offered(&mut self, job: &JobKey, last_offered: Option<Millis>, now: Mono) -> Vec<Close> {
        let Some(runs) = self.found.get(job) else { return Vec::new() };
        let fresh = Watched { last_offered, since: now, after: None };
        let watched = match self.watched.entry(job.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                new.insert(fresh);
                return Vec::new();
            }
        };
        if watched.last_offered != last_offered {
            *watched = fresh;
            return Vec::new();
        }
        if now < watched.since + patience(runs) {
            return Vec::new();
        }
        let follows = |run: &RunId| watched.after.as_ref().is_none_or(|after| run > after);
        let mut closes: Vec<Close> =
            runs.iter().filter(|(run, _)| follows(run)).map(|(_, close)| close.clone()).take(CLOSES + 1).collect();
        if closes.len() > CLOSES {
            closes.truncate(CLOSES);
            watched.after = closes.last().map(|close| close.run.clone());
        } else {
            // The store may have refused some: it is asked again after as long.
            *watched = fresh;
        }
        closes
    }

    /// The store was away, or this host stood still: others may have been kept from offering anything. Everything is
    /// watched anew.
    pub fn restart(&mut self) {
        self.watched.clear();
    }
}

/// For how long a job of these runs must not have been offered.
fn patience(runs: &BTreeMap<RunId, Close>) -> Duration {
    runs.values().map(|close| close.unoffered_for).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Slot;

    const OFFERED: Option<Millis> = Some(Millis(7));

    fn at(seconds: u64) -> Mono {
        Mono(Duration::from_secs(seconds))
    }

    fn job(name: &str) -> JobKey {
        name.parse().expect("a job")
    }

    fn runs(name: &str, count: i64) -> Vec<(JobKey, Close)> {
        let close = |n| Close {
            run: RunId::Slot(Slot(Millis(n))),
            unoffered_for: Duration::from_secs(60),
            reason: String::new(),
        };
        (0..count).map(|n| (job(name), close(n))).collect()
    }

    /// A poll that finds a run of `a/x`, and the store's answer to what follows: how many runs are given up.
    fn look(orphans: &mut Orphans, now: u64, last_offered: Option<Millis>) -> usize {
        let asked = orphans.found(runs("a/x", 1), at(now));
        asked.iter().map(|job| orphans.offered(job, last_offered, at(now)).len()).sum()
    }

    #[test]
    fn a_run_is_given_up_when_nobody_has_offered_its_job_for_as_long_by_the_own_timer() {
        let mut orphans = Orphans::new();
        assert_eq!(look(&mut orphans, 0, OFFERED), 0);
        assert_eq!(look(&mut orphans, 59, OFFERED), 0);
        assert_eq!(look(&mut orphans, 60, OFFERED), 1);
        assert_eq!(look(&mut orphans, 61, OFFERED), 0, "it was asked for a moment ago");
        assert_eq!(look(&mut orphans, 120, OFFERED), 1, "the store refused");
        orphans.found(Vec::new(), at(121));
        assert_eq!(look(&mut orphans, 500, OFFERED), 0, "what was gone is new");
        let mut never_offered = Orphans::new();
        assert_eq!((look(&mut never_offered, 0, None), look(&mut never_offered, 60, None)), (0, 1));
    }

    #[test]
    fn while_a_host_offers_the_job_nothing_is_given_up_whatever_the_stores_clock_says() {
        let mut orphans = Orphans::new();
        for (now, offered) in [(0, 1), (60, 2), (120, 1_000_000_000), (180, 3)] {
            assert_eq!(look(&mut orphans, now, Some(Millis(offered))), 0);
        }
        assert_eq!(look(&mut orphans, 240, Some(Millis(3))), 1);
    }

    #[test]
    fn after_an_outage_hosts_have_as_long_to_offer_their_jobs_anew() {
        let mut orphans = Orphans::new();
        assert_eq!(look(&mut orphans, 0, OFFERED), 0);
        orphans.restart();
        assert_eq!(look(&mut orphans, 100, OFFERED), 0);
        assert_eq!(look(&mut orphans, 159, OFFERED), 0);
        assert_eq!(look(&mut orphans, 160, OFFERED), 1);
    }

    #[test]
    fn an_answer_that_comes_late_or_twice_gives_nothing_up_too_early() {
        let mut orphans = Orphans::new();
        assert_eq!(orphans.found(runs("a/x", 1), at(0)), [job("a/x")]);
        assert_eq!(orphans.found(runs("a/x", 1), at(7)), [job("a/x")], "nothing was answered");
        assert!(orphans.offered(&job("a/x"), OFFERED, at(10)).is_empty());
        assert!(orphans.offered(&job("a/x"), OFFERED, at(69)).is_empty());
        assert!(orphans.found(runs("a/x", 1), at(69)).is_empty(), "nobody is asked too early");
        assert_eq!(orphans.offered(&job("a/x"), OFFERED, at(70)).len(), 1);
        assert!(orphans.offered(&job("a/other"), OFFERED, at(70)).is_empty());
    }

    #[test]
    fn many_runs_are_given_up_a_few_at_a_time_and_each_once() {
        let mut orphans = Orphans::new();
        let mut given_up = Vec::new();
        for now in [0, 60, 67, 74, 81] {
            for job in orphans.found(runs("a/x", 40), at(now)) {
                given_up.push(orphans.offered(&job, OFFERED, at(now)));
            }
        }
        assert_eq!(given_up.iter().map(Vec::len).collect::<Vec<_>>(), [0, 16, 16, 8]);
        let all: std::collections::BTreeSet<RunId> = given_up.into_iter().flatten().map(|close| close.run).collect();
        assert_eq!(all.len(), 40);
    }

    #[test]
    fn jobs_about_which_nothing_is_answered_do_not_hold_up_the_others() {
        let mut orphans = Orphans::new();
        let many = || (0..40).flat_map(|n| runs(&format!("a/x{n:02}"), 1)).collect::<Vec<_>>();
        let asked: Vec<Vec<JobKey>> = (0..3).map(|poll| orphans.found(many(), at(poll))).collect();
        assert_eq!(asked.iter().map(Vec::len).collect::<Vec<_>>(), [16, 16, 16]);
        let different: std::collections::BTreeSet<&JobKey> = asked.iter().flatten().collect();
        assert_eq!(different.len(), 40);
    }
}
