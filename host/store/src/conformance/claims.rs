//! Claims and what a win does.

use std::time::Duration;

use leasehold_lease::id::{Attempt, Fence, RunKey};
use leasehold_lease::op::{Accepted, Claim, ClaimAnswer, ClaimKind, HeartbeatAnswer, TriggerAnswer};
use leasehold_lease::run::Status;

use super::bench::{Bench, job, ms, on_demand, slot, success};

/// The number and fence of a win.
fn won(answer: &ClaimAnswer) -> (Attempt, Fence) {
    match answer {
        ClaimAnswer::Won { attempt, fence, .. } => (*attempt, *fence),
        other => panic!("not won: {other:?}"),
    }
}

/// A store answers the same identity each time.
pub async fn a_store_keeps_its_identity(bench: &Bench) {
    let first = bench.store.identity().await.expect("a store has an identity");
    assert_eq!(first, bench.store.identity().await.expect("a store has an identity"));
    assert!(first.id.len() == 32 && first.id.bytes().all(|b| b.is_ascii_hexdigit()), "{first:?}");
    assert_ne!(first.secret, [0; 32]);
}

/// S1: the first claim of a due slot wins attempt 1; another one is told who runs it.
pub async fn a_slot_is_won_once(bench: &Bench) {
    let (job, run) = (job("a"), slot(bench.now().await));
    let first = bench.store.claim(&job, &bench.ask(&run, ClaimKind::Slot, &bench.terms())).await.expect("an answer");
    assert_eq!((won(&first.answer).0, first.revision), (Attempt(1), 1));
    let second = bench.send(&job, &bench.ask(&run, ClaimKind::Slot, &bench.terms())).await;
    let lease_end = first.now + bench.lease();
    assert_eq!(second, ClaimAnswer::Running { attempt: Attempt(1), lease_end });
    let view = bench.look(&job, &run).await.expect("a won run is known");
    assert_eq!(bench.newest_started(&job).await, run.slot());
    let attempt = view.run.current().expect("a won run has an attempt").clone();
    assert_eq!((attempt.runner.as_str(), attempt.terms, attempt.started_at), ("host-1", bench.terms(), first.now));
}

/// S13: a claim that is sent again while it is live gets the same attempt and fence, and changes nothing.
pub async fn a_lost_answer_is_sent_again(bench: &Bench) {
    let (job, run) = (job("a"), slot(bench.now().await));
    let ask = bench.ask(&run, ClaimKind::Slot, &bench.terms());
    let first = bench.send(&job, &ask).await;
    assert_eq!(bench.send(&job, &ask).await, first);
    assert_eq!(bench.revision(&job).await, 1);
    bench.reach(bench.now().await + bench.lease() + ms(1)).await;
    assert_eq!(bench.send(&job, &ask).await, ClaimAnswer::Stale, "not live any more");
}

/// A copy past its `not_after` wins nothing.
pub async fn a_copy_that_nobody_waits_for_wins_nothing(bench: &Bench) {
    let (job, now) = (job("a"), bench.now().await);
    let ask = Claim { not_after: now - ms(1), ..bench.ask(&slot(now), ClaimKind::Slot, &bench.terms()) };
    assert_eq!(bench.send(&job, &ask).await, ClaimAnswer::Old);
    assert_eq!(bench.revision(&job).await, 0);
}

/// S9: beyond its bounds a slot's first claim is late or early.
pub async fn a_slot_is_neither_late_nor_early(bench: &Bench) {
    let now = bench.now().await;
    // A store whose clock goes by itself may be a little further when the claim arrives.
    let margin = match bench.clock {
        super::TestClock::Settable(_) | super::TestClock::Remote(_) => Duration::ZERO,
        super::TestClock::Real => Duration::from_secs(5),
    };
    let bound = Duration::from_secs(70);
    // Alone in its job, and beside a run, where no driver may take a shorter way.
    for beside in [false, true] {
        for (name, due, expected) in [
            ("late", now - bound - ms(1), Some(ClaimAnswer::Late)),
            ("in-time", now - bound + margin, None),
            ("early", now + ms(10_001) + margin, Some(ClaimAnswer::Early)),
            ("ahead", now + ms(10_000), None),
        ] {
            let job = job(&format!("{name}-{beside}"));
            if beside {
                bench.trigger(&job, "beside").await;
                let ask = bench.ask(&on_demand("beside"), ClaimKind::OnDemand, &bench.allowing());
                won(&bench.send(&job, &ask).await);
            }
            let before = bench.revision(&job).await;
            let answer = bench.send(&job, &bench.ask(&slot(due), ClaimKind::Slot, &bench.allowing())).await;
            match expected {
                Some(refusal) => assert_eq!(answer, refusal, "{job}"),
                None => assert_eq!(won(&answer).0, Attempt(1), "{job}"),
            }
            let known = u64::from(name == "in-time" || name == "ahead");
            assert_eq!(bench.revision(&job).await - before, known, "{job}");
        }
    }
}

