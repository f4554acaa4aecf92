//! Reads a plugin's files and makes of them what can be served. Everything that can be wrong becomes a reason.

use std::path::Path;
use std::sync::Arc;

use leasehold_lease::id::{JobKey, TenantName};
use leasehold_lease::schedule::Zones;
use leasehold_sandbox::PluginBytes;

use super::beneath::{Denied, Folder};
use super::catalog::JobSpec;
use super::grants::JobGrants;
use super::look::{PluginId, Seen, Sight};
use super::payloads::PayloadFiles;
use super::standing::Version;
use super::{LoadError, PLUGIN_FILE_MAX, PluginLoader};
use crate::clock;
use crate::config::{Config, Place, Problem, Problems, plain};
use crate::manifest::{self, JobDraft, Payload, RefusedJob};

/// What loading needs, the same for all plugins.
pub(super) struct Context<L> {
    pub(super) config: Arc<Config>,
    pub(super) zones: Zones,
    pub(super) loader: L,
}

impl<L> Context<L> {
    pub(super) fn root(&self) -> &Path {
        &self.config.host.plugins
    }
}

/// A plugin to be loaded as it was seen.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) id: PluginId,
    pub(super) seen: Seen,
    /// Only what has changed since it was last read is read again.
    pub(super) wasm: bool,
    pub(super) manifest: bool,
    /// The digest of the code that serves.
    pub(super) serving: Option<String>,
    /// The fuel of what serves now is counted.
    pub(super) metered: bool,
    /// What is to be done.
    pub(super) step: Step,
}

/// Loading takes up to three steps, so that what was compiled before never waits for what is being compiled, and what is
/// compiled soon never for what takes long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Read, and find it compiled.
    Find,
    /// Read, and have it compiled unless that takes long.
    Compile,
    /// Read, and have it compiled however long that takes.
    CompileLong,
}

impl Step {
    /// All of them, in their order.
    pub(super) const ALL: [Step; 3] = [Step::Find, Step::Compile, Step::CompileLong];
}

/// What became of one part of a plugin.
#[derive(Debug)]
pub(super) enum Part<T> {
    /// It was not read again.
    Same,
    /// It was read, and what serves is just that.
    Kept,
    /// It is not there, which is told like this.
    Gone(Problems),
    Taken(T),
    Failed(Problems),
    /// It must be compiled first, in this next step.
    Uncompiled(Step),
    /// This host could not load it, which is told like this: it is tried again.
    Postponed(Problems),
}

/// The jobs of a plugin, each on its own.
pub(super) type Jobs = Vec<Result<JobSpec, RefusedJob>>;

impl Part<Jobs> {
    /// One of the jobs has a limit of fuel.
    fn is_metered(&self) -> bool {
        let limited = |job: &Result<JobSpec, RefusedJob>| job.as_ref().is_ok_and(|job| job.limits.fuel.is_some());
        matches!(self, Part::Taken(jobs) if jobs.iter().any(limited))
    }
}

/// What became of a request.
pub(super) struct Outcome<P> {
    pub(super) id: PluginId,
    /// None when something changed on the way: then nothing of it is taken.
    pub(super) result: Option<Loaded<P>>,
}

pub(super) struct Loaded<P> {
    /// The version that was read, its payload files included.
    pub(super) seen: Seen,
    /// The code that was read, whether it was taken or not.
    pub(super) version: Option<Version>,
    pub(super) plugin: Part<Arc<P>>,
    pub(super) jobs: Part<Jobs>,
    /// The plugin's fuel is counted.
    pub(super) metered: bool,
}

/// Carries out a request. Whatever the loader does, it comes back with a result.
pub(super) async fn load<L: PluginLoader>(context: Arc<Context<L>>, request: Request) -> Outcome<L::Plugin> {
    let (id, seen, metered) = (request.id.clone(), request.seen.clone(), request.metered);
    let file = id.wasm(context.root());
    let work = tokio::spawn(attempt(context, request)).await;
    let result = work.and_then(|result| result).unwrap_or_else(|error| {
        // H6: a plugin that brings the loader down costs itself, never the host. It is tried again when it changes.
        let reason = if error.is_panic() { "loading it failed inside the host" } else { "the host is stopping" };
        Some(Loaded { seen, version: None, plugin: failed(&file, reason), jobs: Part::Same, metered })
    });
    Outcome { id, result }
}

