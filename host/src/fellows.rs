//! What hosts tell each other through the store: for people, and to notice where they differ. Nothing of it decides about a
//! lease.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_lease::id::JobKey;
use serde::{Deserialize, Serialize};

/// A host tells of so many jobs and plugins at most, in the order of their names.
pub const TOLD_MOST: usize = 1_000;

/// Longer ones are not looked into, in bytes: a host that tells [`TOLD_MOST`] jobs and plugins tells far less.
const DETAILS_MAX: usize = 4 << 20;

/// What a host tells of itself, as JSON in its record. Another version may tell more or less.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostDetails {
    /// "serving", "draining" or "stopped".
    pub state: String,
    /// Runs that it can execute at a time.
    pub concurrency: u64,
    /// Runs that it executes.
    pub running: u64,
    /// Jobs that it offers.
    pub jobs: u64,
    /// What others must agree with, of the first of them.
    pub agreed: Vec<Agreed>,
    /// The plugins that serve, the first of them.
    pub plugins: Vec<PluginDetails>,
}

/// What hosts must agree on about a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Agreed {
    /// `tenant/name`.
    pub job: String,
    /// Its lease, in ms.
    pub lease_ms: u64,
    /// Its schedule's fingerprint; "on-demand" for a job without one.
    pub schedule: String,
    /// The version of the zone data that its slots depend on, where they do.
    pub zone_data: Option<String>,
}

/// A plugin that serves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PluginDetails {
    /// `tenant/name`.
    pub plugin: String,
    /// The SHA-256 of its file.
    pub digest: String,
}

impl HostDetails {
    /// What a record says; nothing where it says something else, or too much.
    pub fn read(details: &str) -> HostDetails {
        if details.len() > DETAILS_MAX {
            return HostDetails::default();
        }
        serde_json::from_str(details).unwrap_or_default()
    }
}

/// Two hosts differ in what they must agree on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Difference {
    /// About this job.
    pub(crate) job: JobKey,
    /// In words, with both sides and the other host's name.
    pub(crate) detail: String,
}

/// Where the host of this name differs from what is told here.
pub(crate) fn differences(own: &HostDetails, host: &str, other: &HostDetails) -> BTreeSet<Difference> {
    let ours: BTreeMap<&str, &Agreed> = own.agreed.iter().map(|agreed| (agreed.job.as_str(), agreed)).collect();
    let mut found = BTreeSet::new();
    for theirs in &other.agreed {
        let Some(ours) = ours.get(theirs.job.as_str()) else { continue };
        let Ok(job) = ours.job.parse::<JobKey>() else { continue };
        let mut differ = |what: &str, here: &str, there: &str| {
            let detail = format!("{what}: {} here, {} on {}", shown(here), shown(there), shown(host));
            found.insert(Difference { job: job.clone(), detail });
        };
        if ours.lease_ms != theirs.lease_ms {
            differ("lease", &format!("{} ms", ours.lease_ms), &format!("{} ms", theirs.lease_ms));
        }
        if ours.schedule != theirs.schedule {
            differ("schedule", &ours.schedule, &theirs.schedule);
        } else if ours.zone_data != theirs.zone_data {
            let version = |agreed: &Agreed| agreed.zone_data.clone().unwrap_or_else(|| "unknown".to_owned());
            differ("time zone data", &version(ours), &version(theirs));
        }
    }
    found
}

/// As much of another host's text as a line takes.
fn shown(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(lease_ms: u64, schedule: &str, zone_data: Option<&str>) -> HostDetails {
        let zone_data = zone_data.map(str::to_owned);
        let agreed = vec![Agreed { job: "a/x".into(), lease_ms, schedule: schedule.into(), zone_data }];
        HostDetails { agreed, ..HostDetails::default() }
    }

    fn told(own: &HostDetails, other: &HostDetails) -> Vec<String> {
        differences(own, "web-2", other).into_iter().map(|found| format!("{}: {}", found.job, found.detail)).collect()
    }

    #[test]
    fn hosts_that_differ_in_lease_schedule_or_zone_data_of_a_job_are_told_apart() {
        let own = host(30_000, "every 1000 ms", None);
        assert!(told(&own, &own).is_empty());
        let other = host(10_000, "every 2000 ms", None);
        let expected = [
            "a/x: lease: 30000 ms here, 10000 ms on web-2",
            "a/x: schedule: every 1000 ms here, every 2000 ms on web-2",
        ];
        assert_eq!(told(&own, &other), expected);
        let (here, there) = (host(1, "daily", Some("2025b")), host(1, "daily", Some("2025a")));
        assert_eq!(told(&here, &there), ["a/x: time zone data: 2025b here, 2025a on web-2"]);
    }

    #[test]
    fn what_only_one_of_them_offers_is_no_difference_and_strangers_texts_are_bounded() {
        let own = host(1, "daily", None);
        assert!(told(&own, &HostDetails::default()).is_empty() && told(&HostDetails::default(), &own).is_empty());
        let long = told(&own, &host(1, &"x".repeat(10_000), None));
        assert!(long[0].len() < 500, "{}", long[0].len());
        assert_eq!(HostDetails::read("no JSON"), HostDetails::default());
        assert_eq!(HostDetails::read(&" ".repeat(DETAILS_MAX + 1)), HostDetails::default());
    }

    #[test]
    fn a_record_of_another_version_is_read_as_far_as_it_goes() {
        let read = HostDetails::read(r#"{"state":"serving","novelty":[1],"agreed":[{"job":"a/x"}]}"#);
        assert_eq!((read.state.as_str(), read.agreed[0].job.as_str()), ("serving", "a/x"));
    }
}
