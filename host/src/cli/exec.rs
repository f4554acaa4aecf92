//! `leasehold exec`: runs a handler once, here, without a store.

use leasehold_lease::id::hex;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use leasehold::causes::chain;
use leasehold::config::JobLimits;
use leasehold::outcome::{self, Judged};
use leasehold::plugins::DEFAULT_TENANT;
use leasehold::{clock, guest_limits};
use leasehold_lease::agent::Verdict;
use leasehold_lease::run::{Failure, Outcome, Usage};
use leasehold_sandbox::{
    Effects, Ended, Execution, HttpGrants, Invocation, LogLevel, LogLine, Plugin, RunFacts, Sandbox, SandboxError,
    SandboxSettings, StopReason, escape,
};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use said::{SaidRecord, Sink, Stderr};

use super::error::CliError;
use super::loader::{own_cache_dir, sandbox_settings};
use super::output::Output;
use super::record::{FailureRecord, OutputRecord};
use super::signals::EndSignals;
use super::text::{detail, plain};
use super::{Exit, Global, payload, value};

mod said;
mod watch;

/// The arguments of `leasehold exec`.
#[derive(Debug, Args)]
pub(super) struct Exec {
    /// The plugin
    file: PathBuf,
    /// What the handler is given: JSON, or @FILE for a file's bytes as they are
    #[arg(long, value_name = "JSON|@FILE")]
    payload: Option<String>,
    /// How long it may take [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = value::some_duration)]
    timeout: Option<Duration>,
    /// How much processor time it may use [default: as much as it gets]
    #[arg(long, value_name = "DURATION", value_parser = value::some_duration)]
    cpu: Option<Duration>,
    /// How much fuel it may burn, about one for each instruction [default: without end, and not counted]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    fuel: Option<u64>,
    /// How much memory it may use [default: 128MiB]
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    memory: Option<u64>,
    /// How often a second it may call the host; a minute's worth may come at once [default: 2000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    host_calls: Option<u32>,
    /// How many handles it may hold [default: 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(16..))]
    handles_max: Option<u32>,
    /// How many random bytes it may ask for at once [default: 64KiB]
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    random_max: Option<u64>,
    /// How large its payload may be [default: 1MiB]
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    payload_max: Option<u64>,
    /// How large its output may be [default: 1MiB]
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    output_max: Option<u64>,
    /// How much it may log [default: 1MiB]
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    log_max: Option<u64>,
    /// How long a line of its log may be [default: 8KiB]
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    log_line_max: Option<u64>,
    /// Run it again whenever its file has changed; Ctrl-C ends
    #[arg(long)]
    watch: bool,
    /// The least severe of its log lines that is shown
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = log_level)]
    log_level: LogLevel,
}

/// Why no request is sent, whatever manifests and operators say.
const NO_REQUESTS: &str = "`leasehold exec` grants nothing, so a handler's requests can be tried on a host only";
/// What a handler ends as whose payload is missing: the codes of the SDKs for an input that is not what the handler
/// wants, and for an exception that nobody caught, as when it reads a field of nothing.
const PERHAPS_NO_PAYLOAD: [&str; 2] = ["bad-input", "exception"];

/// A sandbox with this person's compiled code; without any that lasts where there is no place for it.
fn sandbox() -> Result<Sandbox, CliError> {
    match Sandbox::new(SandboxSettings { cache_dir: own_cache_dir(), ..sandbox_settings()? }) {
        Err(SandboxError::Cache(error)) => {
            tracing::warn!(why = chain(&error), "the plugin is compiled anew each time");
            Ok(Sandbox::new(sandbox_settings()?)?)
        }
        made => Ok(made?),
    }
}

