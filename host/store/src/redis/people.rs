//! What hosts say of themselves, and what they were told: kept for people.

use leasehold_lease::id::{JobKey, RunId, RunKey};
use leasehold_lease::time::Millis;
use redis::Value;
use serde::{Deserialize, Serialize};

use super::RedisStore;
use super::batch::pieces;
use super::call::Call;
use super::decode::{Fields, unreadable};
use super::link::Limit;
use super::record::millis;
use super::writing::{maybe_bytes, texts};
use crate::error::StoreError;
use crate::view::{ANSWERS_KEPT, Checked, HOST_KEPT, HostAnswer, HostOrders, HostRecord, HostReport};
use crate::wire::{WireError, from_json, ms, to_json};

/// What a host was told, in one script; each may be some hundred bytes.
const TOLD: usize = 200;

/// [`HostAnswer`] as it is kept.
#[derive(Serialize, Deserialize)]
struct WireAnswer {
    run: RunKey,
    host: String,
    at: Millis,
    asked: String,
    answer: String,
    detail: String,
}

/// [`HostReport`] as it is kept.
#[derive(Serialize, Deserialize)]
struct WireReport {
    instance: String,
    name: String,
    version: String,
    clock_offset_ms: i64,
    details: String,
}

impl RedisStore {
    pub(super) async fn write_told(&self, told: &[HostAnswer]) -> Result<(), StoreError> {
        let pieces = pieces(told.iter().map(|told| &told.run.job.tenant), TOLD);
        let limit = Limit::of_a_call();
        // One after the other: they are kept in their order.
        for piece in &pieces {
            let mut call = Call::script(&self.server.scripts.told, &self.server.keys.tenant(&piece.tenant));
            call = call.arg(ANSWERS_KEPT);
            for told in piece.items.iter().map(|item| &told[*item]) {
                call = call.arg(told.run.job.name.as_str()).arg(to_json(&WireAnswer::from(told)));
            }
            self.calls.call_by(limit, "keeping what hosts were told", &call).await?;
        }
        Ok(())
    }

    pub(super) async fn read_told(
        &self,
        job: &JobKey,
        run: Option<&RunId>,
        limit: usize,
    ) -> Result<Vec<HostAnswer>, StoreError> {
        const DOING: &str = "reading what hosts were told";
        let call = Call::plain("LRANGE").arg(self.server.keys.job("told", job)).arg(0).arg(-1);
        let kept = texts("what hosts were told", self.calls.call(DOING, &call).await?).map_err(unreadable(DOING))?;
        let read = |text: &String| from_json::<WireAnswer>("what a host was told", text).map(HostAnswer::from);
        let told = kept.iter().map(read).collect::<Result<Vec<_>, _>>().map_err(unreadable(DOING))?;
        Ok(told.into_iter().filter(|told| run.is_none_or(|run| told.run.run == *run)).take(limit).collect())
    }

    pub(super) async fn write_report(&self, report: &HostReport) -> Result<Checked<HostOrders>, StoreError> {
        const DOING: &str = "reporting this host";
        let call = Call::script(&self.server.scripts.report, &self.server.keys.all())
            .arg(field(&report.name, &report.instance))
            .arg(&report.name)
            .arg(to_json(&WireReport::from(report)))
            .arg(ms(HOST_KEPT));
        let answer = self.calls.call(DOING, &call).await?;
        let read = || {
            let mut fields = Fields::of("an answer", answer)?;
            Ok(Checked { now: millis(&mut fields)?, answer: HostOrders { drain: fields.flag()? } })
        };
        read().map_err(unreadable(DOING))
    }

    pub(super) async fn read_hosts(&self) -> Result<Checked<Vec<HostRecord>>, StoreError> {
        const DOING: &str = "listing hosts";
        let call = Call::script(&self.server.scripts.hosts, &self.server.keys.all());
        let answer = self.calls.call(DOING, &call).await?;
        let read = || {
            let mut fields = Fields::of("an answer", answer)?;
            let now = millis(&mut fields)?;
            let mut hosts = fields.list("the hosts")?.rest().map(host).collect::<Result<Vec<_>, _>>()?;
            hosts.sort_by(|a, b| (&a.report.name, &a.report.instance).cmp(&(&b.report.name, &b.report.instance)));
            Ok(Checked { now, answer: hosts })
        };
        read().map_err(unreadable(DOING))
    }

    pub(super) async fn write_offers(&self, name: &str, instance: &str, offers: &str) -> Result<(), StoreError> {
        let call = Call::script(&self.server.scripts.offers, &self.server.keys.all());
        self.calls.call("keeping what this host offers", &call.arg(field(name, instance)).arg(offers)).await.map(drop)
    }

    pub(super) async fn read_offers(&self, name: &str, instance: &str) -> Result<Option<String>, StoreError> {
        const DOING: &str = "reading what a host offers";
        let call = Call::plain("HGET").arg(self.server.keys.all() + "hosts-offers").arg(field(name, instance));
        let bytes = maybe_bytes("what a host offers", self.calls.call(DOING, &call).await?);
        let text = |bytes| String::from_utf8(bytes).map_err(|error| WireError::new("what a host offers", error));
        bytes.and_then(|bytes| bytes.map(text).transpose()).map_err(unreadable(DOING))
    }

    pub(super) async fn write_drain(&self, host: &str, drain: bool) -> Result<usize, StoreError> {
        const DOING: &str = "asking a host to drain or to go on";
        let call = Call::script(&self.server.scripts.drain, &self.server.keys.all()).arg(host).arg(u8::from(drain));
        match self.calls.call(DOING, &call).await? {
            Value::Int(known) => usize::try_from(known).map_err(|error| unreadable(DOING)(WireError::new("it", error))),
            _ => Err(unreadable(DOING)(WireError::new("the number of hosts", "it is not a number"))),
        }
    }
}

/// A host's field. The length of the name tells where it ends, so no two hosts have the same text.
fn field(name: &str, instance: &str) -> String {
    format!("{}:{name}{instance}", name.len())
}

fn host(value: Value) -> Result<HostRecord, WireError> {
    let mut fields = Fields::of("a host", value)?;
    let report = from_json::<WireReport>("what a host said", &fields.text()?)?.into();
    let (first_seen, last_seen) = (millis(&mut fields)?, millis(&mut fields)?);
    Ok(HostRecord { report, first_seen, last_seen, orders: HostOrders { drain: fields.flag()? } })
}

impl From<&HostAnswer> for WireAnswer {
    fn from(told: &HostAnswer) -> WireAnswer {
        let HostAnswer { run, host, at, asked, answer, detail } = told.clone();
        WireAnswer { run, host, at, asked, answer, detail }
    }
}

impl From<WireAnswer> for HostAnswer {
    fn from(told: WireAnswer) -> HostAnswer {
        let WireAnswer { run, host, at, asked, answer, detail } = told;
        HostAnswer { run, host, at, asked, answer, detail }
    }
}

impl From<&HostReport> for WireReport {
    fn from(report: &HostReport) -> WireReport {
        let HostReport { instance, name, version, clock_offset_ms, details } = report.clone();
        WireReport { instance, name, version, clock_offset_ms, details }
    }
}

impl From<WireReport> for HostReport {
    fn from(report: WireReport) -> HostReport {
        let WireReport { instance, name, version, clock_offset_ms, details } = report;
        HostReport { instance, name, version, clock_offset_ms, details }
    }
}
