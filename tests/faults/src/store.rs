//! The stores that hosts share, and what can be done to them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_test_servers::{Postgres, Redis, RedisKind, RedisOptions, ServerError, or_skip};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A file that all hosts open.
    Sqlite,
    /// A private PostgreSQL.
    Postgres,
    /// A private Redis that keeps what it acknowledges.
    Redis,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Sqlite, Kind::Postgres, Kind::Redis];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Sqlite => "SQLite",
            Kind::Postgres => "PostgreSQL",
            Kind::Redis => "Redis",
        })
    }
}

impl std::str::FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Kind, String> {
        let found = Kind::ALL.into_iter().find(|kind| kind.to_string().eq_ignore_ascii_case(name));
        found.ok_or_else(|| format!("no store {name:?}: sqlite, postgresql or redis"))
    }
}

/// A store of the run's own.
#[derive(Debug)]
pub enum Store {
    /// The file, in a folder of its own.
    Sqlite(PathBuf, TempDir),
    /// The server.
    Postgres(Postgres),
    /// The server.
    Redis(Redis),
}

impl Store {
    /// Starts one; none where its server is not installed, which is said.
    pub(crate) async fn start(kind: Kind) -> Option<Store> {
        // What the disk of a killed server would keep.
        let keeping = RedisOptions { persistent: true, ..RedisOptions::default() };
        match kind {
            Kind::Sqlite => Some(file()),
            Kind::Postgres => or_skip(Postgres::start().await).map(Store::Postgres),
            Kind::Redis => or_skip(Redis::start_with(RedisKind::Redis, keeping).await).map(Store::Redis),
        }
    }

    /// Its address, around every proxy.
    pub(crate) fn url(&self) -> String {
        match self {
            Store::Sqlite(file, _) => format!("sqlite://{}", file.display()),
            Store::Postgres(server) => server.url(),
            Store::Redis(server) => server.url(),
        }
    }

    /// Its port; a file has none.
    pub(crate) fn port(&self) -> Option<u16> {
        match self {
            Store::Sqlite(..) => None,
            Store::Postgres(server) => Some(server.port()),
            Store::Redis(server) => Some(server.port()),
        }
    }

    /// Kills the server, waits, and starts it again on its data.
    pub(crate) async fn die(&mut self, down: Duration) {
        match self {
            Store::Sqlite(..) => panic!("a file does not die"),
            Store::Postgres(server) => {
                server.kill().await.unwrap_or_else(|e| failed(&e));
                tokio::time::sleep(down).await;
                server.restart().await.unwrap_or_else(|e| failed(&e));
            }
            Store::Redis(server) => {
                server.kill().await.unwrap_or_else(|e| failed(&e));
                tokio::time::sleep(down).await;
                server.restart().await.unwrap_or_else(|e| failed(&e));
            }
        }
    }

    /// Shuts the server down in good order and starts it again.
    pub(crate) async fn restart(&mut self) {
        match self {
            Store::Sqlite(..) => panic!("a file is not restarted"),
            Store::Postgres(server) => server.restart().await.unwrap_or_else(|e| failed(&e)),
            Store::Redis(server) => server.restart().await.unwrap_or_else(|e| failed(&e)),
        }
    }

    /// Nobody gets an answer for this long. A file is locked by somebody who does not let go.
    pub(crate) async fn freeze(&mut self, time: Duration) {
        match self {
            Store::Sqlite(file, _) => lock(file.clone(), time).await,
            Store::Postgres(server) => {
                server.freeze().await.unwrap_or_else(|e| failed(&e));
                tokio::time::sleep(time).await;
                server.thaw().unwrap_or_else(|e| failed(&e));
            }
            Store::Redis(server) => {
                server.freeze().await.unwrap_or_else(|e| failed(&e));
                tokio::time::sleep(time).await;
                server.thaw().unwrap_or_else(|e| failed(&e));
            }
        }
    }

    /// Has a Redis server carry out a command without arguments of its own.
    pub(crate) async fn tell(&self, command: &str) {
        let port = self.port().expect("a server");
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("the server listens");
        stream.write_all(format!("{command}\r\n").as_bytes()).await.expect("it is sent");
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(&answer, b"+OK\r\n", "{command}");
    }
}

/// In memory where the system has such a folder, as the servers are: this is not about the disk, which others use.
fn file() -> Store {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = tempfile::Builder::new().prefix("leasehold-faults-").tempdir_in(parent).expect("a temporary folder");
    Store::Sqlite(folder.path().join("leasehold.db"), folder)
}

fn failed(error: &ServerError) {
    panic!("{}", error.chain());
}

/// Holds the file's write lock for this long, as a program does that looks into it and is left open.
async fn lock(file: PathBuf, time: Duration) {
    let open = move || {
        let connection = rusqlite::Connection::open(file).expect("the file is there");
        connection.busy_timeout(Duration::from_secs(30)).expect("a timeout can be set");
        connection.execute_batch("BEGIN IMMEDIATE").expect("the lock is free at times");
        connection
    };
    let connection = tokio::task::spawn_blocking(open).await.expect("it does not panic");
    tokio::time::sleep(time).await;
    connection.execute_batch("ROLLBACK").expect("nothing was changed");
}
