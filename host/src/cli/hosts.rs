//! `leasehold hosts`: the hosts that share the store, and what each says of itself.

use clap::Args;
use leasehold::fellows::{HostDetails, HostOffers, PluginDetails, is_silent};
use leasehold_lease::time::Millis;
use leasehold_store::{Checked, HostRecord};
use serde::Serialize;

use super::error::CliError;
use super::output::{Colour, Output, Table};
use super::text::{brief, duration_ms, plain};
use super::{Exit, Global, store};

/// The arguments of `leasehold hosts`.
#[derive(Debug, Args)]
pub(super) struct Hosts {}

impl Hosts {
    /// Prints the hosts.
    ///
    /// # Errors
    /// See [`CliError`].
    pub(super) async fn run(&self, global: &Global, out: &mut Output) -> Result<Exit, CliError> {
        let config = global.load()?;
        let store = store::open_existing(&config.store).await?;
        let Checked { now, answer } = store.hosts().await?;
        let mut rows: Vec<HostRow> = answer.iter().map(|host| HostRow::new(host, now)).collect();
        // Those that are there first; each part by name.
        rows.sort_by_key(|row| !row.is_there());
        if out.is_json() {
            for row in rows.iter_mut().filter(|row| row.is_there()) {
                let offers = store.host_offers(&row.host, &row.instance).await?;
                row.plugins = offers.map(|offers| HostOffers::read(&offers).plugins).unwrap_or_default();
            }
            rows.iter().try_for_each(|row| out.object(row))?;
        } else {
            out.text(&table(&rows).render(out.is_terminal(), out.paint()))?;
        }
        Ok(Exit::Success)
    }
}

/// A host, as it is shown.
#[derive(Debug, Serialize)]
pub(super) struct HostRow {
    pub(super) host: String,
    instance: String,
    /// "serving", "draining", "stopping", "stopped", or "silent" for one that has not said so itself.
    pub(super) state: String,
    version: String,
    first_seen: String,
    last_seen: String,
    /// For how long it has not been heard of.
    silent_ms: u64,
    /// Its clock minus the store's.
    clock_offset_ms: i64,
    pub(super) running: u64,
    pub(super) concurrency: u64,
    jobs: u64,
    /// Those of a host that is there.
    plugins: Vec<PluginDetails>,
    #[serde(skip)]
    plugin_count: u64,
}

impl HostRow {
    pub(super) fn new(host: &HostRecord, now: Millis) -> HostRow {
        let details = HostDetails::read(&host.report.details);
        let silent = now.since(host.last_seen);
        let state = match details.state.as_str() {
            "stopped" => "stopped",
            _ if is_silent(host, now) => "silent",
            "stopping" => "stopping",
            // It hears of it with its next report.
            _ if host.orders.drain => "draining",
            state => state,
        };
        HostRow {
            host: host.report.name.clone(),
            instance: host.report.instance.clone(),
            state: state.to_owned(),
            version: host.report.version.clone(),
            first_seen: host.first_seen.to_string(),
            last_seen: host.last_seen.to_string(),
            silent_ms: u64::try_from(silent.as_millis()).unwrap_or(u64::MAX),
            clock_offset_ms: host.report.clock_offset_ms,
            running: details.running,
            concurrency: details.concurrency,
            jobs: details.jobs,
            plugins: Vec::new(),
            plugin_count: details.plugins,
        }
    }
}

impl HostRow {
    /// It has been heard of and has not stopped.
    pub(super) fn is_there(&self) -> bool {
        !matches!(self.state.as_str(), "stopped" | "silent")
    }
}

fn table(rows: &[HostRow]) -> Table {
    let mut table =
        Table::new(&["HOST", "STATE", "SEEN", "CLOCK", "RUNNING", "JOBS", "PLUGINS", "VERSION", "INSTANCE"]);
    for row in rows {
        let state = match row.state.as_str() {
            "serving" => Colour::Good,
            "silent" => Colour::Bad,
            "draining" | "stopping" => Colour::Warn,
            _ => Colour::Dim,
        };
        let clock = if row.clock_offset_ms.abs() > 1_000 { Colour::Bad } else { Colour::Dim };
        table.row(vec![
            (Colour::Plain, brief(&row.host, 64)),
            (state, brief(&row.state, 16)),
            (Colour::Plain, format!("{} ago", duration_ms(row.silent_ms))),
            (clock, format!("{:+} ms", row.clock_offset_ms)),
            (Colour::Plain, format!("{}/{}", row.running, row.concurrency)),
            (Colour::Plain, row.jobs.to_string()),
            (Colour::Plain, row.plugin_count.to_string()),
            (Colour::Dim, brief(&row.version, 16)),
            (Colour::Dim, plain(&row.instance.chars().take(8).collect::<String>())),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use leasehold_store::{HostOrders, HostReport};

    use super::super::output::Paint;
    use super::*;

    fn record(details: &str, last_seen: i64, drain: bool) -> HostRecord {
        let report = HostReport {
            instance: "0123456789abcdef".into(),
            name: "web-1\u{1b}[2J".into(),
            version: "0.1.0".into(),
            clock_offset_ms: -12,
            details: details.into(),
        };
        HostRecord { report, first_seen: Millis(0), last_seen: Millis(last_seen), orders: HostOrders { drain } }
    }

    #[test]
    fn a_host_s_state_is_what_it_says_unless_it_says_nothing_or_was_asked_to_drain() {
        let state = |details, last_seen, drain| HostRow::new(&record(details, last_seen, drain), Millis(60_000)).state;
        let serving = r#"{"state":"serving"}"#;
        assert_eq!(state(serving, 59_000, false), "serving");
        assert_eq!(state(serving, 59_000, true), "draining");
        assert_eq!(state(r#"{"state":"stopping"}"#, 59_000, true), "stopping");
        assert_eq!(state(serving, 40_000, false), "silent");
        assert_eq!(state(r#"{"state":"stopped"}"#, 0, true), "stopped");
    }

    #[test]
    fn a_host_stands_on_one_line_and_steers_nothing() {
        let details = r#"{"state":"serving","running":2,"concurrency":8,"jobs":3,"plugins":1}"#;
        let rows = [HostRow::new(&record(details, 1_000, false), Millis(3_500))];
        let line = table(&rows).render(false, Paint(false));
        assert_eq!(line, "web-1\\u{1b}[2J  serving  2.5 s ago  -12 ms  2/8  3  1  0.1.0  01234567\n");
    }
}
