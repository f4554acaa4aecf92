//! One look at the plugin directory: which plugins there are, and the stamps of their files. Nothing is read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use leasehold_lease::id::{JobName, NameError, TenantName};

use super::beneath::{Denied, Folder, Stamp, shown};
use crate::config::quoted;

/// The tenant of files that lie directly in the plugin directory.
pub const DEFAULT_TENANT: &str = "default";
/// More names in one folder than this are not looked at.
const NAMES_MAX: usize = 10_000;
/// How many files with bad names are told of one folder, so that no tenant's hide another's.
const REFUSED_MAX: usize = 50;
/// How many names that are ignored are told of one folder.
const IGNORED_MAX: usize = 50;

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
    /// It is there, and nobody looked at it.
    PassedOver,
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

    /// One file that was written in place between the two.
    pub(super) fn is_same_file(&self, other: &Sight) -> bool {
        matches!((self, other), (Sight::File(one), Sight::File(other)) if one.is_same_file(other))
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

    /// Nobody has looked at its files.
    pub(super) fn is_passed_over(&self) -> bool {
        [&self.wasm, &self.manifest].contains(&&Sight::PassedOver)
    }

    /// When what defines its jobs was written, in ns since the Unix epoch.
    pub(super) fn defined_at(&self) -> i128 {
        match (&self.manifest, &self.wasm) {
            (Sight::File(stamp), _) | (_, Sight::File(stamp)) => stamp.modified(),
            _ => i128::MAX,
        }
    }

    /// Nothing about its files has changed since `ns` (since the Unix epoch).
    pub(super) fn is_older(&self, ns: i128) -> bool {
        self.wasm.is_older(ns) && self.manifest.is_older(ns) && self.payloads.values().all(|sight| sight.is_older(ns))
    }
}

/// What is known before a look.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The payload files to look at beside a plugin's own two.
    pub(super) payloads: BTreeMap<PluginId, BTreeSet<String>>,
    /// Plugins that their tenant has no room for: only that they are there is of interest.
    pub(super) waiting: BTreeSet<PluginId>,
}

/// What one look saw.
#[derive(Debug, Default)]
pub(super) struct Sighting {
    pub(super) plugins: BTreeMap<PluginId, Seen>,
    /// What cannot be a plugin, and why.
    pub(super) refused: Vec<(PathBuf, String)>,
    /// The folders to watch, with device and inode.
    pub(super) folders: BTreeMap<PathBuf, (i128, i128)>,
    /// What could not be looked at: nothing is known of it, so it stays as it was.
    pub(super) unread: Unread,
    /// What is passed over, bounded, and how many more there are.
    pub(super) ignored: (Vec<PathBuf>, usize),
    /// How many are refused and ignored in the folder that is being looked at.
    pub(super) here: (usize, usize),
}

/// Parts of the plugin directory that could not be looked at.
#[derive(Debug, Default)]
pub(super) struct Unread {
    /// The directory itself: then none of its folders is known either.
    whole: bool,
    folders: BTreeSet<String>,
}

impl Unread {
    /// Whether this plugin may be there all the same.
    pub(super) fn covers(&self, id: &PluginId) -> bool {
        self.whole || id.folder.as_ref().is_some_and(|folder| self.folders.contains(folder))
    }

    pub(super) fn add(&mut self, folder: Option<&str>) {
        match folder {
            None => self.whole = true,
            Some(folder) => {
                self.folders.insert(folder.to_owned());
            }
        }
    }
}