async fn attempt<L: PluginLoader>(
    context: Arc<Context<L>>,
    request: Request,
) -> Result<Option<Loaded<L::Plugin>>, tokio::task::JoinError> {
    let (tenant, file) = (request.id.tenant.clone(), request.id.wasm(context.root()));
    let reader = Arc::clone(&context);
    let (serving, was_metered, step) = (request.serving.clone(), request.metered, request.step);
    let Some(read) = tokio::task::spawn_blocking(move || read(&reader, request)).await? else { return Ok(None) };
    let plugin = match read.wasm {
        // The digest decides, not the times of the file: a copy of what serves changes nothing.
        Part::Taken(_)
            if read.metered == was_metered
                && serving.is_some()
                && read.version.as_ref().map(|v| &v.digest) == serving.as_ref() =>
        {
            Part::Kept
        }
        Part::Taken(bytes) => made(&context.loader, &tenant, &file, bytes, read.metered, step).await,
        Part::Same => Part::Same,
        Part::Kept => Part::Kept,
        Part::Uncompiled(step) => Part::Uncompiled(step),
        Part::Gone(problems) => Part::Gone(problems),
        Part::Failed(problems) => Part::Failed(problems),
        Part::Postponed(problems) => Part::Postponed(problems),
    };
    let Read { seen, version, jobs, metered, .. } = read;
    Ok(Some(Loaded { seen, version, plugin, jobs, metered }))
}

/// What the loader makes of the bytes.
async fn made<L: PluginLoader>(
    loader: &L,
    tenant: &TenantName,
    file: &Path,
    bytes: PluginBytes,
    metered: bool,
    step: Step,
) -> Part<Arc<L::Plugin>> {
    let loaded = match step {
        Step::Find => loader.find(tenant, &bytes, metered).await,
        Step::Compile => loader.try_load(tenant, file, bytes, metered).await,
        Step::CompileLong => loader.load(tenant, file, bytes, metered).await.map(Some),
    };
    match loaded {
        Ok(Some(plugin)) => Part::Taken(plugin),
        Ok(None) => Part::Uncompiled(if step == Step::Find { Step::Compile } else { Step::CompileLong }),
        Err(LoadError::Refused(reason)) => failed(file, reason),
        Err(LoadError::Host(reason)) => Part::Postponed(problem(file, format!("{reason}; it is tried again"))),
    }
}

fn failed<T>(file: &Path, reason: impl AsRef<str>) -> Part<T> {
    Part::Failed(problem(file, reason))
}

fn problem(file: &Path, reason: impl AsRef<str>) -> Problems {
    Problem::of(Place::file(file), plain(reason.as_ref())).into()
}

struct Read {
    seen: Seen,
    version: Option<Version>,
    wasm: Part<PluginBytes>,
    jobs: Part<Jobs>,
    metered: bool,
}

