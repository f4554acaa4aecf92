//! Cancel, close, unblock and hold.

use leasehold_lease::id::{JobKey, RunId};
use leasehold_lease::op::{
    Accepted, Announce, Cancel, CancelAnswer, ClaimAnswer, ClaimKind, Close, CloseAnswer, Heartbeat, HeartbeatAnswer,
    Unblock, UnblockAnswer,
};
use leasehold_lease::run::{Hold, Outcome, Status};
use leasehold_lease::time::Slot;

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
    let hold = Hold { until: None, note: "ä note".into() };
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
    bench.store.hold(&job, Some(&Hold { until: Some(until), note: String::new() })).await.expect("an answer");
    bench.reach(until).await;
    assert!(matches!(bench.send(&job, &ask).await, ClaimAnswer::Won { .. }), "the hold is over");
    let before = bench.store.hold(&job, None).await.expect("an answer").revision;
    assert_eq!(bench.store.hold(&job, None).await.expect("an answer").revision, before, "nothing changes");
}

/// A slot that was held back is not caught up, whether or not a host saw it: neither when the job was let go, nor when the
/// hold ended by itself.
pub async fn a_held_slot_is_not_caught_up(bench: &Bench) {
    for let_go in [true, false] {
        let job = job(if let_go { "a" } else { "b" });
        let told = bench.store.announce(&[(job.clone(), Announce { fingerprint: "x".into() })]).await;
        let since = told.expect("an answer").remove(0).expect("the record is sound").answer.since;
        let until = since + ms(200);
        let hold = Hold { until: (!let_go).then_some(until), note: String::new() };
        bench.store.hold(&job, Some(&hold)).await.expect("an answer");
        bench.reach(until).await;
        if let_go {
            bench.store.hold(&job, None).await.expect("an answer");
        }
        let catch_up = async |at| {
            let age = bench.now().await.since(at);
            bench.send(&job, &bench.ask(&slot(at), ClaimKind::CatchUp { age }, &bench.terms())).await
        };
        assert_eq!(catch_up(until - ms(1)).await, ClaimAnswer::Superseded { newest_started: None });
        let unblock = Unblock { newest_due: Slot(since) };
        let unblocked = bench.store.unblock(&job, &unblock).await.expect("an answer").answer;
        assert_eq!(unblocked, UnblockAnswer::NotBlocked, "the end of a hold blocks nothing");
        bench.reach(until + ms(100)).await;
        assert!(matches!(catch_up(until + ms(100)).await, ClaimAnswer::Won { .. }), "what came after it is");
    }
}
