//! The directory as it really changes under people's and machines' tools. Tests wait for states of the catalog.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::config::{Config, Flags, Sources};
use crate::plugins::{LoadError, PluginState, Plugins, Survey, check, scan, scan_and_survey};
use leasehold_lease::id::TenantName;
use leasehold_lease::schedule::Zones;
use leasehold_sandbox::PluginBytes;

mod lost;
mod told;

/// A system whose watches are all taken.
pub(super) struct NoWatchLeft;

impl Watcher for NoWatchLeft {
    fn new<F: notify::EventHandler>(_: F, _: notify::Config) -> notify::Result<NoWatchLeft> {
        Ok(NoWatchLeft)
    }
    fn watch(&mut self, _: &Path, _: RecursiveMode) -> notify::Result<()> {
        Err(notify::Error::new(notify::ErrorKind::MaxFilesWatch))
    }
    fn unwatch(&mut self, _: &Path) -> notify::Result<()> {
        Err(notify::Error::watch_not_found())
    }
    fn kind() -> notify::WatcherKind {
        notify::WatcherKind::NullWatcher
    }
}

/// Takes what begins with "good" and ends with "end"; finds what begins with "compiled"; fails with "unlucky" twice.
#[derive(Default, Clone)]
struct Loader {
    loads: Arc<AtomicUsize>,
}

impl PluginLoader for Loader {
    type Plugin = String;

    async fn find(
        &self,
        _tenant: &TenantName,
        bytes: &PluginBytes,
        _metered: bool,
    ) -> Result<Option<Arc<String>>, LoadError> {
        let text = String::from_utf8_lossy(bytes);
        Ok(text.strip_prefix("compiled ").map(|version| Arc::new(version.to_owned())))
    }

    async fn load(
        &self,
        _tenant: &TenantName,
        _file: &Path,
        bytes: PluginBytes,
        _metered: bool,
    ) -> Result<Arc<String>, LoadError> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        let text = String::from_utf8(bytes.to_vec()).map_err(|_| LoadError::Refused("not text".to_owned()))?;
        if text == "unlucky" && self.loads.load(Ordering::Relaxed) < 3 {
            return Err(LoadError::Host("the compiler did not run".to_owned()));
        }
        assert!(text != "panic", "the loader's own mistake");
        if text == "slow" {
            std::future::pending::<()>().await;
        }
        if text == "unlucky" {
            return Ok(Arc::new(text));
        }
        match text.strip_prefix("good ").and_then(|rest| rest.strip_suffix(" end")) {
            Some(version) => Ok(Arc::new(version.to_owned())),
            None => Err(LoadError::Refused("it is no plugin".to_owned())),
        }
    }
}

struct Bench {
    folder: tempfile::TempDir,
    loader: Loader,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("plugins/acme")).unwrap();
        Bench { folder, loader: Loader::default() }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join("plugins").join(file)
    }

    /// The plugin directory is gone, all of it at once.
    fn lose(&self) {
        let aside = self.folder.path().join("lost");
        fs::rename(self.path(""), &aside).unwrap();
        fs::remove_dir_all(aside).unwrap();
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.path(file), text).unwrap();
    }

    fn sources(&self) -> Sources {
        Sources { folder: self.folder.path().into(), ..Sources::default() }
    }

    /// The wall clock far ahead: everything has long been at rest.
    const LATER: Millis = Millis(i64::MAX / 2_000_000);

    async fn scan(&self) -> Arc<Catalog<String>> {
        let config = Arc::new(Config::load(&self.sources()).unwrap());
        scan(config, Zones::bundled(), self.loader.clone(), Bench::LATER).await
    }

    /// Follows by signs alone: without one, no look would come within the test's life.
    async fn follow(&self) -> Followed {
        self.follow_at(Pace { rescan: Duration::from_secs(3_600), ..Pace::default() }).await
    }

    /// Follows by looking again and again, as where no sign ever comes.
    async fn follow_without_signs(&self) -> Followed {
        self.follow_at(Pace { rescan: Duration::from_millis(20), source: Source::Nowhere, ..Pace::default() }).await
    }

    async fn survey(&self) -> Arc<Survey> {
        let config = Arc::new(Config::load(&self.sources()).unwrap());
        scan_and_survey(config, Zones::bundled(), self.loader.clone(), Bench::LATER).await.1
    }

    async fn follow_at(&self, pace: Pace) -> Followed {
        let config = Arc::new(Config::load(&self.sources()).unwrap());
        let context = Context { config, zones: Zones::bundled(), loader: self.loader.clone() };
        let plugins = Plugins::start_at(pace, context, Bench::LATER).await;
        Followed { catalog: plugins.catalog(), survey: plugins.survey(), plugins }
    }
}