/// S10: a slot that ever won is never won as attempt 1 again.
pub async fn a_slot_that_ran_is_never_won_again(bench: &Bench) {
    let (job, now) = (job("a"), bench.now().await);
    let run = slot(now);
    let token = bench.win(&job, &run, &bench.terms()).await;
    bench.finish(&job, &run, token, success()).await;
    let answer = bench.send(&job, &bench.ask(&run, ClaimKind::Slot, &bench.terms())).await;
    assert_eq!(answer, ClaimAnswer::Ended(Status::Success));
    let older = slot(now - ms(1));
    let answer = bench.send(&job, &bench.ask(&older, ClaimKind::Slot, &bench.terms())).await;
    assert_eq!(answer, ClaimAnswer::Superseded { newest_started: run.slot() });
    let (_, answer) = bench.take_over(&job, &older).await;
    assert_eq!(answer, ClaimAnswer::None { newest_started: run.slot() });
}

/// S2: a live run is not taken over, an expired one is, and its former holder has lost it.
pub async fn an_expired_run_is_taken_over(bench: &Bench) {
    let (job, run) = (job("a"), slot(bench.now().await));
    let ask = bench.ask(&run, ClaimKind::Slot, &bench.terms());
    let first = bench.send(&job, &ask).await;
    let (_, answer) = bench.take_over(&job, &run).await;
    let ClaimAnswer::Running { lease_end, .. } = answer else { panic!("a live run is running: {answer:?}") };
    bench.reach(lease_end + ms(1)).await;
    let (token, second) = bench.take_over(&job, &run).await;
    assert_eq!(won(&second).0, Attempt(2));
    assert!(won(&second).1 > won(&first).1, "S8: fences grow");
    assert_eq!(bench.send(&job, &ask).await, ClaimAnswer::Stale);
    assert_eq!(bench.beat(&job, &run, ask.token).await, HeartbeatAnswer::Refused);
    assert_eq!(bench.finish(&job, &run, ask.token, success()).await, Accepted::Refused);
    assert_eq!(bench.release(&job, &run, ask.token).await, Accepted::Refused);
    assert_eq!(bench.finish(&job, &run, token, success()).await, Accepted::Done);
}

/// S3: after `max_attempts` starts an expired run is interrupted.
pub async fn attempts_are_used_up(bench: &Bench) {
    let (job, run) = (job("a"), slot(bench.now().await));
    let mut token = bench.win(&job, &run, &bench.terms()).await;
    for nth in 2..=4 {
        bench.reach(bench.now().await + bench.lease() + ms(1)).await;
        let (next, answer) = bench.take_over(&job, &run).await;
        if nth == 4 {
            assert_eq!(answer, ClaimAnswer::Ended(Status::Interrupted));
            break;
        }
        assert_eq!(won(&answer).0, Attempt(nth));
        token = next;
    }
    let run_record = bench.look(&job, &run).await.expect("the run is known").run;
    assert_eq!((run_record.status, run_record.starts), (Status::Interrupted, 3));
    assert!(run_record.outcome.is_some() && run_record.ended_at.is_some());
    assert_eq!(bench.beat(&job, &run, token).await, HeartbeatAnswer::Refused);
}

/// A hand-over at `max_attempts` leaves the run its next attempt.
pub async fn a_hand_over_does_not_count(bench: &Bench) {
    let (job, run) = (job("a"), slot(bench.now().await));
    let terms = leasehold_lease::policy::Terms { max_attempts: 1, ..bench.terms() };
    let token = bench.win(&job, &run, &terms).await;
    assert_eq!(bench.release(&job, &run, token).await, Accepted::Done);
    let answer = bench.send(&job, &bench.ask(&run, ClaimKind::Takeover, &terms)).await;
    assert_eq!(won(&answer).0, Attempt(2), "at once, and although max_attempts is 1");
}

/// S7: under skip a slot that is due beside a live run is skipped, and remembered.
pub async fn runs_do_not_overlap_under_skip(bench: &Bench) {
    let (job, now) = (job("a"), bench.now().await);
    let (first, second) = (slot(now), slot(now + ms(1_000)));
    let token = bench.win(&job, &first, &bench.terms()).await;
    let ask = bench.ask(&second, ClaimKind::Slot, &bench.terms());
    assert_eq!(bench.send(&job, &ask).await, ClaimAnswer::Overlap { with: first.clone() });
    let known = bench.store.check(&[RunKey { job: job.clone(), run: second.clone() }]).await.expect("an answer");
    assert_eq!(known.answer[0].newest_skipped, second.slot());
    assert_eq!(bench.look(&job, &second).await, None, "a skip creates no run");
    bench.finish(&job, &first, token, success()).await;
    let age = ms(0);
    let caught_up = bench.send(&job, &bench.ask(&second, ClaimKind::CatchUp { age }, &bench.terms())).await;
    assert!(matches!(caught_up, ClaimAnswer::Superseded { .. }), "a skipped slot is not caught up: {caught_up:?}");
    assert_eq!(won(&bench.send(&job, &ask).await).0, Attempt(1), "its own claim may still win");
}

