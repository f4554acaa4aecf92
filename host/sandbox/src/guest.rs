//! One attempt's guest: its store, its call, and what its end means.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{InstancePre, ResourceTable};
use wasmtime::{CallHook, Engine, PoolConcurrencyLimitError, Store, StoreContextMut, UpdateDeadline};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::attempt::Attempt;
use crate::effects::Effects;
use crate::imports::bindings::leasehold::job::types;
use crate::imports::wasi;
use crate::inspect::HANDLER_INTERFACE;
use crate::invocation::RunFacts;
use crate::limits::MemoryMeter;
use crate::outbound::{HttpClient, Sender};
use crate::plugin::Plugin;

/// Live component handles, and entries of the host's own table.
const MAX_HANDLES: usize = 10_000;

/// What host functions can reach: this attempt and nothing else.
pub(crate) struct Guest {
    pub(crate) attempt: Arc<Attempt>,
    pub(crate) run_id: String,
    pub(crate) idempotency_secret: [u8; 32],
    pub(crate) outward: Outward,
    wasi: WasiCtx,
    table: ResourceTable,
    meter: MemoryMeter,
    /// The host was called after the lease was lost.
    entered_lost: bool,
}

impl Guest {
    /// Every host function comes through here before it does anything.
    pub(crate) fn entered(&mut self) -> &mut Guest {
        self.attempt.count_host_call();
        self.entered_lost |= self.attempt.signal.is_lost();
        self
    }

    /// For host functions with an effect: those without one may run, but their answers never reach the guest.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`].
    pub(crate) fn ensure_held(&self) -> Result<(), LeaseLost> {
        if self.entered_lost { Err(LeaseLost) } else { Ok(()) }
    }
}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.entered();
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

/// What a guest can do to the world outside.
pub(crate) struct Outward {
    pub(crate) effects: Effects,
    pub(crate) http: Arc<HttpClient>,
    pub(crate) sender: Sender,
}

/// What a guest is started with.
pub(crate) struct Call {
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) run: RunFacts,
    pub(crate) input: Vec<u8>,
    pub(crate) idempotency_secret: [u8; 32],
    pub(crate) outward: Outward,
}

/// How far a guest came.
pub(crate) enum Stage {
    /// It was not started: what went wrong happened while its instance was made.
    Start,
    /// Its handler ran, or had returned what went wrong.
    Running,
}

/// What became of the call.
pub(crate) enum Called {
    /// The handler returned.
    Returned(Result<Vec<u8>, types::HandlerError>),
    /// It did not.
    Failed(Stage, wasmtime::Error),
    /// It was dropped while it waited for the host.
    Dropped,
}

/// A host call that began after the lease was lost.
#[derive(Debug, thiserror::Error)]
#[error("the lease of this run is lost: the host does nothing for this attempt any more")]
pub(crate) struct LeaseLost;

/// Runs the handler to its end, or until the attempt is forced.
pub(crate) async fn call(engine: &Engine, attempt: Arc<Attempt>, call: Call) -> Called {
    let signal = attempt.signal.clone();
    let running = Metered { attempt: attempt.clone(), inner: Box::pin(run(engine, attempt, call)) };
    tokio::select! {
        // The guest goes first: where its own code runs it ends by a trap, which knows where it was. Only one that waits for
        // the host is dropped, and dropping is the only thing that ends a blocked host call.
        biased;
        called = running => called,
        () = signal.forced() => Called::Dropped,
    }
}

async fn run(engine: &Engine, attempt: Arc<Attempt>, call: Call) -> Called {
    let run = wire_run(&call.run);
    let mut store = store(engine, attempt, call.run.run_id, call.idempotency_secret, call.outward);
    let job = match call.plugin.pre.instantiate_async(&mut store).await {
        Ok(job) => job,
        Err(error) => return Called::Failed(Stage::Start, error),
    };
    match job.leasehold_job_handler().call_handle(&mut store, &run, &call.input).await {
        Ok(result) => Called::Returned(result),
        Err(error) => Called::Failed(Stage::Running, error),
    }
}

