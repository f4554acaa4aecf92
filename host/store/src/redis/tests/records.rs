//! Records at their limits, and records that someone else has touched.

use leasehold_lease::id::{RunId, RunKey};
use leasehold_lease::op::{Accepted, Announce, ClaimAnswer, ClaimKind, Finish, HeartbeatAnswer, Release, Trigger};
use leasehold_lease::policy::{Overlap, Terms};
use leasehold_lease::run::{ATTEMPTS_KEPT, Outcome, Usage};
use leasehold_lease::time::Millis;
use leasehold_lease::write::{Change, Quota, Write, Written};

use super::support::{namespace, on_a_set_clock, own_server, run, store};
use crate::error::StoreError;
use crate::redis::RedisStore;
use crate::redis::scripts::{ON_A_SET_CLOCK, SCRIPTS, Scripts};
use crate::store::LeaseStore;
use crate::test_support::{beat, claim, finish, job, slot, told, until_answered, win};

/// One script, one instant.
#[test]
fn a_script_reads_the_time_at_most_once() {
    let Scripts {
        about, announce, cancel, check, claim, close, drain, finish, heartbeats, history, hold, hosts, ..
    } = &*SCRIPTS;
    let Scripts { jobs, now, prune, release, report, show, told, trigger, unblock, unfinished, write, .. } = &*SCRIPTS;
    let timeless = [about, drain, told];
    let timed = [
        announce, cancel, check, claim, close, finish, heartbeats, history, hold, hosts, jobs, now, prune, release,
        report, show, trigger, unblock, unfinished, write,
    ];
    let reads = |source: &str| source.matches("clock()").count() - source.matches("function clock()").count();
    assert!(timeless.iter().all(|script| reads(&script.source) == 0));
    for script in timed {
        assert_eq!(reads(&script.source), 1, "{}", script.source);
        assert_eq!(script.source.matches("'TIME'").count(), 1, "{}", script.source);
    }
}

/// No key of the store goes by itself, whatever was done.
#[tokio::test]
async fn no_key_has_a_time_to_live() {
    let Some(server) = own_server(&[]).await else { return };
    let store = store(&server.url()).await;
    let now = store.now().await.expect("the time");
    let won = win(&*store, &job("a"), now).await;
    finish(&*store, &job("a"), &won).await.expect("an answer");
    win(&*store, &job("b"), now).await;
    let keys: Vec<String> = run(&server.url(), &["KEYS", "leasehold:*"]).await;
    assert!(keys.len() > 5, "{keys:?}");
    for key in keys {
        let left: i64 = run(&server.url(), &["PTTL", &key]).await;
        assert_eq!(left, -1, "{key}");
    }
}

/// A thousand attempts are kept; the token of each is stale, and the ones before change nothing either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_thousand_attempts_are_kept() {
    let Some(bench) = on_a_set_clock(leasehold_test_servers::shared_redis().await).await else { return };
    let (store, job) = (&*bench.store, job("a"));
    let at = store.now().await.expect("the time");
    let mut asks = Vec::new();
    for _ in 0..ATTEMPTS_KEPT + 3 {
        let kind = if asks.is_empty() { ClaimKind::Slot } else { ClaimKind::Takeover };
        let ask = leasehold_lease::op::Claim { kind, ..claim(slot(at)) };
        let answer = store.claim(&job, &ask).await.expect("an answer").answer;
        assert!(matches!(answer, ClaimAnswer::Won { .. }), "{answer:?}");
        let release = Release { run: ask.run.clone(), token: ask.token, usage: Usage::default() };
        assert_eq!(store.release(&job, &release).await.expect("an answer").answer, Accepted::Done);
        asks.push(ask);
    }
    let key = RunKey { job: job.clone(), run: slot(at) };
    let view = store.show(&key).await.expect("an answer").answer.expect("the run");
    let kept: Vec<u32> = view.run.attempts.iter().map(|attempt| attempt.attempt.0).collect();
    assert_eq!(kept, (4..=1_003).collect::<Vec<u32>>());
    for ask in [&asks[3], &asks[500], &asks[1_001]] {
        assert_eq!(store.claim(&job, ask).await.expect("an answer").answer, ClaimAnswer::Stale);
        let release = Release { run: ask.run.clone(), token: ask.token, usage: Usage::default() };
        assert_eq!(store.release(&job, &release).await.expect("an answer").answer, Accepted::Done, "as the first time");
    }
    let view = store.show(&key).await.expect("an answer").answer.expect("the run");
    assert_eq!(view.run.hand_overs, 1_003, "one each");
}

