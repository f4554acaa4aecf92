//! Sequences that broke earlier wordings of the contract, and corners of it: step by step as the rules say.

use std::time::Duration;

use leasehold_lease::id::{RunId, Token};
use leasehold_lease::op::{
    Accepted, Announce, Answer, Cancel, Claim, ClaimAnswer, ClaimKind, Finish, Heartbeat, HeartbeatAnswer, Op, Release,
    Trigger, TriggerAnswer, Unblock, UnblockAnswer, WriteAnswer,
};
use leasehold_lease::policy::{Overlap, Terms};
use leasehold_lease::run::{Outcome, Status, Usage};
use leasehold_lease::time::{Millis, Slot};
use leasehold_lease::write::{Around, Change, Quota, Write, Written};

use super::bench::{Bench, TestClock, job, on_demand, slot, success};
use super::expected::Expected;

/// Millisecond 0 of each sequence.
const START: i64 = 1_700_000_000_000;

const fn at(ms: i64) -> Millis {
    Millis(START + ms)
}

fn due(ms: i64) -> RunId {
    slot(at(ms))
}

/// Does these, each at its millisecond, compares each with the rules, and answers what the rules did. None where the
/// store's clock cannot be set, which is said.
async fn play(bench: &Bench, steps: Vec<(i64, Op)>) -> Option<(Vec<Answer>, Expected)> {
    if matches!(bench.clock, TestClock::Real) {
        eprintln!("skipped: this store's clock cannot be set");
        return None;
    }
    let key = job("traces/job");
    let (mut expected, mut answers) = (Expected::default(), Vec::new());
    for (ms, op) in steps {
        let op = match op {
            Op::Write { write, .. } => Op::Write { around: expected.around(&write.change), write },
            op => op,
        };
        bench.reach(at(ms)).await;
        let told = format!("at {ms} ms, {op:?}");
        answers.push(expected.step(bench, &key, at(ms), &op, &told).await);
        expected.same_unfinished(bench, &key, &told).await;
        expected.same_history(bench, &key, &told).await;
        expected.same_job(bench, &key, &told).await;
        expected.same_beside(bench, &key, &told).await;
    }
    Some((answers, expected))
}

/// The contract's policy; a run is kept for 310 s.
fn terms() -> Terms {
    Terms {
        lease: Duration::from_secs(30),
        max_attempts: 3,
        overlap: Overlap::Skip,
        catch_up: Duration::from_secs(300),
        max_late: Duration::from_secs(60),
        history_size: 100,
    }
}

fn allowing() -> Terms {
    Terms { overlap: Overlap::Allow, ..terms() }
}

/// A run is kept for 10 s only.
fn short() -> Terms {
    Terms { catch_up: Duration::ZERO, max_late: Duration::ZERO, ..terms() }
}

fn ask(run: RunId, kind: ClaimKind, with: u8, terms: Terms) -> Claim {
    let (runner, not_after) = (format!("host-{with}"), Millis(i64::MAX));
    Claim { run, kind, token: Token([with; 16]), runner, digest: None, terms, not_after }
}

fn claim(run: RunId, with: u8, terms: Terms) -> Op {
    let kind = if run.slot().is_some() { ClaimKind::Slot } else { ClaimKind::OnDemand };
    Op::Claim(ask(run, kind, with, terms))
}

fn take_over(run: RunId, with: u8, terms: Terms) -> Op {
    Op::Claim(ask(run, ClaimKind::Takeover, with, terms))
}

fn beat(run: RunId, with: u8) -> Op {
    Op::Heartbeat(Heartbeat { run, token: Token([with; 16]), progress: None })
}

fn finish(run: RunId, with: u8) -> Op {
    Op::Finish(Finish { run, token: Token([with; 16]), outcome: success(), usage: Usage::default() })
}

fn release(run: RunId, with: u8) -> Op {
    Op::Release(Release { run, token: Token([with; 16]), usage: Usage::default() })
}

