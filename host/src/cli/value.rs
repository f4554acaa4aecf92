//! Values of the command line, read once into types that cannot be wrong.

use std::time::Duration;

use bytesize::ByteSize;
use jiff::Timestamp;
use jiff::fmt::temporal::Pieces;
use leasehold_lease::time::Millis;

/// A duration with a unit: `90s`, `1h 30m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    if text.trim().parse::<u64>().is_ok() {
        return Err(format!("the number has no unit; write {0}s or {0}ms", text.trim()));
    }
    let found = humantime::parse_duration(text).map_err(|error| format!("{error}; write 30s, 5m or \"1h 30m\""))?;
    if found.subsec_nanos() % 1_000_000 != 0 {
        return Err("a duration is counted in whole milliseconds".to_owned());
    }
    Ok(found)
}

/// A duration that is not zero.
pub(super) fn some_duration(text: &str) -> Result<Duration, String> {
    duration(text).and_then(|found| if found.is_zero() { Err("it must be above zero".to_owned()) } else { Ok(found) })
}

/// A size with a unit, in bytes: `64MiB`.
pub(super) fn size(text: &str) -> Result<u64, String> {
    if text.trim().parse::<u64>().is_ok() {
        return Err("the number has no unit; write 64MiB, 512KiB or 100B".to_owned());
    }
    let found =
        text.trim().parse::<ByteSize>().map_err(|_| "it is not a size; write 64MiB, 512KiB or 100B".to_owned())?;
    Ok(found.as_u64())
}

/// An instant, RFC 3339, in whole milliseconds.
pub(super) fn instant(text: &str) -> Result<Millis, String> {
    let found: Timestamp = text.parse().map_err(|_| match Pieces::parse(text) {
        // It is written as an instant is, so what is wrong with it is how far away it lies.
        Ok(pieces) if pieces.time().is_some() && pieces.offset().is_some() => {
            format!("it lies beyond the calendar, which goes from {} to {}", Timestamp::MIN, Timestamp::MAX)
        }
        _ => "it is not a time with date and zone; write 2025-03-09T07:00:00Z or 2025-03-09T02:00:00-05:00".to_owned(),
    })?;
    if found.subsec_nanosecond() % 1_000_000 != 0 {
        return Err("an instant is counted in whole milliseconds".to_owned());
    }
    Ok(Millis(found.as_millisecond()))
}

/// Whether a text that is no instant was meant to be one: a date, perhaps with a time and without a zone.
pub(super) fn is_almost_an_instant(text: &str) -> bool {
    instant(text).is_err() && Pieces::parse(text).is_ok()
}

/// How many, from 1 to a hundred thousand.
pub(super) fn count(text: &str) -> Result<u32, String> {
    let found = text.parse().ok().filter(|n| (1..=100_000).contains(n));
    found.ok_or_else(|| "write a whole number from 1 to 100000".to_owned())
}

/// From when on: an instant, or a time ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Since {
    /// At this instant.
    At(Millis),
    /// So long before now.
    Ago(Duration),
}

impl Since {
    /// The instant, when `now` is now.
    pub(super) fn instant(self, now: Millis) -> Millis {
        match self {
            Since::At(at) => at,
            Since::Ago(ago) => now - ago,
        }
    }
}

/// Until when: an instant, or a time from now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// To this instant.
    At(Millis),
    /// So long after now.
    In(Duration),
}

impl Until {
    /// The instant, when `now` is now.
    pub(super) fn instant(self, now: Millis) -> Millis {
        match self {
            Until::At(at) => at,
            Until::In(time) => now + time,
        }
    }
}

/// Nobody means a longer time.
const A_CENTURY: Duration = Duration::from_secs(100 * 366 * 86_400);

/// Reads [`Until`].
pub(super) fn until(text: &str) -> Result<Until, String> {
    match since(text)? {
        Since::At(at) => Ok(Until::At(at)),
        Since::Ago(time) if time > A_CENTURY => Err("it is more than a hundred years".to_owned()),
        Since::Ago(time) => Ok(Until::In(time)),
    }
}

/// A remark of a person, on one line.
pub(super) fn remark(text: &str) -> Result<String, String> {
    match text.chars().count() {
        0 => Err("it is empty".to_owned()),
        1..=200 if !text.chars().any(char::is_control) => Ok(text.to_owned()),
        1..=200 => Err("it has a line break or another control character".to_owned()),
        _ => Err("it is longer than 200 characters".to_owned()),
    }
}

/// Reads [`Since`].
pub(super) fn since(text: &str) -> Result<Since, String> {
    // A date begins with a digit, too, but only it has a second dash or a colon.
    if text.contains(':') || text.matches('-').count() > 1 {
        return instant(text).map(Since::At);
    }
    duration(text).map(Since::Ago).map_err(|error| format!("{error}; or write a time such as 2025-03-09T07:00:00Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_need_units() {
        assert_eq!(duration("1h 30m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(size("64MiB"), Ok(64 << 20));
        for bad in ["90", "", "1 fortnight", "1us"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        for bad in ["64", "", "64 apples", "-1B"] {
            assert!(size(bad).is_err(), "{bad}");
        }
        assert!(some_duration("0s").is_err());
        assert!(duration("90").is_err_and(|error| error.contains("90s")));
    }

    #[test]
    fn an_instant_has_a_date_a_time_and_a_zone() {
        let noon = Ok(Millis(1_741_453_200_000));
        assert_eq!(instant("2025-03-08T12:00:00-05:00"), noon);
        assert_eq!(instant("2025-03-08T17:00:00Z"), noon);
        assert_eq!(instant("2025-03-08T17:00:00.000Z"), noon);
        for bad in ["2025-03-08", "17:00", "2025-03-08T17:00:00", "yesterday", "2025-03-08T17:00:00.0001Z"] {
            assert!(instant(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_instant_beyond_the_calendar_is_told_as_such() {
        for far in ["9999-12-31T00:00:00Z", "-009999-01-01T00:00:00Z"] {
            assert!(
                instant(far).is_err_and(|error| error.contains("beyond the calendar")),
                "{far}: {:?}",
                instant(far)
            );
        }
        assert!(instant("9999-12-31").is_err_and(|error| error.contains("not a time")));
    }

    #[test]
    fn until_lies_ahead_and_a_remark_is_one_short_line() {
        let now = Millis(10_000);
        assert_eq!(until("5s").map(|until| until.instant(now)), Ok(Millis(15_000)));
        assert_eq!(until("1970-01-01T00:00:17Z").map(|until| until.instant(now)), Ok(Millis(17_000)));
        assert!(until("99999999999999h").is_err());
        assert_eq!(remark("backup until noon"), Ok("backup until noon".to_owned()));
        for bad in ["", "a\nb", "\u{1b}[2J", &"x".repeat(201)] {
            assert!(remark(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn since_is_an_instant_or_a_duration() {
        let now = Millis(10_000);
        assert_eq!(since("5s").map(|since| since.instant(now)), Ok(Millis(5_000)));
        assert_eq!(since("1970-01-01T00:00:07Z").map(|since| since.instant(now)), Ok(Millis(7_000)));
        assert!(since("1970-01-01").is_err() && since("5").is_err());
    }
}
