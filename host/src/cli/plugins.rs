//! `leasehold plugins`: every file of the plugin directory, which version of it serves, and why one does not.
//!
//! What serves is known to the host alone, so the hosts on this data directory tell it (see [`leasehold::status`]).
//! Where none runs, the directory is examined here as it is.

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use leasehold::config::Config;
use leasehold::plugins::Survey;
use leasehold::status::{self, About, FoundHost, HostStatus, SILENT_AFTER};
use leasehold::{clock, plugins, zones};

use super::error::CliError;
use super::loader::Inspector;
use super::output::Output;
use super::{Exit, Global};

mod show;

/// The arguments of `leasehold plugins`.
#[derive(Debug, Args)]
pub(super) struct Plugins {}

impl Plugins {
    /// Prints the plugins.
    ///
    /// # Errors
    /// See [`CliError`].
    pub(super) async fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        let config = Arc::new(global.load()?);
        let (hosts, unread) = hosts(&config)?;
        let failed = if hosts.is_empty() {
            let survey = examined(&config).await;
            let root = config.host.plugins.display().to_string();
            let failed = survey.odd.iter().any(|odd| odd.file == root);
            show::print(None, &survey, &[], out)?;
            failed
        } else {
            hosts.iter().try_for_each(|host| {
                warn_if_silent(host);
                let HostStatus { about, survey, running, .. } = &host.status;
                show::print(Some(&about.host), survey, running, out)
            })?;
            false
        };
        Ok(if failed || unread { Exit::Failed } else { Exit::Success })
    }
}

/// The living hosts that follow the configured plugin directory, and whether there may be more that cannot be read.
fn hosts(config: &Config) -> Result<(Vec<FoundHost>, bool), CliError> {
    let data_dir = &config.host.data_dir;
    let found = status::living(data_dir).map_err(|source| CliError::HostStatus { folder: data_dir.clone(), source })?;
    let root = &config.host.plugins;
    let root = root.canonicalize().unwrap_or_else(|_| root.clone());
    found.unread.iter().for_each(|unread| tracing::error!("{unread}"));
    let (ours, others): (Vec<_>, Vec<_>) = found.hosts.into_iter().partition(|host| host.status.about.plugins == root);
    for About { host, plugins, .. } in others.iter().map(|other| &other.status.about) {
        tracing::warn!("the host {host} follows another plugin directory, {}", plugins.display());
    }
    if ours.is_empty() {
        warn_of_no_host(data_dir, &root);
    }
    Ok((ours, !found.unread.is_empty()))
}

fn warn_of_no_host(data_dir: &Path, root: &Path) {
    tracing::warn!(
        "no host of this machine follows {} with the data directory {}: this is what a host would find, and nothing is \
         compiled; `leasehold check` does that",
        root.display(),
        data_dir.display()
    );
}

fn warn_if_silent(host: &FoundHost) {
    let (About { host: name, pid, .. }, silent) = (&host.status.about, host.silent);
    if silent > SILENT_AFTER {
        tracing::warn!(
            "the host {name} (process {pid}) lives and has told nothing for {} s: it is stopped, too busy, or cannot write \
             its data directory; what it told last follows",
            silent.as_secs()
        );
    }
}

async fn examined(config: &Arc<Config>) -> Arc<Survey> {
    plugins::scan_and_survey(Arc::clone(config), zones::load(), Inspector, clock::wall()).await.1
}