/// Numbers that a script's numbers could not hold.
#[tokio::test]
async fn the_largest_numbers_are_kept_to_the_last_digit() {
    let Some(server) = own_server(&[]).await else { return };
    let store = store(&server.url()).await;
    let now = store.now().await.expect("the time");
    let won = win(&*store, &job("a"), now).await;
    let write = |number| {
        let change = Change::SaveState(vec![0, 255]);
        Write {
            run: won.run.clone(),
            token: won.token,
            number,
            quota: Quota { value: u64::MAX, stored: u64::MAX },
            change,
        }
    };
    let sent = async |number| store.write(&job("a"), &write(number)).await.expect("an answer").answer;
    assert_eq!(sent(u64::MAX - 1).await, Written::Done);
    assert_eq!(sent(u64::MAX - 2).await, Written::Past);
    assert_eq!(sent(u64::MAX).await, Written::Done);
    let usage = Usage {
        wall_ms: u64::MAX,
        cpu_ms: u64::MAX - 1,
        peak_memory: (1 << 53) + 1,
        host_calls: 0,
        log_bytes: 1,
        ..Usage::default()
    };
    let outcome = Outcome::Success { output: (0..=255).collect(), cut: true };
    let ends = Finish { run: won.run.clone(), token: won.token, outcome: outcome.clone(), usage };
    assert_eq!(store.finish(&job("a"), &ends).await.expect("an answer").answer, Accepted::Done);
    let key = RunKey { job: job("a"), run: won.run.clone() };
    let run = store.show(&key).await.expect("an answer").answer.expect("the run").run;
    let attempt = run.current().expect("an attempt");
    assert_eq!((attempt.usage, attempt.last_write.number, run.outcome), (Some(usage), u64::MAX, Some(outcome)));
}

/// A slot at the ends of time is early or late, and makes nothing.
#[tokio::test]
async fn a_slot_at_the_ends_of_time_is_early_or_late() {
    let Some(server) = own_server(&[]).await else { return };
    let store = store(&server.url()).await;
    let answer = async |at| store.claim(&job("a"), &claim(slot(Millis(at)))).await.expect("an answer").answer;
    assert_eq!(answer(i64::MAX).await, ClaimAnswer::Early);
    assert_eq!(answer(i64::MIN).await, ClaimAnswer::Late);
    assert_eq!(answer(0).await, ClaimAnswer::Late);
    assert_eq!(store.jobs(None, 100).await.expect("jobs").answer, []);
}

