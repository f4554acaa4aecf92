//! How each file of the plugin directory stands, for people: what serves, what waits, what is refused and why.
//!
//! Everything here is bounded, however many files a tenant has and whatever they say.

use leasehold_lease::time::Millis;
use serde::{Deserialize, Serialize};

/// How many problems of one file or job are told.
pub(super) const PROBLEMS_MAX: usize = 5;
/// How many characters of one problem are told.
pub(super) const PROBLEM_CHARS: usize = 500;

/// The whole directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    /// Its plugins, by tenant and name.
    pub plugins: Vec<Standing>,
    /// Files and folders that cannot be plugins.
    pub odd: Vec<Odd>,
    /// How many more are ignored than `odd` tells.
    pub ignored_more: usize,
}

/// One plugin: its code, its manifest and its jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Whose it is.
    pub tenant: String,
    /// The stem of its files.
    pub name: String,
    /// The path of its code.
    pub file: String,
    /// How it stands.
    pub state: PluginState,
    /// The version that serves.
    pub serving: Option<Version>,
    /// The version that was read last and refused.
    pub refused: Option<Version>,
    /// What is wrong with its code or with its manifest as a whole, and what to do about it.
    pub problems: Vec<String>,
    /// Its jobs, as far as they are known.
    pub jobs: Vec<JobStanding>,
    /// How many more jobs of its manifest are refused than `jobs` tells.
    pub jobs_more: usize,
}

/// How a plugin stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PluginState {
    /// What lies in the directory serves.
    Serving,
    /// An older version serves, because what lies in the directory is refused.
    Stale,
    /// Its files are still changing. What served before goes on serving.
    Settling,
    /// It waits for others to be loaded.
    Queued,
    /// It is being read, validated and compiled.
    Loading,
    /// Nothing of it serves: its code, its manifest or each of its jobs is refused.
    Refused,
}

impl PluginState {
    /// The state in one word.
    pub fn word(self) -> &'static str {
        match self {
            PluginState::Serving => "serving",
            PluginState::Stale => "stale",
            PluginState::Settling => "settling",
            PluginState::Queued => "queued",
            PluginState::Loading => "loading",
            PluginState::Refused => "refused",
        }
    }
}

/// One version of a plugin's code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// The SHA-256 of its bytes, in hexadecimal digits.
    pub digest: String,
    /// Bytes.
    pub size: u64,
    /// When this host read it.
    pub since: Millis,
}

/// One job of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStanding {
    /// `tenant/name`; none when the name could not be read.
    pub job: Option<String>,
    /// Whether it is offered, perhaps as an older manifest defines it.
    pub runnable: bool,
    /// Why it is not, or what is wrong with what the manifest says now.
    pub problems: Vec<String>,
}

/// A file or folder that is no plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Odd {
    /// Its path.
    pub file: String,
    /// Why it cannot be one; none when it is passed over without a word.
    pub problem: Option<String>,
}
