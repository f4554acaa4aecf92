//! What this host and the others must agree on. It is much where there are many jobs: it is told when it has changed, and
//! compared with the others' where theirs has.

use leasehold_lease::id::hex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold_lease::agent::{Event, EventKind};
use leasehold_lease::time::Mono;
use leasehold_sandbox::Plugin;
use leasehold_store::{HostReport, LeaseStore};
use sha2::{Digest, Sha256};

use super::Driver;
use super::announcing::fingerprint;
use super::calls::News;
use crate::causes::chain;
use crate::clock;
use crate::fellows::{Agreed, Difference, HostDetails, HostOffers, PluginDetails, TOLD_MOST, differences};
use crate::plugins::{Catalog, OfferedJob};

/// Told again after this long, changed or not: the store may have lost it.
const AGAIN: Duration = Duration::from_secs(600);

/// Hosts whose offers are read after one look at all hosts; the others wait for the next.
const LOOKS: usize = 16;

/// Differences that are remembered so as to be told once.
const DIFFERENCES: usize = 1_000;

/// What is known of what hosts must agree on.
#[derive(Default)]
pub(super) struct Agreement {
    own: Arc<OwnOffers>,
    /// The digest of what the store was told last, and when.
    told: Option<(String, Mono)>,
    telling: bool,
    /// What was found of the others, by instance.
    others: BTreeMap<String, Compared>,
    looking: bool,
    /// Whose offers were read last.
    looked_at: String,
    /// Differences that people were told of.
    known: BTreeSet<Difference>,
}

/// What this host offers.
#[derive(Default)]
struct OwnOffers {
    offers: HostOffers,
    json: String,
    digest: String,
}

/// Another host's offers as they were compared last.
#[derive(Debug)]
pub(crate) struct Compared {
    /// Of theirs, and of this host's then.
    digests: (String, String),
    differences: BTreeSet<Difference>,
}

impl Agreement {
    /// The digest of what this host offers.
    pub(super) fn digest(&self) -> &str {
        &self.own.digest
    }

    /// Takes over which others are there, by instance with the digests of their offers. Answers those that are to be
    /// compared anew.
    fn changed(&mut self, there: &BTreeMap<String, String>) -> Vec<String> {
        self.others.retain(|instance, _| there.contains_key(instance));
        let is_known = |instance: &String, digest: &String| {
            let known = self.others.get(instance).map(|compared| &compared.digests);
            known.is_some_and(|(theirs, own)| theirs == digest && *own == self.own.digest)
        };
        let changed = there.iter().filter(|(instance, digest)| !is_known(instance, digest));
        let mut changed: Vec<String> = changed.map(|(instance, _)| instance.clone()).collect();
        // In turn: the offers of some may never be what their records say, and must not hide those behind them.
        let next = changed.partition_point(|instance| *instance <= self.looked_at);
        changed.rotate_left(next);
        changed.truncate(LOOKS);
        if let Some(last) = changed.last() {
            self.looked_at.clone_from(last);
        }
        changed
    }

    /// Differences that are new since this was asked last. One that goes away and comes back is new again.
    fn news(&mut self) -> Vec<Difference> {
        let all = self.others.values().flat_map(|compared| &compared.differences);
        let all: BTreeSet<Difference> = all.take(DIFFERENCES).cloned().collect();
        let new = all.difference(&self.known).cloned().collect();
        self.known = all;
        new
    }
}

impl Driver {
    /// The plugin directory offers this now.
    pub(super) fn take_offers(&mut self, catalog: &Catalog<Plugin>) {
        let plugins = catalog.plugins.iter().take(TOLD_MOST);
        let plugin = |id: String, plugin: &Plugin| PluginDetails { plugin: id, digest: plugin.digest().to_string() };
        let offers = HostOffers {
            agreed: catalog.jobs.values().take(TOLD_MOST).map(agreed).collect(),
            plugins: plugins.map(|loaded| plugin(loaded.id.to_string(), &loaded.plugin)).collect(),
        };
        let json = serde_json::to_string(&offers).expect("texts and numbers are JSON");
        let digest = digest(&json);
        if digest != self.agreement.own.digest {
            self.agreement.own = Arc::new(OwnOffers { offers, json, digest });
        }
    }

    /// The store has this host's record: what it offers is kept beside that, where the store does not have it yet.
    pub(super) fn tell_offers(&mut self) {
        let now = clock::mono();
        let Agreement { own, told, telling, .. } = &mut self.agreement;
        let is_told = told.as_ref().is_some_and(|(digest, at)| *digest == own.digest && now < *at + AGAIN);
        if is_told || std::mem::replace(telling, true) {
            return;
        }
        let (store, news, own) = (self.parts.store.clone(), self.calls.news.clone(), own.clone());
        let (name, instance) = (self.parts.name.clone(), self.instance.clone());
        self.calls.tasks.spawn(async move {
            let told = match store.keep_offers(&name, &instance, &own.json).await {
                Ok(()) => Some(own.digest.clone()),
                Err(error) => {
                    tracing::debug!(why = chain(&error), "others are not told what this host offers; soon again");
                    None
                }
            };
            news.tell(News::OffersTold(told));
        });
    }

    /// The store was told so, or could not be.
    pub(super) fn offers_told(&mut self, digest: Option<String>) {
        self.agreement.telling = false;
        if let Some(digest) = digest {
            self.agreement.told = Some((digest, clock::mono()));
        }
    }

