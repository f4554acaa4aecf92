//! A plugin's manifest: the jobs it offers. It is as untrusted as the code beside it, so every key is bounded by what
//! the operator has set for the tenant, and one bad job never stops the others.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use leasehold_lease::id::JobName;
use leasehold_lease::policy::Policy;
use leasehold_lease::schedule::{Schedule, Zone, Zones};

use crate::config::reader::{self, Section, Wrong, shown_size};
use crate::config::tree::{self, Node, Value};
use crate::config::{JobLimits, Place, Problem, Problems, TenantSettings, read_job};

mod json;
mod wishes;

pub use wishes::{Wish, Wishes};

/// No manifest is longer than this, in bytes.
pub const FILE_MAX: u64 = 1 << 20;

/// A job as its manifest asks for it.
#[derive(Debug, Clone)]
pub struct JobDraft {
    /// Its name within the tenant.
    pub name: JobName,
    /// Where the manifest defines it.
    pub place: Place,
    /// When it is due; none for a job that the schedule never starts.
    pub schedule: Option<Schedule>,
    /// The tenant's policy with what the job sets of its own.
    pub policy: Policy,
    /// The tenant's limits with what the job lowers.
    pub limits: JobLimits,
    /// What its handler is given.
    pub payload: Payload,
    /// What else it asks for.
    pub wishes: Wishes,
}

/// What a scheduled run's handler is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// These bytes: JSON from the manifest's `payload`, or nothing.
    Inline(Vec<u8>),
    /// The content of a file in the tenant's folder.
    File {
        /// Relative to the folder of the manifest.
        path: String,
        /// Where the manifest says so.
        place: Place,
    },
}

/// A job that is refused, and why.
#[derive(Debug, Clone)]
pub struct RefusedJob {
    /// Its name, where that much could be read.
    pub name: Option<JobName>,
    /// Everything that is wrong with it.
    pub problems: Problems,
}

