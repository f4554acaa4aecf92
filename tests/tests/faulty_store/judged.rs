//! The store's record behind all faults, judged operation by operation, and the leases that runners were told of.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use leasehold::clock;
use leasehold_lease::check::{History, Step};
use leasehold_lease::id::{Fence, JobKey, Token};
use leasehold_lease::op::{Answer, Op, Stamped};
use leasehold_lease::run::Job;
use leasehold_lease::time::Mono;
use leasehold_store::StoreError;
use leasehold_store::memory::MemoryStore;
use leasehold_tests::Effect;
use tokio::sync::Mutex;

/// A store in memory whose every step is held against the invariants.
pub(crate) struct Judged {
    pub(crate) memory: MemoryStore,
    /// Held while an operation is carried out, so that it is alone between the two looks at the record.
    past: Mutex<Past>,
    leases: std::sync::Mutex<Leases>,
}

#[derive(Default)]
struct Past {
    histories: HashMap<JobKey, History>,
    broken: Vec<String>,
    steps: usize,
}

/// What runners were told of their leases.
#[derive(Default)]
struct Leases {
    /// When a token's claim was sent first.
    first_sent: HashMap<[u8; 16], Mono>,
    /// Whose fence each token has.
    fences: HashMap<[u8; 16], (JobKey, Fence)>,
    /// From when on the runner knew that its lease lasts until then.
    known: HashMap<(JobKey, Fence), Vec<(Mono, Mono)>>,
}

impl Judged {
    pub(crate) fn new() -> Judged {
        let (past, leases) = (Mutex::default(), std::sync::Mutex::default());
        Judged { memory: MemoryStore::new(), past, leases }
    }

    /// Carries out an operation on one job and judges it.
    pub(crate) async fn judge<A>(
        &self,
        job: &JobKey,
        op: Op,
        call: impl Future<Output = Result<Stamped<A>, StoreError>>,
        answer: fn(&A, &Job, &Job) -> Answer,
    ) -> Result<Stamped<A>, StoreError> {
        let mut past = self.past.lock().await;
        let before = self.memory.record(job);
        let stamped = call.await?;
        let after = self.memory.record(job);
        let answered = answer(&stamped.answer, &before, &after);
        let told = Stamped { answer: answered, now: stamped.now, revision: stamped.revision };
        let step = Step { before: &before, op: &op, answer: &told, after: &after };
        past.steps += 1;
        let history = past.histories.entry(job.clone()).or_insert_with(|| History::new(true));
        if let Err(violation) = history.judge(&step) {
            past.broken.push(format!("{job}: {violation}, by {op:?}"));
        }
        Ok(stamped)
    }

    /// Carries out what is judged nowhere here, apart from all others.
    pub(crate) async fn aside<T>(&self, call: impl Future<Output = T>) -> T {
        let _alone = self.past.lock().await;
        call.await
    }

    /// A claim is sent.
    pub(crate) fn claims(&self, token: Token) {
        self.leases().first_sent.entry(token.0).or_insert_with(clock::mono);
    }

    /// A claimer learns that it has won.
    pub(crate) fn won(&self, job: &JobKey, token: Token, fence: Fence, lease: Duration) {
        let mut leases = self.leases();
        let sent = leases.first_sent[&token.0];
        leases.fences.insert(token.0, (job.clone(), fence));
        leases.known.entry((job.clone(), fence)).or_default().push((clock::mono(), sent + lease));
    }

    /// A runner learns that the heartbeat it sent then was acknowledged.
    pub(crate) fn renewed(&self, token: Token, sent: Mono, lease: Duration) {
        let mut leases = self.leases();
        if let Some(whose) = leases.fences.get(&token.0).cloned() {
            leases.known.entry(whose).or_default().push((clock::mono(), sent + lease));
        }
    }

    /// H3: effects that arrived later than this after the end of their lease, as their runner could know it.
    pub(crate) fn outlived(&self, job: &JobKey, effects: &[(Mono, Effect)], slack: Duration) -> Vec<String> {
        let leases = self.leases();
        let lasted = |at: Mono, effect: &Effect| {
            let known = leases.known.get(&(job.clone(), Fence(effect.fence)));
            known.is_some_and(|known| known.iter().any(|(told, end)| *told <= at && at <= *end + slack))
        };
        let late = effects.iter().filter(|(at, effect)| !lasted(*at, effect));
        late.map(|(at, effect)| format!("{job}: {effect:?} arrived at {at:?} after its lease")).collect()
    }

    /// What was broken, and how many steps were judged.
    pub(crate) async fn verdict(&self) -> (Vec<String>, usize) {
        let past = self.past.lock().await;
        (past.broken.clone(), past.steps)
    }

    fn leases(&self) -> std::sync::MutexGuard<'_, Leases> {
        self.leases.lock().expect("nobody panics with it")
    }
}

/// The judge of effects finds what it is there to find.
#[tokio::test]
async fn an_effect_before_the_win_is_known_or_after_the_lease_or_of_no_lease_is_found() {
    let ms = Duration::from_millis;
    let (judged, job) = (Judged::new(), "default/acts".parse::<JobKey>().expect("it is a name"));
    let (token, lease, slack) = (Token([7; 16]), ms(60_000), ms(5));
    let before = clock::mono();
    tokio::time::sleep(ms(2)).await;
    judged.claims(token);
    let sent = clock::mono();
    judged.won(&job, token, Fence(3), lease);
    let outlived = |at: Mono, fence: u64| {
        let effect = Effect { attempt: 1, fence };
        !judged.outlived(&job, &[(at, effect)], slack).is_empty()
    };
    let known = clock::mono();
    assert!(!outlived(known, 3), "it is in time");
    assert!(outlived(before, 3), "nobody knew that the run was won");
    assert!(outlived(known, 4), "nobody won it with that fence");
    let after = sent + lease + slack + ms(1);
    assert!(outlived(after, 3), "the lease was over");
    judged.renewed(token, sent + ms(10), lease);
    assert!(!outlived(after, 3), "it was renewed");
    assert!(outlived(after + ms(10), 3), "for so long only");
}
