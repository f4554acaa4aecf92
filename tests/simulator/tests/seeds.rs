//! Many seeds keep every promise, the rare paths are reached, and a seed always tells the same.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_simulator::{Plan, Report, run, run_two};

/// How many hours are simulated where `LEASEHOLD_SEEDS` does not say.
const SEEDS: u64 = 500;

/// What has to happen somewhere among this many hours, or the promises were not put to the test.
const SOMETIMES: [&str; 48] = [
    "answer-early",
    "answer-ended",
    "answer-held",
    "answer-late",
    "answer-old",
    "answer-overlap",
    "answer-running",
    "answer-stale",
    "answer-superseded",
    "answer-won",
    "backup",
    "blocked",
    "cancel",
    "cancel-pending",
    "cancelled",
    "catch-up",
    "claimed",
    "closed",
    "confirm",
    "crash",
    "cut",
    "drain",
    "early",
    "effect-confirmed",
    "effect-held",
    "failed",
    "freeze",
    "gone",
    "held",
    "interrupted",
    "late",
    "lost",
    "missed",
    "no-place",
    "outage",
    "pending",
    "reschedule",
    "resumed",
    "skip",
    "start-refused",
    "stop",
    "store-down",
    "store-up",
    "superseded",
    "takeover",
    "trigger",
    "trigger-full",
    "uncertain",
];

#[test]
fn no_seed_breaks_a_promise_and_all_rare_paths_are_reached() {
    let seeds = seeds();
    let seen = many(seeds, |seed| {
        let report = run(seed, Plan::new(seed), false);
        sound(seed, "", &report);
        report.seen
    });
    let never: Vec<&str> = SOMETIMES.into_iter().filter(|what| !seen.contains_key(*what)).collect();
    assert_eq!(never, Vec::<&str>::new(), "never happened in {seeds} hours");
}

fn seeds() -> u64 {
    std::env::var("LEASEHOLD_SEEDS").map_or(SEEDS, |n| n.parse().expect("LEASEHOLD_SEEDS is a number"))
}

#[test]
fn two_jobs_that_compete_for_places_keep_every_promise() {
    let seen = many(seeds() / 20, |seed| {
        let reports = run_two(seed, Plan::two(seed), false);
        reports.iter().for_each(|report| sound(seed, "--two ", report));
        reports.into_iter().flat_map(|report| report.seen).collect()
    });
    for what in ["no-place", "missed", "takeover"] {
        assert!(seen.contains_key(what), "{what} never happened");
    }
}

/// On all processors. Answers how often each kind of thing happened.
fn many(seeds: u64, play: impl Fn(u64) -> BTreeMap<String, u64> + Sync) -> BTreeMap<String, u64> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut seen = BTreeMap::<String, u64>::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return seen;
            }
            play(seed).into_iter().for_each(|(what, times)| *seen.entry(what).or_default() += times);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        all.into_iter().flat_map(|thread| thread.join().expect("a promise was broken")).fold(
            BTreeMap::new(),
            |mut sum, (what, times)| {
                *sum.entry(what).or_default() += times;
                sum
            },
        )
    })
}

fn sound(seed: u64, how: &str, report: &Report) {
    if let Some(broken) = &report.broken {
        panic!("seed {seed}: {broken}\n  cargo run --package leasehold-simulator -- {how}--replay {seed}");
    }
}

#[test]
fn the_same_seed_tells_the_same_byte_for_byte() {
    for seed in 0..20 {
        let [one, other] = [(); 2].map(|()| run(seed, Plan::new(seed), true).trail.join("\n"));
        assert!(one.len() > 1_000 && one == other, "seed {seed}");
    }
}

/// L3: where nothing goes wrong nobody takes over, and every slot runs.
#[test]
fn a_quiet_hour_runs_every_slot_once() {
    for seed in 0..50 {
        let report = run(seed, Plan::quiet(seed), false);
        sound(seed, "--quiet ", &report);
        let count = |what: &str| report.seen.get(what).copied().unwrap_or(0);
        // From the first slot after the start to the one at the end of the hour, which is due as it ends.
        let slots = count("claimed");
        assert!((59..=60).contains(&slots), "seed {seed}: {slots} slots");
        for never in ["takeover", "lost", "uncertain", "late", "missed", "skip", "superseded", "store-down"] {
            assert_eq!(count(never), 0, "seed {seed}: {never}");
        }
    }
}
