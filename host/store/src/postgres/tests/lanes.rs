//! Calls that travel together, and connections that come and go.

use std::sync::Arc;
use std::time::Duration;

use leasehold_lease::op::{Announce, ClaimAnswer};
use leasehold_test_servers::Proxy;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::support::{Database, beside, own_server, run, store, until};
use crate::error::StoreError;
use crate::postgres::address::Address;
use crate::postgres::call::TELL_TIME;
use crate::postgres::error::Fault;
use crate::postgres::lane::deadline;
use crate::postgres::link::{Link, Place, TRUSTED, now};
use crate::postgres::rehearsal::rehearse;
use crate::postgres::{HOT, ask};
use crate::store::LeaseStore;
use crate::test_support::{ENDS, claim, job, slot, told, until_answered, win};
use crate::view::CALL_LIMIT;

/// However many jobs there are, and however full the queue is, an announcement ends when any call does, and says as a
/// whole that it is to be sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_announcement_that_is_not_answered_fails_as_a_whole_and_in_time() {
    let Some(server) = own_server(&[]).await else { return };
    let proxy = Proxy::start(server.port()).await.expect("a proxy");
    let store = store(&proxy.url(&server.url())).await;
    let jobs: Vec<_> = (0..1_300).map(|n| (job(&format!("job-{n}")), Announce { fingerprint: "x".into() })).collect();
    proxy.blackhole();
    let error = timeout(ENDS, store.announce(&jobs)).await.expect("it ends by itself").expect_err("nobody answers");
    assert!(matches!(error, StoreError::NotSent { .. } | StoreError::Unknown { .. }), "{}", told(&error));
    proxy.heal().await;
    let answers = until_answered(|| store.announce(&jobs)).await;
    assert!(answers.len() == jobs.len() && answers.iter().all(Result::is_ok));
}

/// S14: whatever the server has against one job's request, those that travel with it are carried out.
#[tokio::test]
async fn a_request_that_is_refused_spoils_no_other() {
    let Some(database) = Database::create().await else { return };
    let store = store(&database.url).await;
    let now = store.now().await.expect("the time");
    for (nth, code) in ["57014", "XX001", "54000", "0A000", "23514"].into_iter().enumerate() {
        run(
            &database.url,
            &format!(
                "CREATE OR REPLACE FUNCTION public.spoil() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN RAISE EXCEPTION 'spoiled' USING ERRCODE = '{code}'; END $$; \
                 DROP TRIGGER IF EXISTS spoil ON leasehold.jobs; \
                 CREATE TRIGGER spoil BEFORE INSERT OR UPDATE ON leasehold.jobs FOR EACH ROW \
                 WHEN (NEW.name = 'bad') EXECUTE FUNCTION public.spoil()"
            ),
        )
        .await;
        // On one thread: all are in the queue before a task takes them out.
        let mut claims = JoinSet::new();
        for name in ["good-1", "bad", "good-2"] {
            let (store, job, ask) = (store.clone(), job(name), claim(slot(now + Duration::from_millis(nth as u64))));
            claims.spawn(async move { (job.to_string(), store.claim(&job, &ask).await) });
        }
        for (name, answer) in claims.join_all().await {
            match answer {
                Ok(answer) => assert!(matches!(answer.answer, ClaimAnswer::Won { .. }), "{name}: {answer:?}"),
                Err(error) => assert!(name.contains("bad") && told(&error).contains(code), "{name}: {}", told(&error)),
            }
        }
    }
}

