//! Rows that other sessions hold.

use std::sync::Arc;
use std::time::Duration;

use leasehold_lease::op::{Claim, ClaimAnswer, Heartbeat, HeartbeatAnswer};
use leasehold_lease::policy::{Overlap, Policy};
use sqlx::{Connection, Executor};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::support::{Database, on_a_set_clock, run, store, until};
use crate::conformance::one_of_many_claimers_wins_on;
use crate::error::StoreError;
use crate::store::LeaseStore;
use crate::test_support::{ENDS, allowing, beat, claim, finish, job, key, slot, told, until_answered, win};

/// Hosts that meet.
const HOSTS: usize = 8;

/// Somebody waits for a row.
const ONE_WAITS: &str = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock')";

/// Sooner than who is stuck gives up, on a machine that is busy too.
const SOON: Duration = Duration::from_millis(1_500);

const HOLD: &str = "SELECT FROM leasehold.jobs WHERE name = 'held' FOR UPDATE";

/// The clock is read when the job is free, not when the statement began, in whatever time zone the server lives: a lease
/// is as long as it should be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_counts_from_when_the_job_was_free() {
    let Some(database) = Database::create().await else { return };
    let mut db = database.connect().await;
    db.execute(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET timezone = ''Asia/Tokyo''', current_database()); END $$",
    )
    .await
    .expect("a time zone");
    let store = store(&database.url).await;
    let job = job("held");
    let now = store.now().await.expect("the time");
    let first = win(&*store, &job, now).await;
    finish(&*store, &job, &first).await.expect("an answer");
    for ask in [claim(slot(now + Duration::from_millis(1))), claim(slot(now))] {
        let mut holder = database.connect().await;
        let mut held = holder.begin().await.expect("a transaction");
        held.execute(HOLD).await.expect("the row is held");
        let claiming = tokio::spawn({
            let (store, job, ask) = (store.clone(), job.clone(), ask.clone());
            async move { store.claim(&job, &ask).await }
        });
        until(&mut db, ONE_WAITS).await;
        let query = sqlx::query_scalar::<_, i64>("SELECT leasehold.clock() FROM pg_sleep(0.4)");
        let freed: i64 = query.fetch_one(&mut *held).await.expect("the time");
        held.rollback().await.expect("the row is free");
        let answer = claiming.await.expect("it ends").expect("an answer");
        assert!(answer.now.0 >= freed, "{} is before {freed}", answer.now.0);
        if let ClaimAnswer::Won { .. } = answer.answer {
            let standing = store.check(&[key(&job, &ask.run)]).await.expect("an answer");
            let lease_end = standing.answer[0].standing.as_ref().expect("it is known").lease_end;
            assert_eq!(lease_end, answer.now + allowing().lease);
        } else {
            assert!(matches!(answer.answer, ClaimAnswer::Ended(_)), "{answer:?}");
        }
    }
}

/// S14: a job whose row somebody holds costs nobody else a lease, and its own calls end and say that nothing was done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_held_stands_in_nobody_elses_way() {
    let Some(database) = Database::create().await else { return };
    let store = store(&database.url).await;
    let now = store.now().await.expect("the time");
    let (stuck, free) = (job("held"), job("free"));
    let wins = [win(&*store, &stuck, now).await, win(&*store, &free, now).await];
    let mut holder = database.connect().await;
    let mut held = holder.begin().await.expect("a transaction");
    held.execute(HOLD).await.expect("the row is held");

    let beats = [&stuck, &free]
        .into_iter()
        .zip(&wins)
        .map(|(job, won)| (job.clone(), Heartbeat { run: won.run.clone(), token: won.token, progress: None }));
    let beats: Vec<_> = beats.collect();
    let answers = timeout(ENDS, store.heartbeats(&beats)).await.expect("it ends by itself").expect("answers");
    let error = answers[0].as_ref().expect_err("its row is held");
    assert!(matches!(error, StoreError::NotSent { .. }) && told(error).contains("55P03"), "{}", told(error));
    let renewed = answers[1].as_ref().expect("nobody holds it").answer;
    assert!(matches!(renewed, HeartbeatAnswer::Renewed { .. }), "{renewed:?}");

    // Together they travel in one call or in several: none waits for the one that is stuck.
    let mut claims = Vec::new();
    for (n, job) in [&stuck, &free, &stuck, &free, &free].into_iter().enumerate() {
        let (store, job) = (store.clone(), job.clone());
        let ask = claim(slot(now + Duration::from_millis(1 + n as u64)));
        claims.push((job.clone(), tokio::spawn(async move { timeout(ENDS, store.claim(&job, &ask)).await })));
    }
    // While claims are stuck, leases of other jobs are renewed as always.
    until(&mut database.connect().await, ONE_WAITS).await;
    while !claims.iter().all(|(_, claim)| claim.is_finished()) {
        let renewed = timeout(SOON, beat(&*store, &free, &wins[1])).await.expect("soon").expect("an answer");
        assert!(matches!(renewed, HeartbeatAnswer::Renewed { .. }), "{renewed:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for (job, claim) in claims {
        let answer = claim.await.expect("no panic").expect("it ends by itself");
        match answer {
            // Which of the free job's slots comes first is not said; an older one is superseded then.
            Ok(answer) => {
                let decided = matches!(answer.answer, ClaimAnswer::Won { .. } | ClaimAnswer::Superseded { .. });
                assert!(job == free && decided, "{answer:?}");
            }
            Err(error) => assert!(job == stuck && matches!(error, StoreError::NotSent { .. }), "{}", told(&error)),
        }
    }
    held.rollback().await.expect("the row is free");
    let renewed = until_answered(async || beat(&*store, &stuck, &wins[0]).await).await;
    assert!(matches!(renewed, HeartbeatAnswer::Renewed { .. }));
}

/// A caller that gives up does not cut the call: it is carried out, and a repetition is answered as the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_gives_up_cuts_no_call() {
    let Some(database) = Database::create().await else { return };
    let store = store(&database.url).await;
    let now = store.now().await.expect("the time");
    let job = job("held");
    win(&*store, &job, now).await;
    let mut db = database.connect().await;
    for n in 1..20 {
        let ask = claim(slot(now + Duration::from_millis(n)));
        let mut holder = database.connect().await;
        let mut held = holder.begin().await.expect("a transaction");
        held.execute(HOLD).await.expect("the row is held");
        {
            let claiming = store.claim(&job, &ask);
            tokio::pin!(claiming);
            tokio::select! {
                biased;
                answer = &mut claiming => panic!("the row is held: {answer:?}"),
                () = until(&mut db, ONE_WAITS) => {}
            }
        }
        held.rollback().await.expect("the row is free");
        let again = until_answered(|| store.claim(&job, &ask)).await;
        assert!(matches!(again.answer, ClaimAnswer::Won { .. }), "{again:?}");
        assert_eq!(again.revision, n + 1, "won once");
    }
}

/// What met others and was rolled back is sent again at once: the caller hears nothing of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_met_others_is_repeated_at_once() {
    let Some(database) = Database::create().await else { return };
    let store = store(&database.url).await;
    let now = store.now().await.expect("the time");
    let mut db = database.connect().await;
    for (n, code) in ["40P01", "40001"].into_iter().enumerate() {
        let fails_twice = format!(
            "DROP SEQUENCE IF EXISTS public.calls; CREATE SEQUENCE public.calls; \
             CREATE OR REPLACE FUNCTION leasehold.clock() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN \
             IF nextval('public.calls') <= 2 THEN RAISE EXCEPTION 'it met others' USING ERRCODE = '{code}'; END IF; \
             RETURN floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint; END $$"
        );
        run(&database.url, &fails_twice).await;
        let won = win(&*store, &job("a"), now + Duration::from_millis(n as u64)).await;
        until(&mut db, "SELECT last_value > 2 FROM public.calls").await;
        run(&database.url, "ALTER SEQUENCE public.calls RESTART").await;
        let renewed = beat(&*store, &job("a"), &won).await.expect("an answer");
        assert!(matches!(renewed, HeartbeatAnswer::Renewed { .. }), "{renewed:?}");
        until(&mut db, "SELECT last_value > 2 FROM public.calls").await;
    }
}

/// S7: under skip one run of a job is live, whichever of its slots are claimed at the same moment by however many hosts,
/// whether the store knew the job before or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_slots_of_a_job_never_start_together() {
    let Some(database) = Database::create().await else { return };
    let mut stores = Vec::new();
    for _ in 0..HOSTS {
        stores.push(store(&database.url).await);
    }
    let start = stores[0].now().await.expect("the time");
    for round in 0..50 {
        // Every other round meets on a job that nobody knows yet.
        let job = if round % 2 == 0 { job("known") } else { job(&format!("new-{round}")) };
        let mut claims = JoinSet::new();
        for (n, store) in stores.iter().cloned().enumerate() {
            let terms = Policy { overlap: Overlap::Skip, ..Policy::default() }.terms();
            let at = start + Duration::from_millis(round * HOSTS as u64 + n as u64);
            let (job, ask) = (job.clone(), Claim { terms, ..claim(slot(at)) });
            claims.spawn(async move {
                let answer = until_answered(|| store.claim(&job, &ask)).await.answer;
                (ask, answer)
            });
        }
        let answers = claims.join_all().await;
        let mut won = answers.iter().filter(|(_, answer)| matches!(answer, ClaimAnswer::Won { .. }));
        let (Some((ask, _)), None) = (won.next(), won.next()) else { panic!("{job}: {answers:?}") };
        finish(&*stores[0], &job, ask).await.expect("an answer");
    }
}

/// S1: through eight hosts of one store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_hosts_that_claim_wins() {
    let Some(bench) = on_a_set_clock("").await else { return };
    let database = bench.keep.downcast_ref::<Database>().expect("a bench keeps its database");
    let mut stores: Vec<Arc<dyn LeaseStore>> = Vec::new();
    for _ in 0..HOSTS {
        stores.push(store(&database.url).await);
    }
    one_of_many_claimers_wins_on(&bench, &stores, 50).await;
}
