//! What people ask of runs, jobs and hosts: `cancel`, `pause`, `resume`, `drain`, `unblock`.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use leasehold::{clock, plugins, zones};
use leasehold_lease::id::{JobKey, RunKey};
use leasehold_lease::op::{self, CancelAnswer, UnblockAnswer};
use leasehold_lease::run::Hold;
use leasehold_lease::time::{Millis, Slot};
use leasehold_store::{Checked, JobView};
use serde::Serialize;

use super::error::CliError;
use super::hosts::HostRow;
use super::loader::Inspector;
use super::output::Output;
use super::patience::patiently;
use super::select::{self, RunChoice};
use super::text::plain;
use super::value::{self, Until};
use super::{Exit, Global, store};

/// What comes of a run that is executed.
const TOLD: &str =
    "its host is told with the next heartbeat and stops it, by force if it has not stopped in stop_timeout";

/// How far back the newest due slot of a schedule is looked for.
const A_YEAR: Duration = Duration::from_secs(366 * 86_400);

/// The arguments of `leasehold cancel`.
#[derive(Debug, Args)]
pub(super) struct Cancel {
    /// The job: tenant/name, or name for the tenant "default"
    job: JobKey,
    /// Which run: its slot (RFC 3339), the id of one that was asked for, or "latest"
    #[arg(value_name = "SLOT|RUN-ID|latest")]
    run: RunChoice,
    /// Why, for the record
    #[arg(long, value_name = "TEXT", value_parser = value::remark, default_value = "cancelled by `leasehold cancel`")]
    reason: String,
}

/// The arguments of `leasehold pause`.
#[derive(Debug, Args)]
pub(super) struct Pause {
    /// The job: tenant/name, or name for the tenant "default"
    job: JobKey,
    /// Until this time (RFC 3339), or for a time from now (2h) [default: until it is resumed]
    #[arg(long, value_name = "TIME|DURATION", value_parser = value::until)]
    until: Option<Until>,
    /// Who and why, for the record
    #[arg(long, value_name = "TEXT", value_parser = value::remark, default_value = "paused by `leasehold pause`")]
    note: String,
}

/// The arguments of `leasehold resume`.
#[derive(Debug, Args)]
pub(super) struct Resume {
    /// The job: tenant/name, or name for the tenant "default"
    job: JobKey,
}

/// The arguments of `leasehold drain`.
#[derive(Debug, Args)]
pub(super) struct Drain {
    /// The host's name, as `leasehold hosts` shows it
    host: String,
    /// Have it take runs again
    #[arg(long)]
    off: bool,
}

/// The arguments of `leasehold unblock`.
#[derive(Debug, Args)]
pub(super) struct Unblock {
    /// The job: tenant/name, or name for the tenant "default"
    job: JobKey,
}

impl Cancel {
    /// Cancels the run.
    ///
    /// # Errors
    /// See [`CliError`].
    pub(super) async fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        let config = global.load()?;
        let store = store::open_to_change(&config.store).await?;
        select::known(store.as_ref(), &self.job).await?;
        let key = select::key(store.as_ref(), &self.job, &self.run).await?;
        let cancel = op::Cancel { run: key.run.clone(), reason: self.reason.clone() };
        let (answer, status, told) = match patiently(|| store.cancel(&self.job, &cancel)).await?.answer {
            CancelAnswer::Interrupted => ("interrupted", "interrupted", "interrupted: nobody executed it".to_owned()),
            CancelAnswer::Told => ("told", "running", TOLD.to_owned()),
            CancelAnswer::Ended(status) => ("ended", status.word(), format!("had ended before: {status}")),
            CancelAnswer::None => return Err(CliError::NoRun { run: key }),
        };
        let record = Cancelled { job: key.job.to_string(), run: key.run.to_string(), answer, status };
        say(out, &record, &format!("{}  {told}", plain(&key.to_string())))
    }
}

impl Pause {
    /// Holds the job back.
    ///
    /// # Errors
    /// See [`CliError`].
    pub(super) async fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        let config = global.load()?;
        let store = store::open_to_change(&config.store).await?;
        let known = select::known(store.as_ref(), &self.job).await?;
        let until = self.until.map(|until| until.instant(known.now));
        if let Some(until) = until.filter(|until| *until <= known.now) {
            return Err(CliError::PastUntil { until, now: known.now });
        }
        // A pause that is prolonged has begun where it began.
        let in_force = known.answer.hold.as_ref().filter(|hold| hold.holds(known.now));
        let since = in_force.map_or(Some(known.now), |hold| hold.since);
        let hold = Hold { since, until, note: self.note.clone() };
        patiently(|| store.hold(&self.job, Some(&hold))).await?;
        let how = until.map_or_else(|| "until it is resumed".to_owned(), |until| format!("until {until}"));
        let told = format!("{}  paused {how}: its slots are skipped; what runs goes on", self.job);
        say(out, &Paused::new(&self.job, &known, Some(&hold)), &told)
    }
}

