//! A host as a process, again and again the same.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::clock;
use crate::record::{Record, Told};
use crate::witness::{instant, job_number};

/// How often the end of a process is looked for.
const LOOK: Duration = Duration::from_millis(2);

/// A host that runs or does not; killed when dropped.
#[derive(Debug)]
pub(crate) struct Host {
    number: usize,
    /// The variables that make it this one, for every command.
    variables: Vec<(String, String)>,
    binary: PathBuf,
    folder: PathBuf,
    record: Arc<Record>,
    child: Option<Child>,
}

impl Host {
    /// One that does not run yet.
    pub(crate) fn new(
        number: usize,
        binary: PathBuf,
        folder: PathBuf,
        variables: Vec<(String, String)>,
        record: Arc<Record>,
    ) -> Host {
        Host { number, variables, binary, folder, record, child: None }
    }

    /// Starts `leasehold serve`. What it prints is also kept in the folder.
    pub(crate) fn start(&mut self) {
        assert!(self.child.is_none(), "h{} runs already", self.number);
        let mut command = Command::new(&self.binary);
        let log = self.append("log");
        command.args(["serve", "--json", "--log-format", "json"]).current_dir(&self.folder);
        command.envs(self.variables.iter().cloned()).env("LEASEHOLD_HOST__NAME", format!("h{}", self.number));
        command.env_remove("RUST_LOG").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{}: {e}", self.binary.display()));
        let lines = BufReader::new(child.stdout.take().expect("it was asked for"));
        let (record, number, mut copy) = (Arc::clone(&self.record), self.number, self.append("events"));
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let at = clock::mono();
                // The last line of one that was killed may be half of one.
                if let Ok(event) = serde_json::from_str(&line) {
                    record.told(told(at, number, &event));
                }
                writeln!(copy, "{}.{:06} {line}", at.as_secs(), at.subsec_micros()).expect("the disk has room");
            }
        });
        self.child = Some(child);
    }

    /// SIGKILL: it dies on the spot.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it can be killed");
            child.wait().expect("it has ended");
        }
    }

    /// The process, while it runs.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Sends a signal, unless it has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            kill_process(Pid::from_child(child), signal).expect("it is there");
        }
    }

    /// Waits for its end, for this long.
    pub(crate) async fn ended(&mut self, patience: Duration) -> Option<ExitStatus> {
        let end = clock::mono() + patience;
        let child = self.child.as_mut()?;
        loop {
            if let Some(status) = child.try_wait().expect("it is our child") {
                self.child = None;
                return Some(status);
            }
            if clock::mono() >= end {
                return None;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn append(&self, what: &str) -> File {
        let file = self.folder.join(format!("h{}.{what}", self.number));
        File::options().create(true).append(true).open(file).expect("a file in our folder")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended already; then there is nothing to kill.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn told(at: Duration, host: usize, event: &Value) -> Told {
    let text = |key: &str| event[key].as_str();
    Told {
        at,
        host,
        word: text("event").unwrap_or_default().to_owned(),
        job: text("job").and_then(|job| job_number(job.rsplit('/').next()?)),
        slot: text("run").and_then(instant),
        attempt: event["attempt"].as_u64().and_then(|attempt| u32::try_from(attempt).ok()),
        detail: text("detail").unwrap_or_default().to_owned(),
    }
}
