//! The sandbox itself: engine, threads, cache; starting.

use std::fmt;
use std::io;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

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
use crate::load::Loader;
use crate::memory::{MemoryLedger, MemoryShare};
use crate::outbound::{HttpClient, Resolve, Sender, SystemResolver};
use crate::outcome::FailureKind;
use crate::plugin::Plugin;
use crate::refused::{Refused, Slow};
use crate::ticker::{Ticker, Ticking};
use crate::turns::Turns;

mod loading;

/// The examples' plugins take a quarter of it in a debug build.
const FIRST_TRY: Duration = Duration::from_secs(3);

/// What a sandbox is made with.
#[derive(Clone)]
pub struct SandboxSettings {
    /// The program that compiles plugins, in a process of its own for each.
    pub compiler: CompilerCommand,
    /// What compiling one plugin may use.
    pub compile_limits: CompileLimits,
    /// Processor time of the first try to compile a plugin. What takes longer is tried once more, behind all plugins that
    /// have not had their first try, so that nobody's small plugin waits for somebody's large one.
    pub first_try: Duration,
    /// Where compiled code is kept: a directory of this host's own, made where it is missing. None takes a new one among the
    /// system's temporary files, which goes with the sandbox.
    pub cache_dir: Option<PathBuf>,
    /// How many bytes of compiled code are kept there. Of the tenant that keeps most, what was used longest ago goes first.
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
            first_try: FIRST_TRY,
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
            .field("first_try", &self.first_try)
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
    /// Turns at first tries to compile.
    compilers: Turns,
    /// Turns at tries that take longer.
    long_compilers: Turns,
    /// Places for guests.
    places: Arc<Semaphore>,
    guests: Background,
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
            first_try: settings.first_try,
            engine: cache.engine_hash().to_owned(),
            metered,
        };
        let linker = imports::linker(&engine).map_err(SandboxError::engine)?;
        let ticker = Ticker::start(&engine, settings.clock.clone()).map_err(SandboxError::Threads)?;
        let (clock, refused, slow) = (settings.clock.clone(), Refused::default(), Slow::default());
        Ok(Lane { loader: Arc::new(Loader { engine, linker, cache, compiler, clock, refused, slow }), ticker })
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
            long_compilers: Turns::new(compilers.div_ceil(2), compilers.div_ceil(2)),
            places: Arc::new(Semaphore::new(settings.max_guests as usize)),
            guests: Background::new(engine::guest_runtime(settings.guest_threads.max(1)))?,
            _network: network,
            http: Arc::new(http),
            settings,
        })
    }

    /// Starts one attempt: a fresh instance on the guests' threads. Returns at once.
    pub fn start(&self, plugin: &Arc<Plugin>, invocation: Invocation) -> Execution {
        let Invocation { run, input, limits, tenant_memory, logs, log_level, idempotency_secret, effects } = invocation;
        let (progress, progress_seen) = watch::channel(None);
        let (end, ended) = oneshot::channel();
        let log = Capture::new(logs, log_level, &limits);
        let attempt = Attempt::new(limits, log, progress, self.settings.clock.clone());
        let attempt = Arc::new(if plugin.is_command() { attempt.of_command() } else { attempt });
        let execution = Execution::new(ended, attempt.signal.clone(), progress_seen);
        let metered = !Engine::same(plugin.engine(), &self.plain.loader.engine);
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
        let ticking = self.ticking(&attempt, metered);
        self.guests.spawn(async move {
            let outcome = execution::outcome(guest::call(attempt.clone(), call)).await;
            // Both end with the instance, before the end is told.
            drop((place, ticking));
            // Nobody listens any more when the execution was dropped.
            let _ = end.send(execution::ended(&attempt, outcome));
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

    fn ticking(&self, attempt: &Attempt, metered: bool) -> Ticking {
        let lane = self.metered.lock().unwrap_or_else(PoisonError::into_inner);
        match &*lane {
            Some(lane) if metered => lane.ticker.ticking(attempt),
            _ => self.plain.ticker.ticking(attempt),
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

fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
