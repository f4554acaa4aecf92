//! The host's configuration: `leasehold.toml`, the environment and flags, read once into types that cannot be wrong.
//!
//! A flag is stronger than the environment, the environment than the file, the file than the defaults. A variable
//! `LEASEHOLD_SECTION__KEY` is the key `section.key` (`LEASEHOLD_TENANTS__ACME__TIMEOUT` is `tenants.acme.timeout`); a
//! variable without `__` is not configuration. Relative paths start at the file's folder when the file says them, and
//! at the working folder when a variable or a flag does. All problems are told at once.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_lease::id::TenantName;

mod grants;
mod problem;
pub(crate) mod reader;
mod secrets;
mod settings;
mod store_url;
pub(crate) mod tree;

pub(crate) use grants::{KEY_HINT, is_key, origin};
pub use grants::{SecretGrant, SecretSource, TenantGrants};
pub use problem::{Place, Problem, Problems};
pub(crate) use problem::{plain, quoted};
pub use secrets::Secrets;
pub(crate) use settings::read_job;
pub use settings::{JobLimits, Quota, TenantSettings};
pub use store_url::{ServerUrl, StoreUrl};

use crate::regular_file;
use reader::{Section, Wrong};
use settings::Layer;
use tree::{Node, Table, Value};

/// The file that is read when none is named.
pub const FILE_NAME: &str = "leasehold.toml";
/// No configuration is longer than this, in bytes.
pub const FILE_MAX: u64 = 1 << 20;
/// What every variable that is configuration begins with.
const PREFIX: &str = "LEASEHOLD_";

/// Where a configuration comes from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The working folder, the process's own when it is empty. `leasehold.toml` is looked for here when no file is
    /// named.
    pub folder: PathBuf,
    /// The file that was named.
    pub file: Option<PathBuf>,
    /// The environment.
    pub env: Vec<(OsString, OsString)>,
    /// The flags that are configuration.
    pub flags: Flags,
}

/// The keys that are flags too.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--plugins`: `host.plugins`.
    pub plugins: Option<PathBuf>,
    /// `--store`: `store.url`.
    pub store: Option<String>,
}

/// A host's configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file it was read from, if there was one.
    pub file: Option<PathBuf>,
    /// This host.
    pub host: HostSettings,
    /// Where the record is kept.
    pub store: StoreUrl,
    /// Its file is there and could not be read: what it says is not known.
    pub(crate) unread: bool,
    defaults: TenantSettings,
    tenants: BTreeMap<TenantName, TenantSettings>,
    grants: BTreeMap<TenantName, TenantGrants>,
}

/// What holds for this host as a whole.
#[derive(Debug, Clone)]
pub struct HostSettings {
    /// The name people see; none leaves it to the host.
    pub name: Option<String>,
    /// What the host keeps on disk: database, compiled plugins.
    pub data_dir: PathBuf,
    /// The plugin directory.
    pub plugins: PathBuf,
    /// Attempts at a time.
    pub concurrency: u32,
    /// Bytes that all guests may hold together; none is half of what this machine, or the control group, has.
    pub memory: Option<u64>,
    /// Processor time for compiling one plugin.
    pub compile_cpu: Duration,
    /// Bytes of memory for compiling one plugin.
    pub compile_memory: u64,
}

impl Config {
    /// Reads and checks everything.
    ///
    /// # Errors
    /// All that is wrong, with place, key, value and reason.
    pub fn load(sources: &Sources) -> Result<Config, Problems> {
        let (config, problems) = Config::read(sources);
        problems.or(config)
    }

    /// The same for those who want to go on looking: what is wrong stands at its default.
    pub fn read(sources: &Sources) -> (Config, Problems) {
        let mut problems = Problems::default();
        let file = sources.file.clone().or_else(|| Some(sources.folder.join(FILE_NAME)).filter(|file| file.exists()));
        let mut unread = false;
        let mut root = file.as_deref().map_or_else(Table::new, |file| {
            read_file(file).unwrap_or_else(|found| {
                problems.append(found);
                unread = true;
                Table::new()
            })
        });
        overlay_env(&mut root, &sources.env, &mut problems);
        overlay_flags(&mut root, &sources.flags, &mut problems);

        let place = Place::file(file.as_deref().unwrap_or(Path::new(FILE_NAME)));
        let folders = Folders {
            working: &sources.folder,
            file: file.as_deref().and_then(Path::parent).unwrap_or(&sources.folder),
        };
        let mut root = Section::new("", place, root);
        let host = read_host(root.section("host"), &folders, &mut problems);
        let store = read_store(root.section("store"), &folders, &host.data_dir, &mut problems);
        let (defaults, found) = Layer::read(root.section("defaults"), None);
        problems.append(found);
        let (tenants, grants) = read_tenants(root.section("tenants"), &folders, &defaults, &mut problems);
        problems.append(root.finish());
        problems.sort();
        (Config { file, host, store, unread, defaults: defaults.settings(), tenants, grants }, problems)
    }

