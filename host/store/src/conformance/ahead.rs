//! After a clock that was days ahead has been corrected: what people look at, and what prune keeps.

use std::time::Duration;

use leasehold_lease::id::{JobKey, RunId, RunKey};
use leasehold_lease::op::{Announce, ClaimAnswer, ClaimKind, Unblock, UnblockAnswer};
use leasehold_lease::policy::{CLOCK_GRACE, Terms};
use leasehold_lease::run::{Hold, Status};
use leasehold_lease::time::{Millis, Slot};

use super::bench::{Bench, TestClock, job, ms, on_demand, slot, success};
use crate::view::{HistoryQuery, JobView};

/// So far ahead the clock was.
const AHEAD: Duration = Duration::from_secs(3 * 24 * 3_600);

/// The present, and the future that the clock took for it. None where the clock cannot be set, which is said.
async fn ahead(bench: &Bench) -> Option<(Millis, Millis)> {
    if matches!(bench.clock, TestClock::Real) {
        eprintln!("skipped: this store's clock cannot be set");
        return None;
    }
    let now = bench.now().await;
    bench.reach(now + AHEAD).await;
    Some((now, now + AHEAD))
}

/// Corrects the clock and unblocks these jobs.
async fn corrected(bench: &Bench, now: Millis, jobs: &[&JobKey]) {
    bench.reach(now).await;
    for job in jobs {
        let unblock = Unblock { newest_due: Slot(now - ms(1_000)) };
        let answer = bench.store.unblock(job, &unblock).await.expect("an answer").answer;
        assert_eq!(answer, UnblockAnswer::Unblocked);
    }
}

/// A policy by which a record may go ten seconds after its end.
fn terms(bench: &Bench) -> Terms {
    Terms { catch_up: Duration::ZERO, max_late: Duration::ZERO, ..bench.allowing() }
}

/// Starts the run and ends it.
async fn ran(bench: &Bench, job: &JobKey, run: RunId) -> RunId {
    let token = bench.win(job, &run, &terms(bench)).await;
    bench.finish(job, &run, token, success()).await;
    run
}

async fn history(bench: &Bench, query: HistoryQuery) -> Vec<RunKey> {
    let found = bench.store.history(&query).await.expect("runs").answer;
    found.into_iter().map(|view| view.key).collect()
}

/// What is due by now comes first, and behind it, of one job and of all, what was made while the clock was ahead.
pub async fn what_a_clock_that_was_ahead_has_made_stands_behind_all_others(bench: &Bench) {
    let (a, b, c) = (job("a"), job("b"), job("c"));
    let Some((now, future)) = ahead(bench).await else { return };
    ran(bench, &a, slot(future)).await;
    bench.trigger(&a, "ended-ahead").await;
    ran(bench, &a, on_demand("ended-ahead")).await;
    bench.trigger(&a, "ahead").await;
    ran(bench, &a, slot(future + ms(5))).await;
    ran(bench, &c, slot(future + ms(3))).await;
    corrected(bench, now, &[&a, &c]).await;
    // The last due time of the present, and what is due between it and now.
    ran(bench, &a, slot(now - ms(5))).await;
    ran(bench, &b, slot(now - ms(4))).await;
    bench.trigger(&a, "r").await;
    bench.win(&b, &slot(now), &terms(bench)).await;
    ran(bench, &b, slot(now + CLOCK_GRACE)).await;
    let key = |(job, run): (&JobKey, RunId)| RunKey { job: job.clone(), run };
    let all = [
        (&b, slot(now + CLOCK_GRACE)),
        (&a, on_demand("r")),
        (&b, slot(now)),
        (&b, slot(now - ms(4))),
        (&a, slot(now - ms(5))),
        (&a, slot(future + ms(5))),
        (&c, slot(future + ms(3))),
        (&a, slot(future)),
        (&a, on_demand("ahead")),
        (&a, on_demand("ended-ahead")),
    ]
    .map(key);
    for limit in 1..=all.len() + 1 {
        let any = HistoryQuery { limit, ..HistoryQuery::default() };
        let first = |runs: &mut dyn Iterator<Item = &RunKey>| runs.take(limit).cloned().collect::<Vec<_>>();
        assert_eq!(history(bench, any.clone()).await, first(&mut all.iter()));
        for job in [&a, &b, &c] {
            let of_job = HistoryQuery { job: Some(job.clone()), ..any.clone() };
            assert_eq!(history(bench, of_job.clone()).await, first(&mut all.iter().filter(|run| run.job == *job)));
            let pending = HistoryQuery { status: Some(Status::Pending), ..of_job };
            let open = |run: &&RunKey| run.job == *job && [on_demand("r"), on_demand("ahead")].contains(&run.run);
            assert_eq!(history(bench, pending).await, first(&mut all.iter().filter(open)));
        }
        let pending = HistoryQuery { status: Some(Status::Pending), ..any.clone() };
        assert_eq!(history(bench, pending).await, first(&mut [&all[1], &all[8]].into_iter()));
        let later = HistoryQuery { since: Some(now), ..any.clone() };
        assert_eq!(history(bench, later).await, first(&mut all[..3].iter().chain(&all[5..])));
        let ahead = HistoryQuery { since: Some(future + ms(1)), ..any };
        assert_eq!(history(bench, ahead).await, first(&mut all[5..7].iter()));
    }
    newest_of_each(bench, &[&all[1], &all[0], &all[6]]).await;
    // A moment before, the first of them was due later than anything of the present.
    bench.reach(now - ms(1)).await;
    newest_of_each(bench, &[&all[1], &all[2], &all[6]]).await;
    let any = HistoryQuery { limit: 5, ..HistoryQuery::default() };
    assert_eq!(history(bench, any).await, [&all[1..5], &all[5..6]].concat());
}

