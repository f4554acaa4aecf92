//! Telling the store of the jobs that are offered here: only then they are scheduled.

use std::time::Duration;

use leasehold_lease::agent::{Input, Offer};
use leasehold_lease::id::JobKey;
use leasehold_lease::op::{Announce, Stamped};
use leasehold_sandbox::Plugin;
use leasehold_store::{AnnounceAnswer, Each, StoreError};

use super::calls::{News, Side};
use super::polls::digest;
use super::{Driver, Entry};
use crate::clock;
use crate::plugins::OfferedJob;

/// Versions of a job that are kept for claims on their way.
const VERSIONS: usize = 2;

/// A job, and what the store says of it.
pub(super) type Announced<T> = (T, Stamped<AnnounceAnswer>);

impl Driver {
    /// Tells the store of all jobs that are offered and not served yet; they are scheduled when it has answered. One
    /// call at a time, so that the store ends with what is offered last.
    pub(super) fn announce(&mut self) {
        self.next_announcement = None;
        // A job that went while it ran and came back as it was is to be offered again, too.
        let unserved = |entry: &&Entry| match (&entry.wanted, entry.serving.back()) {
            (Some(wanted), Some(served)) => !entry.agent.is_offered() || !wanted.is_same(served),
            (wanted, _) => wanted.is_some(),
        };
        let offered: Vec<OfferedJob<Plugin>> =
            self.jobs.values().filter(unserved).filter_map(|entry| entry.wanted.clone()).collect();
        if offered.is_empty() {
            return;
        }
        self.announcing = true;
        let store = self.parts.store.clone();
        let jobs: Vec<(JobKey, Announce)> = offered
            .iter()
            .map(|offered| (offered.spec.key.clone(), Announce { fingerprint: fingerprint(offered) }))
            .collect();
        self.calls.spawn(
            "telling the store of jobs",
            Side::Changes,
            Duration::from_secs(2),
            async move {
                let told = store.announce(&jobs).await?;
                let (told, missing) = sort_out(offered, told, |offered| &offered.spec.key);
                let now = match told.first() {
                    Some((_, first)) => first.now,
                    None => store.now().await?,
                };
                Ok((now, (told, missing)))
            },
            |(told, missing), _| {
                let again = missing.then_some(News::NotAnnounced);
                [News::Announced(told)].into_iter().chain(again).collect()
            },
            || vec![News::NotAnnounced],
        );
    }

    /// The store did not answer for all: once more in a second, with what is offered and not served then.
    pub(super) fn not_announced(&mut self) {
        self.announcing = false;
        self.next_announcement = Some(clock::mono() + Duration::from_secs(1));
    }

    pub(super) fn announced(&mut self, answers: Vec<Announced<OfferedJob<Plugin>>>) {
        self.announcing = false;
        for (offered, answer) in answers {
            let job = offered.spec.key.clone();
            let Some(entry) = self.jobs.get_mut(&job) else { continue };
            // The plugin directory may have changed its mind meanwhile.
            if !entry.wanted.as_ref().is_some_and(|wanted| wanted.is_same(&offered)) {
                continue;
            }
            let offer = Offer {
                schedule: offered.spec.schedule.clone(),
                policy: offered.spec.policy.clone(),
                digest: digest(&offered),
            };
            entry.serving.push_back(offered);
            if entry.serving.len() > VERSIONS {
                entry.serving.pop_front();
            }
            let AnnounceAnswer { since, newest_started, newest_skipped, .. } = answer.answer;
            self.feed(job, Input::Offered { offer, since, newest_started, newest_skipped });
        }
        // Unfinished runs of what has just come.
        self.next_poll = clock::mono();
    }
}

fn fingerprint(offered: &OfferedJob<Plugin>) -> String {
    offered.spec.schedule.as_ref().map_or_else(|| "on-demand".to_owned(), |schedule| schedule.fingerprint().to_string())
}

/// What was told of the jobs, and whether some are to be offered again soon: the store could not be asked about these. A
/// record that cannot be read fails its own job alone, which is offered again when its plugin changes.
fn sort_out<T>(
    offered: Vec<T>,
    told: Vec<Each<AnnounceAnswer>>,
    job: impl Fn(&T) -> &JobKey,
) -> (Vec<Announced<T>>, bool) {
    let mut missing = false;
    let mut sound = |(offered, told): (T, Each<AnnounceAnswer>)| match told {
        Ok(told) => Some((offered, told)),
        Err(error) => {
            let (job, refused) = (job(&offered), matches!(error, StoreError::Rejected { .. }));
            let error = &error as &dyn std::error::Error;
            if refused {
                tracing::error!(%job, error, "the job cannot be scheduled");
            } else {
                tracing::warn!(%job, error, "the job is announced again in a second");
            }
            missing |= !refused;
            None
        }
    };
    let told = offered.into_iter().zip(told).filter_map(&mut sound).collect();
    (told, missing)
}

#[cfg(test)]
mod tests {
    use leasehold_lease::time::Millis;

    use super::*;

    fn told(error: Option<StoreError>) -> Each<AnnounceAnswer> {
        let answer = AnnounceAnswer { since: Millis(1), newest_started: None, newest_skipped: None, hold: None };
        error.map_or(Ok(Stamped { answer, now: Millis(2), revision: 1 }), Err)
    }

    #[test]
    fn what_the_store_could_not_be_asked_about_is_offered_again_and_what_it_refused_is_not() {
        let names: Vec<JobKey> = ["t/a", "t/b", "t/c"].map(|name| name.parse().expect("a job")).into();
        let (doing, source) = ("announcing", || "why".into());
        let refused = || told(Some(StoreError::Rejected { doing, source: source() }));
        let (sound, again) = sort_out(names.clone(), vec![told(None), refused(), told(None)], |job| job);
        assert_eq!(sound.into_iter().map(|(job, _)| job).collect::<Vec<_>>(), [names[0].clone(), names[2].clone()]);
        assert!(!again);
        for error in [StoreError::NotSent { doing, source: source() }, StoreError::Unknown { doing, source: source() }]
        {
            let (sound, again) = sort_out(names.clone(), vec![told(Some(error)), refused(), told(None)], |job| job);
            assert_eq!((sound.len(), again), (1, true));
        }
    }
}
