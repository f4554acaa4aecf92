//! A test for each sentence of the contract's operations, and the traces that broke earlier wordings of it.

mod claims;
mod ends;
mod holding;
mod traces;
mod upkeep;
mod wins;
mod writes;

use std::time::Duration;

use crate::id::{Attempt, RunId, Token};
use crate::log::{LogLevel, LogLine};
use crate::op::{
    Accepted, Announce, Cancel, CancelAnswer, Claim, ClaimAnswer, ClaimKind, Close, CloseAnswer, Finish, Heartbeat,
    HeartbeatAnswer, Release, Trigger, TriggerAnswer, Unblock, UnblockAnswer, WriteAnswer,
};
use crate::policy::{Overlap, Terms};
use crate::run::{Failure, Hold, Job, Outcome, Run, Status, Usage};
use crate::time::{Millis, Slot};
use crate::write::{Around, Change, Quota, Write, Written};

use super::{announce, cancel, claim, close, finish, heartbeat, hold, prune, release, trigger, unblock, write};

/// Second 0 of each test.
const START: i64 = 1_700_000_000_000;

/// The lease of each test, in seconds.
const LEASE: i64 = 30;

/// The instant this many milliseconds into the test.
fn ms(ms: i64) -> Millis {
    Millis(START + ms)
}

/// The scheduled run due this many seconds into the test.
fn slot(seconds: i64) -> RunId {
    RunId::Slot(Slot(ms(seconds * 1_000)))
}

fn demand(id: &str) -> RunId {
    RunId::OnDemand(id.parse().unwrap())
}

fn token(n: u8) -> Token {
    Token([n; 16])
}

fn success() -> Outcome {
    Outcome::Success { output: b"42".to_vec(), cut: false }
}

fn failure() -> Outcome {
    let (code, message) = ("trap".to_owned(), "unreachable".to_owned());
    Outcome::Failed(Failure { code, message, details: Vec::new(), retryable: false })
}

/// The contract's defaults.
fn terms() -> Terms {
    Terms {
        lease: Duration::from_secs(LEASE as u64),
        max_attempts: 3,
        overlap: Overlap::Skip,
        catch_up: Duration::from_secs(300),
        max_late: Duration::from_secs(60),
        history_size: 100,
    }
}

/// One job, the store's clock, and the policy that its claimers agree on.
struct Store {
    job: Job,
    now: Millis,
    terms: Terms,
}

impl Store {
    fn new() -> Store {
        Store { job: Job::default(), now: ms(0), terms: terms() }
    }

    fn allowing() -> Store {
        Store { terms: Terms { overlap: Overlap::Allow, ..terms() }, ..Store::new() }
    }

    /// Sets the store's clock to this many seconds into the test.
    fn go(&mut self, seconds: i64) -> &mut Store {
        self.go_ms(seconds * 1_000)
    }

    fn go_ms(&mut self, into: i64) -> &mut Store {
        self.now = ms(into);
        self
    }

    fn ask(&self, run: RunId, kind: ClaimKind, with: u8) -> Claim {
        let (token, terms) = (token(with), self.terms.clone());
        Claim { run, kind, token, runner: format!("host-{with}"), digest: None, terms, not_after: Millis(i64::MAX) }
    }

    fn send(&mut self, ask: &Claim) -> ClaimAnswer {
        claim(&mut self.job, self.now, ask).answer
    }

    fn claim(&mut self, due: i64, with: u8) -> ClaimAnswer {
        self.send(&self.ask(slot(due), ClaimKind::Slot, with))
    }

    fn catch_up(&mut self, due: i64, with: u8) -> ClaimAnswer {
        let age = self.now.since(ms(due * 1_000));
        self.send(&self.ask(slot(due), ClaimKind::CatchUp { age }, with))
    }

    fn take_over(&mut self, due: i64, with: u8) -> ClaimAnswer {
        self.send(&self.ask(slot(due), ClaimKind::Takeover, with))
    }

    fn claim_demand(&mut self, id: &str, with: u8) -> ClaimAnswer {
        self.send(&self.ask(demand(id), ClaimKind::OnDemand, with))
    }

    fn beat(&mut self, run: &RunId, with: u8) -> HeartbeatAnswer {
        let beat = Heartbeat { run: run.clone(), token: token(with), progress: None };
        heartbeat(&mut self.job, self.now, &beat).answer
    }

