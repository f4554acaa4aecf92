//! Many hosts of one machine on one file.

use std::process::{Command, Stdio};
use std::thread;

use leasehold_lease::op::{Accepted, ClaimAnswer};

use super::*;
use crate::conformance::{
    CRASH_WORK, a_client_killed_at_any_step_leaves_each_step_done_once, one_of_many_claimers_wins_on, work_until_killed,
};
use crate::test_support::{claim, finish, job, slot};

/// Processes of the test below.
const PROCESSES: usize = 8;

/// Slots that each of them claims.
const SLOTS: i64 = 40;

/// Tells a test process which file to use and when its first slot is due: `path#millis`.
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
    let run = |_| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "sqlite::tests::processes::a_process_claims_slots", "--nocapture", "--ignored"])
            .env(WORK, format!("{}#{start}", path.display()))
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
    let mut words = work.rsplitn(2, '#');
    let start: i64 = words.next().unwrap().parse().unwrap();
    let store = SqliteStore::open(Path::new(words.next().unwrap())).unwrap();
    let (job, mut won) = (job("a"), 0);
    for n in 0..SLOTS {
        let ask = claim(slot(Millis(start + n)));
        if let ClaimAnswer::Won { .. } = store.claim(&job, &ask).await.unwrap().answer {
            won += 1;
            assert_eq!(finish(&store, &job, &ask).await.unwrap(), Accepted::Done);
        }
    }
    println!("won {won}");
}
