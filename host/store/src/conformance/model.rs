//! Random operations, with ids that collide and times at and beside every boundary: a driver against the rules.

use std::collections::BTreeMap;

use leasehold_lease::id::{JobKey, RunId, RunKey, Token};
use leasehold_lease::log::{LogLevel, LogLine};
use leasehold_lease::op::{
    Announce, Answer, Cancel, Claim, ClaimKind, Close, Finish, Heartbeat, Op, Release, Stamped, Trigger, Unblock,
    WriteAnswer,
};
use leasehold_lease::policy::{Overlap, Terms};
use leasehold_lease::rules;
use leasehold_lease::run::{DEMAND_ID_KEPT, Failure, Hold, Job, Outcome, Progress, Standing, Usage};
use leasehold_lease::time::{Millis, Slot};
use leasehold_lease::write::{Around, Change, ENTRY, Quota, Write};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::bench::{Bench, TestClock, job, ms, on_demand, slot};
use crate::view::{AnnounceAnswer, HistoryQuery};

/// Sequences of operations, each on a job of its own.
const SEQUENCES: u64 = 256;

/// Operations of each sequence.
const STEPS: usize = 60;

/// S12: after every step the driver's answer, revision and record are those of [`rules::apply`].
///
/// `LEASEHOLD_SEED` repeats the sequence of one seed.
pub async fn the_driver_does_what_the_rules_say(bench: &Bench) {
    if matches!(bench.clock, TestClock::Real) {
        eprintln!("skipped: this store's clock cannot be set to the boundaries");
        return;
    }
    let only = std::env::var("LEASEHOLD_SEED").ok().map(|seed| seed.parse().expect("LEASEHOLD_SEED is a number"));
    let seeds = only.map_or(0..SEQUENCES, |seed| seed..seed + 1);
    let mut refused = 0;
    for seed in seeds.clone() {
        refused += sequence(bench, seed).await;
    }
    // A generator that only ever wins or is only ever refused would prove nothing.
    let steps = seeds.count() * STEPS;
    assert!(
        only.is_some() || (refused > steps / 10 && refused < steps * 9 / 10),
        "{refused} of {steps} changed nothing"
    );
}

/// Runs one sequence. Answers how many operations changed nothing.
async fn sequence(bench: &Bench, seed: u64) -> usize {
    // A tenant of its own, so that quotas and lists are its own too.
    let key = job(&format!("model-{seed}/job"));
    let mut world = World {
        rng: StdRng::seed_from_u64(seed),
        model: Job::default(),
        kv: BTreeMap::new(),
        states: BTreeMap::new(),
        start: bench.now().await,
    };
    let mut unchanged = 0;
    for step in 0..STEPS {
        let at = world.instant(bench.now().await);
        bench.reach(at).await;
        let op = world.op(at);
        let before = world.model.revision;
        let expected = rules::apply(&mut world.model, at, &op);
        world.carry_out(&op, &expected.answer);
        unchanged += usize::from(world.model.revision == before);
        let told = format!("step {step} at {}, {op:?}; repeat with LEASEHOLD_SEED={seed}", at.0);
        carry_out(bench, &key, &op, expected, &told).await;
        same_unfinished(bench, &key, &world.model, &told).await;
        // What is finished changes no more, so it is not read again at every step.
        if step % 10 == 9 {
            same_history(bench, &key, &world.model, &told).await;
            same_beside(bench, &key, &world, &told).await;
        }
        if step == STEPS - 1 {
            same_job(bench, &key, &world.model, &told).await;
        }
    }
    unchanged
}

