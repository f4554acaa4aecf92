//! The sandbox itself: engine, threads, cache; loading and starting.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use thiserror::Error;
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use crate::attempt::Attempt;
use crate::cache::{CacheError, CodeCache};
use crate::capture::Capture;
use crate::engine::{self, Allocation};
use crate::execution::{self, Execution};
use crate::guest::{self, Call, Outward};
use crate::imports;
use crate::invocation::{Invocation, MonotonicClock};
use crate::limits::Limits;
use crate::load::{Loader, Refused};
use crate::outbound::{HttpClient, Resolve, Sender, SystemResolver};
use crate::outcome::FailureKind;
use crate::plugin::{Plugin, read_plugin_file};
use crate::refusal::PluginError;
use crate::ticker::Ticker;

/// What a sandbox is made with.
#[derive(Clone)]
pub struct SandboxSettings {
    /// Where compiled code is kept: a directory of this host's own, made where it is missing. None compiles every time.
    pub cache_dir: Option<PathBuf>,
    /// How many bytes of compiled code are kept there; what was used longest ago goes first.
    pub cache_bytes: u64,
    /// How many threads guests run on.
    pub guest_threads: usize,
    /// How many guests may exist at a time; a start beyond it ends as
    /// [`FailureKind::NoResources`](crate::FailureKind::NoResources).
    pub max_guests: u32,
    /// Measures how long attempts take.
    pub clock: MonotonicClock,
    /// Looks up the names that guests send requests to.
    pub resolver: Arc<dyn Resolve>,
    /// Certificate authorities (DER) that requests of guests trust beside the system's.
    pub more_roots: Vec<Vec<u8>>,
}

impl SandboxSettings {
    /// The defaults: as many guest threads as processors, 256 guests, 4 GiB of compiled code, kept nowhere yet.
    pub fn new(clock: MonotonicClock) -> Self {
        SandboxSettings {
            cache_dir: None,
            cache_bytes: 4 * 1024 * 1024 * 1024,
            guest_threads: processors(),
            max_guests: 256,
            clock,
            resolver: Arc::new(SystemResolver),
            more_roots: Vec::new(),
        }
    }
}

impl fmt::Debug for SandboxSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SandboxSettings")
            .field("cache_dir", &self.cache_dir)
            .field("cache_bytes", &self.cache_bytes)
            .field("guest_threads", &self.guest_threads)
            .field("max_guests", &self.max_guests)
            .finish_non_exhaustive()
    }
}

