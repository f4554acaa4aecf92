//! Starting a handler, and what is done when it has ended.

use std::sync::Arc;

use leasehold_lease::agent::{Input, Start};
use leasehold_lease::id::{JobKey, RunId, RunKey, Token};
use leasehold_lease::policy::Fencing;
use leasehold_lease::write::Quota;
use leasehold_sandbox::{Effects, Invocation, Limits, LogLevel, Plugin, RunFacts};
use leasehold_store::Identity;

use super::calls::News;
use super::storage::Keep;
use super::{Driver, logs, storage};
use crate::config::JobLimits;
use crate::gate;
use crate::heartbeat::{Guest, Hold};
use crate::outcome::{self, Judged};
use crate::plugins::OfferedJob;

impl Driver {
    /// Starts the handler of a won run, its heartbeats and its log.
    pub(super) fn start_guest(&mut self, offered: &OfferedJob<Plugin>, start: Start) {
        let spec = &offered.spec;
        let run = RunKey { job: spec.key.clone(), run: start.run.clone() };
        let (throttle, stored) = (self.throttles.of(&spec.key.tenant), spec.stored_max);
        let (sink, writer) =
            logs::channel(self.parts.store.clone(), run.clone(), start.token, stored, throttle.clone());
        let (storage, keeper) = storage::channel(Keep {
            store: self.parts.store.clone(),
            run: run.clone(),
            token: start.token,
            quota: Quota { stored, ..Quota::default() },
            throttle,
            pause: spec.policy.store_deadline(),
        });
        let (gate_keeper, gate) = gate::gate(start.first_sent + spec.policy.lease);
        let gate = match spec.policy.fence {
            Fencing::Held => gate,
            Fencing::Strict => gate.strict(self.heart.confirmer(start.token)),
        };
        let effects = Effects {
            gate: Arc::new(gate),
            storage: Arc::new(storage),
            settings: spec.grants.settings(&self.parts.secrets.of(&spec.key.tenant), self.dice.bytes()),
            http: spec.grants.http.clone(),
        };
        let invocation = Invocation {
            run: facts(&self.identity, &run, &start, spec.policy.max_attempts),
            input: start.payload.clone().unwrap_or_else(|| spec.payload.to_vec()),
            limits: limits(&spec.limits),
            tenant_memory: (self.parts.tenant_quota)(&spec.key.tenant).memory,
            logs: Arc::new(sink),
            log_level: LogLevel::Info,
            idempotency_secret: self.identity.secret,
            effects,
        };
        let in_use = self.parts.running.enter(&spec.plugin_file, &offered.plugin);
        let execution = self.parts.sandbox.start(&offered.plugin, invocation);
        let guest = Guest { signal: execution.signal(), progress: execution.progress(), gate: gate_keeper };
        self.guests.insert(start.token.0, execution.signal());
        self.heart.hold(Hold {
            job: spec.key.clone(),
            run: start.run.clone(),
            token: start.token,
            policy: spec.policy.clone(),
            first_sent: start.first_sent,
            guest: Some(guest),
        });
        let (news, job, token) = (self.calls.news.clone(), spec.key.clone(), start.token);
        let output_kept = spec.limits.output_kept;
        let (pause, patience) = (spec.policy.store_deadline(), spec.policy.lease);
        self.calls.tasks.spawn(keeper.run());
        self.calls.tasks.spawn(async move {
            // The log is complete before the run is: whoever sees the outcome can read all of it.
            let (ended, ()) = tokio::join!(execution, writer.run(pause, patience));
            drop(in_use);
            let input = ended_input(start.run, token, &ended, output_kept);
            news.tell(News::Input(job, input));
        });
    }
}

fn ended_input(run: RunId, token: Token, ended: &leasehold_sandbox::Ended, output_kept: u64) -> Input {
    match outcome::judge(ended, output_kept) {
        Judged::Verdict(verdict) => Input::Ended { run, token, verdict, usage: outcome::usage(ended) },
        Judged::Want(failure) => Input::StartRefused { run, token, why: failure.message },
    }
}

/// What the handler is told about its run.
fn facts(identity: &Identity, run: &RunKey, start: &Start, max_attempts: u32) -> RunFacts {
    let JobKey { tenant, name } = &run.job;
    RunFacts {
        run_id: format!("{}/{tenant}/{name}/{}", identity.id, run.run),
        tenant: tenant.to_string(),
        job: name.to_string(),
        slot_ms: u64::try_from(start.due.0).unwrap_or(0),
        attempt: start.attempt.0,
        max_attempts,
        fence: start.fence.0,
        reason: start.reason.to_owned(),
        metadata: Vec::new(),
    }
}

/// The limits of the configuration in the words of the sandbox.
pub fn limits(limits: &JobLimits) -> Limits {
    let bytes = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    Limits {
        timeout: limits.timeout,
        cpu: limits.cpu,
        fuel: limits.fuel,
        memory: bytes(limits.memory),
        host_calls: limits.host_calls,
        handles: limits.handles_max as usize,
        random: limits.random_max,
        payload: bytes(limits.payload_max),
        output: bytes(limits.output_max),
        log: bytes(limits.log_max),
        log_line: bytes(limits.log_line_max),
        ..Limits::default()
    }
}
