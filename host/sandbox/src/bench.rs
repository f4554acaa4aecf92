//! What the sandbox costs and how fast it stops a guest, measured on this machine beside bare wasmtime in the same run.
//!
//! Bare wasmtime is the same engine and the same compiled code with nothing of the sandbox around it: a store, an instance,
//! a call. The guests are made here, from text, so that no file is needed.

mod guests;
mod languages;
mod memory;

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use wasmtime::Store;
use wasmtime::component::{InstancePre, Linker};

use crate::capture::Capture;
use crate::effects::Effects;
use crate::execution::Execution;
use crate::fits::HANDLER_INTERFACE;
use crate::guest::{self, Call, Guest};
use crate::imports::bindings::JobPre;
use crate::imports::bindings::leasehold::job::types;
use crate::invocation::{Invocation, MonotonicClock, RunFacts};
use crate::limits::Limits;
use crate::log::{LogLevel, LogLine, LogSink};
use crate::memory::MemoryShare;
use crate::outcome::{Ended, GuestEnd};
use crate::plugin::{Entry, Plugin, PluginBytes};
use crate::refusal::PluginError;
use crate::sandbox::{Sandbox, SandboxError, SandboxSettings};
use crate::signal::StopReason;

pub use languages::{LanguageFigures, language};
pub use memory::Growth;

/// Something could not be measured.
#[derive(Debug, Error)]
pub enum BenchError {
    /// There is no sandbox to measure.
    #[error("cannot make the sandbox")]
    Sandbox(#[from] SandboxError),
    /// A plugin is not taken.
    #[error("cannot load the plugin")]
    Plugin(#[from] PluginError),
    /// Bare wasmtime failed.
    #[error("wasmtime failed: {0}")]
    Wasmtime(String),
    /// A guest did not do what it is made for.
    #[error("a guest was to {meant}, but {ended}")]
    Guest {
        /// What it is made for.
        meant: &'static str,
        /// What it did.
        ended: String,
    },
    /// The system does not tell how much memory the process has.
    #[error("this system does not tell how much memory a process has at its peak")]
    NoMemory,
}

impl From<wasmtime::Error> for BenchError {
    fn from(error: wasmtime::Error) -> BenchError {
        BenchError::Wasmtime(format!("{error:#}"))
    }
}

/// The same thing done by the sandbox and by bare wasmtime, by turns.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// How long it took the sandbox, each time.
    pub ours: Vec<Duration>,
    /// How long it took bare wasmtime, each time.
    pub bare: Vec<Duration>,
}

/// What a guest does when it is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Busy {
    /// Asks whether it may go on, all the time: it is told to stop, and returns.
    Polls,
    /// Never asks: it is stopped by force.
    Spins,
    /// Waits in a host call: it is stopped by force.
    Waits,
}

/// What a guest has too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flood {
    /// Standard output.
    Stdout,
    /// Structured log lines.
    Log,
    /// Handles.
    Handles,
    /// Random bytes.
    Random,
    /// A result of its whole memory.
    Result,
}

/// Whose the guests are.
const TENANT: &str = "bench";

/// A sandbox to be measured, with its guests loaded.
pub struct Bench {
    sandbox: Sandbox,
    clock: MonotonicClock,
    bare: InstancePre<()>,
    echo: Arc<Plugin>,
    polls: Arc<Plugin>,
    spins: Arc<Plugin>,
    waits: Arc<Plugin>,
}

impl Bench {
    /// Makes the sandbox and loads the guests.
    ///
    /// # Errors
    ///
    /// See [`BenchError`].
    pub async fn new(settings: SandboxSettings) -> Result<Bench, BenchError> {
        let clock = settings.clock.clone();
        let sandbox = Sandbox::new(settings)?;
        let echo = sandbox.load_bytes(TENANT, guests::echo()).await?;
        // It imports nothing, so an empty linker is all that it needs.
        let bare = Linker::new(echo.engine()).instantiate_pre(pre(&echo)?.instance_pre().component())?;
        let polls = sandbox.load_bytes(TENANT, guests::polls()).await?;
        let spins = sandbox.load_bytes(TENANT, guests::spins()).await?;
        let waits = sandbox.load_bytes(TENANT, guests::waits()).await?;
        Ok(Bench { sandbox, clock, bare, echo, polls, spins, waits })
    }