fn cancel(run: RunId, reason: &str) -> Op {
    Op::Cancel(Cancel { run, reason: reason.into() })
}

fn unblock(newest_due: i64) -> Op {
    Op::Unblock(Unblock { newest_due: Slot(at(newest_due)) })
}

fn trigger(id: &str) -> Op {
    let RunId::OnDemand(id) = on_demand(id) else { unreachable!("an on-demand run has an id") };
    Op::Trigger(Trigger { id, payload: Some(b"payload".to_vec()), pending_max: 2 })
}

fn announce(fingerprint: &str) -> Op {
    Op::Announce(Announce { fingerprint: fingerprint.into() })
}

fn prune() -> Op {
    Op::Prune { history_size: 0 }
}

fn set(run: RunId, with: u8, number: u64, bytes: usize, stored: u64) -> Op {
    let change = Change::KvSet { key: "k".into(), value: vec![7; bytes] };
    let write = Write { run, token: Token([with; 16]), number, quota: Quota { value: 1_000, stored }, change };
    Op::Write { write, around: Around::default() }
}

fn won(answer: &Answer) -> bool {
    matches!(answer, Answer::Claim(ClaimAnswer::Won { .. }))
}

const ENDED: Answer = Answer::Claim(ClaimAnswer::Ended(Status::Interrupted));
const REFUSED: Answer = Answer::Heartbeat(HeartbeatAnswer::Refused);

/// S7: a scheduled run expired, an on-demand run won, and the clock is set back: never two live runs under skip.
pub async fn a_clock_set_back_revives_nothing_that_a_win_found_expired(bench: &Bench) {
    let steps = vec![
        (0, trigger("r")),
        (0, claim(due(0), 1, terms())),
        (40_000, claim(on_demand("r"), 2, terms())),
        (10_000, beat(due(0), 1)),
        (40_000, beat(due(0), 1)),
        (1_000_000, beat(due(0), 1)),
    ];
    let Some((answers, _)) = play(bench, steps).await else { return };
    assert!(won(&answers[1]) && won(&answers[2]), "{answers:?}");
    assert_eq!(answers[3..], [REFUSED, REFUSED, REFUSED]);
}

/// A clock that was ahead blocks a job until it is unblocked; a takeover of the future run does not block it again.
pub async fn a_takeover_of_a_future_run_does_not_block_its_job_again(bench: &Bench) {
    const AHEAD: i64 = 3_600_000;
    let steps = vec![
        (AHEAD, claim(due(AHEAD), 1, terms())),
        (AHEAD, release(due(AHEAD), 1)),
        (0, claim(due(0), 2, terms())),
        (0, unblock(0)),
        (1, take_over(due(AHEAD), 3, terms())),
        (5_000, claim(due(5_000), 4, terms())),
        (6_000, finish(due(5_000), 4)),
        (AHEAD, claim(due(AHEAD), 5, terms())),
    ];
    let Some((answers, expected)) = play(bench, steps).await else { return };
    assert_eq!(answers[2], Answer::Claim(ClaimAnswer::Superseded { newest_started: Some(Slot(at(AHEAD))) }));
    assert_eq!(answers[3], Answer::Unblock(UnblockAnswer::Unblocked));
    assert!(won(&answers[5]), "{answers:?}");
    assert_eq!((&answers[4], &answers[7]), (&ENDED, &ENDED), "it was given up, and never starts twice");
    assert_eq!(expected.job.newest_started, Some(Slot(at(5_000))));
}

/// S8: after a job was unblocked, a slot may win that is older than a run that was handed over; a win gives up what is older
/// than itself only.
pub async fn a_win_gives_up_nothing_that_is_newer(bench: &Bench) {
    let steps = vec![
        (500, claim(due(500), 1, terms())),
        (500, release(due(500), 1)),
        (600, unblock(0)),
        (700, claim(due(400), 2, terms())),
        (800, finish(due(400), 2)),
        (900, take_over(due(500), 3, terms())),
    ];
    let Some((answers, _)) = play(bench, steps).await else { return };
    assert_eq!(answers[2], Answer::Unblock(UnblockAnswer::Unblocked));
    assert!(won(&answers[3]) && won(&answers[5]), "{answers:?}");
}