/// These are the newest runs of all jobs, however they are listed.
async fn newest_of_each(bench: &Bench, newest: &[&RunKey]) {
    let last = |view: &JobView| view.last.as_ref().expect("it has runs").key.clone();
    let views = bench.store.jobs(None, 100).await.expect("jobs").answer;
    assert_eq!(views.iter().map(last).collect::<Vec<_>>().iter().collect::<Vec<_>>(), newest);
    let mut after = None;
    for view in &views {
        let page = bench.store.jobs(after.as_ref(), 1).await.expect("a page").answer;
        let one = bench.store.job(&view.key).await.expect("a job").answer;
        assert_eq!((page.first(), one.as_ref()), (Some(view), Some(view)));
        after = Some(view.key.clone());
    }
}

/// However a driver reads: a long history ends in the midst of a page, and so does what stands behind it.
pub async fn the_order_of_a_corrected_clock_holds_across_pages(bench: &Bench) {
    let job = job("many");
    let Some((now, future)) = ahead(bench).await else { return };
    let mut behind = Vec::new();
    for n in 0..130 {
        behind.insert(0, ran(bench, &job, slot(future + ms(n))).await);
    }
    corrected(bench, now, &[&job]).await;
    let (mut front, mut made) = (Vec::new(), 0);
    for many in [0, 60, 140] {
        for n in made..many {
            front.insert(0, ran(bench, &job, slot(now + ms(n))).await);
        }
        made = many;
        let all = [front.clone(), behind.clone()].concat();
        let shown = bench.store.job(&job).await.expect("an answer").answer.expect("the job");
        assert_eq!(shown.last.expect("it has runs").key.run, all[0]);
        for limit in [1, 100, 150, usize::MAX] {
            for of in [None, Some(job.clone())] {
                let found = history(bench, HistoryQuery { job: of, limit, ..HistoryQuery::default() }).await;
                let found: Vec<RunId> = found.into_iter().map(|key| key.run).collect();
                assert_eq!(found, all[..limit.min(all.len())], "{limit} of {many} and 130");
            }
        }
    }
    what_stands_behind_hides_no_job_that_is_read_later(bench, now, future).await;
}

