//! Hosts in this process, each with its own way to one store, and handlers that tell a witness outside.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::config::{Config, Secrets, Sources};
use leasehold::event::{Events, HostEvent};
use leasehold::plugins::{LoadError, PluginLoader, Plugins};
use leasehold::running::Running;
use leasehold::{Host, HostParts, TenantQuota, clock, zones};
use leasehold_lease::agent::EventKind;
use leasehold_lease::id::{JobKey, RunId, TenantName};
use leasehold_lease::run::Job;
use leasehold_lease::time::{Millis, Slot};
use leasehold_sandbox::{CompilerCommand, Plugin, PluginBytes, Sandbox, SandboxSettings};
use leasehold_test_servers::{IN_TIME, Watchdog, since_boot};
use leasehold_tests::{PATIENCE, Witness, Workplace, binary, caches};
use tokio::sync::watch;

use super::judged::Judged;
use super::store::FaultyStore;
use super::weather::{Sky, Weather};

/// After this long of calm, all that was on its way has arrived, and leases of the dead have run out.
const SETTLED: Duration = Duration::from_secs(4);

/// Slots of each job that are looked at in calm weather.
const SLOTS: i64 = 3;

/// Hosts and all around them.
pub(crate) struct Cluster {
    pub(crate) judged: Arc<Judged>,
    pub(crate) sky: Arc<Sky>,
    pub(crate) heard: Arc<Heard>,
    pub(crate) witness: Witness,
    pub(crate) watchdog: Watchdog,
    /// Each job with its interval.
    jobs: BTreeMap<JobKey, Duration>,
    sandbox: Arc<Sandbox>,
    plugins: Plugins<Plugin>,
    _folder: Workplace,
}

/// A job of the guest `unruly`.
pub(crate) struct Work {
    pub(crate) name: &'static str,
    pub(crate) every: Duration,
    /// What it does, as TOML; `URL` stands for the witness.
    pub(crate) wish: String,
}

impl Cluster {
    /// A plugin directory with these jobs, and nobody yet who follows it.
    pub(crate) async fn new(seed: u64, defaults: &str, work: &[Work]) -> Cluster {
        let witness = Witness::start();
        let origin = witness.origin();
        let folder = Workplace::new(&format!("{defaults}[tenants.default.http]\nallow = [\"{origin}\"]\n"));
        folder.install("unruly", "unruly.wasm");
        let job = |Work { name, every, wish }: &Work| {
            let (ms, wish) = (every.as_millis(), wish.replace("URL", &format!("{origin}/")));
            format!("[[jobs]]\nname = \"{name}\"\nevery = \"{ms}ms\"\npayload = {wish}\nhttp = [\"{origin}\"]\n")
        };
        folder.write("plugins/unruly.toml", work.iter().map(job).collect::<String>());
        let compiler = CompilerCommand { program: binary(), args: vec!["compile-plugin".into()] };
        let settings = SandboxSettings::new(compiler, Arc::new(|| clock::mono().0));
        let cache_dir = Some(caches().join("leasehold/compiled"));
        let sandbox = Arc::new(Sandbox::new(SandboxSettings { cache_dir, ..settings }).expect("a sandbox"));
        let sources = Sources { folder: folder.path().to_owned(), ..Sources::default() };
        let config = Config::load(&sources).unwrap_or_else(|wrong| panic!("{wrong}"));
        let loader = Loader(Arc::clone(&sandbox));
        let plugins = Plugins::start(Arc::new(config), zones::load(), loader, clock::wall()).await;
        let mut catalog = plugins.catalog();
        let loaded = catalog.wait_for(|catalog| catalog.jobs.len() == work.len());
        tokio::time::timeout(PATIENCE, loaded).await.expect("the plugin is compiled in time").expect("it is followed");
        let jobs = work.iter().map(|work| (key(work.name), work.every)).collect();
        let (judged, sky, heard) = (Arc::new(Judged::new()), Arc::new(Sky::new(seed)), Arc::default());
        let watchdog = Watchdog::start();
        Cluster { judged, sky, heard, witness, watchdog, jobs, sandbox, plugins, _folder: folder }
    }

