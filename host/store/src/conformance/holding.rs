//! Heartbeat, finish and release.

use leasehold_lease::id::JobKey;
use leasehold_lease::op::{Accepted, Finish, Heartbeat, HeartbeatAnswer, Release, Stamped};
use leasehold_lease::run::{AttemptEnd, Failure, Outcome, Progress, Usage};

use super::bench::{Bench, job, ms, slot, success};

/// S4: an ok heartbeat sets the lease end to now + lease exactly, of an expired run too.
pub async fn heartbeats_renew_by_exactly_the_lease(bench: &Bench) {
    let (job, run) = (job("a"), slot(bench.now().await));
    let token = bench.win(&job, &run, &bench.terms()).await;
    // The numbers of a guest are its own: the largest must not break the store.
    let progress = Progress { done: u64::MAX, total: Some(u64::MAX), message: "all\0 of it, ä".into() };
    let beat = Heartbeat { run: run.clone(), token, progress: Some(progress.clone()) };
    let beats = [(job.clone(), beat)];
    let renewed = send(bench, &beats).await.remove(0);
    let lease_end = renewed.now + bench.lease();
    assert_eq!((renewed.answer, renewed.revision), (HeartbeatAnswer::Renewed { lease_end, cancelled: false }, 2));
    let view = bench.look(&job, &run).await.expect("the run is known");
    assert_eq!((view.run.lease_end, view.run.progress), (renewed.now + bench.lease(), Some(progress)));
    bench.reach(renewed.now + bench.lease() + ms(1)).await;
    let late = send(bench, &beats).await.remove(0);
    let lease_end = late.now + bench.lease();
    assert_eq!((late.answer, late.revision), (HeartbeatAnswer::Renewed { lease_end, cancelled: false }, 3));
}

async fn send(bench: &Bench, beats: &[(JobKey, Heartbeat)]) -> Vec<Stamped<HeartbeatAnswer>> {
    let answers = bench.store.heartbeats(beats).await.expect("an answer");
    answers.into_iter().map(|each| each.expect("the record is sound")).collect()
}

/// One call renews leases of many jobs; each is answered for itself.
pub async fn heartbeats_of_many_jobs_are_answered_in_order(bench: &Bench) {
    let run = slot(bench.now().await);
    let mut beats = Vec::new();
    for n in 0..20 {
        let job = job(&format!("job-{n}"));
        let token = bench.win(&job, &run, &bench.terms()).await;
        let token = if n % 3 == 0 { bench.token() } else { token };
        beats.push((job, Heartbeat { run: run.clone(), token, progress: None }));
    }
    let answers = send(bench, &beats).await;
    let refused: Vec<bool> = answers.iter().map(|each| each.answer == HeartbeatAnswer::Refused).collect();
    assert_eq!(refused, (0..20).map(|n| n % 3 == 0).collect::<Vec<_>>());
    let revisions: Vec<u64> = answers.iter().map(|each| each.revision).collect();
    assert_eq!(revisions, (0..20).map(|n| if n % 3 == 0 { 1 } else { 2 }).collect::<Vec<_>>());
    assert_eq!(send(bench, &[]).await, []);
    // Two beats of one run in one call, as after a resend: both count, in their order.
    let twice = [beats[1].clone(), beats[2].clone(), beats[1].clone()];
    let revisions: Vec<u64> = send(bench, &twice).await.iter().map(|each| each.revision).collect();
    assert_eq!(revisions, [3, 3, 4]);
}

/// S5: a heartbeat after a release is refused, and a release again counts nothing.
pub async fn a_released_lease_stays_released(bench: &Bench) {
    let (job, run) = (job("a"), slot(bench.now().await));
    let token = bench.win(&job, &run, &bench.terms()).await;
    assert_eq!(bench.release(&job, &run, token).await, Accepted::Done);
    let released = bench.look(&job, &run).await.expect("the run is known").run;
    assert!(released.released && released.hand_overs == 1 && released.lease_end <= bench.now().await);
    assert_eq!(released.attempts[0].ended.map(|(_, how)| how), Some(AttemptEnd::HandedOver));
    assert_eq!(bench.beat(&job, &run, token).await, HeartbeatAnswer::Refused);
    assert_eq!(bench.finish(&job, &run, token, success()).await, Accepted::Refused);
    assert_eq!(bench.release(&job, &run, token).await, Accepted::Done);
    assert_eq!(bench.look(&job, &run).await.expect("the run is known").run, released, "nothing changed");
    assert_eq!(bench.release(&job, &run, bench.token()).await, Accepted::Refused);
}

