//! What holds for the jobs of a tenant: the policy keys of the contract, the limits of the sandbox, and how many.

use std::ops::RangeInclusive;
use std::time::Duration;

use leasehold_lease::policy::{Fencing, OnUncertain, Overlap, Policy, StopForce};
use leasehold_lease::write;
use leasehold_sandbox::Limits;

use super::problem::Problems;
use super::reader::{self, Section, Wrong, shown_size};
use super::tree::Node;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// What one attempt may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobLimits {
    /// How long an attempt may take.
    pub timeout: Duration,
    /// Processor time of an attempt; none is as much as it gets within its timeout.
    pub cpu: Option<Duration>,
    /// Fuel of an attempt, about one for each instruction; none is without end, and not counted.
    pub fuel: Option<u64>,
    /// Bytes of all memories and tables of an attempt together.
    pub memory: u64,
    /// Calls of the host a second; a minute's worth may come at once.
    pub host_calls: u32,
    /// Live handles of an attempt.
    pub handles_max: u32,
    /// Random bytes in one call.
    pub random_max: u64,
    /// Bytes of a payload.
    pub payload_max: u64,
    /// Bytes of an output.
    pub output_max: u64,
    /// Bytes of an output that are kept with the run.
    pub output_kept: u64,
    /// Bytes of log an attempt may write.
    pub log_max: u64,
    /// Bytes of one line of log.
    pub log_line_max: u64,
}

impl Default for JobLimits {
    fn default() -> JobLimits {
        let limits = Limits::default();
        JobLimits {
            timeout: limits.timeout,
            cpu: limits.cpu,
            fuel: limits.fuel,
            memory: limits.memory as u64,
            host_calls: limits.host_calls,
            handles_max: u32::try_from(limits.handles).unwrap_or(u32::MAX),
            random_max: limits.random,
            payload_max: limits.payload as u64,
            output_max: limits.output as u64,
            output_kept: 64 * KIB,
            log_max: limits.log as u64,
            log_line_max: limits.log_line as u64,
        }
    }
}

/// What the operator has set for the jobs of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TenantSettings {
    /// The policy of its jobs, where a manifest sets nothing of its own.
    pub policy: Policy,
    /// The limits of its jobs; a manifest may lower them.
    pub limits: JobLimits,
    /// How many jobs and plugins it may have, and how often its jobs may run.
    pub quota: Quota,
}

/// How much of a host one tenant may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    /// Attempts of the tenant at a time on this host.
    pub concurrency: u32,
    /// Bytes that all attempts of the tenant on a host may hold together; none is a quarter of the host's.
    pub memory: Option<u64>,
    /// The least time between two slots of a job.
    pub min_interval: Duration,
    /// Jobs of the tenant.
    pub jobs_max: u32,
    /// Plugins of the tenant.
    pub plugins_max: u32,
    /// Bytes it may keep in the store: keys, values, checkpoints, outputs and logs.
    pub stored_max: u64,
}

impl Default for Quota {
    fn default() -> Quota {
        let (min_interval, stored_max) = (Duration::from_secs(10), write::Quota::default().stored);
        Quota { concurrency: 32, memory: None, min_interval, jobs_max: 100, plugins_max: 50, stored_max }
    }
}

/// What one section of the configuration says; what it does not say is taken from the one below it.
#[derive(Debug, Clone, Default)]
pub(super) struct Layer {
    lease: Option<Duration>,
    heartbeat: Option<Duration>,
    max_attempts: Option<u32>,
    overlap: Option<Overlap>,
    catch_up: Option<Duration>,
    max_late: Option<Duration>,
    jitter: Option<Duration>,
    catch_up_jitter: Option<Duration>,
    history_size: Option<u32>,
    stop_timeout: Option<Duration>,
    stop_force: Option<StopForce>,
    on_uncertain: Option<OnUncertain>,
    fence: Option<Fencing>,
    lost_grace: Option<Duration>,
    pending_max: Option<u32>,
    timeout: Option<Duration>,
    cpu: Option<Duration>,
    fuel: Option<u64>,
    memory: Option<u64>,
    host_calls: Option<u32>,
    handles_max: Option<u32>,
    random_max: Option<u64>,
    payload_max: Option<u64>,
    output_max: Option<u64>,
    output_kept: Option<u64>,
    log_max: Option<u64>,
    log_line_max: Option<u64>,
    concurrency: Option<u32>,
    tenant_memory: Option<u64>,
    min_interval: Option<Duration>,
    jobs_max: Option<u32>,
    plugins_max: Option<u32>,
    stored_max: Option<u64>,
}

