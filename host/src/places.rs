//! How many guests may run at a time: on this host, and of each tenant. Who finds no place waits in line.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use leasehold_lease::id::{RunKey, TenantName};

/// The places of a host.
#[derive(Debug)]
pub(crate) struct Places {
    host_limit: usize,
    held: BTreeSet<RunKey>,
    by_tenant: BTreeMap<TenantName, usize>,
    line: VecDeque<(RunKey, usize)>,
    /// The host stops: nobody gets a place any more.
    closed: bool,
}

impl Places {
    /// A host with so many places.
    pub(crate) fn new(host_limit: usize) -> Places {
        Places { host_limit, held: BTreeSet::new(), by_tenant: BTreeMap::new(), line: VecDeque::new(), closed: false }
    }

    /// Takes a place for the run, or stands in line. `tenant_limit` is how many places its tenant may hold.
    pub(crate) fn reserve(&mut self, run: RunKey, tenant_limit: usize) -> bool {
        let free = self.is_free(&run, tenant_limit);
        if free {
            self.take(run);
        } else {
            self.line.push_back((run, tenant_limit));
        }
        free
    }

    /// Gives a place back, or leaves the line. Answers who has got a place by that.
    pub(crate) fn free(&mut self, run: &RunKey) -> Vec<RunKey> {
        if !self.held.remove(run) {
            self.line.retain(|(waiting, _)| waiting != run);
            return Vec::new();
        }
        if let Some(count) = self.by_tenant.get_mut(&run.job.tenant) {
            *count -= 1;
            if *count == 0 {
                self.by_tenant.remove(&run.job.tenant);
            }
        }
        self.serve_line()
    }

    /// From now on, nobody gets a place.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// First come, first served; a tenant at its limit does not hold up those behind it.
    fn serve_line(&mut self) -> Vec<RunKey> {
        let mut served = Vec::new();
        let mut at = 0;
        while self.held.len() < self.host_limit && at < self.line.len() {
            let (run, limit) = &self.line[at];
            if self.is_free(run, *limit) {
                let (run, _) = self.line.remove(at).expect("it was looked at a moment ago");
                self.take(run.clone());
                served.push(run);
            } else {
                at += 1;
            }
        }
        served
    }

    fn is_free(&self, run: &RunKey, tenant_limit: usize) -> bool {
        !self.closed
            && self.held.len() < self.host_limit
            && self.by_tenant.get(&run.job.tenant).copied().unwrap_or(0) < tenant_limit
    }

    fn take(&mut self, run: RunKey) {
        *self.by_tenant.entry(run.job.tenant.clone()).or_default() += 1;
        self.held.insert(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_lease::id::RunId;
    use leasehold_lease::time::{Millis, Slot};

    fn run(job: &str, slot: i64) -> RunKey {
        RunKey { job: job.parse().unwrap(), run: RunId::Slot(Slot(Millis(slot))) }
    }

    #[test]
    fn who_waits_is_served_in_order() {
        let mut places = Places::new(1);
        assert!(places.reserve(run("a/x", 1), 9));
        assert!(!places.reserve(run("a/y", 1), 9));
        assert!(!places.reserve(run("a/z", 1), 9));
        assert_eq!(places.free(&run("a/x", 1)), [run("a/y", 1)]);
        assert!(!places.reserve(run("a/x", 2), 9), "one place, one run");
    }

    #[test]
    fn a_tenant_at_its_limit_does_not_hold_up_others() {
        let mut places = Places::new(2);
        assert!(places.reserve(run("a/x", 1), 1));
        assert!(!places.reserve(run("a/y", 1), 1));
        assert!(places.reserve(run("b/x", 1), 1), "tenant b is under its limit");
        assert!(!places.reserve(run("c/x", 1), 1), "the host is full");
        assert_eq!(places.free(&run("b/x", 1)), [run("c/x", 1)], "a is still at its limit");
        assert_eq!(places.free(&run("a/x", 1)), [run("a/y", 1)]);
    }

    #[test]
    fn who_leaves_the_line_gets_no_place() {
        let mut places = Places::new(1);
        places.reserve(run("a/x", 1), 9);
        places.reserve(run("a/y", 1), 9);
        assert_eq!(places.free(&run("a/y", 1)), []);
        assert_eq!(places.free(&run("a/x", 1)), []);
        assert!(places.reserve(run("a/z", 1), 9), "nobody holds a place");
    }

    #[test]
    fn a_host_that_stops_gives_no_place_to_anyone() {
        let mut places = Places::new(1);
        places.reserve(run("a/x", 1), 9);
        places.reserve(run("a/y", 1), 9);
        places.close();
        assert_eq!(places.free(&run("a/x", 1)), []);
        assert!(!places.reserve(run("a/z", 1), 9));
    }
}
