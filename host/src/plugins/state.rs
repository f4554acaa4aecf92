//! What looks at the plugin directory mean: when a file has stopped changing, what is to be loaded, and what serves
//! while something is wrong. Plain functions of what was seen; nothing here reads a disk or a clock.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold_lease::id::{JobKey, JobName, TenantName};

use super::catalog::{Catalog, JobSpec, LoadedPlugin, OfferedJob, Refused};
use super::load::{Jobs, Loaded, Outcome, Part, Request};
use super::look::{Payloads, PluginId, Seen, Sight, Sighting};
use crate::config::{Config, Place, Problem, Problems};

/// All that is known of the plugin directory.
pub(super) struct State<P> {
    units: BTreeMap<PluginId, Unit<P>>,
    /// Which plugin offers a job: the one that was loaded first, until it offers it no more.
    owners: BTreeMap<JobKey, PluginId>,
    refused: Vec<(PathBuf, String)>,
    next_order: u64,
}

/// One plugin.
struct Unit<P> {
    /// What the last look saw.
    seen: Seen,
    /// Two looks in a row saw the same: it has stopped changing.
    settled: bool,
    /// The version that was loaded last, whether that went well or not.
    tried: Option<Seen>,
    loading: bool,
    /// The tenant has room for it.
    admitted: bool,
    /// The plugin's fuel is counted, because a job has a limit of it.
    metered: bool,
    /// Plugins are taken in the order in which they were seen.
    order: u64,
    plugin: Option<Arc<P>>,
    plugin_problems: Option<Problems>,
    jobs: Vec<Entry>,
    manifest_problems: Option<Problems>,
}

/// One job of a manifest: what serves, and what is wrong with what the manifest says now.
struct Entry {
    name: Option<JobName>,
    spec: Option<Arc<JobSpec>>,
    problems: Option<Problems>,
}

impl<P> Default for State<P> {
    fn default() -> State<P> {
        State { units: BTreeMap::new(), owners: BTreeMap::new(), refused: Vec::new(), next_order: 0 }
    }
}

impl<P> State<P> {
    /// Takes in a look. Files that nothing has touched since `quiet_since` (ns since the Unix epoch) have stopped
    /// changing at once; others when the next look sees the same.
    pub(super) fn look(&mut self, sighting: Sighting, quiet_since: Option<i128>, config: &Config) {
        self.refused = sighting.refused;
        let mut seen = sighting.plugins;
        let units = &mut self.units;
        units.retain(|id, unit| {
            let now = seen.remove(id).unwrap_or_default();
            unit.settled = unit.seen == now || quiet_since.is_some_and(|since| now.is_older(since));
            unit.seen = now;
            // A removed file's jobs leave once two looks have missed it: a rename may be between two names.
            !(unit.seen.is_absent() && unit.settled && !unit.loading)
        });
        for (id, seen) in seen {
            let settled = quiet_since.is_some_and(|since| seen.is_older(since));
            let order = self.next_order;
            self.next_order += 1;
            self.units.insert(id, Unit::new(seen, settled, order));
        }
        self.admit(config);
    }

    /// Gives room to plugins as far as each tenant has it.
    fn admit(&mut self, config: &Config) {
        let mut taken: BTreeMap<TenantName, u32> = BTreeMap::new();
        for (id, _) in self.units.iter().filter(|(_, unit)| unit.admitted) {
            *taken.entry(id.tenant.clone()).or_default() += 1;
        }
        let mut waiting: Vec<_> = self.units.iter_mut().filter(|(_, unit)| !unit.admitted).collect();
        waiting.sort_by_key(|(_, unit)| unit.order);
        for (id, unit) in waiting {
            let taken = taken.entry(id.tenant.clone()).or_default();
            if *taken < config.tenant(&id.tenant).quota.plugins_max {
                *taken += 1;
                unit.admitted = true;
            }
        }
    }

    /// Something is still changing: look again soon.
    pub(super) fn is_unsettled(&self) -> bool {
        self.units.values().any(|unit| !unit.settled)
    }