impl Layer {
    /// Reads a section and ends it: `[defaults]`, or a tenant's above `below`.
    pub(super) fn read(mut section: Section, below: Option<&Layer>) -> (Layer, Problems) {
        let own = Layer {
            lease: section.duration("lease", SECOND..=DAY),
            heartbeat: section.duration("heartbeat", Duration::from_millis(10)..=DAY),
            max_attempts: section.whole("max_attempts", 1..=1_000),
            overlap: section.choice("overlap", OVERLAP),
            catch_up: section.duration("catch_up", CATCH_UP),
            max_late: section.duration("max_late", MAX_LATE),
            jitter: section.duration("jitter", Duration::ZERO..=DAY),
            catch_up_jitter: section.duration("catch_up_jitter", Duration::ZERO..=DAY),
            history_size: section.whole("history_size", HISTORY_SIZE),
            stop_timeout: section.duration("stop_timeout", Duration::ZERO..=DAY),
            stop_force: section.take("stop_force", stop_force),
            on_uncertain: section.choice("on_uncertain", &[("hold", OnUncertain::Hold), ("stop", OnUncertain::Stop)]),
            fence: section.choice("fence", &[("held", Fencing::Held), ("strict", Fencing::Strict)]),
            lost_grace: section.duration("lost_grace", Duration::ZERO..=DAY),
            pending_max: section.whole("pending_max", PENDING_MAX),
            timeout: section.duration("timeout", TIMEOUT),
            cpu: section.duration("cpu", TIMEOUT),
            fuel: section.large("fuel", FUEL),
            memory: section.size("memory", MEMORY),
            host_calls: section.whole("host_calls", HOST_CALLS),
            handles_max: section.whole("handles_max", HANDLES_MAX),
            random_max: section.size("random_max", 0..=64 * MIB),
            payload_max: section.size("payload_max", 0..=64 * MIB),
            output_max: section.size("output_max", 0..=64 * MIB),
            // It is read and written with the run's whole record.
            output_kept: section.size("output_kept", 0..=MIB),
            log_max: section.size("log_max", 0..=GIB),
            log_line_max: section.size("log_line_max", 80..=MIB),
            concurrency: section.whole("concurrency", 1..=100_000),
            tenant_memory: section.size("tenant_memory", MEMORY),
            min_interval: section.duration("min_interval", SECOND..=DAY),
            jobs_max: section.whole("jobs_max", 0..=100_000),
            plugins_max: section.whole("plugins_max", 0..=10_000),
            stored_max: section.size("stored_max", 0..=1024 * GIB),
        };
        let none = Layer::default();
        let all = own.over(below.unwrap_or(&none));
        // What is wrong in the section below is told there, once.
        let told = below.map(|below| below.settings().policy.problems(None)).unwrap_or_default();
        for (key, reason) in all.settings().policy.problems(None) {
            if !told.contains(&(key, reason.clone())) {
                section.problem(key, Wrong::new(reason));
            }
        }
        (all, section.finish())
    }

    fn over(self, below: &Layer) -> Layer {
        Layer {
            lease: self.lease.or(below.lease),
            heartbeat: self.heartbeat.or(below.heartbeat),
            max_attempts: self.max_attempts.or(below.max_attempts),
            overlap: self.overlap.or(below.overlap),
            catch_up: self.catch_up.or(below.catch_up),
            max_late: self.max_late.or(below.max_late),
            jitter: self.jitter.or(below.jitter),
            catch_up_jitter: self.catch_up_jitter.or(below.catch_up_jitter),
            history_size: self.history_size.or(below.history_size),
            stop_timeout: self.stop_timeout.or(below.stop_timeout),
            stop_force: self.stop_force.or(below.stop_force),
            on_uncertain: self.on_uncertain.or(below.on_uncertain),
            fence: self.fence.or(below.fence),
            lost_grace: self.lost_grace.or(below.lost_grace),
            pending_max: self.pending_max.or(below.pending_max),
            timeout: self.timeout.or(below.timeout),
            cpu: self.cpu.or(below.cpu),
            fuel: self.fuel.or(below.fuel),
            memory: self.memory.or(below.memory),
            host_calls: self.host_calls.or(below.host_calls),
            handles_max: self.handles_max.or(below.handles_max),
            random_max: self.random_max.or(below.random_max),
            payload_max: self.payload_max.or(below.payload_max),
            output_max: self.output_max.or(below.output_max),
            output_kept: self.output_kept.or(below.output_kept),
            log_max: self.log_max.or(below.log_max),
            log_line_max: self.log_line_max.or(below.log_line_max),
            concurrency: self.concurrency.or(below.concurrency),
            tenant_memory: self.tenant_memory.or(below.tenant_memory),
            min_interval: self.min_interval.or(below.min_interval),
            jobs_max: self.jobs_max.or(below.jobs_max),
            plugins_max: self.plugins_max.or(below.plugins_max),
            stored_max: self.stored_max.or(below.stored_max),
        }
    }

