//! What arrives late, and answers that never arrive.

use std::sync::Arc;
use std::time::Duration;

use leasehold_lease::id::JobKey;
use leasehold_lease::op::{
    Announce, Cancel, Claim, ClaimAnswer, ClaimKind, HeartbeatAnswer, Op, Release, Trigger, Unblock,
};
use leasehold_lease::policy::Terms;
use leasehold_lease::run::{Hold, Status, Usage};
use leasehold_lease::time::{Millis, Slot};
use leasehold_test_servers::{Direction, Proxy};
use tokio::time::timeout;

use super::support::{Database, DatabaseClock, store};
use crate::conformance::SetClock;
use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::store::LeaseStore;
use crate::test_support::{PATIENCE, allowing, beat, claim, finish, job, key, slot, told, until_answered, win};
use crate::view::{JobView, RunView};

/// A store behind a network that fails on demand, the same beside it, and its clock.
struct Far {
    through: Arc<PostgresStore>,
    direct: Arc<PostgresStore>,
    proxy: Proxy,
    clock: DatabaseClock,
    _database: Database,
}

impl Far {
    async fn create() -> Option<Far> {
        let database = Database::create().await?;
        let (_, server) = database.url.rsplit_once(':').expect("the URL has a port");
        let (port, _) = server.split_once('/').expect("the URL names a database");
        let proxy = Proxy::start(port.parse().expect("a port")).await.expect("a proxy");
        let direct = store(&database.url).await;
        // As behind a pooler, so that it does not listen: what the network holds back is then what was asked for.
        let through = store(&format!("{}?pooler=transaction", proxy.url(&database.url))).await;
        let clock = DatabaseClock::of(&database).await;
        Some(Far { through, direct, proxy, clock, _database: database })
    }

    /// Uses every connection, so that what is sent next is sent without a question before.
    async fn warm(&self) {
        let ask = Claim { kind: ClaimKind::Takeover, ..claim(slot(Millis(0))) };
        for _ in 0..3 {
            // Those of the round before are broken.
            until_answered(|| self.through.now()).await;
            until_answered(async || self.through.claim(&job("nowhere"), &ask).await).await;
        }
    }

    async fn look(&self, job: &JobKey, won: &Claim) -> Option<RunView> {
        self.direct.show(&key(job, &won.run)).await.expect("an answer").answer
    }

    async fn view(&self, job: &JobKey) -> JobView {
        self.known(job).await.expect("the job")
    }

    async fn known(&self, job: &JobKey) -> Option<JobView> {
        let jobs = self.direct.jobs(None, 100).await.expect("jobs").answer;
        jobs.into_iter().find(|view| view.key == *job)
    }
}

/// S4: a heartbeat that was held up in the network renews nothing once its run was handed over, and taken over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_that_arrives_after_a_release_or_a_takeover_changes_nothing() {
    let Some(far) = Far::create().await else { return };
    let now = far.direct.now().await.expect("the time");
    for (name, is_taken_over) in [("released", false), ("taken-over", true)] {
        let job = job(name);
        let held = win(&*far.through, &job, now).await;
        // Once on each connection, so that the next is sent at once.
        for _ in 0..3 {
            beat(&*far.through, &job, &held).await.expect("an answer");
        }
        far.proxy.hold(Direction::ToServer);
        let late = tokio::spawn({
            let (store, job, held) = (far.through.clone(), job.clone(), held.clone());
            async move { beat(&*store, &job, &held).await }
        });
        far.proxy.wait_held(Direction::ToServer).await;
        let release = Release { run: held.run.clone(), token: held.token, usage: Usage::default() };
        far.direct.release(&job, &release).await.expect("an answer");
        if is_taken_over {
            let ask = Claim { kind: ClaimKind::Takeover, ..claim(held.run.clone()) };
            let answer = far.direct.claim(&job, &ask).await.expect("an answer").answer;
            assert!(matches!(answer, ClaimAnswer::Won { .. }), "{answer:?}");
        }
        let before = far.look(&job, &held).await;
        far.proxy.heal().await;
        match late.await.expect("no panic") {
            Ok(answer) => assert_eq!(answer, HeartbeatAnswer::Refused),
            // The machine was so slow that the call had ended by then.
            Err(error) => assert!(!matches!(error, StoreError::Rejected { .. }), "{}", told(&error)),
        }
        assert_eq!(far.look(&job, &held).await, before, "{name}");
    }
}

/// Nobody waits for a claim any more that arrives after its time: it wins nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_arrives_after_its_time_wins_nothing() {
    let Some(far) = Far::create().await else { return };
    let now = far.direct.now().await.expect("the time");
    let job = job("a");
    far.warm().await;
    far.proxy.hold(Direction::ToServer);
    let ask = Claim { not_after: now + Duration::from_millis(300), ..claim(slot(now)) };
    let late = tokio::spawn({
        let (store, job, ask) = (far.through.clone(), job.clone(), ask.clone());
        async move { store.claim(&job, &ask).await }
    });
    far.proxy.wait_held(Direction::ToServer).await;
    far.clock.set(now + Duration::from_millis(301)).await;
    far.proxy.heal().await;
    match late.await.expect("no panic") {
        Ok(answer) => assert_eq!((answer.answer, answer.revision), (ClaimAnswer::Old, 0)),
        Err(error) => assert!(!matches!(error, StoreError::Rejected { .. }), "{}", told(&error)),
    }
    assert_eq!(far.look(&job, &ask).await, None);
}