impl Resume {
    /// Lets the job go.
    ///
    /// # Errors
    /// See [`CliError`].
    pub(super) async fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        let config = global.load()?;
        let store = store::open_to_change(&config.store).await?;
        let known = select::known(store.as_ref(), &self.job).await?;
        patiently(|| store.hold(&self.job, None)).await?;
        let record = Paused::new(&self.job, &known, None);
        let told = if record.was_paused { "resumed: its next slot starts" } else { "was not paused" };
        say(out, &record, &format!("{}  {told}", self.job))
    }
}

impl Drain {
    /// Asks the host.
    ///
    /// # Errors
    /// See [`CliError`].
    pub(super) async fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        let config = global.load()?;
        let store = store::open_to_change(&config.store).await?;
        let instances = patiently(|| store.drain(&self.host, !self.off)).await?;
        if instances == 0 {
            return Err(CliError::UnknownHost { host: self.host.chars().take(80).collect() });
        }
        let hosts = store.hosts().await?;
        let rows: Vec<HostRow> = hosts.answer.iter().map(|host| HostRow::new(host, hosts.now)).collect();
        let living = rows.iter().filter(|row| row.host == self.host && row.is_there()).count();
        let others = rows.iter().filter(|row| row.host != self.host && row.state == "serving").count();
        let host = plain(&self.host);
        match living {
            0 => tracing::warn!("no host called {host} is there: it has stopped, or has not been heard of for long"),
            1 => {}
            many => tracing::warn!("{many} hosts are called {host}: all of them are asked"),
        }
        if !self.off && others == 0 {
            tracing::warn!("no other host serves: until one does, slots are missed and what is triggered waits");
        }
        let record = Drained { host: self.host.clone(), drain: !self.off, instances, living };
        let what = if self.off { "takes runs again" } else { "takes nothing new; what runs goes on" };
        say(out, &record, &format!("{}  {what}, within some seconds", plain(&self.host)))
    }
}

impl Unblock {
    /// Frees the job.
    ///
    /// # Errors
    /// See [`CliError`].
    pub(super) async fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        let config = Arc::new(global.load()?);
        let store = store::open_to_change(&config.store).await?;
        let known = select::known(store.as_ref(), &self.job).await?;
        let catalog = plugins::scan(Arc::clone(&config), zones::load(), Inspector, clock::wall()).await;
        let schedule = catalog.jobs.get(&self.job).and_then(|offered| offered.spec.schedule.as_ref());
        // Without a schedule of its own here, every slot up to now counts as started: the next one is the first.
        let newest_due = schedule.and_then(|schedule| schedule.latest_at_or_before(known.now, known.now - A_YEAR));
        let unblock = op::Unblock { newest_due: newest_due.unwrap_or(Slot(known.now)) };
        let unblocked = patiently(|| store.unblock(&self.job, &unblock)).await?;
        let (answer, told) = match unblocked.answer {
            UnblockAnswer::Unblocked => ("unblocked", "unblocked: its slots can start again"),
            UnblockAnswer::NotBlocked => ("not-blocked", "nothing stood in its way"),
            UnblockAnswer::Live { run } => {
                return Err(CliError::FutureRunLives { run: RunKey { job: self.job.clone(), run } });
            }
        };
        let record = Unblocked::new(&self.job, answer, unblocked.now);
        let clocks = format!("the store's clock  {}\nthis machine's     {}", record.store_now, record.host_now);
        say(out, &record, &format!("{}  {told}\n{clocks}", self.job))
    }
}

/// The object for programs, or the line for people.
fn say(out: &mut Output, record: &impl Serialize, line: &str) -> Result<Exit, CliError> {
    if out.is_json() {
        out.object(record)?
    } else {
        out.text(&format!("{line}\n"))?
    }
    Ok(Exit::Success)
}

#[derive(Debug, Serialize)]
struct Cancelled {
    job: String,
    run: String,
    /// "interrupted" (nobody executed it), "told" (its host will stop it), or "ended" (it had ended before).
    answer: &'static str,
    /// The run's status after that.
    status: &'static str,
}

#[derive(Debug, Serialize)]
struct Paused {
    job: String,
    paused: bool,
    /// Whether it was before.
    was_paused: bool,
    until: Option<String>,
    note: Option<String>,
}

impl Paused {
    fn new(job: &JobKey, known: &Checked<JobView>, hold: Option<&Hold>) -> Paused {
        Paused {
            job: job.to_string(),
            paused: hold.is_some(),
            was_paused: known.answer.hold.as_ref().is_some_and(|hold| hold.holds(known.now)),
            until: hold.and_then(|hold| hold.until).map(|until| until.to_string()),
            note: hold.map(|hold| hold.note.clone()),
        }
    }
}

#[derive(Debug, Serialize)]
struct Drained {
    host: String,
    drain: bool,
    /// Processes of this name that the store knows.
    instances: usize,
    /// Those of them that are there.
    living: usize,
}

#[derive(Debug, Serialize)]
struct Unblocked {
    job: String,
    /// "unblocked" or "not-blocked".
    answer: &'static str,
    store_now: String,
    host_now: String,
}

impl Unblocked {
    fn new(job: &JobKey, answer: &'static str, store_now: Millis) -> Unblocked {
        let (store_now, host_now) = (store_now.to_string(), clock::wall().to_string());
        Unblocked { job: job.to_string(), answer, store_now, host_now }
    }
}
