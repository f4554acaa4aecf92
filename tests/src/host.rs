//! A host as a process.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use leasehold::clock;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::PATIENCE;

/// How long one host is listened to where others may tell something, too.
const MOMENT: Duration = Duration::from_millis(5);

/// A running `leasehold serve --json`; killed when dropped.
#[derive(Debug)]
pub struct HostProcess {
    child: Child,
    lines: Receiver<String>,
    events: Vec<Value>,
    /// What it has told people.
    told: Arc<Mutex<String>>,
    stderr: Option<JoinHandle<()>>,
}

impl HostProcess {
    pub(crate) fn start(mut command: Command) -> HostProcess {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("leasehold can be started");
        let stdout = BufReader::new(child.stdout.take().expect("it was asked for"));
        let mut stderr = BufReader::new(child.stderr.take().expect("it was asked for"));
        let (send, lines) = channel();
        std::thread::spawn(move || {
            // The test has ended when nobody takes the line.
            stdout.lines().map_while(Result::ok).take_while(|line| send.send(line.clone()).is_ok()).for_each(drop);
        });
        let told = Arc::new(Mutex::new(String::new()));
        let telling = Arc::clone(&told);
        let stderr = std::thread::spawn(move || {
            let mut line = Vec::new();
            // What was read until it broke off is what there is to show.
            while stderr.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                telling.lock().expect("nobody panics with it").push_str(&String::from_utf8_lossy(&line));
                line.clear();
            }
        });
        HostProcess { child, lines, events: Vec::new(), told, stderr: Some(stderr) }
    }

    /// Waits for an event of this kind of this job, also one that was told before, and answers it.
    pub fn wait_for(&mut self, kind: &str, job: &str) -> Value {
        self.wait_until(&format!("{kind} of {job}"), |event| event["event"] == kind && event["job"] == job)
    }

    /// Waits for an event that fits.
    pub fn wait_until(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(event) = self.events.iter().find(|event| fits(event)) {
            return event.clone();
        }
        let end = clock::mono() + PATIENCE;
        loop {
            match self.lines.recv_timeout(end.since(clock::mono())) {
                Ok(line) => {
                    let event: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("not JSON: {e}: {line}"));
                    self.events.push(event.clone());
                    if fits(&event) {
                        return event;
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.fail(&format!("no {what} in {PATIENCE:?}")),
                Err(RecvTimeoutError::Disconnected) => self.fail(&format!("it ended without {what}")),
            }
        }
    }

    /// Waits for a moment, or until there is another event.
    pub fn listen(&mut self) {
        if let Ok(line) = self.lines.recv_timeout(MOMENT) {
            self.events.push(serde_json::from_str(&line).unwrap_or_else(|e| panic!("not JSON: {e}: {line}")));
        }
    }

    /// All events so far.
    pub fn events(&mut self) -> &[Value] {
        while let Ok(line) = self.lines.try_recv() {
            self.events.push(serde_json::from_str(&line).unwrap_or_else(|e| panic!("not JSON: {e}: {line}")));
        }
        &self.events
    }

    /// SIGKILL: the host dies on the spot.
    pub fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it has ended");
    }

    /// SIGTERM: the host hands over and ends.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the host is there");
    }

    /// Forgets the most memory that the process ever had: from now on, what it has now is the most.
    pub fn reset_peak_memory(&self) {
        std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5").expect("the host is there");
    }

    /// What a variable of its environment holds.
    pub fn variable(&self, name: &str) -> Option<String> {
        let all = std::fs::read_to_string(format!("/proc/{}/environ", self.child.id())).expect("the host is there");
        all.split('\0').find_map(|one| Some(one.split_once('=').filter(|(is, _)| *is == name)?.1.to_owned()))
    }

    /// The memory that the process has, and the most it had, in bytes.
    pub fn memory(&self) -> (u64, u64) {
        leasehold_test_servers::memory(self.child.id())
    }

    /// The processor time that the process has used.
    pub fn cpu(&self) -> Duration {
        leasehold_test_servers::processor_time(self.child.id())
    }

    /// Waits for its end. Answers how it ended and what it told people.
    pub fn ended(mut self) -> (ExitStatus, String) {
        let end = clock::mono() + PATIENCE;
        // Its output ends when it does.
        loop {
            match self.lines.recv_timeout(end.since(clock::mono())) {
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => self.fail(&format!("it did not end in {PATIENCE:?}")),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = self.child.wait().expect("it has ended");
        (status, self.read_stderr())
    }

    /// Its child processes.
    pub fn children(&self) -> Vec<u32> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("the host is there");
        let lists = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
        lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
    }

    /// How often it has told people of this so far.
    pub fn count_in_log(&self, text: &str) -> usize {
        self.told.lock().expect("the reader does not panic").matches(text).count()
    }

    /// Waits until it has told people of this.
    pub fn wait_for_log(&mut self, text: &str) {
        let end = clock::mono() + PATIENCE;
        while !self.told.lock().expect("the reader does not panic").contains(text) {
            if clock::mono() >= end {
                self.fail(&format!("it has not told of {text} in {PATIENCE:?}"));
            }
            std::thread::yield_now();
        }
    }

    fn fail(&mut self, why: &str) -> ! {
        // It may have ended already; then there is nothing to kill.
        let _ = self.child.kill();
        let events: Vec<String> = self.events.iter().map(ToString::to_string).collect();
        panic!("{why}\nevents:\n{}\nstderr:\n{}", events.join("\n"), self.read_stderr());
    }

    fn read_stderr(&mut self) -> String {
        if let Some(reader) = self.stderr.take() {
            reader.join().expect("the reader does not panic");
        }
        self.told.lock().expect("the reader does not panic").clone()
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
