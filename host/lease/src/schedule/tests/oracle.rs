//! The rule at changes of the clock, stated a second time in the slowest and plainest way, and compared.

use std::collections::BTreeSet;

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use super::*;

const FIXED: [&str; 9] = [
    "30 2 * * *",
    "0 0 * * *",
    "0 2,14 * * *",
    "0,30 1,2,3 * * *",
    "15 1 * * 0",
    "45 23 L * *",
    "1 0 * * *",
    "59 2 1,2,9,30 * 6",
    "0 3 30 12 *",
];
const INTERVAL: [&str; 8] = [
    "* * * * *",
    "0 * * * *",
    "45 * * * *",
    "*/20 0-3 * * *",
    "0 */6 * * *",
    "30 1-2 * * 0",
    "*/7 2 * * *",
    "5-10 0 L,30 * *",
];

/// From two days before to two days behind each of the clock's next changes.
fn windows(tz: &TimeZone, since: Timestamp, count: usize) -> Vec<(Timestamp, Timestamp)> {
    let days = SignedDuration::from_hours(48);
    let around = |at: Timestamp| (at - days, at + days);
    let found: Vec<_> = tz.following(since).take(count).map(|change| around(change.timestamp())).collect();
    if found.is_empty() { vec![around(since)] } else { found }
}

fn minutes(from: Timestamp, until: Timestamp) -> impl Iterator<Item = Timestamp> {
    (from.as_second().div_euclid(60)..=until.as_second().div_euclid(60))
        .map(|minute| Timestamp::from_second(minute * 60).unwrap())
        .filter(move |instant| from <= *instant && *instant <= until)
}

fn matches(calendar: &croner::Cron, wall: DateTime) -> bool {
    calendar.is_time_matching(&wall).unwrap()
}

/// An interval pattern is due at every instant whose wall clock matches.
fn interval_slots(calendar: &croner::Cron, tz: &TimeZone, from: Timestamp, until: Timestamp) -> BTreeSet<Timestamp> {
    minutes(from, until).filter(|instant| matches(calendar, tz.to_datetime(*instant))).collect()
}

/// A fixed time is due once: when it comes, when it first comes, or as the gap over it ends.
fn fixed_slots(calendar: &croner::Cron, tz: &TimeZone, from: Timestamp, until: Timestamp) -> BTreeSet<Timestamp> {
    let day = SignedDuration::from_hours(26);
    let walls = minutes(from - day, until + day).map(|minute| TimeZone::UTC.to_datetime(minute));
    let due = walls.filter(|wall| matches(calendar, *wall)).map(|wall| {
        let ambiguous = tz.to_ambiguous_timestamp(wall);
        match ambiguous.offset() {
            AmbiguousOffset::Gap { after, .. } => {
                let inside = after.to_timestamp(wall).unwrap();
                minutes(inside, inside + day).find(|instant| tz.to_datetime(*instant) >= wall).unwrap()
            }
            _ => ambiguous.earlier().unwrap(),
        }
    });
    due.filter(|instant| from <= *instant && *instant <= until).collect()
}

fn compare(expression: &str, zone_name: &str, expected: &BTreeSet<Timestamp>, from: Timestamp, until: Timestamp) {
    let schedule = cron(expression, zone_name);
    let millis = |instant: Timestamp| Millis(instant.as_millisecond());
    let expected: Vec<Millis> = expected.iter().copied().map(millis).collect();
    let found = slots(&schedule, Millis(millis(from).0 - 1), millis(until));
    assert_eq!(found, expected, "{expression} in {zone_name} from {from}");
    // From any starting point the same slots are seen, forwards and backwards.
    for t in minutes(from, until).step_by(17).map(millis) {
        let later = expected.partition_point(|slot| *slot <= t);
        let next = expected.get(later).copied();
        let latest = later.checked_sub(1).map(|index| expected[index]);
        let seen = schedule.next_after(t).map(|slot| slot.0).filter(|slot| *slot <= millis(until));
        assert_eq!(seen, next, "{expression} in {zone_name} after {t}");
        let seen = schedule.latest_at_or_before(t, Millis(millis(from).0 - 1)).map(|slot| slot.0);
        assert_eq!(seen, latest, "{expression} in {zone_name} at {t}");
    }
}

fn check(zone_name: &str, since: &str, count: usize) {
    let tz = zone(zone_name).tz().clone();
    for (from, until) in windows(&tz, since.parse().unwrap(), count) {
        for expression in FIXED {
            let expected = fixed_slots(&croner(expression), &tz, from, until);
            compare(expression, zone_name, &expected, from, until);
        }
        for expression in INTERVAL {
            let expected = interval_slots(&croner(expression), &tz, from, until);
            compare(expression, zone_name, &expected, from, until);
        }
    }
}

fn croner(expression: &str) -> croner::Cron {
    expression.parse().unwrap()
}

#[test]
fn slots_follow_the_rule_at_every_change_of_the_clock() {
    for zone_name in ZONES {
        check(zone_name, "2025-01-01T00:00:00Z", 2);
    }
}

#[test]
fn slots_follow_the_rule_at_the_oddest_changes() {
    // A day left out, twice; a day that comes twice; a change a minute past midnight.
    check("Pacific/Apia", "2011-12-01T00:00:00Z", 1);
    check("Pacific/Kwajalein", "1993-08-01T00:00:00Z", 1);
    check("Pacific/Kwajalein", "1969-09-01T00:00:00Z", 1);
    check("America/St_Johns", "2010-01-01T00:00:00Z", 2);
}
