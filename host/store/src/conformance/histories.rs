//! Many clients at once, and their answers replayed in the order of the revisions.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use leasehold_lease::id::{JobKey, RunId, Token};
use leasehold_lease::log::{LogLevel, LogLine};
use leasehold_lease::op::{
    Announce, Answer, Cancel, Claim, ClaimAnswer, ClaimKind, Finish, Heartbeat, Op, Release, Stamped, Trigger,
    WriteAnswer,
};
use leasehold_lease::policy::{Overlap, Terms};
use leasehold_lease::rules;
use leasehold_lease::run::{Job, Outcome, Usage};
use leasehold_lease::time::{Millis, Slot};
use leasehold_lease::write::{Around, Change, Quota, Write, Written};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::bench::{Bench, TestClock, job, ms, on_demand};
use crate::store::LeaseStore;

/// Clients at work together.
const CLIENTS: usize = 16;

/// Operations altogether; `LEASEHOLD_OPERATIONS` asks for more: a long run takes millions.
const OPERATIONS: usize = 20_000;

/// Operations of one client on one pair of jobs, before all go on to the next: a replay copies its job at every step.
const ON_ONE_JOB: usize = 60;

/// One operation as its client saw it.
struct Seen {
    op: Op,
    /// When it was sent and when its answer came, on one count of all such moments.
    sent: u64,
    came: u64,
    answer: Stamped<Answer>,
}

/// What the clients share.
struct Shared {
    moments: AtomicU64,
    /// Runs and tokens that won lately, to be used by anybody.
    won: Mutex<Vec<(RunId, Token)>>,
}

/// S12: whatever order the store chose, its answers are those of the rules in the order of the revisions, and an
/// operation sent after another one's answer has come stands behind it.
pub async fn histories_of_many_clients_replay_in_the_order_of_revisions(bench: &Bench) {
    if !matches!(bench.clock, TestClock::Real) {
        return eprintln!("skipped: the store's clock stands still, so nothing would expire");
    }
    let asked = std::env::var("LEASEHOLD_OPERATIONS").ok();
    let operations = asked.map_or(OPERATIONS, |n| n.parse().expect("LEASEHOLD_OPERATIONS is a number"));
    let rounds = operations.div_ceil(CLIENTS * ON_ONE_JOB);
    let mut changed = 0;
    for round in 0..rounds as u64 {
        let jobs = [job(&format!("t-{round}/a")), job(&format!("t-{round}/b"))];
        let mut seen: BTreeMap<JobKey, Vec<Seen>> = BTreeMap::new();
        let shared = Arc::new(Shared { moments: AtomicU64::new(0), won: Mutex::default() });
        let mut clients = tokio::task::JoinSet::new();
        for client in 0..CLIENTS as u64 {
            let (store, jobs, shared) = (bench.store.clone(), jobs.clone(), shared.clone());
            let rng = StdRng::seed_from_u64(round << 8 | client);
            clients.spawn(async move { Client { store, shared, rng, id: client as u8 }.work(&jobs).await });
        }
        while let Some(done) = clients.join_next().await {
            for (key, one) in done.expect("a client does not panic") {
                seen.entry(key).or_default().push(one);
            }
        }
        for (key, all) in seen {
            changed += replay(&key, all);
        }
    }
    // A run in which nothing or everything changed would prove nothing.
    let total = rounds * CLIENTS * ON_ONE_JOB;
    assert!(changed > total / 20 && changed < total * 19 / 20, "{changed} of {total} changed something");
}

/// Replays one job's operations, and answers how many changed it.
fn replay(key: &JobKey, mut all: Vec<Seen>) -> usize {
    in_real_time(key, &mut all);
    let mut by_revision: BTreeMap<u64, Vec<Seen>> = BTreeMap::new();
    for one in all {
        by_revision.entry(one.answer.revision).or_default().push(one);
    }
    let mut model = Job::default();
    let mut changed = 0;
    for (revision, together) in by_revision {
        if revision > model.revision {
            assert_eq!(revision, model.revision + 1, "{key}: an operation that changed the job was not answered");
            model = step(key, &model, &together);
            changed += 1;
        }
        // The others found the job as it was then.
        let unchanged = together.iter().filter(|one| !explains(&model, one)).count();
        let first = usize::from(revision > 0);
        assert!(unchanged <= first, "{key}: {unchanged} answers at revision {revision} are not those of the rules");
    }
    changed
}

