//! Names of keys and of runs. What lies under which key is told in `lib/job.lua`.

use leasehold_lease::id::{JobKey, RunId, TenantName};
use leasehold_lease::time::{Millis, Slot};

use crate::wire::WireError;

/// How the keys of one namespace are made.
#[derive(Clone)]
pub(super) struct Keys {
    namespace: String,
}

impl Keys {
    pub(super) fn new(namespace: &str) -> Keys {
        Keys { namespace: namespace.to_owned() }
    }

    /// What the keys begin with that belong to no tenant.
    pub(super) fn all(&self) -> String {
        format!("leasehold:{{{}}}:", self.namespace)
    }

    /// Who the store is, which script `about` keeps.
    pub(super) fn about(&self) -> String {
        self.all() + "about"
    }

    /// What the keys of a tenant begin with. The braces hold what a cluster shards by.
    pub(super) fn tenant(&self, tenant: &TenantName) -> String {
        format!("leasehold:{{{}/{tenant}}}:", self.namespace)
    }

    /// A key of one job.
    pub(super) fn job(&self, kind: &str, job: &JobKey) -> String {
        format!("leasehold:{{{}/{}}}:{kind}:{}", self.namespace, job.tenant, job.name)
    }

    /// The log of a run.
    pub(super) fn log(&self, job: &JobKey, run: &RunId) -> String {
        format!("{}:{}", self.job("log", job), run_name(run))
    }

    /// The set of tenants.
    pub(super) fn tenants(&self) -> String {
        format!("leasehold:{{{}}}:tenants", self.namespace)
    }

    /// Where hosts say that a job was released or triggered.
    pub(super) fn channel(&self) -> String {
        format!("leasehold:{{{}}}:wake", self.namespace)
    }
}

/// The name of a run within its job: its slot in digits, or `:` and its id.
pub(super) fn run_name(run: &RunId) -> String {
    match run {
        RunId::Slot(slot) => slot.0.0.to_string(),
        RunId::OnDemand(id) => format!(":{}", id.as_str()),
    }
}

/// Reads what [`run_name`] wrote.
pub(super) fn run_id(name: &str) -> Result<RunId, WireError> {
    match name.strip_prefix(':') {
        Some(id) => id.parse().map(RunId::OnDemand).map_err(|error| WireError::new("a run's id", error)),
        None => match name.parse() {
            Ok(slot) => Ok(RunId::Slot(Slot(Millis(slot)))),
            Err(error) => Err(WireError::new("a run's slot", error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_a_tenant_share_a_hash_tag_and_those_of_two_namespaces_do_not() {
        let job: JobKey = "acme/nightly".parse().expect("a job");
        let prod = Keys::new("prod");
        assert_eq!(prod.job("job", &job), "leasehold:{prod/acme}:job:nightly");
        assert!(prod.job("job", &job).starts_with(&prod.tenant(&job.tenant)));
        assert_ne!(prod.tenant(&job.tenant), Keys::new("staging").tenant(&job.tenant));
    }

    #[test]
    fn a_run_is_found_by_the_name_that_was_made_of_it() {
        let slots = [0, -1, 1_700_000_000_000, i64::MIN].map(|at| RunId::Slot(Slot(Millis(at))));
        let ids = ["a", ":", "17", "-1"].map(|id| RunId::OnDemand(id.parse().expect("an id")));
        for run in slots.iter().chain(&ids) {
            assert_eq!(run_id(&run_name(run)).expect("a run"), *run);
        }
        assert!(run_id("").is_err() && run_id(":").is_err() && run_id("x").is_err());
    }
}
