//! Which guests may be started: this many at a time on this host and of each tenant, and none while nearly all memory for
//! guests is in use. Who finds no place waits in line.

mod line;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use leasehold_lease::id::{RunKey, TenantName};
use leasehold_sandbox::MemoryLedger;

use crate::driver::TenantQuota;

use line::Line;

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The host stops.
    Closed,
    /// As many guests run here as may.
    Host,
    /// As many guests of the tenant run here as may.
    Tenant,
    /// Four fifths of the memory for all guests, or for the tenant's, is in use.
    Memory,
}

impl Full {
    /// For people.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Full::Closed => "the host stops",
            Full::Host => "as many runs as this host takes at a time are running ([host] concurrency)",
            Full::Tenant => "as many runs of the tenant as may are running on this host (concurrency)",
            Full::Memory => "most of the memory for guests is in use ([host] memory, tenant_memory)",
        }
    }
}

/// The places of a host.
#[derive(Debug)]
pub(crate) struct Places {
    host_limit: usize,
    held: BTreeSet<RunKey>,
    by_tenant: BTreeMap<TenantName, usize>,
    line: Line,
    memory: Arc<MemoryLedger>,
    /// The host stops: nobody gets a place any more.
    closed: bool,
}

impl Places {
    /// A host with this many places, and this memory for its guests.
    pub(crate) fn new(host_limit: usize, memory: Arc<MemoryLedger>) -> Places {
        let (held, by_tenant) = (BTreeSet::new(), BTreeMap::new());
        Places { host_limit, held, by_tenant, line: Line::default(), memory, closed: false }
    }

    /// Takes a place for the run, or stands in line. Whoever can be served from the line is to be served before.
    ///
    /// # Errors
    /// What is full. [`Places::free`] tells when the run's turn has come.
    pub(crate) fn reserve(&mut self, run: RunKey, quota: TenantQuota) -> Result<(), Full> {
        match self.full(&run.job.tenant, quota) {
            None => self.take(run),
            Some(full) => {
                self.line.join(run, quota);
                return Err(full);
            }
        }
        Ok(())
    }

    /// Gives a place back, or leaves the line. Answers who has got a place by that.
    pub(crate) fn free(&mut self, run: &RunKey) -> Vec<RunKey> {
        if !self.held.remove(run) {
            self.line.leave(run);
            return Vec::new();
        }
        if let Some(count) = self.by_tenant.get_mut(&run.job.tenant) {
            *count -= 1;
            if *count == 0 {
                self.by_tenant.remove(&run.job.tenant);
            }
        }
        self.serve()
    }

    /// From now on, nobody gets a place.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Serves the line: memory comes back at any time, and nobody tells of it. Answers who has got a place.
    ///
    /// First come, first served; a tenant at its limit does not hold up those behind it. Such a tenant is passed by as a
    /// whole, and holds places or memory: there are few of them, however long the line is.
    pub(crate) fn serve(&mut self) -> Vec<RunKey> {
        let mut served = Vec::new();
        let mut from = 0;
        while self.full_for_all().is_none()
            && let Some((number, run, quota)) = self.line.first_of_a_tenant(from)
        {
            if self.full(&run.job.tenant, quota).is_none() {
                let run = run.clone();
                self.line.leave(&run);
                self.take(run.clone());
                served.push(run);
            }
            from = number + 1;
        }
        served
    }

    /// What keeps a run of this tenant from being started now. A guest's memory is given back before its place is, so what
    /// is full now is looked at again whenever that may have changed.
    fn full(&self, tenant: &TenantName, quota: TenantQuota) -> Option<Full> {
        let of_tenant = self.by_tenant.get(tenant).copied().unwrap_or(0);
        self.full_for_all().or_else(|| match () {
            () if of_tenant >= quota.concurrency => Some(Full::Tenant),
            // What holds the memory is no run of this host's: nobody would ever come to serve the line.
            () if self.held.is_empty() || self.memory.admits(tenant.as_str(), quota.memory) => None,
            () => Some(Full::Memory),
        })
    }

