//! The one door through which time and chance come in.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_lease::agent::Chance;
use leasehold_lease::id::Token;
use leasehold_lease::time::{Millis, Mono};
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// The machine's wall clock.
pub fn wall() -> Millis {
    #[allow(clippy::disallowed_methods)] // This is the door.
    let now = SystemTime::now();
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// The time since boot, suspend included where the system can count it.
pub fn mono() -> Mono {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    let now = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Mono(Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0)))
}

/// Waits until the own timer shows `at`. Tokio's timer stands still while the machine sleeps; callers wake at least
/// once a minute and look at the clock again.
pub async fn sleep_until(at: Mono) {
    tokio::time::sleep(at.since(mono())).await;
}

/// The store's clock as this host estimates it from the last answer.
#[derive(Debug)]
pub struct StoreClock {
    /// Store's clock minus own timer, in ms.
    offset: AtomicI64,
}

impl StoreClock {
    /// Before the first answer, the wall clock is the best guess.
    pub fn new() -> StoreClock {
        StoreClock { offset: AtomicI64::new(wall().0 - whole_ms(mono())) }
    }

    /// Takes in an answer that has just come.
    pub fn heard(&self, store_now: Millis) {
        self.offset.store(store_now.0 - whole_ms(mono()), Ordering::Relaxed);
    }

    /// What the store's clock shows now. Behind the truth by as long as the last answer was under way.
    pub fn now(&self) -> Millis {
        Millis(self.offset.load(Ordering::Relaxed) + whole_ms(mono()))
    }
}

impl Default for StoreClock {
    fn default() -> StoreClock {
        StoreClock::new()
    }
}

fn whole_ms(mono: Mono) -> i64 {
    i64::try_from(mono.0.as_millis()).unwrap_or(i64::MAX)
}

/// Real chance: tokens from the system's generator, waits from one that is seeded by it.
#[derive(Debug)]
pub struct Dice(StdRng);

impl Dice {
    /// Seeded by the system.
    ///
    /// # Errors
    /// The system has no random numbers to give.
    pub fn new() -> Result<Dice, getrandom::Error> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)?;
        Ok(Dice(StdRng::from_seed(seed)))
    }

    /// Random bytes that nobody can guess.
    pub fn bytes(&mut self) -> [u8; 32] {
        // As for tokens: a cryptographic generator.
        self.0.random()
    }
}

impl Chance for Dice {
    fn token(&mut self) -> Token {
        // `StdRng` is a cryptographic generator, seeded with 256 bits of the system's.
        Token(self.0.random())
    }

    fn up_to(&mut self, limit: Duration) -> Duration {
        let micros = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.0.random_range(0..=micros))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_timer_goes_forward_and_the_wall_clock_is_past_2024() {
        let first = mono();
        assert!(mono() >= first);
        assert!(wall().0 > 1_704_067_200_000);
    }

    #[test]
    fn the_store_clock_goes_on_from_the_last_answer() {
        let clock = StoreClock::new();
        clock.heard(Millis(1_000_000));
        assert!((1_000_000..1_060_000).contains(&clock.now().0));
    }

    #[test]
    fn waits_stay_in_their_bounds_and_tokens_differ() {
        let mut dice = Dice::new().expect("the system has random numbers");
        for _ in 0..100 {
            assert!(dice.up_to(Duration::from_millis(250)) <= Duration::from_millis(250));
        }
        assert_eq!(dice.up_to(Duration::ZERO), Duration::ZERO);
        assert!(dice.token() != dice.token());
    }
}
