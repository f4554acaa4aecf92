//! The places for handlers on each host, for which jobs compete.

use std::collections::{BTreeSet, VecDeque};

use leasehold_lease::id::RunId;

use crate::Ms;

/// Those of all hosts, shared by the worlds of all jobs.
pub(crate) struct Places {
    hosts: Vec<OfHost>,
    /// Runs that got a place while another job's world was looked at, with their job and host.
    granted: Vec<(usize, usize, RunId)>,
}

struct OfHost {
    /// So many until then, and no end of them behind that.
    limit: (usize, Ms),
    held: BTreeSet<(usize, RunId)>,
    line: VecDeque<(usize, RunId)>,
}

impl Places {
    pub(crate) fn new(hosts: usize, limit: (usize, Ms)) -> Places {
        let host = || OfHost { limit, held: BTreeSet::new(), line: VecDeque::new() };
        Places { hosts: std::iter::repeat_with(host).take(hosts).collect(), granted: Vec::new() }
    }

    pub(crate) fn limit(&mut self, host: usize, places: usize, until: Ms) {
        self.hosts[host].limit = (places, until);
    }

    /// Takes a place for a job's run, or stands in line for one.
    pub(crate) fn reserve(&mut self, now: Ms, host: usize, job: usize, run: &RunId) -> bool {
        let host = &mut self.hosts[host];
        let is_free = host.is_free(now);
        if is_free {
            host.held.insert((job, run.clone()));
        } else {
            host.line.push_back((job, run.clone()));
        }
        is_free
    }

    pub(crate) fn free(&mut self, host: usize, job: usize, run: &RunId) {
        let of_run = (job, run.clone());
        let host = &mut self.hosts[host];
        host.held.remove(&of_run);
        host.line.retain(|waiting| *waiting != of_run);
    }

    /// The process has ended.
    pub(crate) fn clear(&mut self, host: usize, job: usize) {
        let host_of = &mut self.hosts[host];
        host_of.held.retain(|(holder, _)| *holder != job);
        host_of.line.retain(|(waiting, _)| *waiting != job);
        self.granted.retain(|(of, at, _)| (*of, *at) != (job, host));
    }

    /// Lets the line of a host forward, and answers which runs of this job get a place.
    pub(crate) fn next(&mut self, now: Ms, host: usize, job: usize) -> Vec<RunId> {
        let of_host = &mut self.hosts[host];
        let mut served = Vec::new();
        while of_host.is_free(now)
            && let Some((of, run)) = of_host.line.pop_front()
        {
            of_host.held.insert((of, run.clone()));
            if of == job {
                served.push(run);
            } else {
                self.granted.push((of, host, run));
            }
        }
        served
    }

    /// Whose turn came while another job was looked at, with the host.
    pub(crate) fn granted(&mut self, job: usize) -> Vec<(usize, RunId)> {
        self.granted.extract_if(.., |(of, ..)| *of == job).map(|(_, host, run)| (host, run)).collect()
    }
}

impl OfHost {
    fn is_free(&self, now: Ms) -> bool {
        now >= self.limit.1 || self.held.len() < self.limit.0
    }
}
