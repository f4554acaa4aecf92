//! `leasehold next`: the next slots of a job or of a schedule.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use leasehold::plugins::{JobSpec, Refused};
use leasehold::{clock, plugins, zones};
use leasehold_lease::id::JobKey;
use leasehold_lease::schedule::{Schedule, Zones};
use leasehold_lease::time::{Millis, Slot};
use serde::Serialize;

use super::error::CliError;
use super::jobs::{self, Refusal};
use super::living::{Hosts, Word};
use super::loader::Inspector;
use super::output::{Colour, Output, Table};
use super::{Exit, Global, value};

/// The arguments of `leasehold next`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub(super) struct Next {
    /// A job of the plugin directory: tenant/name, or name for the tenant "default"
    #[arg(group = "what")]
    job: Option<JobKey>,
    /// A cron expression of 5 or 6 fields, or a name such as @daily
    #[arg(long, value_name = "EXPR", group = "what")]
    cron: Option<String>,
    /// An interval, such as 90s
    #[arg(long, value_name = "DURATION", group = "what", value_parser = value::duration)]
    every: Option<Duration>,
    /// The time zone of the cron expression, such as Europe/Berlin [default: UTC]
    #[arg(long = "tz", value_name = "ZONE", requires = "cron", conflicts_with_all = ["job", "every"])]
    zone: Option<String>,
    /// How many
    #[arg(short = 'n', long = "count", default_value_t = 10, value_parser = value::count)]
    count: u32,
    /// Those later than this time (RFC 3339) [default: now]
    #[arg(long, value_name = "TIME", value_parser = value::instant)]
    from: Option<Millis>,
}

impl Next {
    /// Prints the slots.
    ///
    /// # Errors
    /// See [`CliError`].
    pub(super) async fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        let zones = zones::load();
        let schedule = match (&self.job, &self.cron, self.every) {
            (Some(job), ..) => schedule_of(job, global, zones).await?,
            (None, Some(cron), _) => {
                let zone = zones.get(self.zone.as_deref().unwrap_or("UTC"))?;
                Schedule::cron(cron, &zone)?
            }
            (None, None, Some(every)) => Schedule::every(every)?,
            (None, None, None) => unreachable!("clap requires one of them"),
        };
        let from = self.from.unwrap_or_else(clock::wall);
        let slots = slots(&schedule, from, self.count as usize);
        if slots.is_empty() {
            return Err(CliError::NoSlot { from });
        }
        if out.is_json() {
            for slot in &slots {
                out.object(&SlotRecord::new(&schedule, *slot))?;
            }
        } else {
            out.text(&table(&schedule, &slots).render(out.is_terminal(), out.paint()))?;
            out.flush()?;
            for hint in schedule.hints() {
                tracing::warn!("{schedule}: {hint}");
            }
        }
        Ok(Exit::Success)
    }
}

/// The schedule of a job in the plugin directory.
async fn schedule_of(job: &JobKey, global: &Global, zones: Zones) -> Result<Schedule, CliError> {
    let config = Arc::new(global.load()?);
    let catalog = plugins::scan(Arc::clone(&config), zones, Inspector, clock::wall()).await;
    let schedule_in = |spec: &JobSpec| spec.schedule.clone().ok_or_else(|| CliError::NoSchedule { job: job.clone() });
    if let Some(offered) = catalog.jobs.get(job) {
        return schedule_in(&offered.spec);
    }
    let word = Hosts::find(&config)?.word(job);
    if let Some(idle) = catalog.idle.iter().find(|idle| idle.spec.key == *job) {
        let reason = jobs::why_idle(idle);
        let Word::Serves(hosts) = word else { return Err(CliError::NotServed { job: job.clone(), reason }) };
        let hosts = hosts.join(", ");
        tracing::warn!("{reason}; these are the slots of the older version, which {hosts} goes on serving");
        return schedule_in(&idle.spec);
    }
    if let Word::Serves(hosts) = word {
        let hosts = hosts.join(", ");
        tracing::warn!("an older version of {job} goes on serving on {hosts}; when it is due is not known here");
    }
    // What is wrong with a manifest as a whole is told of every job that may stand in it.
    let is_of_job = |refused: &&Refused| jobs::refusal_of(refused, job) == Refusal::Yes;
    match catalog.refused.iter().find(is_of_job) {
        Some(refused) => Err(CliError::Config(refused.problems.clone())),
        None => Err(CliError::NoJob { job: job.clone() }),
    }
}

