//! Jobs that a connection keeps in mind: only for as long as nobody else can have changed them.

use leasehold_lease::id::{JobKey, RunId, Token};
use leasehold_lease::op::{Announce, Claim, ClaimAnswer, ClaimKind, Stamped};
use leasehold_lease::policy::Policy;
use leasehold_lease::rules;
use leasehold_lease::time::Slot;

use super::super::desk::Desk;
use super::super::load::{self, Need};
use super::super::verbs::on;
use super::threads::{queued, station};
use super::*;

fn job() -> JobKey {
    "default/report".parse().unwrap()
}

/// Claims the slot that is due at this time.
fn claim(desk: &Desk, now: Millis) -> Result<Stamped<ClaimAnswer>, Fault> {
    let claim = Claim {
        run: RunId::Slot(Slot(Millis(1_000))),
        kind: ClaimKind::Slot,
        token: Token([7; 16]),
        runner: "host-1".into(),
        digest: None,
        terms: Policy::default().terms(),
        not_after: Millis(i64::MAX),
    };
    on(desk, &job(), &Need::Claim(&claim.run), |job| rules::claim(job, now, &claim))
}

fn announce(desk: &Desk, fingerprint: &str) -> Result<(), Fault> {
    let offer = Announce { fingerprint: fingerprint.into() };
    on(desk, &job(), &Need::Running, |job| rules::announce(job, Millis(1_000), &offer)).map(|_| ())
}

fn in_transaction<A>(desk: &Desk, work: impl FnOnce(&Desk) -> Result<A, Fault>) -> A {
    desk.execute_batch("BEGIN IMMEDIATE").unwrap();
    desk.begun().unwrap();
    let done = work(desk).unwrap();
    desk.execute_batch("COMMIT").unwrap();
    done
}

fn known_fingerprint(desk: &Desk) -> String {
    in_transaction(desk, |desk| load::job(desk, &job(), &Need::JobOnly)).job.fingerprint
}

/// Changes the record behind the desk's back.
fn overwrite(db: &Connection, fingerprint: &str) {
    db.execute("UPDATE jobs SET fingerprint = ?1", [fingerprint]).unwrap();
}

#[test]
fn a_job_is_read_again_when_somebody_else_has_written_and_not_before() {
    let folder = fast_folder();
    drop(SqliteStore::open(&file(&folder)).unwrap());
    let connect = || open::connect(&file(&folder), Access::Write).unwrap();
    let (desk, other) = (Desk::new(connect()), connect());

    in_transaction(&desk, |desk| announce(desk, "first"));
    overwrite(&desk, "over the same connection");
    assert_eq!(known_fingerprint(&desk), "first", "it was not kept");

    in_transaction(&desk, |desk| announce(desk, "second"));
    overwrite(&other, "elsewhere");
    assert_eq!(known_fingerprint(&desk), "elsewhere");
}

#[tokio::test]
async fn a_claim_that_was_rolled_back_with_another_request_is_written_the_second_time() {
    let folder = fast_folder();
    let path: Arc<Path> = file(&folder).into();
    drop(SqliteStore::open(&path).unwrap());
    let db = open::connect(&path, Access::Write).unwrap();
    let worker = Arc::new(Worker::start("sqlite-test", &path, station(&path, db)).unwrap());
    // Both are in the queue before the worker's transaction ends, or each has one of its own: right either way.
    let claimed = queued(&worker, |desk, _| claim(desk, Millis(1_000))).await;
    let failed = queued(&worker, |desk: &Desk, _| Ok(desk.execute_batch("no statement")?)).await;
    assert!(failed.await.unwrap().is_err());
    let answer = claimed.await.unwrap().unwrap().answer;
    assert!(matches!(answer, ClaimAnswer::Won { .. }), "{answer:?}");
    let runs: i64 = Connection::open(&path).unwrap().query_row("SELECT count(*) FROM runs", [], |r| r.get(0)).unwrap();
    assert_eq!(runs, 1, "it was won, and is not in the file");
}
