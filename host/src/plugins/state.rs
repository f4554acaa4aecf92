//! What looks at the plugin directory mean: when a file has stopped changing, what is to be loaded, and what serves
//! while something is wrong. Plain functions of what was seen; nothing here reads a disk or a clock.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold_lease::id::{JobKey, JobName, TenantName};

use super::PAYLOADS_MAX;
use super::catalog::{Catalog, IdleJob, JobSpec, LoadedPlugin, OfferedJob, Refused};
use super::load::{Jobs, Loaded, Outcome, Part, Request, Step};
use super::look::{Known, PluginId, Seen, Sighting};
use super::payloads::too_much;
use super::standing::Version;
use crate::config::{Config, Place, Problem, Problems};
use crate::manifest::RefusedJob;

mod survey;

/// All that is known of the plugin directory.
pub(super) struct State<P> {
    units: BTreeMap<PluginId, Unit<P>>,
    /// Plugins that their tenant has no room for, with their order. There may be thousands, so little is kept of them.
    waiting: BTreeMap<PluginId, u64>,
    /// One of them for each tenant, and how many there are.
    crowded: BTreeMap<TenantName, (PluginId, usize)>,
    /// Which plugin offers a job: the one that was loaded first, until it offers it no more.
    owners: BTreeMap<JobKey, PluginId>,
    refused: Vec<(PathBuf, String)>,
    ignored: (Vec<PathBuf>, usize),
    next_order: u64,
    /// How many loads have begun, and when each tenant's last one did.
    loads: u64,
    last_loads: BTreeMap<TenantName, u64>,
}

/// One plugin.
struct Unit<P> {
    /// What the last look saw.
    seen: Seen,
    /// How many looks in a row saw that again.
    steady: u32,
    /// How many must: then it has stopped changing.
    patience: u32,
    /// The version that was loaded last, whether that went well or not.
    tried: Option<Seen>,
    loading: Option<Step>,
    /// The version that was read and is not compiled yet, and the step that it waits for.
    uncompiled: Option<(Seen, Step)>,
    /// How often in a row this host failed to load it, and after how many looks it is tried again.
    postponed: Option<(u32, u32)>,
    /// The plugin's fuel is counted, because a job has a limit of it.
    metered: bool,
    /// Plugins are taken in the order in which they were seen, those that were seen together in the order in which
    /// they were written: so that a host that starts anew gives a job that is defined twice to the one that had it.
    order: u64,
    plugin: Option<Arc<P>>,
    /// The code that serves, and the code that was refused last.
    version: Option<Version>,
    refused_version: Option<Version>,
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
        State {
            units: BTreeMap::new(),
            waiting: BTreeMap::new(),
            crowded: BTreeMap::new(),
            owners: BTreeMap::new(),
            refused: Vec::new(),
            ignored: (Vec::new(), 0),
            next_order: 0,
            loads: 0,
            last_loads: BTreeMap::new(),
        }
    }
}

/// How many looks more must see the same of a file that was refused and is written in place, at most: a copy that
/// stalls again and again is not tried, compiled and complained of each time.
const PATIENCE_MAX: u32 = 16;

/// A plugin that this host failed to load, as when no process could be started for its compiler, is tried again after one
/// look, then after two, four and so on up to this many: five minutes, where nothing else gives reason to look.
const POSTPONED_MAX: u32 = 32;

/// A tenant that has loaded nothing for this many loads of others comes first anyway: it is not remembered.
const LOADS_REMEMBERED: u64 = 1_000;

