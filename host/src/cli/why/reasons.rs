//! What follows from the record of a run that nobody executes, and of a slot that no host has told of.

use std::time::Duration;

use leasehold_lease::id::{RunId, RunKey};
use leasehold_lease::op::unoffered_after;
use leasehold_lease::run::Status;
use leasehold_lease::time::{Millis, Slot};
use leasehold_store::{JobView, RunView};

use super::super::hosts::HostRow;
use super::super::text::{brief, plain};

/// Hosts that are named.
const NAMED: usize = 5;

/// What the store knows around a run.
pub(super) struct Around<'a> {
    /// The store's clock.
    pub(super) now: Millis,
    pub(super) job: &'a JobView,
    pub(super) run: &'a RunId,
    /// None where there is no record of it.
    pub(super) view: Option<&'a RunView>,
    pub(super) hosts: &'a [HostRow],
    /// Another run of the job that is executed.
    pub(super) running: Option<&'a RunKey>,
}

/// Sentences, the most telling first; none where the record tells nothing, or the run is executed or has ended.
pub(super) fn reasons(around: &Around<'_>) -> Vec<String> {
    match (around.view, around.run) {
        (None, RunId::Slot(slot)) => of_slot(around, *slot),
        (None, RunId::OnDemand(_)) => Vec::new(),
        (Some(view), _) if view.run.status.is_final() || view.run.live(around.now) => Vec::new(),
        (Some(view), _) => {
            let is_expired = view.run.status == Status::Running;
            let mut reasons = who_could(around);
            reasons.extend(around.running.map(|other| {
                format!(
                    "{} is running: where overlap is \"skip\", this one waits for it",
                    plain(&other.run.to_string())
                )
            }));
            if reasons.is_empty() {
                let what = if is_expired { "goes on with it" } else { "starts it" };
                reasons.push(format!(
                    "a host that has its plugin and a free place {what} within two heartbeats; `leasehold hosts` tells when \
                     each was heard of last"
                ));
            }
            if is_expired && view.key.run.slot().is_some() {
                reasons.push("where a newer slot is due, that one replaces it".to_owned());
            }
            reasons
        }
    }
}

/// Of a slot without a record.
fn of_slot(around: &Around<'_>, slot: Slot) -> Vec<String> {
    let JobView { newest_started, newest_skipped, since, hold, .. } = around.job;
    if slot.0 > around.now {
        return vec!["it is not due yet".to_owned()];
    }
    let mut reasons = Vec::new();
    match newest_started {
        Some(newest) if *newest == slot => {
            let told = "it has started, and its record was pruned (history_size), or `leasehold unblock` counted it as started";
            return vec![told.to_owned()];
        }
        Some(newest) if *newest > slot => reasons.push(format!(
            "{newest} has started since, so it cannot start any more; if it has, its record was pruned (history_size)"
        )),
        _ => {}
    }
    if let Some(since) = since.filter(|since| slot.0 < *since) {
        let what = "the job was announced first, or its schedule changed, or it was unblocked";
        reasons.push(format!("{what}, at {since}: nothing before is caught up"));
    } else if let Some(hold) = hold.as_ref().filter(|hold| hold.covers(slot)) {
        let until = hold.until.map_or_else(|| "it is resumed".to_owned(), |until| until.to_string());
        reasons.push(format!("the job was paused then, until {until} ({})", brief(&hold.note, 200)));
    } else if let Some(newest) = newest_skipped.filter(|newest| *newest >= slot && *newest_started < Some(slot)) {
        reasons.push(format!("slots up to {newest} were skipped, and are not caught up"));
    }
    if reasons.is_empty() {
        reasons = who_could(around);
    }
    reasons.push("`leasehold next` lists a schedule's slots: at other times nothing is due".to_owned());
    reasons
}