struct Followed {
    plugins: Plugins<String>,
    catalog: watch::Receiver<Arc<Catalog<String>>>,
    survey: watch::Receiver<Arc<Survey>>,
}

impl Followed {
    /// Waits until the catalog is so.
    async fn until(&mut self, what: &str, is: impl Fn(&Catalog<String>) -> bool) -> Arc<Catalog<String>> {
        let wait = tokio::time::timeout(Duration::from_secs(30), self.catalog.wait_for(|catalog| is(catalog)));
        match wait.await.map(|found| found.map(|found| Arc::clone(&found))) {
            Ok(Ok(catalog)) => catalog,
            _ => panic!("never came: {what}; now {:#?}", *self.catalog.borrow()),
        }
    }

    /// Waits until the only plugin stands so.
    async fn state(&mut self, expected: PluginState) -> Arc<Survey> {
        let is = |survey: &Arc<Survey>| survey.plugins.len() == 1 && survey.plugins[0].state == expected;
        let wait = tokio::time::timeout(Duration::from_secs(30), self.survey.wait_for(is)).await;
        match wait.map(|found| found.map(|found| Arc::clone(&found))) {
            Ok(Ok(survey)) => survey,
            _ => panic!("never {expected:?}: {:#?}", *self.survey.borrow()),
        }
    }

    /// Waits until the jobs are these, each "key version".
    async fn jobs(&mut self, expected: &[&str]) -> Arc<Catalog<String>> {
        self.until(&format!("{expected:?}"), |catalog| jobs(catalog) == expected).await
    }
}

fn jobs(catalog: &Catalog<String>) -> Vec<String> {
    catalog.jobs.iter().map(|(key, job)| format!("{key} {}", job.plugin)).collect()
}

fn payload(catalog: &Catalog<String>, key: &str) -> String {
    String::from_utf8(catalog.jobs[&key.parse().unwrap()].spec.payload.to_vec()).unwrap()
}

#[tokio::test]
async fn the_first_scan_finds_everything() {
    let b = Bench::new();
    b.write("hello.wasm", "good 1 end");
    b.write("acme/report.wasm", "good 2 end");
    b.write(
        "acme/report.toml",
        "[[jobs]]\nname = \"nightly\"\nevery = \"1m\"\npayload_file = \"log.txt\"\n[[jobs]]\nname = \"a/b\"\n",
    );
    b.write("acme/log.txt", "lines");
    b.write("acme/bad.wasm", "text");
    b.write("acme/lonely.toml", "[[jobs]]\nname = \"x\"\n");
    let catalog = b.scan().await;
    assert_eq!(jobs(&catalog), ["acme/nightly 2", "default/hello 1"]);
    assert_eq!(payload(&catalog, "acme/nightly"), "lines");
    let told = catalog.problems().to_string();
    for expected in [
        "acme/bad.wasm: it is no plugin",
        "acme/lonely.toml: there is no lonely.wasm beside the manifest",
        "acme/report.toml:6: jobs[2].name: job \"a/b\" is not a name",
    ] {
        assert!(told.contains(expected), "{told}");
    }
    assert_eq!(catalog.refused.len(), 3);
}

#[tokio::test]
async fn a_payload_file_outside_the_folder_is_refused_whatever_the_way() {
    let b = Bench::new();
    b.write("acme/a.wasm", "good 1 end");
    b.write("secret", "hunter2");
    symlink("../secret", b.path("acme/link")).unwrap();
    let job = |name: &str, path: &str| format!("[[jobs]]\nname = \"{name}\"\npayload_file = \"{path}\"\n");
    b.write(
        "acme/a.toml",
        &[job("dots", "../secret"), job("absolute", "/etc/passwd"), job("link", "link"), job("gone", "gone")].concat(),
    );
    let catalog = b.scan().await;
    assert!(catalog.jobs.is_empty());
    let told = catalog.problems().to_string();
    for (line, reason) in
        [(3, "a path with .."), (6, "an absolute path"), (9, "a link in it leads out"), (12, "there is no such file")]
    {
        assert!(told.lines().any(|told| told.contains(&format!("a.toml:{line}: ")) && told.contains(reason)), "{told}");
    }
    assert!(!told.contains("hunter2") && !told.contains("root:"), "{told}");
}

#[tokio::test]
async fn a_loader_that_fails_costs_only_that_plugin() {
    let b = Bench::new();
    b.write("acme/a.wasm", "panic");
    b.write("acme/b.wasm", "good 1 end");
    let catalog = b.scan().await;
    assert_eq!(jobs(&catalog), ["acme/b 1"]);
    assert!(catalog.problems().to_string().contains("loading it failed inside the host"));
}

