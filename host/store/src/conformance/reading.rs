//! Announcing, looking and pruning.

use leasehold_lease::id::{JobKey, RunId, RunKey, TenantName};
use leasehold_lease::log::{LogLevel, LogLine};
use leasehold_lease::op::{Announce, Stamped, Trigger, TriggerAnswer};
use leasehold_lease::run::{Outcome, Standing, Status};
use leasehold_lease::write::Change;

use super::bench::{Bench, job, ms, on_demand, slot, success};
use crate::view::{AnnounceAnswer, HistoryQuery, RunStanding, RunView};

fn standing_keys(standings: &[RunStanding]) -> Vec<String> {
    standings.iter().map(|each| each.key.to_string()).collect()
}

fn keys(views: &[RunView]) -> Vec<String> {
    views.iter().map(|view| view.key.to_string()).collect()
}

fn key(job: &JobKey, run: &leasehold_lease::id::RunId) -> RunKey {
    RunKey { job: job.clone(), run: run.clone() }
}

/// `since` is set by the first announcement and by a change of the schedule, and by nothing else.
pub async fn an_announcement_tells_where_catching_up_begins(bench: &Bench) {
    let offers = |fingerprint: &str| {
        [job("a"), job("b")].map(|job| (job, Announce { fingerprint: fingerprint.to_owned() })).to_vec()
    };
    let first = announce(bench, &offers("hourly")).await;
    assert_eq!(first.len(), 2);
    for each in &first {
        assert_eq!((each.answer.since, each.answer.newest_started, each.revision), (each.now, None, 1));
    }
    let run = slot(bench.now().await);
    bench.win(&job("a"), &run, &bench.terms()).await;
    bench.reach(first[0].now + ms(50)).await;
    let again = announce(bench, &offers("hourly")).await;
    assert_eq!(again[0].answer.since, first[0].now);
    assert_eq!((again[0].answer.newest_started, again[1].answer.newest_started), (run.slot(), None));
    let changed = announce(bench, &offers("daily")).await;
    assert_eq!(changed[0].answer.since, changed[0].now);
    let views = bench.store.jobs(None, 100).await.expect("an answer").answer;
    for (view, each) in views.iter().zip(&changed) {
        assert_eq!((view.since, view.last_offered), (Some(each.now), Some(each.now)));
        assert_eq!(view.fingerprint, "daily");
    }
}

async fn announce(bench: &Bench, offers: &[(JobKey, Announce)]) -> Vec<Stamped<AnnounceAnswer>> {
    let answers = bench.store.announce(offers).await.expect("an answer");
    answers.into_iter().map(|each| each.expect("the record is sound")).collect()
}

/// Unfinished runs of the tenants asked for, ordered by key, page by page.
pub async fn unfinished_runs_are_listed_in_pages(bench: &Bench) {
    let now = bench.now().await;
    let (a, b, c) = (job("acme/a"), job("zoo/b"), job("other/c"));
    let terms = bench.allowing();
    for (job, ago) in [(&a, 2), (&a, 1), (&b, 1), (&c, 1)] {
        bench.win(job, &slot(now - ms(ago)), &terms).await;
    }
    let done = slot(now);
    let token = bench.win(&a, &done, &terms).await;
    bench.finish(&a, &done, token, success()).await;
    bench.trigger(&a, "z").await;
    bench.trigger(&a, "A").await;
    bench.trigger(&b, "m").await;
    let expected: Vec<String> = [
        (&a, slot(now - ms(2))),
        (&a, slot(now - ms(1))),
        (&a, on_demand("A")),
        (&a, on_demand("z")),
        (&b, slot(now - ms(1))),
        (&b, on_demand("m")),
    ]
    .map(|(job, run)| key(job, &run).to_string())
    .to_vec();
    let asked = ["zoo", "acme", "unknown", "acme"].map(|name| name.parse::<TenantName>().expect("a name"));
    for limit in [1, 2, 5, 100] {
        let mut found: Vec<RunStanding> = Vec::new();
        loop {
            let after = found.last().map(|view| view.key.clone());
            let page = bench.store.unfinished(&asked, after.as_ref(), limit).await.expect("a page").answer;
            assert!(page.len() <= limit);
            if page.is_empty() {
                break;
            }
            found.extend(page);
        }
        assert_eq!(standing_keys(&found), expected, "pages of {limit}");
        for each in &found {
            let shown = bench.look(&each.key.job, &each.key.run).await.expect("it is known");
            assert_eq!(each.standing, Some(Standing::from(&shown.run)));
        }
        assert_eq!((found[0].newest_started, found[4].newest_started), (done.slot(), slot(now - ms(1)).slot()));
    }
    assert_eq!(bench.store.unfinished(&asked, None, 0).await.expect("a page").answer, []);
    // After a run of a job that is not known.
    let after = key(&job("acme/aa"), &done);
    let rest = bench.store.unfinished(&asked, Some(&after), 100).await.expect("a page").answer;
    assert_eq!(standing_keys(&rest), expected[4..]);
}

