//! Cancel, close, unblock and hold.

use leasehold_lease::id::{JobKey, RunId};
use leasehold_lease::op::{
    Accepted, Announce, Cancel, CancelAnswer, ClaimAnswer, ClaimKind, Close, CloseAnswer, Heartbeat, HeartbeatAnswer,
    Unblock, UnblockAnswer,
};
use leasehold_lease::run::{Hold, Outcome, Status};
use leasehold_lease::time::{Millis, Slot};

use super::bench::{Bench, TestClock, job, ms, on_demand, slot, success};

async fn cancel(bench: &Bench, job: &JobKey, run: &RunId) -> CancelAnswer {
    let cancel = Cancel { run: run.clone(), reason: "ä reason".into() };
    bench.store.cancel(job, &cancel).await.expect("an answer").answer
}

/// A run that nobody executes ends at once, a live one's runner is told with its next heartbeat.
pub async fn a_cancelled_run_ends_or_its_runner_is_told(bench: &Bench) {
    let (job, run) = (job("a"), slot(bench.now().await));
    assert_eq!(cancel(bench, &job, &run).await, CancelAnswer::None);
    bench.trigger(&job, "r").await;
    assert_eq!(cancel(bench, &job, &on_demand("r")).await, CancelAnswer::Interrupted);
    let ended = bench.look(&job, &on_demand("r")).await.expect("it is known").run;
    assert_eq!(ended.outcome, Some(Outcome::Interrupted { reason: "ä reason".into() }));
    let token = bench.win(&job, &run, &bench.terms()).await;
    assert_eq!(cancel(bench, &job, &run).await, CancelAnswer::Told);
    let beat = Heartbeat { run: run.clone(), token, progress: None };
    let beats = bench.store.heartbeats(&[(job.clone(), beat)]).await.expect("an answer");
    let told = beats[0].as_ref().expect("the record is sound").answer;
    assert!(matches!(told, HeartbeatAnswer::Renewed { cancelled: true, .. }), "{told:?}");
    let shown = bench.look(&job, &run).await.expect("it is known").run;
    assert_eq!(shown.cancelled.as_deref(), Some("ä reason"));
    // Its runner dies: nobody starts it again.
    bench.reach(bench.now().await + bench.lease() + ms(1)).await;
    let (_, answer) = bench.take_over(&job, &run).await;
    assert_eq!(answer, ClaimAnswer::Ended(Status::Interrupted));
    assert_eq!(cancel(bench, &job, &run).await, CancelAnswer::Ended(Status::Interrupted));
}

/// Only a run that nobody executes, of a job that no host has offered for long enough, is closed.
pub async fn an_orphan_is_closed(bench: &Bench) {
    let (job, run) = (job("a"), slot(bench.now().await));
    let unoffered_for = bench.lease() * 2;
    let close = async |run: &RunId| {
        let close = Close { run: run.clone(), unoffered_for, reason: "nobody offers it".into() };
        bench.store.close(&job, &close).await.expect("an answer").answer
    };
    assert_eq!(close(&run).await, CloseAnswer::None);
    bench.store.announce(&[(job.clone(), Announce { fingerprint: "x".into() })]).await.expect("an answer");
    bench.win(&job, &run, &bench.terms()).await;
    assert_eq!(close(&run).await, CloseAnswer::Live);
    let lease_end = bench.look(&job, &run).await.expect("it is known").run.lease_end;
    bench.reach(lease_end + ms(1)).await;
    assert_eq!(close(&run).await, CloseAnswer::Offered);
    bench.reach(lease_end + unoffered_for).await;
    assert_eq!(close(&run).await, CloseAnswer::Closed);
    assert_eq!(close(&run).await, CloseAnswer::Ended(Status::Interrupted));
    let ended = bench.look(&job, &run).await.expect("it is known").run;
    assert_eq!(ended.outcome, Some(Outcome::Interrupted { reason: "nobody offers it".into() }));
}

/// A job whose newest started slot lies in the future is freed, once nothing of that future runs.
pub async fn a_job_is_unblocked_when_its_clock_was_wrong(bench: &Bench) {
    if matches!(bench.clock, TestClock::Real) {
        return eprintln!("skipped: this store's clock cannot be set");
    }
    let job = job("a");
    let now = bench.now().await;
    let future = slot(now + ms(3_600_000));
    bench.reach(now + ms(3_600_000)).await;
    let token = bench.win(&job, &future, &bench.terms()).await;
    bench.reach(now).await;
    let unblock = async || {
        let unblock = Unblock { newest_due: Slot(now - ms(1_000)) };
        bench.store.unblock(&job, &unblock).await.expect("an answer").answer
    };
    let ask = bench.ask(&slot(now), ClaimKind::Slot, &bench.terms());
    let blocked = bench.send(&job, &ask).await;
    assert_eq!(blocked, ClaimAnswer::Superseded { newest_started: future.slot() });
    assert_eq!(unblock().await, UnblockAnswer::Live { run: future.clone() });
    bench.release(&job, &future, token).await;
    assert_eq!(unblock().await, UnblockAnswer::Unblocked);
    assert_eq!(unblock().await, UnblockAnswer::NotBlocked);
    let status = bench.look(&job, &future).await.expect("it is known").run.status;
    assert_eq!(status, Status::Interrupted);
    assert!(matches!(bench.send(&job, &ask).await, ClaimAnswer::Won { .. }), "its slots start again");
}