    /// These other hosts are there. The offers of those that have changed are read and compared.
    pub(super) fn look_at_others(&mut self, hosts: Vec<HostReport>) {
        let offers = |host: &HostReport| (host.instance.clone(), HostDetails::read(&host.details).offers);
        let changed = self.agreement.changed(&hosts.iter().map(offers).collect());
        self.tell_differences();
        if changed.is_empty() || std::mem::replace(&mut self.agreement.looking, true) {
            return;
        }
        let changed: Vec<HostReport> = hosts.into_iter().filter(|host| changed.contains(&host.instance)).collect();
        let (store, news, own) = (self.parts.store.clone(), self.calls.news.clone(), self.agreement.own.clone());
        self.calls.tasks.spawn(async move {
            let mut found = Vec::new();
            for host in changed {
                match compare(store.as_ref(), &own, &host).await {
                    Ok(compared) => found.push((host.instance, compared)),
                    Err(error) => {
                        tracing::debug!(host = %host.name, why = chain(&error), "what it offers is compared later")
                    }
                }
            }
            news.tell(News::Compared(found));
        });
    }

    /// What these hosts offer was read.
    pub(super) fn compared(&mut self, found: Vec<(String, Compared)>) {
        self.agreement.looking = false;
        self.agreement.others.extend(found);
        self.tell_differences();
    }

    /// Tells once where others differ from this host; should it go away and come back, again.
    fn tell_differences(&mut self) {
        for Difference { job, detail } in self.agreement.news() {
            self.tell(&job, Event { kind: EventKind::PolicyDiffers, run: None, attempt: None, detail });
        }
    }
}

/// Reads what another host offers. Its record may already, or still, name another digest: then that is looked at again.
async fn compare(
    store: &dyn LeaseStore,
    own: &OwnOffers,
    host: &HostReport,
) -> Result<Compared, leasehold_store::StoreError> {
    let theirs = store.host_offers(&host.name, &host.instance).await?.unwrap_or_default();
    let found = differences(&own.offers, &host.name, &HostOffers::read(&theirs));
    let differences = found.into_iter().take(DIFFERENCES).collect();
    Ok(Compared { digests: (digest(&theirs), own.digest.clone()), differences })
}

fn agreed(offered: &OfferedJob<Plugin>) -> Agreed {
    let (schedule, policy) = (offered.spec.schedule.as_ref(), &offered.spec.policy);
    Agreed {
        job: offered.spec.key.to_string(),
        lease_ms: u64::try_from(policy.lease.as_millis()).unwrap_or(u64::MAX),
        overlap: Some(policy.overlap.word().to_owned()),
        max_attempts: Some(policy.max_attempts),
        schedule: fingerprint(offered),
        zone_data: schedule.and_then(|schedule| schedule.zone_data_version()).map(str::to_owned),
    }
}

fn digest(text: &str) -> String {
    hex(&Sha256::digest(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(hosts: &[(&str, &str)]) -> BTreeMap<String, String> {
        hosts.iter().map(|(instance, digest)| ((*instance).to_owned(), (*digest).to_owned())).collect()
    }

    fn found(theirs: &str, own: &str, details: &[&str]) -> Compared {
        let difference =
            |detail: &&str| Difference { job: "a/x".parse().expect("a job"), detail: (*detail).to_owned() };
        Compared { digests: (theirs.to_owned(), own.to_owned()), differences: details.iter().map(difference).collect() }
    }

    fn told(agreement: &mut Agreement) -> Vec<String> {
        agreement.news().into_iter().map(|difference| difference.detail).collect()
    }

    #[test]
    fn only_hosts_whose_offers_have_changed_are_compared_and_all_when_the_own_have() {
        let mut agreement = Agreement::default();
        assert_eq!(agreement.changed(&there(&[("1", "a"), ("2", "b")])), ["1", "2"]);
        agreement.others.insert("1".into(), found("a", "", &[]));
        agreement.others.insert("2".into(), found("older", "", &[]));
        assert_eq!(agreement.changed(&there(&[("1", "a"), ("2", "b")])), ["2"]);
        agreement.others.insert("2".into(), found("b", "", &[]));
        assert!(agreement.changed(&there(&[("1", "a"), ("2", "b")])).is_empty());
        agreement.own = Arc::new(OwnOffers { digest: "own".into(), ..OwnOffers::default() });
        assert_eq!(agreement.changed(&there(&[("2", "b")])), ["2"]);
        assert_eq!(agreement.others.len(), 1, "who is gone is forgotten");
        let many: Vec<String> = (0..100).map(|n| format!("{n:03}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|instance| (instance.as_str(), "a")).collect();
        let some = agreement.changed(&there(&many));
        assert_eq!(some.len(), LOOKS, "a few at a time");
        let others = agreement.changed(&there(&many));
        assert!(others.iter().all(|other| !some.contains(other)), "in turn: {some:?}, {others:?}");
    }

    #[test]
    fn a_difference_is_told_once_until_it_goes_away() {
        let mut agreement = Agreement::default();
        agreement.others.insert("1".into(), found("a", "", &["lease", "overlap"]));
        assert_eq!(told(&mut agreement), ["lease", "overlap"]);
        agreement.others.insert("2".into(), found("b", "", &["lease", "schedule"]));
        assert_eq!(told(&mut agreement), ["schedule"]);
        // While it is compared anew, what was found before counts.
        assert_eq!(agreement.changed(&there(&[("1", "newer"), ("2", "b")])), ["1"]);
        assert!(told(&mut agreement).is_empty());
        agreement.others.insert("1".into(), found("newer", "", &[]));
        assert!(told(&mut agreement).is_empty());
        agreement.others.insert("1".into(), found("a", "", &["overlap"]));
        assert_eq!(told(&mut agreement), ["overlap"]);
    }
}
