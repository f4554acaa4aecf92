//! What is kept for people and for other hosts: answers, hosts, wake-ups.

use std::time::Duration;

use leasehold_lease::id::{JobKey, RunKey};

use super::bench::{Bench, job, ms, on_demand, slot};
use crate::view::{ANSWERS_KEPT, HOST_KEPT, HostAnswer, HostOrders, HostReport};

/// How long a wake-up may take before the test says that it did not come.
const PATIENCE: Duration = Duration::from_secs(10);

fn told(run: &RunKey, at: leasehold_lease::time::Millis, answer: &str) -> HostAnswer {
    let word = |word: &str| word.to_owned();
    HostAnswer {
        run: run.clone(),
        host: word("host-ä"),
        at,
        asked: word("slot"),
        answer: word(answer),
        detail: word("a\nb"),
    }
}

/// What hosts were told is kept, newest first, and moves no revision; of a job that is unknown nothing is.
pub async fn answers_are_kept_for_who_asks_why(bench: &Bench) {
    let (a, b) = (job("a"), job("b"));
    let now = bench.now().await;
    let (older, newer) = (slot(now - ms(1)), slot(now));
    bench.win(&a, &older, &bench.allowing()).await;
    bench.win(&b, &older, &bench.allowing()).await;
    let key = |job: &JobKey, run| RunKey { job: job.clone(), run };
    let all = [
        told(&key(&a, older.clone()), now, "won"),
        told(&key(&b, older.clone()), now, "won"),
        told(&key(&a, newer.clone()), now + ms(1), "overlap"),
        told(&key(&job("unknown"), newer.clone()), now, "none"),
    ];
    bench.store.keep_answers(&all).await.expect("an answer");
    bench.store.keep_answers(&[]).await.expect("an answer");
    let ask = async |job: &JobKey, run, limit| bench.store.answers(job, run, limit).await.expect("answers");
    assert_eq!(ask(&a, None, 10).await, [all[2].clone(), all[0].clone()]);
    assert_eq!(ask(&a, None, 1).await, [all[2].clone()]);
    assert_eq!(ask(&a, Some(&older), 10).await, [all[0].clone()]);
    assert_eq!(ask(&b, Some(&newer), 10).await, []);
    assert_eq!(ask(&job("unknown"), None, 10).await, []);
    assert_eq!((bench.revision(&a).await, bench.revision(&job("unknown")).await), (1, 0));
}

/// Only the newest answers of a job are kept.
pub async fn kept_answers_are_bounded(bench: &Bench) {
    let (job, run) = (job("a"), slot(bench.now().await));
    bench.win(&job, &run, &bench.terms()).await;
    let key = RunKey { job: job.clone(), run };
    let batch = |n: usize| -> Vec<HostAnswer> {
        (0..ANSWERS_KEPT / 2 + 10)
            .map(|i| told(&key, leasehold_lease::time::Millis(i as i64), &n.to_string()))
            .collect()
    };
    for n in 0..3 {
        bench.store.keep_answers(&batch(n)).await.expect("an answer");
    }
    let kept = bench.store.answers(&job, None, usize::MAX).await.expect("answers");
    assert_eq!(kept.len(), ANSWERS_KEPT);
    assert!(kept.iter().all(|told| told.answer != "0"), "the oldest have gone");
}

fn report(name: &str, instance: &str) -> HostReport {
    HostReport {
        instance: instance.to_owned(),
        name: name.to_owned(),
        version: "0.1.0".to_owned(),
        clock_offset_ms: -7,
        details: r#"{"plugins":["ä"]}"#.to_owned(),
    }
}

