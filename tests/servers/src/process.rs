//! A server's processes: start, readiness, stop, kill, freeze.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::ServerError;
use crate::account::Account;
use crate::spawner::{self, DeathSignal};
use crate::tree::{self, State};

/// How long a server may take for a change of its state.
const LIMIT: Duration = Duration::from_secs(30);
/// How often a state is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How many lines of the log an error shows.
const LOG_LINES: usize = 40;

/// What is started, again and again the same.
#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) server: &'static str,
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) account: Option<Account>,
    pub(crate) death_signal: DeathSignal,
    /// What asks it to end in good order.
    pub(crate) stop_signal: Signal,
    /// Takes everything it prints.
    pub(crate) log: PathBuf,
}

/// A server that runs or does not.
#[derive(Debug)]
pub(crate) struct Process {
    launch: Launch,
    child: Option<Child>,
    frozen: Option<Frozen>,
}

/// The processes that were stopped, and what kills them should we die: they themselves could not.
#[derive(Debug)]
struct Frozen {
    pids: Vec<Pid>,
    guard: Child,
}

impl Process {
    /// Starts it. Whether it is ready is another question: [`Process::wait_ready`].
    pub(crate) fn start(launch: Launch) -> Result<Process, ServerError> {
        let mut process = Process { launch, child: None, frozen: None };
        process.start_again()?;
        Ok(process)
    }

    /// Starts one that does not run.
    pub(crate) fn start_again(&mut self) -> Result<(), ServerError> {
        let Launch { program, arguments, account, death_signal, log, .. } = &self.launch;
        let open = File::options().create(true).append(true).open(log).map_err(ServerError::file("open", log))?;
        let copy = open.try_clone().map_err(ServerError::file("open", log))?;
        let mut command = spawner::command(program, *account, *death_signal);
        command.args(arguments).stdin(Stdio::null()).stdout(open).stderr(copy);
        let child = spawner::spawn(command);
        self.child = Some(child.map_err(|source| ServerError::Run { program: program.display().to_string(), source })?);
        Ok(())
    }

