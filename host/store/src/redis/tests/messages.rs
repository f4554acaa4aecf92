//! Messages that come late, and answers that are lost.

use std::time::Duration;

use leasehold_lease::id::{JobKey, RunId, RunKey, TenantName};
use leasehold_lease::op::{
    Accepted, Cancel, CancelAnswer, Claim, ClaimAnswer, ClaimKind, Heartbeat, HeartbeatAnswer, Release, Trigger,
    TriggerAnswer, Unblock, UnblockAnswer,
};
use leasehold_lease::policy::Terms;
use leasehold_lease::run::{Hold, Status, Usage};
use leasehold_lease::time::{Millis, Slot};
use leasehold_test_servers::{Direction, Proxy, Redis};
use tokio::time::timeout;

use super::support::{namespace, own_server, run};
use crate::error::StoreError;
use crate::redis::RedisStore;
use crate::redis::scripts::{ON_A_SET_CLOCK, Scripts};
use crate::store::LeaseStore;
use crate::test_support::{beat, claim, finish, job, key, slot, told, until_answered, win};
use crate::view::{JobView, RunView};

async fn look(store: &RedisStore, job: &JobKey, run: &RunId) -> Option<RunView> {
    store.show(&key(job, run)).await.expect("an answer").answer
}

async fn view(store: &RedisStore, job: &JobKey) -> JobView {
    let jobs = store.jobs(None, 100).await.expect("jobs").answer;
    jobs.into_iter().find(|view| view.key == *job).expect("the job")
}

fn release(won: &Claim) -> Release {
    Release { run: won.run.clone(), token: won.token, usage: Usage::default() }
}

/// Two doors to one store: through a proxy, and past it.
async fn two_doors(server: &Redis) -> (Proxy, RedisStore, RedisStore) {
    let (proxy, namespace) = (Proxy::start(server.port()).await.expect("a proxy"), namespace());
    let held = RedisStore::connect(&proxy.url(&server.url()), &namespace).await.expect("a store");
    let direct = RedisStore::connect(&server.url(), &namespace).await.expect("a store");
    (proxy, held, direct)
}

/// S5: a released attempt stays released, though the heartbeat was sent before the release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_that_comes_after_the_release_changes_nothing() {
    let Some(server) = own_server(&[]).await else { return };
    let (proxy, held, direct) = two_doors(&server).await;
    let job = job("a");
    let won = win(&held, &job, direct.now().await.expect("the time")).await;
    proxy.hold(Direction::ToServer);
    let (late, before) = tokio::join!(beat(&held, &job, &won), async {
        proxy.wait_held(Direction::ToServer).await;
        assert_eq!(direct.release(&job, &release(&won)).await.expect("an answer").answer, Accepted::Done);
        let before = (look(&direct, &job, &won.run).await, view(&direct, &job).await);
        proxy.heal().await;
        before
    });
    assert_eq!(late.expect("an answer"), HeartbeatAnswer::Refused);
    assert_eq!((look(&direct, &job, &won.run).await, view(&direct, &job).await), before);
}

/// S4: the token is not current any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_that_comes_after_a_takeover_changes_nothing() {
    let Some(server) = own_server(&[]).await else { return };
    let (proxy, held, direct) = two_doors(&server).await;
    let (job, now) = (job("a"), direct.now().await.expect("the time"));
    let ask = claim(slot(now));
    let ask = Claim { terms: Terms { lease: Duration::from_millis(200), ..ask.terms.clone() }, ..ask };
    let answer = held.claim(&job, &ask).await.expect("an answer").answer;
    assert!(matches!(answer, ClaimAnswer::Won { .. }), "{answer:?}");
    proxy.hold(Direction::ToServer);
    let (late, (taken, before)) = tokio::join!(beat(&held, &job, &ask), async {
        proxy.wait_held(Direction::ToServer).await;
        let taken = Claim { kind: ClaimKind::Takeover, ..claim(slot(now)) };
        loop {
            match direct.claim(&job, &taken).await.expect("an answer").answer {
                ClaimAnswer::Won { .. } => break,
                ClaimAnswer::Running { .. } => tokio::time::sleep(Duration::from_millis(5)).await,
                other => panic!("{other:?}"),
            }
        }
        let before = (look(&direct, &job, &ask.run).await, view(&direct, &job).await);
        proxy.heal().await;
        (taken, before)
    });
    assert_eq!(late.expect("an answer"), HeartbeatAnswer::Refused);
    assert_eq!((look(&direct, &job, &ask.run).await, view(&direct, &job).await), before);
    assert!(matches!(beat(&direct, &job, &taken).await.expect("an answer"), HeartbeatAnswer::Renewed { .. }));
}

