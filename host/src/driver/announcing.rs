//! Telling the store of the jobs that are offered here: only then they are scheduled.

use std::collections::VecDeque;
use std::time::Duration;

use leasehold_lease::agent::{Input, Offer};
use leasehold_lease::id::{Digest, JobKey};
use leasehold_lease::op::{ANNOUNCE_EVERY, Announce, Stamped};
use leasehold_lease::time::Mono;
use leasehold_sandbox::Plugin;
use leasehold_store::{AnnounceAnswer, Each, StoreError};

use super::calls::{News, Side};
use super::polls::digest;
use super::{Driver, Entry};
use crate::clock;
use crate::plugins::OfferedJob;

/// Older versions of a job that are kept for claims on their way.
const OLDER: usize = 1;

/// Jobs in one call.
const BATCH: usize = 1_000;

/// A job, and what the store says of it.
pub(super) type Announced<T> = (T, Stamped<AnnounceAnswer>);

impl Driver {
    /// Tells the store of jobs: of those that are new or changed, which are scheduled when it has answered, and of the
    /// others every [`ANNOUNCE_EVERY`], so that their runs are not given up as orphans. One call at a time, so that the store
    /// ends with what is offered last.
    pub(super) fn announce(&mut self) {
        self.next_announcement = None;
        let now = clock::mono();
        let mut due: Vec<(Mono, OfferedJob<Plugin>)> =
            self.jobs.values().filter_map(|entry| entry.to_announce(now)).collect();
        // What is new goes first.
        due.sort_by_key(|(at, _)| *at);
        due.truncate(BATCH);
        if due.is_empty() {
            self.plan_announcement();
            return;
        }
        self.announcing = true;
        let offered: Vec<OfferedJob<Plugin>> = due.into_iter().map(|(_, offered)| offered).collect();
        let announce = |job: &OfferedJob<Plugin>| (job.spec.key.clone(), Announce { fingerprint: fingerprint(job) });
        let jobs: Vec<(JobKey, Announce)> = offered.iter().map(announce).collect();
        let all: Vec<JobKey> = jobs.iter().map(|(job, _)| job.clone()).collect();
        for job in &all {
            if let Some(entry) = self.jobs.get_mut(job) {
                entry.announced = Some(now);
            }
        }
        let (store, news) = (self.parts.store.clone(), self.calls.news.clone());
        self.calls.spawn(
            "telling the store of jobs",
            Side::Changes,
            Duration::from_secs(2),
            async move {
                // It is over when the call is, not when waiting for it is: one that follows must not be overtaken.
                let told = store.announce(&jobs).await;
                let told = told.inspect_err(|_| news.tell(News::AnnouncementOver))?;
                let (told, missing) = sort_out(offered, told, |offered| &offered.spec.key);
                let now = match told.first() {
                    Some((_, first)) => first.now,
                    None => store.now().await.inspect_err(|_| news.tell(News::AnnouncementOver))?,
                };
                Ok((now, (told, missing)))
            },
            |(told, missing), _| {
                let again = (!missing.is_empty()).then_some(News::NotAnnounced(missing));
                [News::Announced(told), News::AnnouncementOver].into_iter().chain(again).collect()
            },
            move || vec![News::NotAnnounced(all.clone())],
        );
    }

    /// The store did not answer for these: once more in a second, with what is offered then.
    pub(super) fn not_announced(&mut self, jobs: &[JobKey]) {
        for job in jobs {
            if let Some(entry) = self.jobs.get_mut(job) {
                entry.announced = None;
            }
        }
        self.next_announcement = Some(clock::mono() + Duration::from_secs(1));
    }

    /// The store has answered the call, or will not: the next one may follow.
    pub(super) fn announcement_over(&mut self) {
        self.announcing = false;
    }

    pub(super) fn announced(&mut self, answers: Vec<Announced<OfferedJob<Plugin>>>) {
        let now = clock::mono();
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
            entry.announced = Some(now);
            if !entry.agent.is_offered() || !entry.serving.back().is_some_and(|served| served.is_same(&offered)) {
                entry.serving.push_back(offered);
                // Unfinished runs of what has just come.
                self.polls.soon(now);
            }
            let AnnounceAnswer { since, newest_started, newest_skipped, .. } = answer.answer;
            self.feed(job, Input::Offered { offer, since, newest_started, newest_skipped });
        }
        self.plan_announcement();
    }

    /// Drops older versions of the job that no claim on its way names: what they were compiled to takes memory. A guest
    /// that runs has its own hold of its version.
    pub(super) fn drop_old_versions(&mut self, job: &JobKey) {
        let Some(Entry { agent, serving, .. }) = self.jobs.get_mut(job) else { return };
        keep_used(serving, digest, |digest| agent.names(digest));
    }

    /// When the next job is due.
    fn plan_announcement(&mut self) {
        self.next_announcement = self.jobs.values().filter_map(Entry::announcement).min();
    }
}