    /// What holds for a tenant: its own section over `[defaults]`, or `[defaults]` alone.
    pub fn tenant(&self, name: &TenantName) -> &TenantSettings {
        self.tenants.get(name).unwrap_or(&self.defaults)
    }

    /// What a tenant is granted; nothing without a section of its own.
    pub fn grants(&self, tenant: &TenantName) -> &TenantGrants {
        static NOTHING: TenantGrants =
            TenantGrants { http: BTreeMap::new(), config: BTreeMap::new(), secrets: BTreeMap::new() };
        self.grants.get(tenant).unwrap_or(&NOTHING)
    }

    /// What holds for a tenant without a section.
    pub fn defaults(&self) -> &TenantSettings {
        &self.defaults
    }
}

/// Where relative paths start.
struct Folders<'a> {
    working: &'a Path,
    file: &'a Path,
}

impl Folders<'_> {
    fn of(&self, place: &Place) -> &Path {
        match place {
            Place::File { .. } => self.file,
            Place::Environment(_) | Place::Flag(_) => self.working,
        }
    }

    fn path(&self, section: &mut Section, key: &'static str, default: &str) -> PathBuf {
        let read = |node: &Node| match reader::text(node)? {
            text if text.is_empty() => Err(Wrong::new("the path is empty")),
            text => Ok(self.of(&node.place).join(text)),
        };
        section.take(key, read).unwrap_or_else(|| self.file.join(default))
    }
}

fn read_file(file: &Path) -> Result<Table, Problems> {
    let refuse = |reason: String| Problems::from(Problem::of(Place::file(file), reason));
    let mut bytes = Vec::new();
    regular_file::open(file)
        .and_then(|opened| opened.take(FILE_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| refuse(format!("the configuration cannot be read: {error}")))?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(refuse(format!("the configuration is larger than {}", reader::shown_size(FILE_MAX))));
    }
    let text = String::from_utf8(bytes).map_err(|_| refuse("the configuration is not UTF-8 text".to_owned()))?;
    tree::parse(file, &text)
}

fn overlay_env(root: &mut Table, env: &[(OsString, OsString)], problems: &mut Problems) {
    for (name, value) in env {
        let Some(name) = name.to_str() else { continue };
        let Some(keys) = name.strip_prefix(PREFIX).filter(|keys| keys.contains("__")) else { continue };
        let place = Place::Environment(name.to_owned());
        let path: Vec<String> = keys.split("__").map(str::to_ascii_lowercase).collect();
        match value.to_str() {
            _ if path.iter().any(String::is_empty) => {
                let hint = "write LEASEHOLD_SECTION__KEY, such as LEASEHOLD_DEFAULTS__LEASE";
                problems.push(Problem::of(place, "the variable names no key").hint(hint));
            }
            None => problems.push(Problem::of(place, "the value is not UTF-8 text")),
            Some(text) => tree::overlay(root, &path, Node { place, value: Value::Text(text.to_owned()) }),
        }
    }
}

/// Variables that look like settings and are none for want of an underscore, such as `LEASEHOLD_DEFAULTS_LEASE`.
pub fn almost_variables(env: &[(OsString, OsString)]) -> impl Iterator<Item = &str> {
    let is_meant = |name: &&str| {
        let section = name.strip_prefix(PREFIX).and_then(|keys| keys.split_once('_')).map(|(section, _)| section);
        // Kubernetes makes such names of services, as LEASEHOLD_STORE_SERVICE_HOST and LEASEHOLD_STORE_PORT_6379_TCP.
        let is_a_service = ["_SERVICE_", "_PORT"].iter().any(|part| name.contains(part));
        let is_a_section = section.is_some_and(|section| ["HOST", "STORE", "DEFAULTS", "TENANTS"].contains(&section));
        is_a_section && !is_a_service && !name.contains("__")
    };
    env.iter().filter_map(|(name, _)| name.to_str()).filter(is_meant)
}

