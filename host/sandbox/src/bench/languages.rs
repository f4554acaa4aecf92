//! What plugins of different languages cost: compiling, the first call, each further one, beside bare wasmtime.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::{Component, InstancePre, Linker, ResourceTable};
use wasmtime::{Engine, Store};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::{BenchError, TENANT, invocation, pre};
use crate::fits::HANDLER_INTERFACE;
use crate::guest;
use crate::imports::bindings::leasehold::job::types;
use crate::invocation::{Invocation, MonotonicClock};
use crate::limits::Limits;
use crate::outcome::GuestEnd;
use crate::plugin::{CodeOrigin, Plugin};
use crate::sandbox::{Sandbox, SandboxSettings};

/// What was measured of one plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LanguageFigures {
    /// Bytes of its file.
    pub size: usize,
    /// From its bytes to ready, with nothing compiled before.
    pub compiled: Duration,
    /// From its bytes to ready, compiled before.
    pub found: Duration,
    /// The first run of all, from start to end.
    pub first: Duration,
    /// Further runs, each a fresh instance.
    pub runs: Vec<Duration>,
    /// The same instances and calls by wasmtime alone, with WASI and nothing else of the host's; why not, where the plugin does
    /// not do without the rest.
    pub bare: Result<Vec<Duration>, String>,
    /// Bytes of memory that a run takes.
    pub memory: usize,
}

/// Measures a plugin that answers `input` with itself.
///
/// The sandbox is to have no compiled code yet.
///
/// # Errors
///
/// See [`BenchError`]: it cannot be loaded, or does not answer so.
pub async fn language(
    settings: SandboxSettings,
    bytes: Vec<u8>,
    input: &[u8],
    runs: usize,
) -> Result<LanguageFigures, BenchError> {
    let clock = settings.clock.clone();
    let sandbox = Sandbox::new(settings)?;
    let size = bytes.len();
    let plugin = sandbox.load_bytes(TENANT, bytes.clone()).await?;
    if plugin.origin() != CodeOrigin::Compiled {
        return Err(BenchError::Wasmtime("it was compiled before".to_owned()));
    }
    let compiled = plugin.ready_in();
    let (first, memory) = run(&sandbox, &clock, &plugin, input).await?;
    let mut all = Vec::new();
    for _ in 0..runs {
        all.push(run(&sandbox, &clock, &plugin, input).await?.0);
    }
    let found = sandbox.load_bytes(TENANT, bytes).await?.ready_in();
    let bare = bare(&clock, &plugin, input, runs).await.map_err(|error| error.to_string());
    Ok(LanguageFigures { size, compiled, found, first, runs: all, bare, memory })
}

async fn run(
    sandbox: &Sandbox,
    clock: &MonotonicClock,
    plugin: &Arc<Plugin>,
    input: &[u8],
) -> Result<(Duration, usize), BenchError> {
    let invocation = Invocation { input: input.to_vec(), ..invocation(Limits::default()) };
    let began = clock();
    let ended = sandbox.start(plugin, invocation).await;
    let took = clock().saturating_sub(began);
    match &ended.end {
        GuestEnd::Output(output) if output == input => Ok((took, ended.usage.peak_memory)),
        other => Err(BenchError::Guest { meant: "return its input", ended: format!("{other:?}") }),
    }
}

/// WASI, and nothing else.
struct Bare {
    wasi: WasiCtx,
    table: ResourceTable,
}

impl WasiView for Bare {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

async fn bare(clock: &MonotonicClock, plugin: &Plugin, input: &[u8], runs: usize) -> Result<Vec<Duration>, BenchError> {
    let pre = bare_pre(plugin.engine(), pre(plugin)?.instance_pre().component())?;
    let mut all = Vec::new();
    for _ in 0..runs {
        let began = clock();
        bare_run(&pre, input).await?;
        all.push(clock().saturating_sub(began));
    }
    Ok(all)
}

fn bare_pre(engine: &Engine, component: &Component) -> Result<InstancePre<Bare>, BenchError> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    linker.define_unknown_imports_as_traps(component)?;
    Ok(linker.instantiate_pre(component)?)
}

async fn bare_run(pre: &InstancePre<Bare>, input: &[u8]) -> Result<(), BenchError> {
    let mut store = Store::new(pre.engine(), Bare { wasi: WasiCtx::builder().build(), table: ResourceTable::new() });
    store.set_epoch_deadline(u64::MAX / 2);
    let instance = pre.instantiate_async(&mut store).await?;
    let missing = || BenchError::Wasmtime("the guest has no handler".to_owned());
    let handler = instance.get_export_index(&mut store, None, HANDLER_INTERFACE).ok_or_else(missing)?;
    let handle = instance.get_export_index(&mut store, Some(&handler), "handle").ok_or_else(missing)?;
    type Answer = (Result<Vec<u8>, types::HandlerError>,);
    let handle = instance.get_typed_func::<(&types::RunInfo, &[u8]), Answer>(&mut store, handle)?;
    let run = guest::wire_run(&invocation(Limits::default()).run);
    let (answer,) = handle.call_async(&mut store, (&run, input)).await?;
    match answer {
        Ok(output) if output == input => Ok(()),
        other => Err(BenchError::Guest { meant: "return its input", ended: format!("{other:?}") }),
    }
}
