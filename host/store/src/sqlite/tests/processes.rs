//! Many hosts of one machine on one file.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use leasehold_lease::id::{JobKey, RunId, Token};
use leasehold_lease::op::{Accepted, ClaimAnswer, ClaimKind, Finish};
use leasehold_lease::policy::{Overlap, Terms};
use leasehold_lease::run::{Outcome, Usage};
use leasehold_lease::time::Slot;

use super::*;
use crate::conformance::{
    CRASH_WORK, a_client_killed_at_any_step_leaves_each_step_done_once, one_of_many_claimers_wins_on, work_until_killed,
};

/// Processes of the test below.
const PROCESSES: u8 = 8;

/// Slots that each of them claims.
const SLOTS: i64 = 40;

/// Tells a test process which file to use and which number it has: `path#number`.
const WORK: &str = "LEASEHOLD_TEST_WORK";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_eight_stores_on_a_file_wins_each_slot() {
    let folder = tempfile::tempdir().unwrap();
    let open = || -> Arc<dyn LeaseStore> { Arc::new(SqliteStore::open(&file(&folder)).unwrap()) };
    let stores: Vec<_> = (0..8).map(|_| open()).collect();
    let bench = Bench::new(stores[0].clone(), TestClock::Real, ());
    one_of_many_claimers_wins_on(&bench, &stores, 40).await;
}

#[test]
fn a_new_file_is_made_once_by_all_that_start_together() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let identities: Vec<Identity> = thread::scope(|scope| {
        let open = || SqliteStore::open(&path).map(|store| store.identity.clone());
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
    });
    assert!(identities.iter().all(|identity| *identity == identities[0]));
}

/// Eight processes, started together on a file that does not exist yet, claim the same slots and finish what they win.
#[test]
fn eight_processes_share_a_file_without_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let start = clock::machine()().0;
    let run = |number: u8| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "sqlite::tests::processes::a_process_claims_slots", "--nocapture", "--ignored"])
            .env(WORK, format!("{}#{number}#{start}", path.display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..PROCESSES).map(run).collect();
    let mut won = 0;
    for child in children {
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
        let count = told.lines().find_map(|line| line.split("won ").nth(1)?.trim().parse::<i64>().ok());
        won += count.expect("a process tells what it won");
    }
    assert_eq!(won, SLOTS, "S1: each slot was won exactly once");
    let db = Connection::open(&path).unwrap();
    let ended: i64 = db.query_row("SELECT count(*) FROM runs WHERE status = 'success'", [], |row| row.get(0)).unwrap();
    assert_eq!(ended, SLOTS);
    let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
}

#[tokio::test]
async fn a_process_killed_at_any_step_leaves_each_step_done_once() {
    let folder = fast_folder();
    let store = SqliteStore::open(&file(&folder)).unwrap();
    let client = || {
        let mut client = Command::new(std::env::current_exe().unwrap());
        client.args(["--exact", "sqlite::tests::processes::a_process_is_killed", "--nocapture", "--ignored"]);
        client.env(WORK, file(&folder));
        client
    };
    a_client_killed_at_any_step_leaves_each_step_done_once(&store, client).await;
}

#[tokio::test]
#[ignore = "a part of a_process_killed_at_any_step_leaves_each_step_done_once, which starts it"]
async fn a_process_is_killed() {
    if std::env::var_os(CRASH_WORK).is_none() {
        return eprintln!("skipped: it is started by another test");
    }
    let path = std::env::var_os(WORK).unwrap();
    work_until_killed(&SqliteStore::open(Path::new(&path)).unwrap()).await;
}

#[tokio::test]
#[ignore = "a part of eight_processes_share_a_file_without_an_error, which starts it"]
async fn a_process_claims_slots() {
    let Ok(work) = std::env::var(WORK) else {
        return eprintln!("skipped: it is started by another test");
    };
    let mut words = work.rsplitn(3, '#');
    let start: i64 = words.next().unwrap().parse().unwrap();
    let number: u8 = words.next().unwrap().parse().unwrap();
    let store = SqliteStore::open(Path::new(words.next().unwrap())).unwrap();
    let job: JobKey = "a".parse().unwrap();
    let mut won = 0;
    for n in 0..SLOTS {
        let mut token = [number; 16];
        token[..8].copy_from_slice(&n.to_le_bytes());
        let claim = claim(RunId::Slot(Slot(Millis(start + n))), Token(token));
        if let ClaimAnswer::Won { .. } = store.claim(&job, &claim).await.unwrap().answer {
            won += 1;
            let outcome = Outcome::Success { output: Vec::new(), cut: false };
            let finish = Finish { run: claim.run, token: claim.token, outcome, usage: Usage::default() };
            assert_eq!(store.finish(&job, &finish).await.unwrap().answer, Accepted::Done);
        }
    }
    println!("won {won}");
}

fn claim(run: RunId, token: Token) -> Claim {
    let terms = Terms {
        lease: Duration::from_secs(30),
        max_attempts: 3,
        overlap: Overlap::Allow,
        catch_up: Duration::from_secs(300),
        max_late: Duration::from_secs(60),
        history_size: 100,
    };
    let (kind, runner, not_after) = (ClaimKind::Slot, "host".into(), Millis(i64::MAX));
    Claim { run, kind, token, runner, digest: None, terms, not_after }
}
