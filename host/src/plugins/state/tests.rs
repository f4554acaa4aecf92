//! What looks mean, without a disk.

mod turns;

use leasehold_lease::time::Millis;

use super::super::beneath::Stamp;
use super::super::look::Sight;
use super::super::standing::{PluginState, Survey};
use super::*;
use crate::config::{Config, Sources};

/// A sight that differs for every `version`.
fn file(version: &str) -> Sight {
    Sight::Denied(version.to_owned())
}

struct Bench {
    state: State<String>,
    config: Config,
}

impl Bench {
    fn new(config: &str) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("leasehold.toml"), config).unwrap();
        let config = Config::load(&Sources { folder: folder.path().into(), ..Sources::default() }).unwrap();
        Bench { state: State::default(), config }
    }

    /// Whichever step is to be made.
    fn next_load(&mut self) -> Option<Request> {
        Step::ALL.into_iter().find_map(|step| self.state.next_load(step))
    }

    fn id(name: &str) -> PluginId {
        let (tenant, name) = name.split_once('/').unwrap();
        PluginId { tenant: tenant.parse().unwrap(), name: name.parse().unwrap(), folder: Some(tenant.to_owned()) }
    }

    /// A look that sees these plugins, each as name, version of the code and version of the manifest.
    fn look(&mut self, plugins: &[(&str, &str, &str)], quiet: bool) {
        let mut sighting = Sighting::default();
        for (name, wasm, manifest) in plugins {
            let seen = Seen { wasm: file(wasm), manifest: file(manifest), ..Seen::default() };
            sighting.plugins.insert(Bench::id(name), seen);
        }
        self.state.look(sighting, quiet.then_some(0), &self.config);
    }

    /// Loads all that is to be loaded; `jobs` says which jobs a manifest's version has, or why it has none. A version of
    /// code that begins with "bad" is refused. Tells what was read.
    fn load(&mut self, jobs: impl Fn(&str) -> Result<Vec<(&'static str, bool)>, &'static str>) -> Vec<String> {
        let mut read = Vec::new();
        while let Some(Request { id, seen, wasm, manifest, metered, .. }) = self.next_load() {
            read.push(format!("{id}{}{}", if wasm { " wasm" } else { "" }, if manifest { " manifest" } else { "" }));
            let wrong = |reason: &str| Problems::from(Problem::of(Place::Flag("test"), reason));
            let plugin = match (&seen.wasm, wasm) {
                (Sight::Denied(version), true) if version.starts_with("bad") => Part::Failed(wrong("bad code")),
                (Sight::Denied(version), true) => Part::Taken(Arc::new(version.clone())),
                (_, true) => Part::Gone(wrong("gone")),
                _ => Part::Same,
            };
            let jobs = match (&seen.manifest, manifest) {
                (Sight::Denied(version), true) => match jobs(version) {
                    Ok(jobs) => Part::Taken(jobs.into_iter().map(|(name, good)| job(&id, name, good)).collect()),
                    Err(reason) => Part::Failed(wrong(reason)),
                },
                _ => Part::Same,
            };
            let version = wasm.then(|| version(&seen.wasm));
            self.state.loaded(Outcome { id, result: Some(Loaded { seen, version, plugin, jobs, metered }) });
        }
        read
    }

    /// Jobs as "key code", and how many are refused and stale.
    fn served(&mut self) -> (Vec<String>, usize, usize) {
        let catalog = self.state.catalog(&self.config);
        let jobs = catalog.jobs.iter().map(|(key, job)| format!("{key} {}", job.plugin)).collect();
        (jobs, catalog.refused.len(), catalog.stale.len())
    }

    fn reasons(&mut self) -> String {
        self.state.catalog(&self.config).problems().to_string()
    }
}

fn job(id: &PluginId, name: &str, good: bool) -> Result<JobSpec, RefusedJob> {
    let name: JobName = name.parse().unwrap();
    if !good {
        let problems = Problem::of(Place::Flag("test"), "bad job").into();
        return Err(RefusedJob { name: Some(name), problems });
    }
    Ok(JobSpec {
        key: JobKey { tenant: id.tenant.clone(), name },
        plugin_file: "f".into(),
        place: Some(Place::Flag("test")),
        schedule: None,
        policy: Default::default(),
        limits: Default::default(),
        payload: Arc::from([]),
        grants: Default::default(),
        stored_max: 0,
    })
}