    /// A host's way to the store; the number is for the weather.
    pub(crate) fn store(&self, number: usize) -> Arc<FaultyStore> {
        Arc::new(FaultyStore::new(Arc::clone(&self.judged), Arc::clone(&self.sky), number))
    }

    /// Starts a host that goes this way.
    pub(crate) async fn host(&self, name: &str, store: Arc<FaultyStore>) -> Host {
        let parts = HostParts {
            name: name.to_owned(),
            store,
            sandbox: Arc::clone(&self.sandbox),
            catalog: self.plugins.catalog(),
            running: Arc::new(Running::default()),
            events: self.heard.clone(),
            concurrency: 64,
            tenant_quota: Box::new(|_| TenantQuota { concurrency: 64, memory: None }),
            tenant_lease: Box::new(|_| Duration::ZERO),
            secrets: Secrets::default(),
        };
        Host::start(parts).await.expect("a host starts")
    }

    /// From now on nothing goes wrong: soon every slot of every job runs, once and well, and what is older has ended. Where the
    /// machine kept this process waiting, a slot may be skipped or late, and that is told.
    pub(crate) async fn recovers(&self) {
        self.sky.turn(Weather::Calm);
        let calm = clock::wall();
        // What was begun in bad weather goes on, by another attempt perhaps, and slots are skipped while it does.
        for job in self.jobs.keys() {
            self.until(job, "older runs do not end", |record| {
                let mut older = record.runs.values().filter(|run| run.due <= calm);
                clock::wall() > calm + SETTLED && older.all(|run| run.status.is_final())
            })
            .await;
        }
        let (settled, began) = (clock::wall(), since_boot());
        let due = |every: Duration| {
            let ms = whole_ms(every);
            let first = ((settled + every).0 / ms + 1) * ms;
            (0..SLOTS).map(move |n| Slot(Millis(first + n * ms)))
        };
        for (job, every) in &self.jobs {
            let last = due(*every).next_back().expect("there are some");
            self.until(job, "its slot does not end", |record| {
                let ended = record.runs.get(&RunId::Slot(last)).is_some_and(|run| run.status.is_final());
                // Or it was skipped.
                ended || clock::wall() > last.0 + *every
            })
            .await;
        }
        let in_time = self.watchdog.was_in_time(began, since_boot());
        for (job, every) in &self.jobs {
            let record = self.judged.memory.record(job);
            for slot in due(*every) {
                let run = record.runs.get(&RunId::Slot(slot));
                let told = || self.heard.of(job, slot);
                if in_time {
                    let came = run.map(|run| (run.status.word(), run.starts));
                    assert_eq!(came, Some(("success", 1)), "{job}: {slot} in calm weather: {}", told());
                }
            }
        }
        if !in_time {
            eprintln!("this process was kept waiting ({:?}): that each slot ran is not asked", self.watchdog.latest());
        }
        let (broken, steps) = self.judged.verdict().await;
        assert!(broken.is_empty(), "of {steps} operations: {broken:#?}");
        eprintln!("{steps} operations on the record, none against the invariants");
    }

    /// L5: every slot that was due from then until now is in the record, or some host has said what became of it. Where this
    /// process was kept waiting, hosts may have told of several in one.
    pub(crate) fn accounts_for_all(&self, from: Millis, began: Duration) {
        if !self.watchdog.was_in_time(began, since_boot()) {
            return eprintln!("this process was kept waiting: that each slot is told of by itself is not asked");
        }
        // What was due a moment ago may not have been claimed.
        let until = clock::wall().0 - 1_000;
        for (job, every) in &self.jobs {
            let (ms, record) = (whole_ms(*every), self.judged.memory.record(job));
            let due = (from.0 / ms + 1..).map(|n| Slot(Millis(n * ms))).take_while(|slot| slot.0.0 < until);
            for slot in due {
                let known = record.runs.contains_key(&RunId::Slot(slot)) || self.heard.explains(job, slot);
                assert!(known, "{job}: nobody says what became of {slot}");
            }
        }
    }

