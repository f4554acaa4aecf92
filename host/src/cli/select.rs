//! Which run of a job is meant.

use std::str::FromStr;

use leasehold_lease::id::{JobKey, RunId, RunKey};
use leasehold_lease::time::Slot;
use leasehold_store::{Checked, HistoryQuery, LeaseStore, RunView};

use super::error::CliError;
use super::value;

/// One run of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RunChoice {
    /// The one that was due last.
    Latest,
    /// This one.
    Run(RunId),
}

/// A text that names no run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is neither a slot, such as 2026-11-29T17:09:00Z, nor \"latest\"")]
pub(super) struct NoRunChoice;

/// `latest`, or a slot (a time of RFC 3339).
impl FromStr for RunChoice {
    type Err = NoRunChoice;
    fn from_str(text: &str) -> Result<RunChoice, NoRunChoice> {
        if text == "latest" {
            return Ok(RunChoice::Latest);
        }
        value::instant(text).map(|slot| RunChoice::Run(RunId::Slot(Slot(slot)))).map_err(|_| NoRunChoice)
    }
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
            let Checked { now, answer } = store.history(&query).await?;
            match answer.into_iter().next() {
                Some(answer) => Ok(Checked { now, answer }),
                None => known(store, job).await.and(Err(CliError::NoRunsYet { job: job.clone() })),
            }
        }
        RunChoice::Run(run) => {
            let key = RunKey { job: job.clone(), run: run.clone() };
            let Checked { now, answer } = store.show(&key).await?;
            match answer {
                Some(answer) => Ok(Checked { now, answer }),
                None => known(store, job).await.and(Err(CliError::NoRun { run: key })),
            }
        }
    }
}

/// Whether the store has ever heard of the job.
///
/// # Errors
/// It has not, or does not answer.
pub(super) async fn known(store: &dyn LeaseStore, job: &JobKey) -> Result<(), CliError> {
    let is_known = store.jobs().await?.answer.iter().any(|view| view.key == *job);
    if is_known { Ok(()) } else { Err(CliError::UnknownJob { job: job.clone() }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_lease::time::Millis;

    #[test]
    fn a_run_is_named_by_its_slot_or_latest() {
        let slot = RunChoice::Run(RunId::Slot(Slot(Millis(1_741_503_600_000))));
        assert_eq!("latest".parse(), Ok(RunChoice::Latest));
        assert_eq!("2025-03-09T07:00:00.000Z".parse(), Ok(slot.clone()));
        assert_eq!("2025-03-09T03:00:00-04:00".parse(), Ok(slot));
        for text in ["yesterday", "2025-03-09", ""] {
            assert_eq!(text.parse::<RunChoice>(), Err(NoRunChoice), "{text}");
        }
    }
}