impl Entry {
    /// When the store is to be told of it: at once when it is new, and then again and again.
    fn announcement(&self) -> Option<Mono> {
        self.wanted.as_ref()?;
        Some(self.announced.map_or(Mono::default(), |at| at + ANNOUNCE_EVERY))
    }

    /// The job with when it was due, if it is due or soon will be: then it goes along.
    fn to_announce(&self, now: Mono) -> Option<(Mono, OfferedJob<Plugin>)> {
        let (at, wanted) = (self.announcement()?, self.wanted.as_ref()?);
        (at <= now + ANNOUNCE_EVERY / 4).then(|| (at, wanted.clone()))
    }
}

pub(super) fn fingerprint(offered: &OfferedJob<Plugin>) -> String {
    offered.spec.schedule.as_ref().map_or_else(|| "on-demand".to_owned(), |schedule| schedule.fingerprint().to_string())
}

/// Of versions, the newest last: that one stays, and those before it that are used, up to [`OLDER`]. One with the newest's
/// digest is never looked at.
fn keep_used<T>(versions: &mut VecDeque<T>, digest: impl Fn(&T) -> Digest, is_used: impl Fn(&Digest) -> bool) {
    let Some(newest) = versions.pop_back() else { return };
    let named = digest(&newest);
    versions.retain(|older| digest(older) != named && is_used(&digest(older)));
    versions.drain(..versions.len().saturating_sub(OLDER));
    versions.push_back(newest);
}

/// What was told of the jobs, and which are to be offered again soon: the store could not be asked about these. A record
/// that cannot be read fails its own job alone, which is offered again when others are.
fn sort_out<T>(
    offered: Vec<T>,
    told: Vec<Each<AnnounceAnswer>>,
    job: impl Fn(&T) -> &JobKey,
) -> (Vec<Announced<T>>, Vec<JobKey>) {
    let mut missing = Vec::new();
    let mut sound = |(offered, told): (T, Each<AnnounceAnswer>)| match told {
        Ok(told) => Some((offered, told)),
        Err(error) => {
            let (job, refused) = (job(&offered), matches!(error, StoreError::Rejected { .. }));
            let error = &error as &dyn std::error::Error;
            if refused {
                tracing::error!(%job, error, "the job cannot be scheduled");
            } else {
                tracing::warn!(%job, error, "the job is announced again in a second");
                missing.push(job.clone());
            }
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
    fn an_older_version_is_kept_while_a_claim_names_it_and_no_longer() {
        let digest = |version: &u8| Digest([*version; 32]);
        let kept = |versions: &[u8], used: &[u8]| {
            let mut versions: VecDeque<u8> = versions.iter().copied().collect();
            keep_used(&mut versions, digest, |named| used.iter().any(|used| digest(used) == *named));
            Vec::from(versions)
        };
        assert_eq!(kept(&[1, 2], &[1]), [1, 2]);
        assert_eq!(kept(&[1, 2], &[]), [2]);
        assert_eq!(kept(&[1, 2, 3], &[1, 3]), [1, 3]);
        assert_eq!(kept(&[1, 2, 3], &[1, 2]), [2, 3], "of many, the newer ones");
        assert_eq!(kept(&[1, 2, 1], &[1]), [1], "the newest serves the claim as well");
        assert_eq!((kept(&[1], &[]), kept(&[], &[])), (vec![1], vec![]));
    }

    #[test]
    fn what_the_store_could_not_be_asked_about_is_offered_again_and_what_it_refused_is_not() {
        let names: Vec<JobKey> = ["t/a", "t/b", "t/c"].map(|name| name.parse().expect("a job")).into();
        let (doing, source) = ("announcing", || "why".into());
        let refused = || told(Some(StoreError::Rejected { doing, source: source() }));
        let (sound, again) = sort_out(names.clone(), vec![told(None), refused(), told(None)], |job| job);
        assert_eq!(sound.into_iter().map(|(job, _)| job).collect::<Vec<_>>(), [names[0].clone(), names[2].clone()]);
        assert!(again.is_empty());
        for error in [StoreError::NotSent { doing, source: source() }, StoreError::Unknown { doing, source: source() }]
        {
            let (sound, again) = sort_out(names.clone(), vec![told(Some(error)), refused(), told(None)], |job| job);
            assert_eq!((sound.len(), again), (1, vec![names[0].clone()]));
        }
    }
}
