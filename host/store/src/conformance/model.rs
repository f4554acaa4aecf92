//! Random operations, with ids that collide and times at and beside every boundary: a driver against the rules.

use leasehold_lease::id::{RunId, Token};
use leasehold_lease::log::{LogLevel, LogLine};
use leasehold_lease::op::{
    Announce, Cancel, Claim, ClaimKind, Close, Finish, Heartbeat, Op, Release, Trigger, Unblock,
};
use leasehold_lease::policy::{Overlap, Terms};
use leasehold_lease::run::{DEMAND_ID_KEPT, Failure, Hold, Outcome, Progress, Usage};
use leasehold_lease::time::{Millis, Slot};
use leasehold_lease::write::{Change, Quota, Write};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::bench::{Bench, TestClock, job, ms, on_demand, slot};
use super::expected::Expected;

/// Sequences of operations, each on a job of its own.
const SEQUENCES: u64 = 256;

/// Operations of each sequence.
const STEPS: usize = 60;

/// S12: after every step the driver's answer, revision and record are those of [`leasehold_lease::rules::apply`].
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
    let mut world = World { rng: StdRng::seed_from_u64(seed), expected: Expected::default(), start: bench.now().await };
    let mut unchanged = 0;
    for step in 0..STEPS {
        let at = world.instant(bench.now().await);
        bench.reach(at).await;
        let op = world.op(at);
        let before = world.expected.job.revision;
        let told = format!("step {step} at {}, {op:?}; repeat with LEASEHOLD_SEED={seed}", at.0);
        world.expected.step(bench, &key, at, &op, &told).await;
        unchanged += usize::from(world.expected.job.revision == before);
        world.expected.same_unfinished(bench, &key, &told).await;
        // What is finished changes no more, so it is not read again at every step.
        if step % 10 == 9 {
            world.expected.same_history(bench, &key, &told).await;
            world.expected.same_beside(bench, &key, &told).await;
        }
        if step == STEPS - 1 {
            world.expected.same_job(bench, &key, &told).await;
        }
    }
    unchanged
}

fn line(message: &str) -> LogLine {
    let (target, message, fields) = ("t".into(), message.into(), Vec::new());
    LogLine { at: Millis(0), level: LogLevel::Info, target, message, fields }
}

/// One sequence: its random numbers, what is expected, and where its slots lie.
struct World {
    rng: StdRng,
    expected: Expected,
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
        for (id, run) in &self.expected.job.runs {
            marks.extend([run.lease_end, run.lease_end + ms(1), run.due]);
            marks.extend(id.slot().into_iter().flat_map(|slot| [slot.0 + ms(70_000), slot.0 + ms(310_000)]));
            marks.extend(run.ended_at.map(|at| at + self.expected.job.largest_bound + ms(10_000)));
        }
        marks.extend(self.expected.job.since);
        marks.extend(self.expected.job.gone.values().map(|at| *at + DEMAND_ID_KEPT));
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
        let known: Vec<RunId> = self.expected.job.runs.keys().cloned().collect();
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
        let current = self.expected.job.runs.get(run).and_then(|run| run.current()).map(|attempt| attempt.token);
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
        let expected = self.pick(&[None, self.expected.kv.get(&key).cloned()]);
        let change = match self.rng.random_range(0..5) {
            0 => Change::SaveState(value),
            1 => Change::KvSet { key, value },
            2 => Change::KvDelete { key },
            3 => Change::KvCompareAndSet { key, expected, value },
            _ => {
                let lines = self.rng.random_range(0..3);
                Change::AppendLog((0..lines).map(|_| line(&self.rng.random_range(0..1_000).to_string())).collect())
            }
        };
        let around = self.expected.around(&change);
        let quota = Quota { value: 80, stored: 500 };
        Op::Write { write: Write { run, token, number: self.rng.random_range(0..5), quota, change }, around }
    }

    fn hold(&mut self, now: Millis) -> Op {
        let (since, until) = (self.pick(&[None, Some(now - ms(2_000))]), self.pick(&[None, Some(now + ms(5_000))]));
        Op::Hold(self.pick(&[None, None, Some(Hold { since, until, note: "mind the gap".into() })]))
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
