//! Which run of a job is meant.

use std::str::FromStr;

use leasehold_lease::id::{DemandId, JobKey, NameError, RunId, RunKey};
use leasehold_lease::time::Slot;
use leasehold_store::{Checked, HistoryQuery, JobView, LeaseStore, RunView};

use super::error::CliError;
use super::patience::patiently;
use super::value;

/// One run of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RunChoice {
    /// The newest one: see [`leasehold_lease::order`].
    Latest,
    /// This one.
    Run(RunId),
}

/// A text that names no run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoRunChoice {
    /// It was meant to be a slot.
    #[error("{0}")]
    Slot(String),
    /// It cannot be an id.
    #[error("it is neither a slot, such as 2026-11-29T17:09:00Z, nor \"latest\", nor the id of a run: {0}")]
    Id(NameError),
}

/// `latest`, a slot (a time of RFC 3339), or else the id of an on-demand run.
impl FromStr for RunChoice {
    type Err = NoRunChoice;
    fn from_str(text: &str) -> Result<RunChoice, NoRunChoice> {
        if text == LATEST {
            return Ok(RunChoice::Latest);
        }
        let run = match value::instant(text) {
            Ok(slot) => RunId::Slot(Slot(slot)),
            Err(reason) if value::is_almost_an_instant(text) => return Err(NoRunChoice::Slot(reason)),
            Err(_) => RunId::OnDemand(text.parse().map_err(NoRunChoice::Id)?),
        };
        Ok(RunChoice::Run(run))
    }
}

/// The word for the newest run.
const LATEST: &str = "latest";

/// The id of an on-demand run that is to be: one that no command takes for something else.
pub(super) fn new_id(text: &str) -> Result<DemandId, String> {
    if text == LATEST || value::instant(text).is_ok() || value::is_almost_an_instant(text) {
        return Err(format!(
            "commands would take it for {}; write another",
            if text == LATEST { "the latest run" } else { "a slot" }
        ));
    }
    text.parse().map_err(|error: NameError| error.to_string())
}

/// Reads the chosen run.
///
/// # Errors
/// There is none, or the store does not answer.
pub(super) async fn find(
    store: &dyn LeaseStore,
    job: &JobKey,
    choice: &RunChoice,
) -> Result<Checked<RunView>, CliError> {
    match choice {
        RunChoice::Latest => {
            let query = HistoryQuery { job: Some(job.clone()), limit: 1, ..HistoryQuery::default() };
            let Checked { now, answer } = patiently(|| store.history(&query)).await?;
            match answer.into_iter().next() {
                Some(answer) => Ok(Checked { now, answer }),
                None => known(store, job).await.and(Err(CliError::NoRunsYet { job: job.clone() })),
            }
        }
        RunChoice::Run(run) => {
            let key = RunKey { job: job.clone(), run: run.clone() };
            let Checked { now, answer } = patiently(|| store.show(&key)).await?;
            match answer {
                Some(answer) => Ok(Checked { now, answer }),
                None => known(store, job).await.and(Err(CliError::NoRun { run: key })),
            }
        }
    }
}

/// The job as the store knows it.
///
/// # Errors
/// It has never heard of it, or does not answer.
pub(super) async fn known(store: &dyn LeaseStore, job: &JobKey) -> Result<Checked<JobView>, CliError> {
    let Checked { now, answer } = patiently(|| store.job(job)).await?;
    match answer {
        Some(answer) => Ok(Checked { now, answer }),
        None => Err(CliError::UnknownJob { job: job.clone() }),
    }
}

/// The run that is meant, whether there is one or not.
///
/// # Errors
/// The latest is meant and there is none, or the store does not answer.
pub(super) async fn key(store: &dyn LeaseStore, job: &JobKey, choice: &RunChoice) -> Result<RunKey, CliError> {
    match choice {
        RunChoice::Latest => Ok(find(store, job, choice).await?.answer.key),
        RunChoice::Run(run) => Ok(RunKey { job: job.clone(), run: run.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_lease::time::Millis;

    #[test]
    fn a_run_is_named_by_its_slot_its_id_or_latest() {
        let slot = RunChoice::Run(RunId::Slot(Slot(Millis(1_741_503_600_000))));
        assert_eq!("latest".parse(), Ok(RunChoice::Latest));
        assert_eq!("2025-03-09T07:00:00.000Z".parse(), Ok(slot.clone()));
        assert_eq!("2025-03-09T03:00:00-04:00".parse(), Ok(slot));
        let id = |text: &str| text.parse().map(|id| RunChoice::Run(RunId::OnDemand(id)));
        assert_eq!("order-42".parse::<RunChoice>().ok(), id("order-42").ok());
        for text in ["", "a b", "\u{1b}[2J", "2025-03-09T07:00:00", "2025-03-09", "2025-03-09T07:00:00.0001Z"] {
            assert!(text.parse::<RunChoice>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_id_that_reads_like_something_else_is_refused() {
        for text in ["latest", "2025-03-09T07:00:00Z", "2025-03-09T07:00", "", "a b"] {
            assert!(new_id(text).is_err(), "{text}");
        }
        assert!(new_id("order-42").is_ok());
    }
}
