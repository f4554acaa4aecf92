//! What a job is granted: what its manifest asks for, as far as the operator grants it to the tenant.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use leasehold_lease::id::{JobKey, JobName, TenantName};
use leasehold_lease::schedule::Zones;
use leasehold_sandbox::{HttpGrants, Secret, Settings};

use super::beneath::Folder;
use super::payloads::PayloadFiles;
use super::{DEFAULT_TENANT, load};
use crate::config::{Config, Place, Problem, Problems, TenantGrants};
use crate::manifest::{self, JobDraft, RefusedJob, Wish, Wishes};
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
    /// What it is granted and cannot use.
    pub notes: Problems,
}

impl JobGrants {
    /// Both must name it.
    pub fn new(job: &JobKey, wishes: &Wishes, granted: &TenantGrants) -> JobGrants {
        let JobKey { tenant, name } = job;
        let (mut missing, mut notes) = (Problems::default(), Problems::default());
        let mut http = HttpGrants::default();
        for Wish { what, place } in &wishes.http {
            match granted.http.get(what) {
                Some(addresses) => http.allow(what.clone(), addresses),
                None => {
                    let reason = format!("{what} is not granted to the tenant");
                    let problem = Problem { key: format!("jobs.{name}.http"), ..Problem::of(place.clone(), reason) };
                    missing.push(problem.hint(format!("the operator lists it in allow under [tenants.{tenant}.http]")));
                }
            }
        }
        let (mut config, mut secrets) = (BTreeMap::new(), BTreeSet::new());
        for Wish { what, place } in &wishes.config {
            let problem = |reason| Problem { key: format!("jobs.{name}.config"), ..Problem::of(place.clone(), reason) };
            match (granted.config.get(what), granted.secrets.get(what)) {
                (Some(value), _) => drop(config.insert(what.clone(), value.clone())),
                (None, Some(secret)) => {
                    secrets.insert(what.clone());
                    let origin = &secret.origin;
                    // An origin that is asked for in vain has been told.
                    if !wishes.http.iter().any(|wish| wish.what == *origin) {
                        let reason = format!("the secret {what} goes to {origin} alone, where the job sends nothing");
                        notes.push(problem(reason).hint(format!("write http = [\"{origin}\"]")));
                    }
                }
                (None, None) => {
                    let section = format!("[tenants.{tenant}.config] or [tenants.{tenant}.secrets]");
                    let reason = format!("the tenant has no setting or secret {what}");
                    missing.push(problem(reason).hint(format!("the operator sets it under {section}")));
                }
            }
        }
        JobGrants { http: Arc::new(http), config: Arc::new(config), secrets, missing, notes }
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
    let folder = opened_folder(config, wasm);
    let mut payloads = folder.as_ref().map(PayloadFiles::of);
    // Without its payload, a host refuses the job.
    let mut with_payload = |draft: JobDraft| match &mut payloads {
        Some(payloads) => load::payload(&draft, payloads).map(|_| draft),
        None => Ok(draft),
    };
    for draft in drafts {
        match draft.and_then(&mut with_payload) {
            Ok(draft) => {
                let key = JobKey { tenant: tenant.clone(), name: draft.name.clone() };
                jobs.push((draft.name, JobGrants::new(&key, &draft.wishes, granted)));
            }
            Err(refused) => problems.append(refused.problems),
        }
    }
    PluginGrants { tenant, jobs, problems }
}

type Drafts = Vec<Result<JobDraft, RefusedJob>>;

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
    own_folder(config, wasm).unwrap_or_else(|| DEFAULT_TENANT.parse().expect("it is a name"))
}

/// The tenant whose folder in the plugin directory holds it; none for a file that lies elsewhere.
fn own_folder(config: &Config, wasm: &Path) -> Option<TenantName> {
    let folder = wasm.canonicalize().ok()?.parent()?.to_owned();
    let root = config.host.plugins.canonicalize().ok()?;
    (folder.parent()? == root).then(|| folder.file_name()?.to_str()?.parse().ok()).flatten()
}

/// The folder of the plugin, as a host would open it. None where it cannot be opened: then there is no manifest either.
fn opened_folder(config: &Config, wasm: &Path) -> Option<Folder> {
    if let Some(tenant) = own_folder(config, wasm) {
        return Folder::open(&config.host.plugins).ok()?.tenant(tenant.as_str()).ok();
    }
    let folder = wasm.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Folder::open(folder).ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Sources;

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
        let grants = JobGrants::new(&"acme/j".parse().unwrap(), &wishes, &tenant);
        assert_eq!(grants.http.origins().map(ToString::to_string).collect::<Vec<_>>(), ["https://a.example"]);
        assert_eq!(*grants.config, [("region".to_owned(), "eu".to_owned())].into());
        let missing = grants.missing.to_string();
        assert_eq!(missing.lines().count(), 2, "{missing}");
        assert!(
            missing.contains("jobs.j.http: https://b.example is not granted to the tenant; the operator"),
            "{missing}"
        );
        assert!(missing.contains("jobs.j.config: the tenant has no setting or secret other"), "{missing}");
        assert!(missing.contains("under [tenants.acme.http]") && missing.contains("or [tenants.acme.secrets]"));
    }

    #[test]
    fn a_job_whose_payload_is_not_there_is_told_as_refused() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config::load(&Sources { folder: folder.path().into(), ..Sources::default() }).unwrap();
        let wasm = folder.path().join("a.wasm");
        let job = |name: &str| format!("[[jobs]]\nname = \"{name}\"\npayload_file = \"{name}.json\"\n");
        std::fs::write(wasm.with_extension("toml"), job("there") + &job("missing")).unwrap();
        std::fs::write(folder.path().join("there.json"), "1").unwrap();
        let found = grants_of(&config, &Zones::bundled(), &wasm);
        assert_eq!(found.jobs.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["there"]);
        let told = found.problems.to_string();
        assert!(told.contains("jobs.missing.payload_file = \"missing.json\": there is no such file"), "{told}");
    }
}