fn overlay_flags(root: &mut Table, flags: &Flags, problems: &mut Problems) {
    let mut set = |section: &str, key: &str, flag, text: &str| {
        let node = Node { place: Place::Flag(flag), value: Value::Text(text.to_owned()) };
        tree::overlay(root, &[section.to_owned(), key.to_owned()], node);
    };
    match flags.plugins.as_deref().map(Path::to_str) {
        None => {}
        Some(None) => problems.push(Problem::of(Place::Flag("--plugins"), "the path is not UTF-8 text")),
        Some(Some(path)) => set("host", "plugins", "--plugins", path),
    }
    if let Some(url) = &flags.store {
        set("store", "url", "--store", url);
    }
}

fn read_host(mut section: Section, folders: &Folders<'_>, problems: &mut Problems) -> HostSettings {
    section.refuse(&["listen"], NOT_YET);
    let host = HostSettings {
        name: section.take("name", host_name),
        data_dir: folders.path(&mut section, "data_dir", ".leasehold"),
        plugins: folders.path(&mut section, "plugins", "plugins"),
        concurrency: section.whole("concurrency", 1..=100_000).unwrap_or(256),
        memory: section.size("memory", settings::MEMORY),
        compile_cpu: section.duration("compile_cpu", COMPILE_CPU).unwrap_or(Duration::from_secs(60)),
        compile_memory: section.size("compile_memory", COMPILE_MEMORY).unwrap_or(3 << 30),
    };
    problems.append(section.finish());
    host
}

/// Why a key that a later version has is refused by this one: accepting what does nothing would be a lie.
const NOT_YET: &str = "it is not available in this version";

/// A compiler that gets less cannot even start; one that gets more holds up others.
const COMPILE_CPU: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3_600);
const COMPILE_MEMORY: RangeInclusive<u64> = 256 << 20..=64 << 30;

/// A host's name is shown in records, terminals and logs, so it is plain.
fn host_name(node: &Node) -> Result<String, Wrong> {
    let name = reader::text(node)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        return Err(Wrong::new("it is not a host's name").hint("use 1 to 64 of A-Z a-z 0-9 . _ -"));
    }
    Ok(name)
}

fn read_store(mut section: Section, folders: &Folders<'_>, data_dir: &Path, problems: &mut Problems) -> StoreUrl {
    let namespace = section.take_node("namespace");
    let mut store = StoreUrl::Sqlite(data_dir.join("leasehold.db"));
    let mut is_known = true;
    if let Some(node) = section.take_node("url") {
        match reader::text(&node).and_then(|text| StoreUrl::read(&text, folders.of(&node.place))) {
            Ok(url) => store = url,
            Err(Wrong { reason, hint }) => {
                is_known = false;
                // The address may hold a password, also where it is not one that can be read.
                let value = match &node.value {
                    Value::Text(text) => quoted(&leasehold_store::redacted(text)),
                    _ => node.shown(),
                };
                let key = "store.url".to_owned();
                problems.push(Problem { place: node.place, key, value: Some(value), reason, hint });
            }
        }
    }
    if let Some(node) = namespace {
        let read = reader::text(&node).and_then(|text| store_url::namespace(&text));
        // Whether a store that is not known has namespaces is not known either.
        let within = |namespace| if is_known { store.clone().within(namespace) } else { Ok(store.clone()) };
        match read.and_then(within) {
            Ok(within) => store = within,
            Err(Wrong { reason, hint }) => {
                let (key, value) = ("store.namespace".to_owned(), Some(node.shown()));
                problems.push(Problem { place: node.place, key, value, reason, hint });
            }
        }
    }
    problems.append(section.finish());
    store
}

type Tenants = (BTreeMap<TenantName, TenantSettings>, BTreeMap<TenantName, TenantGrants>);

fn read_tenants(mut section: Section, folders: &Folders<'_>, defaults: &Layer, problems: &mut Problems) -> Tenants {
    let (mut tenants, mut grants) = (BTreeMap::new(), BTreeMap::new());
    for (name, mut tenant) in section.rest() {
        match name.parse::<TenantName>() {
            Err(error) => problems.push(Problem::of(tenant.place().clone(), error.to_string())),
            Ok(name) => {
                let granted = TenantGrants::take(&mut tenant, |place| folders.of(place), problems);
                let (layer, found) = Layer::read(tenant, Some(defaults));
                problems.append(found);
                tenants.insert(name.clone(), layer.settings());
                grants.insert(name, granted);
            }
        }
    }
    problems.append(section.finish());
    (tenants, grants)
}

#[cfg(test)]
mod tests;
