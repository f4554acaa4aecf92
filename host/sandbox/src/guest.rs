//! One attempt's guest: its store, its call, and what its end means.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task;
use wasmtime::component::ResourceTable;
use wasmtime::{CallHook, Engine, PoolConcurrencyLimitError, Store, StoreContextMut, UpdateDeadline};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::attempt::Attempt;
use crate::imports::bindings::leasehold::job::types;
use crate::imports::wasi;
use crate::invocation::RunFacts;
use crate::limits::MemoryMeter;
use crate::plugin::Plugin;

/// Live component handles, and entries of the host's own table.
const MAX_HANDLES: usize = 10_000;

/// What host functions can reach: this attempt and nothing else.
pub(crate) struct Guest {
    pub(crate) attempt: Arc<Attempt>,
    pub(crate) run_id: String,
    pub(crate) idempotency_secret: [u8; 32],
    wasi: WasiCtx,
    table: ResourceTable,
    meter: MemoryMeter,
    /// True from the moment the handler's code has returned until other code of the guest runs.
    returned: bool,
}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

/// What a guest is started with.
pub(crate) struct Call {
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) run: RunFacts,
    pub(crate) input: Vec<u8>,
    pub(crate) idempotency_secret: [u8; 32],
}

/// How far a guest came.
pub(crate) enum Stage {
    /// It was not started: what went wrong happened while its instance was made.
    Start,
    /// Its handler ran.
    Running,
    /// Its handler had returned: what went wrong lies in the result.
    Returned,
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
    let mut store = store(engine, attempt, call.run.run_id, call.idempotency_secret);
    let job = match call.plugin.pre.instantiate_async(&mut store).await {
        Ok(job) => job,
        Err(error) => return Called::Failed(Stage::Start, error),
    };
    match job.leasehold_job_handler().call_handle(&mut store, &run, &call.input).await {
        Ok(result) => Called::Returned(result),
        Err(error) if store.data().returned => Called::Failed(Stage::Returned, error),
        Err(error) => Called::Failed(Stage::Running, error),
    }
}

/// True when the pool had no room: not the guest's fault.
pub(crate) fn is_want_of_room(error: &wasmtime::Error) -> bool {
    error.is::<PoolConcurrencyLimitError>()
}

fn store(engine: &Engine, attempt: Arc<Attempt>, run_id: String, idempotency_secret: [u8; 32]) -> Store<Guest> {
    let mut table = ResourceTable::new();
    table.set_max_capacity(MAX_HANDLES);
    let guest = Guest {
        wasi: wasi::context(&attempt),
        table,
        meter: MemoryMeter::new(attempt.clone(), attempt.limits.memory),
        run_id,
        idempotency_secret,
        returned: false,
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
        // Back to the scheduler, so that the thread's other guests and its timers have their turn.
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(task::yield_now())))
    });
    store
}

/// Runs whenever execution passes between host and guest.
fn on_boundary(mut store: StoreContextMut<'_, Guest>, transition: CallHook) -> wasmtime::Result<()> {
    match transition {
        CallHook::CallingHost => {
            let attempt = &store.data().attempt;
            attempt.count_host_call();
            // H2: after a loss every further host call fails; calls that wait already are woken by the signal.
            if attempt.signal.is_lost() {
                return Err(LeaseLost.into());
            }
        }
        CallHook::ReturningFromWasm => {
            // What is lifted next is the handler's result, which has a limit of its own.
            let fuel = store.data().attempt.limits.result_fuel();
            store.data_mut().returned = true;
            store.set_hostcall_fuel(fuel);
        }
        CallHook::CallingWasm => {
            let fuel = store.data().attempt.limits.hostcall_fuel();
            store.data_mut().returned = false;
            store.set_hostcall_fuel(fuel);
        }
        CallHook::ReturningFromHost => {}
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
