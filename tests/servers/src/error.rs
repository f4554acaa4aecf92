//! What can go wrong with a server, told with the end of its log.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// Why a server is not as the test wants it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The program is not installed here. The only error that a test may skip for: see [`crate::or_skip`].
    #[error("missing: {server}, no program {program} in PATH or {elsewhere}; scripts/setup installs it")]
    Missing {
        /// The server, as people call it.
        server: &'static str,
        /// The program looked for.
        program: &'static str,
        /// Where else it was looked for.
        elsewhere: String,
    },
    /// A file or folder of the server could not be made or read.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// PostgreSQL refuses to run as root, and there is no account to run it as.
    #[error("{server} refuses to run as root, and /etc/passwd has neither the user postgres nor nobody")]
    NoAccount {
        /// The server.
        server: &'static str,
    },
    /// No port on loopback is free.
    #[error("no port between {first} and {last} on 127.0.0.1 is free")]
    NoPort {
        /// The first that was tried.
        first: u16,
        /// The last that was tried.
        last: u16,
    },
    /// The operating system did not start the program.
    #[error("cannot run {program}")]
    Run {
        /// The program, or a helper of it.
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// A program that does its work and ends, failed.
    #[error("{program} failed ({status}):\n{output}")]
    Failed {
        /// The program.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// What it printed.
        output: String,
    },
    /// The server ended before it was ready.
    #[error("{server} ended before it was ready ({status}); the end of its log:\n{log}")]
    Ended {
        /// The server.
        server: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// The end of its log.
        log: String,
    },
    /// The server did not get where it should within the time.
    #[error("{server} was not {state} after {seconds} s; the end of its log:\n{log}")]
    Late {
        /// The server.
        server: &'static str,
        /// The state waited for: ready, stopped, frozen, gone.
        state: &'static str,
        /// How long was waited.
        seconds: u64,
        /// The end of its log.
        log: String,
    },
    /// A signal could not be sent to a process of the server.
    #[error("cannot send a signal to process {pid} of {server}")]
    Signal {
        /// The server.
        server: &'static str,
        /// The process.
        pid: i32,
        /// Why not.
        source: io::Error,
    },
    /// The server does not run, and the call needs one that does.
    #[error("{server} does not run; restart() starts it")]
    NotRunning {
        /// The server.
        server: &'static str,
    },
    /// The server answered a command with an error or not at all.
    #[error("{server} did not carry out {command}: {answer}")]
    Command {
        /// The server.
        server: &'static str,
        /// What was asked of it.
        command: String,
        /// What came back.
        answer: String,
    },
    /// The proxy or the tarpit could not listen.
    #[error("cannot listen on 127.0.0.1")]
    Listen(#[source] io::Error),
}

impl ServerError {
    /// The error and why it came about, in one line.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text += &format!(": {error}");
            cause = error.source();
        }
        text
    }

    /// For `map_err` on an operation with a file.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> ServerError {
        let path = path.into();
        move |source| ServerError::File { action, path, source }
    }
}