    /// H3: of this job's effects none came after the end of its lease, as its runner could know it; and H1: none of its
    /// attempts had more than one handler, which has this many. It is the only job that tells the witness.
    pub(crate) fn effects_were_in_time(&self, job: &str, of_handler: usize) {
        let heard = self.witness.heard_at();
        let mut by_fence = BTreeMap::<u64, usize>::new();
        heard.iter().for_each(|(_, effect)| *by_fence.entry(effect.fence).or_default() += 1);
        assert!(by_fence.values().all(|effects| *effects <= of_handler), "{by_fence:?}");
        // From the gate to the witness it may wait for the processor.
        let slack = 2 * IN_TIME + self.watchdog.latest();
        let late = self.judged.outlived(&key(job), &heard, slack);
        assert!(late.is_empty(), "{} of {} effects: {late:#?}", late.len(), heard.len());
        eprintln!("{} effects, none later than {slack:?} after the end of its lease", heard.len());
    }

    /// Waits until a job's record is so.
    async fn until(&self, job: &JobKey, otherwise: &str, fits: impl Fn(&Job) -> bool) {
        let patience = clock::mono() + PATIENCE;
        while !fits(&self.judged.memory.record(job)) {
            assert!(clock::mono() < patience, "{job}: {otherwise}: {:#?}", self.judged.memory.record(job).runs);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// What hosts have told.
#[derive(Default)]
pub(crate) struct Heard {
    all: Mutex<Vec<HostEvent>>,
    count: watch::Sender<usize>,
}

impl Heard {
    /// How much there is so far.
    pub(crate) fn len(&self) -> usize {
        self.all.lock().expect("nobody panics with it").len()
    }

    /// How often this was told.
    pub(crate) fn count(&self, kind: EventKind) -> usize {
        self.all.lock().expect("nobody panics with it").iter().filter(|heard| heard.event.kind == kind).count()
    }

    /// Waits for something that fits, from the n-th on.
    pub(crate) async fn until(&self, from: usize, what: &str, fits: impl Fn(&HostEvent) -> bool) {
        let mut count = self.count.subscribe();
        let found = || self.all.lock().expect("nobody panics with it")[from..].iter().any(&fits);
        let waits = async {
            while !found() {
                count.changed().await.expect("the sender lives as long as what was heard");
            }
        };
        tokio::time::timeout(PATIENCE, waits).await.unwrap_or_else(|_| panic!("nobody told of {what} in {PATIENCE:?}"));
    }

    /// L5: some host has said what became of the slot.
    pub(crate) fn explains(&self, job: &JobKey, slot: Slot) -> bool {
        let why = [EventKind::Skip, EventKind::Late, EventKind::Superseded, EventKind::Missed];
        let of_slot = |heard: &HostEvent| {
            heard.job.as_ref() == Some(job)
                && heard.event.run == Some(RunId::Slot(slot))
                && why.contains(&heard.event.kind)
        };
        self.all.lock().expect("nobody panics with it").iter().any(of_slot)
    }

    /// What was told of a slot, for people.
    fn of(&self, job: &JobKey, slot: Slot) -> String {
        let of_slot =
            |heard: &&HostEvent| heard.job.as_ref() == Some(job) && heard.event.run == Some(RunId::Slot(slot));
        let all = self.all.lock().expect("nobody panics with it");
        all.iter().filter(of_slot).map(|heard| heard.to_json().to_string()).collect::<Vec<_>>().join("\n")
    }
}

impl Events for Heard {
    fn event(&self, event: &HostEvent) {
        let mut all = self.all.lock().expect("nobody panics with it");
        all.push(event.clone());
        self.count.send_replace(all.len());
    }
}

/// Compiles as a host does.
struct Loader(Arc<Sandbox>);

impl PluginLoader for Loader {
    type Plugin = Plugin;

    async fn load(&self, tenant: &TenantName, _: &Path, bytes: PluginBytes, _: bool) -> Result<Arc<Plugin>, LoadError> {
        let loaded = self.0.load_bytes(tenant.as_str(), bytes).await;
        loaded.map_err(|error| LoadError::Host(leasehold::causes::chain(&error)))
    }
}

fn whole_ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).expect("no age")
}

/// A job of the tenant `default`.
pub(crate) fn key(name: &str) -> JobKey {
    format!("default/{name}").parse().expect("a job")
}
