//! The plugin directory: what lies in it is read at start and followed from then on.
//!
//! `plugins/<tenant>/<plugin>.wasm` is a plugin and `plugins/<tenant>/<plugin>.toml` beside it lists its jobs; without
//! that file the plugin is the job `<tenant>/<plugin>`, which has no schedule. Files directly in the directory belong to the
//! tenant `default`. A file is taken when it has stopped changing and validates; until then the version before serves.
//! A payload file is read with its manifest and again when it changes.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold_lease::id::TenantName;
use leasehold_lease::schedule::Zones;
use leasehold_lease::time::Millis;
use leasehold_sandbox::PluginBytes;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::{Config, Problems, Sources};

mod beneath;
mod catalog;
mod follow;
mod grants;
mod load;
mod look;
mod payloads;
mod standing;
mod state;

pub use leasehold_sandbox::PLUGIN_FILE_MAX;

pub use catalog::{Catalog, IdleJob, JobSpec, LoadedPlugin, OfferedJob, Refused};
pub use grants::{JobGrants, PluginGrants, grants_of};
pub use look::{DEFAULT_TENANT, PluginId};
pub use standing::{JobStanding, Odd, PluginState, Standing, Survey, Version};

use follow::{Pace, Publish, Watch};
use load::Context;

/// The payloads of one tenant's jobs take no more memory than this, in bytes.
const PAYLOADS_MAX: u64 = 64 << 20;

/// Makes a plugin of a file's bytes.
pub trait PluginLoader: Send + Sync + 'static {
    /// What is made.
    type Plugin: Send + Sync + 'static;

    /// Finds what was made of these bytes before, waiting for no compiler. None when they must be [loaded](Self::load).
    /// `metered` as for that.
    ///
    /// # Errors
    /// See [`LoadError`].
    fn find(
        &self,
        _tenant: &TenantName,
        _bytes: &PluginBytes,
        _metered: bool,
    ) -> impl Future<Output = Result<Option<Arc<Self::Plugin>>, LoadError>> + Send {
        std::future::ready(Ok(None))
    }

    /// Like [load](Self::load), for a short time only. None when it takes longer.
    ///
    /// # Errors
    /// See [`LoadError`].
    fn try_load(
        &self,
        tenant: &TenantName,
        file: &Path,
        bytes: PluginBytes,
        metered: bool,
    ) -> impl Future<Output = Result<Option<Arc<Self::Plugin>>, LoadError>> + Send {
        let load = self.load(tenant, file, bytes, metered);
        async { load.await.map(Some) }
    }

    /// Validates and compiles, in turn with other tenants. `file` is for messages only: the bytes are what was read from it,
    /// safely. Long work must not block the thread. A plugin of which a job has a limit of fuel is `metered`: its fuel must
    /// be counted.
    ///
    /// # Errors
    /// See [`LoadError`].
    fn load(
        &self,
        tenant: &TenantName,
        file: &Path,
        bytes: PluginBytes,
        metered: bool,
    ) -> impl Future<Output = Result<Arc<Self::Plugin>, LoadError>> + Send;
}

/// Why a file became no plugin, as a sentence without the file's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// It is none. It is tried again when it changes.
    #[error("{0}")]
    Refused(String),
    /// This host could not load it just now. It is tried again, ever more rarely.
    #[error("{0}")]
    Host(String),
}

/// The plugin directory being followed.
pub struct Plugins<P> {
    catalog: watch::Receiver<Arc<Catalog<P>>>,
    survey: watch::Receiver<Arc<Survey>>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl<P: Send + Sync + 'static> Plugins<P> {
    /// Reads the directory once and then follows it. `now` is the wall clock's: what nothing has touched for a second
    /// is taken at once.
    pub async fn start<L>(config: Arc<Config>, zones: Zones, loader: L, now: Millis) -> Plugins<P>
    where
        L: PluginLoader<Plugin = P>,
    {
        Plugins::start_at(Pace::default(), Context { config, zones, loader }, now).await
    }

    async fn start_at<L>(pace: Pace, context: Context<L>, now: Millis) -> Plugins<P>
    where
        L: PluginLoader<Plugin = P>,
    {
        let (publish, catalog, survey) = Publish::new();
        let mut watch = Watch::new(Arc::new(context), pace, publish);
        watch.first_scan(now).await;
        let (stop, stopped) = watch::channel(false);
        Plugins { catalog, survey, stop, task: tokio::spawn(watch.run(stopped)) }
    }

    /// The catalog, now and whenever it changes.
    pub fn catalog(&self) -> watch::Receiver<Arc<Catalog<P>>> {
        self.catalog.clone()
    }

    /// How every file of the directory stands, now and whenever it changes.
    pub fn survey(&self) -> watch::Receiver<Arc<Survey>> {
        self.survey.clone()
    }

    /// Ends following. The catalog stays as it is.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "following the plugin directory ended with a failure");
        }
    }
}

/// Reads the plugin directory once.
pub async fn scan<L: PluginLoader>(
    config: Arc<Config>,
    zones: Zones,
    loader: L,
    now: Millis,
) -> Arc<Catalog<L::Plugin>> {
    scan_and_survey(config, zones, loader, now).await.0
}

/// Reads the plugin directory once, and tells how every file of it stands.
pub async fn scan_and_survey<L: PluginLoader>(
    config: Arc<Config>,
    zones: Zones,
    loader: L,
    now: Millis,
) -> (Arc<Catalog<L::Plugin>>, Arc<Survey>) {
    let (publish, catalog, survey) = Publish::new();
    let context = Arc::new(Context { config, zones, loader });
    // Who asks for everything waits for everything.
    let pace = Pace { patience: Duration::MAX, ..Pace::default() };
    Watch::new(context, pace, publish).first_scan(now).await;
    (Arc::clone(&catalog.borrow()), Arc::clone(&survey.borrow()))
}

/// What a check has found.
#[derive(Debug, Default)]
pub struct Findings {
    /// Everything that is wrong.
    pub problems: Problems,
    /// What is no mistake and perhaps not meant.
    pub notes: Problems,
}

/// Everything that is wrong, at once: in the configuration, and in the plugin directory it names, of which each file is
/// read and each plugin validated. A configuration that cannot be read does not say which directory is meant, so none is
/// looked at then.
pub async fn check<L: PluginLoader>(sources: &Sources, zones: Zones, loader: L, now: Millis) -> Findings {
    let (config, problems) = Config::read(sources);
    let mut found = Findings { problems, ..Findings::default() };
    if !config.unread {
        if let Err(missing) = config.secrets(&sources.env) {
            found.problems.append(missing);
        }
        let catalog = scan(Arc::new(config), zones, loader, now).await;
        found.problems.append(catalog.problems());
        found.notes = catalog.notes();
    }
    found
}