/// Past `not_after` nothing is won: its sender does not wait for this copy any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_comes_too_late_wins_nothing() {
    let Some(server) = own_server(&[]).await else { return };
    let (proxy, held, direct) = two_doors(&server).await;
    let (job, now) = (job("a"), direct.now().await.expect("the time"));
    // The tenant is registered by now, so the claim itself is what waits.
    let other = win(&held, &job, now).await;
    let not_after = Millis(now.0 + 300);
    let ask = Claim { not_after, ..claim(slot(Millis(now.0 + 1))) };
    proxy.hold(Direction::ToServer);
    let (late, ()) = tokio::join!(held.claim(&job, &ask), async {
        proxy.wait_held(Direction::ToServer).await;
        while direct.now().await.expect("the time") <= not_after {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        proxy.heal().await;
    });
    assert_eq!(late.expect("an answer").answer, ClaimAnswer::Old);
    assert_eq!(look(&direct, &job, &ask.run).await, None);
    assert_eq!(view(&direct, &job).await.newest_started, other.run.slot());
}

/// A verb that takes several calls ends by the limit of one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verb_of_several_calls_is_bounded_as_one() {
    let Some(server) = own_server(&[]).await else { return };
    let (proxy, slow, direct) = two_doors(&server).await;
    let now = direct.now().await.expect("the time");
    // The server has the script.
    win(&direct, &job("other"), now).await;
    // Its tenant is unknown: three calls, each 1.6 s long.
    let (job, ask) = (job("acme/nightly"), claim(slot(now)));
    proxy.delay(Duration::from_millis(800));
    let ended = timeout(Duration::from_secs(4), slow.claim(&job, &ask)).await.expect("it ends by itself");
    let error = ended.expect_err("there was no time for all of it");
    assert!(matches!(error, StoreError::Unknown { .. }), "{}", told(&error));
    proxy.heal().await;
    let again = until_answered(|| slow.claim(&job, &ask)).await;
    assert!(matches!(again.answer, ClaimAnswer::Won { .. }) && again.revision == 1, "{again:?}");
    assert_eq!(direct.jobs(None, 100).await.expect("jobs").answer.len(), 2);
}

/// Many tenants take no longer than one, and are answered in the order of their keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unfinished_runs_of_many_tenants_are_read_side_by_side() {
    let Some(server) = own_server(&[]).await else { return };
    let (proxy, slow, direct) = two_doors(&server).await;
    let now = direct.now().await.expect("the time");
    let tenants: Vec<TenantName> = (0..70).map(|n| format!("t{n:02}").parse().expect("a name")).collect();
    let mut expected = Vec::new();
    for (n, tenant) in tenants.iter().enumerate() {
        // Some have nothing.
        for name in ["a", "b", "c"].iter().take(n % 4) {
            let job = job(&format!("{tenant}/{name}"));
            let run = win(&direct, &job, now).await.run;
            expected.push(RunKey { job, run });
        }
    }
    for limit in [1, 7, 40, 1_000] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = direct.unfinished(&tenants, after.as_ref(), limit).await.expect("runs").answer;
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            after = Some(last.key.clone());
            found.extend(page.into_iter().map(|run| run.key));
        }
        assert_eq!(found, expected, "pages of {limit}");
    }
    // One after the other would take more than four seconds.
    proxy.delay(Duration::from_millis(30));
    let found = slow.unfinished(&tenants, None, 1_000).await.expect("within the limit of a call").answer;
    assert_eq!(found.into_iter().map(|run| run.key).collect::<Vec<_>>(), expected);
}

/// A store behind a network that can lose answers, on a clock that stands still.
struct Lossy {
    server: Redis,
    proxy: Proxy,
    store: RedisStore,
    direct: RedisStore,
    clock: String,
}

/// Where the clock begins.
const START: Millis = Millis(1_700_000_000_000);

impl Lossy {
    async fn start() -> Option<Lossy> {
        let server = own_server(&[]).await?;
        let (proxy, namespace) = (Proxy::start(server.port()).await.expect("a proxy"), namespace());
        let clock = format!("leasehold:{{{namespace}}}:clock");
        let url = proxy.url(&server.url());
        let _: () = run(&server.url(), &["SET", &clock, &START.0.to_string()]).await;
        let store = RedisStore::with_scripts(&url, &namespace, &ON_A_SET_CLOCK).await.expect("a store");
        let direct = RedisStore::with_scripts(&server.url(), &namespace, &ON_A_SET_CLOCK).await.expect("a store");
        // The server has them all, so that no answer says that it lacks one.
        let Scripts { cancel, hold, prune, release, trigger, unblock, .. } = &*ON_A_SET_CLOCK;
        for script in [cancel, hold, prune, release, trigger, unblock] {
            let _: String = run(&server.url(), &["SCRIPT", "LOAD", &script.source]).await;
        }
        Some(Lossy { server, proxy, store, direct, clock })
    }

