//! What is kept for people, as JSON that the server does not look into.

use std::borrow::Cow;

use leasehold_lease::id::{RunKey, hex};
use leasehold_lease::time::Millis;
use serde::{Deserialize, Serialize};

use crate::view::{HostAnswer, HostReport};
use crate::wire::to_json;

/// What a host was told, its run aside.
#[derive(Serialize, Deserialize)]
pub(super) struct Body<'a> {
    host: Cow<'a, str>,
    at: i64,
    asked: Cow<'a, str>,
    answer: Cow<'a, str>,
    detail: Cow<'a, str>,
}

impl<'a> From<&'a HostAnswer> for Body<'a> {
    fn from(told: &'a HostAnswer) -> Body<'a> {
        Body {
            host: told.host.as_str().into(),
            at: told.at.0,
            asked: told.asked.as_str().into(),
            answer: told.answer.as_str().into(),
            detail: told.detail.as_str().into(),
        }
    }
}

impl Body<'_> {
    /// With its run.
    pub(super) fn told(self, run: RunKey) -> HostAnswer {
        HostAnswer {
            run,
            host: self.host.into_owned(),
            at: Millis(self.at),
            asked: self.asked.into_owned(),
            answer: self.answer.into_owned(),
            detail: self.detail.into_owned(),
        }
    }
}

/// The request to keep what a host offers, or to tell it where nothing is to be kept.
pub(super) fn offers(name: &str, instance: &str, offers: Option<&str>) -> String {
    #[derive(Serialize)]
    struct Ask<'a> {
        name: String,
        instance: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        offers: Option<&'a str>,
    }
    to_json(&Ask { name: hex(name.as_bytes()), instance: hex(instance.as_bytes()), offers })
}

/// What a host says of itself.
#[derive(Serialize, Deserialize)]
pub(super) struct Report<'a> {
    instance: Cow<'a, str>,
    name: Cow<'a, str>,
    version: Cow<'a, str>,
    clock_offset_ms: i64,
    details: Cow<'a, str>,
}

impl<'a> From<&'a HostReport> for Report<'a> {
    fn from(report: &'a HostReport) -> Report<'a> {
        Report {
            instance: report.instance.as_str().into(),
            name: report.name.as_str().into(),
            version: report.version.as_str().into(),
            clock_offset_ms: report.clock_offset_ms,
            details: report.details.as_str().into(),
        }
    }
}

impl From<Report<'_>> for HostReport {
    fn from(report: Report<'_>) -> HostReport {
        HostReport {
            instance: report.instance.into_owned(),
            name: report.name.into_owned(),
            version: report.version.into_owned(),
            clock_offset_ms: report.clock_offset_ms,
            details: report.details.into_owned(),
        }
    }
}
