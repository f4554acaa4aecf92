//! Expressions with the slots they must give.

use super::*;

const CRON: &str = include_str!("../cases/cron.tsv");
const SCENARIOS: &str = include_str!("../cases/scenarios.tsv");

fn check(table: &'static str) {
    let mut wrong = Vec::new();
    for row in rows(table) {
        let [expression, zone_name, from, expected, ..] = row[..] else { panic!("a short row: {row:?}") };
        let schedule = cron(expression, zone_name);
        let expected: Vec<Millis> = expected.split(" ; ").map(at).collect();
        let last = *expected.last().unwrap();
        let found = slots(&schedule, at(from), last);
        if found != expected {
            let print = |slots: &[Millis]| slots.iter().map(Millis::to_string).collect::<Vec<_>>().join(" ");
            wrong.push(format!("{row:?}\n  found {}\n  not   {}", print(&found), print(&expected)));
        }
        // Backwards the same slots are found.
        for pair in expected.windows(2) {
            let before = Millis(pair[1].0 - 1);
            assert_eq!(schedule.latest_at_or_before(before, Millis(pair[0].0 - 1)), Some(Slot(pair[0])), "{row:?}");
            assert_eq!(schedule.latest_at_or_before(before, pair[0]), None, "{row:?}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_row_of_the_cron_table_gives_its_slots() {
    check(CRON);
}

#[test]
fn every_scenario_gives_its_slots() {
    check(SCENARIOS);
}

#[test]
fn the_zone_of_the_machine_has_no_influence() {
    let name = concat!(module_path!(), "::every_row_of_the_cron_table_gives_its_slots");
    let (_, test) = name.split_once("::").unwrap();
    for tz in ["Australia/Sydney", "Asia/Tokyo", "America/New_York"] {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env("TZ", tz)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "TZ={tz}: {text}");
    }
}

#[test]
fn an_expression_without_a_zone_means_utc() {
    let schedule = Schedule::cron("0 8 * * *", &Zone::default()).unwrap();
    assert_eq!(schedule.next_after(at("2025-07-01T00:00Z")), Some(Slot(at("2025-07-01T08:00Z"))));
    assert_eq!(schedule.zone().name(), "UTC");
    assert_eq!(schedule.zone_data_version(), None);
}

#[test]
fn intervals_are_due_at_multiples_since_the_epoch() {
    let every = |millis| Schedule::every(std::time::Duration::from_millis(millis)).unwrap();
    let t = at("2025-01-01T00:00:30Z");
    assert_eq!(every(90_000).next_after(t), Some(Slot(Millis((t.0 / 90_000 + 1) * 90_000))));
    assert_eq!(every(90_000).latest_at_or_before(t, Millis(0)), Some(Slot(Millis(t.0 / 90_000 * 90_000))));
    assert_eq!(every(1_500).next_after(Millis(0)), Some(Slot(Millis(1_500))));
    assert_eq!(every(1_500).next_after(Millis(1_500)), Some(Slot(Millis(3_000))));
    assert_eq!(every(1_500).next_after(Millis(-1)), Some(Slot(Millis(0))));
    assert_eq!(every(1_500).latest_at_or_before(Millis(1_500), Millis(1_499)), Some(Slot(Millis(1_500))));
    assert_eq!(every(1_500).latest_at_or_before(Millis(1_500), Millis(1_500)), None);
}

#[test]
fn at_the_ends_of_time_there_is_no_slot_and_no_panic() {
    let schedules = [
        cron("* * * * * *", "UTC"),
        cron("0 0 29 2 *", "America/New_York"),
        cron("0 * * * *", "Europe/London"),
        Schedule::every(std::time::Duration::from_secs(90)).unwrap(),
    ];
    for schedule in &schedules {
        for t in [
            i64::MIN,
            i64::MIN + 1,
            -377_705_023_201_000,
            -62_135_596_800_000,
            253_402_207_200_000,
            i64::MAX - 1,
            i64::MAX,
        ] {
            let t = Millis(t);
            assert!(schedule.next_after(t).is_none_or(|slot| slot.0 > t), "{schedule} after {t}");
            assert!(
                schedule.latest_at_or_before(t, Millis(i64::MIN)).is_none_or(|slot| slot.0 <= t),
                "{schedule} by {t}"
            );
        }
        assert_eq!(schedule.next_after(Millis(i64::MAX)), None);
        let _ = schedule.notes(Slot(Millis(i64::MAX)));
    }
}
