//! From what a guest says to the store: lines are collected and written in batches, each batch once.

use std::sync::Arc;
use std::time::Duration;

use leasehold_lease::id::{RunKey, Token};
use leasehold_lease::log::{LogLevel, LogLine};
use leasehold_lease::write::{Change, Quota, Write, Written};
use leasehold_sandbox as sandbox;
use leasehold_store::{LeaseStore, StoreError};
use tokio::sync::mpsc;

use crate::clock;
use crate::throttle::Throttle;

/// Lines in one batch.
const BATCH: usize = 256;

/// Bytes of a batch. A line is far shorter (`log_line_max`).
const BATCH_MAX: u64 = 4 << 20;

/// Takes a guest's lines on the guest's thread. Unbounded, but the sandbox bounds what one attempt may say.
pub(super) struct Sink(mpsc::UnboundedSender<LogLine>);

impl sandbox::LogSink for Sink {
    fn line(&self, line: sandbox::LogLine) {
        let target = match line.source {
            sandbox::LogSource::Guest => line.target,
            source => source.as_str().to_owned(),
        };
        let level = match line.level {
            sandbox::LogLevel::Trace => LogLevel::Trace,
            sandbox::LogLevel::Debug => LogLevel::Debug,
            sandbox::LogLevel::Info => LogLevel::Info,
            sandbox::LogLevel::Warn => LogLevel::Warn,
            sandbox::LogLevel::Error => LogLevel::Error,
        };
        // When the writer has ended, the attempt is lost and nothing of it is recorded.
        let _ = self.0.send(LogLine { at: clock::wall(), level, target, message: line.message, fields: line.fields });
    }
}

/// A sink, and what writes its lines.
pub(super) fn channel(
    store: Arc<dyn LeaseStore>,
    run: RunKey,
    token: Token,
    stored: u64,
    throttle: Arc<Throttle>,
) -> (Sink, Writer) {
    let (lines, inbox) = mpsc::unbounded_channel();
    (Sink(lines), Writer { store, run, token, stored, throttle, inbox, number: 0, over_quota: false })
}

/// Writes one attempt's lines.
pub(super) struct Writer {
    store: Arc<dyn LeaseStore>,
    run: RunKey,
    token: Token,
    /// What the tenant may store.
    stored: u64,
    throttle: Arc<Throttle>,
    inbox: mpsc::UnboundedReceiver<LogLine>,
    number: u64,
    /// It has been told that lines are dropped, which a guest can bring about with every line.
    over_quota: bool,
}

impl Writer {
    /// Writes until every sink is gone, or the store refuses because the attempt has lost its run. While the store does
    /// not answer, a batch is sent again every `pause`; after `patience` the rest of the log is given up.
    pub(super) async fn run(mut self, pause: Duration, patience: Duration) {
        let mut batch = Vec::new();
        while self.inbox.recv_many(&mut batch, BATCH).await > 0 {
            for lines in batches(std::mem::take(&mut batch)) {
                self.number += 1;
                if !self.write(lines, pause, patience).await {
                    return;
                }
            }
        }
    }

    async fn write(&mut self, lines: Vec<LogLine>, pause: Duration, patience: Duration) -> bool {
        self.throttle.call(lines.iter().map(LogLine::size).sum()).await;
        let give_up = clock::mono() + patience;
        let write = Write {
            run: self.run.run.clone(),
            token: self.token,
            number: self.number,
            quota: Quota { value: BATCH_MAX, stored: self.stored },
            change: Change::AppendLog(lines),
        };
        loop {
            // S13: the same number again writes nothing twice.
            match self.store.write(&self.run.job, &write).await.map(|stamped| stamped.answer) {
                Ok(Written::OverQuota) => {
                    if !std::mem::replace(&mut self.over_quota, true) {
                        let why =
                            "log lines of this attempt are dropped: its tenant stores as much as it may (stored_max)";
                        tracing::warn!(run = %self.run, "{why}");
                    }
                    return true;
                }
                Ok(Written::TooLarge) => {
                    tracing::error!(run = %self.run, "log lines are dropped: the store takes no batch of {BATCH_MAX} bytes");
                    return true;
                }
                Ok(written) => return written == Written::Done,
                Err(error) if clock::mono() >= give_up || matches!(error, StoreError::Rejected { .. }) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(run = %self.run, error, "the log could not be stored; the rest of it is lost");
                    return false;
                }
                Err(error) => {
                    tracing::debug!(run = %self.run, error = &error as &dyn std::error::Error, "log lines wait for the store");
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }
}

/// Cuts lines that came together into batches of which the store takes each.
fn batches(lines: Vec<LogLine>) -> Vec<Vec<LogLine>> {
    let mut batches = vec![Vec::new()];
    let mut bytes = 0;
    for line in lines {
        let size = line.size();
        if bytes + size > BATCH_MAX {
            batches.push(Vec::new());
            bytes = 0;
        }
        bytes += size;
        batches.last_mut().expect("there is one from the start").push(line);
    }
    batches
}

#[cfg(test)]
mod tests {
    use leasehold_lease::time::Millis;

    use super::*;

    #[test]
    fn lines_as_long_as_any_are_cut_into_batches_that_the_store_takes_and_none_is_lost() {
        let long = |at| LogLine {
            at: Millis(at),
            level: LogLevel::Info,
            target: String::new(),
            message: "x".repeat(1 << 20),
            fields: Vec::new(),
        };
        let lines: Vec<LogLine> = (0..11).map(long).collect();
        let quota = Quota { value: BATCH_MAX, stored: u64::MAX };
        let cut = batches(lines.clone());
        assert_eq!(cut.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 3]);
        assert!(cut.iter().all(|lines| !Change::AppendLog(lines.clone()).too_large(&quota)));
        assert!(Change::AppendLog(lines.clone()).too_large(&quota));
        assert_eq!(cut.concat(), lines);
    }
}
