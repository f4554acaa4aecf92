//! One attempt's guest: its store, its call, and what its end means.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use rustix::io::Errno;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{InstancePre, ResourceTable};
use wasmtime::{CallHook, PoolConcurrencyLimitError, Store, StoreContextMut, UpdateDeadline};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::attempt::Attempt;
use crate::command;
use crate::cpu::Metered;
use crate::effects::Effects;
use crate::fits::HANDLER_INTERFACE;
use crate::imports::bindings::leasehold::job::types;
use crate::imports::wasi;
use crate::invocation::RunFacts;
use crate::limits::Breach;
use crate::memory::{MemoryMeter, MemoryShare};
use crate::outbound::{HttpClient, Sender};
use crate::plugin::{Entry, Plugin};
use crate::signal::StopReason;

/// What host functions can reach: this attempt and nothing else.
pub(crate) struct Guest {
    pub(crate) attempt: Arc<Attempt>,
    pub(crate) run_id: String,
    pub(crate) idempotency_secret: [u8; 32],
    pub(crate) outward: Outward,
    wasi: WasiCtx,
    table: ResourceTable,
    meter: MemoryMeter,
    /// What the host holds until the guest has been given it.
    given: Option<MemoryShare>,
    /// The host was called after the lease was lost.
    entered_lost: bool,
    /// Calls that may have been made when this was looked at last.
    calls_allowed: u64,
    over_budget: bool,
}

impl Guest {
    /// Every host function comes through here before it does anything.
    pub(crate) fn entered(&mut self) -> &mut Guest {
        let calls = self.attempt.count_host_call();
        if calls > self.calls_allowed {
            self.calls_allowed = self.attempt.limits.host_calls_within(self.attempt.elapsed());
            self.over_budget |= calls > self.calls_allowed;
        }
        self.entered_lost |= self.attempt.signal.is_lost();
        self.given = None;
        self
    }

