//! Random operations, with ids that collide and times at and beside every boundary: a driver against the rules.

use leasehold_lease::id::{JobKey, RunId, RunKey, Token};
use leasehold_lease::op::{
    Accepted, Announce, Answer, Claim, ClaimKind, Finish, Heartbeat, Op, Release, Stamped, Trigger, WriteAnswer,
};
use leasehold_lease::policy::{Overlap, Terms};
use leasehold_lease::rules;
use leasehold_lease::run::{DEMAND_ID_KEPT, Failure, Job, Outcome, Progress, Usage};
use leasehold_lease::time::Millis;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::bench::{Bench, TestClock, job, ms, on_demand, slot};
use crate::store::{HistoryQuery, LogLevel, LogLine};

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
    let key = job(&format!("model-{seed}"));
    let mut world = World { rng: StdRng::seed_from_u64(seed), model: Job::default(), start: bench.now().await };
    let mut unchanged = 0;
    for step in 0..STEPS {
        let at = world.instant(bench.now().await);
        bench.reach(at).await;
        let op = world.op(at);
        let before = world.model.revision;
        let expected = rules::apply(&mut world.model, at, &op);
        unchanged += usize::from(world.model.revision == before);
        let told = format!("step {step} at {}, {op:?}; repeat with LEASEHOLD_SEED={seed}", at.0);
        carry_out(bench, &key, &op, expected, &told).await;
        same_unfinished(bench, &key, &world.model, &told).await;
        // What is finished changes no more, so it is not read again at every step.
        if step % 10 == 9 {
            same_history(bench, &key, &world.model, &told).await;
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
    let unstamped = |now, answer| Stamped { now, revision: expected.revision, answer };
    let failed = |error: crate::StoreError| -> ! { panic!("{told}: {error:?}") };
    let answer = match op {
        Op::Claim(op) => store.claim(key, op).await.unwrap_or_else(|e| failed(e)).map(Answer::Claim),
        Op::Heartbeat(op) => {
            let beats = store.heartbeats(&[(key.clone(), op.clone())]).await.unwrap_or_else(|e| failed(e));
            unstamped(beats.now, Answer::Heartbeat(beats.answer[0]))
        }
        Op::Finish(op) => store.finish(key, op).await.unwrap_or_else(|e| failed(e)).map(Answer::Accepted),
        Op::Release(op) => store.release(key, op).await.unwrap_or_else(|e| failed(e)).map(Answer::Accepted),
        Op::Write { run, token, number } => {
            let run = RunKey { job: key.clone(), run: run.clone() };
            let written = store.append_log(&run, token, *number, &[line()]).await.unwrap_or_else(|e| failed(e));
            // A driver says `Done` to a first write and to a repeated one.
            let as_told = |accepted| match (accepted, &expected.answer) {
                (Accepted::Refused, _) => WriteAnswer::Refused,
                (Accepted::Done, Answer::Write(WriteAnswer::Repeated)) => WriteAnswer::Repeated,
                (Accepted::Done, _) => WriteAnswer::Write,
            };
            written.map(|accepted| Answer::Write(as_told(accepted)))
        }
        Op::Announce(op) => {
            let told = store.announce(&[(key.clone(), op.clone())]).await.unwrap_or_else(|e| failed(e));
            let offer = &told.answer[0];
            let (newest_started, newest_skipped) = (offer.newest_started, offer.newest_skipped);
            unstamped(told.now, Answer::Announced { since: offer.since, newest_started, newest_skipped })
        }
        Op::Trigger(op) => store.trigger(key, op).await.unwrap_or_else(|e| failed(e)).map(Answer::Trigger),
        Op::Prune { history_size } => {
            let count = store.prune(key, *history_size).await.unwrap_or_else(|e| failed(e));
            let Answer::Pruned(runs) = &expected.answer else { unreachable!("the rules answer a prune as one") };
            assert_eq!(count, runs.len(), "{told}");
            return;
        }
    };
    assert_eq!(answer, expected, "{told}");
}

/// Compares the job's unfinished runs with the model's.
async fn same_unfinished(bench: &Bench, key: &JobKey, model: &Job, told: &str) {
    let runs = bench.store.unfinished(std::slice::from_ref(key), None, usize::MAX).await.expect("runs").answer;
    let shown: Vec<_> = runs.into_iter().map(|view| (view.key.run, view.run)).collect();
    let open = model.runs.iter().filter(|(_, run)| !run.status.is_final());
    let kept: Vec<_> = open.map(|(id, run)| (id.clone(), run.clone())).collect();
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
}

fn line() -> LogLine {
    LogLine { at: Millis(0), level: LogLevel::Info, target: "t".into(), message: "m".into(), fields: Vec::new() }
}

/// One sequence: its random numbers, the model, and where its slots lie.
struct World {
    rng: StdRng,
    model: Job,
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
            73..80 => Op::Write { run, token, number: self.rng.random_range(0..5) },
            80..90 => self.trigger(),
            90..95 => Op::Announce(Announce { fingerprint: self.pick(&["x", "x", "y"]).into() }),
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
