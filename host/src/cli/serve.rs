//! `leasehold serve`: runs a host until it is asked to end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use leasehold::config::{Config, Secrets, StoreUrl};
use leasehold::event::Printer;
use leasehold::plugins::{Catalog, JobSpec, Plugins};
use leasehold::running::Running;
use leasehold::status::{self, About, StatusFile};
use leasehold::{Host, HostParts, TenantQuota, clock, memory, zones};
use leasehold_lease::id::{JobKey, hex};
use leasehold_lease::schedule::Zones;
use leasehold_lease::time::{Millis, Slot};
use leasehold_sandbox::{Plugin, Sandbox, SandboxSettings};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::error::CliError;
use super::loader::{self, Compiler};
use super::signals::EndSignals;
use super::{Exit, Global, next, store};
use config_file::ConfigFile;

pub(super) mod arenas;
mod config_file;

/// The arguments of `leasehold serve`.
#[derive(Debug, Args)]
pub(super) struct Serve {}

/// How many slots are told of each job.
const SLOTS_TOLD: usize = 3;
/// How many digits of a plugin's digest; `leasehold plugins --json` tells all.
const SHORT_DIGEST: usize = 12;

impl Serve {
    /// Runs the host.
    ///
    /// # Errors
    /// It cannot start, or it failed.
    pub(super) async fn run(&self, global: &Global) -> Result<Exit, CliError> {
        // Before anything is started, so that no signal finds the process half made.
        let mut signals = EndSignals::listen()?;
        let sources = global.sources()?;
        let config = Arc::new(Config::load(&sources).map_err(CliError::Config)?);
        let secrets = config.secrets(&sources.env).map_err(CliError::Config)?;
        if !config.host.plugins.is_dir() {
            return Err(CliError::NoPlugins { path: config.host.plugins.clone() });
        }
        let started = tokio::select! {
            started = Serving::start(&config, secrets, global.json) => started?,
            signal = signals.next() => {
                tracing::info!("{signal}: ended before anything was started");
                return Ok(Exit::Success);
            }
        };
        started.until_ended(signals).await
    }
}

/// A host and what it needs.
struct Serving {
    host: Host,
    plugins: Plugins<Plugin>,
    /// What tells of the plugin directory until it is no longer followed.
    tellers: Vec<JoinHandle<()>>,
}

impl Serving {
    async fn start(config: &Arc<Config>, secrets: Secrets, json: bool) -> Result<Serving, CliError> {
        let zones = zones::load();
        let configured = config.file.as_deref().and_then(ConfigFile::read);
        let name = match &config.host.name {
            Some(name) => name.clone(),
            None => made_up_name()?,
        };
        tell_start(config, &name, &zones);
        let sandbox = Arc::new(Sandbox::new(SandboxSettings {
            cache_dir: Some(loader::cache_dir(&config.host.data_dir)),
            compile_limits: loader::compile_limits(&config.host),
            max_guests: config.host.concurrency,
            memory: bytes(config.host.memory.unwrap_or_else(memory::for_guests)),
            ..loader::sandbox_settings()?
        })?);
        let store = store::open(&config.store).await?;
        let loader = Compiler(Arc::clone(&sandbox));
        let plugins = Plugins::start(Arc::clone(config), zones, loader, clock::wall()).await;
        let running = Arc::new(Running::default());
        let mut tellers = vec![tokio::spawn(tell_jobs(plugins.catalog()))];
        tellers.extend(configured.map(|file| tokio::spawn(file.tell_when_it_changes(plugins.catalog()))));
        tellers.extend(tell_status(config, &name, &plugins, &running));
        let (tenants, leases) = (Arc::clone(config), Arc::clone(config));
        let parts = HostParts {
            name,
            store,
            sandbox,
            catalog: plugins.catalog(),
            running,
            events: Arc::new(Printer::new(json)),
            concurrency: config.host.concurrency as usize,
            tenant_quota: Box::new(move |tenant| {
                let quota = &tenants.tenant(tenant).quota;
                TenantQuota { concurrency: quota.concurrency as usize, memory: quota.memory.map(bytes) }
            }),
            tenant_lease: Box::new(move |tenant| leases.tenant(tenant).policy.lease),
            secrets,
        };
        Ok(Serving { host: Host::start(parts).await?, plugins, tellers })
    }

    async fn until_ended(mut self, mut signals: EndSignals) -> Result<Exit, CliError> {
        let (mut asked, mut at_once) = (false, false);
        let ended = loop {
            tokio::select! {
                ended = self.host.ended() => break ended,
                signal = signals.next() => {
                    if asked {
                        tracing::warn!("{signal} again: ending at once; others take over when the leases run out");
                        at_once = true;
                        self.host.end_now().await;
                    } else {
                        tracing::info!("{signal}: handing over and ending; a second signal ends at once");
                        self.host.stop().await;
                    }
                    asked = true;
                }
            }
        };
        self.plugins.stop().await;
        // What they tell of has gone, which is the end of these tasks.
        for teller in self.tellers {
            if let Err(error) = teller.await {
                tracing::error!(%error, "a task that tells of plugins has failed");
            }
        }
        ended.map_err(CliError::HostFailed)?;
        // What was not handed over waits for its lease to run out: that is no success.
        Ok(if at_once { Exit::Failed } else { Exit::Success })
    }
}

