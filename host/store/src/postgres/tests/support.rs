//! Databases, clocks and words for these tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use leasehold_lease::id::{JobKey, RunId, RunKey, Token};
use leasehold_lease::op::{Accepted, Claim, ClaimAnswer, ClaimKind, Finish, Heartbeat, HeartbeatAnswer};
use leasehold_lease::policy::{Overlap, Policy, Terms};
use leasehold_lease::run::{Outcome, Status, Usage};
use leasehold_lease::time::{Millis, Slot};
use leasehold_test_servers::{Postgres, PostgresOptions, or_skip, shared_postgres};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::conformance::{Bench, SetClock, TestClock};
use crate::error::StoreError;
use crate::postgres::PostgresStore;
use crate::store::LeaseStore;

/// How long a test waits for a state.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A call ends by itself a little after its limit, on a machine that is busy too.
pub(super) const ENDS: Duration = Duration::from_secs(4);

/// Ends every session but the one that asks.
pub(super) const END_SESSIONS: &str =
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname IS NOT NULL";

/// An empty database of the server that tests share. It is dropped with this.
pub(super) struct Database {
    /// Its address.
    pub(super) url: String,
    name: String,
}

impl Database {
    /// None where PostgreSQL is not installed, which is printed.
    pub(super) async fn create() -> Option<Database> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let server = or_skip(shared_postgres().await)?;
        let mut random = [0; 4];
        getrandom::fill(&mut random).expect("random bits");
        let nth = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("leasehold_test_{}_{nth}", u32::from_le_bytes(random));
        run(&server, &format!("CREATE DATABASE {name}")).await;
        Some(Database { url: beside(&server, &name), name })
    }

    /// A connection beside the store, as an administrator has one.
    pub(super) async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.expect("the test connects")
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (url, drop) = (self.url.clone(), format!("DROP DATABASE {} WITH (FORCE)", self.name));
        // A runtime of its own: that of the test may be ending.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let unsound = unsound(&url).await;
                run(&beside(&url, "postgres"), &drop).await;
                unsound
            })
        });
        let unsound = dropping.join();
        // A test that has failed says why; a second panic would hide it.
        if !std::thread::panicking() {
            assert_eq!(unsound.expect("the database is dropped"), Vec::<String>::new(), "jobs that count wrongly");
        }
    }
}

/// Jobs whose row does not count what their runs add up to: the rules look at the row alone.
async fn unsound(url: &str) -> Vec<String> {
    let mut db = PgConnection::connect(url).await.expect("the test connects");
    let exists = db.fetch_one(sqlx::raw_sql(include_str!("../schema/exists.sql"))).await.expect("an answer");
    if !sqlx::Row::get::<bool, _>(&exists, 0) {
        return Vec::new();
    }
    sqlx::query_scalar(include_str!("unsound.sql")).fetch_all(&mut db).await.expect("an answer")
}

/// The address of another database of the same server.
pub(super) fn beside(url: &str, database: &str) -> String {
    let (server, _) = url.rsplit_once('/').expect("the URL names a database");
    format!("{server}/{database}")
}

/// Runs a statement of the administrator and expects it to work.
pub(super) async fn run(url: &str, statement: &str) {
    let mut db = PgConnection::connect(url).await.expect("the test connects");
    db.execute(AssertSqlSafe(statement.to_owned())).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    db.close().await.expect("the test leaves");
}

/// A server of this test's own; none where it is not installed.
pub(super) async fn own_server(settings: &[(&str, &str)]) -> Option<Postgres> {
    let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    or_skip(Postgres::start_with(PostgresOptions { settings, ..PostgresOptions::default() }).await)
}

pub(super) async fn store(url: &str) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::connect(url, "leasehold").await.expect("the store opens"))
}

/// The clock of a test's database.
pub(super) struct DatabaseClock(Mutex<PgConnection>);

impl DatabaseClock {
    /// From now on the database's clock is one that the test sets. The store's tables are there.
    pub(super) async fn of(database: &Database) -> DatabaseClock {
        let mut db = database.connect().await;
        db.execute(sqlx::raw_sql(include_str!("set_clock.sql"))).await.expect("the clock is replaced");
        DatabaseClock(Mutex::new(db))
    }
}

#[async_trait]
impl SetClock for DatabaseClock {
    async fn set(&self, at: Millis) {
        let mut db = self.0.lock().await;
        let set = sqlx::query("UPDATE public.test_clock SET at = $1").bind(at.0);
        set.execute(&mut *db).await.expect("the test's clock is set");
    }
}

/// A store on a clock that the test sets, with these parameters in its URL.
pub(super) async fn on_a_set_clock(parameters: &str) -> Option<Bench> {
    let database = Database::create().await?;
    let store = store(&format!("{}{parameters}", database.url)).await;
    let clock = TestClock::Remote(Arc::new(DatabaseClock::of(&database).await));
    Some(Bench::new(store, clock, database))
}

/// A store on the server's own clock.
pub(super) async fn on_the_servers_clock() -> Option<Bench> {
    let database = Database::create().await?;
    Some(Bench::new(store(&database.url).await, TestClock::Real, database))
}

pub(super) fn job(name: &str) -> JobKey {
    name.parse().expect("a job")
}

pub(super) fn slot(at: Millis) -> RunId {
    RunId::Slot(Slot(at))
}

pub(super) fn key(job: &JobKey, run: &RunId) -> RunKey {
    RunKey { job: job.clone(), run: run.clone() }
}

/// The contract's policy, runs side by side.
pub(super) fn allowing() -> Terms {
    Policy { overlap: Overlap::Allow, ..Policy::default() }.terms()
}