/// Reads the files. None when one of them is no longer what was seen. Blocks on the disk.
fn read<L>(context: &Context<L>, request: Request) -> Option<Read> {
    let Request { id, mut seen, wasm, manifest, metered: was_metered, .. } = request;
    let root = context.root();
    let opened = Folder::open(root).map_err(Denied::Io).and_then(|folder| match &id.folder {
        Some(own) => folder.tenant(own),
        None => Ok(folder),
    });
    // The folder was there when it was looked at: another look will tell.
    let folder = opened.ok()?;
    let jobs = if manifest { read_jobs(context, &id, &folder, &mut seen)? } else { Part::Same };
    // Once counted, its fuel is counted until the plugin goes: jobs that were taken earlier may need it.
    let metered = was_metered || jobs.is_metered();
    let wasm = match (&seen.wasm, wasm || metered != was_metered) {
        (_, false) => Part::Same,
        (Sight::Absent, true) => {
            let reason = format!("there is no {} beside the manifest; copy it there", id.wasm_name());
            Part::Gone(Problem::of(Place::file(&id.manifest(root)), reason).into())
        }
        (sight, true) => {
            let read = read_file(&folder, &id.wasm(root), &id.wasm_name(), PLUGIN_FILE_MAX, sight)?;
            read.map_or_else(Part::Failed, |bytes| Part::Taken(bytes.into()))
        }
    };
    let version = match &wasm {
        Part::Taken(bytes) => Some(version(bytes)),
        _ => None,
    };
    Some(Read { seen, version, wasm, jobs, metered })
}

fn version(bytes: &PluginBytes) -> Version {
    Version { digest: bytes.digest().to_string(), size: bytes.len() as u64, since: clock::wall() }
}

/// None when the file is no longer the one that was seen.
fn read_file(folder: &Folder, file: &Path, name: &str, max: u64, sight: &Sight) -> Option<Result<Vec<u8>, Problems>> {
    match (sight, folder.read(Path::new(name), max)) {
        (Sight::File(seen), Ok((bytes, stamp))) => (stamp == *seen).then_some(Ok(bytes)),
        (_, Err(Denied::Missing | Denied::Changed)) => None,
        (_, Err(denied)) => Some(Err(problem(file, denied.to_string()))),
        // It could not be opened before and can be now.
        (Sight::Denied(_) | Sight::Absent | Sight::PassedOver, Ok(_)) => None,
    }
}

fn read_jobs<L>(context: &Context<L>, id: &PluginId, folder: &Folder, seen: &mut Seen) -> Option<Part<Jobs>> {
    let root = context.root();
    let file = id.manifest(root);
    seen.payloads.clear();
    if seen.manifest == Sight::Absent {
        return Some(Part::Taken(vec![Ok(unscheduled(context, id))]));
    }
    let bytes = match read_file(folder, &file, &id.manifest_name(), manifest::FILE_MAX, &seen.manifest)? {
        Ok(bytes) => bytes,
        Err(problems) => return Some(Part::Failed(problems)),
    };
    let Ok(text) = String::from_utf8(bytes) else { return Some(failed(&file, "the manifest is not UTF-8 text")) };
    let settings = context.config.tenant(&id.tenant);
    let drafts = match manifest::read(&file, &text, settings, &context.zones) {
        Ok(drafts) => drafts,
        Err(problems) => return Some(Part::Failed(problems)),
    };
    let mut payloads = PayloadFiles::of(folder);
    let finish =
        |draft: Result<JobDraft, RefusedJob>| draft.and_then(|draft| finish(draft, id, context, &mut payloads));
    let jobs = drafts.into_iter().map(finish).collect();
    seen.payloads = payloads.seen();
    Some(Part::Taken(jobs))
}

/// The job of a plugin without a manifest.
fn unscheduled<L>(context: &Context<L>, id: &PluginId) -> JobSpec {
    let settings = context.config.tenant(&id.tenant);
    JobSpec {
        key: JobKey { tenant: id.tenant.clone(), name: id.name.clone() },
        plugin_file: id.wasm(context.root()),
        place: None,
        schedule: None,
        policy: settings.policy.clone(),
        limits: settings.limits.clone(),
        payload: Arc::from([]),
        grants: JobGrants::default(),
        stored_max: settings.quota.stored_max,
    }
}

/// The job with its payload and its grants.
fn finish<L>(
    draft: JobDraft,
    id: &PluginId,
    context: &Context<L>,
    payloads: &mut PayloadFiles,
) -> Result<JobSpec, RefusedJob> {
    let payload = payload(&draft, payloads)?;
    let key = JobKey { tenant: id.tenant.clone(), name: draft.name };
    let grants = JobGrants::new(&key, &draft.wishes, context.config.grants(&id.tenant));
    Ok(JobSpec {
        key,
        plugin_file: id.wasm(context.root()),
        place: Some(draft.place),
        schedule: draft.schedule,
        policy: draft.policy,
        limits: draft.limits,
        payload,
        grants,
        stored_max: context.config.tenant(&id.tenant).quota.stored_max,
    })
}

