//! The log beside a run.

use leasehold_lease::id::{Attempt, RunKey, Token};
use leasehold_lease::log::{LogLevel, LogLine};
use leasehold_lease::time::Millis;
use leasehold_lease::write::{Change, Written};

use super::bench::{Bench, job, ms, slot};

fn line(message: &str) -> LogLine {
    let fields = vec![("k".to_owned(), "'; DROP TABLE logs; --".to_owned())];
    LogLine { at: Millis(5), level: LogLevel::Warn, target: "stdout".into(), message: message.into(), fields }
}

async fn append(bench: &Bench, key: &RunKey, token: &Token, number: u64, words: &[&str]) -> Written {
    let lines: Vec<LogLine> = words.iter().map(|word| line(word)).collect();
    bench.write(&key.job, &key.run, *token, number, Change::AppendLog(lines)).await
}

/// Lines come back in order, an append that arrives twice is kept once, and pages follow each other.
pub async fn log_lines_are_kept_once_and_in_order(bench: &Bench) {
    let run = slot(bench.now().await);
    let key = RunKey { job: job("a"), run: run.clone() };
    let token = bench.win(&key.job, &run, &bench.terms()).await;
    assert_eq!(append(bench, &key, &token, 1, &["one", "two"]).await, Written::Done);
    assert_eq!(append(bench, &key, &token, 3, &["three"]).await, Written::Done);
    assert_eq!(append(bench, &key, &token, 3, &["three"]).await, Written::Done, "the answer was lost");
    assert_eq!(append(bench, &key, &token, 1, &["one", "two"]).await, Written::Past, "a late copy");
    let all = bench.store.read_log(&key, 0, 100).await.expect("a log");
    let words: Vec<(u64, &str)> = all.iter().map(|e| (e.sequence, e.line.message.as_str())).collect();
    assert_eq!(words, [(1, "one"), (2, "two"), (3, "three")]);
    assert_eq!((all[0].attempt, &all[0].line), (Attempt(1), &line("one")));
    assert_eq!(bench.store.read_log(&key, 1, 1).await.expect("a log"), all[1..2]);
    assert_eq!(bench.store.read_log(&key, 3, 10).await.expect("a log"), []);
    assert_eq!(bench.store.read_log(&key, u64::MAX, 10).await.expect("a log"), []);
}

/// A lost attempt writes nothing more; the next one numbers its own lines and goes on in the same log.
pub async fn log_lines_of_a_lost_attempt_are_refused(bench: &Bench) {
    let run = slot(bench.now().await);
    let key = RunKey { job: job("a"), run: run.clone() };
    assert_eq!(append(bench, &key, &bench.token(), 1, &["nobody"]).await, Written::Refused, "an unknown run");
    let first = bench.win(&key.job, &run, &bench.terms()).await;
    append(bench, &key, &first, 7, &["first"]).await;
    bench.reach(bench.now().await + bench.lease() + ms(1)).await;
    let (second, _) = bench.take_over(&key.job, &run).await;
    assert_eq!(append(bench, &key, &first, 8, &["lost"]).await, Written::Refused);
    assert_eq!(append(bench, &key, &second, 1, &["second"]).await, Written::Done);
    let all = bench.store.read_log(&key, 0, 100).await.expect("a log");
    let kept: Vec<(u64, Attempt, &str)> =
        all.iter().map(|e| (e.sequence, e.attempt, e.line.message.as_str())).collect();
    assert_eq!(kept, [(1, Attempt(1), "first"), (2, Attempt(2), "second")]);
}