/// Each run that is checked is answered in its place.
pub async fn checked_runs_stand_in_the_order_asked(bench: &Bench) {
    let now = bench.now().await;
    let known = key(&job("a"), &slot(now));
    bench.win(&known.job, &known.run, &bench.terms()).await;
    let asked = [key(&job("a"), &slot(now + ms(1))), known.clone(), key(&job("b"), &slot(now)), known.clone()];
    let found = bench.store.check(&asked).await.expect("an answer").answer;
    assert_eq!(found.iter().map(|each| each.key.clone()).collect::<Vec<_>>(), asked);
    let shown = bench.look(&known.job, &known.run).await.expect("it is known");
    let standing = Some(Standing::from(&shown.run));
    let standings: Vec<Option<Standing>> = found.iter().map(|each| each.standing.clone()).collect();
    assert_eq!(standings, [None, standing.clone(), None, standing]);
    let newest: Vec<_> = found.iter().map(|each| each.newest_started).collect();
    assert_eq!(newest, [known.run.slot(), known.run.slot(), None, known.run.slot()], "of an unknown run too");
}

/// History: newest first, of one job or all, by status, from an instant on, at most this many.
pub async fn history_is_newest_first_and_filtered(bench: &Bench) {
    let now = bench.now().await;
    let (a, b) = (job("a"), job("b"));
    for (job, ago) in [(&a, 30), (&b, 20), (&a, 20), (&a, 10)] {
        let run = slot(now - ms(ago));
        let token = bench.win(job, &run, &bench.allowing()).await;
        if ago != 10 {
            bench.finish(job, &run, token, success()).await;
        }
    }
    let all = [(&a, 10), (&a, 20), (&b, 20), (&a, 30)].map(|(job, ago)| key(job, &slot(now - ms(ago))).to_string());
    let ask = |query: HistoryQuery| async move { keys(&bench.store.history(&query).await.expect("runs").answer) };
    let any = HistoryQuery { limit: 100, ..HistoryQuery::default() };
    assert_eq!(ask(any.clone()).await, all);
    assert_eq!(ask(HistoryQuery { limit: 2, ..any.clone() }).await, all[..2]);
    assert_eq!(ask(HistoryQuery { limit: 0, ..any.clone() }).await, Vec::<String>::new());
    assert_eq!(ask(HistoryQuery { since: Some(now - ms(20)), ..any.clone() }).await, all[..3]);
    assert_eq!(ask(HistoryQuery { status: Some(Status::Running), ..any.clone() }).await, all[..1]);
    assert_eq!(ask(HistoryQuery { job: Some(b.clone()), ..any.clone() }).await, all[2..3]);
    let narrow = HistoryQuery { job: Some(a), status: Some(Status::Success), since: Some(now - ms(20)), ..any.clone() };
    assert_eq!(ask(narrow).await, all[1..2]);
    assert_eq!(ask(HistoryQuery { job: Some(job("unknown")), ..any }).await, Vec::<String>::new());
    many_older_unfinished_runs_hide_no_newer_final_one(bench).await;
}

/// However a driver reads: in pages, the unfinished ones apart from the others.
async fn many_older_unfinished_runs_hide_no_newer_final_one(bench: &Bench) {
    let job = job("many");
    for n in 0..60 {
        let id = format!("r{n}").parse().expect("an id");
        let trigger = Trigger { id, payload: None, pending_max: 60 };
        bench.store.trigger(&job, &trigger).await.expect("an answer");
    }
    let start = bench.now().await + ms(1);
    let mut expected = Vec::new();
    for n in 0..160 {
        let run = slot(start + ms(n));
        let token = bench.win(&job, &run, &bench.allowing()).await;
        bench.finish(&job, &run, token, success()).await;
        expected.insert(0, key(&job, &run).to_string());
    }
    let query = HistoryQuery { job: Some(job), limit: 150, ..HistoryQuery::default() };
    assert_eq!(keys(&bench.store.history(&query).await.expect("runs").answer), expected[..150]);
}

/// Jobs are ordered by key, with what people want to know of each at a glance.
pub async fn jobs_are_listed_with_their_newest_run(bench: &Bench) {
    let now = bench.now().await;
    let (older, newer) = (slot(now - ms(1)), slot(now));
    bench.win(&job("b"), &older, &bench.allowing()).await;
    let token = bench.win(&job("b"), &newer, &bench.allowing()).await;
    bench.finish(&job("b"), &newer, token, success()).await;
    bench.store.announce(&[(job("a"), Announce { fingerprint: "x".into() })]).await.expect("an answer");
    let views = bench.store.jobs(None, 100).await.expect("jobs").answer;
    assert_eq!(views.iter().map(|view| view.key.clone()).collect::<Vec<_>>(), [job("a"), job("b")]);
    assert_eq!((views[0].unfinished, &views[0].last, views[0].newest_started), (0, &None, None));
    assert_eq!((views[1].unfinished, views[1].revision, views[1].newest_started), (1, 3, newer.slot()));
    let last = bench.look(&job("b"), &newer).await.expect("it ran").brief();
    assert_eq!(views[1].last, Some(last));
    for view in views {
        assert_eq!(bench.store.job(&view.key).await.expect("a job").answer, Some(view));
    }
    assert_eq!(bench.store.job(&job("c")).await.expect("an answer").answer, None);
}

