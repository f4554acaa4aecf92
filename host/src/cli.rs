//! The command line: arguments in, results to standard output, logs and errors to standard error.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use leasehold::config::{self, Config, Flags, Sources};

use error::CliError;
use output::Output;

mod bench;
mod check;
mod compile_plugin;
mod error;
mod exec;
mod hosts;
mod inspect;
mod jobs;
mod json_text;
mod living;
mod loader;
mod logging;
mod logs;
mod new;
mod next;
mod orders;
mod output;
mod patience;
mod payload;
mod plugins;
mod record;
mod runs;
mod select;
mod serve;
mod show;
mod signals;
mod store;
mod text;
mod trigger;
mod value;
mod why;

/// Runs scheduled jobs on a cluster of hosts, once; handlers are WebAssembly components.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, max_term_width = 110, disable_help_subcommand = true)]
struct Cli {
    #[command(flatten, next_help_heading = "Options of every command")]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// What every command understands.
#[derive(Debug, Args)]
struct Global {
    /// The configuration file [default: leasehold.toml in the working folder, where there is one]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The plugin directory, in place of the configured one
    #[arg(long, global = true, value_name = "DIR")]
    plugins: Option<PathBuf>,
    /// The store, in place of the configured one: sqlite://path/to/leasehold.db, postgres://…, redis://…
    #[arg(long, global = true, value_name = "URL")]
    store: Option<String>,
    /// Print results as JSON: one object, or one object a line
    #[arg(long, global = true)]
    json: bool,
    /// How log lines are written to standard error
    #[arg(long, global = true, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
    /// Log more; twice for everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// For people.
    Text,
    /// An object a line.
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a host (SIGTERM or SIGINT: hand over and end; a second one: end at once)
    Serve(serve::Serve),
    /// Say everything that is wrong with configuration, plugins and jobs, or nothing
    Check(check::Check),
    /// Run a handler once, here, without a store
    Exec(exec::Exec),
    /// Say what a file is, and whether it can be a plugin
    Inspect(inspect::Inspect),
    /// Make a plugin project that builds and passes its own test
    New(new::New),
    /// The next slots of a job or a schedule, local and UTC
    Next(next::Next),
    /// The jobs that are offered, and those that are refused
    Jobs(jobs::Jobs),
    /// The plugin directory: which versions serve, what is refused and why
    Plugins(plugins::Plugins),
    /// Runs, newest first
    Runs(runs::Runs),
    /// One run with all its attempts and its outcome
    Show(show::Show),
    /// What a run's handler has logged
    Logs(logs::Logs),
    /// Start a run on demand
    Trigger(trigger::Trigger),
    /// End a run before its time
    Cancel(orders::Cancel),
    /// Skip a job's slots from now on
    Pause(orders::Pause),
    /// Let a paused job's slots start again
    Resume(orders::Resume),
    /// The hosts that share the store
    Hosts(hosts::Hosts),
    /// Have a host take nothing new, or go on
    Drain(orders::Drain),
    /// Why a run started or did not: what each host was told
    Why(why::Why),
    /// Free a job whose newest run lies in the future because a clock was wrong
    Unblock(orders::Unblock),
    /// Measure what this version does on this machine
    Bench(bench::Bench),
    /// What a host starts to have a plugin compiled
    #[command(name = compile_plugin::NAME, hide = true)]
    CompilePlugin(compile_plugin::CompilePlugin),
}

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    /// Done.
    Success = 0,
    /// It failed.
    Failed = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// How long work that is under way may still take when a command has ended.
const LEFTOVERS: Duration = Duration::from_secs(1);

/// Runs the command that the process was started with.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Nobody is left to be told that the reader has gone.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Success }.into();
        }
    };
    // Before there are threads: it limits its own process.
    if let Command::CompilePlugin(command) = &cli.command {
        return command.run();
    }
    let serves = matches!(cli.command, Command::Serve(_));
    let limited = if serves { serve::arenas::limit() } else { Ok(()) };
    let _log = logging::start(&cli.global, serves);
    if let Err(error) = limited {
        tracing::debug!(%error, "the allocator keeps more memory than it needs: MALLOC_ARENA_MAX=2 could not be set");
    }
    let mut out = Output::stdout(cli.global.json);
    let ended = run(&cli, &mut out).and_then(|exit| out.flush().map(|()| exit));
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => {
            error.print();
            // Whoever reads objects is told by one, too: it is the only one that has `error`.
            if out.is_json() {
                // Nobody is left to be told that it cannot be written.
                let _ = out.object(&error.to_json()).and_then(|()| out.flush());
            }
            error.exit().into()
        }
    }
}