/// Hosts see each other, are asked to drain by name, and are forgotten a day after they were heard of last.
pub async fn hosts_see_each_other(bench: &Bench) {
    let first = bench.store.report_host(&report("b", "1")).await.expect("an answer");
    assert_eq!(first.answer, HostOrders { drain: false });
    for (name, instance) in [("a", "2"), ("b", "3")] {
        bench.store.report_host(&report(name, instance)).await.expect("an answer");
    }
    assert_eq!(bench.store.drain("b", true).await.expect("an answer"), 2);
    assert_eq!(bench.store.drain("nobody", true).await.expect("an answer"), 0);
    bench.reach(first.now + ms(20)).await;
    let changed = HostReport { version: "0.2.0".into(), ..report("b", "1") };
    let again = bench.store.report_host(&changed).await.expect("an answer");
    assert_eq!(again.answer, HostOrders { drain: true });
    let hosts = bench.store.hosts().await.expect("hosts").answer;
    let names: Vec<_> = hosts.iter().map(|host| (host.report.name.as_str(), host.report.instance.as_str())).collect();
    assert_eq!(names, [("a", "2"), ("b", "1"), ("b", "3")]);
    assert_eq!(hosts[1].report, changed);
    assert_eq!((hosts[1].first_seen, hosts[1].last_seen), (first.now, again.now));
    assert_eq!(hosts.iter().map(|host| host.orders.drain).collect::<Vec<_>>(), [false, true, true]);
    bench.store.drain("b", false).await.expect("an answer");
    assert!(bench.store.hosts().await.expect("hosts").answer.iter().all(|host| !host.orders.drain));
    if !matches!(bench.clock, super::TestClock::Real) {
        bench.reach(again.now + HOST_KEPT + ms(1)).await;
        bench.store.report_host(&report("c", "4")).await.expect("an answer");
        assert_eq!(bench.store.hosts().await.expect("hosts").answer.len(), 1);
    }
}

/// What a host offers is kept beside its record, whole, until it says something else or is forgotten.
pub async fn what_a_host_offers_is_kept_with_its_record(bench: &Bench) {
    let store = &bench.store;
    let offers = async |name: &str, instance: &str| store.host_offers(name, instance).await.expect("an answer");
    store.keep_offers("a", "1", "unheard of").await.expect("an answer");
    assert_eq!(offers("a", "1").await, None);
    let first = store.report_host(&report("a", "1")).await.expect("an answer");
    store.report_host(&report("a", "2")).await.expect("an answer");
    assert_eq!(offers("a", "1").await, None);
    // As much as five thousand jobs are.
    let much = r#"{"job":"ä/\"}"#.repeat(60_000);
    store.keep_offers("a", "1", &much).await.expect("an answer");
    store.report_host(&report("a", "1")).await.expect("an answer");
    assert!(offers("a", "1").await == Some(much), "it is kept byte for byte");
    assert_eq!((offers("a", "2").await, offers("", "a1").await), (None, None));
    store.keep_offers("a", "1", "less").await.expect("an answer");
    assert_eq!(offers("a", "1").await.as_deref(), Some("less"));
    if !matches!(bench.clock, super::TestClock::Real) {
        bench.reach(first.now + HOST_KEPT + Duration::from_secs(60)).await;
        store.report_host(&report("b", "1")).await.expect("an answer");
        assert_eq!(offers("a", "1").await, None, "it went with the record");
        store.report_host(&report("a", "1")).await.expect("an answer");
        assert_eq!(offers("a", "1").await, None);
    }
}

/// A release and a trigger wake those who listen; a claim and a refused release do not have to.
pub async fn a_release_and_a_trigger_wake_those_who_listen(bench: &Bench) {
    let Some(mut wakeups) = bench.store.wakeups() else {
        return eprintln!("skipped: this store cannot wake anyone");
    };
    let (a, b) = (job("acme/a"), job("b"));
    let run = slot(bench.now().await);
    let token = bench.win(&a, &run, &bench.terms()).await;
    bench.release(&a, &run, token).await;
    bench.trigger(&b, "r").await;
    let mut woken = std::collections::BTreeSet::new();
    while woken.len() < 2 {
        let next = tokio::time::timeout(PATIENCE, wakeups.recv()).await;
        woken.insert(next.expect("a wake-up comes").expect("the store lives"));
    }
    assert_eq!(woken.into_iter().collect::<Vec<_>>(), [a, b]);
    assert!(bench.look(&job("b"), &on_demand("r")).await.is_some());
}