    /// Whole runs, from start to end: an instance is made, its handler called and its answer taken.
    ///
    /// # Errors
    ///
    /// See [`BenchError`].
    pub async fn runs(&self, count: usize) -> Result<Beside, BenchError> {
        let mut beside = Beside::default();
        for _ in 0..count {
            let began = (self.clock)();
            let ended = self.sandbox.start(&self.echo, invocation(Limits::default())).await;
            beside.ours.push(self.since(began));
            expect_output(&ended)?;
            beside.bare.push(self.bare_run().await?.1);
        }
        Ok(beside)
    }

    /// Making an instance alone.
    ///
    /// # Errors
    ///
    /// See [`BenchError`].
    pub async fn instantiations(&self, count: usize) -> Result<Beside, BenchError> {
        let mut beside = Beside::default();
        for _ in 0..count {
            beside.ours.push(self.our_instantiation().await?);
            beside.bare.push(self.bare_run().await?.0);
        }
        Ok(beside)
    }

    /// From the word to the end of a guest, each time.
    ///
    /// # Errors
    ///
    /// See [`BenchError`].
    pub async fn stops(&self, busy: Busy, count: usize) -> Result<Vec<Duration>, BenchError> {
        let (plugin, meant) = match busy {
            Busy::Polls => (&self.polls, "stop when it is told to"),
            Busy::Spins => (&self.spins, "spin until it is stopped by force"),
            Busy::Waits => (&self.waits, "wait until it is stopped by force"),
        };
        let mut all = Vec::with_capacity(count);
        for n in 0..count {
            let execution = self.sandbox.start(plugin, invocation(Limits::default()));
            // Long enough to be running, and at another moment between two ticks each time.
            tokio::time::sleep(Duration::from_micros(3_000 + 97 * (n as u64 % 103))).await;
            let signal = execution.signal();
            let began = (self.clock)();
            signal.stop(StopReason::Stopping);
            if busy != Busy::Polls {
                signal.force();
            }
            let ended = execution.await;
            all.push(self.since(began));
            match (busy, &ended.end) {
                (Busy::Polls, GuestEnd::Output(_)) | (Busy::Spins | Busy::Waits, GuestEnd::Failure(_)) => {}
                (_, other) => return Err(BenchError::Guest { meant, ended: format!("{other:?}") }),
            }
        }
        Ok(all)
    }

    /// Guests that spin until they are dropped.
    pub fn spin(&self, count: usize) -> Vec<Execution> {
        let limits = Limits { timeout: Duration::from_secs(3_600), ..Limits::default() };
        (0..count).map(|_| self.sandbox.start(&self.spins, invocation(limits))).collect()
    }

    /// How much the process grows at its peak while a guest floods the host.
    ///
    /// # Errors
    ///
    /// See [`BenchError`].
    pub async fn flood(&self, flood: Flood) -> Result<Growth, BenchError> {
        let plugin = self.sandbox.load_bytes(TENANT, guests::floods(flood)).await?;
        let limits = Limits { memory: memory::GUEST, timeout: Duration::from_secs(1), ..Limits::default() };
        let before = memory::Before::now()?;
        let ended = self.sandbox.start(&plugin, invocation(limits)).await;
        let growth = before.growth()?;
        match &ended.end {
            // It breaks a limit, each its own, or is ended at its timeout.
            GuestEnd::Failure(_) => Ok(growth),
            other => {
                Err(BenchError::Guest { meant: "flood the host until it is stopped", ended: format!("{other:?}") })
            }
        }
    }

    /// How long a plugin takes to become ready when its code has been compiled before, and how long its bytes take to be named
    /// before that, once each time that its file is read: that is the time of a SHA-256.
    ///
    /// # Errors
    ///
    /// See [`BenchError`].
    pub async fn ready(&self, plugin: Vec<u8>) -> Result<(Duration, Duration), BenchError> {
        self.sandbox.load_bytes(TENANT, plugin.clone()).await?;
        let bytes = PluginBytes::from(plugin);
        let began = (self.clock)();
        bytes.digest();
        let named = self.since(began);
        Ok((self.sandbox.load_bytes(TENANT, bytes).await?.ready_in(), named))
    }

