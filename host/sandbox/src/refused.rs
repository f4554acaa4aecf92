//! What was refused, so that a bad file that stays in place costs a compiler once.
//!
//! It is forgotten when the host ends. A host of another version or with other limits may well take what this one refused,
//! and all that a restart costs is a turn at a compiler for each such file, in a process of its own with limits of its own:
//! what was compiled before waits for none.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::plugin::Digest;
use crate::refusal::Refusal;

/// How many refused digests are remembered: the oldest are forgotten.
const REMEMBERED: usize = 1_024;

/// How long a refusal is remembered whose cause may pass.
const PASSING: Duration = Duration::from_secs(10 * 60);

/// Digests with the reason for which they were refused. Times are the sandbox's clock's.
#[derive(Default)]
pub(crate) struct Refused(Mutex<VecDeque<Entry>>);

struct Entry {
    digest: Digest,
    refusal: Refusal,
    /// When it is forgotten, where its cause may pass.
    until: Option<Duration>,
}

impl Refused {
    pub(crate) fn get(&self, digest: &Digest, now: Duration) -> Option<Refusal> {
        let all = self.all();
        let known = all.iter().find(|entry| entry.digest == *digest && entry.until.is_none_or(|until| now < until));
        known.map(|entry| entry.refusal.clone())
    }

    pub(crate) fn add(&self, digest: Digest, refusal: &Refusal, now: Duration) {
        let until = refusal.may_pass().then(|| now + PASSING);
        let mut all = self.all();
        all.retain(|entry| entry.digest != digest);
        all.truncate(REMEMBERED - 1);
        all.push_front(Entry { digest, refusal: refusal.clone(), until });
    }

    fn all(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Digests whose first try at a compiler was too short: they are spared it.
#[derive(Default)]
pub(crate) struct Slow(Mutex<VecDeque<Digest>>);

impl Slow {
    pub(crate) fn has(&self, digest: &Digest) -> bool {
        self.all().contains(digest)
    }

    pub(crate) fn add(&self, digest: Digest) {
        let mut all = self.all();
        all.retain(|other| *other != digest);
        all.truncate(REMEMBERED - 1);
        all.push_front(digest);
    }

    fn all(&self) -> MutexGuard<'_, VecDeque<Digest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::CompileLimit;

    fn digest(n: usize) -> Digest {
        Digest::new(std::array::from_fn(|at| n.to_le_bytes().get(at).copied().unwrap_or(0)))
    }

    #[test]
    fn refused_digests_are_remembered_with_their_reason_and_the_oldest_are_forgotten() {
        let refused = Refused::default();
        for n in 0..1_100 {
            refused.add(digest(n), &Refusal::Compile { detail: n.to_string() }, Duration::ZERO);
        }
        let known = |n| refused.get(&digest(n), Duration::MAX);
        assert_eq!(known(1_099), Some(Refusal::Compile { detail: "1099".to_owned() }));
        assert_eq!(known(0), None);
        assert_eq!(refused.all().len(), REMEMBERED);
    }

    #[test]
    fn a_cause_that_may_pass_is_forgotten_after_minutes_and_one_that_lies_in_the_bytes_is_not() {
        let refused = Refused::default();
        let limit = |limit| Refusal::CompileLimit { limit };
        let (busy, bomb) = (limit(CompileLimit::Wall(PASSING)), limit(CompileLimit::Cpu(PASSING)));
        refused.add(digest(1), &busy, Duration::ZERO);
        refused.add(digest(2), &bomb, Duration::ZERO);
        assert_eq!(refused.get(&digest(1), PASSING - Duration::from_nanos(1)), Some(busy.clone()));
        assert_eq!(refused.get(&digest(1), PASSING), None);
        assert_eq!(refused.get(&digest(2), Duration::MAX), Some(bomb));
        // It has come again.
        refused.add(digest(1), &busy, PASSING);
        assert_eq!(refused.get(&digest(1), PASSING), Some(busy));
    }
}