    /// What is to be loaded now, fairest first: tenants that load little come before those that load much.
    pub(super) fn next_load(&mut self) -> Option<Request> {
        let mut busy: BTreeMap<&TenantName, usize> = BTreeMap::new();
        for (id, _) in self.units.iter().filter(|(_, unit)| unit.loading) {
            *busy.entry(&id.tenant).or_default() += 1;
        }
        let ready = self.units.iter().filter(|(_, unit)| unit.wants_load());
        let first = ready.min_by_key(|(id, unit)| (busy.get(&id.tenant).copied().unwrap_or(0), unit.order));
        let id = first.map(|(id, _)| id.clone())?;
        let unit = self.units.get_mut(&id)?;
        unit.loading = true;
        let (seen, tried) = (unit.seen.clone(), unit.tried.as_ref());
        let wasm = tried.is_none_or(|tried| tried.wasm != seen.wasm);
        // Jobs say where their plugin is missing, so its coming and going is read with them.
        let beside = wasm && (seen.wasm == Sight::Absent || unit.manifest_problems.is_some());
        let changed = |tried: &Seen| tried.manifest != seen.manifest || tried.payloads != seen.payloads;
        let manifest = beside || tried.is_none_or(changed);
        Some(Request { id, seen, wasm, manifest, metered: unit.metered })
    }

    /// Takes in what became of a request.
    pub(super) fn loaded(&mut self, outcome: Outcome<P>) {
        let Some(unit) = self.units.get_mut(&outcome.id) else { return };
        unit.loading = false;
        let Some(Loaded { seen, plugin, jobs, metered }) = outcome.result else {
            unit.settled = false;
            return;
        };
        unit.seen.payloads.clone_from(&seen.payloads);
        unit.tried = Some(seen);
        unit.metered = metered;
        match plugin {
            Part::Same => {}
            Part::Absent => {
                (unit.plugin, unit.plugin_problems) = (None, None);
                unit.jobs.clear();
            }
            Part::Taken(plugin) => (unit.plugin, unit.plugin_problems) = (Some(plugin), None),
            Part::Failed(problems) => unit.plugin_problems = Some(problems),
        }
        match jobs {
            Part::Same | Part::Absent => {}
            Part::Taken(jobs) => {
                unit.jobs = merge(std::mem::take(&mut unit.jobs), jobs);
                unit.manifest_problems = None;
            }
            Part::Failed(problems) => unit.manifest_problems = Some(problems),
        }
    }

    /// The payload files to look at.
    pub(super) fn payloads(&self) -> Payloads {
        let named = self.units.iter().filter_map(|(id, unit)| Some((id, unit.tried.as_ref()?)));
        named.map(|(id, tried)| (id.clone(), tried.payloads.keys().cloned().collect())).collect()
    }

    /// Tells of plugins without room, once a tenant: there may be thousands.
    fn tell_unadmitted(&self, config: &Config, catalog: &mut Catalog<P>) {
        let mut found: BTreeMap<&TenantName, (&PluginId, usize)> = BTreeMap::new();
        for (id, _) in self.units.iter().filter(|(_, unit)| !unit.admitted) {
            found.entry(&id.tenant).or_insert((id, 0)).1 += 1;
        }
        for (tenant, (first, count)) in found {
            let most = config.tenant(tenant).quota.plugins_max;
            let file = first.wasm(&config.host.plugins);
            let reason =
                format!("the tenant {tenant} has {most} plugins already (plugins_max): {count} more are not loaded");
            let problems = Problem::of(Place::file(&file), reason).into();
            catalog.refused.push(Refused { file, tenant: Some(tenant.clone()), job: None, problems });
        }
    }

    /// What is served now.
    pub(super) fn catalog(&mut self, config: &Config) -> Catalog<P> {
        let root = &config.host.plugins;
        let mut catalog = Catalog::default();
        for (path, reason) in &self.refused {
            let problems = Problem::of(Place::file(path), reason.clone()).into();
            catalog.refused.push(Refused { file: path.clone(), tenant: None, job: None, problems });
        }
        let mut units: Vec<_> = self.units.iter().collect();
        units.sort_by_key(|(_, unit)| unit.order);
        let mut offers = Vec::new();
        for (id, unit) in units {
            let wasm = id.wasm(root);
            unit.tell(id, root, &mut catalog);
            let Some(plugin) = &unit.plugin else { continue };
            catalog.plugins.push(LoadedPlugin { id: id.clone(), file: wasm, plugin: Arc::clone(plugin) });
            let specs = unit.jobs.iter().filter_map(|entry| entry.spec.clone());
            offers.extend(specs.map(|spec| (id.clone(), OfferedJob { spec, plugin: Arc::clone(plugin) })));
        }
        self.tell_unadmitted(config, &mut catalog);
        settle_owners(&mut self.owners, offers, config, &mut catalog);
        catalog
    }
}

impl<P> Unit<P> {
    fn new(seen: Seen, settled: bool, order: u64) -> Unit<P> {
        Unit {
            seen,
            settled,
            tried: None,
            loading: false,
            admitted: false,
            metered: false,
            order,
            plugin: None,
            plugin_problems: None,
            jobs: Vec::new(),
            manifest_problems: None,
        }
    }