fn version(sight: &Sight) -> Version {
    Version { digest: format!("{sight:?}"), size: 1, since: Millis(0) }
}

fn one(_: &str) -> Result<Vec<(&'static str, bool)>, &'static str> {
    Ok(vec![("j", true)])
}

/// A look that sees one plugin's code as this file of this many bytes.
fn look_at(b: &mut Bench, inode: i128, size: u64) {
    let seen = Seen { wasm: Sight::File(Stamp::made(inode, size, 0)), ..Seen::default() };
    let sighting = Sighting { plugins: [(Bench::id("a/x"), seen)].into(), ..Sighting::default() };
    b.state.look(sighting, None, &b.config);
}

/// Answers the load that is due with code that is good or not; false when none is due.
fn answer(b: &mut Bench, good: bool) -> bool {
    let Some(Request { id, seen, .. }) = b.next_load() else { return false };
    let plugin = match good {
        true => Part::Taken(Arc::new("1".to_owned())),
        false => Part::Failed(Problem::of(Place::Flag("test"), "truncated").into()),
    };
    let jobs = Part::Taken(vec![job(&id, "j", true)]);
    let version = Some(version(&seen.wasm));
    b.state.loaded(Outcome { id, result: Some(Loaded { seen, version, plugin, jobs, metered: false }) });
    true
}

#[test]
fn a_copy_that_stalls_again_and_again_is_tried_ever_more_rarely() {
    let mut b = Bench::new("");
    // Each part of the copy is followed by a rest of five looks.
    let mut tries = 0;
    for part in 1..=20 {
        for _ in 0..6 {
            look_at(&mut b, 1, part);
            tries += u32::from(answer(&mut b, false));
        }
    }
    assert!((2..=4).contains(&tries), "{tries} tries");
    // When it comes to rest it is taken, sixteen looks later at most.
    let looks = (0..40).position(|_| {
        look_at(&mut b, 1, 21);
        answer(&mut b, true)
    });
    assert!(looks.is_some_and(|looks| looks <= 16), "{looks:?}");
    assert_eq!(b.served().0, ["a/j 1"]);
    // Another file in its place is another matter.
    for inode in [2, 3] {
        look_at(&mut b, inode, 7);
        look_at(&mut b, inode, 7);
        assert!(answer(&mut b, false));
    }
}

fn survey(b: &mut Bench) -> Survey {
    let catalog = b.state.catalog(&b.config);
    b.state.survey(&b.config, &catalog)
}

#[test]
fn a_survey_tells_where_a_plugin_stands_at_each_step() {
    let mut b = Bench::new("");
    let mut states = Vec::new();
    let mut note = |b: &mut Bench| states.push(survey(b).plugins[0].state);
    look_at(&mut b, 1, 1);
    note(&mut b);
    look_at(&mut b, 1, 1);
    note(&mut b);
    let Request { id, seen, .. } = b.next_load().unwrap();
    note(&mut b);
    let plugin = Part::Failed(Problem::of(Place::Flag("test"), "no").into());
    let jobs = Part::Taken(vec![job(&id, "j", true)]);
    b.state.loaded(Outcome { id, result: Some(Loaded { seen, version: None, plugin, jobs, metered: false }) });
    look_at(&mut b, 1, 1);
    note(&mut b);
    for _ in 0..3 {
        look_at(&mut b, 2, 1);
    }
    answer(&mut b, true);
    note(&mut b);
    look_at(&mut b, 3, 1);
    look_at(&mut b, 3, 1);
    answer(&mut b, false);
    look_at(&mut b, 3, 1);
    note(&mut b);
    use PluginState::*;
    assert_eq!(states, [Settling, Queued, Loading, Refused, Serving, Stale]);
}

#[test]
fn a_tenant_that_is_wrong_everywhere_takes_no_room_in_the_survey() {
    let mut b = Bench::new("[tenants.a]\njobs_max = 3\nplugins_max = 2\n");
    b.look(&[("a/x", "1", "m"), ("a/y", "1", "m"), ("a/z", "1", "m"), ("b/x", "1", "good")], true);
    b.load(|manifest| match manifest {
        "good" => Ok(vec![("j", true)]),
        _ => Ok(vec![("j", false), ("k", false)]),
    });
    let survey = survey(&mut b);
    let told: Vec<_> = survey
        .plugins
        .iter()
        .map(|p| format!("{}/{} {:?} {}+{}", p.tenant, p.name, p.state, p.jobs.len(), p.jobs_more))
        .collect();
    assert_eq!(told, ["a/x Refused 2+0", "a/y Refused 1+1", "a/z Refused 0+0", "b/x Serving 1+0"]);
    assert!(survey.plugins[2].problems[0].contains("plugins_max"));
}

#[test]
fn payloads_of_a_tenant_are_bounded_over_all_its_plugins() {
    let mut b = Bench::new("");
    let payload: Arc<[u8]> = vec![0; (PAYLOADS_MAX * 2 / 5) as usize].into();
    let mut last = String::new();
    for (number, name) in ["a/x", "a/y", "a/z", "b/x"].into_iter().enumerate() {
        let plugins = [("a/x", "1", "m"), ("a/y", "1", "m"), ("a/z", "1", "m"), ("b/x", "1", "m")];
        b.look(&plugins[..=number], true);
        let Request { id, seen, .. } = b.next_load().unwrap();
        assert_eq!(id.to_string(), name);
        // Each has two jobs that share one payload.
        let own: Arc<[u8]> = payload.to_vec().into();
        let with = |job_name: &str| job(&id, job_name, true).map(|spec| JobSpec { payload: Arc::clone(&own), ..spec });
        let names = [format!("j{number}"), format!("k{number}")];
        let jobs = Part::Taken(names.iter().map(|name| with(name)).collect());
        let loaded = Loaded { seen, version: None, plugin: Part::Taken(Arc::new("1".into())), jobs, metered: false };
        b.state.loaded(Outcome { id, result: Some(loaded) });
        last = b.reasons();
    }
    assert_eq!(b.served().0, ["a/j0 1", "a/j1 1", "a/k0 1", "a/k1 1", "b/j3 1", "b/k3 1"]);
    assert!(
        last.contains("jobs.j2: with it, the payloads of the tenant's jobs take more than 64MiB together"),
        "{last}"
    );
}

#[test]
fn what_cannot_be_looked_at_stays_as_it_was() {
    let mut b = Bench::new("");
    b.look(&[("a/x", "1", "m"), ("b/x", "1", "m")], true);
    b.load(one);
    for _ in 0..3 {
        let mut sighting = Sighting::default();
        sighting.unread.add(Some("a"));
        b.state.look(sighting, None, &b.config);
    }
    assert_eq!(b.served().0, ["a/j 1"]);
    assert!(b.load(one).is_empty() && !b.state.is_unsettled());
}

#[test]
fn what_a_tenant_has_no_room_for_keeps_nobody_looking() {
    let mut b = Bench::new("[tenants.a]\nplugins_max = 1\n");
    b.look(&[("a/x", "1", "m")], true);
    b.load(one);
    for version in ["1", "2", "3"] {
        b.look(&[("a/x", "1", "m"), ("a/y", version, "m")], false);
        assert!(!b.state.is_unsettled());
    }
    let waiting = b.state.known().waiting;
    assert_eq!(waiting.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a/y"]);
    // Nobody looks at it until there is room; then it is looked at as if it were new.
    let passed_over = Seen { wasm: Sight::PassedOver, ..Seen::default() };
    let seen = Seen { wasm: Sight::File(Stamp::made(1, 1, 0)), ..Seen::default() };
    for (seen, settled) in [(&passed_over, false), (&passed_over, false), (&seen, false), (&seen, true)] {
        let sighting = Sighting { plugins: [(Bench::id("a/y"), seen.clone())].into(), ..Sighting::default() };
        b.state.look(sighting, None, &b.config);
        assert_eq!(b.state.units.get(&Bench::id("a/y")).is_some_and(Unit::wants_load), settled, "{seen:?}");
    }
    b.look(&[("a/y", "1", "m")], false);
    assert_eq!(b.state.units.len(), 1);
}

#[test]
fn a_file_is_taken_when_two_looks_see_the_same() {
    let mut b = Bench::new("");
    b.look(&[("a/x", "1", "m")], false);
    assert!(b.load(one).is_empty() && b.state.is_unsettled());
    b.look(&[("a/x", "2", "m")], false);
    assert!(b.load(one).is_empty(), "it is still being written");
    b.look(&[("a/x", "2", "m")], false);
    assert_eq!(b.load(one), ["a/x wasm manifest"]);
    assert_eq!(b.served(), (vec!["a/j 2".to_owned()], 0, 0));
    b.look(&[("a/x", "2", "m")], false);
    assert!(b.load(one).is_empty() && !b.state.is_unsettled());
}

#[test]
fn files_that_have_long_been_at_rest_are_taken_at_once() {
    let mut b = Bench::new("");
    b.look(&[("a/x", "1", "m")], true);
    assert_eq!(b.load(one), ["a/x wasm manifest"]);
}

#[test]
fn only_what_has_changed_is_read_again() {
    let mut b = Bench::new("");
    b.look(&[("a/x", "1", "m")], true);
    b.load(one);
    let before = b.state.catalog(&b.config);
    b.look(&[("a/x", "2", "m")], true);
    assert_eq!(b.load(one), ["a/x wasm"]);
    b.look(&[("a/x", "2", "n")], true);
    assert_eq!(b.load(one), ["a/x manifest"]);
    let after = b.state.catalog(&b.config);
    let key = "a/j".parse().unwrap();
    assert!(!before.jobs[&key].is_same(&after.jobs[&key]));
    assert!(after.is_same(&b.state.catalog(&b.config)) && !after.is_same(&before));
}

#[test]
fn the_older_version_serves_while_the_new_one_is_wrong() {
    let mut b = Bench::new("");
    let jobs = |version: &str| match version {
        "broken" => Err("not TOML"),
        "half" => Ok(vec![("j", false), ("k", true)]),
        "fewer" => Ok(vec![("k", true)]),
        _ => Ok(vec![("j", true)]),
    };
    b.look(&[("a/x", "bad1", "broken")], true);
    b.load(jobs);
    assert_eq!(b.served(), (vec![], 2, 0), "nothing was there before");
    b.look(&[("a/x", "1", "m")], true);
    b.load(jobs);
    assert_eq!(b.served(), (vec!["a/j 1".to_owned()], 0, 0));
    b.look(&[("a/x", "bad2", "broken")], true);
    b.load(jobs);
    assert_eq!(b.served(), (vec!["a/j 1".to_owned()], 0, 2));
    b.look(&[("a/x", "2", "broken")], true);
    b.load(jobs);
    assert_eq!(b.served(), (vec!["a/j 2".to_owned()], 0, 1));
    b.look(&[("a/x", "2", "half")], true);
    b.load(jobs);
    assert_eq!(b.served(), (vec!["a/j 2".to_owned(), "a/k 2".to_owned()], 0, 1));
    b.look(&[("a/x", "2", "fewer")], true);
    b.load(jobs);
    assert_eq!(b.served(), (vec!["a/k 2".to_owned()], 0, 0));
}

#[test]
fn a_bad_job_that_was_never_good_is_refused_alone() {
    let mut b = Bench::new("");
    b.look(&[("a/x", "1", "m")], true);
    b.load(|_| Ok(vec![("j", false), ("k", true)]));
    assert_eq!(b.served(), (vec!["a/k 1".to_owned()], 1, 0));
    assert_eq!(b.state.catalog(&b.config).refused[0].job, Some("a/j".parse().unwrap()));
}

#[test]
fn a_removed_plugins_jobs_leave_after_two_looks() {
    let mut b = Bench::new("");
    b.look(&[("a/x", "1", "m")], true);
    b.load(one);
    b.look(&[], false);
    assert_eq!(b.served().0.len(), 1, "it may be between two names");
    assert!(b.state.is_unsettled());
    b.look(&[], false);
    assert_eq!(b.served(), (vec![], 0, 0));
    assert!(b.state.units.is_empty() && b.state.owners.is_empty());
}

#[test]
fn a_job_defined_twice_stays_with_the_first_until_that_one_leaves() {
    let mut b = Bench::new("");
    b.look(&[("a/y", "y", "m")], true);
    b.load(one);
    b.look(&[("a/x", "x", "m"), ("a/y", "y", "m")], true);
    b.load(one);
    assert_eq!(b.served(), (vec!["a/j y".to_owned()], 1, 0));
    assert!(b.reasons().contains("test: jobs.j: the job a/j is defined already, by a/y.wasm"), "{}", b.reasons());
    b.look(&[("a/x", "x", "m")], true);
    assert_eq!(b.served(), (vec!["a/j x".to_owned()], 0, 0));
}

#[test]
fn a_tenant_has_no_more_plugins_and_jobs_than_it_may() {
    let mut b = Bench::new("[tenants.a]\nplugins_max = 2\njobs_max = 2\n");
    let jobs = |version: &str| {
        Ok(match version {
            "m1" => vec![("j1", true)],
            "m2" => vec![("j2", true), ("j3", true)],
            _ => vec![("j4", true)],
        })
    };
    b.look(&[("a/x", "1", "m1"), ("a/y", "2", "m2"), ("a/z", "3", "m3"), ("b/x", "4", "m1")], true);
    let read = b.load(jobs);
    assert_eq!(read.len(), 3, "a plugin without room is not even read: {read:?}");
    assert_eq!(b.served().0, ["a/j1 1", "a/j2 2", "b/j1 4"]);
    assert!(
        b.reasons().contains("a has 2 plugins already") && b.reasons().contains("a has 2 jobs already"),
        "{}",
        b.reasons()
    );
    b.look(&[("a/y", "2", "m2"), ("a/z", "3", "m3")], true);
    b.load(jobs);
    assert_eq!(b.served().0, ["a/j2 2", "a/j3 2"]);
}

#[test]
fn what_changed_while_it_was_read_is_not_taken() {
    let mut b = Bench::new("");
    b.look(&[("a/x", "1", "m")], true);
    let request = b.next_load().unwrap();
    assert!(b.next_load().is_none(), "it is being loaded");
    b.state.loaded(Outcome { id: request.id, result: None });
    assert!(b.state.is_unsettled() && b.next_load().is_none());
    b.look(&[("a/x", "2", "m")], false);
    b.look(&[("a/x", "2", "m")], false);
    b.load(one);
    assert_eq!(b.served().0, ["a/j 2"]);
}

#[test]
fn a_payload_file_that_changes_is_a_reason_to_read_the_manifest_again() {
    let mut b = Bench::new("");
    b.look(&[("a/x", "1", "m")], true);
    let Request { id, mut seen, .. } = b.next_load().unwrap();
    seen.payloads.insert("p.json".into(), file("1"));
    let jobs = Part::Taken(vec![job(&id, "j", true)]);
    let loaded =
        Loaded { seen: seen.clone(), version: None, plugin: Part::Taken(Arc::new("1".into())), jobs, metered: false };
    b.state.loaded(Outcome { id: id.clone(), result: Some(loaded) });
    assert!(b.next_load().is_none());
    assert_eq!(b.state.known().payloads[&id].iter().collect::<Vec<_>>(), ["p.json"]);
    for _ in 0..2 {
        seen.payloads.insert("p.json".into(), file("2"));
        let sighting = Sighting { plugins: [(id.clone(), seen.clone())].into(), ..Sighting::default() };
        b.state.look(sighting, None, &b.config);
    }
    let request = b.next_load().unwrap();
    assert!(request.manifest && !request.wasm);
}
