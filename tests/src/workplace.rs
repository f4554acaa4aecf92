//! A folder with everything a host needs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::HostProcess;

/// A temporary folder with `leasehold.toml`, `plugins/` and whatever hosts leave there; gone with its owner.
#[derive(Debug)]
pub struct Workplace {
    folder: TempDir,
}

/// Debian's libfaketime, for programs with threads.
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

/// What a command answered.
#[derive(Debug)]
pub struct Answer {
    /// Its exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// Its results.
    pub stdout: String,
    /// What it told people.
    pub stderr: String,
}

impl Answer {
    /// Each line of the results as JSON.
    pub fn lines(&self) -> Vec<Value> {
        let parse =
            |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("not JSON: {e}: {line}\n{self:?}"));
        self.stdout.lines().map(parse).collect()
    }
}

impl Workplace {
    /// A folder with this configuration.
    pub fn new(configuration: &str) -> Workplace {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(folder.path().join("plugins")).expect("an empty folder takes a folder");
        let workplace = Workplace { folder };
        workplace.write("leasehold.toml", configuration);
        workplace
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file, and the folders it lies in.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a name within the folder")).expect("folders can be made");
        fs::write(path, content).expect("a file can be written");
    }

    /// Puts a plugin of the examples or of the tests' guests into the plugin directory, whole at once.
    pub fn install(&self, plugin: &str, to: &str) {
        let path = self.path().join("plugins").join(to);
        fs::create_dir_all(path.parent().expect("a name within the folder")).expect("folders can be made");
        let beside = path.with_extension("tmp");
        fs::copy(built_plugin(plugin), &beside).expect("a plugin can be copied");
        fs::rename(&beside, &path).expect("a file can be renamed");
    }

    /// The same as another version: it does what the plugin does, and has another digest.
    pub fn install_version(&self, plugin: &str, to: &str, tag: &str) {
        let mut bytes = fs::read(built_plugin(plugin)).expect("a plugin can be read");
        // A custom section: its kind, its length, and a name that is the tag.
        let length = |n: usize| u8::try_from(n).ok().filter(|n| *n < 0x80).expect("a short tag");
        bytes.extend([0, length(tag.len() + 1), length(tag.len())]);
        bytes.extend(tag.as_bytes());
        let beside = Path::new("plugins").join(to).with_extension("tmp");
        self.write(beside.to_str().expect("a name"), bytes);
        fs::rename(self.path().join(beside), self.path().join("plugins").join(to)).expect("a file can be renamed");
    }

    /// Starts `leasehold serve` here.
    pub fn serve(&self) -> HostProcess {
        HostProcess::start(self.command(&["serve", "--json"]))
    }

    /// Starts `leasehold serve` here with one more variable in its environment.
    pub fn serve_with(&self, variable: &str, value: &str) -> HostProcess {
        let mut command = self.command(&["serve", "--json"]);
        command.env(variable, value);
        HostProcess::start(command)
    }

    /// Starts `leasehold serve` here with one more variable in its environment, by way of another command: that takes it as its
    /// last arguments and becomes it.
    pub fn serve_by(&self, command: &[&str], variable: &str, value: &str) -> HostProcess {
        let serve = self.command(&["serve", "--json"]);
        let [program, arguments @ ..] = command else { panic!("a command has a program") };
        let mut by = Command::new(program);
        by.args(arguments).arg(serve.get_program()).args(serve.get_args()).current_dir(self.path());
        for (name, value) in serve.get_envs() {
            match value {
                Some(value) => by.env(name, value),
                None => by.env_remove(name),
            };
        }
        by.env(variable, value);
        HostProcess::start(by)
    }