    fn wants_load(&self) -> bool {
        let is_new = self.tried.as_ref() != Some(&self.seen);
        self.settled && self.admitted && !self.loading && !self.seen.is_absent() && is_new
    }

    /// Tells what of this plugin is refused, and what is stale.
    fn tell(&self, id: &PluginId, root: &Path, catalog: &mut Catalog<P>) {
        let mut tell = |serves: bool, file: PathBuf, job: Option<JobKey>, problems: Problems| {
            let list = if serves { &mut catalog.stale } else { &mut catalog.refused };
            list.push(Refused { file, tenant: Some(id.tenant.clone()), job, problems });
        };
        if let Some(problems) = &self.plugin_problems {
            tell(self.plugin.is_some(), id.wasm(root), None, problems.clone());
        }
        if let Some(problems) = &self.manifest_problems {
            let serves = self.plugin.is_some() && !self.jobs.is_empty();
            tell(serves, id.manifest(root), None, problems.clone());
        }
        for entry in &self.jobs {
            if let Some(problems) = &entry.problems {
                let job = entry.name.clone().map(|name| JobKey { tenant: id.tenant.clone(), name });
                tell(entry.spec.is_some() && self.plugin.is_some(), id.manifest(root), job, problems.clone());
            }
        }
    }
}

/// A manifest's jobs over those it had before: one that is wrong now goes on as it was.
fn merge(old: Vec<Entry>, new: Jobs) -> Vec<Entry> {
    let good: Vec<JobName> = new.iter().filter_map(|job| job.as_ref().ok()).map(|spec| spec.key.name.clone()).collect();
    let mut serving: BTreeMap<JobName, Arc<JobSpec>> = BTreeMap::new();
    for spec in old.into_iter().filter_map(|entry| entry.spec) {
        if !good.contains(&spec.key.name) {
            serving.insert(spec.key.name.clone(), spec);
        }
    }
    let entry = |job: Result<JobSpec, _>| match job {
        Ok(spec) => Entry { name: Some(spec.key.name.clone()), spec: Some(Arc::new(spec)), problems: None },
        Err(crate::manifest::RefusedJob { name, problems }) => {
            let spec = name.as_ref().and_then(|name| serving.remove(name));
            Entry { name, spec, problems: Some(problems) }
        }
    };
    new.into_iter().map(entry).collect()
}

/// Decides who offers each job: who has it keeps it, and new ones are taken while the tenant has room.
fn settle_owners<P>(
    owners: &mut BTreeMap<JobKey, PluginId>,
    offers: Vec<(PluginId, OfferedJob<P>)>,
    config: &Config,
    catalog: &mut Catalog<P>,
) {
    let offered: BTreeSet<_> = offers.iter().map(|(id, job)| (&job.spec.key, id)).collect();
    owners.retain(|key, owner| offered.contains(&(key, owner)));
    let mut counts: BTreeMap<TenantName, u32> = BTreeMap::new();
    for key in owners.keys() {
        *counts.entry(key.tenant.clone()).or_default() += 1;
    }
    for (id, job) in offers {
        let (key, place) = (job.spec.key.clone(), job.spec.place.clone());
        let most = config.tenant(&key.tenant).quota.jobs_max;
        let count = counts.entry(key.tenant.clone()).or_default();
        let reason = match owners.get(&key) {
            Some(owner) if *owner == id => None,
            Some(owner) => Some(format!("the job {key} is defined already, by {}", said_by(owner, config))),
            None if *count >= most => Some(format!("the tenant {} has {most} jobs already (jobs_max)", key.tenant)),
            None => {
                *count += 1;
                owners.insert(key.clone(), id.clone());
                None
            }
        };
        match reason {
            None => {
                catalog.jobs.insert(key, job);
            }
            Some(reason) => {
                let file =
                    if place.is_some() { id.manifest(&config.host.plugins) } else { id.wasm(&config.host.plugins) };
                let place = place.unwrap_or_else(|| Place::file(&file));
                let problem = Problem { key: format!("jobs.{}", key.name), ..Problem::of(place, reason) };
                let tenant = Some(id.tenant);
                catalog.refused.push(Refused { file, tenant, job: Some(key), problems: problem.into() });
            }
        }
    }
}

/// The file of a plugin within the plugin directory.
fn said_by(id: &PluginId, config: &Config) -> String {
    let file = id.wasm(&config.host.plugins);
    file.strip_prefix(&config.host.plugins).unwrap_or(&file).display().to_string()
}

#[cfg(test)]
mod tests;
