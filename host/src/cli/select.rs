//! Which run of a job is meant.

use std::str::FromStr;

use leasehold_lease::id::{DemandId, JobKey, NameError, RunId, RunKey};
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

/// `latest`, a slot (a time of RFC 3339), or the id of an on-demand run.
impl FromStr for RunChoice {
    type Err = NameError;
    fn from_str(text: &str) -> Result<RunChoice, NameError> {
        if text == "latest" {
            return Ok(RunChoice::Latest);
        }
        if let Ok(slot) = value::instant(text) {
            return Ok(RunChoice::Run(RunId::Slot(Slot(slot))));
        }
        text.parse::<DemandId>().map(|id| RunChoice::Run(RunId::OnDemand(id)))
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
            let newest = answer.into_iter().next();
            newest.map(|answer| Checked { now, answer }).ok_or_else(|| CliError::NoRunsYet { job: job.clone() })
        }
        RunChoice::Run(run) => {
            let key = RunKey { job: job.clone(), run: run.clone() };
            let Checked { now, answer } = store.check(std::slice::from_ref(&key)).await?;
            let found = answer.into_iter().next().flatten();
            found.map(|answer| Checked { now, answer }).ok_or(CliError::NoRun { run: key })
        }
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
        let id = "01JNX".parse::<DemandId>().unwrap();
        assert_eq!("01JNX".parse(), Ok(RunChoice::Run(RunId::OnDemand(id))));
        assert!("a b".parse::<RunChoice>().is_err() && "".parse::<RunChoice>().is_err());
    }
}