/// Looks at the whole directory. Blocks on the disk.
pub(super) fn look(root: &Path, known: &Known) -> Sighting {
    let mut sighting = Sighting::default();
    let folder = match Folder::open(root) {
        Ok(folder) => folder,
        Err(error) => {
            let reason = format!(
                "the plugin directory cannot be read: {error}; what serves goes on serving; create it, mount it again, or \
                 name another in host.plugins"
            );
            sighting.refused.push((root.to_owned(), reason));
            // One that is gone was more likely moved or unmounted than emptied: whoever wants no plugin any more empties it.
            sighting.unread.whole = true;
            return sighting;
        }
    };
    let names = sighting.list(root, None, &folder);
    sighting.files(root, None, DEFAULT_TENANT, &folder, &names, known);
    for name in names.iter().filter(|name| !is_ignored(name) && !is_plugin_file(name)) {
        match folder.tenant(name) {
            Ok(tenant) => {
                let names = sighting.list(&root.join(name), Some(name), &tenant);
                sighting.files(root, Some(name), name, &tenant, &names, known);
            }
            // An ordinary file is no tenant, and no mistake: a README, a payload.
            Err(Denied::Missing) => sighting.ignore(root.join(name)),
            Err(denied) => {
                if matches!(denied, Denied::Io(_)) {
                    sighting.unread.add(Some(name));
                }
                sighting.refuse(root.join(name), denied.to_string());
            }
        }
    }
    sighting
}

impl Sighting {
    fn list(&mut self, path: &Path, own: Option<&str>, folder: &Folder) -> Vec<String> {
        self.here = (0, 0);
        match folder.id() {
            Ok(id) => {
                self.folders.insert(path.to_owned(), id);
            }
            Err(error) => self.refuse(path.to_owned(), format!("the folder cannot be watched: {error}")),
        }
        match folder.names(NAMES_MAX) {
            Ok(Some(names)) => {
                let passed_over = |name: &&String| is_ignored(name) || own.is_some() && !is_plugin_file(name);
                names.iter().filter(passed_over).for_each(|name| self.ignore(path.join(name)));
                return names;
            }
            Ok(None) => {
                let reason = format!(
                    "the folder has more than {NAMES_MAX} entries: none is read, and what serves goes on serving; \
                     remove what is no plugin"
                );
                self.refuse(path.to_owned(), reason);
            }
            Err(error) => self.refuse(path.to_owned(), format!("the folder cannot be read: {error}")),
        }
        self.unread.add(own);
        Vec::new()
    }

    fn files(
        &mut self,
        root: &Path,
        own: Option<&str>,
        tenant: &str,
        folder: &Folder,
        names: &[String],
        known: &Known,
    ) {
        let files: Vec<_> = names.iter().filter(|name| !is_ignored(name) && is_plugin_file(name)).collect();
        if files.is_empty() {
            return;
        }
        let mut bad_stems = BTreeSet::new();
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
            let name = match stem.parse::<JobName>() {
                Ok(name) => name,
                // Code and manifest of one bad name are one mistake.
                Err(_) if !bad_stems.insert(stem.to_owned()) => continue,
                Err(error) => {
                    self.refuse(shown(root, own, file), not_a_plugins_name(stem, &error));
                    continue;
                }
            };
            let id = PluginId { tenant: tenant.clone(), name, folder: own.map(str::to_owned) };
            let sight = match known.waiting.contains(&id) {
                true => Sight::PassedOver,
                false => Sight::of(folder, Path::new(file)),
            };
            let seen = self.plugins.entry(id.clone()).or_default();
            if file.ends_with(".wasm") {
                seen.wasm = sight
            } else {
                seen.manifest = sight
            }
            if seen.payloads.is_empty()
                && let Some(paths) = known.payloads.get(&id)
            {
                seen.payloads = paths.iter().map(|path| (path.clone(), Sight::of(folder, Path::new(path)))).collect();
            }
        }
    }

    fn refuse(&mut self, path: PathBuf, reason: String) {
        self.here.0 += 1;
        if self.here.0 <= REFUSED_MAX {
            self.refused.push((path, reason));
        }
    }

    fn ignore(&mut self, path: PathBuf) {
        let (told, more) = &mut self.ignored;
        self.here.1 += 1;
        if self.here.1 <= IGNORED_MAX { told.push(path) } else { *more += 1 }
    }
}

