//! `leasehold trigger`: starts a run on demand.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use clap::Args;
use leasehold::clock;
use leasehold_lease::id::{DemandId, JobKey, RunId, RunKey};
use leasehold_lease::op::{self, TriggerAnswer};
use leasehold_lease::run::Outcome;
use leasehold_lease::time::Millis;
use leasehold_store::{Checked, JobView, LeaseStore, RunView, StoreError};
use serde::Serialize;
use ulid::Ulid;

use super::error::CliError;
use super::exec::{failure_text, print_output};
use super::output::{Output, Table};
use super::patience::patiently;
use super::record::{self, RunRecord};
use super::runs::colour;
use super::text::{brief, plain};
use super::{Exit, Global, payload, select, store};

/// The arguments of `leasehold trigger`.
#[derive(Debug, Args)]
pub(super) struct Trigger {
    /// The job: tenant/name, or name for the tenant "default"
    job: JobKey,
    /// What the handler is given: JSON, or @FILE for a file's bytes as they are [default: the job's own payload]
    #[arg(long, value_name = "JSON|@FILE")]
    payload: Option<String>,
    /// The run's id, so that asking again does not start another [default: a new one]
    #[arg(long, value_name = "ID", value_parser = select::new_id)]
    id: Option<DemandId>,
    /// Wait for the run's end, print its output, and exit by its outcome
    #[arg(long)]
    wait: bool,
}

/// Between two looks at a run that is waited for.
const LOOK: Duration = Duration::from_millis(250);

/// How long a store that does not answer is asked for a run that is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// From one look to the next whether a host offers the job of a run that is waited for.
const CHECK_OFFERED_EVERY: Duration = Duration::from_secs(60);

/// What was asked for.
#[derive(Debug, Serialize)]
struct Triggered {
    job: String,
    run: String,
    status: &'static str,
}

impl Trigger {
    /// Asks for the run, and waits for its end if that is wanted.
    ///
    /// # Errors
    /// See [`CliError`].
    pub(super) async fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        let config = global.load()?;
        let tenant = config.tenant(&self.job.tenant);
        let payload = self.payload(tenant.limits.payload_max)?;
        let store = store::open_to_change(&config.store).await?;
        let known = select::known(store.as_ref(), &self.job).await?;
        let id = self.id.clone().map_or_else(new_id, Ok)?;
        let pending_max = tenant.policy.pending_max;
        let key = RunKey { job: self.job.clone(), run: RunId::OnDemand(id.clone()) };
        let trigger = op::Trigger { id, payload, pending_max };
        let status = match patiently(|| store.trigger(&self.job, &trigger)).await?.answer {
            TriggerAnswer::Stored => "pending",
            TriggerAnswer::Exists(status) => status.word(),
            TriggerAnswer::Ended if self.wait => return Err(CliError::Pruned { run: key }),
            TriggerAnswer::Ended => "ended",
            TriggerAnswer::Full => return Err(CliError::PendingFull { job: self.job.clone(), pending_max }),
        };
        let long = op::unoffered_after(tenant.policy.lease);
        if status == "pending" {
            warn_if_not_offered(&known, long);
        }
        if self.wait {
            let Checked { now, answer } = wait(store.as_ref(), &key, long).await?;
            return tell(&answer, now, out);
        }
        let triggered = Triggered { job: key.job.to_string(), run: key.run.to_string(), status };
        if out.is_json() {
            out.object(&triggered)?;
        } else {
            let mut table = Table::new(&["JOB", "RUN", "STATUS"]);
            let plain = super::output::Colour::Plain;
            table.row(vec![(plain, triggered.job), (plain, triggered.run), (colour(status), status.to_owned())]);
            out.text(&table.render(out.is_terminal(), out.paint()))?;
        }
        Ok(Exit::Success)
    }

    fn payload(&self, most: u64) -> Result<Option<Vec<u8>>, CliError> {
        let Some(text) = &self.payload else { return Ok(None) };
        let bytes = payload::read(text, most)?;
        if bytes.len() as u64 > most { Err(CliError::PayloadSize { most }) } else { Ok(Some(bytes)) }
    }
}

/// A run of a job that no host offers waits, and is given up in the end.
fn warn_if_not_offered(known: &Checked<JobView>, long: Duration) {
    let JobView { key, last_offered, .. } = &known.answer;
    match last_offered {
        Some(at) if known.now.since(*at) <= long => {}
        Some(at) => {
            tracing::warn!("no host has offered {key} since {at}: the run waits for one, and is given up if none comes")
        }
        None => tracing::warn!("no host has ever offered {key}: the run waits for one, and is given up if none comes"),
    }
}