/// Sends the operation to the driver and compares the answer.
async fn carry_out(bench: &Bench, key: &JobKey, op: &Op, expected: Stamped<Answer>, told: &str) {
    let store = &bench.store;
    let failed = |error: crate::StoreError| -> ! { panic!("{told}: {error:?}") };
    let answer = match op {
        Op::Claim(op) => store.claim(key, op).await.unwrap_or_else(|e| failed(e)).map(Answer::Claim),
        Op::Heartbeat(op) => {
            let beats = store.heartbeats(&[(key.clone(), op.clone())]).await.unwrap_or_else(|e| failed(e));
            beats.into_iter().next().expect("one").unwrap_or_else(|e| failed(e)).map(Answer::Heartbeat)
        }
        Op::Finish(op) => store.finish(key, op).await.unwrap_or_else(|e| failed(e)).map(Answer::Accepted),
        Op::Release(op) => store.release(key, op).await.unwrap_or_else(|e| failed(e)).map(Answer::Accepted),
        Op::Write { write, .. } => {
            // Whether it was carried out now or before is seen in what is kept.
            let Answer::Write(WriteAnswer { carry_out, .. }) = expected.answer else { unreachable!("it is a write") };
            let written = store.write(key, write).await.unwrap_or_else(|e| failed(e));
            written.map(|written| Answer::Write(WriteAnswer { written, carry_out }))
        }
        Op::Cancel(op) => store.cancel(key, op).await.unwrap_or_else(|e| failed(e)).map(Answer::Cancel),
        Op::Close(op) => store.close(key, op).await.unwrap_or_else(|e| failed(e)).map(Answer::Close),
        Op::Unblock(op) => store.unblock(key, op).await.unwrap_or_else(|e| failed(e)).map(Answer::Unblock),
        Op::Hold(op) => store.hold(key, op.as_ref()).await.unwrap_or_else(|e| failed(e)).map(|()| Answer::Hold),
        Op::Announce(op) => {
            let told = store.announce(&[(key.clone(), op.clone())]).await.unwrap_or_else(|e| failed(e));
            let offer = told.into_iter().next().expect("one").unwrap_or_else(|e| failed(e));
            offer.map(|AnnounceAnswer { since, newest_started, newest_skipped, hold }| Answer::Announced {
                since,
                newest_started,
                newest_skipped,
                hold,
            })
        }
        Op::Trigger(op) => store.trigger(key, op).await.unwrap_or_else(|e| failed(e)).map(Answer::Trigger),
        Op::Prune { history_size } => {
            let count = store.prune(key, *history_size).await.unwrap_or_else(|e| failed(e));
            let Answer::Pruned(runs) = &expected.answer else { unreachable!("the rules answer a prune as one") };
            assert_eq!(count, Stamped { answer: runs.len(), now: expected.now, revision: expected.revision }, "{told}");
            return;
        }
    };
    assert_eq!(answer, expected, "{told}");
}

/// Compares the job's unfinished runs with the model's.
async fn same_unfinished(bench: &Bench, key: &JobKey, model: &Job, told: &str) {
    let tenant = std::slice::from_ref(&key.tenant);
    let runs = bench.store.unfinished(tenant, None, usize::MAX).await.expect("runs").answer;
    let shown: Vec<_> = runs.into_iter().map(|each| (each.key.run, each.standing)).collect();
    let open = model.runs.iter().filter(|(_, run)| !run.status.is_final());
    let kept: Vec<_> = open.map(|(id, run)| (id.clone(), Some(Standing::from(run)))).collect();
    assert_eq!(shown, kept, "{told}");
}

/// Compares all of the job's runs with the model's.
async fn same_history(bench: &Bench, key: &JobKey, model: &Job, told: &str) {
    let query = HistoryQuery { job: Some(key.clone()), limit: usize::MAX, ..HistoryQuery::default() };
    let runs = bench.store.history(&query).await.expect("a history").answer;
    let mut shown: Vec<_> = runs.into_iter().map(|view| (view.key.run, view.run)).collect();
    shown.sort_by(|a, b| a.0.cmp(&b.0));
    let kept: Vec<_> = model.runs.clone().into_iter().collect();
    assert_eq!(shown, kept, "{told}");
}

/// Compares what the driver shows of the job itself with the model.
async fn same_job(bench: &Bench, key: &JobKey, model: &Job, told: &str) {
    let jobs = bench.store.jobs().await.expect("jobs").answer;
    let Some(view) = jobs.into_iter().find(|view| view.key == *key) else {
        return assert_eq!(model.revision, 0, "{told}");
    };
    assert_eq!(
        (view.revision, view.newest_started, view.newest_skipped, view.since, view.last_offered),
        (model.revision, model.newest_started, model.newest_skipped, model.since, model.last_offered),
        "{told}"
    );
    assert_eq!((view.hold, view.stored), (model.hold.clone(), model.stored), "{told}");
}

