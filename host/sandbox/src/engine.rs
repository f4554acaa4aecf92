//! The one engine all guests share, and the threads they run on.

use std::hash::{Hash, Hasher};
use std::io;
use std::num::NonZeroUsize;

use sha2::{Digest as _, Sha256};

use tokio::runtime::{Builder, Runtime};
use wasmtime::{Config, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig, WasmBacktraceDetails};

/// How a guest's instance gets its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Allocation {
    /// From a pool that was reserved at the start: an instance costs microseconds.
    Pooling,
    /// From the system each time, because the pool's address space could not be reserved.
    OnDemand,
}

const WASM_STACK: usize = 512 * 1024;
/// Host functions run on the same stack below the guest's frames.
const ASYNC_STACK: usize = 1024 * 1024;
/// How many frames of a backtrace are told.
pub(crate) const MAX_FRAMES: usize = 20;
/// What one guest may have at most. An honest one has up to 14 core instances, one or two memories and as many tables.
/// A pool keeps these bounds itself; where there is none, [`MemoryMeter`](crate::memory::MemoryMeter) does.
pub(crate) const CORE_INSTANCES: u32 = 64;
pub(crate) const MEMORIES: u32 = 32;
pub(crate) const TABLES: u32 = 64;
/// Memories, and tables, of all guests of an engine together. A memory reserves 4 GiB of address space and a process has
/// 128 TiB, which two engines share.
const MOST_SLOTS: u32 = 8_192;

/// Makes the engine that nearly all guests share, for at most `instances` of them at a time.
pub(crate) fn engine(instances: u32) -> wasmtime::Result<(Engine, Allocation)> {
    pooled(config(), instances)
}

/// Makes the engine whose code counts fuel, which costs every guest of it some speed. Few use it, but who does is bounded
/// like everybody else: it has a pool of its own.
pub(crate) fn metered_engine(instances: u32) -> wasmtime::Result<(Engine, Allocation)> {
    pooled(metered_config(), instances)
}

fn pooled(mut config: Config, instances: u32) -> wasmtime::Result<(Engine, Allocation)> {
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(instances)));
    match Engine::new(&config) {
        Ok(engine) => Ok((engine, Allocation::Pooling)),
        Err(error) => {
            tracing::warn!(error = format!("{error:#}"), "cannot reserve a pool for guests; each start will be slower");
            config.allocation_strategy(InstanceAllocationStrategy::OnDemand);
            Ok((Engine::new(&config)?, Allocation::OnDemand))
        }
    }
}

/// Makes an engine whose compiled code fits that of [`engine`], or of [`metered_engine`]. It runs nothing, so it reserves
/// nothing.
pub(crate) fn for_compiling(metered: bool) -> wasmtime::Result<Engine> {
    let mut config = if metered { metered_config() } else { config() };
    config.allocation_strategy(InstanceAllocationStrategy::OnDemand);
    Engine::new(&config)
}

/// Names everything that compiled code depends on: version, settings, processor. Code fits where the names are equal.
pub(crate) fn compatibility(engine: &Engine) -> String {
    struct Sink(Sha256);
    impl Hasher for Sink {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            0
        }
    }
    let mut sink = Sink(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut sink);
    sink.0.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn config() -> Config {
    let mut config = Config::new();
    config
        .wasm_gc(false)
        .wasm_function_references(false)
        .wasm_exceptions(false)
        .wasm_threads(false)
        .shared_memory(false)
        .wasm_memory64(false)
        .wasm_relaxed_simd(false)
        .wasm_tail_call(false)
        .concurrency_support(false)
        .epoch_interruption(true)
        .max_wasm_stack(WASM_STACK)
        .async_stack_size(ASYNC_STACK)
        .memory_init_cow(true)
        // Files and lines would be read from the plugin's debug sections by the host itself, whenever a guest traps: as much
        // of them as a stranger has written, and no limit counts it.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .wasm_backtrace_max_frames(NonZeroUsize::new(MAX_FRAMES))
        .cranelift_opt_level(OptLevel::Speed);
    config
}

fn metered_config() -> Config {
    let mut config = config();
    config.consume_fuel(true);
    config
}

fn pool(instances: u32) -> PoolingAllocationConfig {
    // Address space only, and as much as all guests can want together, so that no tenant takes another's room. A host that
    // takes very many guests has somewhat less.
    let of_all = |each: u32| instances.saturating_mul(each).min(instances.saturating_mul(4).max(MOST_SLOTS));
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances)
        .total_core_instances(instances.saturating_mul(CORE_INSTANCES))
        .total_memories(of_all(MEMORIES))
        .total_tables(of_all(TABLES))
        .total_stacks(instances)
        .max_core_instances_per_component(CORE_INSTANCES)
        .max_memories_per_component(MEMORIES)
        .max_tables_per_component(TABLES)
        .max_memories_per_module(MEMORIES)
        .max_tables_per_module(TABLES)
        .table_elements(100_000);
    pool
}

/// The threads guests run on: named, and niced so that what must stay prompt goes first.
pub(crate) fn guest_runtime(threads: usize) -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("guest")
        .on_thread_start(lower_priority)
        .enable_time()
        // A guest's turn lasts a tick: timers and newly started guests are looked at after each, not after many.
        .event_interval(1)
        .global_queue_interval(1)
        .build()
}

/// Lookups of names at a time: each has a thread until it ends by itself.
pub(crate) const LOOKUPS: usize = 32;

/// The threads that speak with servers for guests, and those that look names up.
pub(crate) fn network_runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(LOOKUPS)
        .thread_name("guest-net")
        .on_thread_start(lower_priority)
        .enable_all()
        .build()
}

/// How much nicer than the host's other threads.
const NICER: i32 = 10;
const NICEST: i32 = 19;

/// Lowers the calling thread's priority (on Linux niceness belongs to the thread).
pub(crate) fn lower_priority() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let lowered = rustix::process::getpriority_process(None)
        .and_then(|niceness| rustix::process::setpriority_process(None, (niceness + NICER).min(NICEST)));
    if let Err(error) = lowered {
        tracing::warn!(%error, "cannot lower the priority of a guest's thread");
    }
}