/// Reads a manifest's text. The jobs come in the file's order, each taken or refused on its own.
///
/// # Errors
/// What is wrong with the file as a whole: then none of its jobs can be taken.
pub fn read(
    file: &Path,
    text: &str,
    tenant: &TenantSettings,
    zones: &Zones,
) -> Result<Vec<Result<JobDraft, RefusedJob>>, Problems> {
    let mut root = Section::new("", Place::file(file), tree::parse(file, text)?);
    let jobs = root.take_node("jobs");
    let mut problems = root.finish();
    let jobs = match jobs {
        Some(Node { value: Value::Array(jobs), .. }) if !jobs.is_empty() => jobs,
        Some(other) => {
            let problem = Problem::of(other.place, "jobs is not a list of jobs").hint("write [[jobs]] above each job");
            problems.push(problem);
            Vec::new()
        }
        None => {
            problems
                .push(Problem::of(Place::file(file), "the manifest has no jobs").hint("write [[jobs]] above each job"));
            Vec::new()
        }
    };
    // Beyond what the tenant may have, jobs are not even read: a manifest of a megabyte holds a hundred thousand.
    let most = tenant.quota.jobs_max as usize;
    if let Some(first) = jobs.get(most) {
        let reason = format!("the manifest has {} jobs, and the tenant may have {most} (jobs_max)", jobs.len());
        problems.push(Problem::of(first.place.clone(), reason));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut names = BTreeSet::new();
    let job = |(n, node): (usize, Node)| read_one(n + 1, node, tenant, zones, &mut names);
    Ok(jobs.into_iter().enumerate().map(job).collect())
}

/// Reads the n-th job, from 1. `names` are those taken before it.
fn read_one(
    n: usize,
    mut node: Node,
    tenant: &TenantSettings,
    zones: &Zones,
    names: &mut BTreeSet<JobName>,
) -> Result<JobDraft, RefusedJob> {
    let place = node.place.clone();
    let (name, called) = match &mut node.value {
        Value::Table(table) => read_name(n, &place, table.remove("name")),
        _ => (Err(Problem::of(place.clone(), "a job is a table").hint("write [[jobs]] above each job")), None),
    };
    let title = called.as_ref().map_or_else(|| format!("jobs[{n}]"), |name| format!("jobs.{name}"));
    let mut problems = Problems::default();
    let draft = match Section::of(title, node) {
        Ok(section) => read_body(section, tenant, zones, &mut problems),
        Err(_) => None, // told by the name's problem
    };
    match name {
        Ok(name) if !names.insert(name.clone()) => {
            let reason = format!("the job {name} is defined twice in this file; the first one stays");
            problems = Problem::of(place.clone(), reason).into();
        }
        Ok(_) => {}
        Err(problem) => {
            let rest = std::mem::replace(&mut problems, problem.into());
            problems.append(rest);
        }
    }
    match (draft, called) {
        (Some((schedule, policy, limits, payload, wishes)), Some(name)) if problems.is_empty() => {
            Ok(JobDraft { name, place, schedule, policy, limits, payload, wishes })
        }
        (_, name) => Err(RefusedJob { name, problems }),
    }
}

/// The name, or what is wrong with it; and the name again for titles.
fn read_name(n: usize, job: &Place, node: Option<Node>) -> (Result<JobName, Problem>, Option<JobName>) {
    let key = format!("jobs[{n}].name");
    let Some(node) = node else {
        let problem = Problem { key, ..Problem::of(job.clone(), "the job has no name") };
        return (Err(problem.hint("write name = \"nightly-report\"")), None);
    };
    let name =
        reader::text(&node).and_then(|text| text.parse::<JobName>().map_err(|error| Wrong::new(error.to_string())));
    match name {
        Ok(name) => (Ok(name.clone()), Some(name)),
        Err(Wrong { reason, hint }) => (Err(Problem { place: node.place, key, value: None, reason, hint }), None),
    }
}

type Body = (Option<Schedule>, Policy, JobLimits, Payload, Wishes);

fn read_body(mut job: Section, tenant: &TenantSettings, zones: &Zones, problems: &mut Problems) -> Option<Body> {
    let (policy, limits) = read_job(&mut job, tenant);
    let schedule = read_schedule(&mut job, zones);
    let payload = read_payload(&mut job, &limits);
    let wishes = wishes::read(&mut job);
    if let Some(schedule) = &schedule {
        check_gap(&mut job, schedule, tenant);
    }
    // What is wrong with the operator's own policy is told with the configuration.
    let told = tenant.policy.problems(None);
    for (key, reason) in policy.problems(schedule.as_ref().map(Schedule::least_gap)) {
        if told.iter().any(|(known, _)| *known == key) {
            continue;
        }
        // A key that the operator has set is told at the job's own key that does not go with it.
        let own = [key, "max_late", "every", "schedule"].into_iter().find(|own| job.place_of(own).is_some());
        job.problem(own.unwrap_or(key), Wrong::new(format!("the policy cannot be kept: {key}: {reason}")));
    }
    problems.append(job.finish());
    Some((schedule, policy, limits, payload?, wishes))
}

fn read_schedule(job: &mut Section, zones: &Zones) -> Option<Schedule> {
    let zone =
        job.take("timezone", |node| zones.get(&reader::text(node)?).map_err(|error| Wrong::new(error.to_string())));
    let cron = job.take("schedule", |node| {
        // With an unknown zone the expression is checked all the same.
        let zone = zone.clone().unwrap_or_else(Zone::utc);
        Schedule::cron(&reader::text(node)?, &zone).map_err(|error| Wrong::new(error.to_string()))
    });
    let every = job.take("every", |node| {
        let period = reader::duration(node, &(std::time::Duration::ZERO..=std::time::Duration::MAX))?;
        Schedule::every(period).map_err(|error| Wrong::new(error.to_string()))
    });
    let written = |key| job.place_of(key).is_some();
    let (has_cron, has_every, has_zone) = (written("schedule"), written("every"), written("timezone"));
    if has_cron && has_every {
        job.problem("every", Wrong::new("a job has either a schedule or an interval").hint("remove one of the two"));
    }
    if has_zone && !has_cron {
        job.problem("timezone", Wrong::new("a zone means nothing without a schedule").hint("remove it"));
    }
    cron.or(every)
}

/// Slots lie at least `min_interval` apart.
fn check_gap(job: &mut Section, schedule: &Schedule, tenant: &TenantSettings) {
    let (gap, least) = (schedule.least_gap(), tenant.quota.min_interval);
    if gap < least {
        let show = |d| humantime::format_duration(d).to_string();
        let reason = format!("it is due every {}, and {} must lie between two slots", show(gap), show(least));
        let key = if job.place_of("schedule").is_some() { "schedule" } else { "every" };
        job.problem(key, Wrong::new(reason).hint("the operator can lower min_interval for the tenant"));
    }
}

fn read_payload(job: &mut Section, limits: &JobLimits) -> Option<Payload> {
    let inline = job.take_node("payload");
    let file = job.take_node("payload_file");
    let read = |key, node: Node| match key {
        "payload" => json::bytes(&node).and_then(|bytes| match u64::try_from(bytes.len()) {
            Ok(len) if len <= limits.payload_max => Ok(Payload::Inline(bytes)),
            _ => Err(Wrong::new(format!("it is larger than payload_max ({})", shown_size(limits.payload_max)))),
        }),
        _ => payload_path(&node).map(|path| Payload::File { path, place: node.place }),
    };
    let (key, node) = match (inline, file) {
        (None, None) => return Some(Payload::Inline(Vec::new())),
        (Some(_), Some(_)) => {
            job.problem("payload_file", Wrong::new("a job has one payload").hint("remove payload or payload_file"));
            return None;
        }
        (Some(node), None) => ("payload", node),
        (None, Some(node)) => ("payload_file", node),
    };
    read(key, node).map_err(|wrong| job.problem(key, wrong)).ok()
}

/// The path is opened beneath the tenant's folder, where links cannot lead out; this only says so in better words.
fn payload_path(node: &Node) -> Result<String, Wrong> {
    let text = reader::text(node)?;
    let hint = "name a file in the tenant's own folder, relative to the manifest";
    let refuse = |reason| Err(Wrong::new(reason).hint(hint));
    if text.is_empty() || text.contains('\0') {
        return refuse("it is not a path");
    }
    let path = Path::new(&text);
    if path.is_absolute() {
        return refuse("an absolute path leads out of the tenant's folder");
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return refuse("a path with .. leads out of the tenant's folder");
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