/// Compares what lies beside the records: checkpoints, values, and how long the logs are.
async fn same_beside(bench: &Bench, key: &JobKey, world: &World, told: &str) {
    let keys = bench.store.kv_list(&key.tenant, "", None, 100).await.expect("keys");
    assert_eq!(keys, world.kv.keys().cloned().collect::<Vec<_>>(), "{told}");
    for (name, value) in &world.kv {
        let shown = bench.store.kv_get(&key.tenant, name).await.expect("a value");
        assert_eq!(shown.as_ref(), Some(value), "{told}");
    }
    for id in world.model.runs.keys() {
        let run = RunKey { job: key.clone(), run: id.clone() };
        let shown = bench.store.load_state(&run).await.expect("a checkpoint");
        assert_eq!(shown, world.states.get(id).cloned(), "{id}: {told}");
    }
}

fn line() -> LogLine {
    LogLine { at: Millis(0), level: LogLevel::Info, target: "t".into(), message: "m".into(), fields: Vec::new() }
}

/// One sequence: its random numbers, the model, and where its slots lie.
struct World {
    rng: StdRng,
    model: Job,
    kv: BTreeMap<String, Vec<u8>>,
    states: BTreeMap<RunId, Vec<u8>>,
    start: Millis,
}

impl World {
    fn pick<T>(&mut self, from: &[T]) -> T
    where
        T: Clone,
    {
        from[self.rng.random_range(0..from.len())].clone()
    }

    /// When the next operation happens: mostly at an instant where an answer changes, or one millisecond beside it.
    fn instant(&mut self, now: Millis) -> Millis {
        let mut marks = vec![now, now, now + ms(1_000), now + ms(3_000)];
        for (id, run) in &self.model.runs {
            marks.extend([run.lease_end, run.lease_end + ms(1), run.due]);
            marks.extend(id.slot().into_iter().flat_map(|slot| [slot.0 + ms(70_000), slot.0 + ms(310_000)]));
            marks.extend(run.ended_at.map(|at| at + self.model.largest_bound + ms(10_000)));
        }
        marks.extend(self.model.since);
        marks.extend(self.model.gone.values().map(|at| *at + DEMAND_ID_KEPT));
        // Mostly forward; now and then the clock is set back.
        if self.rng.random_bool(0.85) {
            marks.retain(|mark| *mark >= now);
        }
        if self.rng.random_bool(0.02) {
            marks = vec![now - ms(3_600_000), now + ms(3_600_000)];
        }
        let mark = self.pick(&marks);
        Millis(mark.0 + self.rng.random_range(-1..=1))
    }

    fn op(&mut self, now: Millis) -> Op {
        let run = self.run(now);
        let token = self.token(&run);
        match self.rng.random_range(0..100) {
            0..45 => Op::Claim(self.claim(run, token, now)),
            45..57 => Op::Heartbeat(Heartbeat { run, token, progress: self.progress() }),
            57..67 => Op::Finish(Finish { run, token, outcome: self.outcome(), usage: self.usage() }),
            67..73 => Op::Release(Release { run, token, usage: self.usage() }),
            73..80 => self.write(run, token),
            80..86 => self.trigger(),
            86..89 => Op::Cancel(Cancel { run, reason: self.pick(&["one", "two"]).into() }),
            89..91 => Op::Close(Close { run, unoffered_for: self.pick(&[ms(0), ms(6_000)]), reason: "orphan".into() }),
            91..92 => Op::Unblock(Unblock { newest_due: Slot(Millis(now.0 - now.0 % 5_000)) }),
            92..94 => self.hold(now),
            94..97 => Op::Announce(Announce { fingerprint: self.pick(&["x", "x", "y"]).into() }),
            _ => Op::Prune { history_size: self.rng.random_range(0..3) },
        }
    }

    /// One of few runs: slots around the start and around now, and two on-demand ones.
    fn run(&mut self, now: Millis) -> RunId {
        let known: Vec<RunId> = self.model.runs.keys().cloned().collect();
        match self.rng.random_range(0..10) {
            0..5 if !known.is_empty() => self.pick(&known),
            0..7 => slot(Millis(now.0 - now.0 % 5_000 + self.rng.random_range(-1..=2) * 5_000)),
            7 => slot(self.start + ms(5_000 * self.rng.random_range(0..4))),
            8 => on_demand("r-1"),
            _ => on_demand("r-2"),
        }
    }

    /// Often the current token of the run, else one of few.
    fn token(&mut self, run: &RunId) -> Token {
        let current = self.model.runs.get(run).and_then(|run| run.current()).map(|attempt| attempt.token);
        match current {
            Some(token) if self.rng.random_bool(0.6) => token,
            _ => Token([self.rng.random_range(0..12); 16]),
        }
    }