impl<P> State<P> {
    /// Takes in a look. Files that nothing has touched since `quiet_since` (ns since the Unix epoch) have stopped
    /// changing at once; others when the next look sees the same. False when everything stands as it did before.
    pub(super) fn look(&mut self, sighting: Sighting, quiet_since: Option<i128>, config: &Config) -> bool {
        let mut moved = self.refused != sighting.refused || self.ignored != sighting.ignored;
        self.refused = sighting.refused;
        self.ignored = sighting.ignored;
        let mut seen = sighting.plugins;
        let units = &mut self.units;
        let is_quiet = |seen: &Seen| quiet_since.is_some_and(|since| seen.is_older(since));
        units.retain(|id, unit| {
            let now = match seen.remove(id) {
                None if sighting.unread.covers(id) => unit.seen.clone(),
                now => now.unwrap_or_default(),
            };
            moved |= unit.see(now, is_quiet);
            // A removed file's jobs leave once two looks have missed it: a rename may be between two names.
            let stays = !(unit.seen.is_absent() && unit.is_settled() && unit.loading.is_none());
            moved |= !stays;
            stays
        });
        moved |= !seen.is_empty() || !self.waiting.is_empty();
        self.waiting.retain(|id, _| seen.contains_key(id) || sighting.unread.covers(id));
        let mut new: Vec<_> = seen.iter().filter(|(id, _)| !self.waiting.contains_key(*id)).collect();
        new.sort_by_key(|(_, seen)| seen.defined_at());
        for (id, _) in new {
            self.waiting.insert(id.clone(), self.next_order);
            self.next_order += 1;
        }
        self.admit(seen, is_quiet, config);
        self.crowded.clear();
        for id in self.waiting.keys() {
            self.crowded.entry(id.tenant.clone()).or_insert_with(|| (id.clone(), 0)).1 += 1;
        }
        moved
    }

    /// Gives room to what waits, as far as each tenant has it.
    fn admit(&mut self, mut seen: BTreeMap<PluginId, Seen>, is_quiet: impl Fn(&Seen) -> bool, config: &Config) {
        let mut taken: BTreeMap<TenantName, u32> = BTreeMap::new();
        for id in self.units.keys() {
            *taken.entry(id.tenant.clone()).or_default() += 1;
        }
        let mut first: Vec<_> = self.waiting.iter().map(|(id, order)| (*order, id.clone())).collect();
        first.sort_unstable_by_key(|(order, _)| *order);
        for (order, id) in first {
            let taken = taken.entry(id.tenant.clone()).or_default();
            if *taken >= config.tenant(&id.tenant).quota.plugins_max {
                continue;
            }
            let Some(seen) = seen.remove(&id) else { continue };
            *taken += 1;
            self.waiting.remove(&id);
            let steady = if !seen.is_passed_over() && is_quiet(&seen) { PATIENCE_MAX } else { 0 };
            self.units.insert(id, Unit::new(seen, steady, order));
        }
    }

    /// Something is still changing: look again soon. What a tenant has no room for may change as it likes.
    pub(super) fn is_unsettled(&self) -> bool {
        self.units.values().any(Unit::is_settling)
    }

    /// How many plugins are in this step.
    pub(super) fn loading(&self, step: Step) -> usize {
        self.units.values().filter(|unit| unit.loading == Some(step)).count()
    }

    /// What is to go through this step now, fairest first: tenants that load little come before those that load much,
    /// and among these the one whose last load began longest ago.
    pub(super) fn next_load(&mut self, step: Step) -> Option<Request> {
        let mut busy: BTreeMap<&TenantName, usize> = BTreeMap::new();
        for (id, _) in self.units.iter().filter(|(_, unit)| unit.loading == Some(step)) {
            *busy.entry(&id.tenant).or_default() += 1;
        }
        let ready = self.units.iter().filter(|(_, unit)| unit.wants_load() && unit.next_step() == step);
        let count = |of: Option<&usize>| of.copied().unwrap_or(0);
        let last = |tenant| self.last_loads.get(tenant).copied().unwrap_or(0);
        let first = ready.min_by_key(|(id, unit)| (count(busy.get(&id.tenant)), last(&id.tenant), unit.order));
        let id = first.map(|(id, _)| id.clone())?;
        self.loads += 1;
        self.last_loads.insert(id.tenant.clone(), self.loads);
        self.last_loads.retain(|_, last| *last + LOADS_REMEMBERED > self.loads);
        let unit = self.units.get_mut(&id)?;
        unit.loading = Some(step);
        let (seen, tried) = (unit.seen.clone(), unit.tried.as_ref());
        let wasm = unit.is_due_again() || tried.is_none_or(|tried| tried.wasm != seen.wasm);
        let changed = |tried: &Seen| tried.manifest != seen.manifest || tried.payloads != seen.payloads;
        let manifest = tried.is_none_or(changed);
        let serving = unit.version.as_ref().map(|version| version.digest.clone());
        Some(Request { id, seen, wasm, manifest, serving, metered: unit.metered, step })
    }

