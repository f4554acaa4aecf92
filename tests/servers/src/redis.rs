//! Redis, and Valkey, which speaks the same.

mod cluster;
mod command;

use std::path::PathBuf;

use rustix::process::Signal;

use crate::ServerError;
use crate::folder::{Folder, Storage};
use crate::port::Port;
use crate::process::{Launch, Process};
use crate::program;
use crate::spawner::{self, DeathSignal};

pub use cluster::RedisCluster;

pub(crate) const VALKEY: &str = "Valkey";

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedisKind {
    /// Redis.
    Redis,
    /// Valkey: where no package manager has it, scripts/setup unpacks it into the project's cache folder.
    Valkey,
}

/// How a server is set up.
#[derive(Debug, Clone, Default)]
pub struct RedisOptions {
    /// Where its data lies.
    pub storage: Storage,
    /// Keeps every write (append-only file, appendfsync always); otherwise nothing survives its end.
    pub persistent: bool,
    /// What clients must know, letters and digits: `requirepass`.
    pub password: Option<String>,
    /// Lines of redis.conf, name and value, in addition to and after our own.
    pub settings: Vec<(String, String)>,
}

/// A private Redis or Valkey server.
#[derive(Debug)]
pub struct Redis {
    process: Process,
    port: Port,
    password: Option<String>,
    _folder: Folder,
}

impl Redis {
    /// Starts one that keeps nothing and asks for no password.
    ///
    /// # Errors
    ///
    /// [`ServerError::Missing`] where it is not installed; others where it does not get ready.
    pub async fn start(kind: RedisKind) -> Result<Redis, ServerError> {
        Redis::start_with(kind, RedisOptions::default()).await
    }

    /// Starts one as asked for.
    ///
    /// # Errors
    ///
    /// As [`Redis::start`].
    pub async fn start_with(kind: RedisKind, options: RedisOptions) -> Result<Redis, ServerError> {
        spawner::need_setpriv()?;
        let program = program::find(kind.server(), kind.program(), &kind.folders())?;
        let folder = Folder::create(options.storage)?;
        let data = folder.create_data(None)?;
        let port = Port::reserve()?;
        let config = folder.write("redis.conf", &config(&options, &data, port.number()), None)?;
        let process = Process::start(Launch {
            server: kind.server(),
            program,
            arguments: vec![config.into()],
            account: None,
            death_signal: DeathSignal::Kill,
            stop_signal: Signal::TERM,
            log: folder.path().join("log"),
        })?;
        let mut redis = Redis { process, port, password: options.password, _folder: folder };
        redis.wait_ready().await?;
        Ok(redis)
    }

    /// `redis://127.0.0.1:port/`, with `:password@` where it asks for one.
    pub fn url(&self) -> String {
        let password = self.password.as_ref().map(|password| format!(":{password}@")).unwrap_or_default();
        format!("redis://{password}127.0.0.1:{}/", self.port())
    }

    /// Its port on 127.0.0.1, the same as long as the value lives.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Shuts it down in good order.
    ///
    /// # Errors
    ///
    /// Where it does not run or does not end.
    pub async fn stop(&mut self) -> Result<(), ServerError> {
        self.process.stop().await
    }

    /// Kills it, as a power cut would. After [`Redis::restart`] it knows what it knew if it is persistent, else nothing.
    ///
    /// # Errors
    ///
    /// Where it does not run or does not end.
    pub async fn kill(&mut self) -> Result<(), ServerError> {
        self.process.kill().await
    }

    /// Stops it where it is: connections stay open, nobody answers.
    ///
    /// # Errors
    ///
    /// Where it does not run.
    pub async fn freeze(&mut self) -> Result<(), ServerError> {
        self.process.freeze().await
    }

    /// Lets a frozen server go on.
    ///
    /// # Errors
    ///
    /// Where the signal cannot be sent.
    pub fn thaw(&mut self) -> Result<(), ServerError> {
        self.process.thaw()
    }

    /// Starts it on the same port and data, after shutting it down where it runs.
    ///
    /// # Errors
    ///
    /// Where it does not end or does not get ready.
    pub async fn restart(&mut self) -> Result<(), ServerError> {
        if self.process.is_running() {
            self.stop().await?;
        }
        self.process.start_again()?;
        self.wait_ready().await
    }

    /// The end of its log, for a failure's message.
    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }

    async fn wait_ready(&mut self) -> Result<(), ServerError> {
        let (port, password) = (self.port(), self.password.clone());
        // Who still loads its data says LOADING, and only to those who have told the password.
        let ready = async || {
            command::send(port, password.as_deref(), "PING").await.is_ok_and(|answer| answer.starts_with("+PONG"))
        };
        self.process.wait_ready(ready).await
    }
}

impl RedisKind {
    fn server(self) -> &'static str {
        match self {
            RedisKind::Redis => "Redis",
            RedisKind::Valkey => VALKEY,
        }
    }

    fn program(self) -> &'static str {
        match self {
            RedisKind::Redis => "redis-server",
            RedisKind::Valkey => "valkey-server",
        }
    }

    fn folders(self) -> Vec<PathBuf> {
        match self {
            RedisKind::Redis => Vec::new(),
            RedisKind::Valkey => vec![program::cache().join("valkey/usr/bin")],
        }
    }
}

fn config(options: &RedisOptions, data: &std::path::Path, port: u16) -> String {
    let (data, port) = (data.display().to_string(), port.to_string());
    let append = if options.persistent { "yes" } else { "no" };
    let ours = [
        ("bind", "127.0.0.1"),
        ("port", &port),
        ("dir", &data),
        ("daemonize", "no"),
        ("save", ""),
        ("appendonly", append),
        ("appendfsync", "always"),
    ];
    let password = options.password.as_deref().map(|password| ("requirepass", password));
    let asked = options.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    ours.into_iter().chain(password).chain(asked).map(|(name, value)| line(name, value)).collect()
}

/// One line of redis.conf. Only the empty value needs quotes; some values are several words and must not have them.
fn line(name: &str, value: &str) -> String {
    if value.is_empty() { format!("{name} \"\"\n") } else { format!("{name} {value}\n") }
}
