//! The line of those who wait for a place. Joining, leaving and looking for the next cost the same however long it is.

use std::collections::{BTreeMap, HashMap};

use leasehold_lease::id::{RunKey, TenantName};

use crate::driver::TenantQuota;

/// In the order of their coming.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// The number of the next one to come.
    next: u64,
    numbers: HashMap<RunKey, u64>,
    /// Those of each tenant that has some, by number.
    tenants: BTreeMap<TenantName, BTreeMap<u64, (RunKey, TenantQuota)>>,
    /// The number of the first of each of them.
    firsts: BTreeMap<u64, TenantName>,
}

impl Line {
    /// Comes last; a run that stands in line already keeps its number.
    pub(super) fn join(&mut self, run: RunKey, quota: TenantQuota) {
        if self.numbers.contains_key(&run) {
            return;
        }
        let (number, tenant) = (self.next, run.job.tenant.clone());
        self.next += 1;
        self.numbers.insert(run.clone(), number);
        let of_tenant = self.tenants.entry(tenant.clone()).or_default();
        if of_tenant.is_empty() {
            self.firsts.insert(number, tenant);
        }
        of_tenant.insert(number, (run, quota));
    }

    /// Waits no more, if it did.
    pub(super) fn leave(&mut self, run: &RunKey) {
        let Some(number) = self.numbers.remove(run) else { return };
        let tenant = &run.job.tenant;
        let Some(of_tenant) = self.tenants.get_mut(tenant) else { return };
        of_tenant.remove(&number);
        if self.firsts.remove(&number).is_none() {
            return;
        }
        match of_tenant.first_key_value() {
            Some((first, _)) => drop(self.firsts.insert(*first, tenant.clone())),
            None => drop(self.tenants.remove(tenant)),
        }
    }

    /// The first in line, from this number on, who is the first of its tenant.
    pub(super) fn first_of_a_tenant(&self, from: u64) -> Option<(u64, &RunKey, TenantQuota)> {
        let (number, tenant) = self.firsts.range(from..).next()?;
        let (run, quota) = self.tenants.get(tenant)?.get(number)?;
        Some((*number, run, *quota))
    }
}
