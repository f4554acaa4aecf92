//! WASI commands: programs that know nothing of the contract. Their payload is standard input, their output is all of standard
//! output, their log is standard error, and what a handler is told about its run stands in variables of the environment.

use std::sync::{Mutex, PoisonError};

use wasmtime::Store;
use wasmtime_wasi::I32Exit;
use wasmtime_wasi::p2::bindings::CommandPre;

use crate::attempt::Attempt;
use crate::guest::{Called, Guest, Stage};
use crate::invocation::RunFacts;
use crate::limits::Breach;

/// What a command has written to standard output.
#[derive(Debug)]
pub(crate) struct Written {
    bytes: Mutex<Vec<u8>>,
    limit: usize,
}

impl Written {
    /// Of at most this many bytes.
    pub(crate) fn new(limit: usize) -> Written {
        Written { bytes: Mutex::default(), limit }
    }

    /// Takes more of it.
    ///
    /// # Errors
    ///
    /// [`Breach::Output`], and nothing is taken, when that would be too much.
    pub(crate) fn write(&self, more: &[u8]) -> Result<(), Breach> {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if more.len() > self.limit - bytes.len() {
            return Err(Breach::Output { limit: self.limit });
        }
        bytes.extend_from_slice(more);
        Ok(())
    }

    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs a command to its end. Zero is success, whether it returned or exited.
pub(crate) async fn call(pre: &CommandPre<Guest>, store: &mut Store<Guest>, attempt: &Attempt) -> Called {
    let ended = match pre.instantiate_async(&mut *store).await {
        Err(error) => return Called::Failed(Stage::Start, error),
        Ok(command) => command.wasi_cli_run().call_run(&mut *store).await,
    };
    let failed = |code: i32| Called::Failed(Stage::Running, I32Exit(code).into());
    match ended {
        Ok(Ok(())) => Called::Returned(Ok(attempt.take_written())),
        Ok(Err(())) => failed(1),
        Err(error) if matches!(error.downcast_ref(), Some(I32Exit(0))) => Called::Returned(Ok(attempt.take_written())),
        Err(error) => Called::Failed(Stage::Running, error),
    }
}

/// What a command is told about its run. Facts of its metadata are `LEASEHOLD_META_` and the key in upper case, everything
/// but letters and digits an underscore.
pub(crate) fn variables(run: &RunFacts) -> Vec<(String, String)> {
    let facts = [
        ("RUN_ID", run.run_id.clone()),
        ("TENANT", run.tenant.clone()),
        ("JOB", run.job.clone()),
        ("SLOT_MS", run.slot_ms.to_string()),
        ("ATTEMPT", run.attempt.to_string()),
        ("MAX_ATTEMPTS", run.max_attempts.to_string()),
        ("FENCE", run.fence.to_string()),
        ("REASON", run.reason.clone()),
    ];
    let facts = facts.into_iter().map(|(name, value)| (format!("LEASEHOLD_{name}"), value));
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let more = run
        .metadata
        .iter()
        .map(|(key, value)| (format!("LEASEHOLD_META_{}", key.chars().map(upper).collect::<String>()), value.clone()));
    facts.chain(more).collect()
}

impl Attempt {
    fn take_written(&self) -> Vec<u8> {
        self.written.as_ref().map_or_else(Vec::new, Written::take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_output_is_taken_up_to_its_limit_and_no_byte_further() {
        let written = Written::new(5);
        assert_eq!(written.write(b"abc"), Ok(()));
        assert_eq!(written.write(b"def"), Err(Breach::Output { limit: 5 }));
        assert_eq!(written.write(b"de"), Ok(()));
        assert_eq!(written.write(b""), Ok(()));
        assert_eq!(written.take(), b"abcde");
    }
}
