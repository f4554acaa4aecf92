//! What becomes of a plugin's file: compiled where it is to run, only looked at where it is not.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold::causes::chain;
use leasehold::clock;
use leasehold::config::HostSettings;
use leasehold::plugins::{LoadError, PluginLoader};
use leasehold_lease::id::TenantName;
use leasehold_sandbox::{
    CompileLimits, CompilerCommand, Inspection, Plugin, PluginBytes, PluginError, Sandbox, SandboxSettings, inspect,
};

use super::compile_plugin;
use super::error::CliError;

/// How a sandbox is made here: this very program is its compiler.
///
/// # Errors
/// The system does not say which program runs.
pub(super) fn sandbox_settings() -> Result<SandboxSettings, CliError> {
    let compiler = CompilerCommand::this_program([compile_plugin::NAME]).map_err(CliError::ThisProgram)?;
    Ok(SandboxSettings::new(compiler, Arc::new(|| clock::mono().0)))
}

/// What a compiler may use on this host. On a busy one it gets little of the processor at a time, so it is given up much
/// later than it could be done.
pub(super) fn compile_limits(host: &HostSettings) -> CompileLimits {
    let (cpu, memory, default) = (host.compile_cpu, host.compile_memory, CompileLimits::default());
    CompileLimits { cpu, memory, wall: default.wall.max(cpu + cpu / 2), ..default }
}

/// Where a host keeps compiled code.
pub(super) fn cache_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("compiled")
}

/// Where a person's own commands keep compiled code: a large plugin takes half a minute to compile, and a handler is tried
/// again and again. None where this person has no place for such things.
pub(super) fn own_cache_dir() -> Option<PathBuf> {
    cache_dir_among(|variable| std::env::var_os(variable))
}

/// As the XDG base directories say it: a path that is not absolute counts for nothing.
fn cache_dir_among(environment: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |variable| environment(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")))?;
    Some(cache_dir(&caches.join("leasehold")))
}

/// Validates and compiles.
pub(super) struct Compiler(pub(super) Arc<Sandbox>);

impl PluginLoader for Compiler {
    type Plugin = Plugin;

    async fn find(
        &self,
        tenant: &TenantName,
        bytes: &PluginBytes,
        metered: bool,
    ) -> Result<Option<Arc<Plugin>>, LoadError> {
        self.0.find_bytes(tenant.as_str(), bytes, metered).await.map_err(|error| load_error(&error))
    }

    async fn try_load(
        &self,
        tenant: &TenantName,
        _file: &Path,
        bytes: PluginBytes,
        metered: bool,
    ) -> Result<Option<Arc<Plugin>>, LoadError> {
        self.0.try_bytes(tenant.as_str(), bytes, metered).await.map_err(|error| load_error(&error))
    }

    async fn load(
        &self,
        tenant: &TenantName,
        _file: &Path,
        bytes: PluginBytes,
        metered: bool,
    ) -> Result<Arc<Plugin>, LoadError> {
        let loaded = match metered {
            true => self.0.load_bytes_metered(tenant.as_str(), bytes).await,
            false => self.0.load_bytes(tenant.as_str(), bytes).await,
        };
        loaded.map_err(|error| load_error(&error))
    }
}

/// Whether the file is to blame or this host, and the words for it.
pub(super) fn load_error(error: &PluginError) -> LoadError {
    match error {
        PluginError::Host(_) => LoadError::Host(reason(error)),
        PluginError::Refused(_) | PluginError::Read { .. } => LoadError::Refused(reason(error)),
    }
}

/// Why a plugin was not loaded: its word, where there is one, and the whole chain.
pub(super) fn reason(error: &PluginError) -> String {
    match error {
        PluginError::Refused(refusal) => format!("{}: {refusal}", refusal.word()),
        other => chain(other),
    }
}

/// Tells what a file is without compiling it: enough to list the jobs it serves.
pub(super) struct Inspector;

impl PluginLoader for Inspector {
    type Plugin = Inspection;

    async fn load(
        &self,
        _tenant: &TenantName,
        _file: &Path,
        bytes: PluginBytes,
        _metered: bool,
    ) -> Result<Arc<Inspection>, LoadError> {
        let looked = tokio::task::spawn_blocking(move || inspect(&bytes)).await;
        let found = looked.map_err(|error| LoadError::Host(format!("it could not be inspected: {error}")))?;
        match &found.verdict {
            Ok(()) => Ok(Arc::new(found)),
            Err(refusal) => Err(LoadError::Refused(format!("{}: {refusal}", refusal.word()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_s_compiled_code_lies_among_their_caches_and_nowhere_where_there_are_none() {
        let found = |environment: &[(&str, &str)]| {
            let value =
                |name: &str| environment.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
            cache_dir_among(value)
        };
        let (in_caches, at_home) = (PathBuf::from("/caches/leasehold/compiled"), "/home/ada/.cache/leasehold/compiled");
        assert_eq!(found(&[("XDG_CACHE_HOME", "/caches"), ("HOME", "/home/ada")]), Some(in_caches));
        for unset in ["", "caches"] {
            assert_eq!(found(&[("XDG_CACHE_HOME", unset), ("HOME", "/home/ada")]).as_deref(), Some(Path::new(at_home)));
        }
        assert_eq!(found(&[("HOME", "/home/ada")]).as_deref(), Some(Path::new(at_home)));
        // What is relative would lie wherever the command is given.
        for nowhere in [&[("HOME", "ada")][..], &[("HOME", "")], &[]] {
            assert_eq!(found(nowhere), None, "{nowhere:?}");
        }
    }

    #[test]
    fn a_person_s_compiled_code_takes_at_most_four_gibibytes() {
        let settings = sandbox_settings().expect("this program has a path");
        assert_eq!(settings.cache_bytes, 4 << 30);
    }
}
