//! One look at the plugin directory: which plugins there are, and the stamps of their files. Nothing is read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use leasehold_lease::id::{JobName, TenantName};

use super::beneath::{Denied, Folder, Stamp, shown};

/// The tenant of files that lie directly in the plugin directory.
pub const DEFAULT_TENANT: &str = "default";
/// More names in one folder than this are not looked at.
const NAMES_MAX: usize = 10_000;
/// How many files with bad names are told in one look.
const REFUSED_MAX: usize = 100;

/// A plugin: two files with one stem in one folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginId {
    /// Whose it is.
    pub tenant: TenantName,
    /// The stem of its files.
    pub name: JobName,
    /// The folder in the plugin directory that holds it; none when it lies directly in the directory.
    pub folder: Option<String>,
}

impl PluginId {
    /// The path of its code.
    pub fn wasm(&self, root: &Path) -> PathBuf {
        shown(root, self.folder.as_deref(), &self.wasm_name())
    }

    /// The path of its manifest.
    pub fn manifest(&self, root: &Path) -> PathBuf {
        shown(root, self.folder.as_deref(), &self.manifest_name())
    }

    pub(super) fn wasm_name(&self) -> String {
        format!("{}.wasm", self.name)
    }

    pub(super) fn manifest_name(&self) -> String {
        format!("{}.toml", self.name)
    }
}

/// `tenant/name`.
impl fmt::Display for PluginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.name)
    }
}

/// What was seen of one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Sight {
    #[default]
    Absent,
    File(Stamp),
    /// It is there and must not be opened, for this reason.
    Denied(String),
}

impl Sight {
    pub(super) fn of(folder: &Folder, path: &Path) -> Sight {
        match folder.stamp(path) {
            Ok(stamp) => Sight::File(stamp),
            Err(Denied::Missing) => Sight::Absent,
            Err(denied) => Sight::Denied(denied.to_string()),
        }
    }

    /// Nothing about it has changed since `ns` (since the Unix epoch).
    fn is_older(&self, ns: i128) -> bool {
        !matches!(self, Sight::File(stamp) if stamp.touched() >= ns)
    }
}

/// What was seen of one plugin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Seen {
    pub(super) wasm: Sight,
    pub(super) manifest: Sight,
    /// The payload files that its manifest names.
    pub(super) payloads: BTreeMap<String, Sight>,
}

impl Seen {
    pub(super) fn is_absent(&self) -> bool {
        self.wasm == Sight::Absent && self.manifest == Sight::Absent
    }

    /// Nothing about its files has changed since `ns` (since the Unix epoch).
    pub(super) fn is_older(&self, ns: i128) -> bool {
        self.wasm.is_older(ns) && self.manifest.is_older(ns) && self.payloads.values().all(|sight| sight.is_older(ns))
    }
}

/// The payload files to look at beside a plugin's own two.
pub(super) type Payloads = BTreeMap<PluginId, BTreeSet<String>>;

/// What one look saw.
#[derive(Debug, Default)]
pub(super) struct Sighting {
    pub(super) plugins: BTreeMap<PluginId, Seen>,
    /// What cannot be a plugin, and why.
    pub(super) refused: Vec<(PathBuf, String)>,
    /// The folders to watch, with device and inode.
    pub(super) folders: BTreeMap<PathBuf, (i128, i128)>,
}

/// Looks at the whole directory. Blocks on the disk.
pub(super) fn look(root: &Path, payloads: &Payloads) -> Sighting {
    let mut sighting = Sighting::default();
    let folder = match Folder::open(root) {
        Ok(folder) => folder,
        Err(error) => {
            let reason =
                format!("the plugin directory cannot be read: {error}; create it or name another in host.plugins");
            sighting.refused.push((root.to_owned(), reason));
            return sighting;
        }
    };
    let names = sighting.list(root, &folder);
    sighting.files(root, None, DEFAULT_TENANT, &folder, &names, payloads);
    for name in names.iter().filter(|name| !is_ignored(name) && !is_plugin_file(name)) {
        match folder.tenant(name) {
            Ok(tenant) => {
                let names = sighting.list(&root.join(name), &tenant);
                sighting.files(root, Some(name), name, &tenant, &names, payloads);
            }
            // An ordinary file is no tenant, and no mistake: a README, a payload.
            Err(Denied::Missing) => {}
            Err(denied) => sighting.refuse(root.join(name), denied.to_string()),
        }
    }
    sighting
}