    /// Starts `leasehold serve` here with its wall clock an hour ahead; its own timer goes on as it does. None where
    /// libfaketime is not installed, which is said.
    pub fn serve_an_hour_ahead(&self) -> Option<HostProcess> {
        if !Path::new(FAKETIME).is_file() {
            eprintln!("SKIPPED: no {FAKETIME}, by which a host's clock is set (apt install libfaketime)");
            return None;
        }
        let mut command = self.command(&["serve", "--json"]);
        command.env("LD_PRELOAD", FAKETIME).env("FAKETIME", "+1h").env("NO_FAKE_STAT", "1");
        command.env("DONT_FAKE_MONOTONIC", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        Some(HostProcess::start(command))
    }

    /// Starts `leasehold serve` here from a file of its own in this folder, and answers with that file.
    pub fn serve_own_file(&self) -> (HostProcess, PathBuf) {
        let own = self.path().join("leasehold");
        // A link where the file system has both, which is quick.
        fs::hard_link(binary(), &own).or_else(|_| fs::copy(binary(), &own).map(drop)).expect("a file of its own");
        let mut command = Command::new(&own);
        command.args(["serve", "--json"]).current_dir(self.path());
        (HostProcess::start(command), own)
    }

    /// Puts any file into the plugin directory, whole at once.
    pub fn drop_in(&self, name: &str, content: &[u8]) {
        let path = self.path().join("plugins").join(name);
        self.write(&format!("plugins/{name}.tmp"), content);
        fs::rename(path.with_added_extension("tmp"), &path).expect("a file can be renamed");
    }

    /// A plugin of the examples or of the tests' guests.
    pub fn plugin(&self, name: &str) -> Vec<u8> {
        fs::read(built_plugin(name)).expect("a plugin can be read")
    }

    /// Runs `leasehold` here and waits for its end.
    pub fn leasehold(&self, arguments: &[&str]) -> Answer {
        let output = self.command(arguments).output().expect("leasehold can be run");
        Answer {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// `leasehold show JOB RUN --json`.
    pub fn show(&self, job: &str, run: &str) -> Value {
        let answer = self.leasehold(&["show", job, run, "--json"]);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        answer.lines().remove(0)
    }

    /// `leasehold runs --job JOB --json`, newest first.
    pub fn runs(&self, job: &str) -> Vec<Value> {
        let answer = self.leasehold(&["runs", "--job", job, "--json"]);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        answer.lines()
    }

    /// `leasehold` here, to be started.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(arguments).current_dir(self.path()).env("TZ", "Asia/Tokyo").env_remove("RUST_LOG");
        command.env("XDG_CACHE_HOME", caches());
        command
    }
}

/// The plugins of the tests whose names begin so, by what follows: `conformance-` answers `["c", "go", "rust"]` where
/// those are built.
pub fn built_plugins(prefix: &str) -> Vec<String> {
    let Ok(folder) = fs::read_dir(root().join("tests/plugins")) else { return Vec::new() };
    let names = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut found: Vec<String> =
        names.filter_map(|name| Some(name.strip_prefix(prefix)?.strip_suffix(".wasm")?.to_owned())).collect();
    found.sort_unstable();
    found
}

/// A manifest's job whose first slot is some seconds ahead and whose next ones are between half a minute and a minute
/// apart: the interval is chosen for that. Where the host is not ready by the first slot, the second is its first.
pub fn soon_then_rarely(name: &str, rest: &str) -> String {
    let now = leasehold::clock::wall().0 / 1_000;
    let wait = |period: &i64| period - now % period;
    let period = (36..=60).filter(|period| wait(period) >= 6).min_by_key(wait).expect("some period fits");
    format!("[[jobs]]\nname = \"{name}\"\nevery = \"{period}s\"\n{rest}\n")
}

/// Where tests share what `leasehold exec` has compiled, and hosts whose data lies in `leasehold` there.
pub fn caches() -> PathBuf {
    binary().with_file_name("compiled-by-tests")
}

/// The program, which lies beside this test's own.
pub fn binary() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a file");
    let found = test.ancestors().skip(1).take(3).map(|folder| folder.join("leasehold")).find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("no leasehold beside {}: run cargo build -p leasehold", test.display()))
}

fn built_plugin(name: &str) -> PathBuf {
    let places = [root().join("examples/plugins"), root().join("tests/plugins")];
    let found = places.iter().map(|place| place.join(format!("{name}.wasm"))).find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("{name}.wasm is not built: run scripts/build-plugins"))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the repository")
}