impl Exec {
    /// Runs the handler. Its log goes to standard error as it comes, its output to standard output.
    ///
    /// # Errors
    /// It could not be started, or failed.
    pub(super) async fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        global.refuse_configuration("exec")?;
        // Before anything takes long.
        self.input()?;
        let sandbox = sandbox()?;
        if self.watch {
            return watch::run(self, &sandbox, out).await;
        }
        let plugin = self.load(&sandbox).await?;
        let mut signals = EndSignals::listen()?;
        let (ended, said) = self.execute(&sandbox, &plugin, &mut signals, out.is_json()).await?;
        self.tell(ended, said, out)
    }

    async fn load(&self, sandbox: &Sandbox) -> Result<Arc<Plugin>, CliError> {
        let loaded = match self.fuel {
            Some(_) => sandbox.load_metered(DEFAULT_TENANT, &self.file).await,
            None => sandbox.load(DEFAULT_TENANT, &self.file).await,
        };
        loaded.map_err(|source| CliError::Plugin { file: self.file.clone(), source })
    }

    async fn execute(
        &self,
        sandbox: &Sandbox,
        plugin: &Arc<Plugin>,
        signals: &mut EndSignals,
        keep: bool,
    ) -> Result<(Ended, Vec<SaidRecord>), CliError> {
        let (sink, lines) = mpsc::unbounded_channel();
        let invocation = Invocation {
            run: self.facts()?,
            input: self.input()?,
            limits: guest_limits(&self.limits()),
            tenant_memory: None,
            logs: Arc::new(Sink(sink)),
            log_level: self.log_level,
            idempotency_secret: random()?,
            effects: Effects { http: Arc::new(HttpGrants::never(NO_REQUESTS)), ..Effects::default() },
        };
        Ok(follow(sandbox.start(plugin, invocation), signals, lines, keep).await)
    }

    fn limits(&self) -> JobLimits {
        let default = JobLimits::default();
        JobLimits {
            timeout: self.timeout.unwrap_or(default.timeout),
            cpu: self.cpu.or(default.cpu),
            fuel: self.fuel.or(default.fuel),
            memory: self.memory.unwrap_or(default.memory),
            host_calls: self.host_calls.unwrap_or(default.host_calls),
            handles_max: self.handles_max.unwrap_or(default.handles_max),
            random_max: self.random_max.unwrap_or(default.random_max),
            payload_max: self.payload_max.unwrap_or(default.payload_max),
            output_max: self.output_max.unwrap_or(default.output_max),
            output_kept: default.output_kept,
            log_max: self.log_max.unwrap_or(default.log_max),
            log_line_max: self.log_line_max.unwrap_or(default.log_line_max),
        }
    }

    fn input(&self) -> Result<Vec<u8>, CliError> {
        let most = self.limits().payload_max;
        // Of a file that is too large, enough is read for the sandbox to refuse it with its own words.
        self.payload.as_deref().map_or(Ok(Vec::new()), |text| payload::read(text, most))
    }

    fn facts(&self) -> Result<RunFacts, CliError> {
        let job = self.file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        let now = clock::wall();
        let namespace = hex(&random::<16>()?);
        Ok(RunFacts {
            run_id: format!("{namespace}/default/{job}/exec"),
            tenant: DEFAULT_TENANT.to_owned(),
            job,
            slot_ms: u64::try_from(now.0).unwrap_or(0),
            attempt: 1,
            max_attempts: 1,
            fence: 1,
            reason: "on-demand".to_owned(),
            metadata: Vec::new(),
        })
    }

    fn tell(&self, ended: Ended, said: Vec<SaidRecord>, out: &mut Output) -> Result<Exit, CliError> {
        let usage = outcome::usage(&ended);
        let end = End::of(&ended);
        if out.is_json() {
            out.object(&Record::new(&end, usage, said))?;
            return Ok(end.exit());
        }
        match end {
            End::Success(output) => print_output(&output, out).map(|()| Exit::Success),
            End::Failed(failure) => {
                let told = failure_text(&self.file.to_string_lossy(), &failure);
                Err(CliError::Handler(told + self.hint(&failure.code)))
            }
            End::Interrupted => {
                Err(CliError::Handler(format!("{} was interrupted", plain(&self.file.to_string_lossy()))))
            }
        }
    }

    /// What a failure with this code may come of, where that is told by what was asked for.
    fn hint(&self, code: &str) -> &'static str {
        if self.payload.is_none() && PERHAPS_NO_PAYLOAD.contains(&code) {
            "\n  it was given no payload: write --payload and JSON, or --payload @FILE"
        } else {
            ""
        }
    }
}

