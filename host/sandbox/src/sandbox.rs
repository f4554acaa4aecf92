//! The sandbox itself: engine, threads, cache; loading and starting.

use std::fmt;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use thiserror::Error;
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use wasmtime::Engine;

use crate::attempt::Attempt;
use crate::cache::{CacheError, CodeCache};
use crate::capture::Capture;
use crate::compile::{CompileLimits, Compiler, CompilerCommand};
use crate::effects::Effects;
use crate::engine::{self, Allocation};
use crate::execution::{self, Execution};
use crate::guest::{self, Call, Outward};
use crate::imports;
use crate::invocation::{Invocation, MonotonicClock, RunFacts};
use crate::limits::Limits;
use crate::load::{Known, Loader};
use crate::memory::{MemoryLedger, MemoryShare};
use crate::outbound::{HttpClient, Resolve, Sender, SystemResolver};
use crate::outcome::FailureKind;
use crate::plugin::{Plugin, PluginBytes, read_plugin_file};
use crate::refusal::PluginError;
use crate::refused::Refused;
use crate::ticker::{Ticker, Ticking};
use crate::turns::Turns;

/// What a sandbox is made with.
#[derive(Clone)]
pub struct SandboxSettings {
    /// The program that compiles plugins, in a process of its own for each.
    pub compiler: CompilerCommand,
    /// What compiling one plugin may use.
    pub compile_limits: CompileLimits,
    /// Where compiled code is kept: a directory of this host's own, made where it is missing. None takes a new one among the
    /// system's temporary files, which goes with the sandbox.
    pub cache_dir: Option<PathBuf>,
    /// How many bytes of compiled code are kept there; what was used longest ago goes first.
    pub cache_bytes: u64,
    /// How many threads guests run on.
    pub guest_threads: usize,
    /// How many guests may exist at a time; a start beyond it ends as
    /// [`FailureKind::NoResources`](crate::FailureKind::NoResources).
    pub max_guests: u32,
    /// Bytes that all guests may hold together in memories and tables.
    pub memory: usize,
    /// Measures how long attempts take.
    pub clock: MonotonicClock,
    /// Looks up the names that guests send requests to.
    pub resolver: Arc<dyn Resolve>,
    /// Certificate authorities (DER) that requests of guests trust beside the system's.
    pub more_roots: Vec<Vec<u8>>,
}

impl SandboxSettings {
    /// The defaults: as many guest threads as processors, 256 guests, no limit of their memory together, 4 GiB of compiled
    /// code, kept nowhere yet.
    pub fn new(compiler: CompilerCommand, clock: MonotonicClock) -> Self {
        SandboxSettings {
            compiler,
            compile_limits: CompileLimits::default(),
            cache_dir: None,
            cache_bytes: 4 * 1024 * 1024 * 1024,
            guest_threads: processors(),
            max_guests: 256,
            memory: usize::MAX,
            clock,
            resolver: Arc::new(SystemResolver),
            more_roots: Vec::new(),
        }
    }
}

impl fmt::Debug for SandboxSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SandboxSettings")
            .field("compiler", &self.compiler)
            .field("compile_limits", &self.compile_limits)
            .field("cache_dir", &self.cache_dir)
            .field("cache_bytes", &self.cache_bytes)
            .field("guest_threads", &self.guest_threads)
            .field("max_guests", &self.max_guests)
            .field("memory", &self.memory)
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

impl SandboxError {
    fn engine(error: wasmtime::Error) -> SandboxError {
        SandboxError::Engine(format!("{error:#}"))
    }
}

/// Runs plugins. Make one per process; it may be shared, and dropping it ends all guests.
pub struct Sandbox {
    settings: SandboxSettings,
    plain: Lane,
    allocation: Allocation,
    /// Made when the first plugin asks for it.
    metered: Mutex<Option<Arc<Lane>>>,
    memory: Arc<MemoryLedger>,
    /// Turns at compiling.
    compilers: Turns,
    /// Places for guests.
    places: Arc<Semaphore>,
    guests: Background,
    watch: Background,
    /// Where requests of guests run.
    _network: Background,
    http: Arc<HttpClient>,
}

/// An engine with what belongs to it.
struct Lane {
    loader: Arc<Loader>,
    ticker: Ticker,
}

impl Lane {
    fn new(engine: Engine, settings: &SandboxSettings, metered: bool) -> Result<Lane, SandboxError> {
        let cache = match &settings.cache_dir {
            Some(dir) => CodeCache::open(dir, &engine, settings.cache_bytes)?,
            None => CodeCache::private(&engine, settings.cache_bytes)?,
        };
        let compiler = Compiler {
            command: settings.compiler.clone(),
            limits: settings.compile_limits,
            engine: cache.engine_hash().to_owned(),
            metered,
        };
        let linker = imports::linker(&engine).map_err(SandboxError::engine)?;
        let ticker = Ticker::start(&engine).map_err(SandboxError::Threads)?;
        let (clock, refused) = (settings.clock.clone(), Refused::default());
        Ok(Lane { loader: Arc::new(Loader { engine, linker, cache, compiler, clock, refused }), ticker })
    }
}

