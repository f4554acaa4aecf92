//! Chance from a seed: the same for the same seed, so not for what must be unpredictable.

use std::time::Duration;

use crate::agent::Chance;
use crate::id::Token;

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Dice that always fall alike for this seed.
    pub fn new(seed: u64) -> Dice {
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
    ///
    /// # Panics
    ///
    /// `n` is zero.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// A whole number, both ends included.
    ///
    /// # Panics
    ///
    /// `from` is greater than `to`.
    pub fn between(&mut self, from: i64, to: i64) -> i64 {
        assert!(from <= to, "{from} to {to} is no range");
        from + (self.next() % (to - from + 1) as u64) as i64
    }

    /// True in this many of a hundred cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    /// One of these.
    ///
    /// # Panics
    ///
    /// There are none.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
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