    async fn set(&self, at: Millis) {
        let _: () = run(&self.server.url(), &["SET", &self.clock, &at.0.to_string()]).await;
    }

    /// Sends something that changes the job, loses the answer, and sends the same again.
    async fn twice<A: std::fmt::Debug>(&self, job: &JobKey, ask: impl AsyncFn() -> Result<A, StoreError>) -> A {
        let before = view(&self.direct, job).await.revision;
        // The network is there again after the last time.
        until_answered(|| self.store.now()).await;
        self.proxy.hold(Direction::ToClient);
        let (lost, ()) = tokio::join!(ask(), async {
            let done = async {
                while view(&self.direct, job).await.revision == before {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            };
            timeout(Duration::from_secs(1), done).await.expect("it is carried out");
            self.proxy.drop_connections();
        });
        let error = lost.expect_err("its answer was lost");
        assert!(matches!(error, StoreError::Unknown { .. }), "{}", told(&error));
        self.proxy.heal().await;
        until_answered(|| ask()).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_whose_answers_were_lost_change_once() {
    let Some(lossy) = Lossy::start().await else { return };
    let (store, job) = (&lossy.store, job("a"));
    let won = win(store, &job, START).await;
    let again = lossy.twice(&job, async || store.release(&job, &release(&won)).await).await;
    assert_eq!(again.answer, Accepted::Done);
    let run = look(store, &job, &won.run).await.expect("the run").run;
    assert_eq!((run.hand_overs, again.revision), (1, 2));

    let trigger = Trigger { id: "r".parse().expect("an id"), payload: Some(vec![1]), pending_max: 9 };
    let again = lossy.twice(&job, async || store.trigger(&job, &trigger).await).await;
    assert_eq!((again.answer, again.revision), (TriggerAnswer::Exists(Status::Pending), 3));
    assert_eq!(view(store, &job).await.unfinished, 2);

    let pending = Cancel { run: RunId::OnDemand(trigger.id), reason: "asked".into() };
    let again = lossy.twice(&job, async || store.cancel(&job, &pending).await).await;
    assert_eq!((again.answer, again.revision), (CancelAnswer::Ended(Status::Interrupted), 4));

    let live = win(store, &job, Millis(START.0 + 1)).await;
    let revision = view(store, &job).await.revision;
    let cancel = Cancel { run: live.run.clone(), reason: "asked".into() };
    let again = lossy.twice(&job, async || store.cancel(&job, &cancel).await).await;
    assert_eq!((again.answer, again.revision), (CancelAnswer::Told, revision + 1));
    let beat = Heartbeat { run: live.run, token: live.token, progress: None };
    let renewed = store.heartbeats(&[(job.clone(), beat)]).await.expect("answers").remove(0).expect("an answer");
    assert!(matches!(renewed.answer, HeartbeatAnswer::Renewed { cancelled: true, .. }), "{renewed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_whose_answers_were_lost_change_once() {
    let Some(lossy) = Lossy::start().await else { return };
    let (store, job) = (&lossy.store, job("a"));
    let none = Duration::ZERO;
    let ask = claim(slot(START));
    let ask = Claim { terms: Terms { catch_up: none, max_late: none, ..ask.terms.clone() }, ..ask };
    let answer = store.claim(&job, &ask).await.expect("an answer").answer;
    assert!(matches!(answer, ClaimAnswer::Won { .. }), "{answer:?}");
    finish(store, &job, &ask).await.expect("an answer");

    let revision = view(store, &job).await.revision;

    let hold = Hold { since: None, until: None, note: "a release".into() };
    let again = lossy.twice(&job, async || store.hold(&job, Some(&hold)).await).await;
    assert_eq!(again.revision, revision + 1);
    let again = lossy.twice(&job, async || store.hold(&job, None).await).await;
    assert_eq!(again.revision, revision + 2);
    assert_eq!(view(store, &job).await.hold, Some(Hold { until: Some(START), ..hold }), "it is over");

    lossy.set(Millis(START.0 + 10_001)).await;
    let again = lossy.twice(&job, async || store.prune(&job, 0).await).await;
    assert_eq!((again.answer, look(store, &job, &ask.run).await), (0, None), "the first one was done");

    let back = Millis(START.0 - 3_600_000);
    lossy.set(back).await;
    let revision = view(store, &job).await.revision;
    let unblock = Unblock { newest_due: Slot(back) };
    let again = lossy.twice(&job, async || store.unblock(&job, &unblock).await).await;
    assert_eq!((again.answer, again.revision), (UnblockAnswer::NotBlocked, revision + 1));
    assert_eq!(view(store, &job).await.newest_started, Some(Slot(back)));
}