    /// Charges an answer until the guest calls again. It is copied into the guest's memory after the host function has
    /// returned, by way of the guest's own allocator, which may take as long as it likes but cannot call the host.
    pub(crate) fn keep_until_next_call(&mut self, share: MemoryShare) {
        self.given = Some(share);
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
    pub(crate) share: MemoryShare,
    /// The plugin's code counts fuel.
    pub(crate) metered: bool,
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

/// Runs the handler to its end, or until the attempt is forced. Answers also why it had been asked to stop by then: what
/// comes later is not what stopped it.
pub(crate) async fn call(attempt: Arc<Attempt>, call: Call) -> (Called, Option<StopReason>) {
    let signal = attempt.signal.clone();
    let running = Metered::new(attempt.clone(), run(attempt.clone(), call));
    let called = tokio::select! {
        // The guest goes first: where its own code runs it ends by a trap, which knows where it was. Only one that waits for
        // the host is dropped, and dropping is the only thing that ends a blocked host call.
        biased;
        called = running => called,
        () = forced_while_it_waits(&attempt) => Called::Dropped,
    };
    (called, signal.reason())
}

/// Polled after a guest that did not end by itself.
async fn forced_while_it_waits(attempt: &Attempt) {
    let mut forced = pin!(attempt.signal.forced());
    // Code that waits for its turn has one more, which it has already asked for, and traps at its beginning.
    poll_fn(|cx| if attempt.waits_for_turn() { Poll::Pending } else { forced.as_mut().poll(cx) }).await;
}

async fn run(attempt: Arc<Attempt>, call: Call) -> Called {
    let (metered, ours) = (call.metered, attempt.clone());
    let (run, plugin) = (wire_run(&call.run), call.plugin.clone());
    let (mut store, input) = store(attempt, call);
    if metered && let Err(error) = store.set_fuel(full_tank(&ours)) {
        return Called::Failed(Stage::Start, error);
    }
    let called = match &plugin.entry {
        Entry::Command(pre) => command::call(pre, &mut store, &ours).await,
        Entry::Handler(pre) => match pre.instantiate_async(&mut store).await {
            Err(error) => Called::Failed(Stage::Start, error),
            Ok(job) => match job.leasehold_job_handler().call_handle(&mut store, &run, &input).await {
                Ok(result) => Called::Returned(result),
                Err(error) => Called::Failed(Stage::Running, error),
            },
        },
    };
    if metered {
        note_fuel(&ours, store.get_fuel());
    }
    called
}

/// What a metered guest starts with.
fn full_tank(attempt: &Attempt) -> u64 {
    attempt.limits.fuel.unwrap_or(u64::MAX)
}

/// Keeps what was burnt, for the record; an engine that counts none has none to tell.
fn note_fuel(attempt: &Attempt, left: wasmtime::Result<u64>) {
    if let Ok(left) = left {
        attempt.set_fuel_used(full_tank(attempt).saturating_sub(left));
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

/// True when the pool had no room, or the system gave none where there is no pool: not the guest's fault.
pub(crate) fn is_want_of_room(error: &wasmtime::Error) -> bool {
    error.is::<PoolConcurrencyLimitError>()
        || error.chain().any(|cause| cause.downcast_ref::<Errno>().is_some_and(|errno| *errno == Errno::NOMEM))
}

/// What the guest lives in, and what its handler is to be given.
pub(crate) fn store(attempt: Arc<Attempt>, call: Call) -> (Store<Guest>, Vec<u8>) {
    let Call { plugin, run, input, idempotency_secret, share, metered, outward } = call;
    let limits = attempt.limits;
    let mut table = ResourceTable::new();
    table.set_max_capacity(limits.handles);
    let (wasi, input) = match &plugin.entry {
        Entry::Handler(_) => (wasi::context(&attempt), input),
        Entry::Command(_) => (wasi::command_context(&attempt, &run, input), Vec::new()),
    };
    let guest = Guest {
        wasi,
        table,
        meter: MemoryMeter::new(attempt.clone(), share),
        given: None,
        run_id: run.run_id,
        idempotency_secret,
        outward,
        entered_lost: false,
        calls_allowed: limits.host_calls_within(Duration::ZERO),
        over_budget: false,
        attempt: attempt.clone(),
    };
    let mut store = Store::new(plugin.engine(), guest);
    store.limiter(|guest| &mut guest.meter);
    store.set_hostcall_fuel(limits.hostcall_fuel());
    store.set_max_component_handles(limits.handles);
    store.call_hook(on_boundary);
    store.set_epoch_deadline(1);
    let mut gave_way = false;
    store.epoch_deadline_callback(move |store| {
        if metered {
            note_fuel(&attempt, store.get_fuel());
        }
        if attempt.signal.is_forced() {
            return Ok(UpdateDeadline::Interrupt);
        }
        attempt.check_cpu()?;
        gave_way = !gave_way;
        if !gave_way {
            return Ok(UpdateDeadline::Continue(1));
        }
        attempt.give_way();
        // Back to the end of the scheduler's queue. A yield of tokio's own (`yield_now`) is woken by the thread's next look at
        // its timers and then goes first: the same guest would run for ever while others wait.
        // It comes here again as soon as it goes on: it may have been forced meanwhile, and has no tick to itself for that.
        Ok(UpdateDeadline::Yield(0))
    });
    (store, input)
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
            if store.data().over_budget {
                return Err(Breach::Budget { rate: limits.host_calls }.into());
            }
            // A host function may take long without a tick of the guest's code.
            store.data().attempt.check_cpu()?;
            store.data().attempt.mark_as_run();
            store.set_hostcall_fuel(limits.hostcall_fuel());
        }
    }
    Ok(())
}

pub(crate) fn wire_run(run: &RunFacts) -> types::RunInfo {
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

#[cfg(test)]
mod tests {
    use wasmtime::{Config, Engine, Memory, MemoryType};

    use super::*;

    #[test]
    fn a_system_without_room_for_a_memory_is_a_want_and_no_fault_of_the_guest() {
        let mut config = Config::new();
        // More than a process can have.
        config.memory_reservation(1 << 47);
        let engine = Engine::new(&config).expect("it reserves nothing yet");
        let error = Memory::new(Store::new(&engine, ()), MemoryType::new(1, None)).expect_err("there is no room");
        assert!(is_want_of_room(&error), "{error:#}");
        assert!(!is_want_of_room(&wasmtime::Trap::UnreachableCodeReached.into()));
    }
}
