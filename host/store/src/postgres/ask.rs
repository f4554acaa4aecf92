//! What is sent: each verb's request as a JSON object.

use leasehold_lease::id::{JobKey, RunId, RunKey, TenantName, hex};
use leasehold_lease::op::{Announce, Cancel, Claim, ClaimKind, Close, Finish, Heartbeat, Release, Trigger, Unblock};
use leasehold_lease::policy::Overlap;
use leasehold_lease::run::{Hold, Status};
use leasehold_lease::write::{Change, Lane, Write};
use serde::Serialize;

use super::told::{Body, Report};
use crate::view::{ANSWERS_KEPT, HOST_KEPT, HistoryQuery, HostAnswer, HostReport, Identity};
use crate::wire::{Meta, WireOutcome, ms, to_json, token_hex};

/// Where the slot of an on-demand run would stand: behind all slots, so that (slot, demand) is the order of runs.
pub(super) const BEHIND_ALL: i64 = i64::MAX;

/// The longest duration that the server counts with, about 127 000 years: it stays a number when added to an instant.
const LONGEST: u64 = 1 << 52;

/// A run's key in columns.
#[derive(Serialize)]
pub(super) struct RunColumns<'a> {
    tenant: &'a str,
    name: &'a str,
    #[serde(flatten)]
    run: IdColumns<'a>,
}

/// A run's id in columns.
#[derive(Serialize)]
pub(super) struct IdColumns<'a> {
    slot: i64,
    demand: &'a str,
}

impl<'a> From<&'a RunKey> for RunColumns<'a> {
    fn from(key: &'a RunKey) -> RunColumns<'a> {
        RunColumns { tenant: key.job.tenant.as_str(), name: key.job.name.as_str(), run: (&key.run).into() }
    }
}

impl<'a> From<&'a RunId> for IdColumns<'a> {
    fn from(run: &'a RunId) -> IdColumns<'a> {
        match run {
            RunId::Slot(slot) => IdColumns { slot: slot.0.0, demand: "" },
            RunId::OnDemand(id) => IdColumns { slot: BEHIND_ALL, demand: id.as_str() },
        }
    }
}

/// A request about a job.
#[derive(Serialize)]
struct Request<'a, W: Serialize> {
    verb: &'static str,
    tenant: &'a str,
    name: &'a str,
    #[serde(flatten)]
    what: W,
}

fn request<W: Serialize>(verb: &'static str, job: &JobKey, what: W) -> String {
    to_json(&Request { verb, tenant: job.tenant.as_str(), name: job.name.as_str(), what })
}

#[derive(Serialize)]
struct ClaimAsk<'a> {
    #[serde(flatten)]
    run: IdColumns<'a>,
    token: String,
    kind: &'static str,
    late_after: Option<u64>,
    not_after: i64,
    lease: u64,
    max_attempts: u32,
    skip: bool,
    largest_bound: u64,
    meta: String,
}

pub(super) fn claim(job: &JobKey, claim: &Claim) -> String {
    let count = |duration| ms(duration).min(LONGEST);
    let Claim { run, kind, token, runner, digest, terms, not_after } = claim;
    request(
        "claim",
        job,
        ClaimAsk {
            run: run.into(),
            token: token_hex(token),
            kind: match kind {
                ClaimKind::Slot => "slot",
                ClaimKind::CatchUp { .. } => "catch-up",
                ClaimKind::Takeover => "takeover",
                ClaimKind::OnDemand => "on-demand",
            },
            late_after: kind.bound(terms).map(count),
            not_after: not_after.0,
            lease: count(terms.lease),
            max_attempts: terms.max_attempts,
            skip: terms.overlap == Overlap::Skip,
            largest_bound: count(terms.bound()),
            meta: to_json(&Meta::new(runner, *digest, terms)),
        },
    )
}

#[derive(Serialize)]
struct FinishAsk<'a> {
    #[serde(flatten)]
    run: IdColumns<'a>,
    token: String,
    status: &'static str,
    outcome: String,
    attempt_end: &'static str,
    output_size: u64,
    usage: String,
}

