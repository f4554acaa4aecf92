//! What a cluster is made of: its binary, its jobs, its configuration.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock;
use crate::store::Kind;

/// Which `leasehold` is run.
#[derive(Debug, Clone)]
pub struct Binary(pub PathBuf);

impl Binary {
    /// The one that was released, else the one beside this program's own.
    ///
    /// # Errors
    /// Neither was built: what to do.
    pub fn released() -> Result<Binary, String> {
        let own = std::env::current_exe().map_err(|error| format!("no program of our own: {error}"))?;
        let release = own.ancestors().skip(1).take(3).map(|folder| folder.join("release/leasehold"));
        let found = release.into_iter().find(|file| file.is_file());
        found.map(Binary).map_or_else(Binary::beside, Ok)
    }

    /// The one beside this program's own, or beside the folder of a test's.
    ///
    /// # Errors
    /// It was not built: what to do.
    pub fn beside() -> Result<Binary, String> {
        let own = std::env::current_exe().map_err(|error| format!("no program of our own: {error}"))?;
        let found = own.ancestors().skip(1).take(2).map(|folder| folder.join("leasehold")).find(|file| file.is_file());
        found.map(Binary).ok_or_else(|| format!("no leasehold beside {}: cargo build -p leasehold", own.display()))
    }
}

/// A lease and its heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How long a runner that is silent is believed to be alive.
    pub lease: Duration,
    /// How often it says that it is.
    pub heartbeat: Duration,
}

/// The lease of most faults: short, so that there are many.
pub const LEASE: Policy = Policy { lease: Duration::from_secs(1), heartbeat: Duration::from_millis(150) };

impl Policy {
    /// A lease that is still short, and outlives the pauses of a busy machine.
    pub const SHORT: Policy = Policy { lease: Duration::from_secs(3), heartbeat: Duration::from_millis(500) };
    /// What a host takes where nothing is configured.
    pub const DEFAULT: Policy = Policy { lease: Duration::from_secs(30), heartbeat: Duration::from_secs(5) };
}

/// What a cluster is made of.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Which store.
    pub kind: Kind,
    /// Which `leasehold`.
    pub binary: Binary,
    /// How many hosts.
    pub hosts: usize,
    /// How many jobs.
    pub jobs: usize,
    /// Of all of them.
    pub policy: Policy,
    /// Between two slots of a job; none is one slot soon after the start, and the next more than an hour later.
    pub every: Option<Duration>,
    /// How many acts a handler does.
    pub acts: u32,
    /// Between two of them, in ms.
    pub pace: u64,
    /// How often a run may be started.
    pub max_attempts: u32,
    /// Whether the hosts' wall clocks can be set.
    pub clocks: bool,
    /// What the hosts log, as `LEASEHOLD_LOG` has it; none: what they log by themselves.
    pub log: Option<&'static str>,
}

impl Setup {
    /// `leasehold.toml`, with the store's own address.
    pub(crate) fn configuration(&self, url: &str, origin: &str) -> String {
        let Policy { lease, heartbeat } = self.policy;
        let namespace = if self.kind == Kind::Sqlite { "" } else { "namespace = \"faults\"\n" };
        format!(
            "[host]\nplugins = \"plugins\"\nconcurrency = 2000\nmemory = \"8GiB\"\n\
             [store]\nurl = \"{url}\"\n{namespace}\
             [defaults]\nlease = \"{}ms\"\nheartbeat = \"{}ms\"\nmin_interval = \"1s\"\nmax_attempts = {}\n\
             history_size = 100000\nstored_max = \"64GiB\"\njobs_max = {}\nconcurrency = 2000\n\
             tenant_memory = \"8GiB\"\nmemory = \"4MiB\"\ntimeout = \"2h\"\n\
             [tenants.default.http]\nallow = [\"{origin}\"]\n",
            lease.as_millis(),
            heartbeat.as_millis(),
            self.max_attempts,
            self.jobs.max(2_000),
        )
    }

    /// The jobs `j0`, `j1` … of the plugin.
    pub(crate) fn manifest(&self, origin: &str) -> String {
        let every = self.every.unwrap_or_else(soon_then_rarely).as_secs();
        // A manifest has a largest size, and what does nothing needs nothing.
        let work = match self.acts {
            0 => String::new(),
            acts => format!(
                "payload = {{ url = \"{origin}/\", times = {acts}, ms = {} }}\nhttp = [\"{origin}\"]\n",
                self.pace
            ),
        };
        (0..self.jobs).fold(String::new(), |mut all, job| {
            // Writing to a text cannot fail.
            let _ = writeln!(all, "[[jobs]]\nname = \"j{job}\"\nevery = \"{every}s\"\n{work}");
            all
        })
    }
}

/// A period whose first slot is some seconds ahead, time enough for hosts to load a plugin, and whose next one is more than
/// an hour away.
fn soon_then_rarely() -> Duration {
    let wait = wait_by(clock::wall() / 1_000);
    let period = (3_600..=14_400).filter(|period| wait(period) >= 10).min_by_key(wait).expect("some period fits");
    Duration::from_secs(period.unsigned_abs())
}

/// A period whose next slot is more than an hour away.
pub(crate) fn far_away() -> Duration {
    let period = (7_200..=14_400).max_by_key(wait_by(clock::wall() / 1_000)).expect("there are some");
    Duration::from_secs(period.unsigned_abs())
}

/// How long after `now` the next slot of a period is, all in seconds.
fn wait_by(now: i64) -> impl Fn(&i64) -> i64 + Copy {
    move |period| period - now % period
}

/// A plugin of the tests' guests.
pub(crate) fn built_plugin(name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the repository");
    let file = tests.join("plugins").join(name).with_extension("wasm");
    assert!(file.is_file(), "{} is not built: run scripts/build-plugins", file.display());
    file
}