/// S13: asked for again the same day, although its run is pruned.
pub async fn a_pruned_on_demand_run_does_not_run_twice_on_a_day(bench: &Bench) {
    const DAY: i64 = 24 * 3_600_000;
    let steps = vec![
        (0, trigger("r")),
        (0, claim(on_demand("r"), 1, short())),
        (0, finish(on_demand("r"), 1)),
        (10_001, prune()),
        (10_002, trigger("r")),
        (10_002, claim(on_demand("r"), 2, terms())),
        (10_001 + DAY, trigger("r")),
        (10_001 + DAY, prune()),
        (10_002 + DAY, prune()),
        (10_002 + DAY, trigger("r")),
    ];
    let Some((answers, _)) = play(bench, steps).await else { return };
    let (ended, stored) = (Answer::Trigger(TriggerAnswer::Ended), Answer::Trigger(TriggerAnswer::Stored));
    assert_eq!((&answers[4], &answers[6], &answers[9]), (&ended, &ended, &stored));
    assert_eq!(answers[5], Answer::Claim(ClaimAnswer::None { newest_started: None }));
}

/// Nobody listens for what a late copy of a refused claim would win.
pub async fn a_late_copy_of_a_claim_refused_for_overlap_wins_nothing(bench: &Bench) {
    let late = Op::Claim(Claim { not_after: at(2_000), ..ask(on_demand("r"), ClaimKind::OnDemand, 2, terms()) });
    let steps = vec![
        (0, trigger("r")),
        (0, claim(due(0), 1, terms())),
        (0, late.clone()),
        (1_000, finish(due(0), 1)),
        (2_001, late),
    ];
    let Some((answers, _)) = play(bench, steps).await else { return };
    assert_eq!(answers[2], Answer::Claim(ClaimAnswer::Overlap { with: due(0) }));
    assert_eq!(answers[4], Answer::Claim(ClaimAnswer::Old));
}

/// S3: three starts and a hand-over leave one more attempt, and so does one start of one.
pub async fn a_hand_over_uses_no_attempt_up(bench: &Bench) {
    let once = || Terms { max_attempts: 1, ..allowing() };
    let steps = vec![
        (0, claim(due(0), 1, terms())),
        (0, release(due(0), 1)),
        (0, take_over(due(0), 2, terms())),
        (30_001, take_over(due(0), 3, terms())),
        (60_002, take_over(due(0), 4, terms())),
        (90_003, take_over(due(0), 5, terms())),
        (100_000, claim(due(100_000), 6, once())),
        (100_000, release(due(100_000), 6)),
        (100_000, take_over(due(100_000), 7, once())),
        (130_001, take_over(due(100_000), 8, once())),
    ];
    let Some((answers, _)) = play(bench, steps).await else { return };
    assert!([0, 2, 3, 4, 6, 8].iter().all(|n| won(&answers[*n])), "{answers:?}");
    assert_eq!((&answers[5], &answers[9]), (&ENDED, &ENDED));
}

/// S8: two runs side by side have expired; the newer one is taken over and the older given up, in one revision.
pub async fn a_takeover_gives_up_what_is_older_in_its_revision(bench: &Bench) {
    let steps = vec![
        (0, claim(due(0), 1, allowing())),
        (0, release(due(0), 1)),
        (1_000, take_over(due(0), 2, allowing())),
        (5_000, claim(due(5_000), 3, allowing())),
        (100_000, take_over(due(5_000), 4, allowing())),
        (100_000, take_over(due(0), 5, allowing())),
    ];
    let Some((answers, expected)) = play(bench, steps).await else { return };
    assert!(won(&answers[2]) && won(&answers[3]) && won(&answers[4]), "{answers:?}");
    assert_eq!((&answers[5], expected.job.revision), (&ENDED, 5));
}