/// Why no host takes anything of this job.
fn who_could(around: &Around<'_>) -> Vec<String> {
    let there: Vec<&HostRow> = around.hosts.iter().filter(|host| host.is_there()).collect();
    let busy = |host: &&HostRow| {
        let state = if host.state.is_empty() { "of another version" } else { &host.state };
        format!("{} is {}", brief(&host.host, 64), plain(state))
    };
    if there.is_empty() {
        return vec!["no host is there (`leasehold hosts`)".to_owned()];
    }
    if there.iter().all(|host| host.state != "serving") {
        let mut named: Vec<String> = there.iter().take(NAMED).map(busy).collect();
        if there.len() > NAMED {
            named.push("…".to_owned());
        }
        return vec![format!("no host takes anything new: {}", named.join(", "))];
    }
    let mut serving = there.iter().filter(|host| host.state == "serving");
    if serving.all(|host| host.running >= host.concurrency) {
        return vec!["every host that serves is full (`leasehold hosts`)".to_owned()];
    }
    let current = around.view.and_then(|view| view.run.current());
    let lease = current.map_or(Duration::ZERO, |attempt| attempt.terms.lease);
    match around.job.last_offered {
        Some(at) if around.now.since(at) <= unoffered_after(lease) => Vec::new(),
        Some(at) => vec![format!("no host has offered the job since {at}")],
        None => vec!["no host has ever offered the job".to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use leasehold_lease::run::{Hold, Run};
    use leasehold_store::{HostOrders, HostRecord, HostReport};

    use super::*;

    const NOW: Millis = Millis(1_000_000);

    fn job() -> JobView {
        JobView {
            key: "a/x".parse().expect("a job"),
            revision: 1,
            newest_started: None,
            newest_skipped: None,
            since: Some(Millis(0)),
            fingerprint: String::new(),
            last_offered: Some(NOW),
            hold: None,
            stored: 0,
            unfinished: 0,
            last: None,
        }
    }

    fn host(name: &str, state: &str) -> HostRow {
        host_with(name, state, 1)
    }

    fn host_with(name: &str, state: &str, running: u64) -> HostRow {
        let report = HostReport {
            instance: name.into(),
            name: name.into(),
            version: "0".into(),
            clock_offset_ms: 0,
            details: format!(r#"{{"state":"{state}","running":{running},"concurrency":2}}"#),
        };
        let record = HostRecord { report, first_seen: NOW, last_seen: NOW, orders: HostOrders::default() };
        HostRow::new(&record, NOW)
    }

    fn of(job: &JobView, hosts: &[HostRow], slot: i64) -> String {
        let run = RunId::Slot(Slot(Millis(slot)));
        reasons(&Around { now: NOW, job, run: &run, view: None, hosts, running: None }).join("\n")
    }

    #[test]
    fn a_slot_without_a_record_is_explained_by_what_the_job_remembers() {
        let hosts = [host("one", "serving")];
        assert_eq!(of(&job(), &hosts, NOW.0 + 1), "it is not due yet");
        let started = JobView { newest_started: Some(Slot(Millis(900_000))), ..job() };
        assert!(of(&started, &hosts, 900_000).contains("its record was pruned"));
        assert!(of(&started, &hosts, 840_000).contains("has started since"));
        assert!(!of(&started, &hosts, 960_000).contains("started"));
        let skipped = JobView { newest_skipped: Some(Slot(Millis(900_000))), ..job() };
        assert!(of(&skipped, &hosts, 900_000).contains("skipped"));
        assert!(!of(&skipped, &hosts, 960_000).contains("skipped"));
        let changed = JobView { since: Some(Millis(900_000)), ..job() };
        assert!(of(&changed, &hosts, 840_000).contains("announced first"));
        let hold = Hold { since: Some(Millis(900_000)), until: Some(Millis(950_000)), note: "backup\n".to_owned() };
        let held = JobView { hold: Some(hold), ..job() };
        assert!(of(&held, &hosts, 900_000).contains("was paused then, until 1970-01-01T00:15:50.000Z (backup\\n)"));
        assert!(!of(&held, &hosts, 960_000).contains("paused"));
    }

    #[test]
    fn who_takes_nothing_is_named() {
        let draining = [host("one", "draining"), host("two\n", "stopping"), host("three", "stopped")];
        assert!(
            of(&job(), &draining, 960_000)
                .starts_with("no host takes anything new: one is draining, two\\n is stopping\n")
        );
        assert!(of(&job(), &[], 960_000).starts_with("no host is there"));
        let serving = [host("one", "draining"), host("two", "serving")];
        assert!(!of(&job(), &serving, 960_000).contains("host"));
        let full = [host("one", "draining"), host_with("two", "serving", 2)];
        assert!(of(&job(), &full, 960_000).starts_with("every host that serves is full"));
        let withdrawn = JobView { last_offered: Some(Millis(0)), ..job() };
        assert!(of(&withdrawn, &serving, 960_000).starts_with("no host has offered the job since"));
    }

    #[test]
    fn a_run_that_waits_says_for_what_and_one_that_does_not_says_nothing() {
        let job = job();
        let key = RunKey { job: job.key.clone(), run: RunId::OnDemand("b".parse().expect("an id")) };
        let mut view = RunView { key, run: Run::new(NOW, None) };
        let other = RunKey { job: job.key.clone(), run: RunId::OnDemand("a".parse().expect("an id")) };
        let hosts = [host("one", "serving")];
        let said = |view: &RunView, running, hosts| {
            let around = Around { now: NOW, job: &job, run: &view.key.run, view: Some(view), hosts, running };
            reasons(&around).join("\n")
        };
        assert!(said(&view, None, &hosts).contains("starts it within two heartbeats"));
        assert!(said(&view, Some(&other), &hosts).starts_with("a is running"));
        assert!(said(&view, None, &[]).starts_with("no host is there"));
        view.run.status = Status::Success;
        assert_eq!(said(&view, None, &[]), "");
        view.run.status = Status::Running;
        view.run.lease_end = NOW;
        assert_eq!(said(&view, None, &[]), "");
        view.run.lease_end = NOW - Duration::from_secs(1);
        assert!(said(&view, None, &hosts).contains("goes on with it"));
    }
}