pub(super) fn finish(job: &JobKey, finish: &Finish) -> String {
    let Finish { run, token, outcome, usage } = finish;
    request(
        "finish",
        job,
        FinishAsk {
            run: run.into(),
            token: token_hex(token),
            status: outcome.status().word(),
            outcome: to_json(&WireOutcome::from(outcome)),
            attempt_end: outcome.attempt_end().word(),
            output_size: outcome.kept_size(),
            usage: to_json(usage),
        },
    )
}

#[derive(Serialize)]
struct ReleaseAsk<'a> {
    #[serde(flatten)]
    run: IdColumns<'a>,
    token: String,
    usage: String,
}

pub(super) fn release(job: &JobKey, release: &Release) -> String {
    let Release { run, token, usage } = release;
    request("release", job, ReleaseAsk { run: run.into(), token: token_hex(token), usage: to_json(usage) })
}

#[derive(Serialize)]
struct TriggerAsk<'a> {
    slot: i64,
    demand: &'a str,
    payload: Option<String>,
    pending_max: u32,
}

pub(super) fn trigger(job: &JobKey, trigger: &Trigger) -> String {
    let Trigger { id, payload, pending_max } = trigger;
    let payload = payload.as_deref().map(hex);
    request("trigger", job, TriggerAsk { slot: BEHIND_ALL, demand: id.as_str(), payload, pending_max: *pending_max })
}

#[derive(Serialize)]
struct AnnounceAsk {
    fingerprint: String,
}

pub(super) fn announce(job: &JobKey, announce: &Announce) -> String {
    request("announce", job, AnnounceAsk { fingerprint: to_json(&announce.fingerprint) })
}

#[derive(Serialize)]
struct EndAsk<'a> {
    #[serde(flatten)]
    run: IdColumns<'a>,
    reason: String,
    unoffered_for: Option<u64>,
}

pub(super) fn cancel(job: &JobKey, cancel: &Cancel) -> String {
    let reason = to_json(&cancel.reason);
    request("cancel", job, EndAsk { run: (&cancel.run).into(), reason, unoffered_for: None })
}

pub(super) fn close(job: &JobKey, close: &Close) -> String {
    let unoffered_for = Some(ms(close.unoffered_for).min(LONGEST));
    request("close", job, EndAsk { run: (&close.run).into(), reason: to_json(&close.reason), unoffered_for })
}

#[derive(Serialize)]
struct UnblockAsk {
    newest_due: i64,
}

pub(super) fn unblock(job: &JobKey, unblock: &Unblock) -> String {
    request("unblock", job, UnblockAsk { newest_due: unblock.newest_due.0.0 })
}

#[derive(Serialize)]
struct HoldAsk {
    hold: Option<String>,
    held_until: Option<i64>,
}

pub(super) fn hold(job: &JobKey, hold: Option<&Hold>) -> String {
    let held_until = hold.and_then(|hold| hold.until).map(|until| until.0);
    request("hold", job, HoldAsk { hold: hold.map(to_json), held_until })
}

#[derive(Serialize)]
struct PruneAsk {
    history_size: u32,
}

pub(super) fn prune(job: &JobKey, history_size: u32) -> String {
    request("prune", job, PruneAsk { history_size })
}

/// One heartbeat; the names are short because ten thousand travel together.
#[derive(Serialize)]
struct Beat<'a> {
    o: usize,
    t: &'a str,
    n: &'a str,
    s: i64,
    d: &'a str,
    k: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    p: Option<String>,
}

#[derive(Serialize)]
struct Beats<'a> {
    wait: bool,
    requests: Vec<Beat<'a>>,
}