fn run(cli: &Cli, out: &mut Output) -> Result<Exit, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CliError::Runtime)?;
    let global = &cli.global;
    let exit = runtime.block_on(async {
        match &cli.command {
            Command::Serve(command) => Box::pin(command.run(global)).await,
            Command::Check(command) => Box::pin(command.run(global, out)).await,
            Command::Exec(command) => Box::pin(command.run(global, out)).await,
            Command::Inspect(command) => Box::pin(command.run(global, out)).await,
            Command::New(command) => command.run(global, out),
            Command::Next(command) => Box::pin(command.run(global, out)).await,
            Command::Jobs(command) => Box::pin(command.run(global, out)).await,
            Command::Plugins(command) => Box::pin(command.run(global, out)).await,
            Command::Runs(command) => Box::pin(command.run(global, out)).await,
            Command::Show(command) => Box::pin(command.run(global, out)).await,
            Command::Logs(command) => Box::pin(command.run(global, out)).await,
            Command::Trigger(command) => Box::pin(command.run(global, out)).await,
            Command::Cancel(command) => Box::pin(command.run(global, out)).await,
            Command::Pause(command) => Box::pin(command.run(global, out)).await,
            Command::Resume(command) => Box::pin(command.run(global, out)).await,
            Command::Hosts(command) => Box::pin(command.run(global, out)).await,
            Command::Drain(command) => Box::pin(command.run(global, out)).await,
            Command::Why(command) => Box::pin(command.run(global, out)).await,
            Command::Unblock(command) => Box::pin(command.run(global, out)).await,
            Command::Bench(command) => Box::pin(command.run(global, out)).await,
            Command::CompilePlugin(_) => unreachable!("it has been run without threads"),
        }
    });
    runtime.shutdown_timeout(LEFTOVERS);
    exit
}

impl Global {
    /// Where the configuration comes from.
    fn sources(&self) -> Result<Sources, CliError> {
        let flags = Flags { plugins: self.plugins.clone(), store: self.store.clone() };
        let folder = std::env::current_dir().map_err(CliError::WorkingFolder)?;
        let env: Vec<_> = std::env::vars_os().collect();
        for name in config::almost_variables(&env) {
            tracing::warn!("the variable {name} is no setting: write two underscores, as in LEASEHOLD_DEFAULTS__LEASE");
        }
        Ok(Sources { folder, file: self.config.clone(), env, flags })
    }

    /// The configuration, checked.
    fn load(&self) -> Result<Config, CliError> {
        Config::load(&self.sources()?).map_err(CliError::Config)
    }

    /// Refuses the flags that a command without a configuration would ignore.
    fn refuse_configuration(&self, command: &'static str) -> Result<(), CliError> {
        let given = [
            ("--config", self.config.is_some()),
            ("--plugins", self.plugins.is_some()),
            ("--store", self.store.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(CliError::NoConfiguration { flag, command }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_keeps_what_every_command_has_apart_from_its_own() {
        for command in ["exec", "runs"] {
            let help = Cli::try_parse_from(["leasehold", command, "--help"]).expect_err(command).to_string();
            let (own, everywhere) = help.split_once("Options of every command:").expect("a title");
            let own_flag = if command == "exec" { "--payload" } else { "--since" };
            assert!(own.contains(own_flag) && !own.contains("--store"), "{help}");
            assert!(everywhere.contains("--store") && !everywhere.contains(own_flag), "{help}");
        }
    }

    #[test]
    fn global_flags_stand_before_or_behind_the_command() {
        for line in ["leasehold --json --store memory: runs", "leasehold runs --json --store memory:"] {
            let global = Cli::try_parse_from(line.split(' ')).expect(line).global;
            assert!(global.json && global.store.as_deref() == Some("memory:"), "{line}");
        }
    }

    #[test]
    fn a_wrong_command_line_is_a_usage_error_and_help_is_not() {
        for (line, to_stderr) in [
            ("leasehold", true),
            ("leasehold frobnicate", true),
            ("leasehold next", true),
            ("leasehold next a/b --cron x", true),
            ("leasehold next a/b --tz UTC", true),
            ("leasehold next --every 90s --tz UTC", true),
            ("leasehold next --every 90", true),
            ("leasehold new a", true),
            ("leasehold new --lang cobol a", true),
            ("leasehold new --lang rust a/b", true),
            ("leasehold show a/b/c", true),
            ("leasehold show a \u{e9}", true),
            ("leasehold cancel a", true),
            ("leasehold trigger a --id latest", true),
            ("leasehold pause a --until yesterday", true),
            ("leasehold runs -n 0", true),
            ("leasehold runs --status fine", true),
            ("leasehold exec x.wasm --memory 64", true),
            ("leasehold --help", false),
            ("leasehold --version", false),
        ] {
            let error = Cli::try_parse_from(line.split(' ')).expect_err(line);
            assert_eq!(error.use_stderr(), to_stderr, "{line}");
        }
    }
}
