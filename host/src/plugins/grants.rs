//! What a job is granted: what its manifest asks for, as far as the operator grants it to the tenant.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use leasehold_sandbox::{HttpGrants, Secret, Settings};

use crate::config::{Problem, Problems, TenantGrants};
use crate::manifest::{Wish, Wishes};

/// What a job is granted.
#[derive(Debug, Clone, Default)]
pub struct JobGrants {
    /// Where its requests may go.
    pub http: Arc<HttpGrants>,
    /// Settings it may read.
    pub config: Arc<BTreeMap<String, String>>,
    /// The keys of secrets it may use.
    pub secrets: BTreeSet<String>,
    /// What its manifest asks for and the operator does not grant. The job runs all the same, without it.
    pub missing: Problems,
}

impl JobGrants {
    /// Both must name it.
    pub fn new(job: &str, wishes: &Wishes, tenant: &TenantGrants) -> JobGrants {
        let mut missing = Problems::default();
        let mut http = HttpGrants::default();
        for Wish { what, place } in &wishes.http {
            match tenant.http.get(what) {
                Some(addresses) => http.allow(what.clone(), addresses),
                None => {
                    let reason = format!("{what} is not granted to the tenant");
                    let problem = Problem { key: format!("jobs.{job}.http"), ..Problem::of(place.clone(), reason) };
                    missing.push(problem.hint("the operator lists it in allow under [tenants.NAME.http]"));
                }
            }
        }
        let (mut config, mut secrets) = (BTreeMap::new(), BTreeSet::new());
        for Wish { what, place } in &wishes.config {
            match (tenant.config.get(what), tenant.secrets.contains_key(what)) {
                (Some(value), _) => drop(config.insert(what.clone(), value.clone())),
                (None, true) => drop(secrets.insert(what.clone())),
                (None, false) => {
                    let reason = format!("the tenant has no setting or secret {what}");
                    let problem = Problem { key: format!("jobs.{job}.config"), ..Problem::of(place.clone(), reason) };
                    missing.push(
                        problem.hint("the operator sets it under [tenants.NAME.config] or [tenants.NAME.secrets]"),
                    );
                }
            }
        }
        JobGrants { http: Arc::new(http), config: Arc::new(config), secrets, missing }
    }

    /// What the handler's calls of `config` answer, with placeholders made from `key`.
    pub(crate) fn settings(&self, of_tenant: &BTreeMap<String, Secret>, key: [u8; 32]) -> Settings {
        let granted = |(name, _): &(&String, &Secret)| self.secrets.contains(*name);
        let secrets = of_tenant.iter().filter(granted).map(|(name, secret)| (name.clone(), secret.clone())).collect();
        Settings { values: self.config.clone(), secrets: Arc::new(secrets), placeholder_key: key }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Place;

    #[test]
    fn a_job_gets_what_both_its_manifest_and_the_operator_name() {
        let place = Place::file(Path::new("x.toml"));
        let origin = |text: &str| text.parse::<leasehold_sandbox::Origin>().unwrap();
        let wish = |what: &str| Wish { what: what.to_owned(), place: place.clone() };
        let wishes = Wishes {
            http: ["https://a.example", "https://b.example"]
                .map(|text| Wish { what: origin(text), place: place.clone() })
                .into(),
            config: vec![wish("region"), wish("other")],
        };
        let mut tenant = TenantGrants::default();
        tenant.http = [(origin("https://a.example:443"), vec![]), (origin("https://c.example"), vec![])].into();
        tenant.config = [("region", "eu"), ("unasked", "x")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let grants = JobGrants::new("j", &wishes, &tenant);
        assert_eq!(grants.http.origins().map(ToString::to_string).collect::<Vec<_>>(), ["https://a.example"]);
        assert_eq!(*grants.config, [("region".to_owned(), "eu".to_owned())].into());
        let missing = grants.missing.to_string();
        assert_eq!(missing.lines().count(), 2, "{missing}");
        assert!(
            missing.contains("jobs.j.http: https://b.example is not granted to the tenant; the operator"),
            "{missing}"
        );
        assert!(missing.contains("jobs.j.config: the tenant has no setting or secret other"), "{missing}");
    }
}