    /// How long a small plugin takes that nobody has compiled yet: another for each number.
    ///
    /// # Errors
    ///
    /// See [`BenchError`].
    pub async fn compiled(&self, number: u32) -> Result<Duration, BenchError> {
        Ok(self.sandbox.load_bytes(TENANT, guests::fresh(number)).await?.ready_in())
    }

    /// The bytes of a plugin with much code, for [`Bench::ready`].
    pub fn large_plugin() -> Vec<u8> {
        guests::large()
    }

    /// The bytes of a small plugin, for [`Bench::ready`].
    pub fn small_plugin() -> Vec<u8> {
        guests::echo()
    }

    async fn our_instantiation(&self) -> Result<Duration, BenchError> {
        let Invocation { run, input, limits, logs, log_level, idempotency_secret, effects, .. } =
            invocation(Limits::default());
        let log = Capture::new(logs, log_level, &limits);
        let (progress, _) = tokio::sync::watch::channel(None);
        let attempt = Arc::new(crate::attempt::Attempt::new(limits, log, progress, self.clock.clone()));
        let share = MemoryShare::new(self.sandbox.memory().clone(), run.tenant.clone(), None);
        let outward = self.sandbox.outward(&run, None, effects);
        let call = Call { plugin: self.echo.clone(), run, input, idempotency_secret, share, metered: false, outward };
        let mut store = guest::store(attempt, call).0;
        let began = (self.clock)();
        let made = pre(&self.echo)?.instantiate_async(&mut store).await;
        let took = self.since(began);
        made?;
        Ok(took)
    }

    /// How long the instance took, and all of it.
    async fn bare_run(&self) -> Result<(Duration, Duration), BenchError> {
        let began = (self.clock)();
        let mut store = Store::new(self.bare.engine(), ());
        store.set_epoch_deadline(u64::MAX / 2);
        let instance = self.bare.instantiate_async(&mut store).await?;
        let made = self.since(began);
        let missing = || BenchError::Wasmtime("the guest has no handler".to_owned());
        let handler = instance.get_export_index(&mut store, None, HANDLER_INTERFACE).ok_or_else(missing)?;
        let handle = instance.get_export_index(&mut store, Some(&handler), "handle").ok_or_else(missing)?;
        type Answer = (Result<Vec<u8>, types::HandlerError>,);
        let handle = instance.get_typed_func::<(&types::RunInfo, &[u8]), Answer>(&mut store, handle)?;
        let Invocation { run, input, .. } = invocation(Limits::default());
        let (answer,) = handle.call_async(&mut store, (&guest::wire_run(&run), &input)).await?;
        drop(store);
        let took = self.since(began);
        answer.map_err(|error| BenchError::Wasmtime(format!("the guest said {error:?}")))?;
        Ok((made, took))
    }

    fn since(&self, began: Duration) -> Duration {
        (self.clock)().saturating_sub(began)
    }
}

/// How the handler of one of these guests is called.
fn pre(plugin: &Plugin) -> Result<&JobPre<Guest>, BenchError> {
    match &plugin.entry {
        Entry::Handler(pre) => Ok(pre),
        Entry::Command(_) => Err(BenchError::Wasmtime("the guest has no handler".to_owned())),
    }
}

fn expect_output(ended: &Ended) -> Result<(), BenchError> {
    match &ended.end {
        GuestEnd::Output(output) if output == INPUT => Ok(()),
        other => Err(BenchError::Guest { meant: "return its input", ended: format!("{other:?}") }),
    }
}

const INPUT: &[u8] = br#"{"name":"world"}"#;

fn invocation(limits: Limits) -> Invocation {
    /// Forgets every line.
    struct Nobody;
    impl LogSink for Nobody {
        fn line(&self, _: LogLine) {}
    }
    Invocation {
        run: RunFacts {
            run_id: "bench/bench/bench/1".to_owned(),
            tenant: TENANT.to_owned(),
            job: "bench".to_owned(),
            slot_ms: 0,
            attempt: 1,
            max_attempts: 1,
            fence: 1,
            reason: "on-demand".to_owned(),
            metadata: Vec::new(),
        },
        input: INPUT.to_vec(),
        limits,
        tenant_memory: None,
        logs: Arc::new(Nobody),
        log_level: LogLevel::Info,
        idempotency_secret: [0; 32],
        effects: Effects::default(),
    }
}