/// The job after the one operation that can have made this revision.
fn step(key: &JobKey, before: &Job, together: &[Seen]) -> Job {
    let mut after = Vec::new();
    for one in together {
        let mut job = before.clone();
        if same(rules::apply(&mut job, one.answer.now, &one.op), &one.answer) && job.revision > before.revision {
            // Another one may explain the revision too; the right one lets all others be as they were answered.
            let fits = together.iter().filter(|other| !explains(&job, other)).count();
            after.push((fits, job));
        }
    }
    after.sort_by_key(|(fits, _)| *fits);
    let tried = || together.iter().map(|one| format!("{:?} at {}: {:?}\n", one.op, one.answer.now.0, one.answer));
    match after.into_iter().next() {
        Some((_, job)) => job,
        None => panic!("{key}: nothing explains revision {}:\n{}", before.revision + 1, tried().collect::<String>()),
    }
}

/// Whether the operation, found by a job like this, is answered as it was and changes nothing.
fn explains(job: &Job, one: &Seen) -> bool {
    let mut found = job.clone();
    let answer = rules::apply(&mut found, one.answer.now, &one.op);
    found.revision == job.revision && same(answer, &one.answer)
}

fn same(expected: Stamped<Answer>, seen: &Stamped<Answer>) -> bool {
    match (&expected.answer, &seen.answer) {
        // A driver does not say whether it carried a write out now or before.
        (Answer::Write(expected_write), Answer::Write(write)) => {
            expected_write.written == write.written && expected.revision == seen.revision
        }
        _ => expected == *seen,
    }
}

/// An operation that was sent when another one's answer had come stands at its revision or behind it.
fn in_real_time(key: &JobKey, all: &mut [Seen]) {
    let mut came: Vec<(u64, u64)> = all.iter().map(|one| (one.came, one.answer.revision)).collect();
    came.sort_unstable();
    all.sort_by_key(|one| one.sent);
    let (mut known, mut newest) = (0, 0);
    for one in all.iter() {
        while came.get(known).is_some_and(|(moment, _)| *moment < one.sent) {
            newest = newest.max(came[known].1);
            known += 1;
        }
        let revision = one.answer.revision;
        assert!(revision >= newest, "{key}: {:?} at revision {revision}, sent when {newest} was known", one.op);
    }
}

struct Client {
    store: Arc<dyn LeaseStore>,
    shared: Arc<Shared>,
    rng: StdRng,
    id: u8,
}

impl Client {
    async fn work(mut self, jobs: &[JobKey]) -> Vec<(JobKey, Seen)> {
        let mut seen = Vec::new();
        let mut now = self.store.now().await.expect("the store tells its time");
        for number in 0..ON_ONE_JOB as u64 {
            let key = jobs[self.rng.random_range(0..jobs.len())].clone();
            let op = self.op(now, number);
            let sent = self.shared.moments.fetch_add(1, Ordering::SeqCst);
            let answer = self.send(&key, &op).await;
            let came = self.shared.moments.fetch_add(1, Ordering::SeqCst);
            now = answer.now;
            if let (Op::Claim(claim), Answer::Claim(ClaimAnswer::Won { .. })) = (&op, &answer.answer) {
                let mut won = self.shared.won.lock().expect("no client panics");
                won.push((claim.run.clone(), claim.token));
                let len = won.len();
                won.drain(..len.saturating_sub(6));
            }
            seen.push((key, Seen { op, sent, came, answer }));
        }
        seen
    }