    /// The layer over the defaults of the contract; those that depend on another key follow it.
    pub(super) fn settings(&self) -> TenantSettings {
        let base = Policy::default();
        let lease = self.lease.unwrap_or(base.lease);
        let heartbeat = self.heartbeat.unwrap_or(Policy::default_heartbeat(lease));
        let stop_timeout = self.stop_timeout.unwrap_or(base.stop_timeout);
        let policy = Policy {
            lease,
            heartbeat,
            max_attempts: self.max_attempts.unwrap_or(base.max_attempts),
            overlap: self.overlap.unwrap_or(base.overlap),
            catch_up: self.catch_up.unwrap_or(base.catch_up),
            max_late: self.max_late.unwrap_or(base.max_late),
            jitter: self.jitter.unwrap_or(base.jitter),
            catch_up_jitter: self.catch_up_jitter.unwrap_or(base.catch_up_jitter),
            history_size: self.history_size.unwrap_or(base.history_size),
            stop_timeout,
            stop_force: self.stop_force.unwrap_or(Policy::default_stop_force(stop_timeout)),
            on_uncertain: self.on_uncertain.unwrap_or(base.on_uncertain),
            fence: self.fence.unwrap_or(base.fence),
            lost_grace: self.lost_grace.unwrap_or(Policy::default_lost_grace(heartbeat)),
            pending_max: self.pending_max.unwrap_or(base.pending_max),
        };
        let (limits, quota) = (JobLimits::default(), Quota::default());
        TenantSettings {
            policy,
            limits: JobLimits {
                timeout: self.timeout.unwrap_or(limits.timeout),
                cpu: self.cpu.or(limits.cpu),
                fuel: self.fuel.or(limits.fuel),
                memory: self.memory.unwrap_or(limits.memory),
                host_calls: self.host_calls.unwrap_or(limits.host_calls),
                handles_max: self.handles_max.unwrap_or(limits.handles_max),
                random_max: self.random_max.unwrap_or(limits.random_max),
                payload_max: self.payload_max.unwrap_or(limits.payload_max),
                output_max: self.output_max.unwrap_or(limits.output_max),
                output_kept: self.output_kept.unwrap_or(limits.output_kept),
                log_max: self.log_max.unwrap_or(limits.log_max),
                log_line_max: self.log_line_max.unwrap_or(limits.log_line_max),
            },
            quota: Quota {
                concurrency: self.concurrency.unwrap_or(quota.concurrency),
                memory: self.tenant_memory.or(quota.memory),
                min_interval: self.min_interval.unwrap_or(quota.min_interval),
                jobs_max: self.jobs_max.unwrap_or(quota.jobs_max),
                plugins_max: self.plugins_max.unwrap_or(quota.plugins_max),
                stored_max: self.stored_max.unwrap_or(quota.stored_max),
            },
        }
    }
}

const OVERLAP: &[(&str, Overlap)] = &[("skip", Overlap::Skip), ("allow", Overlap::Allow)];
const CATCH_UP: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(366 * 86_400);
const MAX_LATE: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(31 * 86_400);
const HISTORY_SIZE: RangeInclusive<u32> = 1..=100_000;
/// A trigger counts those that wait, and hosts are shown them all.
const PENDING_MAX: RangeInclusive<u32> = 1..=100_000;
const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(31 * 86_400);
/// A memory's page is the least that a guest can use.
pub(super) const MEMORY: RangeInclusive<u64> = 64 * KIB..=64 * 1024 * GIB;
/// What TOML can say.
const FUEL: RangeInclusive<u64> = 1..=i64::MAX as u64;
const HOST_CALLS: RangeInclusive<u32> = 1..=1_000_000_000;
/// Standard streams and a timer take some.
const HANDLES_MAX: RangeInclusive<u32> = 16..=1_000_000;

/// What a manifest may set at most where the operator has not set more: it is as untrusted as the code beside it, and
/// these keys cost the store's room and the cluster's time.
const MANIFEST_MOST: (u32, u32, Duration, Duration) = (20, 1_000, Duration::from_secs(7 * 86_400), DAY);

