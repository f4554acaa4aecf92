//! What people are told: hints when a schedule is read, notes beside slots.

use super::*;

#[test]
fn steps_that_do_not_divide_their_range_are_hinted_at() {
    for (expression, part) in [
        (
            "*/47 * * * * *",
            "gaps are uneven: the steps of second `*/47` start again every minute; every = \"47s\" is even",
        ),
        ("*/24 * * * *", "minute `*/24` start again every hour; every = \"24m\""),
        ("0 */5 * * *", "hour `*/5` start again every day; every = \"5h\""),
        ("0 0 */2 * *", "day of month `*/2` start again every month"),
        ("0 0 * * */2", "day of week `*/2` start again every week"),
    ] {
        let hints = cron(expression, "UTC").hints();
        assert!(hints.len() == 1 && hints[0].contains(part), "{expression}: {hints:?}");
    }
    for expression in ["*/15 * * * *", "0 */6 * * *", "* * * * *", "0 0 1 */3 *", "0-59/7 * * * *", "0 0 L * *"] {
        assert_eq!(cron(expression, "UTC").hints(), Vec::<String>::new(), "{expression}");
    }
}

#[test]
fn two_day_fields_and_short_months_are_hinted_at() {
    let hints = cron("0 0 13 * 5", "UTC").hints();
    assert!(hints.len() == 1 && hints[0].contains("match either"), "{hints:?}");
    let hints = cron("0 0 31 * *", "UTC").hints();
    assert!(hints.len() == 1 && hints[0].contains("months without a day 31"), "{hints:?}");
    assert_eq!(cron("0 0 31 1,3 *", "UTC").hints(), Vec::<String>::new());
}

/// The notes of the first slots after an instant.
fn notes(expression: &str, zone_name: &str, from: &str, count: usize) -> Vec<Vec<String>> {
    let schedule = cron(expression, zone_name);
    let next = |slot: &Slot| schedule.next_after(slot.0);
    std::iter::successors(schedule.next_after(at(from)), next).take(count).map(|slot| schedule.notes(slot)).collect()
}

#[test]
fn a_fixed_time_in_a_gap_says_why_it_runs_later() {
    let found = notes("30 2 * * *", "America/New_York", "2025-03-08T12:00:00-05:00", 2);
    let gap = "02:30:00 does not exist here on this day, the clock goes from 02:00:00 to 03:00:00: \
               runs at the first instant after the gap";
    assert_eq!(found, [vec![gap.to_owned()], vec![]]);
}

#[test]
fn a_fixed_time_that_comes_twice_says_that_it_runs_once() {
    let found = notes("30 1 * * *", "America/New_York", "2025-11-01T12:00:00-04:00", 2);
    assert_eq!(found, [vec!["01:30:00 comes twice on this day: runs in the first pass only".to_owned()], vec![]]);
}

#[test]
fn an_interval_pattern_says_which_pass_it_is() {
    let found = notes("30 * * * *", "America/New_York", "2025-11-02T00:59:00-04:00", 3);
    assert_eq!(
        found,
        [
            vec![
                "01:30:00 comes twice on this day: this is the first pass, an interval pattern runs in both".to_owned()
            ],
            vec![
                "01:30:00 comes twice on this day: this is the second pass, an interval pattern runs in both"
                    .to_owned()
            ],
            vec![],
        ]
    );
}

#[test]
fn the_first_slot_behind_a_gap_says_what_an_interval_pattern_left_out() {
    let found = notes("30 * * * *", "America/New_York", "2025-03-09T01:00:00-05:00", 3);
    let gap = "02:30:00 does not exist here on this day, the clock goes from 02:00:00 to 03:00:00: \
               an interval pattern leaves these times out";
    assert_eq!(found, [vec![], vec![gap.to_owned()], vec![]]);
}

#[test]
fn a_missing_day_is_told_with_its_date() {
    let found = notes("0 0 * * *", "Pacific/Apia", "2011-12-29T12:00:00-10:00", 2);
    assert!(found[0].len() == 1 && found[0][0].starts_with("2011-12-30 00:00:00 does not exist here"), "{found:?}");
    assert_eq!(found[1], Vec::<String>::new());
}

#[test]
fn ordinary_days_have_no_notes() {
    for zone_name in ZONES {
        let found = notes("30 12 * * *", zone_name, "2026-01-01T00:00:00Z", 400);
        assert!(found.iter().all(Vec::is_empty), "{zone_name}");
    }
}

#[test]
fn a_schedule_prints_as_written_and_agrees_by_its_fingerprint() {
    let schedule = cron("0  9 * *  mon", "europe/berlin");
    assert_eq!(schedule.to_string(), "0 9 * * mon (Europe/Berlin)");
    assert_eq!(schedule.fingerprint(), "cron 0 0 9 * * 1 in Europe/Berlin");
    assert_eq!(schedule.fingerprint(), cron("0 0 9 ? * 1", "Europe/Berlin").fingerprint());
    assert_ne!(schedule.fingerprint(), cron("0 0 9 ? * 1", "Europe/Paris").fingerprint());
    let every = Schedule::every(std::time::Duration::from_secs(90)).unwrap();
    assert_eq!(every.to_string(), "every 1m 30s");
    assert_eq!(every.fingerprint(), "every 90000 ms");
}
