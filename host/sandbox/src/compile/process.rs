//! The host's side: starts a compiler, feeds it, listens within bounds, ends it when its time is up, and says what came of it.

use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::confine::whole_seconds;
use super::protocol::{Answer, MAX_ANSWER, Request, shown};
use super::{CompileLimits, CompilerCommand};
use crate::plugin::PluginBytes;
use crate::refusal::{CompileLimit, PluginError, Refusal};

/// Starts compilers.
#[derive(Debug)]
pub(crate) struct Compiler {
    pub(crate) command: CompilerCommand,
    pub(crate) limits: CompileLimits,
    /// Processor time of the first try.
    pub(crate) first_try: Duration,
    /// What compiled code must fit.
    pub(crate) engine: String,
    /// Its code counts fuel.
    pub(crate) metered: bool,
}

impl Compiler {
    /// Compiles into the file `output` in the folder `dir`, which is there already and empty. Blocks until the compiler has
    /// ended: call it on a thread of its own, with which the compiler ends.
    ///
    /// # Errors
    ///
    /// [`PluginError::Refused`] when the compiler went beyond a limit or broke off, [`PluginError::Host`] when there was none.
    pub(crate) fn run(
        &self,
        bytes: &PluginBytes,
        limits: &CompileLimits,
        dir: &Path,
        output: &str,
    ) -> Result<Answer, PluginError> {
        let mut child =
            self.start(bytes.len() as u64, limits, dir, output).map_err(|error| self.not_started(&error))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let talk = match pipes {
            (Some(stdin), Some(stdout), Some(stderr)) => Talk::start(stdin, stdout, stderr, bytes),
            _ => Err(io::Error::other("it has no pipes")),
        };
        let said = talk.as_ref().ok().map(|talk| talk.answer.recv_timeout(limits.wall));
        // When its output has ended it is about to end with the status it chose; in all other cases it has no more to say.
        end(&mut child);
        let status = child.wait().map_err(|error| self.not_started(&error))?;
        let talk = talk.map_err(|error| self.not_started(&error))?;
        match said {
            Some(Ok(Said::All(said))) => self.judge(status, limits, &said, &talk.last_words()),
            Some(Ok(Said::TooMuch)) => Err(nonsense(format!("more than {MAX_ANSWER} bytes"))),
            _ => Err(Refusal::CompileLimit { limit: CompileLimit::Wall(limits.wall) }.into()),
        }
    }

    /// What the first try may use: the same but for time.
    pub(crate) fn first_try(&self) -> CompileLimits {
        let Compiler { limits, first_try, .. } = self;
        CompileLimits { cpu: limits.cpu.min(*first_try), wall: limits.wall.min(first_try.saturating_mul(3)), ..*limits }
    }

