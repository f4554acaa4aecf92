//! What hosts tell each other through the store: for people, and to notice where they differ. Nothing of it decides about a
//! lease.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_lease::id::JobKey;
use leasehold_lease::time::Millis;
use leasehold_store::HostRecord;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A host tells of this many jobs and plugins at most, in the order of their names: in one call, which a busy store takes in
/// time.
pub const TOLD_MOST: usize = 5_000;

/// Longer ones are not looked into, in bytes: a host that tells [`TOLD_MOST`] jobs and plugins tells less.
const OFFERS_MAX: usize = 8 << 20;

/// Likewise, of what a host says every few seconds.
const DETAILS_MAX: usize = 64 << 10;

/// A host that has not been heard of for this long is not there.
const SILENT_AFTER: Duration = Duration::from_secs(20);

/// Whether a host has not been heard of for long, by the store's clock. One that was heard of in the future was heard of
/// while that clock was wrong.
pub fn is_silent(host: &HostRecord, now: Millis) -> bool {
    now.since(host.last_seen) >= SILENT_AFTER || host.last_seen.since(now) >= SILENT_AFTER
}

/// What a host tells of itself every few seconds, as JSON in its record. Another version may tell more or less.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostDetails {
    /// "serving", "draining", "stopping" or "stopped".
    pub state: String,
    /// Runs that it can execute at a time.
    pub concurrency: u64,
    /// Runs that it executes.
    pub running: u64,
    /// Jobs that it offers.
    pub jobs: u64,
    /// Plugins that serve.
    pub plugins: u64,
    /// The digest of what it tells as [`HostOffers`], so that others see when that has changed.
    pub offers: String,
}

/// What a host offers, as JSON beside its record: told when it has changed. Another version may tell more or less.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostOffers {
    /// What others must agree with, of the first of its jobs.
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
    /// "skip" or "allow".
    pub overlap: Option<String>,
    /// How many starts a run may have.
    pub max_attempts: Option<u32>,
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
        bounded(details, DETAILS_MAX)
    }
}

impl HostOffers {
    /// What a host said; nothing where it said something else, or too much.
    pub fn read(offers: &str) -> HostOffers {
        bounded(offers, OFFERS_MAX)
    }
}

fn bounded<T: Default + DeserializeOwned>(text: &str, most: usize) -> T {
    if text.len() > most { T::default() } else { serde_json::from_str(text).unwrap_or_default() }
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
pub(crate) fn differences(own: &HostOffers, host: &str, other: &HostOffers) -> BTreeSet<Difference> {
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
        if let (Some(here), Some(there)) = (&ours.overlap, &theirs.overlap)
            && here != there
        {
            differ("overlap", here, there);
        }
        if let (Some(here), Some(there)) = (ours.max_attempts, theirs.max_attempts)
            && here != there
        {
            differ("max_attempts", &here.to_string(), &there.to_string());
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

    fn host(lease_ms: u64, schedule: &str, zone_data: Option<&str>) -> HostOffers {
        let zone_data = zone_data.map(str::to_owned);
        let schedule = schedule.to_owned();
        let agreed = vec![Agreed { job: "a/x".into(), lease_ms, schedule, zone_data, ..Agreed::default() }];
        HostOffers { agreed, ..HostOffers::default() }
    }

    fn told(own: &HostOffers, other: &HostOffers) -> Vec<String> {
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
    fn hosts_that_differ_in_overlap_or_attempts_are_told_apart_and_one_that_does_not_say_is_not() {
        let with = |overlap: Option<&str>, max_attempts| {
            let mut host = host(1, "daily", None);
            (host.agreed[0].overlap, host.agreed[0].max_attempts) = (overlap.map(str::to_owned), max_attempts);
            host
        };
        let (own, other) = (with(Some("skip"), Some(3)), with(Some("allow"), Some(1)));
        assert_eq!(
            told(&own, &other),
            ["a/x: max_attempts: 3 here, 1 on web-2", "a/x: overlap: skip here, allow on web-2"]
        );
        assert!(told(&own, &with(None, None)).is_empty() && told(&with(None, None), &own).is_empty());
    }

    #[test]
    fn what_the_largest_host_tells_is_read() {
        let longest = |n: usize| format!("{}/{n:064}", "t".repeat(64));
        let job = |n| Agreed {
            job: longest(n),
            lease_ms: u64::MAX,
            overlap: Some("allow".into()),
            max_attempts: Some(u32::MAX),
            schedule: "s".repeat(1_000),
            zone_data: Some("2025b".into()),
        };
        let plugin = |n| PluginDetails { plugin: longest(n), digest: "0".repeat(64) };
        let (agreed, plugins) = ((0..TOLD_MOST).map(job).collect(), (0..TOLD_MOST).map(plugin).collect());
        let told = HostOffers { agreed, plugins };
        assert!(HostOffers::read(&serde_json::to_string(&told).expect("texts and numbers are JSON")) == told);
    }

    #[test]
    fn what_only_one_of_them_offers_is_no_difference_and_strangers_texts_are_bounded() {
        let own = host(1, "daily", None);
        assert!(told(&own, &HostOffers::default()).is_empty() && told(&HostOffers::default(), &own).is_empty());
        let long = told(&own, &host(1, &"x".repeat(10_000), None));
        assert!(long[0].len() < 500, "{}", long[0].len());
        assert_eq!(HostDetails::read("no JSON"), HostDetails::default());
        assert_eq!(HostDetails::read(&" ".repeat(DETAILS_MAX + 1)), HostDetails::default());
    }

    #[test]
    fn a_record_of_another_version_is_read_as_far_as_it_goes() {
        assert_eq!(HostDetails::read(r#"{"state":"serving","novelty":[1]}"#).state, "serving");
        assert_eq!(HostOffers::read(r#"{"novelty":1,"agreed":[{"job":"a/x"}]}"#).agreed[0].job, "a/x");
        assert_eq!(HostOffers::read("no JSON"), HostOffers::default());
    }
}