    /// Waits until `ready` says so, asking again and again.
    pub(crate) async fn wait_ready(&mut self, ready: impl AsyncFn() -> bool) -> Result<(), ServerError> {
        let result = tokio::time::timeout(LIMIT, async {
            while !ready().await {
                let child = self.child.as_mut().ok_or(ServerError::NotRunning { server: self.launch.server })?;
                if let Ok(Some(status)) = child.try_wait() {
                    self.child = None;
                    return Err(ServerError::Ended { server: self.launch.server, status, log: self.log_tail() });
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
            Ok(())
        });
        let result = result.await;
        result.unwrap_or_else(|_| Err(self.late("ready", LIMIT)))
    }

    /// The main process.
    pub(crate) fn pid(&self) -> Result<Pid, ServerError> {
        let child = self.child.as_ref().ok_or(ServerError::NotRunning { server: self.launch.server })?;
        Ok(Pid::from_child(child))
    }

    pub(crate) fn is_running(&self) -> bool {
        self.child.is_some()
    }

    /// Asks it to end in good order and waits for that.
    pub(crate) async fn stop(&mut self) -> Result<(), ServerError> {
        self.thaw()?;
        self.signal(self.pid()?, self.launch.stop_signal)?;
        self.wait_gone(&[]).await
    }

    /// Ends all its processes at once, as a power cut would.
    pub(crate) async fn kill(&mut self) -> Result<(), ServerError> {
        let pids = match self.frozen.take() {
            Some(frozen) => frozen.disarm(),
            None => self.stop_all().await?,
        };
        for &pid in &pids {
            self.signal(pid, Signal::KILL)?;
        }
        self.wait_gone(&pids).await
    }

    /// Stops all its processes where they are. Connections stay open and nobody answers.
    pub(crate) async fn freeze(&mut self) -> Result<(), ServerError> {
        if self.frozen.is_some() {
            return Ok(());
        }
        let pids = self.stop_all().await?;
        let guard = guard(&pids).map_err(|source| ServerError::Run { program: "sh".into(), source })?;
        self.frozen = Some(Frozen { pids, guard });
        Ok(())
    }

    /// Lets all its processes go on. Does nothing where they are not frozen.
    pub(crate) fn thaw(&mut self) -> Result<(), ServerError> {
        let Some(frozen) = self.frozen.take() else { return Ok(()) };
        // The main process last: it must not see its children as they were.
        for pid in frozen.disarm().into_iter().rev() {
            self.signal(pid, Signal::CONT)?;
        }
        Ok(())
    }

    /// Kills all its processes without waiting for a runtime. Does nothing where it does not run.
    pub(crate) fn end(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let main = Pid::from_child(&child);
        // Stopped first, so that it starts no others. What cannot be signalled has ended, and a backend that is missed
        // here ends by itself without its server.
        let _ = tree::signal(main, Signal::STOP);
        let descendants = tree::descendants(main).unwrap_or_default();
        let frozen = self.frozen.take().map(Frozen::disarm).unwrap_or_default();
        let others: Vec<Pid> = descendants.into_iter().chain(frozen).filter(|&pid| pid != main).collect();
        for &pid in [main].iter().chain(&others) {
            let _ = tree::signal(pid, Signal::KILL);
        }
        let _ = child.wait();
        for pid in others {
            // Killed like its parent, so this waits for no longer than the system takes to end it.
            tree::wait(pid);
        }
    }

    /// The server's name.
    pub(crate) fn server(&self) -> &'static str {
        self.launch.server
    }

    /// The error of not having got into `state` within `limit`.
    pub(crate) fn late(&self, state: &'static str, limit: Duration) -> ServerError {
        ServerError::Late { server: self.launch.server, state, seconds: limit.as_secs(), log: self.log_tail() }
    }

    /// The end of what it printed.
    pub(crate) fn log_tail(&self) -> String {
        let log = fs::read(&self.launch.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let log = log.unwrap_or_else(|error| format!("(cannot read {}: {error})", self.launch.log.display()));
        let lines = log.lines().count();
        log.lines().skip(lines.saturating_sub(LOG_LINES)).collect::<Vec<_>>().join("\n")
    }

    /// Stops the main process and all below it. Each is still before its children are looked for, so that none is missed.
    async fn stop_all(&self) -> Result<Vec<Pid>, ServerError> {
        let mut pids = vec![self.pid()?];
        let mut next = 0;
        while let Some(&pid) = pids.get(next) {
            self.signal(pid, Signal::STOP)?;
            self.wait("frozen", || tree::state(pid) != State::Running).await?;
            pids.extend(tree::children(pid).map_err(ServerError::file("list", "/proc"))?);
            next += 1;
        }
        Ok(pids)
    }

    /// Waits until the main process and `others` have ended.
    async fn wait_gone(&mut self, others: &[Pid]) -> Result<(), ServerError> {
        let main = self.pid()?;
        self.wait("gone", || tree::state(main) == State::Gone).await?;
        if let Some(mut child) = self.child.take() {
            // Has ended, as we just saw: this takes its exit status and does not wait.
            child.wait().map_err(|source| ServerError::Run { program: self.launch.server.into(), source })?;
        }
        self.wait("gone", || others.iter().all(|&pid| tree::state(pid) == State::Gone)).await?;
        others.iter().copied().for_each(tree::reap);
        Ok(())
    }

    async fn wait(&self, state: &'static str, reached: impl Fn() -> bool) -> Result<(), ServerError> {
        let wait = async {
            while !reached() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::time::timeout(LIMIT, wait).await.map_err(|_| self.late(state, LIMIT))
    }

    fn signal(&self, pid: Pid, signal: Signal) -> Result<(), ServerError> {
        let server = self.launch.server;
        tree::signal(pid, signal).map_err(|source| ServerError::Signal { server, pid: pid.as_raw_pid(), source })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

impl Frozen {
    /// Takes the guard away and gives back the processes.
    fn disarm(mut self) -> Vec<Pid> {
        // Killed before its input ends, or it would do its work.
        let _ = self.guard.kill();
        let _ = self.guard.wait();
        self.pids
    }
}

/// Kills `pids` when its input ends, which we hold: that is when we die.
fn guard(pids: &[Pid]) -> std::io::Result<Child> {
    let pids = pids.iter().map(|pid| pid.as_raw_pid().to_string());
    let mut guard = Command::new("sh");
    guard.args(["-c", r#"read -r _; kill -KILL "$@""#, "guard"]).args(pids);
    guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn()
}