fn log_level(word: &str) -> Result<LogLevel, String> {
    let all = [LogLevel::Trace, LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Error];
    all.into_iter()
        .find(|level| level.as_str() == word)
        .ok_or_else(|| "write trace, debug, info, warn or error".to_owned())
}

fn random<const N: usize>() -> Result<[u8; N], CliError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// Waits for the end, and shows meanwhile what the handler says. The first signal asks it to stop, the second ends it.
async fn follow(
    mut execution: Execution,
    signals: &mut EndSignals,
    mut lines: mpsc::UnboundedReceiver<LogLine>,
    keep: bool,
) -> (Ended, Vec<SaidRecord>) {
    let signal = execution.signal();
    let mut progress = execution.progress();
    let stderr = Stderr::new();
    let mut said = Vec::new();
    let mut hear = |line: LogLine| {
        let at = clock::wall();
        stderr.show(at, &line);
        if keep {
            said.push(SaidRecord::new(at, line));
        }
    };
    let ended = loop {
        tokio::select! {
            biased;
            Some(line) = lines.recv() => hear(line),
            ended = &mut execution => break ended,
            Ok(()) = progress.changed() => stderr.progress(progress.borrow_and_update().as_ref()),
            word = signals.next() => {
                if signal.reason() == Some(StopReason::Stopping) {
                    signal.force();
                } else {
                    stderr.note(&format!("{word}: asking the handler to stop; once more ends it"));
                    signal.stop(StopReason::Stopping);
                }
            }
        }
    };
    // What it said at the very end.
    while let Ok(line) = lines.try_recv() {
        hear(line);
    }
    (ended, said)
}

/// How it ended, by the same rules as a run of a host.
enum End {
    Success(Vec<u8>),
    Failed(Failure),
    /// A host would hand the run over.
    Interrupted,
}

impl End {
    fn of(ended: &Ended) -> End {
        // A record keeps only the beginning of an output; here all of it is wanted.
        match outcome::judge(ended, u64::MAX) {
            Judged::Verdict(Verdict::Finish(Outcome::Success { output, .. })) => End::Success(output),
            Judged::Verdict(Verdict::Finish(Outcome::Failed(failure))) | Judged::Want(failure) => End::Failed(failure),
            Judged::Verdict(Verdict::Finish(Outcome::Interrupted { .. }) | Verdict::Release | Verdict::Nothing) => {
                End::Interrupted
            }
        }
    }

    fn exit(&self) -> Exit {
        if matches!(self, End::Success(_)) { Exit::Success } else { Exit::Failed }
    }
}

/// As it is for programs; made safe for people.
pub(super) fn print_output(output: &[u8], out: &mut Output) -> Result<(), CliError> {
    if !out.is_terminal() {
        return out.bytes(output);
    }
    match std::str::from_utf8(output) {
        Ok("") => Ok(()),
        Ok(text) => out.text(&format!("{}\n", escape(text.trim_end_matches('\n')))),
        Err(_) => {
            Stderr::new().note(&format!("the output is {} bytes that are no text; send it to a file", output.len()));
            Ok(())
        }
    }
}

/// How the failure of a handler is told: a line with what failed, then its details.
pub(super) fn failure_text(what: &str, failure: &Failure) -> String {
    let mut text = format!("{} failed: {}: {}", plain(what), plain(&failure.code), plain(&failure.message));
    for (key, value) in &failure.details {
        text.push_str(&format!("\n{}", detail(key, value).trim_end_matches('\n')));
    }
    text
}