/// A held job skips its slots until it is let go; announcements and the list of jobs tell of it.
pub async fn a_held_job_skips_its_slots(bench: &Bench) {
    let job = job("a");
    let now = bench.now().await;
    let offer = [(job.clone(), Announce { fingerprint: "x".into() })];
    let hold = Hold { since: Some(now), until: None, note: "ä note".into() };
    bench.store.hold(&job, Some(&hold)).await.expect("an answer");
    let ask = bench.ask(&slot(now), ClaimKind::Slot, &bench.terms());
    assert_eq!(bench.send(&job, &ask).await, ClaimAnswer::Held { until: None });
    let told = bench.store.announce(&offer).await.expect("an answer");
    assert_eq!(told[0].as_ref().expect("the record is sound").answer.hold, Some(hold.clone()));
    assert_eq!(bench.store.jobs(None, 100).await.expect("jobs").answer[0].hold, Some(hold));
    bench.trigger(&job, "r").await;
    let token = bench.win(&job, &on_demand("r"), &bench.terms()).await;
    assert_eq!(bench.finish(&job, &on_demand("r"), token, success()).await, Accepted::Done);
    let until = bench.now().await + ms(200);
    bench
        .store
        .hold(&job, Some(&Hold { since: None, until: Some(until), note: String::new() }))
        .await
        .expect("an answer");
    bench.reach(until).await;
    assert!(matches!(bench.send(&job, &ask).await, ClaimAnswer::Won { .. }), "the hold is over");
    let before = bench.store.hold(&job, None).await.expect("an answer").revision;
    assert_eq!(bench.store.hold(&job, None).await.expect("an answer").revision, before, "nothing changes");
}

/// A slot that was held back does not start later, whether or not a host saw it: neither when the job was let go, nor when the
/// hold ended by itself. What was due before it or after it is.
pub async fn a_held_slot_does_not_start_later(bench: &Bench) {
    let (first, lasts) = (bench.now().await, ms(200));
    let jobs = |name: &str| [true, false].map(|let_go| (job(&format!("{name}/{let_go}")), let_go));
    let (before, within, after) = (jobs("before"), jobs("within"), jobs("after"));
    let all = || before.iter().chain(&within).chain(&after);
    let announce = |job: &JobKey| (job.clone(), Announce { fingerprint: "x".into() });
    bench.store.announce(&all().map(|(job, _)| announce(job)).collect::<Vec<_>>()).await.expect("an answer");
    bench.reach(bench.now().await + ms(10)).await;
    let since = bench.now().await;
    for (job, let_go) in all() {
        let hold = Hold { since: Some(since), until: (!let_go).then_some(since + lasts), note: String::new() };
        bench.store.hold(job, Some(&hold)).await.expect("an answer");
    }
    bench.reach(since + lasts).await;
    for (job, _) in all() {
        bench.store.hold(job, None).await.expect("an answer");
    }
    bench.reach(bench.now().await + ms(10)).await;
    let now = bench.now().await;
    let catch_up = async |job: &JobKey, at: Millis| {
        let ask = bench.ask(&slot(at), ClaimKind::CatchUp { age: now.since(first) }, &bench.terms());
        bench.send(job, &ask).await
    };
    for (job, let_go) in &within {
        // A host that saw it, and asks late.
        let own = bench.ask(&slot(since + lasts - ms(2)), ClaimKind::Slot, &bench.terms());
        let answer = bench.send(job, &own).await;
        assert!(matches!(answer, ClaimAnswer::Held { until: Some(_) }), "let go: {let_go}, {answer:?}");
        let answer = catch_up(job, since + lasts - ms(1)).await;
        assert!(matches!(answer, ClaimAnswer::Held { until: Some(_) }), "let go: {let_go}, {answer:?}");
        let known = bench.store.job(job).await.expect("an answer").answer.expect("the job");
        assert_eq!(known.newest_skipped, Some(Slot(since + lasts - ms(1))));
    }
    for (job, at) in before.iter().map(|(job, _)| (job, since - ms(1))).chain(after.iter().map(|(job, _)| (job, now))) {
        let answer = catch_up(job, at).await;
        assert!(matches!(answer, ClaimAnswer::Won { .. }), "{job}: {answer:?}");
    }
}