    /// Takes in what became of a request.
    pub(super) fn loaded(&mut self, outcome: Outcome<P>) {
        let others = self.payload_bytes(&outcome.id);
        let Some(unit) = self.units.get_mut(&outcome.id) else { return };
        unit.loading = None;
        let Some(Loaded { seen, version, plugin, jobs, metered }) = outcome.result else {
            unit.steady = 0;
            return;
        };
        if let Part::Uncompiled(next) = plugin {
            // All of it is read again when its turn has come: until then nothing of it is kept.
            unit.uncompiled = Some((Seen { payloads: unit.seen.payloads.clone(), ..seen }, next));
            return;
        }
        unit.uncompiled = None;
        unit.seen.payloads.clone_from(&seen.payloads);
        unit.tried = Some(seen);
        unit.metered = metered;
        unit.take_plugin(plugin, version);
        match jobs {
            Part::Same | Part::Kept | Part::Gone(_) | Part::Uncompiled(_) | Part::Postponed(_) => {}
            Part::Taken(jobs) => {
                unit.jobs = merge(std::mem::take(&mut unit.jobs), within_room(jobs, others));
                unit.manifest_problems = None;
            }
            Part::Failed(problems) => unit.manifest_problems = Some(problems),
        }
    }

    /// How many bytes the payloads of the tenant's other plugins take.
    fn payload_bytes(&self, id: &PluginId) -> u64 {
        let others = self.units.iter().filter(|(other, _)| other.tenant == id.tenant && *other != id);
        others.map(|(_, unit)| payload_bytes(unit.jobs.iter().filter_map(|entry| entry.spec.as_deref()))).sum()
    }

    /// What a look needs to know.
    pub(super) fn known(&self) -> Known {
        let named = self.units.iter().filter_map(|(id, unit)| Some((id, unit.tried.as_ref()?)));
        let payloads = named.map(|(id, tried)| (id.clone(), tried.payloads.keys().cloned().collect())).collect();
        Known { payloads, waiting: self.waiting.keys().cloned().collect() }
    }

