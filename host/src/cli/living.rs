//! The hosts of this machine that follow the configured plugin directory. What serves is known to them alone, so commands
//! that tell of jobs and plugins ask them (see [`leasehold::status`]).

use leasehold::config::Config;
use leasehold::status::{self, About, FoundHost};
use leasehold_lease::id::JobKey;

use super::error::CliError;

/// The living hosts that follow the configured plugin directory, by name.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    /// The hosts that were found.
    pub(super) found: Vec<FoundHost>,
    /// There may be more that cannot be read. Which, has been told.
    pub(super) unread: bool,
}

/// What hosts say of one job.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// There is no host to ask.
    NoHost,
    /// These run it, perhaps in an older version than the one that lies in the directory.
    Serves(Vec<String>),
    /// A host knows it and does not run it, for this reason.
    Refuses(String, String),
    /// None of them has heard of it yet.
    Unknown,
}

impl Hosts {
    /// Reads what they tell, and says what cannot be read and who follows another directory.
    ///
    /// # Errors
    /// The folder they tell it in cannot be read.
    pub(super) fn find(config: &Config) -> Result<Hosts, CliError> {
        let data_dir = &config.host.data_dir;
        let living =
            status::living(data_dir).map_err(|source| CliError::HostStatus { folder: data_dir.clone(), source })?;
        let root = &config.host.plugins;
        let root = root.canonicalize().unwrap_or_else(|_| root.clone());
        living.unread.iter().for_each(|unread| tracing::error!("{unread}"));
        let is_ours = |host: &FoundHost| host.status.about.plugins == root;
        let (found, others): (Vec<_>, Vec<_>) = living.hosts.into_iter().partition(is_ours);
        for About { host, plugins, .. } in others.iter().map(|other| &other.status.about) {
            tracing::warn!("the host {host} follows another plugin directory, {}", plugins.display());
        }
        Ok(Hosts { found, unread: !living.unread.is_empty() })
    }

    /// What they say of a job.
    pub(super) fn word(&self, job: &JobKey) -> Word {
        if self.found.is_empty() {
            return Word::NoHost;
        }
        let job = job.to_string();
        let mut refusal = None;
        let mut serving = Vec::new();
        for host in &self.found {
            let name = &host.status.about.host;
            let standings = host.status.survey.plugins.iter().flat_map(|plugin| &plugin.jobs);
            for standing in standings.filter(|standing| standing.job.as_ref() == Some(&job)) {
                if standing.runnable {
                    serving.push(name.clone());
                } else {
                    let why = standing.problems.first().cloned().unwrap_or_default();
                    refusal.get_or_insert((name.clone(), why));
                }
            }
        }
        match (serving.is_empty(), refusal) {
            (false, _) => Word::Serves(serving),
            (true, Some((name, why))) => Word::Refuses(name, why),
            (true, None) => Word::Unknown,
        }
    }

    /// The jobs that at least one of them runs.
    pub(super) fn served(&self) -> impl Iterator<Item = JobKey> {
        let plugins = self.found.iter().flat_map(|host| &host.status.survey.plugins);
        let jobs = plugins.flat_map(|plugin| &plugin.jobs).filter(|job| job.runnable);
        jobs.filter_map(|job| job.job.as_ref()?.parse().ok())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use leasehold::plugins::{JobStanding, PluginState, Standing, Survey};
    use leasehold::status::HostStatus;
    use leasehold_lease::time::Millis;

    use super::*;

    /// A host that runs the first of these jobs and refuses the others.
    pub(in crate::cli) fn host(name: &str, runs: &[&str], refuses: &[&str]) -> FoundHost {
        let job = |job: &&str, runnable: bool| JobStanding {
            job: Some((*job).to_owned()),
            runnable,
            problems: if runnable { Vec::new() } else { vec!["it is no plugin".to_owned()] },
        };
        let jobs = runs.iter().map(|name| job(name, true)).chain(refuses.iter().map(|name| job(name, false)));
        let standing = Standing {
            tenant: "acme".to_owned(),
            name: "a".to_owned(),
            file: "p/acme/a.wasm".to_owned(),
            state: PluginState::Stale,
            serving: None,
            refused: None,
            problems: Vec::new(),
            jobs: jobs.collect(),
            jobs_more: 0,
        };
        let about = About { host: name.to_owned(), pid: 1, version: "0".to_owned(), plugins: "p".into() };
        let survey = Survey { plugins: vec![standing], ..Survey::default() };
        let status = HostStatus { about, changed: Millis(0), survey, running: Vec::new() };
        FoundHost { status, silent: Duration::ZERO }
    }

    #[test]
    fn one_host_that_runs_a_job_outweighs_another_that_refuses_it() {
        let found = vec![host("a", &["acme/x"], &["acme/z"]), host("b", &[], &["acme/x"])];
        let hosts = Hosts { found, unread: false };
        let word = |job: &str| hosts.word(&job.parse().unwrap());
        assert_eq!(word("acme/x"), Word::Serves(vec!["a".to_owned()]));
        assert_eq!(word("acme/z"), Word::Refuses("a".to_owned(), "it is no plugin".to_owned()));
        assert_eq!(word("acme/new"), Word::Unknown);
        assert_eq!(Hosts::default().word(&"acme/x".parse().unwrap()), Word::NoHost);
        assert_eq!(hosts.served().map(|job| job.to_string()).collect::<Vec<_>>(), ["acme/x"]);
    }
}