/// A plugin is named like a job, and is none.
fn not_a_plugins_name(stem: &str, error: &NameError) -> String {
    let (name, reason) = (quoted(stem), error.reason);
    format!("{name} is no plugin's name: {reason}; use 1 to 64 of a-z 0-9 . _ - and begin with a letter or digit")
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
        // What editors and copying tools leave while they write.
        let passed_over = [
            "README.md",
            "x.wasm.tmp",
            "y.wasm~",
            ".z.wasm",
            ".hello.toml.swp",
            ".#hello.toml",
            "#hello.toml#",
            "4913",
            "hello.wasm.part",
            "hello.wasm.filepart",
            ".hello.wasm.Xa8G2k",
            "hello.toml.orig",
        ];
        for file in passed_over.into_iter().chain([
            "hello.wasm",
            "hello.toml",
            "acme/a.wasm",
            "acme/My.toml",
            "acme/My.wasm",
            "acme/b.toml",
            "Bad/a.wasm",
            "..data/k.wasm",
        ]) {
            std::fs::write(root.join(file), "x").unwrap();
        }
        let sighting = look(root, &Known::default());
        let found: Vec<_> = sighting
            .plugins
            .iter()
            .map(|(id, seen)| format!("{id} {} {}", seen.wasm != Sight::Absent, seen.manifest != Sight::Absent))
            .collect();
        assert_eq!(found, ["acme/a true false", "acme/b false true", "default/hello true true"]);
        let refused: Vec<_> =
            sighting.refused.iter().map(|(path, _)| path.strip_prefix(root).unwrap().to_str().unwrap()).collect();
        assert_eq!(refused, ["dir.wasm", "Bad", "acme/My.toml"]);
        let told = &sighting.refused[2].1;
        assert!(told.starts_with("\"My\" is no plugin's name: it does not begin with a letter a-z"), "{told}");
        assert_eq!(sighting.folders.len(), 3);
        let ignored: BTreeSet<_> =
            sighting.ignored.0.iter().map(|path| path.strip_prefix(root).unwrap().to_str().unwrap()).collect();
        assert_eq!(ignored, passed_over.into_iter().chain(["..data"]).collect());
    }

    #[test]
    fn a_folder_with_too_many_names_says_nothing_of_its_plugins() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for folder in ["flood", "calm"] {
            std::fs::create_dir(root.join(folder)).unwrap();
            std::fs::write(root.join(folder).join("a.wasm"), "x").unwrap();
        }
        for n in 0..NAMES_MAX {
            std::fs::write(root.join(format!("flood/{n}")), "").unwrap();
        }
        let sighting = look(root, &Known::default());
        let id = |folder: &str| PluginId {
            tenant: folder.parse().unwrap(),
            name: "a".parse().unwrap(),
            folder: Some(folder.to_owned()),
        };
        assert!(sighting.unread.covers(&id("flood")) && !sighting.plugins.contains_key(&id("flood")));
        assert!(!sighting.unread.covers(&id("calm")) && sighting.plugins.contains_key(&id("calm")));
        assert!(sighting.refused[0].1.contains("more than 10000 entries"));
        assert!(sighting.ignored.0.len() <= IGNORED_MAX);
    }

    #[test]
    fn no_tenants_bad_names_hide_anothers() {
        let dir = tempfile::tempdir().unwrap();
        for (folder, count) in [("a", REFUSED_MAX + 10), ("b", 1)] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
            for n in 0..count {
                std::fs::write(dir.path().join(format!("{folder}/Bad{n}.wasm")), "").unwrap();
                std::fs::write(dir.path().join(format!("{folder}/{n}.tmp")), "").unwrap();
            }
        }
        let sighting = look(dir.path(), &Known::default());
        assert_eq!((sighting.refused.len(), sighting.ignored.0.len()), (REFUSED_MAX + 1, IGNORED_MAX + 1));
        assert!(sighting.refused.last().unwrap().0.ends_with("b/Bad0.wasm"));
        assert_eq!(sighting.ignored.1, REFUSED_MAX + 10 - IGNORED_MAX);
    }

    #[test]
    fn a_directory_that_is_not_there_is_told_and_not_taken_for_an_empty_one() {
        let sighting = look(Path::new("/nowhere/plugins"), &Known::default());
        assert!(sighting.refused[0].1.contains("cannot be read") && sighting.unread.whole);
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(look(file.path(), &Known::default()).unread.whole);
    }
}