    async fn send(&self, key: &JobKey, op: &Op) -> Stamped<Answer> {
        const ANSWERED: &str = "the store answers";
        let store = &self.store;
        match op {
            Op::Claim(op) => store.claim(key, op).await.expect(ANSWERED).map(Answer::Claim),
            Op::Finish(op) => store.finish(key, op).await.expect(ANSWERED).map(Answer::Accepted),
            Op::Release(op) => store.release(key, op).await.expect(ANSWERED).map(Answer::Accepted),
            Op::Trigger(op) => store.trigger(key, op).await.expect(ANSWERED).map(Answer::Trigger),
            Op::Cancel(op) => store.cancel(key, op).await.expect(ANSWERED).map(Answer::Cancel),
            Op::Write { write, .. } => {
                let written = store.write(key, write).await.expect(ANSWERED);
                written.map(|written| Answer::Write(WriteAnswer { written, carry_out: written == Written::Done }))
            }
            Op::Heartbeat(op) => {
                let beats = store.heartbeats(&[(key.clone(), op.clone())]).await.expect(ANSWERED);
                beats.into_iter().next().expect("one").expect("the record is sound").map(Answer::Heartbeat)
            }
            Op::Announce(op) => {
                let told = store.announce(&[(key.clone(), op.clone())]).await.expect(ANSWERED);
                let told = told.into_iter().next().expect("one").expect("the record is sound");
                told.map(|told| Answer::Announced {
                    since: told.since,
                    newest_started: told.newest_started,
                    newest_skipped: told.newest_skipped,
                    hold: told.hold,
                })
            }
            other => unreachable!("no client sends {other:?}"),
        }
    }

    fn op(&mut self, now: Millis, number: u64) -> Op {
        let (run, token) = self.held();
        let usage = Usage::default();
        match self.rng.random_range(0..100) {
            0..50 => Op::Claim(self.claim(now)),
            50..65 => Op::Heartbeat(Heartbeat { run, token, progress: None }),
            65..77 => Op::Finish(Finish { run, token, outcome: self.outcome(), usage }),
            77..82 => Op::Release(Release { run, token, usage }),
            82..92 => Op::Write { write: self.write(run, token, number), around: Around::default() },
            92..95 => {
                let id = format!("r-{}", self.rng.random_range(0..4)).parse().expect("an id");
                Op::Trigger(Trigger { id, payload: None, pending_max: 2 })
            }
            95..97 => Op::Cancel(Cancel { run, reason: "asked".into() }),
            _ => Op::Announce(Announce { fingerprint: "x".into() }),
        }
    }

    /// A run and a token that won lately, or ones that never did.
    fn held(&mut self) -> (RunId, Token) {
        let won = self.shared.won.lock().expect("no client panics");
        match won.len() {
            0 => (on_demand("r-0"), Token([self.id; 16])),
            len => won[self.rng.random_range(0..len)].clone(),
        }
    }

    /// A claim of a slot around now or of a run that is known; leases are so short that they run out meanwhile.
    fn claim(&mut self, now: Millis) -> Claim {
        let slot = RunId::Slot(Slot(Millis(now.0 - now.0 % 20 + self.rng.random_range(-2..=1) * 20)));
        let (run, kind) = match self.rng.random_range(0..10) {
            0..6 => (slot, ClaimKind::Slot),
            6 => (on_demand(&format!("r-{}", self.rng.random_range(0..4))), ClaimKind::OnDemand),
            _ => (self.held().0, ClaimKind::Takeover),
        };
        let terms = Terms {
            lease: ms(self.rng.random_range(5..60)),
            max_attempts: 3,
            overlap: if self.rng.random_bool(0.2) { Overlap::Allow } else { Overlap::Skip },
            catch_up: ms(0),
            max_late: ms(10_000),
            history_size: 100,
        };
        let token = Token(self.rng.random());
        let not_after = Millis(now.0 + self.rng.random_range(0..2) * 100_000);
        Claim { run, kind, token, runner: format!("host-{}", self.id), digest: None, terms, not_after }
    }

    fn write(&mut self, run: RunId, token: Token, number: u64) -> Write {
        let line = LogLine {
            at: Millis(0),
            level: LogLevel::Info,
            target: String::new(),
            message: "m".into(),
            fields: Vec::new(),
        };
        let change = if self.rng.random_bool(0.5) {
            Change::SaveState(vec![self.id; self.rng.random_range(0..9)])
        } else {
            Change::AppendLog(vec![line])
        };
        Write { run, token, number, quota: Quota { value: 1 << 20, stored: u64::MAX >> 1 }, change }
    }

    fn outcome(&mut self) -> Outcome {
        Outcome::Success { output: vec![self.id], cut: false }
    }
}