impl Sighting {
    fn list(&mut self, path: &Path, folder: &Folder) -> Vec<String> {
        match folder.id() {
            Ok(id) => {
                self.folders.insert(path.to_owned(), id);
            }
            Err(error) => self.refuse(path.to_owned(), format!("the folder cannot be watched: {error}")),
        }
        match folder.names(NAMES_MAX) {
            Ok(Some(names)) => return names,
            Ok(None) => {
                self.refuse(path.to_owned(), format!("the folder has more than {NAMES_MAX} entries: none is read"))
            }
            Err(error) => self.refuse(path.to_owned(), format!("the folder cannot be read: {error}")),
        }
        Vec::new()
    }

    fn files(
        &mut self,
        root: &Path,
        own: Option<&str>,
        tenant: &str,
        folder: &Folder,
        names: &[String],
        payloads: &Payloads,
    ) {
        let files: Vec<_> = names.iter().filter(|name| !is_ignored(name) && is_plugin_file(name)).collect();
        if files.is_empty() {
            return;
        }
        let tenant: TenantName = match tenant.parse() {
            Ok(tenant) => tenant,
            Err(error) => return self.refuse(shown(root, None, tenant), error.to_string()),
        };
        for file in files {
            // A folder named like a plugin is neither.
            if own.is_none() && folder.is_folder(file) {
                self.refuse(root.join(file), "a folder must not be named like a plugin".to_owned());
                continue;
            }
            let stem = file.rsplit_once('.').map_or(file.as_str(), |(stem, _)| stem);
            let name: JobName = match stem.parse() {
                Ok(name) => name,
                Err(error) => {
                    self.refuse(shown(root, own, file), format!("the file's stem names the plugin: {error}"));
                    continue;
                }
            };
            let id = PluginId { tenant: tenant.clone(), name, folder: own.map(str::to_owned) };
            let sight = Sight::of(folder, Path::new(file));
            let seen = self.plugins.entry(id.clone()).or_default();
            if file.ends_with(".wasm") {
                seen.wasm = sight
            } else {
                seen.manifest = sight
            }
            if seen.payloads.is_empty()
                && let Some(paths) = payloads.get(&id)
            {
                seen.payloads = paths.iter().map(|path| (path.clone(), Sight::of(folder, Path::new(path)))).collect();
            }
        }
    }

    fn refuse(&mut self, path: PathBuf, reason: String) {
        if self.refused.len() < REFUSED_MAX {
            self.refused.push((path, reason));
        }
    }
}

/// What people's and Kubernetes' tools leave beside the files they write.
fn is_ignored(name: &str) -> bool {
    name.starts_with('.') || name.ends_with(".tmp") || name.ends_with('~')
}

fn is_plugin_file(name: &str) -> bool {
    name.ends_with(".wasm") || name.ends_with(".toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_finds_tenants_and_plugins_and_says_what_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        std::fs::create_dir_all(root.join("acme")).unwrap();
        std::fs::create_dir_all(root.join("..data")).unwrap();
        std::fs::create_dir_all(root.join("Bad")).unwrap();
        std::fs::create_dir_all(root.join("dir.wasm")).unwrap();
        for file in [
            "hello.wasm",
            "hello.toml",
            "README.md",
            "x.wasm.tmp",
            "y.wasm~",
            ".z.wasm",
            "acme/a.wasm",
            "acme/My.wasm",
            "acme/b.toml",
            "Bad/a.wasm",
            "..data/k.wasm",
        ] {
            std::fs::write(root.join(file), "x").unwrap();
        }
        let sighting = look(root, &Payloads::new());
        let found: Vec<_> = sighting
            .plugins
            .iter()
            .map(|(id, seen)| format!("{id} {} {}", seen.wasm != Sight::Absent, seen.manifest != Sight::Absent))
            .collect();
        assert_eq!(found, ["acme/a true false", "acme/b false true", "default/hello true true"]);
        let refused: Vec<_> =
            sighting.refused.iter().map(|(path, _)| path.strip_prefix(root).unwrap().to_str().unwrap()).collect();
        assert_eq!(refused, ["dir.wasm", "Bad", "acme/My.wasm"]);
        assert_eq!(sighting.folders.len(), 3);
    }

    #[test]
    fn a_directory_that_is_not_there_is_told() {
        let sighting = look(Path::new("/nowhere/plugins"), &Payloads::new());
        assert!(sighting.refused[0].1.contains("cannot be read"));
    }
}