/// S14: more jobs than there are connections are held, and hosts ask for them again and again: claims of others go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_jobs_starve_no_other() {
    let Some(database) = Database::create().await else { return };
    let store = store(&database.url).await;
    let now = store.now().await.expect("the time");
    let stuck: Vec<_> = (0..4 * HOT).map(|n| job(&format!("held-{n}"))).collect();
    for job in &stuck {
        win(&*store, job, now).await;
    }
    let mut holder = database.connect().await;
    let mut held = holder.begin().await.expect("a transaction");
    held.execute("SELECT FROM leasehold.jobs WHERE name LIKE 'held-%' FOR UPDATE").await.expect("rows are held");
    // Its caller is told long before the call's limit, and has the connection no longer.
    let ask = claim(slot(now + Duration::from_millis(1)));
    let told_of = timeout(CALL_LIMIT * 3 / 4, store.claim(&stuck[0], &ask)).await.expect("it gives up in time");
    let error = told_of.expect_err("it is held");
    assert!(matches!(error, StoreError::NotSent { .. }) && told(&error).contains("55P03"), "{}", told(&error));
    let mut asking = JoinSet::new();
    for job in stuck {
        let (store, ask) = (store.clone(), claim(slot(now + Duration::from_millis(1))));
        asking.spawn(async move {
            loop {
                let error = store.claim(&job, &ask).await.expect_err("it is held");
                assert!(matches!(error, StoreError::NotSent { .. }), "{}", told(&error));
            }
        });
    }
    for n in 0..10 {
        let answer = store.claim(&job("free"), &claim(slot(now + Duration::from_millis(n)))).await;
        assert!(matches!(answer.expect("an answer").answer, ClaimAnswer::Won { .. }));
        assert!(asking.try_join_next().is_none(), "they go on asking");
    }
    asking.shutdown().await;
    held.rollback().await.expect("the rows are free");
}

/// A pooler that lost its server after it had passed a call on says so with an error: nobody knows then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_the_connection_leaves_open_what_was_done() {
    let Some(database) = Database::create().await else { return };
    let store = store(&database.url).await;
    let now = store.now().await.expect("the time");
    run(
        &database.url,
        "CREATE OR REPLACE FUNCTION leasehold.clock() RETURNS bigint LANGUAGE plpgsql AS \
         $$ BEGIN RAISE EXCEPTION 'server conn crashed?' USING ERRCODE = '08P01'; END $$",
    )
    .await;
    let error = store.claim(&job("a"), &claim(slot(now))).await.expect_err("no answer");
    assert!(matches!(error, StoreError::Unknown { .. }), "{}", told(&error));
}

/// What is too late is not sent, so that the caller knows that it was not done; and the connection stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_without_time_left_is_not_sent() {
    let Some(database) = Database::create().await else { return };
    let mut link = link(&database.url);
    store(&database.url).await;
    link.connect().await.expect("a connection");
    let at = |left| now() + Duration::from_millis(left);
    for left in [0, 10] {
        let fault = link.call(&TELL_TIME, &ask::time(), CALL_LIMIT, at(left)).await.expect_err("it is too late");
        assert!(matches!(fault, Fault::NotSent(_)), "{fault:?}");
    }
    link.call(&TELL_TIME, &ask::time(), CALL_LIMIT, deadline()).await.expect("an answer");
}

/// A connection that has served its time stays until its successor is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_serves_on_until_it_has_a_successor() {
    let Some(database) = Database::create().await else { return };
    store(&database.url).await;
    let mut link = link(&database.url);
    link.connect().await.expect("a connection");
    let mut administrator = PgConnection::connect(&beside(&database.url, "postgres")).await.expect("one");
    let name = database.url.rsplit('/').next().expect("a name").to_owned();
    let first = begun(&mut administrator, &name).await;
    for admits in [false, true] {
        let setting = AssertSqlSafe(format!("ALTER DATABASE {name} ALLOW_CONNECTIONS {admits}"));
        administrator.execute(setting).await.expect("it is set");
        link.renew_at = now();
        link.call(&TELL_TIME, &ask::time(), CALL_LIMIT, deadline()).await.expect("an answer");
        assert!(link.renew_at > now() + CALL_LIMIT, "it is not tried with every call");
        let newest = begun(&mut administrator, &name).await;
        assert_eq!(newest > first, admits, "{newest} {first}");
    }
}

/// When the newest session in this database began, as a number.
async fn begun(administrator: &mut PgConnection, database: &str) -> f64 {
    let newest = "SELECT extract(epoch FROM max(backend_start))::double precision FROM pg_stat_activity \
                  WHERE datname = $1 AND application_name = 'leasehold'";
    sqlx::query_scalar(newest).bind(database).fetch_one(administrator).await.expect("a time")
}

