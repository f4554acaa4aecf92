//! How every file stands, in bounded words.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold_lease::id::{JobKey, TenantName};

use super::super::catalog::{Catalog, Refused};
use super::super::look::PluginId;
use super::super::standing::{JobStanding, Odd, PROBLEM_CHARS, PROBLEMS_MAX, PluginState, Standing, Survey};
use super::{Entry, State, Unit};
use crate::config::{Config, Problem, Problems, plain};

/// Refused jobs by name and file.
type RefusedJobs<'a> = BTreeMap<(&'a JobKey, &'a Path), &'a Problems>;

impl<P> State<P> {
    /// How every file stands; `catalog` is what was made of the same state last.
    pub(in super::super) fn survey(&self, config: &Config, catalog: &Catalog<P>) -> Survey {
        let root = &config.host.plugins;
        let refused: RefusedJobs<'_> = catalog.refused.iter().filter_map(of_job).collect();
        // A tenant whose manifests are wrong everywhere is told in part, so that it takes no room from others.
        let mut room: BTreeMap<&TenantName, usize> = BTreeMap::new();
        let mut plugins = Vec::new();
        for (id, unit) in &self.units {
            let most = config.tenant(&id.tenant).quota.jobs_max as usize;
            let room = room.entry(&id.tenant).or_insert(most);
            plugins.push(unit.standing(id, root, catalog, &refused, room));
        }
        plugins.extend(without_room(self, root, catalog));
        plugins.sort_by(|a, b| (&a.tenant, &a.name, &a.file).cmp(&(&b.tenant, &b.name, &b.file)));
        let (ignored, ignored_more) = &self.ignored;
        let odd = |path: &PathBuf, problem: Option<&String>| Odd {
            file: shown(path),
            problem: problem.map(|problem| bounded(problem)),
        };
        let refused = self.refused.iter().map(|(path, problem)| odd(path, Some(problem)));
        let named = self.payload_paths(root);
        let ignored = ignored.iter().filter(|path| !named.contains(*path)).map(|path| odd(path, None));
        Survey { plugins, odd: refused.chain(ignored).collect(), ignored_more: *ignored_more }
    }

    /// The files that manifests name: they are no plugins, and have their purpose.
    fn payload_paths(&self, root: &Path) -> BTreeSet<PathBuf> {
        let of = |id: &PluginId, path: &str| {
            id.folder.as_ref().map_or_else(|| root.to_owned(), |folder| root.join(folder)).join(path)
        };
        let tried = self.units.iter().filter_map(|(id, unit)| Some((id, unit.tried.as_ref()?)));
        tried.flat_map(|(id, tried)| tried.payloads.keys().map(move |path| of(id, path))).collect()
    }
}

fn of_job(refused: &Refused) -> Option<((&JobKey, &Path), &Problems)> {
    Some(((refused.job.as_ref()?, refused.file.as_path()), &refused.problems))
}

/// What stands for all plugins that a tenant has no room for.
fn without_room<P>(state: &State<P>, root: &Path, catalog: &Catalog<P>) -> Vec<Standing> {
    let standing = |(id, _): &(PluginId, usize)| {
        let file = id.wasm(root);
        let said = catalog.refused.iter().find(|refused| refused.job.is_none() && refused.file == file);
        Standing {
            tenant: id.tenant.to_string(),
            name: id.name.to_string(),
            file: shown(&file),
            state: PluginState::Refused,
            serving: None,
            refused: None,
            problems: said.map(|refused| told_of(&refused.problems)).unwrap_or_default(),
            jobs: Vec::new(),
            jobs_more: 0,
        }
    };
    state.crowded.values().map(standing).collect()
}

impl<P> Unit<P> {
    fn standing(
        &self,
        id: &PluginId,
        root: &Path,
        catalog: &Catalog<P>,
        refused: &RefusedJobs<'_>,
        room: &mut usize,
    ) -> Standing {
        let mut problems = Vec::new();
        for found in [&self.plugin_problems, &self.manifest_problems].into_iter().flatten() {
            problems.extend(told_of(found));
        }
        let (mut jobs, mut jobs_more) = (Vec::new(), 0);
        for job in self.jobs.iter().map(|entry| self.job(entry, id, root, catalog, refused)) {
            match (job.runnable, *room) {
                (true, _) => jobs.push(job),
                (false, 0) => jobs_more += 1,
                (false, _) => {
                    *room -= 1;
                    jobs.push(job);
                }
            }
        }
        let is_stale = !problems.is_empty() || jobs.iter().any(|job| job.runnable && !job.problems.is_empty());
        Standing {
            tenant: id.tenant.to_string(),
            name: id.name.to_string(),
            file: shown(&id.wasm(root)),
            state: self.state(jobs.iter().any(|job| job.runnable), is_stale),
            serving: self.version.clone(),
            refused: self.refused_version.clone(),
            problems,
            jobs,
            jobs_more,
        }
    }

    fn state(&self, can_run: bool, is_stale: bool) -> PluginState {
        match () {
            () if self.loading.is_some() => PluginState::Loading,
            () if self.is_settling() => PluginState::Settling,
            () if self.wants_load() => PluginState::Queued,
            () if !can_run => PluginState::Refused,
            () if is_stale => PluginState::Stale,
            () => PluginState::Serving,
        }
    }

    fn job(
        &self,
        entry: &Entry,
        id: &PluginId,
        root: &Path,
        catalog: &Catalog<P>,
        refused: &RefusedJobs<'_>,
    ) -> JobStanding {
        let key = entry.name.clone().map(|name| JobKey { tenant: id.tenant.clone(), name });
        let offered = key.as_ref().and_then(|key| catalog.jobs.get(key));
        let runnable = offered.zip(entry.spec.as_ref()).is_some_and(|(job, spec)| Arc::ptr_eq(&job.spec, spec));
        let mut problems = entry.problems.as_ref().map(told_of).unwrap_or_default();
        if !runnable && problems.is_empty() {
            let files = [id.manifest(root), id.wasm(root)];
            let found = key.as_ref().and_then(|key| files.iter().find_map(|file| refused.get(&(key, file.as_path()))));
            problems = match found {
                Some(found) => told_of(found),
                None => vec!["its plugin does not serve".to_owned()],
            };
        }
        JobStanding { job: key.map(|key| key.to_string()), runnable, problems }
    }
}

/// The first problems, each on its line and cut.
fn told_of(problems: &Problems) -> Vec<String> {
    let mut told: Vec<String> =
        problems.iter().take(PROBLEMS_MAX).map(|problem: &Problem| bounded(&problem.to_string())).collect();
    let more = problems.iter().count() - told.len() + problems.more();
    if more > 0 {
        told.push(format!("and {more} more problems: `leasehold check` tells them"));
    }
    told
}

/// Problems are escaped where they are made.
fn bounded(text: &str) -> String {
    match text.char_indices().nth(PROBLEM_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn shown(path: &Path) -> String {
    plain(&path.to_string_lossy())
}
