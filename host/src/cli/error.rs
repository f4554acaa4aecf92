//! What can make a command fail, and how it is told: once, at the edge, as a chain.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;

use leasehold::StartError;
use leasehold::causes::chain;
use leasehold::config::{Problems, StoreUrl};
use leasehold_lease::id::{JobKey, RunKey};
use leasehold_lease::schedule::{ScheduleError, ZoneError};
use leasehold_lease::time::Millis;
use leasehold_sandbox::{PluginError, SandboxError};
use leasehold_store::StoreError;
use leasehold_store::bench::BenchError;

use super::Exit;
use super::text::plain;

/// Why a command ended without its result.
#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    /// The configuration is wrong: every problem is told.
    #[error("{0}")]
    Config(Problems),
    /// A flag that would be ignored.
    #[error("{flag} means nothing to `leasehold {command}`, which needs no configuration: leave it out")]
    NoConfiguration {
        /// The flag.
        flag: &'static str,
        /// The command.
        command: &'static str,
    },
    /// Nothing to serve.
    #[error(
        "there is no plugins directory {}: create it and put plugins (.wasm) there, or name another with --plugins or \
         with plugins under [host] in leasehold.toml",
        path.display()
    )]
    NoPlugins {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A pause that is over before it begins.
    #[error("--until {until} is not ahead: by the store's clock it is {now}; nothing was paused")]
    PastUntil {
        /// What was asked for.
        until: Millis,
        /// The store's clock.
        now: Millis,
    },
    /// The payload's file.
    #[error("cannot read the payload {}: name a regular file behind the @", path.display())]
    PayloadFile {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The payload on the command line.
    #[error("the payload is not JSON: write JSON such as '{{\"day\": 1}}' or '\"text\"', or @FILE for a file's bytes")]
    PayloadJson(#[source] serde_json::Error),
    /// A payload beyond the tenant's bound.
    #[error("the payload is larger than the {most} bytes that the tenant's jobs may be given (payload_max)")]
    PayloadSize {
        /// The bound, in bytes.
        most: u64,
    },
    /// Too many runs wait.
    #[error(
        "{pending_max} runs of the job {job} wait already (pending_max): nothing was started; `leasehold runs --job \
         {job} --status pending` lists them, `leasehold why {job} RUN-ID` says what one waits for"
    )]
    PendingFull {
        /// Which job.
        job: JobKey,
        /// How many may.
        pending_max: u32,
    },
    /// A host that the store does not know.
    #[error("no host of the name {host:?} is known; `leasehold hosts` lists those there are")]
    UnknownHost {
        /// What was asked for.
        host: String,
    },
    /// A run of a slot in the future is under way.
    #[error("the job {} cannot be freed while {} is running: cancel it first, or wait for its end", run.job, run.run)]
    FutureRunLives {
        /// Which.
        run: RunKey,
    },
    /// An on-demand run that was asked for again, and is waited for, after its record was pruned.
    #[error("the run {run} has ended before, and how it ended is no longer kept (history_size)")]
    Pruned {
        /// Which.
        run: RunKey,
    },
    /// Nobody knows why.
    #[error(
        "nothing is known of {run}: no host has told of an answer to it, or it is too long ago (the last 1000 answers of \
         a job are kept)"
    )]
    NothingTold {
        /// Which.
        run: RunKey,
    },
    /// A schedule on the command line.
    #[error("this schedule cannot be used")]
    Schedule(#[from] ScheduleError),
    /// A zone on the command line.
    #[error("this time zone cannot be used")]
    Zone(#[from] ZoneError),
    /// Where relative paths start.
    #[error("the working folder cannot be found: change to one that exists")]
    WorkingFolder(#[source] io::Error),
    /// The program's own file.
    #[error("the system does not say which program this is, so no plugin can be compiled")]
    ThisProgram(#[source] io::Error),
    /// Threads.
    #[error("cannot start the threads this needs: see the limits on processes and memory")]
    Runtime(#[source] io::Error),
    /// Signals.
    #[error("cannot listen to signals")]
    Signals(#[source] io::Error),
    /// Random numbers.
    #[error("the system's random number generator does not work")]
    Chance(#[from] getrandom::Error),
    /// The store's file or server.
    #[error("cannot use the store {url}")]
    OpenStore {
        /// Which.
        url: StoreUrl,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// Nothing has been recorded.
    #[error(
        "there is no record yet: {} does not exist; start a host with `leasehold serve`, or name the configuration of \
         the hosts with --config",
        path.display()
    )]
    NoStore {
        /// The file that was looked for.
        path: PathBuf,
    },
    /// What hosts tell of their plugins.
    #[error("cannot read what hosts tell in {}", folder.display())]
    HostStatus {
        /// The data directory.
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No host has worked in the namespace, or it was emptied.
    #[error(
        "there is no record yet: no host has worked in the namespace {namespace:?} of {url}; start one with `leasehold \
         serve`, or name the configuration of the hosts with --config"
    )]
    NoNamespace {
        /// The store.
        url: StoreUrl,
        /// The namespace that was looked for.
        namespace: String,
    },
    /// A store that is inside another process.
    #[error(
        "the store memory: lives inside one host and cannot be read from here; set url under [store] to a sqlite:// \
         address"
    )]
    MemoryStore,
    /// The store did not answer.
    #[error("the store gave no answer")]
    Store(#[from] StoreError),
    /// Nothing could be measured.
    #[error("nothing could be measured")]
    Bench(#[from] BenchError),
    /// Plugins to measure.
    #[error(
        "there is nothing to measure in {}: scripts/build-plugins --lang LANGUAGE puts conformance-LANGUAGE.wasm into tests/plugins, scripts/bench languages does it for all",
        folder.display()
    )]
    BenchFolder {
        /// Where they were looked for.
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A benchmark of the sandbox.
    #[error("the sandbox cannot be measured")]
    BenchSandbox(#[from] leasehold_sandbox::bench::BenchError),
    /// A benchmark of heartbeats.
    #[error("heartbeats cannot be measured")]
    BenchHeartbeats(#[from] leasehold::bench::GapsError),
    /// The sandbox.
    #[error("plugins cannot be run here")]
    Sandbox(#[from] SandboxError),
    /// A plugin.
    #[error("{} cannot be run", file.display())]
    Plugin {
        /// Its file.
        file: PathBuf,
        /// Why.
        #[source]
        source: PluginError,
    },
    /// A file that is only looked at.
    #[error("{} cannot be inspected", file.display())]
    PluginFile {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        source: PluginError,
    },
    /// A project that would be written over.
    #[error("{} is there already: choose another name, or remove it", path.display())]
    NewThere {
        /// The project's folder.
        path: PathBuf,
    },
    /// A project that could not be written to the end.
    #[error("cannot write {}; remove what is there of the project and try again", path.display())]
    NewWrite {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The host.
    #[error("the host cannot start")]
    Start(#[from] StartError),
    /// The host, later.
    #[error("{0}; what it ran is taken over by others when its leases run out; please report this")]
    HostFailed(String),
    /// A job that is not there.
    #[error(
        "there is no job {job} in the plugin directory; `leasehold jobs` lists those there are, and what is refused"
    )]
    NoJob {
        /// What was asked for.
        job: JobKey,
    },
    /// A job that is there and cannot run.
    #[error("the job {job} cannot run: {reason}")]
    NotServed {
        /// What was asked for.
        job: JobKey,
        /// Why.
        reason: String,
    },
    /// A job that the store has never heard of.
    #[error(
        "there is no job {job} in the store: hosts tell it of the jobs that they offer, all of them every 30 s; `leasehold \
         jobs` lists them, and what is refused"
    )]
    UnknownJob {
        /// What was asked for.
        job: JobKey,
    },
    /// A job without slots.
    #[error("the job {job} has no schedule, so it has no slots: it runs when `leasehold trigger` asks for it")]
    NoSchedule {
        /// Which.
        job: JobKey,
    },
    /// A schedule that has come to its end.
    #[error(
        "there is no slot later than {from}: the schedule has none, or it lies beyond the calendar, which ends with the \
         year 5000 for cron expressions and 9999 for intervals"
    )]
    NoSlot {
        /// Where the search began.
        from: Millis,
    },
    /// A run that is not there.
    #[error("there is no run {run}; it never started or its record was pruned; `leasehold runs --job {}` lists those \
         kept", run.job)]
    NoRun {
        /// Which.
        run: RunKey,
    },
    /// A job without runs.
    #[error("the job {job} has no runs yet")]
    NoRunsYet {
        /// Which.
        job: JobKey,
    },
    /// A handler that failed.
    #[error("{0}")]
    Handler(String),
    /// Standard output.
    #[error("cannot write the results: see whether the disk is full")]
    Write(#[source] io::Error),
    /// A value that does not go into JSON.
    #[error("cannot write a result as JSON; please report this")]
    Json(#[source] serde_json::Error),
}

impl CliError {
    /// The exit code that goes with it.
    pub(super) fn exit(&self) -> Exit {
        match self {
            CliError::Bench(BenchError::Url { .. })
            | CliError::Config(_)
            | CliError::NoConfiguration { .. }
            | CliError::NoPlugins { .. }
            | CliError::PastUntil { .. }
            | CliError::PayloadFile { .. }
            | CliError::PayloadJson(_)
            | CliError::PayloadSize { .. }
            | CliError::Schedule(_)
            | CliError::Zone(_) => Exit::Usage,
            _ => Exit::Failed,
        }
    }

    /// For programs that wait for an object.
    pub(super) fn to_json(&self) -> serde_json::Value {
        let message = match self {
            CliError::Config(problems) => problems.to_string(),
            _ => chain(self),
        };
        serde_json::json!({ "error": { "message": message } })
    }

    /// Tells it on standard error.
    pub(super) fn print(&self) {
        // Nobody is left to be told that standard error is closed.
        let _ = io::stderr().lock().write_all(self.told().as_bytes());
    }

    /// As lines.
    fn told(&self) -> String {
        match self {
            // Each problem is a line of its own, and escaped where it was made.
            CliError::Config(problems) => {
                problems.to_string().lines().map(|line| format!("leasehold: {line}\n")).collect()
            }
            // A handler's backtrace has several lines, and was escaped where it was put together.
            CliError::Handler(text) => format!("leasehold: {text}\n"),
            _ => format!("leasehold: {}\n", plain(&chain(self))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    use leasehold::config::{Place, Problem};

    #[test]
    fn an_error_is_told_once_with_its_causes() {
        let source = io::Error::new(io::ErrorKind::NotFound, "no such file");
        let error = CliError::PayloadFile { path: "x.json".into(), source };
        let told = error.told();
        assert_eq!(told, "leasehold: cannot read the payload x.json: name a regular file behind the @: no such file\n");
        assert_eq!(error.exit(), Exit::Usage);
    }

    #[test]
    fn every_problem_of_a_configuration_has_its_line() {
        let mut problems = Problems::default();
        problems.push(Problem::of(Place::file(Path::new("a.toml")), "one"));
        problems.push(Problem::of(Place::Flag("--store"), "two"));
        let error = CliError::Config(problems);
        assert_eq!(error.told(), "leasehold: a.toml: one\nleasehold: --store: two\n");
        assert_eq!(error.exit(), Exit::Usage);
    }

    #[test]
    fn a_name_cannot_forge_a_line() {
        let error = CliError::NoStore { path: "a\nleasehold: fine".into() };
        assert_eq!(error.told().lines().count(), 1, "{}", error.told());
        assert_eq!(error.exit(), Exit::Failed);
    }
}