/// Heartbeats, each with its place.
pub(super) fn heartbeats<'a>(wait: bool, beats: impl Iterator<Item = (usize, &'a (JobKey, Heartbeat))>) -> String {
    let beat = |(o, (job, beat)): (usize, &'a (JobKey, Heartbeat))| {
        let IdColumns { slot, demand } = (&beat.run).into();
        let (t, n) = (job.tenant.as_str(), job.name.as_str());
        Beat { o, t, n, s: slot, d: demand, k: token_hex(&beat.token), p: beat.progress.as_ref().map(to_json) }
    };
    to_json(&Beats { wait, requests: beats.map(beat).collect() })
}

#[derive(Serialize)]
struct WriteAsk<'a> {
    tenant: &'a str,
    name: &'a str,
    #[serde(flatten)]
    run: IdColumns<'a>,
    token: String,
    number: u64,
    lane: &'static str,
    change: &'static str,
    size: u64,
    quota_value: u64,
    quota_stored: u64,
    key: Option<String>,
    value: Option<String>,
    expected: Option<String>,
    state: Option<String>,
    lines: Option<Vec<String>>,
}

pub(super) fn write(job: &JobKey, write: &Write) -> String {
    let Write { run, token, number, quota, change } = write;
    let (mut value, mut expected, mut state, mut lines) = (None, None, None, None);
    let word = match change {
        Change::SaveState(data) => {
            state = Some(hex(data));
            "save-state"
        }
        Change::KvSet { value: new, .. } => {
            value = Some(hex(new));
            "kv-set"
        }
        Change::KvDelete { .. } => "kv-delete",
        Change::KvCompareAndSet { expected: old, value: new, .. } => {
            (expected, value) = (old.as_deref().map(hex), Some(hex(new)));
            "kv-compare-and-set"
        }
        Change::AppendLog(new) => {
            lines = Some(new.iter().map(to_json).collect());
            "append-log"
        }
    };
    to_json(&WriteAsk {
        tenant: job.tenant.as_str(),
        name: job.name.as_str(),
        run: run.into(),
        token: token_hex(token),
        number: *number,
        lane: match change.lane() {
            Lane::Effects => "effects",
            Lane::Log => "log",
        },
        change: word,
        size: change.size(),
        quota_value: quota.value,
        quota_stored: quota.stored,
        key: change.key().map(|key| hex(key.as_bytes())),
        value,
        expected,
        state,
        lines,
    })
}

/// Of calls that ask for nothing in particular.
pub(super) fn time() -> String {
    #[derive(Serialize)]
    struct Ask {
        all: bool,
    }
    to_json(&Ask { all: true })
}

/// Of calls about one run.
pub(super) fn run(run: &RunKey) -> String {
    to_json(&RunColumns::from(run))
}

pub(super) fn kv_get(tenant: &TenantName, key: &str) -> String {
    #[derive(Serialize)]
    struct Ask<'a> {
        tenant: &'a str,
        key: String,
    }
    to_json(&Ask { tenant: tenant.as_str(), key: hex(key.as_bytes()) })
}

pub(super) fn kv_list(tenant: &TenantName, prefix: &str, after: Option<&str>, limit: usize) -> String {
    #[derive(Serialize)]
    struct Ask<'a> {
        tenant: &'a str,
        prefix: String,
        after: Option<String>,
        until: Option<String>,
        limit: i64,
    }
    // The last byte of UTF-8 text is never 255.
    let until = prefix.as_bytes().split_last().map(|(last, rest)| hex(&[rest, &[last + 1]].concat()));
    let (prefix, after) = (hex(prefix.as_bytes()), after.map(|after| hex(after.as_bytes())));
    to_json(&Ask { tenant: tenant.as_str(), prefix, after, until, limit: most(limit) })
}

pub(super) fn read_log(run: &RunKey, after: u64, limit: usize) -> String {
    #[derive(Serialize)]
    struct Ask<'a> {
        #[serde(flatten)]
        run: RunColumns<'a>,
        after: i64,
        limit: i64,
    }
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    to_json(&Ask { run: run.into(), after, limit: most(limit) })
}

