//! Private servers, and a database of its own for each test.
//!
//! `LEASEHOLD_TEST_POSTGRES` names a server whose user may create databases; without it each test process starts one.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};
use tempfile::TempDir;

/// Where Debian keeps the binaries of version 15.
const BINARIES: &str = "/usr/lib/postgresql/15/bin";

/// A server in a folder of its own. It ends with the process that started it.
pub(super) struct Server {
    port: u16,
    folder: TempDir,
    keeper: Option<Child>,
}

impl Server {
    /// Makes a cluster with these settings and starts it.
    pub(super) fn start(settings: &str) -> Server {
        let folder = tempfile::Builder::new().prefix("leasehold-pg-").tempdir().expect("a temporary folder");
        let user = user();
        std::os::unix::fs::chown(folder.path(), Some(user.0), Some(user.1)).expect("the folder is given to the user");
        let mut server = Server { port: free_port(), folder, keeper: None };
        let initdb = run_as(user, Path::new(BINARIES).join("initdb"))
            .args(["-A", "trust", "-U", "leasehold", "--no-sync", "-D"])
            .arg(server.data())
            .output()
            .expect("initdb runs");
        assert!(initdb.status.success(), "initdb: {}", String::from_utf8_lossy(&initdb.stderr));
        let mut config = std::fs::OpenOptions::new()
            .append(true)
            .open(server.data().join("postgresql.conf"))
            .expect("the configuration opens");
        let own = "listen_addresses = '127.0.0.1'\nunix_socket_directories = ''\nfsync = off\nmax_connections = 200\n";
        config.write_all([own, settings].concat().as_bytes()).expect("the configuration is written");
        server.launch();
        server
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Starts the cluster, and waits until it lets clients in.
    pub(super) fn launch(&mut self) {
        // The shell lives as long as its input is open, and takes the server with it: whatever ends this process.
        let keeper = run_as(user(), "/bin/sh")
            .arg("-c")
            .arg("\"$0\" -D \"$1\" -p \"$2\" >>\"$1/log\" 2>&1 & pid=$!; echo $pid; read -r _; kill -QUIT $pid; wait $pid")
            .arg(Path::new(BINARIES).join("postgres"))
            .arg(self.data())
            .arg(self.port.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell runs");
        self.keeper = Some(keeper);
        let ready = || {
            let mut ask = Command::new(Path::new(BINARIES).join("pg_isready"));
            let asked = ask.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]).status();
            asked.expect("pg_isready runs").success()
        };
        for _ in 0..600 {
            if ready() {
                return;
            }
            pause(Duration::from_millis(50));
        }
        let log = std::fs::read_to_string(self.data().join("log")).unwrap_or_default();
        panic!("the server does not start: {log}");
    }

    /// The process id of the server.
    pub(super) fn pid(&self) -> String {
        let text = std::fs::read_to_string(self.data().join("postmaster.pid")).expect("the server runs");
        text.lines().next().expect("its first line is the id").to_owned()
    }

    /// The address of a database of this server.
    pub(super) fn url(&self, database: &str) -> String {
        ["postgres://leasehold@127.0.0.1:", &self.port.to_string(), "/", database].concat()
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Ends the server at once, as a crash would.
    pub(super) fn stop(&mut self) {
        let Some(mut keeper) = self.keeper.take() else { return };
        drop(keeper.stdin.take());
        keeper.wait().expect("the shell ends");
        let mut rest = String::new();
        keeper.stdout.take().expect("its output is a pipe").read_to_string(&mut rest).expect("it has ended");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A user that PostgreSQL accepts: this one, or `postgres` where the tests run as root.
pub(super) fn user() -> (u32, u32) {
    let id = |args: &[&str]| -> Option<u32> {
        let output = Command::new("id").args(args).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    match id(&["-u"]) {
        Some(0) => {
            let of = |name| Some((id(&["-u", name])?, id(&["-g", name])?));
            of("postgres").or_else(|| of("nobody")).expect("a user postgres or nobody")
        }
        user => (user.expect("id tells the user"), id(&["-g"]).expect("id tells the group")),
    }
}

pub(super) fn run_as((user, group): (u32, u32), program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.uid(user).gid(group).current_dir("/");
    command
}

pub(super) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it has an address").port()
}

/// Between two looks at a process that says nothing when it is ready.
#[allow(clippy::disallowed_methods, reason = "the test waits for another process")]
pub(super) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// The server of this process, or the one that the environment names.
pub(super) fn shared(database: &str) -> String {
    static SERVER: OnceLock<Server> = OnceLock::new();
    match std::env::var("LEASEHOLD_TEST_POSTGRES") {
        Ok(url) => {
            let (base, _) = url.rsplit_once('/').expect("LEASEHOLD_TEST_POSTGRES names a database");
            [base, "/", database].concat()
        }
        Err(_) => SERVER.get_or_init(|| Server::start("")).url(database),
    }
}

/// An empty database of the shared server. It is dropped with this.
pub(super) struct Database {
    pub(super) url: String,
    name: String,
}

impl Database {
    pub(super) async fn create() -> Database {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let nth = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("leasehold_test_{}_{nth}", std::process::id());
        let admin = tokio::task::spawn_blocking(|| shared("postgres")).await.expect("the server starts");
        let mut db = PgConnection::connect(&admin).await.expect("the test connects");
        db.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.expect("a database is made");
        Database { url: shared(&name), name }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        // Without a runtime to wait in: a test that fails drops this too.
        let dropped = Command::new(Path::new(BINARIES).join("psql"))
            .args(["-q", "-d", &shared("postgres"), "-c", &drop])
            .status();
        assert!(std::thread::panicking() || dropped.is_ok_and(|status| status.success()), "{} is dropped", self.name);
    }
}