/// An idle connection that has fallen silent costs a moment and no error: a new one is made within the same call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_connection_is_replaced_within_the_call() {
    let Some(server) = own_server(&[]).await else { return };
    drop(store(&server.url()).await);
    let mut administrator = PgConnection::connect(&server.url()).await.expect("a connection");
    until(&mut administrator, "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend'").await;
    let mut link = link(&server.url());
    link.connect().await.expect("a connection");
    let process = "SELECT pid FROM pg_stat_activity WHERE application_name = 'leasehold'";
    let process: i32 = sqlx::query_scalar(process).fetch_one(&mut administrator).await.expect("its process");
    signal("-STOP", process);
    tokio::time::sleep(TRUSTED * 2).await;
    let answer = link.call(&TELL_TIME, &ask::time(), CALL_LIMIT, deadline()).await;
    signal("-CONT", process);
    answer.expect("an answer");
}

fn signal(signal: &str, process: i32) {
    let sent = std::process::Command::new("kill").args([signal, &process.to_string()]).status().expect("kill runs");
    assert!(sent.success(), "{sent}");
}

fn link(url: &str) -> Link {
    let (address, namespace) = (Address::parse(url).expect("a URL"), "leasehold".to_owned());
    Link::new(Arc::new(Place { address, namespace, identity: None }))
}

/// A session that has called nothing yet reads every function first. What it does meanwhile leaves nothing behind, and calls
/// go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_sessions_rehearse_and_leave_nothing_behind() {
    let Some(database) = Database::create().await else { return };
    let store = store(&database.url).await;
    let mut db = database.connect().await;
    let both_rehearsed = "SELECT count(*) = 2 FROM pg_stat_activity WHERE datname = current_database() \
                          AND application_name = 'leasehold' AND state = 'idle' AND query = 'ROLLBACK'";
    assert_eq!(HOT, 2, "each of them has ended its rehearsal");
    until(&mut db, both_rehearsed).await;
    let left: i64 = sqlx::query_scalar(
        "SELECT (SELECT count(*) FROM leasehold.jobs) + (SELECT count(*) FROM leasehold.runs) \
             + (SELECT count(*) FROM leasehold.tenants)",
    )
    .fetch_one(&mut db)
    .await
    .expect("a count");
    assert_eq!(left, 0);
    let now = store.now().await.expect("the time");
    win(&*store, &job("a"), now).await;
    // A session that a call has made anew rehearses as well. (The other one is missed when it is looked after next.)
    let ended = "SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE datname = current_database() AND application_name = 'leasehold') ended";
    let ended: i64 = sqlx::query_scalar(ended).fetch_one(&mut db).await.expect("they end");
    assert!(ended >= 2, "{ended}");
    // So long that they are asked before they are used: nobody can say what becomes of a call on one that has just ended.
    tokio::time::sleep(TRUSTED * 2).await;
    win(&*store, &job("b"), now).await;
    let one_rehearsed = "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() \
                         AND application_name = 'leasehold' AND state = 'idle' AND query = 'ROLLBACK'";
    until(&mut db, one_rehearsed).await;
}

/// A host that is never idle for long hands over at once, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_rehearse_between_calls() {
    let Some(database) = Database::create().await else { return };
    let store = store(&database.url).await;
    let mut db = database.connect().await;
    let mut taken_back = async || -> i64 {
        let sql = "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()";
        sqlx::query_scalar(sql).fetch_one(&mut db).await.expect("a count")
    };
    let before = taken_back().await;
    let rehearsed = async {
        for n in 0.. {
            win(&*store, &job(&format!("job-{n}")), store.now().await.expect("the time")).await;
            if taken_back().await > before {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(ENDS, rehearsed).await.expect("it rehearses although it is called again and again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rehearsal_does_what_is_frequent() {
    let Some(database) = Database::create().await else { return };
    let _schema = store(&database.url).await;
    let answers = rehearse(&mut database.connect().await).await.expect("a rehearsal");
    let said: Vec<&str> = answers.iter().map(|row| row.answer.as_deref().unwrap_or_default()).collect();
    let [won, handed_over, taken_over, ended, next] = said[..] else { panic!("{said:?}") };
    for claim in [won, taken_over, next] {
        assert!(claim.starts_with("{\"won\""), "{said:?}");
    }
    assert_eq!((handed_over, ended), ("\"done\"", "\"done\""), "{said:?}");
}