/// Of a job's newest run everything is listed but what may be large: a host looks at all jobs.
pub async fn jobs_are_listed_in_brief(bench: &Bench) {
    let (a, run) = (job("a"), on_demand("big"));
    let RunId::OnDemand(id) = run.clone() else { unreachable!("an on-demand run has an id") };
    let trigger = Trigger { id, payload: Some(vec![7; 100_000]), pending_max: 60 };
    bench.store.trigger(&a, &trigger).await.expect("an answer");
    let first = bench.win(&a, &run, &bench.terms()).await;
    bench.release(&a, &run, first).await;
    let (second, _) = bench.take_over(&a, &run).await;
    bench.finish(&a, &run, second, Outcome::Success { output: vec![8; 100_000], cut: false }).await;
    let whole = bench.look(&a, &run).await.expect("it ran");
    assert_eq!((whole.run.payload.as_ref().map(Vec::len), whole.run.attempts.len()), (Some(100_000), 2));
    let listed = bench.store.jobs(None, 1).await.expect("jobs").answer.remove(0).last.expect("its run");
    assert_eq!(listed.run.payload, None);
    assert_eq!(listed.run.outcome, Some(Outcome::Success { output: Vec::new(), cut: true }));
    assert_eq!(listed.run.attempts, whole.run.attempts[1..]);
    assert_eq!(listed, whole.brief());
}

/// Jobs are listed in pages, across tenants, in the order of their keys.
pub async fn jobs_are_listed_in_pages(bench: &Bench) {
    let keys = ["acme/a", "acme/a.b", "acme/b", "acme-2/a", "zoo/a"].map(job);
    let offers = keys.clone().map(|job| (job, Announce { fingerprint: "x".into() }));
    bench.store.announce(&offers).await.expect("an answer");
    let mut expected = keys.to_vec();
    expected.sort();
    for size in [1, 2, 5, 6] {
        let mut listed: Vec<JobKey> = Vec::new();
        loop {
            let page = bench.store.jobs(listed.last(), size).await.expect("a page").answer;
            assert!(page.len() <= size);
            if page.is_empty() {
                break;
            }
            listed.extend(page.into_iter().map(|view| view.key));
        }
        assert_eq!(listed, expected, "pages of {size}");
    }
    assert_eq!(crate::store::all_jobs(&*bench.store).await.expect("jobs").answer.len(), 5);
}

/// What prune forgets is gone with its log, and an on-demand run's id stays known.
pub async fn prune_forgets_runs_with_their_logs(bench: &Bench) {
    // Without catching up and lateness the job's bound is 0, so records may go ten seconds after their end.
    let mut terms = bench.terms();
    (terms.catch_up, terms.max_late) = (ms(0), ms(0));
    let job = job("a");
    let run = slot(bench.now().await);
    let token = bench.win(&job, &run, &terms).await;
    let line = LogLine {
        at: run.slot().expect("a slot").0,
        level: LogLevel::Info,
        target: String::new(),
        message: "x".into(),
        fields: Vec::new(),
    };
    bench.write(&job, &run, token, 1, Change::AppendLog(vec![line])).await;
    bench.finish(&job, &run, token, success()).await;
    bench.trigger(&job, "r").await;
    let demand = on_demand("r");
    let token = bench.win(&job, &demand, &terms).await;
    bench.finish(&job, &demand, token, success()).await;
    assert_eq!(prune(bench, &job, 0).await, 0, "too young");
    bench.reach(bench.now().await + ms(10_001)).await;
    assert_eq!(prune(bench, &job, 2).await, 0, "among the last two");
    assert_eq!(prune(bench, &job, 1).await, 1);
    assert_eq!(prune(bench, &job, 0).await, 1);
    assert_eq!(bench.look(&job, &run).await, None);
    assert_eq!(bench.store.read_log(&key(&job, &run), 0, 10).await.expect("a log"), []);
    assert_eq!(bench.trigger(&job, "r").await, TriggerAnswer::Ended);
    let views = bench.store.jobs(None, 100).await.expect("jobs").answer;
    assert_eq!(views[0].newest_started, run.slot(), "S10: never forgotten");
    assert_eq!(views[0].stored, 0, "log and output are gone");
}

async fn prune(bench: &Bench, job: &JobKey, history_size: u32) -> usize {
    bench.store.prune(job, history_size).await.expect("an answer").answer
}