/// Waits until the run has ended. Its steps are shown on a terminal, and it is said when no host has offered its job for
/// `long`.
async fn wait(store: &dyn LeaseStore, key: &RunKey, long: Duration) -> Result<Checked<RunView>, CliError> {
    let mut heard = clock::mono();
    let mut asked = heard;
    let mut steps = Steps { shown: String::new(), terminal: io::stderr().is_terminal() };
    loop {
        match store.show(key).await {
            Ok(Checked { now, answer: Some(answer) }) if answer.run.status.is_final() => {
                return Ok(Checked { now, answer });
            }
            Ok(Checked { now, answer: Some(answer) }) => {
                heard = clock::mono();
                steps.show(&answer, now);
                if heard.since(asked) >= CHECK_OFFERED_EVERY && record::status(&answer.run, now) != "running" {
                    asked = heard;
                    // What fails here fails above as well.
                    if let Ok(Checked { now, answer: Some(answer) }) = store.job(&key.job).await {
                        warn_if_not_offered(&Checked { now, answer }, long);
                    }
                }
            }
            Ok(Checked { answer: None, .. }) => return Err(CliError::NoRun { run: key.clone() }),
            Err(error @ StoreError::Rejected { .. }) => return Err(error.into()),
            // The run goes on without this command, and may well end while the store is away.
            Err(error) if clock::mono().since(heard) >= PATIENCE => return Err(error.into()),
            Err(_) => {}
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Shows where a run stands when that changes.
struct Steps {
    shown: String,
    terminal: bool,
}

impl Steps {
    fn show(&mut self, view: &RunView, now: Millis) {
        let runner = view.run.current().map_or(String::new(), |attempt| {
            format!(" on {}, attempt {}", brief(&attempt.runner, 40), attempt.attempt)
        });
        let step = format!("{} is {}{runner}", plain(&view.key.to_string()), record::status(&view.run, now));
        if self.terminal && step != self.shown {
            // Nobody is left to be told that standard error is closed.
            let _ = writeln!(io::stderr().lock(), "leasehold: {step}");
            self.shown = step;
        }
    }
}

/// What came of it, as `leasehold exec` tells it.
fn tell(view: &RunView, now: Millis, out: &mut Output) -> Result<Exit, CliError> {
    let succeeded = matches!(view.run.outcome, Some(Outcome::Success { .. }));
    if out.is_json() {
        out.object(&RunRecord::with_attempts(view, now))?;
        return Ok(if succeeded { Exit::Success } else { Exit::Failed });
    }
    let key = view.key.to_string();
    match &view.run.outcome {
        Some(Outcome::Success { output, cut }) => {
            if *cut {
                tracing::warn!("only the first {} bytes of the output are kept (output_kept)", output.len());
            }
            print_output(output, out).map(|()| Exit::Success)
        }
        Some(Outcome::Failed(failure)) => Err(CliError::Handler(failure_text(&key, failure))),
        Some(Outcome::Interrupted { reason }) => {
            Err(CliError::Handler(format!("{} was interrupted: {}", plain(&key), plain(reason))))
        }
        None => Err(CliError::NoRun { run: view.key.clone() }),
    }
}

/// Sorts by the time at which it was made.
fn new_id() -> Result<DemandId, CliError> {
    let mut random = [0; 16];
    getrandom::fill(&mut random)?;
    let ms = u64::try_from(clock::wall().0).unwrap_or(0);
    let id = Ulid::from_parts(ms, u128::from_be_bytes(random)).to_string();
    Ok(id.parse().expect("26 letters and digits are an id"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_ids_are_ids_that_no_command_takes_for_something_else() {
        let (one, other) = (new_id().unwrap(), new_id().unwrap());
        assert_ne!(one, other);
        assert_eq!(select::new_id(one.as_str()), Ok(one));
    }

    #[test]
    fn a_payload_beyond_the_bound_is_refused() {
        let trigger = |payload: &str| Trigger {
            job: "a/x".parse().unwrap(),
            payload: Some(payload.to_owned()),
            id: None,
            wait: false,
        };
        assert_eq!(trigger("[1]").payload(3).unwrap(), Some(b"[1]".to_vec()));
        assert!(matches!(trigger("[12]").payload(3), Err(CliError::PayloadSize { most: 3 })));
        assert!(matches!(trigger("@/dev/zero").payload(3), Err(CliError::PayloadFile { .. })));
    }
}