/// S13: the answer to the finish of an hour's run was lost, and no history is kept.
pub async fn a_long_runs_finish_may_be_sent_again_although_no_history_is_kept(bench: &Bench) {
    const HOUR: i64 = 3_600_000;
    let mut steps = vec![(0, claim(due(0), 1, terms()))];
    steps.extend((1..=HOUR / 60_000).map(|minute| (minute * 60_000, beat(due(0), 1))));
    steps.extend([(HOUR, finish(due(0), 1)), (HOUR, prune()), (HOUR, finish(due(0), 1))]);
    // S15: kept for its bound after its end, to the millisecond.
    steps.extend([(HOUR + 310_000, prune()), (HOUR + 310_000, finish(due(0), 1))]);
    steps.extend([(HOUR + 310_001, prune()), (HOUR + 310_001, finish(due(0), 1))]);
    let Some((answers, _)) = play(bench, steps).await else { return };
    let last: Vec<_> = answers.iter().rev().step_by(2).take(3).cloned().collect();
    let accepted = [Accepted::Refused, Accepted::Done, Accepted::Done].map(Answer::Accepted);
    assert_eq!(last, accepted);
}

/// Both were live when the newer one started, so that settled nothing.
pub async fn a_run_that_a_newer_one_has_outrun_is_not_taken_over(bench: &Bench) {
    let steps = vec![
        (0, claim(due(0), 1, allowing())),
        (1, claim(due(1), 2, allowing())),
        (60_000, take_over(due(0), 3, allowing())),
    ];
    let Some((answers, _)) = play(bench, steps).await else { return };
    assert_eq!(answers[2], ENDED);
}

/// The same outcome in the same words and by the run's own token: it is not the attempt that said so.
pub async fn a_run_that_the_store_gave_up_was_not_finished(bench: &Bench) {
    let outcome = Outcome::Interrupted { reason: "asked".into() };
    let finish = Finish { run: due(0), token: Token([1; 16]), outcome, usage: Usage::default() };
    let steps = vec![(0, claim(due(0), 1, terms())), (60_000, cancel(due(0), "asked")), (60_000, Op::Finish(finish))];
    let Some((answers, _)) = play(bench, steps).await else { return };
    assert_eq!(answers[2], Answer::Accepted(Accepted::Refused));
}

/// Who asked first stays known.
pub async fn the_first_reason_of_a_cancel_stays(bench: &Bench) {
    let steps = vec![(0, claim(due(0), 1, terms())), (1, cancel(due(0), "first")), (2, cancel(due(0), "second"))];
    let Some((_, expected)) = play(bench, steps).await else { return };
    assert_eq!(expected.job.runs[&due(0)].cancelled.as_deref(), Some("first"));
}

/// Whoever asks to unblock may have a wrong clock too. S10: the record of the future run stays until then.
pub async fn unblocking_goes_no_further_than_the_present(bench: &Bench) {
    const AHEAD: i64 = 3_600_000;
    let steps = vec![
        (AHEAD, claim(due(AHEAD), 1, short())),
        (AHEAD, finish(due(AHEAD), 1)),
        (0, unblock(1_000)),
        (AHEAD + 60_000, prune()),
        (AHEAD + 60_000, claim(due(AHEAD), 2, terms())),
    ];
    let Some((answers, expected)) = play(bench, steps).await else { return };
    assert_eq!((&answers[3], expected.job.newest_started), (&Answer::Pruned(Vec::new()), Some(Slot(at(0)))));
    assert_eq!(answers[4], Answer::Claim(ClaimAnswer::Ended(Status::Success)));
}