    /// What keeps everyone's runs from being started now.
    fn full_for_all(&self) -> Option<Full> {
        match () {
            () if self.closed => Some(Full::Closed),
            () if self.held.len() >= self.host_limit => Some(Full::Host),
            () if !self.held.is_empty() && !self.memory.admits_anyone() => Some(Full::Memory),
            () => None,
        }
    }

    fn take(&mut self, run: RunKey) {
        *self.by_tenant.entry(run.job.tenant.clone()).or_default() += 1;
        self.held.insert(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_lease::dice::Dice;
    use leasehold_lease::id::RunId;
    use leasehold_lease::time::{Millis, Slot};
    use leasehold_sandbox::MemoryShare;

    fn run(job: &str, slot: i64) -> RunKey {
        RunKey { job: job.parse().unwrap(), run: RunId::Slot(Slot(Millis(slot))) }
    }

    fn places(host_limit: usize) -> Places {
        Places::new(host_limit, Arc::new(MemoryLedger::new(usize::MAX)))
    }

    fn at_most(concurrency: usize) -> TenantQuota {
        TenantQuota { concurrency, memory: None }
    }

    #[test]
    fn who_waits_is_served_in_order() {
        let mut places = places(1);
        assert_eq!(places.reserve(run("a/x", 1), at_most(9)), Ok(()));
        assert_eq!(places.reserve(run("a/y", 1), at_most(9)), Err(Full::Host));
        assert_eq!(places.reserve(run("a/z", 1), at_most(9)), Err(Full::Host));
        assert_eq!(places.free(&run("a/x", 1)), [run("a/y", 1)]);
        assert_eq!(places.reserve(run("a/x", 2), at_most(9)), Err(Full::Host), "one place, one run");
    }

    #[test]
    fn a_tenant_at_its_limit_does_not_hold_up_others() {
        let mut places = places(2);
        assert_eq!(places.reserve(run("a/x", 1), at_most(1)), Ok(()));
        assert_eq!(places.reserve(run("a/y", 1), at_most(1)), Err(Full::Tenant));
        assert_eq!(places.reserve(run("b/x", 1), at_most(1)), Ok(()), "tenant b is under its limit");
        assert_eq!(places.reserve(run("c/x", 1), at_most(1)), Err(Full::Host), "the host is full");
        assert_eq!(places.free(&run("b/x", 1)), [run("c/x", 1)], "a is still at its limit");
        assert_eq!(places.free(&run("a/x", 1)), [run("a/y", 1)]);
    }

    #[test]
    fn who_leaves_the_line_gets_no_place() {
        let mut places = places(1);
        assert_eq!(places.reserve(run("a/x", 1), at_most(9)), Ok(()));
        assert_eq!(places.reserve(run("a/y", 1), at_most(9)), Err(Full::Host));
        assert_eq!(places.free(&run("a/y", 1)), []);
        assert_eq!(places.free(&run("a/x", 1)), []);
        assert_eq!(places.reserve(run("a/z", 1), at_most(9)), Ok(()), "nobody holds a place");
    }

    #[test]
    fn a_host_that_stops_gives_no_place_to_anyone() {
        let mut places = places(1);
        assert_eq!(places.reserve(run("a/x", 1), at_most(9)), Ok(()));
        assert_eq!(places.reserve(run("a/y", 1), at_most(9)), Err(Full::Host));
        places.close();
        assert_eq!(places.free(&run("a/x", 1)), []);
        assert_eq!(places.reserve(run("a/z", 1), at_most(9)), Err(Full::Closed));
    }

    #[test]
    fn nothing_starts_while_memory_is_short_and_who_waits_is_served_when_it_is_free_again() {
        let memory = Arc::new(MemoryLedger::new(1_000));
        let mut places = Places::new(9, memory.clone());
        let whole = TenantQuota { concurrency: 9, memory: Some(1_000) };
        assert_eq!(places.reserve(run("a/x", 1), whole), Ok(()));
        let mut held = MemoryShare::new(memory.clone(), "a".to_owned(), Some(1_000));
        held.grow(800).unwrap();
        assert_eq!(places.reserve(run("b/x", 1), whole), Err(Full::Memory));
        assert_eq!(places.reserve(run("c/x", 1), whole), Err(Full::Memory));
        assert_eq!(places.serve(), []);
        drop(held);
        assert_eq!(places.serve(), [run("b/x", 1), run("c/x", 1)], "nobody has given a place back");
        assert_eq!(places.free(&run("a/x", 1)), []);
    }

    #[test]
    fn a_tenant_that_fills_its_memory_does_not_hold_up_others() {
        let memory = Arc::new(MemoryLedger::new(1_000));
        let mut places = Places::new(9, memory.clone());
        assert_eq!(places.reserve(run("a/x", 1), at_most(9)), Ok(()));
        let mut held = MemoryShare::new(memory.clone(), "a".to_owned(), None);
        held.grow(240).unwrap();
        assert_eq!(places.reserve(run("a/y", 1), at_most(9)), Err(Full::Memory));
        assert_eq!(places.reserve(run("b/x", 1), at_most(9)), Ok(()));
    }

    /// The rule of the line, word by word: everybody is looked at in the order of coming.
    #[derive(Default)]
    struct Model {
        held: Vec<RunKey>,
        line: Vec<RunKey>,
    }

    const HOST: usize = 4;
    const TENANT: usize = 2;

    impl Model {
        fn fits(&self, run: &RunKey) -> bool {
            let of_tenant = self.held.iter().filter(|held| held.job.tenant == run.job.tenant).count();
            self.held.len() < HOST && of_tenant < TENANT
        }

        fn reserve(&mut self, run: &RunKey) -> bool {
            let fits = self.fits(run);
            if fits { &mut self.held } else { &mut self.line }.push(run.clone());
            fits
        }

        fn free(&mut self, run: &RunKey) -> Vec<RunKey> {
            self.line.retain(|waiting| waiting != run);
            let before = self.held.len();
            self.held.retain(|held| held != run);
            let mut served = Vec::new();
            if self.held.len() < before {
                for waiting in std::mem::take(&mut self.line) {
                    if self.reserve(&waiting) {
                        served.push(waiting);
                    }
                }
            }
            served
        }
    }

    #[test]
    fn whatever_comes_and_goes_everybody_is_served_as_by_walking_along_the_line() {
        for seed in 0..200 {
            let mut dice = Dice::new(seed);
            let (mut places, mut model, mut waited) = (places(HOST), Model::default(), 0);
            for step in 0..300 {
                let (tenant, job) = (["a", "b", "c"][dice.below(3)], ["x", "y", "z"][dice.below(3)]);
                let run = run(&format!("{tenant}/{job}"), dice.below(3) as i64);
                let is_known = model.held.contains(&run) || model.line.contains(&run);
                if is_known {
                    assert_eq!(places.free(&run), model.free(&run), "seed {seed}, step {step}");
                } else {
                    let got = places.reserve(run.clone(), at_most(TENANT)).is_ok();
                    assert_eq!(got, model.reserve(&run), "seed {seed}, step {step}");
                    waited += usize::from(!got);
                }
            }
            assert!(waited > 10, "seed {seed}: nobody waited");
        }
    }

    #[test]
    fn a_long_line_costs_nothing_to_leave_or_to_walk_past() {
        let (mut places, long) = (places(2), 100_000);
        assert_eq!(places.reserve(run("a/x", 0), at_most(1)), Ok(()));
        assert_eq!(places.reserve(run("b/x", 0), at_most(2)), Ok(()));
        for n in 1..=long {
            assert_eq!(places.reserve(run("a/x", n), at_most(1)), Err(Full::Host));
        }
        // Step by step along the line, each of these loops would take ten thousand million steps and be ended for that.
        for n in 1..=long {
            assert_eq!(places.reserve(run("b/x", n), at_most(2)), Err(Full::Host));
            assert_eq!(places.free(&run("b/x", n - 1)), [run("b/x", n)], "a is at its limit");
        }
        for n in 1..=long {
            assert_eq!(places.free(&run("a/x", n)), []);
        }
        assert_eq!(places.free(&run("a/x", 0)), [], "nobody is left");
    }
}
