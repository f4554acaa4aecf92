//! PostgreSQL.

pub(crate) mod memory;
mod template;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::ServerError;
use crate::account::Account;
use crate::folder::{Folder, Storage};
use crate::port::Port;
use crate::process::{Launch, Process};
use crate::program;
use crate::spawner::{self, DeathSignal};

const SERVER: &str = "PostgreSQL";
/// The superuser of every server.
pub const USER: &str = "postgres";
/// Its password. Clients must know it (scram-sha-256), so a wrong one is refused as in earnest.
pub const PASSWORD: &str = "leasehold-test";

/// How a PostgreSQL server is set up.
#[derive(Debug, Clone, Default)]
pub struct PostgresOptions {
    /// Where its data lies. In memory it does without fsync; on the disk it writes as it does in earnest.
    pub storage: Storage,
    /// Lines of postgresql.conf, name and value, in addition to and before our own.
    pub settings: Vec<(String, String)>,
}

/// A private PostgreSQL server.
#[derive(Debug)]
pub struct Postgres {
    process: Process,
    port: Port,
    data: PathBuf,
    _folder: Folder,
}

impl Postgres {
    /// Starts one in memory with PostgreSQL's own settings.
    ///
    /// # Errors
    ///
    /// [`ServerError::Missing`] where PostgreSQL is not installed; others where it does not get ready.
    pub async fn start() -> Result<Postgres, ServerError> {
        Postgres::start_with(PostgresOptions::default()).await
    }

    /// Starts one as asked for.
    ///
    /// # Errors
    ///
    /// As [`Postgres::start`].
    pub async fn start_with(options: PostgresOptions) -> Result<Postgres, ServerError> {
        spawner::need_setpriv()?;
        let program = program::find(SERVER, "postgres", &program_folders())?;
        let account = Account::other_than_root(SERVER)?;
        let folder = Folder::create(options.storage)?;
        let data = template::copy_to(&folder, &program, account)?;
        let port = Port::reserve()?;
        let config = folder.write("postgresql.conf", &config(&options, &data, port.number()), account)?;
        let process = Process::start(Launch {
            server: SERVER,
            program,
            arguments: vec![with_prefix("--config-file=", &config)],
            account,
            death_signal: DeathSignal::Quit,
            stop_signal: Signal::INT,
            log: folder.path().join("log"),
        })?;
        let mut postgres = Postgres { process, port, data, _folder: folder };
        postgres.wait_ready().await?;
        Ok(postgres)
    }

    /// `postgres://user:password@127.0.0.1:port/postgres`.
    pub fn url(&self) -> String {
        format!("postgres://{USER}:{PASSWORD}@127.0.0.1:{}/postgres", self.port())
    }

    /// Its port on 127.0.0.1, the same as long as the value lives.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Shuts it down in good order ("fast": connections are closed, transactions rolled back).
    ///
    /// # Errors
    ///
    /// Where it does not run or does not end.
    pub async fn stop(&mut self) -> Result<(), ServerError> {
        self.process.stop().await
    }

    /// Kills all its processes at once, as a power cut would. What was committed is there after [`Postgres::restart`].
    ///
    /// # Errors
    ///
    /// Where it does not run or does not end.
    pub async fn kill(&mut self) -> Result<(), ServerError> {
        self.process.kill().await
    }

    /// Stops it and all its backends where they are: connections stay open, nobody answers.
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

    /// Starts it again as a standby, which only reads, until `SELECT pg_promote()` makes it a primary.
    ///
    /// # Errors
    ///
    /// As [`Postgres::restart`], and where the file that makes it one cannot be written.
    pub async fn restart_as_standby(&mut self) -> Result<(), ServerError> {
        if self.process.is_running() {
            self.stop().await?;
        }
        let signal = self.data.join("standby.signal");
        fs::write(&signal, "").map_err(ServerError::file("write", &signal))?;
        Account::other_than_root(SERVER)?.map_or(Ok(()), |account| account.own(&signal))?;
        self.process.start_again()?;
        self.wait_ready().await
    }

    /// The end of its log, for a failure's message.
    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }

    async fn wait_ready(&mut self) -> Result<(), ServerError> {
        let port = self.port();
        self.process.wait_ready(async || answers(port).await).await
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.process.end();
        memory::remove(&self.data);
    }
}

/// Debian keeps each version's programs in a folder of its own.
fn program_folders() -> Vec<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    folders.sort();
    if folders.is_empty() {
        return vec!["/usr/lib/postgresql/*/bin".into()];
    }
    folders.into_iter().map(|(_, folder)| folder).collect()
}

fn config(options: &PostgresOptions, data: &Path, port: u16) -> String {
    let (data, port) = (data.display().to_string(), port.to_string());
    let asked = options.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let memory: &[(&str, &str)] = match options.storage {
        // A killed server keeps what it wrote, which the system holds; only the machine's own crash would lose it.
        Storage::Memory => &[("fsync", "off"), ("full_page_writes", "off"), ("max_wal_size", "128MB")],
        Storage::Disk => &[],
    };
    let ours = [
        ("data_directory", data.as_str()),
        ("hba_file", &format!("{data}/pg_hba.conf")),
        ("ident_file", &format!("{data}/pg_ident.conf")),
        ("listen_addresses", "127.0.0.1"),
        ("port", &port),
        ("unix_socket_directories", ""),
        ("logging_collector", "off"),
    ];
    let first = [
        ("max_connections", "200"),
        ("log_line_prefix", "%m [%p] %q%a "),
        // In files of the data folder, which goes with it. Elsewhere a killed server would leave a megabyte behind.
        ("dynamic_shared_memory_type", "mmap"),
    ];
    // The last of two lines with one name holds.
    let all = first.iter().chain(memory).copied().chain(asked).chain(ours);
    all.map(|(name, value)| format!("{name} = '{}'\n", value.replace('\'', "''"))).collect()
}

fn with_prefix(prefix: &str, path: &Path) -> OsString {
    let mut argument = OsString::from(prefix);
    argument.push(path);
    argument
}

/// Whether it lets a client begin: it asks for the password ('R') where it is ready, and sends an error ('E') where it
/// still recovers.
async fn answers(port: u16) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let parameters = format!("user\0{USER}\0database\0postgres\0\0");
        let mut startup = u32::try_from(parameters.len() + 8).unwrap_or(0).to_be_bytes().to_vec();
        startup.extend(196_608_u32.to_be_bytes()); // protocol 3.0
        startup.extend(parameters.as_bytes());
        stream.write_all(&startup).await?;
        stream.read_u8().await
    };
    ask.await.is_ok_and(|kind: u8| kind == b'R')
}
