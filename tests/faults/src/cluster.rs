//! Hosts, their store, the network between them, and the world outside.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use leasehold_test_servers::Proxy;
use rustix::process::Signal;
use serde_json::Value;
use tokio::sync::Mutex;

use crate::board::{Setup, built_plugin};
use crate::clock;
use crate::host::Host;
use crate::record::{Outage, Record, Told, Whom};
use crate::store::{Kind, Store};
use crate::witness::Witness;

/// How long the harness waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Debian's libfaketime, for programs with threads.
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

/// A folder with hosts on one store. Everything ends with it; the folder stays when something was wrong.
#[derive(Debug)]
pub struct Cluster {
    /// What it is made of.
    pub setup: Setup,
    record: Arc<Record>,
    hosts: Vec<Mutex<Host>>,
    /// Between each host and the store, where that is a server.
    proxies: Vec<Proxy>,
    store: Mutex<Store>,
    url: String,
    folder: PathBuf,
    _witness: Witness,
}

impl Cluster {
    /// Starts store and hosts; none where the store's server is not installed, which is said.
    pub async fn start(mut setup: Setup) -> Option<Cluster> {
        let folder = tempfile::Builder::new().prefix("leasehold-faults-").tempdir().expect("a temporary folder").keep();
        let record = Arc::<Record>::default();
        let witness = Witness::start(Arc::clone(&record)).await;
        let Some(store) = Store::start(setup.kind).await else {
            remove(&folder);
            return None;
        };
        let url = store.url();
        setup.clocks &= Path::new(FAKETIME).is_file();
        fs::create_dir(folder.join("plugins")).expect("an empty folder takes a folder");
        fs::copy(built_plugin("pulse"), folder.join("plugins/pulse.wasm")).expect("a plugin can be copied");
        fs::write(folder.join("plugins/pulse.toml"), setup.manifest(&witness.origin())).expect("a file");
        fs::write(folder.join("leasehold.toml"), setup.configuration(&url, &witness.origin())).expect("a file");
        let mut proxies = Vec::new();
        for _ in 0..setup.hosts {
            if let Some(port) = store.port() {
                proxies.push(Proxy::start(port).await.expect("a proxy on loopback"));
            }
        }
        let mut cluster = Cluster {
            setup,
            record,
            hosts: Vec::new(),
            proxies,
            store: Mutex::new(store),
            url,
            folder,
            _witness: witness,
        };
        for host in 0..cluster.setup.hosts {
            let mut variables = cluster.clock_variables(host);
            variables.extend(cluster.setup.log.map(|log| ("LEASEHOLD_LOG".to_owned(), log.to_owned())));
            if let Some(proxy) = cluster.proxies.get(host) {
                variables.push(("LEASEHOLD_STORE__URL".to_owned(), proxy.url(&cluster.url)));
            }
            let (binary, folder) = (cluster.setup.binary.0.clone(), cluster.folder.clone());
            let host = Host::new(host, binary, folder, variables, Arc::clone(&cluster.record));
            cluster.hosts.push(Mutex::new(host));
        }
        if let Err(wrong) = cluster.leasehold(&["check"]).await {
            panic!("{wrong}");
        }
        for host in 0..cluster.setup.hosts {
            cluster.start_host(host).await;
        }
        Some(cluster)
    }

    /// What was heard so far.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Where events, logs and configuration lie.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The proxy in front of a host.
    pub(crate) fn proxy(&self, host: usize) -> &Proxy {
        &self.proxies[host]
    }