pub(super) fn unfinished(tenants: &[TenantName], after: Option<&RunKey>, limit: usize) -> String {
    #[derive(Serialize)]
    struct Ask<'a> {
        tenants: Vec<&'a str>,
        after: Option<RunColumns<'a>>,
        limit: i64,
    }
    let tenants = tenants.iter().map(TenantName::as_str).collect();
    to_json(&Ask { tenants, after: after.map(RunColumns::from), limit: most(limit) })
}

pub(super) fn jobs(after: Option<&JobKey>, limit: usize) -> String {
    #[derive(Serialize)]
    struct Ask<'a> {
        tenant: &'a str,
        name: &'a str,
        limit: i64,
    }
    // No tenant's name is empty.
    let (tenant, name) = after.map_or(("", ""), |key| (key.tenant.as_str(), key.name.as_str()));
    to_json(&Ask { tenant, name, limit: most(limit) })
}

pub(super) fn job(job: &JobKey) -> String {
    #[derive(Serialize)]
    struct Ask<'a> {
        tenant: &'a str,
        name: &'a str,
    }
    to_json(&Ask { tenant: job.tenant.as_str(), name: job.name.as_str() })
}

pub(super) fn check(runs: &[RunKey]) -> String {
    #[derive(Serialize)]
    struct Ask<'a> {
        runs: Vec<RunColumns<'a>>,
    }
    to_json(&Ask { runs: runs.iter().map(RunColumns::from).collect() })
}

pub(super) fn history(query: &HistoryQuery) -> String {
    #[derive(Serialize)]
    struct Ask<'a> {
        tenant: Option<&'a str>,
        name: Option<&'a str>,
        status: Option<&'static str>,
        since: Option<i64>,
        limit: i64,
    }
    let HistoryQuery { job, status, since, limit } = query;
    to_json(&Ask {
        tenant: job.as_ref().map(|job| job.tenant.as_str()),
        name: job.as_ref().map(|job| job.name.as_str()),
        status: status.map(Status::word),
        since: since.map(|since| since.0),
        limit: most(*limit),
    })
}

pub(super) fn keep_told(told: &[HostAnswer]) -> String {
    #[derive(Serialize)]
    struct Item<'a> {
        #[serde(flatten)]
        run: RunColumns<'a>,
        body: String,
    }
    #[derive(Serialize)]
    struct Ask<'a> {
        kept: usize,
        told: Vec<Item<'a>>,
    }
    let item = |told: &'_ HostAnswer| to_json(&Body::from(told));
    let told = told.iter().map(|told| Item { run: (&told.run).into(), body: item(told) }).collect();
    to_json(&Ask { kept: ANSWERS_KEPT, told })
}

pub(super) fn told(job: &JobKey, run: Option<&RunId>, limit: usize) -> String {
    #[derive(Serialize)]
    struct Ask<'a> {
        tenant: &'a str,
        name: &'a str,
        slot: Option<i64>,
        demand: Option<&'a str>,
        limit: i64,
    }
    let run = run.map(IdColumns::from);
    to_json(&Ask {
        tenant: job.tenant.as_str(),
        name: job.name.as_str(),
        slot: run.as_ref().map(|run| run.slot),
        demand: run.map(|run| run.demand),
        limit: most(limit),
    })
}

pub(super) fn report_host(report: &HostReport) -> String {
    #[derive(Serialize)]
    struct Ask {
        name: String,
        instance: String,
        report: String,
        kept: u64,
    }
    to_json(&Ask {
        name: hex(report.name.as_bytes()),
        instance: hex(report.instance.as_bytes()),
        report: to_json(&Report::from(report)),
        kept: ms(HOST_KEPT),
    })
}

pub(super) fn drain(host: &str, drain: bool) -> String {
    #[derive(Serialize)]
    struct Ask {
        name: String,
        drain: bool,
    }
    to_json(&Ask { name: hex(host.as_bytes()), drain })
}

pub(super) fn identity(new: &Identity) -> String {
    #[derive(Serialize)]
    struct Ask<'a> {
        id: &'a str,
        secret: String,
    }
    to_json(&Ask { id: &new.id, secret: hex(&new.secret) })
}

/// A limit as far as the server can count.
fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
