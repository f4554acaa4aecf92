//! PgBouncer, a pooler in front of PostgreSQL.

use rustix::process::Signal;
use tokio::net::TcpStream;

use crate::ServerError;
use crate::account::Account;
use crate::folder::{Folder, Storage};
use crate::port::Port;
use crate::postgres::{PASSWORD, Postgres, USER};
use crate::process::{Launch, Process};
use crate::program;
use crate::spawner::{self, DeathSignal};

const SERVER: &str = "PgBouncer";

/// When a connection to the server goes back into the pool: its `pool_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolMode {
    /// When the client leaves.
    Session,
    /// After each transaction, so that the next statement may meet another server process.
    Transaction,
    /// After each statement.
    Statement,
}

/// A private PgBouncer in front of a [`Postgres`].
#[derive(Debug)]
pub struct PgBouncer {
    process: Process,
    port: Port,
    _folder: Folder,
}

impl PgBouncer {
    /// Starts one in front of `postgres` with PgBouncer's own settings.
    ///
    /// # Errors
    ///
    /// [`ServerError::Missing`] where PgBouncer is not installed; others where it does not get ready.
    pub async fn start(postgres: &Postgres, mode: PoolMode) -> Result<PgBouncer, ServerError> {
        PgBouncer::start_with(postgres, mode, &[]).await
    }

    /// Starts one with more lines of pgbouncer.ini, name and value, in its section `[pgbouncer]`.
    ///
    /// # Errors
    ///
    /// As [`PgBouncer::start`].
    pub async fn start_with(
        postgres: &Postgres,
        mode: PoolMode,
        settings: &[(&str, &str)],
    ) -> Result<PgBouncer, ServerError> {
        spawner::need_setpriv()?;
        let program = program::find(SERVER, "pgbouncer", &[])?;
        let account = Account::other_than_root(SERVER)?;
        let folder = Folder::create(Storage::Memory)?;
        let port = Port::reserve()?;
        let users = folder.write("users.txt", &format!("\"{USER}\" \"{PASSWORD}\"\n"), account)?;
        let (port_line, users) = (port.number().to_string(), users.display().to_string());
        let ours = [
            ("listen_addr", "127.0.0.1"),
            ("listen_port", &port_line),
            ("unix_socket_dir", ""),
            ("auth_type", "scram-sha-256"),
            ("auth_file", &users),
            ("admin_users", USER),
            ("pool_mode", mode.word()),
        ];
        let lines: String = ours.iter().chain(settings).map(|(name, value)| format!("{name} = {value}\n")).collect();
        let server = postgres.port();
        let config = format!("[databases]\n* = host=127.0.0.1 port={server}\n\n[pgbouncer]\n{lines}");
        let config = folder.write("pgbouncer.ini", &config, account)?;
        let process = Process::start(Launch {
            server: SERVER,
            program,
            arguments: vec![config.into()],
            account,
            death_signal: DeathSignal::Kill,
            stop_signal: Signal::TERM,
            log: folder.path().join("log"),
        })?;
        let mut pooler = PgBouncer { process, port, _folder: folder };
        pooler.wait_ready().await?;
        Ok(pooler)
    }

    /// The address of PostgreSQL through it.
    pub fn url(&self) -> String {
        format!("postgres://{USER}:{PASSWORD}@127.0.0.1:{}/postgres", self.port())
    }

    /// Its port on 127.0.0.1, the same as long as the value lives.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Shuts it down; clients are cut off.
    ///
    /// # Errors
    ///
    /// Where it does not run or does not end.
    pub async fn stop(&mut self) -> Result<(), ServerError> {
        self.process.stop().await
    }

    /// Kills it.
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

    /// Lets a frozen pooler go on.
    ///
    /// # Errors
    ///
    /// Where the signal cannot be sent.
    pub fn thaw(&mut self) -> Result<(), ServerError> {
        self.process.thaw()
    }

    /// Starts it on the same port, after shutting it down where it runs.
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
        let port = self.port();
        // It listens when it has read its settings and serves.
        self.process.wait_ready(async || TcpStream::connect(("127.0.0.1", port)).await.is_ok()).await
    }
}

impl PoolMode {
    fn word(self) -> &'static str {
        match self {
            PoolMode::Session => "session",
            PoolMode::Transaction => "transaction",
            PoolMode::Statement => "statement",
        }
    }
}