/// A record that someone has overwritten is told for its own run, and the others get their answers.
#[tokio::test]
async fn a_broken_record_does_not_spoil_the_others() {
    let Some(server) = own_server(&[]).await else { return };
    let namespace = namespace();
    let store = RedisStore::connect(&server.url(), &namespace).await.expect("a store");
    let now = store.now().await.expect("the time");
    let mut beats = Vec::new();
    for name in ["a", "b", "c"] {
        let won = win(&store, &job(name), now).await;
        let beat = leasehold_lease::op::Heartbeat { run: won.run, token: won.token, progress: None };
        beats.push((job(name), beat));
    }
    let key = format!("leasehold:{{{namespace}/default}}:job:b");
    let _: () = run(&server.url(), &["SET", &key, "x"]).await;
    let answers = store.heartbeats(&beats).await.expect("answers");
    for (at, answer) in answers.iter().enumerate() {
        match answer {
            Ok(answer) => assert!(at != 1 && matches!(answer.answer, HeartbeatAnswer::Renewed { .. })),
            Err(error) => {
                assert!(at == 1 && matches!(error, StoreError::Rejected { .. }), "{}", told(error));
                assert!(told(error).contains("WRONGTYPE"), "{}", told(error));
            }
        }
    }
    let error = store.claim(&job("b"), &claim(slot(now))).await.expect_err("it cannot be read");
    assert!(matches!(error, StoreError::Rejected { .. }), "{}", told(&error));
    // Those who look at many jobs see the others.
    let sound = [job("a"), job("c")];
    let tenants = [job("a").tenant];
    for limit in [1, 100] {
        let runs = store.unfinished(&tenants, None, limit).await.expect("runs").answer;
        assert_eq!(runs.into_iter().map(|run| run.key.job).collect::<Vec<_>>(), sound[..limit.min(2)]);
    }
    let jobs = store.jobs(None, 100).await.expect("jobs").answer;
    assert_eq!(jobs.into_iter().map(|view| view.key).collect::<Vec<_>>(), sound);
    let keys: Vec<RunKey> = ["a", "b", "c"].map(|name| RunKey { job: job(name), run: slot(now) }).to_vec();
    let found = store.check(&keys).await.expect("runs").answer;
    assert_eq!(found.iter().map(|run| run.standing.is_some()).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(found.into_iter().map(|run| run.key).collect::<Vec<_>>(), keys);
}

/// A server that wants replicas and has none takes nothing: it says so for everything, and for no record.
#[tokio::test]
async fn a_server_with_too_few_replicas_changes_nothing_and_says_so() {
    let Some(server) = own_server(&[]).await else { return };
    let store = store(&server.url()).await;
    let now = store.now().await.expect("the time");
    let won = win(&*store, &job("a"), now).await;
    let before = store.jobs(None, 100).await.expect("jobs").answer;
    let _: () = run(&server.url(), &["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    let offers = [(job("a"), Announce { fingerprint: "x".into() }), (job("b"), Announce { fingerprint: "x".into() })];
    for error in [
        store.claim(&job("b"), &claim(slot(now))).await.map(|_| ()).expect_err("it takes nothing"),
        beat(&*store, &job("a"), &won).await.map(|_| ()).expect_err("it takes nothing"),
        finish(&*store, &job("a"), &won).await.map(|_| ()).expect_err("it takes nothing"),
        store.announce(&offers).await.map(|_| ()).expect_err("it takes nothing"),
    ] {
        assert!(matches!(error, StoreError::NotSent { .. }), "{}", told(&error));
        assert!(told(&error).contains("NOREPLICAS"), "{}", told(&error));
    }
    assert_eq!(store.jobs(None, 100).await.expect("jobs").answer, before, "nothing was done");
    let _: () = run(&server.url(), &["CONFIG", "SET", "min-replicas-to-write", "0"]).await;
    let renewed = until_answered(async || beat(&*store, &job("a"), &won).await).await;
    assert!(matches!(renewed, HeartbeatAnswer::Renewed { .. }), "{renewed:?}");
    assert!(store.announce(&offers).await.expect("answers").iter().all(Result::is_ok));
    assert_eq!(finish(&*store, &job("a"), &won).await.expect("an answer"), Accepted::Done);
    win(&*store, &job("b"), now).await;
}

/// A win that touches more runs than one command takes arguments.
#[tokio::test]
async fn a_win_settles_any_number_of_runs() {
    let Some(server) = own_server(&[]).await else { return };
    let namespace = namespace();
    let clock = format!("leasehold:{{{namespace}}}:clock");
    let set = async |at: i64| run::<()>(&server.url(), &["SET", &clock, &at.to_string()]).await;
    let start = Millis(1_700_000_000_000);
    set(start.0).await;
    let store = RedisStore::with_scripts(&server.url(), &namespace, &ON_A_SET_CLOCK).await.expect("a store");
    let won = win(&store, &job("a"), start).await;
    // As many on-demand runs with the same record.
    let copies = "local run = redis.call('HGET', KEYS[1], ARGV[1]) \
        for i = 1, 5000 do redis.call('HSET', KEYS[1], ':r' .. i, run) end";
    let key = format!("leasehold:{{{namespace}/default}}:job:a");
    let _: () = run(&server.url(), &["EVAL", copies, "1", &key, &start.0.to_string()]).await;
    set(start.0 + 60_000).await;
    let ask = claim(slot(Millis(start.0 + 60_000)));
    let terms = Terms { overlap: Overlap::Skip, ..ask.terms.clone() };
    let answer = store.claim(&job("a"), &leasehold_lease::op::Claim { terms, ..ask }).await.expect("an answer").answer;
    assert!(matches!(answer, ClaimAnswer::Won { .. }), "{answer:?}");
    let keys = [1, 2_500, 5_000].map(|n| RunId::OnDemand(format!("r{n}").parse().expect("an id")));
    let keys: Vec<RunKey> = keys.map(|run| RunKey { job: job("a"), run }).to_vec();
    for found in store.check(&keys).await.expect("runs").answer {
        assert!(found.standing.expect("a run").released, "{} is settled", found.key);
    }
    assert_eq!(beat(&store, &job("a"), &won).await.expect("an answer"), HeartbeatAnswer::Refused);
}

/// A server without room takes nothing new, says that nothing was done, and lets what runs go on and end.
#[tokio::test]
async fn a_server_out_of_memory_lets_runs_go_on_and_end() {
    let Some(server) = own_server(&[]).await else { return };
    let store = store(&server.url()).await;
    let now = store.now().await.expect("the time");
    let won = win(&*store, &job("a"), now).await;
    let released = win(&*store, &job("c"), now).await;
    let _: () = run(&server.url(), &["CONFIG", "SET", "maxmemory", "1"]).await;
    let keys: u64 = run(&server.url(), &["DBSIZE"]).await;
    let trigger = Trigger { id: "r".parse().expect("an id"), payload: Some(vec![1]), pending_max: 9 };
    let change = Change::KvSet { key: "k".into(), value: vec![1] };
    let write = Write { run: won.run.clone(), token: won.token, number: 1, quota: Quota::default(), change };
    for error in [
        store.claim(&job("a"), &claim(slot(now))).await.map(|_| ()).err(),
        store.claim(&job("b"), &claim(slot(now))).await.map(|_| ()).expect_err("no room").into(),
        store.trigger(&job("a"), &trigger).await.map(|_| ()).expect_err("no room").into(),
        store.write(&job("a"), &write).await.map(|_| ()).expect_err("no room").into(),
    ]
    .into_iter()
    .flatten()
    {
        assert!(matches!(error, StoreError::NotSent { .. }), "{}", told(&error));
        assert!(told(&error).contains("OOM"), "{}", told(&error));
    }
    let after: u64 = run(&server.url(), &["DBSIZE"]).await;
    assert_eq!(after, keys, "nothing was done");
    assert!(matches!(beat(&*store, &job("a"), &won).await.expect("it goes on"), HeartbeatAnswer::Renewed { .. }));
    assert_eq!(finish(&*store, &job("a"), &won).await.expect("it ends"), Accepted::Done);
    let release = Release { run: released.run.clone(), token: released.token, usage: Usage::default() };
    assert_eq!(store.release(&job("c"), &release).await.expect("it is handed over").answer, Accepted::Done);
    let _: () = run(&server.url(), &["CONFIG", "SET", "maxmemory", "0"]).await;
    win(&*store, &job("b"), now).await;
}

/// What stands in a key or an id is never a pattern, a hash tag or another key.
#[tokio::test]
async fn names_are_taken_as_they_are() {
    let Some(server) = own_server(&[]).await else { return };
    let store = store(&server.url()).await;
    for id in ["*", "{x}", "a:b", ":", "17", "-1", "numbers", "\"';--"] {
        let trigger = Trigger { id: id.parse().expect("an id"), payload: Some(id.into()), pending_max: 99 };
        store.trigger(&job("a"), &trigger).await.expect("an answer");
    }
    for id in ["*", "{x}", "a:b", ":", "17", "-1", "numbers", "\"';--"] {
        let run = RunId::OnDemand(id.parse().expect("an id"));
        let ask = leasehold_lease::op::Claim { kind: ClaimKind::OnDemand, ..claim(run) };
        let answer = store.claim(&job("a"), &ask).await.expect("an answer").answer;
        assert!(matches!(&answer, ClaimAnswer::Won { payload: Some(payload), .. } if payload == id.as_bytes()), "{id}");
        assert_eq!(finish(&*store, &job("a"), &ask).await.expect("an answer"), Accepted::Done);
    }
    let view = store.jobs(None, 100).await.expect("jobs").answer;
    assert_eq!((view[0].unfinished, view[0].newest_started), (0, None));
}

/// The index of jobs with unfinished runs has those and no others, however a run ends.
#[tokio::test]
async fn a_job_leaves_the_index_with_its_last_unfinished_run() {
    let Some(server) = own_server(&[]).await else { return };
    let namespace = namespace();
    let store = RedisStore::connect(&server.url(), &namespace).await.expect("a store");
    let index = format!("leasehold:{{{namespace}/default}}:open");
    let listed = async || run::<Vec<String>>(&server.url(), &["ZRANGE", &index, "0", "-1"]).await;
    let now = store.now().await.expect("the time");
    let (first, second) = (win(&store, &job("a"), now).await, win(&store, &job("a"), Millis(now.0 + 1)).await);
    let other = win(&store, &job("b"), now).await;
    finish(&store, &job("a"), &first).await.expect("an answer");
    assert_eq!(listed().await, ["a", "b"]);
    finish(&store, &job("a"), &second).await.expect("an answer");
    assert_eq!(listed().await, ["b"]);
    let trigger = Trigger { id: "r".parse().expect("an id"), payload: None, pending_max: 1 };
    store.trigger(&job("c"), &trigger).await.expect("an answer");
    finish(&store, &job("b"), &other).await.expect("an answer");
    assert_eq!(listed().await, ["c"]);
    let cancel = leasehold_lease::op::Cancel { run: RunId::OnDemand(trigger.id), reason: "asked".into() };
    store.cancel(&job("c"), &cancel).await.expect("an answer");
    assert_eq!(listed().await, Vec::<String>::new());
}
