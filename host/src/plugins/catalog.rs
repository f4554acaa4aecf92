//! What a host serves: jobs with their plugins, and everything that is refused or out of date, with the reason.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use leasehold_lease::id::{JobKey, TenantName};
use leasehold_lease::policy::Policy;
use leasehold_lease::schedule::Schedule;

use super::grants::JobGrants;
use super::look::PluginId;
use crate::config::{JobLimits, Place, Problem, Problems, plain};

/// What the plugin directory holds, as far as it is loaded.
#[derive(Debug)]
pub struct Catalog<P> {
    /// The jobs that are offered.
    pub jobs: BTreeMap<JobKey, OfferedJob<P>>,
    /// The plugins that are loaded, also those without a job.
    pub plugins: Vec<LoadedPlugin<P>>,
    /// Jobs that nothing is wrong with, except that their plugin does not serve.
    pub idle: Vec<IdleJob>,
    /// Files and jobs that are not served, with the reason.
    pub refused: Vec<Refused>,
    /// Files and jobs whose older version serves, because what lies in the directory now is wrong.
    pub stale: Vec<Refused>,
}

impl<P> Default for Catalog<P> {
    fn default() -> Catalog<P> {
        Catalog { jobs: BTreeMap::new(), plugins: Vec::new(), idle: Vec::new(), refused: Vec::new(), stale: Vec::new() }
    }
}

impl<P> Catalog<P> {
    /// Nothing that is served or refused differs.
    pub(super) fn is_same(&self, other: &Catalog<P>) -> bool {
        let same_plugin = |a: &LoadedPlugin<P>, b: &LoadedPlugin<P>| a.id == b.id && Arc::ptr_eq(&a.plugin, &b.plugin);
        self.jobs.len() == other.jobs.len()
            && self.jobs.values().zip(other.jobs.values()).all(|(a, b)| a.is_same(b))
            && self.plugins.len() == other.plugins.len()
            && self.plugins.iter().zip(&other.plugins).all(|(a, b)| same_plugin(a, b))
            && self.idle == other.idle
            && self.refused == other.refused
            && self.stale == other.stale
    }

    /// Everything that is wrong, refused or stale, or asked for in vain.
    pub fn problems(&self) -> Problems {
        let mut all = Problems::default();
        self.jobs.values().for_each(|job| all.append(job.spec.grants.missing.clone()));
        self.refused.iter().chain(&self.stale).for_each(|refused| all.append(refused.problems.clone()));
        all
    }

    /// What is no mistake and perhaps not meant: jobs that never start by themselves, and secrets that can go nowhere.
    pub fn notes(&self) -> Problems {
        let mut all = Problems::default();
        for spec in self.jobs.values().map(|job| &job.spec) {
            spec.never_due().into_iter().for_each(|note| all.push(note));
            all.append(spec.grants.notes.clone());
        }
        all
    }
}

/// A job and the plugin that handles it. Both are replaced as a whole, never changed.
#[derive(Debug)]
pub struct OfferedJob<P> {
    /// The job.
    pub spec: Arc<JobSpec>,
    /// Its handler.
    pub plugin: Arc<P>,
}

impl<P> Clone for OfferedJob<P> {
    fn clone(&self) -> OfferedJob<P> {
        OfferedJob { spec: Arc::clone(&self.spec), plugin: Arc::clone(&self.plugin) }
    }
}

impl<P> OfferedJob<P> {
    /// The same version of the same job on the same version of the plugin.
    pub fn is_same(&self, other: &OfferedJob<P>) -> bool {
        Arc::ptr_eq(&self.spec, &other.spec) && Arc::ptr_eq(&self.plugin, &other.plugin)
    }
}

/// A job with all that a host needs to run it.
#[derive(Debug, Clone)]
pub struct JobSpec {
    /// `tenant/name`.
    pub key: JobKey,
    /// The file of its handler's code.
    pub plugin_file: PathBuf,
    /// Where a manifest defines it; none for a plugin without one.
    pub place: Option<Place>,
    /// When it is due; none for a job that the schedule never starts.
    pub schedule: Option<Schedule>,
    /// Its policy.
    pub policy: Policy,
    /// Its limits.
    pub limits: JobLimits,
    /// What the handler of a scheduled run is given. Empty when the job has no payload.
    pub payload: Arc<[u8]>,
    /// What it is granted beside its own code.
    pub grants: JobGrants,
    /// Bytes its tenant may keep in the store.
    pub stored_max: u64,
}

impl JobSpec {
    /// What is said of a job that has no schedule.
    fn never_due(&self) -> Option<Problem> {
        if self.schedule.is_some() {
            return None;
        }
        let key = &self.key;
        Some(match self.place.clone() {
            Some(place) => {
                let reason = "it has no schedule, so it never starts by itself";
                let problem = Problem { key: format!("jobs.{}", key.name), ..Problem::of(place, reason) };
                problem.hint("write schedule = \"@hourly\" or every = \"90s\"")
            }
            None => {
                let file = Place::file(&self.plugin_file);
                let reason = format!("no manifest is beside it, so it is the job {key}, which never starts by itself");
                let manifest = self.plugin_file.with_extension("toml");
                let name = manifest.file_name().unwrap_or_default().to_string_lossy();
                Problem::of(file, reason).hint(format!("write [[jobs]] with name and schedule into {}", plain(&name)))
            }
        })
    }
}

/// A job that cannot run, because its plugin does not serve.
#[derive(Debug, Clone)]
pub struct IdleJob {
    /// The job.
    pub spec: Arc<JobSpec>,
    /// What is wrong with its plugin; none while it is yet to be loaded.
    pub why: Option<String>,
}

impl IdleJob {
    /// Why it cannot run.
    pub fn reason(&self) -> &str {
        self.why.as_deref().unwrap_or("its plugin is not loaded yet")
    }
}

impl PartialEq for IdleJob {
    fn eq(&self, other: &IdleJob) -> bool {
        Arc::ptr_eq(&self.spec, &other.spec) && self.why == other.why
    }
}

/// A plugin that is loaded.
#[derive(Debug)]
pub struct LoadedPlugin<P> {
    /// Which one.
    pub id: PluginId,
    /// Its file.
    pub file: PathBuf,
    /// What the loader made of it.
    pub plugin: Arc<P>,
}

/// A file, or a job in it, that is not taken as it lies there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The file.
    pub file: PathBuf,
    /// Whose it is, where that is known.
    pub tenant: Option<TenantName>,
    /// The job, where one is concerned and its name could be read.
    pub job: Option<JobKey>,
    /// Why.
    pub problems: Problems,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problems.fmt(f)
    }
}