/// The keys of a policy that belong to the operator alone.
const OPERATORS: &[&str] = &[
    "lease",
    "heartbeat",
    "jitter",
    "catch_up_jitter",
    "stop_timeout",
    "stop_force",
    "on_uncertain",
    "fence",
    "lost_grace",
    "pending_max",
    "concurrency",
    "tenant_memory",
    "min_interval",
    "jobs_max",
    "plugins_max",
    "stored_max",
];

/// Reads what a manifest's job may set of policy and limits, each within the tenant's bounds.
pub(crate) fn read_job(section: &mut Section, tenant: &TenantSettings) -> (Policy, JobLimits) {
    section.refuse(OPERATORS, "only the operator sets this key, in leasehold.toml");
    let (attempts, history, catch_up, late) = MANIFEST_MOST;
    let mut policy = tenant.policy.clone();
    let most = attempts.max(policy.max_attempts);
    policy.max_attempts = section.whole("max_attempts", 1..=most).unwrap_or(policy.max_attempts);
    let most = history.max(policy.history_size);
    policy.history_size = section.whole("history_size", 1..=most).unwrap_or(policy.history_size);
    let most = catch_up.max(policy.catch_up);
    policy.catch_up = section.duration("catch_up", *CATCH_UP.start()..=most).unwrap_or(policy.catch_up);
    let most = late.max(policy.max_late);
    policy.max_late = section.duration("max_late", *MAX_LATE.start()..=most).unwrap_or(policy.max_late);
    policy.overlap = section.choice("overlap", OVERLAP).unwrap_or(policy.overlap);

    (policy, read_job_limits(section, &tenant.limits))
}

/// What a job lowers of its tenant's limits.
fn read_job_limits(section: &mut Section, bounds: &JobLimits) -> JobLimits {
    let mut size = |key, bound: u64| {
        let found = section.size(key, 0..=u64::MAX);
        lowered(section, key, found, Some(bound), |bytes| shown_size(*bytes)).unwrap_or(bound)
    };
    let memory = size("memory", bounds.memory);
    let random_max = size("random_max", bounds.random_max);
    let payload_max = size("payload_max", bounds.payload_max);
    let output_max = size("output_max", bounds.output_max);
    let output_kept = size("output_kept", bounds.output_kept);
    let log_max = size("log_max", bounds.log_max);
    let log_line_max = size("log_line_max", bounds.log_line_max);
    let mut whole = |key, range, bound: u32| {
        let found = section.whole(key, range);
        lowered(section, key, found, Some(bound), u32::to_string).unwrap_or(bound)
    };
    let host_calls = whole("host_calls", HOST_CALLS, bounds.host_calls);
    let handles_max = whole("handles_max", HANDLES_MAX, bounds.handles_max);
    let mut time = |key, bound| {
        let found = section.duration(key, TIMEOUT);
        lowered(section, key, found, bound, |time| humantime::format_duration(*time).to_string())
    };
    let timeout = time("timeout", Some(bounds.timeout)).unwrap_or(bounds.timeout);
    let cpu = time("cpu", bounds.cpu);
    let fuel = section.large("fuel", FUEL);
    let fuel = lowered(section, "fuel", fuel, bounds.fuel, u64::to_string);
    JobLimits {
        timeout,
        cpu,
        fuel,
        memory,
        host_calls,
        handles_max,
        random_max,
        payload_max,
        output_max,
        output_kept,
        log_max,
        log_line_max,
    }
}

/// What a job has written, or else its tenant's bound, above which it is refused; without a bound anything is lower.
fn lowered<T: PartialOrd>(
    section: &mut Section,
    key: &'static str,
    found: Option<T>,
    bound: Option<T>,
    show: impl Fn(&T) -> String,
) -> Option<T> {
    let Some(found) = found else { return bound };
    if let Some(bound) = bound.filter(|bound| found > *bound) {
        let reason = format!("it is above the tenant's limit of {}", show(&bound));
        section.problem(key, Wrong::new(reason).hint("a job may only lower it; the operator can raise the tenant's"));
    }
    Some(found)
}

fn stop_force(node: &Node) -> Result<StopForce, Wrong> {
    if reader::text(node).is_ok_and(|text| text == "never") {
        return Ok(StopForce::Never);
    }
    let hint = "write a duration such as \"25s\", or \"never\"";
    reader::duration(node, &(Duration::ZERO..=DAY)).map(StopForce::After).map_err(|wrong| wrong.hint(hint))
}