    fn start(&self, size: u64, limits: &CompileLimits, dir: &Path, output: &str) -> io::Result<Child> {
        let request = Request {
            parent: std::process::id(),
            engine: self.engine.clone(),
            metered: self.metered,
            size,
            output: output.to_owned(),
            limits: *limits,
        };
        Command::new(&self.command.program)
            .args(&self.command.args)
            .arg(serde_json::to_string(&request)?)
            .current_dir(dir)
            // Nothing of the host's environment, where secrets may be.
            .env_clear()
            // What a terminal sends to the host is not for the compiler: it ends with the host.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }

    /// What the end of a compiler says, and its answer where it gave one.
    fn judge(
        &self,
        status: ExitStatus,
        limits: &CompileLimits,
        said: &[u8],
        last_words: &str,
    ) -> Result<Answer, PluginError> {
        let beyond = |limit| Err(Refusal::CompileLimit { limit }.into());
        match status.signal().map(Signal::from_named_raw) {
            Some(Some(Signal::XCPU)) => beyond(CompileLimit::Cpu(Duration::from_secs(whole_seconds(limits.cpu)))),
            Some(Some(Signal::XFSZ)) => beyond(CompileLimit::Output(limits.output)),
            Some(Some(Signal::KILL)) => Err(Refusal::CompilerKilled.into()),
            // The words of Rust's runtime, which is the same program's. Whoever forged them would change this message only.
            Some(_) if last_words.contains("memory allocation of") => beyond(CompileLimit::Memory(limits.memory)),
            Some(_) if last_words.contains("has overflowed its stack") => {
                Err(Refusal::CompilerBroke { how: "it overflowed its stack".to_owned() }.into())
            }
            Some(_) => {
                tracing::warn!(said = last_words, "a compiler broke off");
                let how = format!("it was ended by signal {}", status.signal().unwrap_or_default());
                Err(Refusal::CompilerBroke { how }.into())
            }
            None if status.success() => Answer::read(said).map_err(|error| nonsense(shown(&error.to_string()))),
            None => {
                tracing::warn!(said = last_words, program = %self.command.program.display(), "a compiler gave no answer");
                Err(nonsense(format!("it ended with {status}")))
            }
        }
    }

    fn not_started(&self, error: &io::Error) -> PluginError {
        let program = self.command.program.display();
        PluginError::Host(Arc::new(io::Error::new(
            error.kind(),
            format!("the compiler {program} did not run: {error}"),
        )))
    }
}

fn nonsense(how: String) -> PluginError {
    Refusal::CompilerAnswer { how }.into()
}

/// Ends a compiler and whatever it may have started. It has not been waited for, so its number is still its own.
fn end(child: &mut Child) {
    if let Err(error) = kill_process_group(Pid::from_child(child), Signal::KILL) {
        tracing::debug!(%error, "a compiler had ended");
    }
}

/// The three pipes of a compiler, each on a thread of its own: it may write while it should read, or never read at all.
///
/// The threads are not waited for: if a compiler had been taken over and left somebody behind who holds a pipe open, that
/// must not hold up others.
struct Talk {
    answer: Receiver<Said>,
    last_words: Receiver<String>,
}

enum Said {
    All(Vec<u8>),
    TooMuch,
}

/// How much of what a compiler says on standard error is kept.
const LAST_WORDS: usize = 4 * 1024;

/// How long the end of a pipe may take to be seen when the process has ended.
const AFTERMATH: Duration = Duration::from_secs(5);

impl Talk {
    fn start(stdin: ChildStdin, stdout: ChildStdout, stderr: ChildStderr, bytes: &PluginBytes) -> io::Result<Talk> {
        let (tell_answer, answer) = sync_channel(1);
        let (tell_last_words, last_words) = sync_channel(1);
        let bytes = bytes.clone();
        spawn("compiler-in", move || feed(stdin, &bytes))?;
        spawn("compiler-out", move || listen(stdout, &tell_answer))?;
        spawn("compiler-err", move || {
            // Nobody listens any more when the compiler's time was up.
            let _ = tell_last_words.send(tail(stderr));
        })?;
        Ok(Talk { answer, last_words })
    }

    fn last_words(&self) -> String {
        self.last_words.recv_timeout(AFTERMATH).unwrap_or_default()
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).stack_size(128 * 1024).spawn(work).map(drop)
}

fn feed(mut stdin: ChildStdin, bytes: &[u8]) {
    // A compiler that ends before it has read all is judged by how it ended.
    let _ = stdin.write_all(bytes);
}

fn listen(stdout: ChildStdout, tell: &SyncSender<Said>) {
    let mut said = Vec::new();
    let read = stdout.take(MAX_ANSWER as u64 + 1).read_to_end(&mut said);
    let whole = read.is_ok() && said.len() <= MAX_ANSWER;
    // Nobody listens any more when the compiler's time was up.
    let _ = tell.send(if whole { Said::All(said) } else { Said::TooMuch });
}

/// The end of what is said, escaped.
fn tail(mut stderr: ChildStderr) -> String {
    let mut kept = Vec::new();
    let mut piece = [0; LAST_WORDS];
    loop {
        match stderr.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => {
                kept.extend_from_slice(&piece[..read]);
                let surplus = kept.len().saturating_sub(LAST_WORDS);
                kept.drain(..surplus);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    shown(&String::from_utf8_lossy(&kept))
}
