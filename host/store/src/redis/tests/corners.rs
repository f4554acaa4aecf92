//! Corners of the rules that the scripts reach by ways of their own.

use leasehold_lease::id::{JobKey, RunKey};
use leasehold_lease::op::{
    Accepted, Cancel, CancelAnswer, Claim, ClaimAnswer, ClaimKind, Finish, Unblock, UnblockAnswer,
};
use leasehold_lease::policy::Terms;
use leasehold_lease::run::{Outcome, Status, Usage};
use leasehold_lease::time::{Millis, Slot};
use leasehold_lease::write::{Change, Quota, Write, Written};

use super::support::on_a_set_clock;
use crate::conformance::{Bench, TestClock};
use crate::test_support::{claim, finish, job, slot, win};
use crate::view::JobView;

/// Makes a test of each corner; the faults run them too.
macro_rules! corners {
    ($($corner:ident)*) => {
        mod corner {
            $(
                #[tokio::test]
                async fn $corner() {
                    if let Some(bench) = super::on_a_set_clock(leasehold_test_servers::shared_redis().await).await {
                        super::$corner(&bench).await;
                    }
                }
            )*
        }
    };
}

corners! {
    a_run_that_a_newer_one_has_outrun_is_not_taken_over
    a_pruned_slot_is_not_won_again
    a_run_that_the_store_gave_up_was_not_finished
    the_first_reason_of_a_cancel_stays
    unblocking_goes_no_further_than_the_present
    what_shrinks_is_written_beyond_the_quota
    a_run_above_the_newest_started_slot_is_not_pruned
    a_run_is_kept_until_a_claim_for_it_is_late
}

async fn set(bench: &Bench, at: Millis) {
    let TestClock::Remote(clock) = &bench.clock else { unreachable!("these benches have a clock that is set") };
    clock.set(at).await;
}

async fn now(bench: &Bench) -> Millis {
    bench.store.now().await.expect("the time")
}

async fn view(bench: &Bench, job: &JobKey) -> JobView {
    let jobs = bench.store.jobs(None, 100).await.expect("jobs").answer;
    jobs.into_iter().find(|view| view.key == *job).expect("the job")
}

/// A claim that leaves no doubt how long its run is kept: ten seconds.
fn short(at: Millis) -> Claim {
    let none = std::time::Duration::ZERO;
    let ask = claim(slot(at));
    Claim { terms: Terms { catch_up: none, max_late: none, ..ask.terms.clone() }, ..ask }
}

async fn won(bench: &Bench, job: &JobKey, ask: &Claim) {
    let answer = bench.store.claim(job, ask).await.expect("an answer").answer;
    assert!(matches!(answer, ClaimAnswer::Won { .. }), "{answer:?}");
}

pub(super) async fn a_run_that_a_newer_one_has_outrun_is_not_taken_over(bench: &Bench) {
    let (job, start) = (job("a"), now(bench).await);
    let old = win(&*bench.store, &job, start).await;
    // Both are live when the newer one starts, so it settles nothing.
    win(&*bench.store, &job, Millis(start.0 + 1)).await;
    set(bench, Millis(start.0 + 60_000)).await;
    let ask = Claim { kind: ClaimKind::Takeover, ..claim(old.run) };
    let answer = bench.store.claim(&job, &ask).await.expect("an answer").answer;
    assert_eq!(answer, ClaimAnswer::Ended(Status::Interrupted));
}

pub(super) async fn a_pruned_slot_is_not_won_again(bench: &Bench) {
    let (job, start) = (job("a"), now(bench).await);
    let ask = short(start);
    won(bench, &job, &ask).await;
    finish(&*bench.store, &job, &ask).await.expect("an answer");
    set(bench, Millis(start.0 + 10_001)).await;
    assert_eq!(bench.store.prune(&job, 0).await.expect("an answer").answer, 1);
    // S10: with bounds that would let it in.
    let answer = bench.store.claim(&job, &claim(slot(start))).await.expect("an answer").answer;
    assert_eq!(answer, ClaimAnswer::Superseded { newest_started: Some(Slot(start)) });
}

pub(super) async fn a_run_that_the_store_gave_up_was_not_finished(bench: &Bench) {
    let (job, start) = (job("a"), now(bench).await);
    let ask = win(&*bench.store, &job, start).await;
    set(bench, Millis(start.0 + 60_000)).await;
    let cancel = Cancel { run: ask.run.clone(), reason: "asked".into() };
    let cancelled = bench.store.cancel(&job, &cancel).await.expect("an answer").answer;
    assert_eq!(cancelled, CancelAnswer::Interrupted);
    // The same outcome in the same words, and by the run's own token: it is not the attempt that said so.
    let outcome = Outcome::Interrupted { reason: "asked".into() };
    let late = Finish { run: ask.run, token: ask.token, outcome, usage: Usage::default() };
    assert_eq!(bench.store.finish(&job, &late).await.expect("an answer").answer, Accepted::Refused);
}