/// However a driver reads: some jobs after others.
async fn what_stands_behind_hides_no_job_that_is_read_later(bench: &Bench, now: Millis, future: Millis) {
    bench.reach(future).await;
    let mut behind = Vec::new();
    for n in 200..280 {
        let job = job(&format!("jobs/{n}"));
        let run = ran(bench, &job, slot(future + ms(n))).await;
        behind.insert(0, RunKey { job, run });
    }
    bench.reach(now).await;
    let last = job("jobs/last");
    let first = ran(bench, &last, slot(now + ms(200))).await;
    let mut expected = vec![RunKey { job: last, run: first }];
    let front = (0..140).rev().map(|n| RunKey { job: job("many"), run: slot(now + ms(n)) });
    expected.extend(front.chain(behind));
    for limit in [1, 2, 141, 142, 200, expected.len()] {
        let found = history(bench, HistoryQuery { limit, ..HistoryQuery::default() }).await;
        assert_eq!(found, expected[..limit], "{limit}");
    }
}

/// Prune keeps the last runs of the present, and those that are due in the future besides.
pub async fn what_a_clock_that_was_ahead_has_made_pushes_nothing_out_of_the_history(bench: &Bench) {
    let job = job("a");
    let Some((now, future)) = ahead(bench).await else { return };
    for n in 0..3 {
        ran(bench, &job, slot(future + ms(n))).await;
    }
    corrected(bench, now, &[&job]).await;
    for n in 0..5 {
        ran(bench, &job, slot(now + ms(n))).await;
    }
    let prune = async |history_size| bench.store.prune(&job, history_size).await.expect("an answer").answer;
    bench.reach(now + ms(60_000)).await;
    assert_eq!(prune(5).await, 0);
    assert_eq!(prune(3).await, 2);
    let expected = [now + ms(4), now + ms(3), now + ms(2), future + ms(2), future + ms(1), future].map(slot);
    let found = history(bench, HistoryQuery { limit: 100, ..HistoryQuery::default() }).await;
    assert_eq!(found.into_iter().map(|key| key.run).collect::<Vec<_>>(), expected);
    // Their time has come.
    bench.reach(future + ms(60_000)).await;
    assert_eq!(prune(3).await, 3);
}

/// A job that was announced while the clock was ahead is caught up from the next announcement on.
pub async fn catching_up_begins_no_later_than_now(bench: &Bench) {
    let Some((now, future)) = ahead(bench).await else { return };
    let offer = [(job("a"), Announce { fingerprint: "x".into() })];
    let announce = async || {
        let told = bench.store.announce(&offer).await.expect("an answer").remove(0);
        told.expect("the record is sound").answer.since
    };
    assert!(announce().await >= future);
    bench.reach(now).await;
    assert_eq!(announce().await, now);
    bench.reach(now + ms(1_000)).await;
    assert_eq!(announce().await, now, "and stays there");
}

/// What was paused and resumed while the clock was ahead is not paused when it is corrected.
pub async fn a_hold_of_a_clock_that_was_ahead_is_over_when_it_is_corrected(bench: &Bench) {
    let Some((now, future)) = ahead(bench).await else { return };
    let (resumed, timed, paused) = (job("resumed"), job("timed"), job("paused"));
    let jobs = [(&resumed, None), (&timed, Some(future + CLOCK_GRACE)), (&paused, None)];
    for (job, until) in jobs {
        let hold = Hold { since: Some(future), until, note: String::new() };
        bench.store.hold(job, Some(&hold)).await.expect("an answer");
    }
    bench.reach(future + ms(1_000)).await;
    bench.store.hold(&resumed, None).await.expect("an answer");
    bench.reach(now).await;
    let claim = async |job: &JobKey| bench.send(job, &bench.ask(&slot(now), ClaimKind::Slot, &bench.terms())).await;
    for job in [&resumed, &timed] {
        let answer = claim(job).await;
        assert!(matches!(answer, ClaimAnswer::Won { .. }), "{job}: {answer:?}");
    }
    assert_eq!(claim(&paused).await, ClaimAnswer::Held { until: None });
    let offers = jobs.map(|(job, _)| (job.clone(), Announce { fingerprint: "x".into() }));
    let told = bench.store.announce(&offers).await.expect("an answer");
    let is_held = |told: crate::Each<crate::AnnounceAnswer>| told.expect("a sound record").answer.hold.is_some();
    assert_eq!(told.into_iter().map(is_held).collect::<Vec<_>>(), [false, false, true]);
}
