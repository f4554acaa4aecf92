//! What a job is granted: what its manifest asks for, as far as the operator grants it to the tenant.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use leasehold_lease::id::{JobName, TenantName};
use leasehold_lease::schedule::Zones;
use leasehold_sandbox::{HttpGrants, Secret, Settings};

use super::DEFAULT_TENANT;
use crate::config::{Config, Place, Problem, Problems, TenantGrants};
use crate::manifest::{self, Wish, Wishes};
use crate::regular_file;

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

/// What the jobs of one plugin are granted.
#[derive(Debug)]
pub struct PluginGrants {
    /// Whose plugin it would be.
    pub tenant: TenantName,
    /// Its jobs; those that are refused are left out.
    pub jobs: Vec<(JobName, JobGrants)>,
    /// What is wrong with its manifest.
    pub problems: Problems,
}

/// What a plugin's file would be granted where it lies, by the manifest beside it. A file that lies outside of the plugin
/// directory is looked at as if it lay directly in it.
pub fn grants_of(config: &Config, zones: &Zones, wasm: &Path) -> PluginGrants {
    let tenant = tenant_of(config, wasm);
    let (drafts, mut problems) = match drafts(config, zones, &tenant, &wasm.with_extension("toml")) {
        Ok(drafts) => (drafts, Problems::default()),
        Err(problems) => (Vec::new(), problems),
    };
    let granted = config.grants(&tenant);
    let mut jobs = Vec::new();
    for draft in drafts {
        match draft {
            Ok(draft) => jobs.push((draft.name.clone(), JobGrants::new(draft.name.as_str(), &draft.wishes, granted))),
            Err(refused) => problems.append(refused.problems),
        }
    }
    PluginGrants { tenant, jobs, problems }
}

type Drafts = Vec<Result<manifest::JobDraft, manifest::RefusedJob>>;

/// The jobs of a manifest; none where there is no manifest.
fn drafts(config: &Config, zones: &Zones, tenant: &TenantName, file: &Path) -> Result<Drafts, Problems> {
    let mut text = String::new();
    let read = regular_file::open(file).and_then(|file| file.take(manifest::FILE_MAX).read_to_string(&mut text));
    match read {
        Ok(_) => manifest::read(file, &text, config.tenant(tenant), zones),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Problem::of(Place::file(file), format!("it cannot be read: {error}")).into()),
    }
}

fn tenant_of(config: &Config, wasm: &Path) -> TenantName {
    let named = || {
        let folder = wasm.canonicalize().ok()?.parent()?.to_owned();
        let root = config.host.plugins.canonicalize().ok()?;
        (folder.parent()? == root).then(|| folder.file_name()?.to_str()?.parse().ok()).flatten()
    };
    named().unwrap_or_else(|| DEFAULT_TENANT.parse().expect("it is a name"))
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
        let http = [(origin("https://a.example:443"), vec![]), (origin("https://c.example"), vec![])].into();
        let config = [("region", "eu"), ("unasked", "x")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let tenant = TenantGrants { http, config, ..TenantGrants::default() };
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
