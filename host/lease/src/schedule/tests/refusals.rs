//! What is refused, in which words, and how fast.

use std::time::Duration;

use super::super::cron::Cron;
use super::super::{ScheduleError, ZoneError};
use super::*;

const REFUSED: &str = include_str!("../cases/refused.tsv");
const ACCEPTED: &str = include_str!("../cases/accepted.tsv");

#[test]
fn every_row_of_the_table_is_refused_with_its_reason() {
    let mut wrong = Vec::new();
    for row in rows(REFUSED) {
        let [expression, part] = row[..] else { panic!("a short row: {row:?}") };
        match Schedule::cron(&unescape(expression), &Zone::utc()) {
            Ok(schedule) => wrong.push(format!("`{expression}` was taken as {}", schedule.fingerprint())),
            Err(error) => {
                let message = error.to_string();
                if !message.contains(part) {
                    wrong.push(format!("`{expression}`: `{part}` is not in `{message}`"));
                }
                assert!(message.is_ascii() && !message.contains(char::is_control), "unsafe to print: {message:?}");
                assert!(message.len() < 400, "too long to read: {message}");
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_row_of_the_table_is_taken_in_its_normal_form() {
    for row in rows(ACCEPTED) {
        let [expression, normal] = row[..] else { panic!("a short row: {row:?}") };
        let schedule = cron(&unescape(expression), "UTC");
        assert_eq!(schedule.fingerprint(), format!("cron {normal} in UTC"), "{expression}");
        assert!(schedule.next_after(at("2026-01-01T00:00Z")).is_some(), "{expression} is never due");
        let again = cron(normal, "UTC");
        assert_eq!(again.fingerprint(), schedule.fingerprint(), "the normal form is its own normal form");
    }
}

#[test]
fn a_long_expression_is_refused_unread() {
    let long = "1,".repeat(600) + "1 * * * *";
    let error = Schedule::cron(&long, &Zone::utc()).unwrap_err();
    assert!(matches!(error, ScheduleError::TooLong { length: 1209, limit: 1000 }), "{error}");
    let longest = "1,".repeat(495) + "1 * * * *";
    assert_eq!(longest.len(), 999);
    assert!(Schedule::cron(&longest, &Zone::utc()).is_ok());
}

#[test]
fn the_quoted_text_is_cut_and_escaped() {
    let error = Schedule::cron(&("x".repeat(900) + "\u{202e} * * * *"), &Zone::utc()).unwrap_err().to_string();
    assert!(error.contains(&("x".repeat(60) + "…`")) && error.len() < 200, "{error}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the time that really passes is what is tested")]
fn a_refusal_takes_less_than_ten_milliseconds() {
    for row in rows(REFUSED) {
        let expression = unescape(row[0]);
        let refuse = || {
            let begin = std::time::Instant::now();
            assert!(Schedule::cron(&expression, &Zone::utc()).is_err());
            begin.elapsed()
        };
        // The fastest of several: what the machine does besides is not the refusal's fault.
        let fastest = (0..10).map(|_| refuse()).min().unwrap();
        assert!(fastest < Duration::from_millis(10), "`{}` took {fastest:?}", row[0]);
    }
}

/// The check and the library must mean the same: what passes the one must never be refused by the other.
#[test]
fn the_library_reads_every_normal_form() {
    for row in rows(ACCEPTED) {
        let error = Cron::new(&unescape(row[0]), jiff::tz::TimeZone::UTC).err();
        assert!(error.is_none(), "{}: {error:?}", row[0]);
    }
}

#[test]
fn an_interval_below_a_second_or_off_the_millisecond_is_refused() {
    for (period, reason) in [
        (Duration::ZERO, "at least 1 s"),
        (Duration::from_millis(999), "at least 1 s"),
        (Duration::from_nanos(1_000_000_001), "whole milliseconds"),
        (Duration::from_secs(36_501 * 86_400), "at most"),
        (Duration::MAX, "at most"),
    ] {
        let error = Schedule::every(period).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    assert!(Schedule::every(Duration::from_secs(1)).is_ok());
}

#[test]
fn an_unknown_zone_is_refused_with_the_nearest_name() {
    let zones = Zones::bundled();
    for (name, hint) in [
        ("Europe/Berlim", "did you mean `Europe/Berlin`?"),
        ("Berlin", "did you mean `Europe/Berlin`?"),
        ("New York", "did you mean `America/New_York`?"),
        ("america/newyork", "did you mean `America/New_York`?"),
        ("", "names look like"),
        ("PST", "names look like"),
        ("Mars/Olympus_Mons", "names look like"),
        ("../../etc/passwd", "names look like"),
        ("EST5EDT,M3.2.0,M11.1.0", "names look like"),
        ("Etc/Unknown", "zone data"),
        ("\u{1b}[31mUTC", "`\\u{1b}[31mUTC`"),
    ] {
        let ZoneError::Unknown { .. } = zones.get(name).unwrap_err();
        let message = zones.get(name).unwrap_err().to_string();
        assert!(message.contains(hint), "{name:?}: {message}");
    }
    assert!(zones.get(&"x".repeat(1_000_000)).unwrap_err().to_string().len() < 200);
}

#[test]
fn a_zone_is_found_in_any_case_and_keeps_its_usual_name() {
    let zones = Zones::bundled();
    let found = zones.get("europe/BERLIN").unwrap();
    assert_eq!(found.name(), "Europe/Berlin");
    assert_eq!(found.data_version(), Some(zones.version()));
    assert_eq!(zones.get("utc").unwrap().name(), "UTC");
}

#[test]
fn a_name_the_data_lack_comes_from_the_bundled_data_with_their_version() {
    let empty = jiff::tz::TimeZoneDatabase::none();
    let zones = Zones::from_database(empty, "2099z".to_owned(), "a test".to_owned());
    let found = zones.get("US/Eastern").unwrap();
    assert_eq!(found.data_version(), Zones::bundled_version());
    assert_eq!(zones.version(), "2099z");
    assert!(zones.get("Europe/Berlim").is_err());
}