/// What the job's handler is given, its file read.
pub(super) fn payload(draft: &JobDraft, payloads: &mut PayloadFiles) -> Result<Arc<[u8]>, RefusedJob> {
    match &draft.payload {
        Payload::Inline(bytes) => Ok(bytes.as_slice().into()),
        Payload::File { path, place } => payloads.read(path, draft.limits.payload_max).map_err(|reason| {
            let key = format!("jobs.{}.payload_file", draft.name);
            let problem = Problem { key, ..Problem::of(place.clone(), reason) };
            let problem = Problem { value: Some(crate::config::quoted(path)), ..problem };
            RefusedJob { name: Some(draft.name.clone()), problems: problem.into() }
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;

    /// A plugin directory with the plugin `a`.
    struct Bench {
        _dir: tempfile::TempDir,
        plugins: std::path::PathBuf,
        context: Context<()>,
    }

    impl Bench {
        fn new(manifest: &str) -> Bench {
            let dir = tempfile::tempdir().unwrap();
            let plugins = dir.path().join("plugins");
            std::fs::create_dir_all(&plugins).unwrap();
            let config = Config::load(&Sources { folder: dir.path().into(), ..Sources::default() }).unwrap();
            let context = Context { config: Arc::new(config), zones: Zones::bundled(), loader: () };
            let bench = Bench { _dir: dir, plugins, context };
            bench.write("a.wasm", "code");
            bench.write("a.toml", manifest);
            bench
        }

        fn write(&self, file: &str, text: &str) {
            std::fs::write(self.plugins.join(file), text).unwrap();
        }

        /// Asks for everything, as it lies there now, for the first time.
        fn request(&self) -> Request {
            let folder = Folder::open(&self.plugins).unwrap();
            let sight = |name: &str| Sight::of(&folder, Path::new(name));
            Request {
                id: PluginId { tenant: "default".parse().unwrap(), name: "a".parse().unwrap(), folder: None },
                seen: Seen { wasm: sight("a.wasm"), manifest: sight("a.toml"), ..Seen::default() },
                wasm: true,
                manifest: true,
                serving: None,
                metered: false,
                step: Step::Find,
            }
        }
    }

    #[test]
    fn a_file_that_is_no_longer_what_was_seen_is_not_taken() {
        let bench = Bench::new("[[jobs]]\nname = \"j\"\n");
        let request = bench.request();
        let read = |manifest| read(&bench.context, Request { manifest, ..request.clone() });
        assert!(read(true).is_some_and(|read| !read.metered));
        bench.write("a.toml", "[[jobs]]\nname = \"k\"\n#\n");
        assert!(read(true).is_none(), "the manifest has changed");
        assert!(read(false).is_some());
        bench.write("a.wasm", "more code");
        assert!(read(false).is_none(), "the code has changed");
        std::fs::remove_file(bench.plugins.join("a.wasm")).unwrap();
        assert!(read(false).is_none(), "the code is gone");
    }

    #[test]
    fn a_job_with_a_limit_of_fuel_has_the_plugin_read_again_to_be_metered() {
        let bench = Bench::new("[[jobs]]\nname = \"j\"\nfuel = 1000\n");
        let request = bench.request();
        let read = |manifest, metered| {
            read(&bench.context, Request { wasm: false, manifest, metered, ..request.clone() }).unwrap()
        };
        let taken = read(true, false);
        assert!(taken.metered && matches!(taken.wasm, Part::Taken(_)), "it served without counting");
        let taken = read(true, true);
        assert!(taken.metered && matches!(taken.wasm, Part::Same), "it counts already");
        assert!(read(false, true).metered, "it goes on counting");
    }
}