impl Sandbox {
    /// Starts the engine and its threads.
    ///
    /// # Errors
    ///
    /// When the engine, a thread or the cache directory cannot be had; an unsafe cache directory counts as such.
    pub fn new(settings: SandboxSettings) -> Result<Sandbox, SandboxError> {
        let (engine, allocation) = engine::engine(settings.max_guests).map_err(SandboxError::engine)?;
        let compilers = (processors() / 2).max(1);
        let network = Background::new(engine::network_runtime())?;
        let (resolver, roots) = (settings.resolver.clone(), settings.more_roots.clone());
        let memory = Arc::new(MemoryLedger::new(settings.memory));
        let http = HttpClient::new(network.handle().clone(), resolver, roots, memory.clone());
        Ok(Sandbox {
            plain: Lane::new(engine, &settings, false)?,
            allocation,
            metered: Mutex::new(None),
            memory,
            compilers: Turns::new(compilers, compilers),
            places: Arc::new(Semaphore::new(settings.max_guests as usize)),
            guests: Background::new(engine::guest_runtime(settings.guest_threads.max(1)))?,
            watch: Background::new(engine::supervising_runtime())?,
            _network: network,
            http: Arc::new(http),
            settings,
        })
    }

    /// Reads and loads a plugin's file. See [`Sandbox::load_bytes`].
    ///
    /// # Errors
    ///
    /// [`PluginError`], with the reason.
    pub async fn load(&self, tenant: &str, path: &Path) -> Result<Arc<Plugin>, PluginError> {
        self.load_bytes(tenant, self.read(path).await?).await
    }

    /// Reads and loads a plugin's file so that its fuel is counted. See [`Sandbox::load_bytes_metered`].
    ///
    /// # Errors
    ///
    /// [`PluginError`], with the reason.
    pub async fn load_metered(&self, tenant: &str, path: &Path) -> Result<Arc<Plugin>, PluginError> {
        self.load_bytes_metered(tenant, self.read(path).await?).await
    }

    /// Validates, compiles (or finds compiled) and links a plugin of a tenant.
    ///
    /// The work is done on threads and in processes of its own: this only waits, on any runtime. Half as many compilers as
    /// processors work at a time, at least one, and tenants take turns at them. Bytes that were refused are refused again
    /// from memory. What waits holds its bytes: how much may wait is the caller's to bound.
    ///
    /// # Errors
    ///
    /// [`PluginError`], with the reason.
    pub async fn load_bytes(&self, tenant: &str, bytes: impl Into<PluginBytes>) -> Result<Arc<Plugin>, PluginError> {
        self.load_in(&self.plain, tenant, bytes.into()).await
    }

    /// Like [`Sandbox::load_bytes`], with code that counts fuel: it runs somewhat slower, and attempts of it can be given
    /// [a limit](Limits::fuel).
    ///
    /// # Errors
    ///
    /// [`PluginError`], with the reason.
    pub async fn load_bytes_metered(
        &self,
        tenant: &str,
        bytes: impl Into<PluginBytes>,
    ) -> Result<Arc<Plugin>, PluginError> {
        let lane = self.metered_lane().map_err(|error| PluginError::Host(Arc::new(io::Error::other(error))))?;
        self.load_in(&lane, tenant, bytes.into()).await
    }

    /// The part of [`Sandbox::load_bytes`], or of [`Sandbox::load_bytes_metered`], that needs no compiler and waits for none.
    /// None when the bytes must be compiled.
    ///
    /// # Errors
    ///
    /// [`PluginError`], with the reason.
    pub async fn find_bytes(&self, bytes: &PluginBytes, metered: bool) -> Result<Option<Arc<Plugin>>, PluginError> {
        let known = if metered {
            let lane = self.metered_lane().map_err(|error| PluginError::Host(Arc::new(io::Error::other(error))))?;
            self.find_in(&lane, bytes).await?
        } else {
            self.find_in(&self.plain, bytes).await?
        };
        Ok(match known {
            Known::Ready(plugin) => Some(plugin),
            Known::No(..) => None,
        })
    }