    pub(crate) async fn store(&self) -> tokio::sync::MutexGuard<'_, Store> {
        self.store.lock().await
    }

    pub(crate) async fn start_host(&self, host: usize) {
        self.hosts[host].lock().await.start();
    }

    /// Starts it, and waits until it speaks of jobs. One that finds no store ends, and is started again as a service manager
    /// would.
    pub(crate) async fn start_host_and_wait(&self, host: usize) {
        let ((from, _), end) = (self.record.lengths(), clock::mono() + PATIENCE);
        self.start_host(host).await;
        let spoken = |told: &Told| told.host == host && told.job.is_some();
        while self.record.wait_told(from, Duration::from_secs(1), spoken).await.is_none() {
            assert!(clock::mono() < end, "h{host} says nothing for {PATIENCE:?}: {}", self.folder.display());
            let mut process = self.hosts[host].lock().await;
            if let Some(status) = process.ended(Duration::from_millis(1)).await {
                eprintln!("      h{host} ended at its start ({status}) and is started again");
                process.start();
            }
        }
    }

    pub(crate) async fn kill_host(&self, host: usize) {
        self.hosts[host].lock().await.kill();
    }

    /// How often a host has told people of this so far.
    pub(crate) fn count_in_log(&self, host: usize, text: &str) -> usize {
        let log = fs::read_to_string(self.folder.join(format!("h{host}.log"))).expect("the host logs");
        log.matches(text).count()
    }

    pub(crate) async fn process_of(&self, host: usize) -> u32 {
        self.hosts[host].lock().await.id().expect("it runs")
    }

    pub(crate) async fn signal_host(&self, host: usize, signal: Signal) {
        self.hosts[host].lock().await.signal(signal);
    }

    /// Waits until it has ended in good order.
    pub(crate) async fn host_ended(&self, host: usize) {
        let status = self.hosts[host].lock().await.ended(PATIENCE).await;
        let ended_well = status.is_some_and(|status| status.success());
        assert!(ended_well, "h{host} ended with {status:?} when it was asked to: {}", self.folder.display());
    }

    /// Asks all hosts to end, and waits for that. Those that end last take over what the others hand over.
    pub async fn end(&self) {
        let from = clock::mono();
        for host in 0..self.hosts.len() {
            self.signal_host(host, Signal::TERM).await;
        }
        for host in 0..self.hosts.len() {
            self.host_ended(host).await;
            self.note(Whom::Host(host), from, "ended");
        }
    }

    /// Notes what was done, from then until now.
    pub(crate) fn note(&self, whom: Whom, from: Duration, what: &str) {
        self.record.outage(Outage { whom, from, to: clock::mono(), what: what.to_owned() });
    }

    /// Sets the wall clock of a host this far from the truth. On SQLite hosts share the machine's, and so does everybody.
    pub(crate) fn set_clock(&self, host: usize, seconds: i64) {
        let (file, beside) = (self.clock_file(host), self.folder.join(format!("clock{host}.new")));
        fs::write(&beside, format!("{seconds:+}\n")).expect("a file in our folder");
        fs::rename(&beside, &file).expect("a file can be renamed");
    }

    /// Runs `leasehold … --json` here, around every proxy, and answers what it prints, an object a line.
    ///
    /// # Errors
    /// It fails: what it said.
    pub async fn leasehold(&self, arguments: &[&str]) -> Result<Vec<Value>, String> {
        let mut command = Command::new(&self.setup.binary.0);
        command.args(arguments).arg("--json").current_dir(&self.folder).stdin(Stdio::null());
        if self.setup.kind == Kind::Sqlite {
            command.envs(self.clock_variables(0));
        }
        let output = tokio::task::spawn_blocking(move || command.output()).await.expect("it does not panic");
        let output = output.expect("leasehold can be run");
        let (out, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if !output.status.success() {
            return Err(format!("{arguments:?}: {told}{out}"));
        }
        Ok(out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect())
    }

    /// The same for a command that only reads: asks again where a busy machine let it wait for too long.
    ///
    /// # Panics
    /// It fails again and again.
    pub async fn read(&self, arguments: &[&str]) -> Vec<Value> {
        let end = clock::mono() + PATIENCE;
        loop {
            match self.leasehold(arguments).await {
                Ok(answer) => return answer,
                Err(error) => assert!(clock::mono() < end, "{error}"),
            }
        }
    }

    /// Removes the folder: there is nothing in it that anybody would look at.
    pub fn forget(self) {
        let folder = self.folder.clone();
        drop(self);
        remove(&folder);
    }

    fn clock_variables(&self, host: usize) -> Vec<(String, String)> {
        if !self.setup.clocks {
            return Vec::new();
        }
        let file = self.clock_file(host);
        if !file.is_file() {
            self.set_clock(host, 0);
        }
        let file = file.display().to_string();
        // The own timer goes on as it does; only what people call the time is set.
        [
            ("LD_PRELOAD", FAKETIME),
            ("FAKETIME_TIMESTAMP_FILE", &file),
            ("FAKETIME_CACHE_DURATION", "1"),
            ("DONT_FAKE_MONOTONIC", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("NO_FAKE_STAT", "1"),
            ("FAKETIME_DONT_RESET", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }

    fn clock_file(&self, host: usize) -> PathBuf {
        let owner = if self.setup.kind == Kind::Sqlite { 0 } else { host };
        self.folder.join(format!("clock{owner}"))
    }
}

fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder) {
        eprintln!("{} stays: {error}", folder.display());
    }
}