/// Sends an operation. Answers the job's revision and what the store said.
async fn send(store: &PostgresStore, job: &JobKey, op: &Op) -> Result<(u64, String), StoreError> {
    fn shown<A: std::fmt::Debug>(stamped: leasehold_lease::op::Stamped<A>) -> (u64, String) {
        (stamped.revision, format!("{:?}", stamped.answer))
    }
    match op {
        Op::Release(op) => store.release(job, op).await.map(shown),
        Op::Trigger(op) => store.trigger(job, op).await.map(shown),
        Op::Cancel(op) => store.cancel(job, op).await.map(shown),
        Op::Hold(op) => store.hold(job, op.as_ref()).await.map(shown),
        Op::Unblock(op) => store.unblock(job, op).await.map(shown),
        Op::Prune { history_size } => store.prune(job, *history_size).await.map(shown),
        Op::Announce(op) => {
            let mut answers = store.announce(&[(job.clone(), op.clone())]).await?;
            answers.pop().expect("an answer for each").map(shown)
        }
        other => unreachable!("this test does not send {other:?}"),
    }
}

/// S13: does the operation, loses its answer, and sends it again. Answers what it is told then.
async fn sent_again(far: &Far, job: &JobKey, op: Op) -> String {
    let before = far.known(job).await;
    loop {
        far.warm().await;
        far.proxy.hold(Direction::ToClient);
        let first = tokio::spawn({
            let (store, job, op) = (far.through.clone(), job.clone(), op.clone());
            async move { send(&store, &job, &op).await }
        });
        far.proxy.wait_held(Direction::ToClient).await;
        far.proxy.refuse().await;
        let error = first.await.expect("no panic").expect_err("its answer is lost");
        far.proxy.heal().await;
        match error {
            StoreError::Unknown { .. } => break,
            // The machine was so slow that the connection was asked first whether it is there: nothing was sent.
            StoreError::NotSent { .. } => assert_eq!(far.known(job).await, before, "nothing was done"),
            StoreError::Rejected { .. } => panic!("{}", told(&error)),
        }
    }
    let done = far.view(job).await;
    let (revision, answer) = until_answered(|| send(&far.through, job, &op)).await;
    // That a host offers a job is noted each time.
    let noted = u64::from(matches!(op, Op::Announce(_)));
    assert_eq!(revision, done.revision + noted, "{op:?} was done once");
    assert_eq!(far.view(job).await, JobView { revision, ..done }, "{op:?}");
    answer
}

/// S13: whatever is sent again because its answer was lost has its effect once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_whose_answer_is_lost_has_its_effect_once() {
    let Some(far) = Far::create().await else { return };
    let now = far.direct.now().await.expect("the time");
    let job = job("a");
    let sending = async {
        let trigger = Trigger { id: "r".parse().expect("an id"), payload: None, pending_max: 2 };
        assert_eq!(sent_again(&far, &job, Op::Trigger(trigger)).await, "Exists(Pending)");
        assert_eq!(far.view(&job).await.unfinished, 1);

        sent_again(&far, &job, Op::Announce(Announce { fingerprint: "x".into() })).await;
        assert_eq!(far.view(&job).await.since, Some(now));

        let hold = Hold { since: None, until: None, note: "a test".into() };
        sent_again(&far, &job, Op::Hold(Some(hold.clone()))).await;
        assert_eq!(far.view(&job).await.hold, Some(hold));
        sent_again(&far, &job, Op::Hold(None)).await;

        let held = win(&*far.direct, &job, now).await;
        let cancel = Cancel { run: held.run.clone(), reason: "asked".into() };
        assert_eq!(sent_again(&far, &job, Op::Cancel(cancel)).await, "Told");

        let release = Release { run: held.run.clone(), token: held.token, usage: Usage::default() };
        assert_eq!(sent_again(&far, &job, Op::Release(release)).await, "Done");
        assert_eq!(far.look(&job, &held).await.expect("the run").run.hand_overs, 1);

        // By a clock that was ahead.
        let none = Duration::ZERO;
        let terms = Terms { catch_up: none, max_late: none, ..allowing() };
        let ahead = Claim { terms, ..claim(slot(now + Duration::from_secs(5))) };
        far.direct.claim(&job, &ahead).await.expect("an answer");
        finish(&*far.direct, &job, &ahead).await.expect("an answer");
        assert_eq!(sent_again(&far, &job, Op::Unblock(Unblock { newest_due: Slot(now) })).await, "NotBlocked");
        assert_eq!(far.view(&job).await.newest_started, Some(Slot(now)));
    };
    timeout(PATIENCE, sending).await.expect("it ends");

    // A job of its own, whose runs are soon too old to be asked for.
    let old = self::job("old");
    let terms = Terms { catch_up: Duration::ZERO, max_late: Duration::ZERO, ..allowing() };
    for n in 0..3 {
        let ask = Claim { terms: terms.clone(), ..claim(slot(now + Duration::from_millis(n))) };
        far.direct.claim(&old, &ask).await.expect("an answer");
        finish(&*far.direct, &old, &ask).await.expect("an answer");
    }
    far.clock.set(now + Duration::from_secs(60)).await;
    assert_eq!(sent_again(&far, &old, Op::Prune { history_size: 1 }).await, "0", "two went the first time");
    let last = far.view(&old).await.last.expect("the newest stays").run;
    assert_eq!((last.status, last.due), (Status::Success, now + Duration::from_millis(2)));
}
