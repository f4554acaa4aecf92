//! Tables of cases, properties, and what people are told.

mod hints;
mod oracle;
mod properties;
mod refusals;
mod tables;

use super::{Schedule, Zone, Zones};
use crate::time::{Millis, Slot};

/// Zones whose clocks change in all the ways there are.
const ZONES: [&str; 14] = [
    "UTC",
    "America/New_York",
    "America/St_Johns",
    "America/Havana",
    "America/Santiago",
    "Europe/London",
    "Europe/Dublin",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Asia/Gaza",
    "Australia/Lord_Howe",
    "Pacific/Chatham",
    "Antarctica/Troll",
    "Pacific/Apia",
];

fn zone(name: &str) -> Zone {
    Zones::bundled().get(name).unwrap()
}

fn cron(expression: &str, zone_name: &str) -> Schedule {
    Schedule::cron(expression, &zone(zone_name)).unwrap_or_else(|error| panic!("{expression}: {error}"))
}

/// An instant from RFC 3339; seconds may be left out.
fn at(text: &str) -> Millis {
    let with_seconds = match text.strip_suffix('Z') {
        Some(minute) if minute.len() == "2025-03-09T07:00".len() => format!("{minute}:00Z"),
        _ => text.to_owned(),
    };
    let instant: jiff::Timestamp = with_seconds.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    Millis(instant.as_millisecond())
}

/// Slots later than `from`, up to and including `until`.
fn slots(schedule: &Schedule, from: Millis, until: Millis) -> Vec<Millis> {
    let next = |slot: &Slot| schedule.next_after(slot.0);
    std::iter::successors(schedule.next_after(from), next)
        .map(|slot| slot.0)
        .take_while(|slot| *slot <= until)
        .collect()
}

/// The rows of a table: tab-separated, comments begin with `# `.
fn rows(table: &'static str) -> Vec<Vec<&'static str>> {
    let rows: Vec<Vec<&str>> =
        table.lines().filter(|line| !line.starts_with("# ")).map(|line| line.split('\t').collect()).collect();
    assert!(rows.len() > 20, "the table is read whole");
    rows
}

/// Turns the escapes of a table into the characters they stand for.
fn unescape(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once('\\') {
        plain.push_str(before);
        let (character, length) = match escape.chars().next() {
            Some('t') => ('\t', 1),
            Some('n') => ('\n', 1),
            Some('r') => ('\r', 1),
            Some('0') => ('\0', 1),
            Some('u') => {
                let end = escape.find('}').unwrap();
                (char::from_u32(u32::from_str_radix(&escape[2..end], 16).unwrap()).unwrap(), end + 1)
            }
            other => panic!("unknown escape {other:?} in {text}"),
        };
        plain.push(character);
        rest = &escape[length..];
    }
    plain + rest
}