/// The whole run.
#[derive(Debug, Serialize)]
struct Record {
    status: &'static str,
    output: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_hex: Option<String>,
    error: Option<FailureRecord>,
    usage: Usage,
    logs: Vec<SaidRecord>,
}

impl Record {
    fn new(end: &End, usage: Usage, logs: Vec<SaidRecord>) -> Record {
        let (status, output, error) = match end {
            End::Success(output) => ("success", Some(OutputRecord::new(output, false)), None),
            End::Failed(failure) => ("failed", None, Some(FailureRecord::new(failure))),
            End::Interrupted => ("interrupted", None, None),
        };
        let (output, output_text, output_hex) = match output {
            Some(OutputRecord { output, output_text, output_hex, .. }) => (output, output_text, output_hex),
            None => (None, None, None),
        };
        Record { status, output, output_text, output_hex, error, usage, logs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec(arguments: &str) -> Exec {
        #[derive(clap::Parser)]
        struct Only {
            #[command(flatten)]
            exec: Exec,
        }
        let line = ["exec", "a/hello.wasm"].into_iter().chain(arguments.split(' ').filter(|word| !word.is_empty()));
        <Only as clap::Parser>::try_parse_from(line).expect("the arguments are right").exec
    }

    #[test]
    fn limits_are_the_defaults_but_for_what_is_said() {
        assert_eq!(exec("").limits(), JobLimits::default());
        let said = exec("--timeout 2s --memory 64MiB --output-max 1KiB").limits();
        let two = Duration::from_secs(2);
        assert_eq!(said, JobLimits { timeout: two, memory: 64 << 20, output_max: 1 << 10, ..JobLimits::default() });
    }

    #[test]
    fn a_payload_is_json_or_a_file_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("raw");
        std::fs::write(&file, [0xff, 0x00, b'\n']).unwrap();
        let input = |payload: &str| exec(&format!("--payload {payload} --payload-max 100B")).input();
        assert_eq!(input("[1]").unwrap(), b"[1]");
        assert_eq!(input(&format!("@{}", file.display())).unwrap(), [0xff, 0x00, b'\n']);
        assert!(matches!(input("[1"), Err(CliError::PayloadJson(_))));
        // A folder, and a device that never ends.
        for file in ["@/nonexistent", "@/", "@/dev/zero"] {
            assert!(matches!(input(file), Err(CliError::PayloadFile { .. })), "{file}");
        }
        assert_eq!(exec("").input().unwrap(), b"");
    }

    #[test]
    fn a_missing_payload_is_a_hint_where_it_may_be_why() {
        for code in ["bad-input", "exception"] {
            assert!(exec("").hint(code).contains("it was given no payload: write --payload"), "{code}");
            assert_eq!(exec("--payload 7").hint(code), "");
        }
        assert_eq!(exec("").hint("timeout"), "");
    }

    #[test]
    fn a_failure_is_told_without_steering_the_terminal() {
        let text = "a\u{1b}[2J\nb";
        let details = vec![("backtrace".to_owned(), text.to_owned())];
        let failure = Failure { code: "trap".into(), message: text.into(), details, retryable: false };
        let told = failure_text("x.wasm", &failure);
        assert_eq!(told, "x.wasm failed: trap: a\\u{1b}[2J\\nb\n  backtrace\n    a\\u{1b}[2J\n    b");
    }

    #[test]
    fn the_whole_run_as_json_has_stable_names() {
        let usage = Usage::default();
        let record = Record::new(&End::Success(b"[1]".to_vec()), usage, Vec::new());
        assert_eq!(
            serde_json::to_string(&record).unwrap(),
            r#"{"status":"success","output":[1],"error":null,"usage":{"wall_ms":0,"cpu_ms":0,"peak_memory":0,"host_calls":0,"log_bytes":0,"http_sent":0,"http_received":0},"logs":[]}"#
        );
    }
}