/// A claim of the run by its slot, with a new token.
pub(super) fn claim(run: RunId) -> Claim {
    let mut token = [0; 16];
    getrandom::fill(&mut token).expect("random bits");
    let (token, runner, not_after) = (Token(token), "host-1".to_owned(), Millis(i64::MAX));
    Claim { run, kind: ClaimKind::Slot, token, runner, digest: None, terms: allowing(), not_after }
}

/// Claims the slot and wins it.
pub(super) async fn win(store: &dyn LeaseStore, job: &JobKey, at: Millis) -> Claim {
    let ask = claim(slot(at));
    let answer = store.claim(job, &ask).await.expect("an answer").answer;
    assert!(matches!(answer, ClaimAnswer::Won { .. }), "{answer:?}");
    ask
}

pub(super) async fn beat(store: &dyn LeaseStore, job: &JobKey, won: &Claim) -> Result<HeartbeatAnswer, StoreError> {
    let beat = Heartbeat { run: won.run.clone(), token: won.token, progress: None };
    let mut answers = store.heartbeats(&[(job.clone(), beat)]).await?;
    answers.pop().expect("an answer for each").map(|stamped| stamped.answer)
}

pub(super) async fn finish(store: &dyn LeaseStore, job: &JobKey, won: &Claim) -> Result<Accepted, StoreError> {
    let outcome = Outcome::Success { output: b"done".to_vec(), cut: false };
    let finish = Finish { run: won.run.clone(), token: won.token, outcome, usage: Usage::default() };
    store.finish(job, &finish).await.map(|stamped| stamped.answer)
}

/// The run's status, if the store knows it.
pub(super) async fn status(store: &dyn LeaseStore, job: &JobKey, run: &RunId) -> Option<Status> {
    store.show(&key(job, run)).await.expect("an answer").answer.map(|view| view.run.status)
}

/// Asks again and again until the answer is there, as hosts do after `NotSent` and `Unknown`. Answers after how many
/// errors that was.
pub(super) async fn answered_after<A, F>(mut ask: impl FnMut() -> F) -> (A, u64)
where
    F: Future<Output = Result<A, StoreError>>,
{
    let asking = async {
        let mut errors = 0;
        loop {
            match ask().await {
                Ok(answer) => return (answer, errors),
                Err(StoreError::NotSent { .. } | StoreError::Unknown { .. }) => {
                    errors += 1;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(error) => panic!("{}", told(&error)),
            }
        }
    };
    timeout(PATIENCE, asking).await.expect("the store comes back")
}

/// The same, without the number.
pub(super) async fn until_answered<A, F>(ask: impl FnMut() -> F) -> A
where
    F: Future<Output = Result<A, StoreError>>,
{
    answered_after(ask).await.0
}

/// Waits until a query of the administrator answers `true`.
pub(super) async fn until(db: &mut PgConnection, query: &'static str) {
    let waiting = async {
        while !sqlx::query_scalar::<_, bool>(query).fetch_one(&mut *db).await.expect("an answer") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never: {query}"));
}

/// An error with its causes.
pub(super) fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Claims, beats and finishes in eight jobs until it is told to stop. Each step is sent again until it is answered.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    errors: Arc<AtomicU64>,
    tasks: JoinSet<Vec<RunKey>>,
}

impl Load {
    pub(super) fn on(stores: &[Arc<PostgresStore>], start: Millis) -> Load {
        let mut load =
            Load { stop: Arc::default(), done: Arc::default(), errors: Arc::default(), tasks: JoinSet::new() };
        for n in 0..8 {
            let (store, stop) = (stores[n % stores.len()].clone(), load.stop.clone());
            let (done, errors) = (load.done.clone(), load.errors.clone());
            load.tasks.spawn(async move {
                let job = job(&format!("load-{n}"));
                let mut finished = Vec::new();
                for at in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let ask = claim(slot(Millis(start.0 + at)));
                    let (answer, first) = answered_after(|| store.claim(&job, &ask)).await;
                    assert!(matches!(answer.answer, ClaimAnswer::Won { .. }), "{answer:?}");
                    let (_, second) = answered_after(|| beat(&*store, &job, &ask)).await;
                    let (accepted, third) = answered_after(|| finish(&*store, &job, &ask)).await;
                    assert_eq!(accepted, Accepted::Done, "{}", ask.run);
                    finished.push(key(&job, &ask.run));
                    errors.fetch_add(first + second + third, Ordering::SeqCst);
                    done.fetch_add(1, Ordering::SeqCst);
                }
                finished
            });
        }
        load
    }

    /// Waits until so many more runs are done.
    pub(super) async fn goes_on(&self, more: u64) {
        let target = self.done.load(Ordering::SeqCst) + more;
        let reached = async {
            while self.done.load(Ordering::SeqCst) < target {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(PATIENCE, reached).await.expect("the load goes on");
    }

    /// Ends it, and answers how many errors there were and which runs were finished.
    pub(super) async fn end(mut self) -> (u64, Vec<RunKey>) {
        self.stop.store(true, Ordering::SeqCst);
        let mut finished = Vec::new();
        while let Some(ended) = self.tasks.join_next().await {
            finished.extend(ended.expect("the load has no other error"));
        }
        (self.errors.load(Ordering::SeqCst), finished)
    }
}

/// What was acknowledged is there.
pub(super) async fn all_recorded(store: &PostgresStore, finished: &[RunKey]) {
    assert!(!finished.is_empty(), "the load did something");
    for part in finished.chunks(500) {
        for found in store.check(part).await.expect("an answer").answer {
            let status = found.standing.map(|standing| standing.status);
            assert_eq!(status, Some(Status::Success), "{}", found.key);
        }
    }
}
