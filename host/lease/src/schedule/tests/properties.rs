//! What must hold for every expression, zone and instant.

use proptest::prelude::*;
use proptest::sample::select;

use super::super::ScheduleError;
use super::*;

const HOUR: i64 = 3_600_000;

/// One field: `*`, a step, a number, a list, a range.
fn field(min: u8, max: u8) -> impl Strategy<Value = String> {
    let number = move || min..=max;
    let range = (number(), number()).prop_map(|(a, b)| (a.min(b), a.max(b)));
    prop_oneof![
        4 => Just("*".to_owned()),
        2 => (1..=max - min).prop_map(|step| format!("*/{step}")),
        4 => number().prop_map(|n| n.to_string()),
        2 => prop::collection::vec(number(), 2..4).prop_map(|list| {
            list.iter().map(u8::to_string).collect::<Vec<_>>().join(",")
        }),
        2 => range.prop_map(|(a, b)| format!("{a}-{b}")),
    ]
}

fn day_of_month() -> impl Strategy<Value = String> {
    let special = prop_oneof![Just("L".to_owned()), Just("LW".to_owned()), Just("15W,31".to_owned())];
    prop_oneof![2 => field(1, 31), 1 => special]
}

fn day_of_week() -> impl Strategy<Value = String> {
    let special = prop_oneof![Just("5L".to_owned()), Just("1#5".to_owned()), Just("7".to_owned())];
    prop_oneof![2 => field(0, 6), 1 => special]
}

fn expression() -> impl Strategy<Value = String> {
    let second = prop_oneof![3 => Just(String::new()), 1 => field(0, 59).prop_map(|field| field + " ")];
    (second, field(0, 59), field(0, 23), day_of_month(), field(1, 12), day_of_week())
        .prop_map(|(s, m, h, d, mo, w)| format!("{s}{m} {h} {d} {mo} {w}"))
}

/// Milliseconds from 1970 to 2100.
fn time() -> impl Strategy<Value = Millis> {
    (0..4_102_444_800_000i64).prop_map(Millis)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn slots_rise_and_are_the_same_from_every_starting_point(
        expression in expression(), zone_name in select(&ZONES[..]), t in time(), share in 0.0..1.0f64,
    ) {
        let schedule = match Schedule::cron(&expression, &zone(zone_name)) {
            Ok(schedule) => schedule,
            Err(ScheduleError::Impossible { .. }) => return Ok(()),
            Err(error) => return Err(TestCaseError::fail(format!("{expression}: {error}"))),
        };
        let first = schedule.next_after(t).expect("a possible schedule has a next slot").0;
        let second = schedule.next_after(first).expect("and one more").0;
        prop_assert!(t < first && first < second);
        // Any instant in between leads to the same slot, in both directions.
        let between = Millis(first.0 + ((second.0 - first.0 - 1) as f64 * share) as i64);
        prop_assert_eq!(schedule.next_after(between), Some(Slot(second)));
        prop_assert_eq!(schedule.next_after(Millis(first.0 - 1)), Some(Slot(first)));
        prop_assert_eq!(schedule.latest_at_or_before(between, t), Some(Slot(first)));
        prop_assert_eq!(schedule.latest_at_or_before(between, Millis(0)), Some(Slot(first)));
        prop_assert_eq!(schedule.latest_at_or_before(second, first), Some(Slot(second)));
        prop_assert_eq!(schedule.latest_at_or_before(between, first), None);
        prop_assert_eq!(schedule.latest_at_or_before(Millis(first.0 - 1), t), None);
    }

    #[test]
    fn the_least_gap_is_a_bound(expression in expression(), t in time()) {
        let Ok(schedule) = Schedule::cron(&expression, &Zone::utc()) else { return Ok(()) };
        let gap = schedule.least_gap();
        let mut slot = t;
        for index in 0..20 {
            let next = schedule.next_after(slot).expect("a possible schedule has a next slot").0;
            prop_assert!(index == 0 || next.since(slot) >= gap, "{} apart by less than {:?}", slot, gap);
            slot = next;
        }
    }

    #[test]
    fn no_text_makes_it_panic_or_hang(text in "\\PC{0,40}|[-0-9*,/?#LWw@ \t\n]{0,30}") {
        match Schedule::cron(&text, &Zone::utc()) {
            Ok(schedule) => prop_assert!(schedule.next_after(Millis(0)).is_some()),
            Err(ScheduleError::Library { .. }) => prop_assert!(false, "the check let through {text:?}"),
            Err(error) => prop_assert!(!error.to_string().contains(|c: char| c.is_control())),
        }
    }

    #[test]
    fn either_day_matches_when_both_are_given(day in 1u8..=31, weekday in 0u8..=6, t in time()) {
        let both = cron(&format!("0 0 {day} * {weekday}"), "UTC");
        let one = cron(&format!("0 0 {day} * *"), "UTC");
        let other = cron(&format!("0 0 * * {weekday}"), "UTC");
        prop_assert_eq!(both.next_after(t), one.next_after(t).min(other.next_after(t)));
    }
}

#[test]
fn an_hourly_schedule_has_no_gap_over_an_hour_in_any_zone() {
    let zones = [
        "UTC",
        "Europe/Belgrade",
        "America/New_York",
        "America/Santiago",
        "Africa/Cairo",
        "Europe/London",
        "Asia/Kathmandu",
        "Pacific/Chatham",
        "America/Havana",
        "Asia/Gaza",
    ];
    for zone_name in zones {
        for expression in ["0 * * * *", "55 * * * *", "0 55 * * * *"] {
            let (from, until) = (at("2026-01-01T00:00Z"), at("2027-01-01T00:00Z"));
            let found = slots(&cron(expression, zone_name), from, until);
            assert!(found.windows(2).all(|pair| pair[1].0 - pair[0].0 == HOUR), "{expression} in {zone_name}");
            assert_eq!(found.len(), 365 * 24, "{expression} in {zone_name}");
        }
    }
}

#[test]
fn the_least_gap_is_reached() {
    for (expression, seconds) in [
        ("* * * * * *", 1),
        ("*/47 * * * * *", 13),
        ("* * * * *", 60),
        ("0 * * * *", 3_600),
        ("0,59 * * * * *", 1),
        ("0 0,30 0 * * *", 1_800),
        ("30 2 * * *", 86_400),
        ("59 0,23 * * *", 3_600),
        ("0,50 * * * *", 600),
        ("10,20 30 2 * * *", 10),
    ] {
        assert_eq!(cron(expression, "UTC").least_gap().as_secs(), seconds, "{expression}");
    }
}