/// The quota is exact, and was lowered: what does not grow is written all the same.
pub async fn what_shrinks_is_written_beyond_the_quota(bench: &Bench) {
    // 64 bytes for the entry and one for its key.
    let steps = vec![
        (0, claim(due(0), 1, terms())),
        (1, set(due(0), 1, 1, 501, 565)),
        (1, set(due(0), 1, 2, 500, 565)),
        (2, set(due(0), 1, 3, 501, 100)),
        (3, set(due(0), 1, 4, 500, 100)),
        (4, set(due(0), 1, 5, 499, 100)),
    ];
    let Some((answers, _)) = play(bench, steps).await else { return };
    let over = Answer::Write(WriteAnswer { written: Written::OverQuota, carry_out: false });
    let done = Answer::Write(WriteAnswer { written: Written::Done, carry_out: true });
    assert_eq!(answers[1..], [over.clone(), done.clone(), over, done.clone(), done]);
}

/// It started and ended before it was due, by a clock that ran ahead. S15: kept while a claim for it is in time.
pub async fn a_run_is_kept_until_a_claim_for_it_is_late(bench: &Bench) {
    let steps = vec![
        (0, claim(due(5_000), 1, short())),
        (0, finish(due(5_000), 1)),
        (15_000, prune()),
        (15_001, prune()),
        // S10: with bounds that would let it in.
        (15_001, claim(due(5_000), 2, terms())),
    ];
    let Some((answers, _)) = play(bench, steps).await else { return };
    let pruned = |runs: &[RunId]| Answer::Pruned(runs.to_vec());
    assert_eq!((&answers[2], &answers[3]), (&pruned(&[]), &pruned(&[due(5_000)])));
    assert_eq!(answers[4], Answer::Claim(ClaimAnswer::Superseded { newest_started: Some(Slot(at(5_000))) }));
}

/// S9, and to the millisecond: whether anybody still waits for a claim, and whether its slot is late or early.
pub async fn a_claim_is_in_time_to_the_millisecond(bench: &Bench) {
    let until = |ms, with| Op::Claim(Claim { not_after: at(ms), ..ask(due(0), ClaimKind::Slot, with, short()) });
    let steps = vec![
        (0, announce("x")),
        (10_001, claim(due(0), 1, short())),
        (10_000, until(9_999, 1)),
        (10_000, until(10_000, 2)),
        (10_000, finish(due(0), 2)),
        (20_000, claim(due(30_001), 3, short())),
        (20_000, claim(due(30_000), 4, short())),
    ];
    let Some((answers, _)) = play(bench, steps).await else { return };
    let wanted = [ClaimAnswer::Late, ClaimAnswer::Old, ClaimAnswer::Early].map(Answer::Claim);
    assert_eq!([&answers[1], &answers[2], &answers[5]].map(Clone::clone), wanted);
    assert!(won(&answers[3]) && won(&answers[6]), "{answers:?}");
}

/// S10: what lies before the announcement, or was skipped, is not caught up; what comes behind is.
pub async fn a_slot_before_since_or_skipped_is_not_caught_up(bench: &Bench) {
    let catch_up = |ms, with| {
        let kind = ClaimKind::CatchUp { age: Duration::from_millis(10) };
        Op::Claim(ask(due(ms), kind, with, terms()))
    };
    let steps = vec![
        (100, announce("x")),
        (101, catch_up(99, 1)),
        (102, catch_up(100, 2)),
        (103, claim(due(103), 3, terms())),
        (104, finish(due(100), 2)),
        (105, catch_up(103, 4)),
        (106, catch_up(104, 5)),
    ];
    let Some((answers, _)) = play(bench, steps).await else { return };
    let superseded = |newest_started| Answer::Claim(ClaimAnswer::Superseded { newest_started });
    assert_eq!((&answers[1], &answers[5]), (&superseded(None), &superseded(Some(Slot(at(100))))));
    assert!(won(&answers[2]) && won(&answers[6]), "{answers:?}");
}
