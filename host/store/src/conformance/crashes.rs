//! A client process that is killed between and inside its calls.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold_lease::id::{JobKey, RunKey, Token};
use leasehold_lease::log::{LogLevel, LogLine};
use leasehold_lease::op::{Accepted, Claim, ClaimAnswer, ClaimKind, Finish};
use leasehold_lease::policy::{Overlap, Terms};
use leasehold_lease::run::{Outcome, Status, Usage};
use leasehold_lease::time::Millis;
use leasehold_lease::write::{Change, Quota, Write, Written};

use super::bench::{ms, slot};
use crate::store::LeaseStore;

/// Steps of one run.
const OF_ONE_RUN: u64 = 5;

/// Steps after which the client is killed: every step of several runs.
const KILLS: u64 = 5 * OF_ONE_RUN;

/// Tells a client process its job and when its first slot is due: `job#millis`.
pub const CRASH_WORK: &str = "LEASEHOLD_TEST_CRASH";

/// S13: wherever a client is killed, sending what it had not heard of again leaves each step done exactly once.
///
/// `client` starts a process that calls [`work_until_killed`] on the same store.
pub async fn a_client_killed_at_any_step_leaves_each_step_done_once(
    store: &dyn LeaseStore,
    client: impl Fn() -> Command,
) {
    let start = store.now().await.expect("the store tells its time");
    for kill in 0..KILLS {
        let job: JobKey = format!("crash/after-{kill}").parse().expect("a job's name");
        let heard = kill_after(client().env(CRASH_WORK, format!("{job}#{}", start.0)), kill);
        // The one that may have been under way.
        step(store, &job, start, heard).await;
        let revision = store.job(&job).await.expect("a job").answer.map(|view| view.revision);
        assert_eq!(revision, Some(heard + 1), "{job}: each step changes the job once, {heard} were answered");
        finished_runs_are_whole(store, &job, start, heard + 1).await;
    }
}

/// Runs the client until it has heard this many answers, kills it, and says how many it has heard by then.
fn kill_after(client: &mut Command, answers: u64) -> u64 {
    let mut child = client.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a process");
    let mut lines = BufReader::new(child.stdout.take().expect("it was piped")).lines();
    let mut heard = 0;
    let mut next = || lines.find_map(|line| line.ok()?.strip_prefix("step ")?.parse::<u64>().ok());
    // The client says first that it has begun.
    while heard <= answers {
        let told = next().expect("the client works until it is killed");
        assert_eq!(told, heard, "the client tells every step");
        heard += 1;
    }
    child.kill().expect("it is killed");
    while next().is_some() {
        heard += 1;
    }
    child.wait().expect("it has ended");
    heard - 1
}

/// What the client process does: step after step, and a line for each answer.
pub async fn work_until_killed(store: &dyn LeaseStore) {
    let work = std::env::var(CRASH_WORK).expect("the test that starts this process says what to do");
    let (job, start) = work.split_once('#').expect("a job and an instant");
    let (job, start) = (job.parse().expect("a job"), Millis(start.parse().expect("an instant")));
    for number in 0.. {
        // At once, so that whoever reads it knows what has been answered.
        let mut out = std::io::stdout().lock();
        writeln!(out, "\nstep {number}").and_then(|()| out.flush()).expect("the test reads");
        drop(out);
        step(store, &job, start, number).await;
    }
}

/// One step, which may have been done before, and must be answered as the first time.
async fn step(store: &dyn LeaseStore, job: &JobKey, start: Millis, number: u64) {
    const ANSWERED: &str = "the store answers";
    let of = number / OF_ONE_RUN;
    let run = slot(start + ms(of));
    let token = Token([of as u8; 16]);
    let write = |number, change| Write { run: run.clone(), token, number, quota: Quota::default(), change };
    match number % OF_ONE_RUN {
        0 => {
            let (runner, not_after, terms) = ("host".to_owned(), Millis(i64::MAX), terms());
            let claim = Claim { run, kind: ClaimKind::Slot, token, runner, digest: None, terms, not_after };
            let answer = store.claim(job, &claim).await.expect(ANSWERED).answer;
            assert!(matches!(answer, ClaimAnswer::Won { attempt, .. } if attempt.0 == 1), "{answer:?}");
        }
        1 => {
            let answer = store.write(job, &write(1, Change::SaveState(b"state".to_vec()))).await.expect(ANSWERED);
            assert_eq!(answer.answer, Written::Done);
        }
        2 => {
            let answer = store.write(job, &write(1, Change::AppendLog(vec![line()]))).await.expect(ANSWERED);
            assert_eq!(answer.answer, Written::Done);
        }
        3 => {
            let change = Change::KvCompareAndSet { key: format!("{job}-{of}"), expected: None, value: b"v".to_vec() };
            let answer = store.write(job, &write(2, change)).await.expect(ANSWERED);
            assert_eq!(answer.answer, Written::Done);
        }
        _ => {
            let outcome = Outcome::Success { output: b"out".to_vec(), cut: false };
            let finish = Finish { run, token, outcome, usage: Usage::default() };
            assert_eq!(store.finish(job, &finish).await.expect(ANSWERED).answer, Accepted::Done);
        }
    }
}

/// All steps of a run that has ended are there, once.
async fn finished_runs_are_whole(store: &dyn LeaseStore, job: &JobKey, start: Millis, steps: u64) {
    for of in 0..steps / OF_ONE_RUN {
        let key = RunKey { job: job.clone(), run: slot(start + ms(of)) };
        let run = store.show(&key).await.expect("an answer").answer.expect("it is known").run;
        assert_eq!((run.status, run.starts), (Status::Success, 1), "{key}");
        assert_eq!(store.read_log(&key, 0, 10).await.expect("a log").len(), 1, "{key}");
        let value = store.kv_get(&job.tenant, &format!("{job}-{of}")).await.expect("an answer");
        assert_eq!(value.as_deref(), Some(&b"v"[..]), "{key}");
    }
}

fn terms() -> Terms {
    Terms {
        lease: Duration::from_secs(600),
        max_attempts: 3,
        overlap: Overlap::Allow,
        catch_up: Duration::ZERO,
        max_late: Duration::from_secs(600),
        history_size: 100,
    }
}

fn line() -> LogLine {
    let (level, target, message) = (LogLevel::Info, String::new(), "m".to_owned());
    LogLine { at: Millis(0), level, target, message, fields: Vec::new() }
}