    fn claim(&mut self, run: RunId, token: Token, now: Millis) -> Claim {
        let age = self.pick(&[ms(0), ms(100_000), ms(240_000)]);
        let natural = if run.slot().is_some() { ClaimKind::Slot } else { ClaimKind::OnDemand };
        let kind = self.pick(&[natural, natural, ClaimKind::Takeover, ClaimKind::CatchUp { age }]);
        let not_after = self.pick(&[Millis(i64::MAX), now, now, now - ms(1)]);
        let digest = self.pick(&[None, Some(leasehold_lease::id::Digest([7; 32]))]);
        Claim {
            run,
            kind,
            token,
            runner: self.pick(&["host-1", "host-2"]).into(),
            digest,
            terms: self.terms(),
            not_after,
        }
    }

    fn terms(&mut self) -> Terms {
        let overlap = if self.rng.random_bool(0.3) { Overlap::Allow } else { Overlap::Skip };
        let lease = self.pick(&[ms(3_000), ms(3_000), ms(30_000)]);
        let catch_up = self.pick(&[ms(300_000), ms(0)]);
        Terms { lease, max_attempts: self.pick(&[1, 3]), overlap, catch_up, max_late: ms(60_000), history_size: 100 }
    }

    fn trigger(&mut self) -> Op {
        let RunId::OnDemand(id) = on_demand(self.pick(&["r-1", "r-2", "r-3"])) else {
            unreachable!("an on-demand run has an id")
        };
        Op::Trigger(Trigger { id, payload: self.pick(&[None, Some(vec![0, 255])]), pending_max: 2 })
    }

    /// A write within a quota that is soon full.
    fn write(&mut self, run: RunId, token: Token) -> Op {
        let (key, value) = (self.pick(&["a", "b"]).to_owned(), vec![b'v'; self.pick(&[0, 10, 40, 90])]);
        let expected = self.pick(&[None, self.kv.get(&key).cloned()]);
        let change = match self.rng.random_range(0..5) {
            0 => Change::SaveState(value),
            1 => Change::KvSet { key, value },
            2 => Change::KvDelete { key },
            3 => Change::KvCompareAndSet { key, expected, value },
            _ => Change::AppendLog(vec![line()]),
        };
        let around = self.around(&change);
        let quota = Quota { value: 80, stored: 500 };
        Op::Write { write: Write { run, token, number: self.rng.random_range(0..5), quota, change }, around }
    }

    fn around(&self, change: &Change) -> Around {
        let kept: u64 = self.kv.iter().map(|(key, value)| (key.len() + value.len()) as u64 + ENTRY).sum();
        let present = change.key().and_then(|key| self.kv.get(key)).cloned();
        Around { stored: self.model.stored + kept, present }
    }

    /// Does to the model what lies outside the rules.
    fn carry_out(&mut self, op: &Op, answer: &Answer) {
        if let (Op::Write { write, .. }, Answer::Write(WriteAnswer { carry_out: true, .. })) = (op, answer) {
            match &write.change {
                Change::SaveState(data) => drop(self.states.insert(write.run.clone(), data.clone())),
                Change::KvSet { key, value } | Change::KvCompareAndSet { key, value, .. } => {
                    self.kv.insert(key.clone(), value.clone());
                }
                Change::KvDelete { key } => drop(self.kv.remove(key)),
                Change::AppendLog(_) => {}
            }
        }
        // S15.
        self.states.retain(|id, _| self.model.runs.get(id).is_some_and(|run| !run.status.is_final()));
    }

    fn hold(&mut self, now: Millis) -> Op {
        let until = self.pick(&[None, Some(now + ms(5_000))]);
        Op::Hold(self.pick(&[None, None, Some(Hold { until, note: "mind the gap".into() })]))
    }

    fn outcome(&mut self) -> Outcome {
        let failure = Failure {
            code: "trap".into(),
            message: "m".into(),
            details: vec![("k".into(), "v".into())],
            retryable: false,
        };
        self.pick(&[
            Outcome::Success { output: vec![0, 159], cut: false },
            Outcome::Failed(failure),
            Outcome::Interrupted { reason: "asked".into() },
        ])
    }

    fn progress(&mut self) -> Option<Progress> {
        let total = self.pick(&[None, Some(9)]);
        self.rng.random_bool(0.5).then(|| Progress { done: 3, total, message: "rows".into() })
    }

    fn usage(&mut self) -> Usage {
        Usage { wall_ms: self.rng.random(), ..Usage::default() }
    }
}