    fn finish(&mut self, run: &RunId, with: u8, outcome: Outcome) -> Accepted {
        let usage = Usage { wall_ms: 7, ..Usage::default() };
        finish(&mut self.job, self.now, &Finish { run: run.clone(), token: token(with), outcome, usage }).answer
    }

    fn release(&mut self, run: &RunId, with: u8) -> Accepted {
        let usage = Usage::default();
        release(&mut self.job, self.now, &Release { run: run.clone(), token: token(with), usage }).answer
    }

    /// Writes a log line of one byte.
    fn write(&mut self, run: &RunId, with: u8, number: u64) -> Written {
        let fields = Vec::new();
        let line = LogLine { at: ms(0), level: LogLevel::Info, target: String::new(), message: "m".into(), fields };
        self.change(run, with, number, Change::AppendLog(vec![line]), &Around::default()).written
    }

    /// Writes under a quota of 100 bytes a value and 1 000 altogether.
    fn change(&mut self, run: &RunId, with: u8, number: u64, change: Change, around: &Around) -> WriteAnswer {
        let quota = Quota { value: 100, stored: 1_000 };
        let asked = Write { run: run.clone(), token: token(with), number, quota, change };
        write(&mut self.job, self.now, &asked, around).answer
    }

    fn save(&mut self, run: &RunId, with: u8, number: u64, data: &[u8]) -> WriteAnswer {
        let around = Around { stored: self.job.stored, present: None };
        self.change(run, with, number, Change::SaveState(data.to_vec()), &around)
    }

    fn cancel(&mut self, run: &RunId) -> CancelAnswer {
        cancel(&mut self.job, self.now, &Cancel { run: run.clone(), reason: "cancelled by a test".into() }).answer
    }

    fn close(&mut self, run: &RunId) -> CloseAnswer {
        let unoffered_for = Duration::from_secs(60);
        let ask = Close { run: run.clone(), unoffered_for, reason: "nobody offers it".into() };
        close(&mut self.job, self.now, &ask).answer
    }

    /// Unblocks the job, whose newest due slot is the one this many seconds into the test.
    fn unblock(&mut self, newest_due: i64) -> UnblockAnswer {
        unblock(&mut self.job, self.now, &Unblock { newest_due: Slot(ms(newest_due * 1_000)) }).answer
    }

    fn hold(&mut self, until: Option<Option<i64>>) {
        let since = Some(self.now);
        let as_hold = |until: Option<i64>| Hold { since, until: until.map(|s| ms(s * 1_000)), note: "a test".into() };
        hold(&mut self.job, self.now, until.map(as_hold).as_ref());
    }

    fn trigger(&mut self, id: &str) -> TriggerAnswer {
        let ask = Trigger { id: id.parse().unwrap(), payload: Some(id.into()), pending_max: 2 };
        trigger(&mut self.job, self.now, &ask).answer
    }

    fn announce(&mut self, fingerprint: &str) -> Millis {
        announce(&mut self.job, self.now, &Announce { fingerprint: fingerprint.into() }).answer
    }

    fn prune(&mut self, history_size: u32) -> Vec<RunId> {
        prune(&mut self.job, self.now, history_size).answer
    }

    fn run(&self, run: &RunId) -> &Run {
        &self.job.runs[run]
    }

    fn status(&self, run: &RunId) -> Status {
        self.run(run).status
    }

    /// What `act` answers, after a check that it changes nothing, not even the revision.
    #[track_caller]
    fn unchanged<A>(&mut self, act: impl FnOnce(&mut Store) -> A) -> A {
        let before = self.job.clone();
        let answer = act(self);
        assert_eq!(self.job, before, "something changed");
        answer
    }

    /// Starts the run due then, and answers what names it.
    #[track_caller]
    fn running(&mut self, due: i64, with: u8) -> RunId {
        self.go(due);
        assert_won(&self.claim(due, with), 1);
        slot(due)
    }
}

#[track_caller]
fn assert_won(answer: &ClaimAnswer, nth: u32) {
    assert!(matches!(answer, ClaimAnswer::Won { attempt, .. } if *attempt == Attempt(nth)), "{answer:?}");
}

/// The fence of a win.
#[track_caller]
fn fence(answer: &ClaimAnswer) -> u64 {
    match answer {
        ClaimAnswer::Won { fence, .. } => fence.0,
        other => panic!("not won: {other:?}"),
    }
}
