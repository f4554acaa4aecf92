//! Components with changed bytes: refused or run, never more.

mod support;

use std::hash::{BuildHasher, Hasher};

use leasehold_sandbox::{Limits, PluginError};
use support::watch::Watch;
use support::*;

/// How a run of this test is repeated.
const SEED: &str = "LEASEHOLD_SEED";

#[tokio::test]
async fn a_guest_with_changed_bytes_is_refused_or_runs() {
    mutate("a guest of these tests", &guest(SHOULD_CONTINUE, "(drop (call $should_continue))"), 240).await;
}

#[tokio::test]
async fn a_core_module_with_an_embedded_type_and_changed_bytes_is_refused_or_runs() {
    let module = core_module(SHOULD_CONTINUE, MEMORY, "(drop (call $should_continue))");
    mutate("a core module", &typed(&module, &contract(), "job"), 240).await;
}

#[tokio::test]
async fn the_example_with_changed_bytes_is_refused_or_runs() {
    let Some(sound) = hello() else { return };
    mutate("the example", &sound, 60).await;
}

async fn mutate(what: &str, sound: &[u8], count: usize) {
    let seed = match std::env::var(SEED) {
        Ok(seed) => seed.parse().expect("a number"),
        Err(_) => fresh(),
    };
    eprintln!("{SEED}={seed}");
    let sandbox = sandbox();
    let limits = Limits { timeout: millis(200), memory: 4 << 20, ..Limits::default() };
    let (mut refused, mut ran) = (0, 0);
    let mut random = Random(seed);
    let watch = Watch::start();
    for n in 0..count {
        let bytes = random.mutant(sound);
        match sandbox.load_bytes("acme", bytes).await {
            Ok(plugin) => {
                let _any_end_is_right = sandbox.start(&plugin, invocation(limits)).await;
                ran += 1;
            }
            Err(PluginError::Refused(refusal)) => {
                assert!(!refusal.word().starts_with("compiler-"), "mutant {n} of {what}, {SEED}={seed}: {refusal}");
                refused += 1;
            }
            Err(error) => panic!("mutant {n} of {what}, {SEED}={seed}: {error:?}"),
        }
    }
    watch.assert_flat(limits.memory);
    eprintln!("{what}: {refused} refused, {ran} ran");
    assert!(refused > 0 && ran > 0, "{refused} refused, {ran} ran, {SEED}={seed}");
    // The sandbox is as good as new.
    let plugin = load(&sandbox, guest("", "")).await;
    assert_eq!(output(&sandbox.start(&plugin, invocation(Limits::default())).await), b"done");
}

/// A number that differs from run to run.
fn fresh() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}

/// The constants are those of Knuth's MMIX.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    /// One to three changes: a bit, a byte, a piece that is missing, a piece that is there twice.
    fn mutant(&mut self, sound: &[u8]) -> Vec<u8> {
        let mut bytes = sound.to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len());
            let piece = at..(at + 1 + self.below(16)).min(bytes.len());
            match self.below(8) {
                0..4 => bytes[at] ^= 1 << self.below(8),
                4..6 => bytes[at] = self.below(256) as u8,
                6 => drop(bytes.drain(piece)),
                _ => {
                    let copy = bytes[piece.clone()].to_vec();
                    bytes.splice(piece.start..piece.start, copy);
                }
            }
        }
        bytes
    }
}