pub(super) async fn the_first_reason_of_a_cancel_stays(bench: &Bench) {
    let (job, start) = (job("a"), now(bench).await);
    let ask = win(&*bench.store, &job, start).await;
    let cancel = |reason: &str| Cancel { run: ask.run.clone(), reason: reason.into() };
    let first = bench.store.cancel(&job, &cancel("first")).await.expect("an answer");
    let second = bench.store.cancel(&job, &cancel("second")).await.expect("an answer");
    assert_eq!((first.answer, second.answer), (CancelAnswer::Told, CancelAnswer::Told));
    assert_eq!(first.revision, second.revision, "nothing has changed");
    let key = RunKey { job, run: ask.run };
    let run = bench.store.show(&key).await.expect("an answer").answer.expect("the run").run;
    assert_eq!(run.cancelled.as_deref(), Some("first"));
}

/// Starts a slot and sets the clock back by an hour: the job is blocked.
async fn blocked(bench: &Bench, job: &JobKey) -> (Claim, Millis) {
    let ahead = now(bench).await;
    let ask = short(ahead);
    won(bench, job, &ask).await;
    finish(&*bench.store, job, &ask).await.expect("an answer");
    let back = Millis(ahead.0 - 3_600_000);
    set(bench, back).await;
    (ask, back)
}

pub(super) async fn unblocking_goes_no_further_than_the_present(bench: &Bench) {
    let job = job("a");
    let (_, back) = blocked(bench, &job).await;
    // Whoever asks has a clock that is wrong too.
    let unblock = Unblock { newest_due: Slot(Millis(back.0 + 1_000)) };
    let answer = bench.store.unblock(&job, &unblock).await.expect("an answer").answer;
    assert_eq!(answer, UnblockAnswer::Unblocked);
    assert_eq!(view(bench, &job).await.newest_started, Some(Slot(back)));
}

pub(super) async fn what_shrinks_is_written_beyond_the_quota(bench: &Bench) {
    let (job, start) = (job("a"), now(bench).await);
    let ask = win(&*bench.store, &job, start).await;
    let quota = |stored| Quota { value: 1_000, stored };
    let set = |number, bytes: usize, quota| {
        let change = Change::KvSet { key: "k".into(), value: vec![7; bytes] };
        Write { run: ask.run.clone(), token: ask.token, number, quota, change }
    };
    let sent = async |write: Write| bench.store.write(&job, &write).await.expect("an answer").answer;
    assert_eq!(sent(set(1, 500, quota(1_000))).await, Written::Done);
    // The quota has been lowered.
    assert_eq!(sent(set(2, 501, quota(100))).await, Written::OverQuota);
    assert_eq!(sent(set(3, 499, quota(100))).await, Written::Done);
}

pub(super) async fn a_run_above_the_newest_started_slot_is_not_pruned(bench: &Bench) {
    let job = job("a");
    let (ask, back) = blocked(bench, &job).await;
    let unblock = Unblock { newest_due: Slot(back) };
    bench.store.unblock(&job, &unblock).await.expect("an answer");
    let ahead = ask.run.slot().expect("a slot").0;
    set(bench, Millis(ahead.0 + 60_000)).await;
    // S10: its record alone says that it has run.
    assert_eq!(bench.store.prune(&job, 0).await.expect("an answer").answer, 0);
    let answer = bench.store.claim(&job, &claim(ask.run)).await.expect("an answer").answer;
    assert_eq!(answer, ClaimAnswer::Ended(Status::Success));
}

pub(super) async fn a_run_is_kept_until_a_claim_for_it_is_late(bench: &Bench) {
    let (job, start) = (job("a"), now(bench).await);
    // It starts and ends before it is due, by a clock that runs ahead.
    let due = Millis(start.0 + 5_000);
    let ask = short(due);
    won(bench, &job, &ask).await;
    finish(&*bench.store, &job, &ask).await.expect("an answer");
    set(bench, Millis(due.0 + 10_000)).await;
    assert_eq!(bench.store.prune(&job, 0).await.expect("an answer").answer, 0, "S15: in time to the millisecond");
    set(bench, Millis(due.0 + 10_001)).await;
    assert_eq!(bench.store.prune(&job, 0).await.expect("an answer").answer, 1);
}