    /// Tells of plugins without room, once a tenant: there may be thousands.
    fn tell_unadmitted(&self, config: &Config, catalog: &mut Catalog<P>) {
        for (tenant, (first, count)) in &self.crowded {
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
            let Some(plugin) = &unit.plugin else {
                catalog.idle.extend(unit.idle());
                continue;
            };
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
    fn new(seen: Seen, steady: u32, order: u64) -> Unit<P> {
        Unit {
            seen,
            steady,
            patience: 1,
            tried: None,
            loading: None,
            uncompiled: None,
            postponed: None,
            metered: false,
            order,
            plugin: None,
            version: None,
            refused_version: None,
            plugin_problems: None,
            jobs: Vec::new(),
            manifest_problems: None,
        }
    }

    /// Takes in what a look saw of it. False when that changes nothing.
    fn see(&mut self, now: Seen, is_quiet: impl Fn(&Seen) -> bool) -> bool {
        let moved = now != self.seen || !self.is_settled() || self.postponed.is_some();
        if !now.wasm.is_same_file(&self.seen.wasm) {
            self.patience = 1;
        }
        self.steady = match () {
            () if is_quiet(&now) => PATIENCE_MAX,
            () if now == self.seen => self.steady.saturating_add(1),
            () => 0,
        };
        if let Some((_, looks)) = &mut self.postponed {
            *looks = looks.saturating_sub(1);
        }
        self.seen = now;
        moved
    }

    fn is_settled(&self) -> bool {
        self.steady >= self.patience
    }

    /// It differs from what was loaded last.
    fn is_new(&self) -> bool {
        self.tried.as_ref() != Some(&self.seen)
    }

    /// This host failed to load it, and may try again.
    fn is_due_again(&self) -> bool {
        matches!(self.postponed, Some((_, 0)))
    }

    fn next_step(&self) -> Step {
        self.uncompiled.as_ref().filter(|(seen, _)| *seen == self.seen).map_or(Step::Find, |(_, next)| *next)
    }

    /// It is new, and perhaps not whole yet.
    fn is_settling(&self) -> bool {
        self.is_new() && !self.is_settled()
    }

    fn take_plugin(&mut self, plugin: Part<Arc<P>>, version: Option<Version>) {
        let failures = self.postponed.map_or(0, |(failures, _)| failures);
        match plugin {
            Part::Same | Part::Uncompiled(_) => return,
            Part::Postponed(problems) => {
                self.plugin_problems = Some(problems);
                self.postponed = Some((failures + 1, POSTPONED_MAX.min(1 << failures.min(31))));
                return;
            }
            Part::Kept => self.plugin_problems = None,
            Part::Gone(problems) => {
                (self.plugin, self.version) = (None, None);
                self.plugin_problems = Some(problems);
            }
            Part::Taken(plugin) => {
                (self.plugin, self.version) = (Some(plugin), version);
                self.plugin_problems = None;
            }
            Part::Failed(problems) => {
                self.plugin_problems = Some(problems);
                self.postponed = None;
                self.refused_version = version;
                self.patience = (2 * self.patience).min(PATIENCE_MAX);
                return;
            }
        }
        self.refused_version = None;
        self.postponed = None;
        self.patience = 1;
    }

    /// Its jobs, when it does not serve.
    fn idle(&self) -> impl Iterator<Item = IdleJob> {
        let why = self.plugin_problems.as_ref().and_then(|problems| problems.iter().next());
        let why = why.map(|why| why.reason.clone());
        let specs = self.jobs.iter().filter_map(|entry| entry.spec.clone());
        specs.map(move |spec| IdleJob { spec, why: why.clone() })
    }

    fn wants_load(&self) -> bool {
        let is_wanted = self.is_new() || self.is_due_again();
        self.is_settled() && self.loading.is_none() && !self.seen.is_absent() && is_wanted
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

/// Refuses the jobs whose payloads would take more memory than the tenant may use; `taken` is in use already.
fn within_room(jobs: Jobs, mut taken: u64) -> Jobs {
    let mut counted = BTreeSet::new();
    let mut check = |spec: JobSpec| {
        let after = taken + spec.payload.len() as u64;
        if counted.contains(&spec.payload.as_ptr()) {
            return Ok(spec);
        }
        if after <= PAYLOADS_MAX {
            taken = after;
            counted.insert(spec.payload.as_ptr());
            return Ok(spec);
        }
        let place = spec.place.unwrap_or_else(|| Place::file(&spec.plugin_file));
        let problem = Problem { key: format!("jobs.{}", spec.key.name), ..Problem::of(place, too_much()) };
        Err(RefusedJob { name: Some(spec.key.name), problems: problem.into() })
    };
    jobs.into_iter().map(|job| job.and_then(&mut check)).collect()
}

/// The bytes of payloads, each counted once where jobs share it.
fn payload_bytes<'a>(specs: impl Iterator<Item = &'a JobSpec>) -> u64 {
    let shared: BTreeMap<*const u8, u64> =
        specs.map(|spec| (spec.payload.as_ptr(), spec.payload.len() as u64)).collect();
    shared.values().sum()
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
        Err(RefusedJob { name, problems }) => {
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