/// Compares the handler's type with the contract's, so that a plugin that cannot be called is refused when it is loaded.
///
/// # Errors
///
/// What differs.
pub(crate) fn handler_fits(pre: &InstancePre<Guest>) -> wasmtime::Result<()> {
    type Params<'a> = (&'a types::RunInfo, &'a [u8]);
    type Results = (Result<Vec<u8>, types::HandlerError>,);
    let component = pre.component();
    let handle = component
        .get_export_index(None, HANDLER_INTERFACE)
        .and_then(|handler| component.get_export(Some(&handler), "handle"));
    match handle {
        Some((ComponentItem::ComponentFunc(handle), _)) => {
            handle.typecheck::<Params<'_>, Results>(&pre.instance_type()).map_err(|error| error.context("handle"))
        }
        _ => Err(wasmtime::format_err!("{HANDLER_INTERFACE} has no function `handle`")),
    }
}

/// True when the pool had no room: not the guest's fault.
pub(crate) fn is_want_of_room(error: &wasmtime::Error) -> bool {
    error.is::<PoolConcurrencyLimitError>()
}

fn store(
    engine: &Engine,
    attempt: Arc<Attempt>,
    run_id: String,
    idempotency_secret: [u8; 32],
    outward: Outward,
) -> Store<Guest> {
    let mut table = ResourceTable::new();
    table.set_max_capacity(MAX_HANDLES);
    let guest = Guest {
        wasi: wasi::context(&attempt),
        table,
        meter: MemoryMeter::new(attempt.clone(), attempt.limits.memory),
        run_id,
        idempotency_secret,
        outward,
        entered_lost: false,
        attempt,
    };
    let fuel = guest.attempt.limits.hostcall_fuel();
    let signal = guest.attempt.signal.clone();
    let mut store = Store::new(engine, guest);
    store.limiter(|guest| &mut guest.meter);
    store.set_hostcall_fuel(fuel);
    store.set_max_component_handles(MAX_HANDLES);
    store.call_hook(on_boundary);
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(move |_| {
        if signal.is_forced() {
            return Ok(UpdateDeadline::Interrupt);
        }
        // Back to the end of the scheduler's queue. A yield of tokio's own (`yield_now`) is woken by the thread's next look at
        // its timers and then goes first: the same guest would run for ever while others wait.
        Ok(UpdateDeadline::Yield(1))
    });
    store
}

/// Runs whenever execution passes between host and guest. That includes what compiled code asks of wasmtime itself, growing a
/// memory or the tick's yield, so that host calls are known by [`Guest::entered`] only.
fn on_boundary(mut store: StoreContextMut<'_, Guest>, transition: CallHook) -> wasmtime::Result<()> {
    let limits = store.data().attempt.limits;
    match transition {
        CallHook::CallingHost => {}
        CallHook::ReturningFromWasm => {
            // What is lifted next is the handler's result, which has a limit of its own.
            store.set_hostcall_fuel(limits.result_fuel());
        }
        CallHook::CallingWasm | CallHook::ReturningFromHost => {
            // H2: after a loss every further host call fails. One that was waiting already is woken by the signal and may
            // return: the guest still has its grace, but nothing it asks for is done.
            if store.data().entered_lost {
                return Err(LeaseLost.into());
            }
            store.set_hostcall_fuel(limits.hostcall_fuel());
        }
    }
    Ok(())
}

fn wire_run(run: &RunFacts) -> types::RunInfo {
    types::RunInfo {
        run_id: run.run_id.clone(),
        tenant: run.tenant.clone(),
        job: run.job.clone(),
        slot_ms: run.slot_ms,
        attempt: run.attempt,
        max_attempts: run.max_attempts,
        fence: run.fence,
        reason: run.reason.clone(),
        metadata: run.metadata.clone(),
    }
}

/// Counts the processor time of each turn a guest has.
struct Metered<F> {
    attempt: Arc<Attempt>,
    inner: Pin<Box<F>>,
}

impl<F: Future> Future for Metered<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let before = thread_cpu_time();
        let polled = self.inner.as_mut().poll(cx);
        self.attempt.add_cpu(thread_cpu_time().saturating_sub(before));
        polled
    }
}

fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