/// Tells people on this machine how the plugins stand. A host does its work without that, too.
fn tell_status(
    config: &Config,
    name: &str,
    plugins: &Plugins<Plugin>,
    running: &Arc<Running>,
) -> Option<JoinHandle<()>> {
    let data_dir = &config.host.data_dir;
    warn_of_twins(data_dir, name);
    let file = StatusFile::create(data_dir).inspect_err(|error| {
        let folder = data_dir.display();
        tracing::warn!(%error, "`leasehold plugins` shows nothing of this host: {folder} cannot be written");
    });
    let directory = &config.host.plugins;
    let about = About {
        host: name.to_owned(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        plugins: directory.canonicalize().unwrap_or_else(|_| directory.clone()),
    };
    Some(tokio::spawn(status::keep(file.ok()?, about, plugins.survey(), Arc::clone(running))))
}

/// Hosts of one name work all the same, because leases are of attempts; but nobody can tell who did what.
fn warn_of_twins(data_dir: &Path, name: &str) {
    // What cannot be read of other hosts is told by the commands that show them.
    let living = status::living(data_dir).map(|living| living.hosts).unwrap_or_default();
    for About { pid, .. } in living.iter().map(|other| &other.status.about).filter(|other| other.host == name) {
        tracing::warn!(
            "another host of this machine (process {pid}) is called {name}, too: records and events do not tell them \
             apart; give each its own name under [host]"
        );
    }
}

fn tell_start(config: &Config, name: &str, zones: &Zones) {
    match &config.file {
        Some(file) => tracing::info!("configuration {}", file.display()),
        None => tracing::info!("no configuration file: defaults, environment and flags hold"),
    }
    tracing::info!("host {name}, version {}", env!("CARGO_PKG_VERSION"));
    let namespace = match &config.store {
        StoreUrl::Postgres(server) | StoreUrl::Redis(server) => format!(", namespace {}", server.namespace),
        StoreUrl::Sqlite(_) | StoreUrl::Memory => String::new(),
    };
    tracing::info!("store {}{namespace}, plugins {}", config.store, config.host.plugins.display());
    tracing::info!("time zone data {} ({})", zones.version(), zones.source());
}

fn bytes(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The machine's name and some random digits: two processes of one machine, or a restarted one, are told apart.
fn made_up_name() -> Result<String, CliError> {
    let mut random = [0; 3];
    getrandom::fill(&mut random)?;
    let system = rustix::system::uname();
    let digits = hex(&random);
    Ok(format!("{}-{digits}", host_part(&system.nodename().to_string_lossy())))
}

/// What of the machine's name goes into a host's name.
fn host_part(nodename: &str) -> String {
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let part: String = nodename.chars().filter(plain).take(57).collect();
    if part.is_empty() { "host".to_owned() } else { part }
}

/// Tells of each job when it is offered, and when that changes, until the plugin directory is no longer followed.
async fn tell_jobs(mut catalog: watch::Receiver<Arc<Catalog<Plugin>>>) {
    let mut told = BTreeMap::new();
    loop {
        let now = Arc::clone(&catalog.borrow_and_update());
        told = tell_changes(&told, &now);
        if catalog.changed().await.is_err() {
            return;
        }
    }
}

type Told = BTreeMap<JobKey, (Arc<JobSpec>, Arc<Plugin>)>;

fn tell_changes(told: &Told, catalog: &Catalog<Plugin>) -> Told {
    for key in told.keys().filter(|key| !catalog.jobs.contains_key(key)) {
        tracing::info!("job {key} is no longer offered");
    }
    for (key, job) in &catalog.jobs {
        let (same_spec, same_plugin) = told
            .get(key)
            .map_or((false, false), |(spec, plugin)| (Arc::ptr_eq(spec, &job.spec), Arc::ptr_eq(plugin, &job.plugin)));
        if !same_spec {
            tell_job(&job.spec, clock::wall());
        }
        if !same_plugin {
            let (file, digest) = (job.spec.plugin_file.display(), job.plugin.digest().to_string());
            tracing::info!("job {key} is handled by {file} ({})", &digest[..SHORT_DIGEST]);
        }
    }
    let pair = |(key, job): (&JobKey, &leasehold::plugins::OfferedJob<Plugin>)| {
        (key.clone(), (Arc::clone(&job.spec), Arc::clone(&job.plugin)))
    };
    catalog.jobs.iter().map(pair).collect()
}

fn tell_job(spec: &JobSpec, now: Millis) {
    let key = &spec.key;
    for problem in spec.grants.missing.iter() {
        tracing::warn!("job {key} runs without something it asks for: {problem}");
    }
    let Some(schedule) = &spec.schedule else {
        tracing::info!("job {key} has no schedule: `leasehold trigger {key}` starts it");
        return;
    };
    let zone = schedule.zone();
    let show = |slot: Slot| match zone.name() {
        "UTC" => slot.to_string(),
        _ => format!("{} = {slot}", next::local(slot, zone.tz())),
    };
    let slots: Vec<_> = next::slots(schedule, now, SLOTS_TOLD).into_iter().map(show).collect();
    let slots = if slots.is_empty() { "never".to_owned() } else { slots.join(", ") };
    tracing::info!("job {key}: {schedule}, zone {zone}, next {slots}");
    for hint in schedule.hints() {
        tracing::warn!("job {key}: {hint}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_up_name_is_a_hosts_name_and_differs() {
        let (one, other) = (made_up_name().unwrap(), made_up_name().unwrap());
        assert_ne!(one, other);
        assert!((8..=64).contains(&one.len()), "{one}");
        assert_eq!(host_part("web 1\n.example"), "web1.example");
        assert_eq!(host_part("ü"), "host");
        assert_eq!(host_part(&"x".repeat(100)).len(), 57);
    }
}