/// S6: one outcome per run, final; the same again is ok.
pub async fn a_finish_is_final(bench: &Bench) {
    let (job, run) = (job("a"), slot(bench.now().await));
    let token = bench.win(&job, &run, &bench.terms()).await;
    assert_eq!(bench.finish(&job, &run, bench.token(), success()).await, Accepted::Refused);
    assert_eq!(bench.finish(&job, &run, token, success()).await, Accepted::Done);
    let finished = bench.look(&job, &run).await.expect("the run is known");
    assert_eq!(bench.finish(&job, &run, token, success()).await, Accepted::Done);
    assert_eq!(
        bench.finish(&job, &run, bench.token(), success()).await,
        Accepted::Refused,
        "another token says the same"
    );
    let other = Outcome::Success { output: b"[]".to_vec(), cut: false };
    assert_eq!(bench.finish(&job, &run, token, other).await, Accepted::Refused);
    assert_eq!(bench.release(&job, &run, token).await, Accepted::Refused);
    assert_eq!(bench.beat(&job, &run, token).await, HeartbeatAnswer::Refused);
    assert_eq!(bench.look(&job, &run).await.expect("the run is known"), finished, "nothing changed");
}

/// Outcomes and usage come back as they were written, whatever bytes a guest puts into them.
pub async fn every_outcome_is_read_back_as_it_was_written(bench: &Bench) {
    let text = "\0 \u{1f980} ' \" \\ %_;--\n".to_owned();
    let failure = Failure {
        code: "trap".into(),
        message: text.clone(),
        details: vec![(text.clone(), String::new()), ("b".into(), text.clone())],
        retryable: true,
    };
    let usage = Usage {
        wall_ms: u64::MAX,
        cpu_ms: 2,
        peak_memory: 1 << 63,
        host_calls: 0,
        log_bytes: 9,
        http_sent: u64::MAX - 1,
        http_received: 5,
        fuel: Some(u64::MAX),
    };
    let outcomes = [
        Outcome::Success { output: (0..=255).collect(), cut: true },
        Outcome::Success { output: Vec::new(), cut: false },
        Outcome::Failed(failure),
        Outcome::Interrupted { reason: text },
    ];
    for (n, outcome) in outcomes.into_iter().enumerate() {
        let (job, run) = (job(&format!("job-{n}")), slot(bench.now().await));
        let token = bench.win(&job, &run, &bench.terms()).await;
        let finish = Finish { run: run.clone(), token, outcome: outcome.clone(), usage };
        assert_eq!(bench.store.finish(&job, &finish).await.expect("an answer").answer, Accepted::Done);
        let kept = bench.look(&job, &run).await.expect("the run is known").run;
        assert_eq!((kept.status, kept.outcome.as_ref()), (outcome.status(), Some(&outcome)));
        assert_eq!(kept.attempts[0].usage, Some(usage));
        assert_eq!(bench.store.finish(&job, &finish).await.expect("an answer").answer, Accepted::Done, "again");
    }
}

/// S11: for an unknown run everything is refused, and nothing is created.
pub async fn an_unknown_run_is_refused_and_nothing_is_created(bench: &Bench) {
    let (job, run, token) = (job("a"), slot(bench.now().await), bench.token());
    assert_eq!(bench.beat(&job, &run, token).await, HeartbeatAnswer::Refused);
    assert_eq!(bench.finish(&job, &run, token, success()).await, Accepted::Refused);
    let release = Release { run: run.clone(), token, usage: Usage::default() };
    let released = bench.store.release(&job, &release).await.expect("an answer");
    assert_eq!((released.answer, released.revision), (Accepted::Refused, 0));
    assert_eq!(bench.store.prune(&job, 0).await.expect("an answer").answer, 0);
    assert_eq!(bench.store.jobs(None, 100).await.expect("an answer").answer, []);
}