#[tokio::test]
async fn at_start_a_plugin_that_is_slow_to_load_keeps_no_other_waiting() {
    let b = Bench::new();
    b.write("acme/slow.wasm", "slow");
    b.write("hello.wasm", "good 1 end");
    let pace = Pace { patience: Duration::from_millis(200), ..Pace::default() };
    let mut followed = b.follow_at(pace).await;
    followed.jobs(&["default/hello 1"]).await;
    // Nor those that come later.
    b.write("hello.wasm", "good 2 end");
    followed.jobs(&["default/hello 2"]).await;
}

#[tokio::test]
async fn what_was_compiled_before_waits_for_no_compiler() {
    let b = Bench::new();
    let slow: Vec<String> = (0..20).map(|n| format!("acme/slow-{n}.wasm")).collect();
    slow.iter().for_each(|file| b.write(file, "slow"));
    let mut followed = b.follow_at(Pace { patience: Duration::ZERO, ..Pace::default() }).await;
    b.write("acme/hello.wasm", "compiled 1");
    followed.jobs(&["acme/hello 1"]).await;
    assert!(b.loader.loads.load(Ordering::Relaxed) < slow.len(), "some of them wait for a compiler");
}

#[tokio::test]
async fn a_plugin_whose_compiler_could_not_be_started_is_tried_again_without_being_touched() {
    let b = Bench::new();
    b.write("acme/a.wasm", "unlucky");
    let mut followed = b.follow_without_signs().await;
    let catalog = followed.until("refused", |catalog| !catalog.refused.is_empty()).await;
    assert!(catalog.problems().to_string().contains("the compiler did not run; it is tried again"));
    followed.jobs(&["acme/a unlucky"]).await;
    assert_eq!(b.loader.loads.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn plugins_come_change_and_go() {
    let b = Bench::new();
    let mut f = b.follow().await;
    assert!(jobs(&f.catalog.borrow()).is_empty());
    b.write("acme/a.wasm", "good 1 end");
    f.jobs(&["acme/a 1"]).await;
    // Renamed into place.
    b.write("acme/a.wasm.tmp", "good 2 end");
    fs::rename(b.path("acme/a.wasm.tmp"), b.path("acme/a.wasm")).unwrap();
    f.jobs(&["acme/a 2"]).await;
    // A manifest comes, is broken, and is put right.
    b.write("acme/a.toml", "[[jobs]]\nname = \"j\"\nevery = \"1m\"\n");
    f.jobs(&["acme/j 2"]).await;
    b.write("acme/a.toml", "[[jobs]\nname = \"k\"\n");
    let catalog = f.until("stale", |catalog| catalog.stale.len() == 1).await;
    assert_eq!(jobs(&catalog), ["acme/j 2"]);
    b.write("acme/a.toml", "[[jobs]]\nname = \"k\"\n");
    let catalog = f.jobs(&["acme/k 2"]).await;
    assert!(catalog.stale.is_empty());
    fs::remove_file(b.path("acme/a.wasm")).unwrap();
    let catalog = f.jobs(&[]).await;
    assert!(catalog.problems().to_string().contains("there is no a.wasm"), "{}", catalog.problems());
    fs::remove_dir_all(b.path("acme")).unwrap();
    f.until("nothing", |catalog| catalog.refused.is_empty()).await;
    f.plugins.stop().await;
}

#[tokio::test]
async fn a_slow_copy_never_replaces_the_version_that_serves_by_half_a_file() {
    let b = Bench::new();
    b.write("acme/a.wasm", "good 1 end");
    let mut f = b.follow().await;
    let mut copy = fs::File::create(b.path("acme/a.wasm")).unwrap();
    copy.write_all(b"good 2").unwrap();
    // The copy stalls for so long that the half looks finished.
    let catalog = f.until("stale", |catalog| !catalog.stale.is_empty()).await;
    assert_eq!(jobs(&catalog), ["acme/a 1"]);
    copy.write_all(b" end").unwrap();
    drop(copy);
    let catalog = f.jobs(&["acme/a 2"]).await;
    assert!(catalog.stale.is_empty());
    fs::File::create(b.path("acme/a.wasm")).unwrap();
    f.until("stale", |catalog| !catalog.stale.is_empty() && jobs(catalog) == ["acme/a 2"]).await;
    f.plugins.stop().await;
}

#[tokio::test]
async fn a_swap_of_kubernetes_data_link_brings_the_new_version() {
    let b = Bench::new();
    for (folder, version) in [("..v1", "1"), ("..v2", "2")] {
        fs::create_dir(b.path("acme").join(folder)).unwrap();
        b.write(&format!("acme/{folder}/a.wasm"), &format!("good {version} end"));
    }
    symlink("..v1", b.path("acme/..data")).unwrap();
    symlink("..data/a.wasm", b.path("acme/a.wasm")).unwrap();
    let mut f = b.follow().await;
    f.jobs(&["acme/a 1"]).await;
    symlink("..v2", b.path("acme/..data_tmp")).unwrap();
    fs::rename(b.path("acme/..data_tmp"), b.path("acme/..data")).unwrap();
    f.jobs(&["acme/a 2"]).await;
    f.plugins.stop().await;
}

#[tokio::test]
async fn a_payload_file_is_read_again_when_it_changes() {
    let b = Bench::new();
    b.write("acme/a.wasm", "good 1 end");
    b.write("acme/p.txt", "one");
    b.write("acme/a.toml", "[[jobs]]\nname = \"j\"\npayload_file = \"p.txt\"\n");
    let mut f = b.follow().await;
    assert_eq!(payload(&f.catalog.borrow(), "acme/j"), "one");
    b.write("acme/p.txt", "two!");
    f.until("two!", |catalog| payload(catalog, "acme/j") == "two!").await;
    assert_eq!(b.loader.loads.load(Ordering::Relaxed), 1, "the code is not loaded again");
    fs::remove_file(b.path("acme/p.txt")).unwrap();
    let catalog = f.until("stale", |catalog| !catalog.stale.is_empty()).await;
    assert_eq!(payload(&catalog, "acme/j"), "two!");
    f.plugins.stop().await;
}

#[tokio::test]
async fn a_copy_of_what_serves_changes_nothing() {
    let b = Bench::new();
    b.write("acme/a.wasm", "good 1 end");
    let mut f = b.follow().await;
    let before = f.jobs(&["acme/a 1"]).await;
    b.write("acme/.new", "good 1 end");
    fs::rename(b.path("acme/.new"), b.path("acme/a.wasm")).unwrap();
    b.write("acme/b.wasm", "good 2 end");
    let after = f.jobs(&["acme/a 1", "acme/b 2"]).await;
    f.until("both looked at", |_| true).await;
    let key = "acme/a".parse().unwrap();
    assert!(before.jobs[&key].is_same(&after.jobs[&key]));
    // The same size and times, other bytes: the digest decides.
    let modified = fs::metadata(b.path("acme/a.wasm")).unwrap().modified().unwrap();
    b.write("acme/a.wasm", "good 9 end");
    fs::File::options().write(true).open(b.path("acme/a.wasm")).unwrap().set_modified(modified).unwrap();
    f.jobs(&["acme/a 9", "acme/b 2"]).await;
    assert_eq!(b.loader.loads.load(Ordering::Relaxed), 3);
    f.plugins.stop().await;
}

#[tokio::test]
async fn a_tenants_new_folder_is_watched_too() {
    let b = Bench::new();
    let mut f = b.follow().await;
    fs::create_dir(b.path("late")).unwrap();
    b.write("late/a.wasm", "good 1 end");
    f.jobs(&["late/a 1"]).await;
    b.write("late/a.wasm", "good 2 end");
    f.jobs(&["late/a 2"]).await;
    // Another folder of the same name, with another inode.
    fs::rename(b.path("late"), b.path(".old")).unwrap();
    fs::create_dir(b.path("late")).unwrap();
    b.write("late/a.wasm", "good 3 end");
    f.jobs(&["late/a 3"]).await;
    b.write("late/a.wasm", "good 4 end");
    f.jobs(&["late/a 4"]).await;
    f.plugins.stop().await;
}

#[tokio::test]
async fn a_directory_at_rest_is_left_in_peace() {
    let b = Bench::new();
    b.write("acme/a.wasm", "good 1 end");
    let mut f = b.follow().await;
    b.write("acme/b.wasm", "good 2 end");
    f.jobs(&["acme/a 1", "acme/b 2"]).await;
    f.catalog.mark_unchanged();
    b.write("acme/.hidden", "x");
    b.write("acme/README", "x");
    b.write("acme/c.wasm.tmp", "good 3 end");
    fs::rename(b.path("acme/c.wasm.tmp"), b.path("acme/c.wasm")).unwrap();
    // The next catalog is the one with c: neither looking nor other files made one.
    f.catalog.changed().await.unwrap();
    assert_eq!(jobs(&f.catalog.borrow()), ["acme/a 1", "acme/b 2", "acme/c 3"]);
    assert_eq!(b.loader.loads.load(Ordering::Relaxed), 3);
    f.plugins.stop().await;
}