/// The sandbox could not be made.
#[derive(Debug, Error)]
pub enum SandboxError {
    /// The engine.
    #[error("cannot start the WebAssembly engine: {0}")]
    Engine(String),
    /// The directory of compiled code.
    #[error("cannot keep compiled code")]
    Cache(#[from] CacheError),
    /// A thread.
    #[error("cannot start the threads that guests run on")]
    Threads(#[source] io::Error),
}

/// Runs plugins. Make one per process; it may be shared, and dropping it ends all guests.
pub struct Sandbox {
    loader: Arc<Loader>,
    allocation: Allocation,
    ticker: Ticker,
    /// Turns at compiling.
    compilers: Arc<Semaphore>,
    /// Places for guests.
    places: Arc<Semaphore>,
    guests: Option<Runtime>,
    watch: Option<Runtime>,
    network: Option<Runtime>,
    http: Arc<HttpClient>,
}

impl Sandbox {
    /// Starts the engine and its threads.
    ///
    /// # Errors
    ///
    /// When the engine, a thread or the cache directory cannot be had; an unsafe cache directory counts as such.
    pub fn new(settings: SandboxSettings) -> Result<Sandbox, SandboxError> {
        let wasmtime = |error: wasmtime::Error| SandboxError::Engine(format!("{error:#}"));
        let (engine, allocation) = engine::engine(settings.max_guests).map_err(wasmtime)?;
        let cache = match &settings.cache_dir {
            Some(dir) => Some(CodeCache::open(dir, &engine, settings.cache_bytes)?),
            None => None,
        };
        let linker = imports::linker(&engine).map_err(wasmtime)?;
        let network = engine::network_runtime().map_err(SandboxError::Threads)?;
        let http = HttpClient::new(network.handle().clone(), settings.resolver, settings.more_roots);
        Ok(Sandbox {
            ticker: Ticker::start(&engine).map_err(SandboxError::Threads)?,
            compilers: Arc::new(Semaphore::new((processors() / 2).max(1))),
            places: Arc::new(Semaphore::new(settings.max_guests as usize)),
            guests: Some(engine::guest_runtime(settings.guest_threads.max(1)).map_err(SandboxError::Threads)?),
            watch: Some(engine::supervising_runtime().map_err(SandboxError::Threads)?),
            network: Some(network),
            http: Arc::new(http),
            allocation,
            loader: Arc::new(Loader { engine, linker, cache, clock: settings.clock, refused: Refused::default() }),
        })
    }

    /// Reads and loads a plugin's file. See [`Sandbox::load_bytes`].
    ///
    /// # Errors
    ///
    /// [`PluginError`], with the reason.
    pub async fn load(&self, path: &Path) -> Result<Arc<Plugin>, PluginError> {
        let path = path.to_owned();
        let bytes = self.apart("plugin-reader", move || read_plugin_file(&path)).await?;
        self.load_bytes(bytes?).await
    }

    /// Validates, compiles (or finds compiled) and links a plugin.
    ///
    /// The work is done on a thread of its own, a few at a time: this only waits, on any runtime. Bytes that were refused are
    /// refused again from memory.
    ///
    /// # Errors
    ///
    /// [`PluginError`], with the reason.
    pub async fn load_bytes(&self, bytes: Vec<u8>) -> Result<Arc<Plugin>, PluginError> {
        let turn = self.compilers.clone().acquire_owned().await.map_err(|_| PluginError::ShutDown)?;
        let loader = self.loader.clone();
        let loaded = self.apart("plugin-loader", move || {
            let _turn = turn;
            loader.load(&bytes)
        });
        Ok(loaded.await??)
    }

    /// Starts one attempt: a fresh instance on the guests' threads. Returns at once.
    pub fn start(&self, plugin: &Arc<Plugin>, invocation: Invocation) -> Execution {
        let Invocation { run, input, limits, logs, log_level, idempotency_secret, effects } = invocation;
        let (progress, progress_seen) = watch::channel(None);
        let (end, ended) = oneshot::channel();
        let log = Capture::new(logs, log_level, &limits);
        let attempt = Arc::new(Attempt::new(limits, log, progress, self.loader.clock.clone()));
        let execution = Execution::new(ended, attempt.signal.clone(), progress_seen);

        let place = match self.place(input.len(), &limits) {
            Ok(place) => place,
            Err((kind, message)) => {
                // The receiver is in this function's hands.
                let _ = end.send(execution::not_started(&attempt, kind, message));
                return execution;
            }
        };
        let (Some(guests), Some(watch)) = (&self.guests, &self.watch) else {
            unreachable!("the runtimes are taken only when the sandbox is dropped");
        };
        let sender =
            Sender { run_id: run.run_id.clone(), tenant: run.tenant.clone(), attempt: run.attempt, fence: run.fence };
        let outward = Outward { effects, http: self.http.clone(), sender };
        let call = Call { plugin: plugin.clone(), run, input, idempotency_secret, outward };
        let (engine, ticking, ours) = (self.loader.engine.clone(), self.ticker.ticking(), attempt.clone());
        let guest = guests.spawn(async move {
            // Both end with the instance, before the end is told.
            let (_place, _ticking) = (place, ticking);
            guest::call(&engine, ours, call).await
        });
        watch.spawn(async move {
            // Nobody listens any more when the execution was dropped.
            let _ = end.send(execution::supervise(attempt, guest).await);
        });
        execution
    }

    /// How instances get their memory on this machine.
    pub fn allocation(&self) -> Allocation {
        self.allocation
    }

    fn place(&self, payload: usize, limits: &Limits) -> Result<OwnedSemaphorePermit, (FailureKind, String)> {
        if payload > limits.payload {
            let message = format!("the payload has {payload} bytes, more than the {} allowed", limits.payload);
            return Err((FailureKind::Start, message));
        }
        self.places.clone().try_acquire_owned().map_err(|_| {
            let message = "as many guests as this host takes at a time are running already";
            (FailureKind::NoResources, message.to_owned())
        })
    }

    /// Runs blocking work on a named thread of low priority.
    async fn apart<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PluginError> {
        let (done, result) = oneshot::channel();
        thread::Builder::new()
            .name(name.to_owned())
            .stack_size(LOADER_STACK)
            .spawn(move || {
                engine::lower_priority();
                // Nobody listens any more when the caller gave up.
                let _ = done.send(work());
            })
            .map_err(|error| PluginError::Host(Arc::new(error)))?;
        // The thread's own message was printed by the panic hook.
        result.await.map_err(|_| PluginError::Host(Arc::new(io::Error::other("the loading thread panicked"))))
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // In the background, because this may be dropped by a task, which must not wait for threads.
        for runtime in [self.guests.take(), self.watch.take(), self.network.take()].into_iter().flatten() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox").field("allocation", &self.allocation).finish_non_exhaustive()
    }
}

/// Validators and compilers recurse.
const LOADER_STACK: usize = 8 * 1024 * 1024;

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
