//! Programs that others wrote, run as processes: the yardsticks, and the clients that servers come with.

use std::io::{ErrorKind, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::place::Missing;
use crate::clock::since_boot;

/// What is read of a program's output at most, in bytes.
const OUTPUT_LIMIT: u64 = 1 << 20;

/// How often it is looked whether a program has ended. Programs measure themselves, so this costs them nothing.
const LOOK: Duration = Duration::from_millis(20);

/// A program, its arguments and what else it is given.
pub(super) struct Tool<'a> {
    /// Its names, the first that is installed is taken.
    pub(super) names: &'a [&'a str],
    /// Where it comes from, for people who do not have it.
    pub(super) package: &'a str,
    /// Its arguments. No secret is among them: every user of the machine can read those.
    pub(super) arguments: Vec<String>,
    /// Its environment, besides ours. Secrets go here.
    pub(super) environment: &'a [(&'static str, String)],
    /// Its standard input.
    pub(super) input: &'a str,
    /// How long it may take.
    pub(super) limit: Duration,
}

impl Tool<'_> {
    /// Runs it. Answers what it writes to standard output; what is missing, where it is not installed or fails.
    pub(super) async fn run(self) -> Result<String, Missing> {
        let mut running = self.start()?;
        let name = running.name.clone();
        let failed = |reason: String| Missing(format!("{name} failed: {reason}"));

        let (input, text) = (running.child.stdin.take(), self.input.to_owned());
        let (output, errors) = (running.child.stdout.take(), running.child.stderr.take());
        // A program may end without reading its input; why, it says elsewhere.
        let write = tokio::task::spawn_blocking(move || input.map(|mut pipe| pipe.write_all(text.as_bytes())));
        let output = tokio::task::spawn_blocking(move || read(output));
        let errors = tokio::task::spawn_blocking(move || read(errors));

        let status = running.ended(self.limit).await.map_err(&failed)?;
        let _ = write.await;
        let told = |text: Result<std::io::Result<String>, tokio::task::JoinError>| match text {
            Ok(text) => text.map_err(|error| failed(error.to_string())),
            Err(error) => Err(failed(error.to_string())),
        };
        let (output, errors) = (told(output.await)?, told(errors.await)?);
        if status.success() {
            return Ok(output);
        }
        let why =
            errors.lines().chain(output.lines()).find(|line| !line.trim().is_empty()).unwrap_or("it does not say why");
        // One line, of which nothing can steer a terminal.
        let why: String = why.chars().take(300).map(|c| if c.is_control() { ' ' } else { c }).collect();
        Err(failed(format!("{status}: {}", why.trim())))
    }

    fn start(&self) -> Result<Running, Missing> {
        for name in self.names {
            let started = Command::new(name)
                .args(&self.arguments)
                .envs(self.environment.iter().map(|(name, value)| (name, value)))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn();
            match started {
                Ok(child) => return Ok(Running { name: (*name).to_owned(), child }),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(Missing(format!("{name} cannot be started: {error}"))),
            }
        }
        let names = self.names.join(" or ");
        Err(Missing(format!("{names} is not installed or not in PATH; it comes with {}", self.package)))
    }
}

/// A program that runs, and is killed when nobody waits for it any more.
struct Running {
    name: String,
    child: Child,
}

impl Running {
    /// Waits for its end, and brings it about where it takes too long.
    async fn ended(&mut self, limit: Duration) -> Result<ExitStatus, String> {
        let begun = since_boot();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if since_boot().saturating_sub(begun) > limit => {
                    return Err(format!("it did not end within {} s", limit.as_secs()));
                }
                Ok(None) => tokio::time::sleep(LOOK).await,
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(pipe: Option<impl Read>) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(OUTPUT_LIMIT).read_to_end(&mut bytes)?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool<'a>(names: &'a [&'a str], arguments: &[&str], input: &'a str, limit: Duration) -> Tool<'a> {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Tool { names, package: "Debian's package coreutils", arguments, environment: &[], input, limit }
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_program_gets_its_input_and_its_output_is_answered() {
        let output = tool(&["no-such-program-here", "cat"], &[], "hello\n", LONG).run().await;
        assert_eq!(output, Ok("hello\n".to_owned()));
    }

    #[tokio::test]
    async fn a_program_that_is_missing_is_told_with_how_to_get_it() {
        let Missing(why) = tool(&["no-such-program-here"], &[], "", LONG).run().await.unwrap_err();
        assert!(why.contains("no-such-program-here is not installed") && why.contains("coreutils"), "{why}");
    }

    #[tokio::test]
    async fn a_program_that_fails_says_why() {
        let Missing(why) =
            tool(&["sh"], &["-c", "echo no \u{1b}rights >&2; exit 3"], "", LONG).run().await.unwrap_err();
        assert_eq!(why, "sh failed: exit status: 3: no  rights");
    }

    #[tokio::test]
    async fn a_program_that_does_not_end_is_ended() {
        let Missing(why) = tool(&["sleep"], &["1000"], "", Duration::from_millis(50)).run().await.unwrap_err();
        assert!(why.contains("did not end"), "{why}");
    }
}
