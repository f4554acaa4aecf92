//! Chance from a seed.

use std::time::Duration;

use leasehold_lease::agent::Chance;
use leasehold_lease::id::Token;

use crate::Ms;

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of `0..n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Both ends included.
    pub(crate) fn between(&mut self, from: Ms, to: Ms) -> Ms {
        assert!(from <= to, "{from} to {to} is no range");
        from + (self.next() % (to - from + 1) as u64) as Ms
    }

    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

impl Chance for Dice {
    fn token(&mut self) -> Token {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.next().to_le_bytes());
        bytes[8..].copy_from_slice(&self.next().to_le_bytes());
        Token(bytes)
    }

    fn up_to(&mut self, limit: Duration) -> Duration {
        Duration::from_millis(self.next() % (limit.as_millis() as u64 + 1))
    }
}