/// Under allow runs of a job run beside each other, and each resent claim gets its own fence back.
pub async fn runs_overlap_under_allow(bench: &Bench) {
    let (job, now, terms) = (job("a"), bench.now().await, bench.allowing());
    let asks = [now, now + ms(1_000)].map(|at| bench.ask(&slot(at), ClaimKind::Slot, &terms));
    let answers = [bench.send(&job, &asks[0]).await, bench.send(&job, &asks[1]).await];
    assert!(won(&answers[0]).1 < won(&answers[1]).1);
    for (ask, answer) in asks.iter().zip(&answers) {
        assert_eq!(bench.send(&job, ask).await, *answer);
    }
}

/// S8: a win interrupts every older expired scheduled run in its own revision.
pub async fn a_newer_run_interrupts_an_older_expired_one(bench: &Bench) {
    let (job, now) = (job("a"), bench.now().await);
    let older = [slot(now - ms(2)), slot(now - ms(1))];
    let terms = bench.allowing();
    let mut tokens = Vec::new();
    for run in &older {
        tokens.push(bench.win(&job, run, &terms).await);
    }
    bench.reach(bench.now().await + bench.lease() + ms(1)).await;
    let newer = slot(bench.now().await);
    let won = bench.store.claim(&job, &bench.ask(&newer, ClaimKind::Slot, &terms)).await.expect("an answer");
    assert_eq!(won.revision, 3);
    for (run, token) in older.iter().zip(tokens) {
        let view = bench.look(&job, run).await.expect("the run is known");
        assert_eq!((view.run.status, view.run.ended_at), (Status::Interrupted, Some(won.now)));
        assert_eq!(bench.beat(&job, run, token).await, HeartbeatAnswer::Refused);
    }
}

/// A lease that lies further ahead than it was given for is cut by the next claim, even by one that is refused.
pub async fn a_clock_set_back_is_noticed(bench: &Bench) {
    let (job, run) = (job("a"), slot(bench.now().await));
    bench.win(&job, &run, &bench.terms()).await;
    if !bench.set_back(Duration::from_secs(3_600)).await {
        return;
    }
    let lease_end = bench.now().await + bench.lease();
    let (_, answer) = bench.take_over(&job, &run).await;
    assert_eq!(answer, ClaimAnswer::Running { attempt: Attempt(1), lease_end });
    bench.reach(lease_end + ms(1)).await;
    let (_, answer) = bench.take_over(&job, &run).await;
    assert_eq!(won(&answer).0, Attempt(2));
}

/// Only a trigger creates an on-demand run; it waits with its payload until it is claimed.
pub async fn an_on_demand_run_is_stored_before_it_starts(bench: &Bench) {
    let (job, run) = (job("a"), on_demand("r-1"));
    let ask = bench.ask(&run, ClaimKind::OnDemand, &bench.terms());
    assert_eq!(bench.send(&job, &ask).await, ClaimAnswer::None { newest_started: None });
    assert_eq!(bench.trigger(&job, "r-1").await, TriggerAnswer::Stored);
    assert_eq!(bench.trigger(&job, "r-1").await, TriggerAnswer::Exists(Status::Pending));
    assert_eq!(bench.trigger(&job, "r-2").await, TriggerAnswer::Stored);
    assert_eq!(bench.trigger(&job, "r-3").await, TriggerAnswer::Full);
    let view = bench.look(&job, &run).await.expect("a triggered run is known");
    assert_eq!((view.run.status, view.run.payload), (Status::Pending, Some(b"r-1".to_vec())));
    let answer = bench.send(&job, &ask).await;
    assert!(matches!(&answer, ClaimAnswer::Won { payload: Some(p), .. } if p == b"r-1"), "{answer:?}");
    assert_eq!(bench.newest_started(&job).await, None, "an on-demand run moves no slot");
}

/// S14: a job's runs do not stand in the way of another job's.
pub async fn jobs_are_independent(bench: &Bench) {
    let run = slot(bench.now().await);
    for name in ["a", "b", "acme/a"] {
        bench.win(&job(name), &run, &bench.terms()).await;
        assert_eq!(bench.revision(&job(name)).await, 1, "{name}");
    }
}
