//! What becomes of calls to the store, drawn from a seed.

use std::sync::Mutex;
use std::time::Duration;

use leasehold_lease::dice::Dice;
use leasehold_store::CALL_LIMIT;

/// What befalls calls for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Nothing.
    Calm,
    /// Many fail, before their effect or after it, and some are slow.
    Errors,
    /// All are slow, on the way there and back.
    Sluggish,
    /// None is answered; some have their effect all the same.
    Outage,
    /// The same for one host alone.
    CutOff(usize),
    /// Each takes this long before its effect, and this long after it.
    Slow(Duration, Duration),
}

/// What becomes of one call. All its waits together are within what a driver may take.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fate {
    /// From the call to its effect.
    pub(crate) there: Duration,
    /// From its effect to the answer.
    pub(crate) back: Duration,
    pub(crate) lost: Option<Lost>,
}

/// What of a call is lost. The caller is told so when its time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It was never sent, and the caller knows that.
    Unsent,
    /// The request: there is no effect.
    Request,
    /// The answer: there is.
    Answer,
}

/// The weather, and the chance in it. Which call meets which fate is up to the hosts.
pub(crate) struct Sky {
    now: Mutex<Weather>,
    dice: Mutex<Dice>,
}

impl Sky {
    pub(crate) fn new(seed: u64) -> Sky {
        Sky { now: Mutex::new(Weather::Calm), dice: Mutex::new(Dice::new(seed)) }
    }

    pub(crate) fn turn(&self, weather: Weather) {
        *self.now.lock().expect("nobody panics with it") = weather;
    }

    pub(crate) fn fate(&self, host: usize) -> Fate {
        let weather = *self.now.lock().expect("nobody panics with it");
        let mut dice = self.dice.lock().expect("nobody panics with it");
        let mut up_to = |ms| Duration::from_millis(dice.between(0, ms).unsigned_abs());
        match weather {
            Weather::Errors => {
                let (there, back) = (up_to(60), up_to(60));
                match dice.below(10) {
                    0 => Fate { lost: Some(Lost::Unsent), ..Fate::default() },
                    1 => Fate { there, lost: Some(Lost::Request), ..Fate::default() },
                    2 | 3 => Fate { there, back, lost: Some(Lost::Answer) },
                    4 => Fate { there: there * 10, ..Fate::default() },
                    5 => Fate { back: back * 10, ..Fate::default() },
                    _ => Fate::default(),
                }
            }
            Weather::Sluggish => Fate { there: up_to(250), back: up_to(250), lost: None },
            Weather::Outage => unanswered(&mut dice),
            Weather::CutOff(who) if who == host => unanswered(&mut dice),
            Weather::Calm | Weather::CutOff(_) => Fate::default(),
            Weather::Slow(there, back) => Fate { there, back, lost: None },
        }
    }
}

/// Silence, until the driver gives it up.
fn unanswered(dice: &mut Dice) -> Fate {
    match dice.percent(50) {
        true => Fate { there: CALL_LIMIT, back: Duration::ZERO, lost: Some(Lost::Request) },
        false => Fate { there: Duration::ZERO, back: CALL_LIMIT, lost: Some(Lost::Answer) },
    }
}