/// At most `count` slots later than `from` that the calendar can tell.
pub(super) fn slots(schedule: &Schedule, from: Millis, count: usize) -> Vec<Slot> {
    let next = |t| schedule.next_after(t).filter(|slot| Timestamp::from_millisecond(slot.0.0).is_ok());
    std::iter::successors(next(from), |slot| next(slot.0)).take(count).collect()
}

/// A slot.
#[derive(Debug, Serialize)]
struct SlotRecord {
    utc: String,
    local: String,
    timezone: String,
    notes: Vec<String>,
}

impl SlotRecord {
    fn new(schedule: &Schedule, slot: Slot) -> SlotRecord {
        SlotRecord {
            utc: slot.to_string(),
            local: local(slot, schedule.zone().tz()),
            timezone: schedule.zone().to_string(),
            notes: schedule.notes(slot),
        }
    }
}

fn table(schedule: &Schedule, slots: &[Slot]) -> Table {
    let mut table = Table::new(&["LOCAL", "ZONE", "UTC", "NOTES"]);
    for slot in slots {
        table.row(vec![
            (Colour::Plain, weekday_and_local(*slot, schedule.zone().tz())),
            (Colour::Dim, schedule.zone().to_string()),
            (Colour::Plain, slot.to_string()),
            (Colour::Warn, schedule.notes(*slot).join("; ")),
        ]);
    }
    table
}

/// The local time, RFC 3339 with offset and milliseconds.
pub(super) fn local(slot: Slot, zone: &TimeZone) -> String {
    at(slot, zone, "%Y-%m-%dT%H:%M:%S%.3f%:z")
}

fn weekday_and_local(slot: Slot, zone: &TimeZone) -> String {
    at(slot, zone, "%a %Y-%m-%d %H:%M:%S%.f %:z")
}

fn at(slot: Slot, zone: &TimeZone, format: &str) -> String {
    match Timestamp::from_millisecond(slot.0.0) {
        Ok(instant) => instant.to_zoned(zone.clone()).strftime(format).to_string(),
        // Outside the years of the calendar: the number is all there is to say.
        Err(_) => slot.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::output::Paint;
    use super::*;

    fn new_york(cron: &str) -> Schedule {
        Schedule::cron(cron, &Zones::bundled().get("America/New_York").unwrap()).unwrap()
    }

    #[test]
    fn slots_at_a_change_of_the_clock_are_told_local_and_utc_with_a_note() {
        let schedule = new_york("30 2 * * *");
        let from = value::instant("2025-03-08T12:00:00-05:00").unwrap();
        let found = slots(&schedule, from, 2);
        let lines = table(&schedule, &found).render(false, Paint(false));
        let lines: Vec<_> = lines.lines().collect();
        let (first, note) = lines[0].split_at(lines[0].find("  02:30").expect(lines[0]));
        assert_eq!(first, "Sun 2025-03-09 03:00:00 -04:00  America/New_York  2025-03-09T07:00:00.000Z");
        assert!(note.contains("does not exist"), "{note}");
        assert_eq!(lines[1], "Mon 2025-03-10 02:30:00 -04:00  America/New_York  2025-03-10T06:30:00.000Z");
    }

    #[test]
    fn a_slot_as_json_has_stable_names() {
        let schedule = new_york("30 2 * * *");
        let slot = slots(&schedule, value::instant("2025-03-10T00:00:00Z").unwrap(), 1)[0];
        let record = serde_json::to_string(&SlotRecord::new(&schedule, slot)).unwrap();
        assert_eq!(
            record,
            r#"{"utc":"2025-03-10T06:30:00.000Z","local":"2025-03-10T02:30:00.000-04:00","timezone":"America/New_York","notes":[]}"#
        );
    }

    #[test]
    fn no_slot_is_told_beyond_the_calendar() {
        let last = value::instant("9999-12-30T22:00:00Z").unwrap();
        let every = Schedule::every(Duration::from_secs(90)).unwrap();
        assert_eq!(slots(&every, last, 10), []);
        assert_eq!(slots(&new_york("0 0 * * *"), last, 10), []);
    }

    #[test]
    fn intervals_are_due_at_multiples_since_the_epoch() {
        let schedule = Schedule::every(Duration::from_secs(90)).unwrap();
        let found: Vec<_> = slots(&schedule, Millis(0), 2).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["1970-01-01T00:01:30.000Z", "1970-01-01T00:03:00.000Z"]);
    }
}
