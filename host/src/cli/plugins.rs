//! `leasehold plugins`: every file of the plugin directory, which version of it serves, and why one does not.
//!
//! What serves is known to the host alone, so the hosts on this data directory tell it (see [`leasehold::status`]).
//! Where none runs, the directory is examined here as it is.

use std::sync::Arc;

use clap::Args;
use leasehold::config::Config;
use leasehold::plugins::Survey;
use leasehold::status::{About, FoundHost, HostStatus, SILENT_AFTER};
use leasehold::{clock, plugins, zones};

use super::error::CliError;
use super::living::Hosts;
use super::loader::Inspector;
use super::output::Output;
use super::{Exit, Global};

mod show;

use show::Who;

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
        let hosts = Hosts::find(&config)?;
        let no_directory = if hosts.found.is_empty() {
            warn_of_no_host(&config);
            let survey = examined(&config).await;
            let root = config.host.plugins.display().to_string();
            show::print(None, &survey, &[], out)?;
            survey.odd.iter().any(|odd| odd.file == root)
        } else {
            hosts.found.iter().try_for_each(|host| {
                warn_if_silent(host);
                let HostStatus { about, survey, running, .. } = &host.status;
                let is_called_so = |other: &&FoundHost| other.status.about.host == about.host;
                let has_twin = hosts.found.iter().filter(is_called_so).count() > 1;
                show::print(Some(&Who { host: about.host.clone(), pid: about.pid, has_twin }), survey, running, out)
            })?;
            false
        };
        Ok(match (hosts.unread, no_directory) {
            (true, _) => Exit::Failed,
            (false, true) => Exit::Usage,
            (false, false) => Exit::Success,
        })
    }
}

fn warn_of_no_host(config: &Config) {
    tracing::warn!(
        "no host of this machine follows {} with the data directory {}: this is what a host would find, and nothing is \
         compiled; `leasehold check --compile` does that",
        config.host.plugins.display(),
        config.host.data_dir.display()
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