    /// Starts one attempt: a fresh instance on the guests' threads. Returns at once.
    pub fn start(&self, plugin: &Arc<Plugin>, invocation: Invocation) -> Execution {
        let Invocation { run, input, limits, tenant_memory, logs, log_level, idempotency_secret, effects } = invocation;
        let (progress, progress_seen) = watch::channel(None);
        let (end, ended) = oneshot::channel();
        let log = Capture::new(logs, log_level, &limits);
        let attempt = Arc::new(Attempt::new(limits, log, progress, self.settings.clock.clone()));
        let execution = Execution::new(ended, attempt.signal.clone(), progress_seen);
        let metered = !Engine::same(plugin.pre.engine(), &self.plain.loader.engine);
        let place = match self.place(input.len(), &limits, metered) {
            Ok(place) => place,
            Err((kind, message)) => {
                // The receiver is in this function's hands.
                let _ = end.send(execution::not_started(&attempt, kind, message));
                return execution;
            }
        };
        let share = MemoryShare::new(self.memory.clone(), run.tenant.clone(), tenant_memory);
        let outward = self.outward(&run, tenant_memory, effects);
        let call = Call { plugin: plugin.clone(), run, input, idempotency_secret, share, metered, outward };
        let (ticking, ours) = (self.ticking(metered), attempt.clone());
        let guest = self.guests.spawn(async move {
            // Both end with the instance, before the end is told.
            let (_place, _ticking) = (place, ticking);
            guest::call(ours, call).await
        });
        self.watch.spawn(async move {
            // Nobody listens any more when the execution was dropped.
            let _ = end.send(execution::supervise(attempt, guest).await);
        });
        execution
    }

    /// The memory of all guests: whether another may be started.
    pub fn memory(&self) -> &Arc<MemoryLedger> {
        &self.memory
    }

    /// How instances get their memory on this machine.
    pub fn allocation(&self) -> Allocation {
        self.allocation
    }

    /// What an attempt of this run does outside.
    pub(crate) fn outward(&self, run: &RunFacts, tenant_memory: Option<usize>, effects: Effects) -> Outward {
        let (run_id, tenant) = (run.run_id.clone(), run.tenant.clone());
        let sender = Sender { run_id, tenant, attempt: run.attempt, fence: run.fence, tenant_memory };
        Outward { effects, http: self.http.clone(), sender }
    }

    async fn read(&self, path: &Path) -> Result<Vec<u8>, PluginError> {
        let path = path.to_owned();
        self.apart("plugin-reader", move || read_plugin_file(&path)).await?
    }

    async fn find_in(&self, lane: &Lane, bytes: &PluginBytes) -> Result<Known, PluginError> {
        let (loader, bytes) = (lane.loader.clone(), bytes.clone());
        Ok(self.apart("plugin-loader", move || loader.find(&bytes)).await??)
    }

    async fn load_in(&self, lane: &Lane, tenant: &str, bytes: PluginBytes) -> Result<Arc<Plugin>, PluginError> {
        let (glance, spent) = match self.find_in(lane, &bytes).await? {
            Known::Ready(plugin) => return Ok(plugin),
            Known::No(glance, spent) => (glance, spent),
        };
        let turn = self.compilers.take(tenant).await;
        let loader = lane.loader.clone();
        let compiled = self.apart("plugin-compiler", move || {
            let _turn = turn;
            loader.compile(&bytes, glance, spent)
        });
        compiled.await?
    }

    /// The engine that counts fuel, made when it is first asked for.
    fn metered_lane(&self) -> Result<Arc<Lane>, PluginError> {
        let failed = |error: SandboxError| PluginError::Host(Arc::new(io::Error::other(error)));
        let mut metered = self.metered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = &*metered {
            return Ok(lane.clone());
        }
        let (engine, _) =
            engine::metered_engine(self.settings.max_guests).map_err(|error| failed(SandboxError::engine(error)))?;
        let lane = Arc::new(Lane::new(engine, &self.settings, true).map_err(failed)?);
        Ok(metered.insert(lane).clone())
    }

    fn ticking(&self, metered: bool) -> Ticking {
        let lane = self.metered.lock().unwrap_or_else(PoisonError::into_inner);
        match &*lane {
            Some(lane) if metered => lane.ticker.ticking(),
            _ => self.plain.ticker.ticking(),
        }
    }

    fn place(
        &self,
        payload: usize,
        limits: &Limits,
        metered: bool,
    ) -> Result<OwnedSemaphorePermit, (FailureKind, String)> {
        if limits.fuel.is_some() && !metered {
            let message = "it has a limit of fuel, but its plugin was loaded without counting fuel";
            return Err((FailureKind::Start, message.to_owned()));
        }
        if payload > limits.payload {
            let message = format!("the payload has {payload} bytes, more than the {} allowed", limits.payload);
            return Err((FailureKind::Start, message));
        }
        self.places.clone().try_acquire_owned().map_err(|_| {
            let message = "as many guests as this host takes at a time are running already";
            (FailureKind::NoResources, message.to_owned())
        })
    }

    /// Runs blocking work on a named thread of low priority. The thread ends when the work does and never before: a compiler
    /// that it starts ends with it.
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

/// Threads whose end nobody waits for: a task may drop them, and must not wait for threads.
struct Background(Option<Runtime>);

impl Background {
    fn new(runtime: io::Result<Runtime>) -> Result<Background, SandboxError> {
        runtime.map(Some).map(Background).map_err(SandboxError::Threads)
    }
}

impl Deref for Background {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.0.as_ref().expect("it is taken only when it is dropped")
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox").field("allocation", &self.allocation).finish_non_exhaustive()
    }
}

/// Linking compares types, which recurses.
const LOADER_STACK: usize = 8 * 1024 * 1024;

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
