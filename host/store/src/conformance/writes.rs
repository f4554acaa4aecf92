//! Checkpoints and the tenant's key-value space.

use leasehold_lease::id::{JobKey, RunId, RunKey, TenantName, Token};
use leasehold_lease::write::{Change, ENTRY, KV_KEY_MAX, Quota, Write, Written};

use super::bench::{Bench, job, ms, slot, success};

fn set(key: &str, value: &[u8]) -> Change {
    Change::KvSet { key: key.to_owned(), value: value.to_vec() }
}

fn swap(key: &str, expected: Option<&[u8]>, value: &[u8]) -> Change {
    Change::KvCompareAndSet { key: key.to_owned(), expected: expected.map(<[u8]>::to_vec), value: value.to_vec() }
}

fn delete(key: &str) -> Change {
    Change::KvDelete { key: key.to_owned() }
}

async fn get(bench: &Bench, tenant: &TenantName, key: &str) -> Option<Vec<u8>> {
    bench.store.kv_get(tenant, key).await.expect("an answer")
}

/// A run of a job of this tenant, running.
async fn running(bench: &Bench, name: &str) -> (JobKey, RunId, Token) {
    let (job, run) = (job(name), slot(bench.now().await));
    let token = bench.win(&job, &run, &bench.terms()).await;
    (job, run, token)
}

/// What one attempt saves, the next one loads; a lost attempt saves nothing; with the run's end it goes.
pub async fn a_checkpoint_passes_to_the_next_attempt_and_goes_with_the_end(bench: &Bench) {
    let (job, run, first) = running(bench, "a").await;
    let key = RunKey { job: job.clone(), run: run.clone() };
    assert_eq!(bench.store.load_state(&key).await.expect("an answer"), None);
    assert_eq!(bench.write(&job, &run, first, 1, Change::SaveState(vec![0, 159, 255])).await, Written::Done);
    assert_eq!(bench.write(&job, &run, first, 2, Change::SaveState(Vec::new())).await, Written::Done);
    assert_eq!(bench.store.load_state(&key).await.expect("an answer"), Some(Vec::new()));
    assert_eq!(bench.write(&job, &run, first, 3, Change::SaveState(vec![7])).await, Written::Done);
    bench.reach(bench.now().await + bench.lease() + ms(1)).await;
    let (second, _) = bench.take_over(&job, &run).await;
    assert_eq!(bench.write(&job, &run, first, 4, Change::SaveState(vec![8])).await, Written::Refused);
    assert_eq!(bench.store.load_state(&key).await.expect("an answer"), Some(vec![7]));
    bench.finish(&job, &run, second, success()).await;
    assert_eq!(bench.store.load_state(&key).await.expect("an answer"), None);
}

/// Values of any bytes under keys of any text; what is deleted is gone.
pub async fn values_are_kept_byte_for_byte(bench: &Bench) {
    let (job, run, token) = running(bench, "acme/a").await;
    let all: Vec<u8> = (0..=255).collect();
    let keys = ["k", "", "ä/ö", "%_*?[a]\\", "'; DROP TABLE kv; --", "a\0b", &"x".repeat(KV_KEY_MAX)];
    for (key, number) in keys.iter().zip(1..) {
        assert_eq!(bench.write(&job, &run, token, number, set(key, &all)).await, Written::Done, "{key:?}");
    }
    for key in keys {
        assert_eq!(get(bench, &job.tenant, key).await.as_ref(), Some(&all), "{key:?}");
    }
    assert_eq!(bench.write(&job, &run, token, 100, delete("k")).await, Written::Done);
    assert_eq!(get(bench, &job.tenant, "k").await, None);
    assert_eq!(bench.write(&job, &run, token, 101, delete("k")).await, Written::NotDone);
    assert_eq!(bench.write(&job, &run, token, 102, set("k", b"")).await, Written::Done);
    assert_eq!(get(bench, &job.tenant, "k").await, Some(Vec::new()));
}

/// A compare-and-set writes only over what it expects, and a copy gets the answer of the first.
pub async fn a_compare_and_set_is_answered_once(bench: &Bench) {
    let (job, run, token) = running(bench, "a").await;
    let write = |number, change| bench.write(&job, &run, token, number, change);
    assert_eq!(write(1, swap("k", Some(b""), b"v")).await, Written::NotDone, "there is none");
    assert_eq!(write(2, swap("k", None, b"v")).await, Written::Done);
    assert_eq!(write(2, swap("k", None, b"v")).await, Written::Done, "the answer was lost");
    assert_eq!(write(3, swap("k", None, b"w")).await, Written::NotDone, "there is one");
    assert_eq!(write(4, swap("k", Some(b"v"), b"w")).await, Written::Done);
    assert_eq!(write(2, swap("k", None, b"v")).await, Written::Past, "a late copy");
    assert_eq!(write(5, swap("k", Some(b"w"), b"")).await, Written::Done);
    assert_eq!(write(6, swap("k", Some(b""), b"x")).await, Written::Done);
    assert_eq!(get(bench, &job.tenant, "k").await, Some(b"x".to_vec()));
}

/// Keys are listed in the order of their bytes, page by page, and a prefix is text, not a pattern.
pub async fn keys_are_listed_by_prefix_in_order(bench: &Bench) {
    let (job, run, token) = running(bench, "acme/a").await;
    let keys = ["a", "a%", "a%b", "a_", "aa", "aä", "b", "B", "a*", "a[b]", "[a", "\\", "ä", "äö", "ö", "a\u{10ffff}"];
    for (key, number) in keys.iter().zip(1..) {
        bench.write(&job, &run, token, number, set(key, b"v")).await;
    }
    let list = async |prefix: &str, after: Option<&str>, limit| {
        bench.store.kv_list(&job.tenant, prefix, after, limit).await.expect("keys")
    };
    let mut sorted = keys.map(str::to_owned);
    sorted.sort();
    assert_eq!(list("", None, 100).await, sorted);
    for prefix in ["a", "a%", "a_", "a*", "a[", "[", "\\", "ä", "B", "c", "a\u{10ffff}"] {
        let expected: Vec<String> = sorted.iter().filter(|key| key.starts_with(prefix)).cloned().collect();
        assert_eq!(list(prefix, None, 100).await, expected, "{prefix:?}");
    }
    let mut paged = Vec::new();
    while let Some(key) = list("a", paged.last().map(String::as_str), 1).await.pop() {
        paged.push(key);
    }
    assert_eq!(paged, list("a", None, 100).await);
    assert_eq!(list("a", Some("b"), 10).await, Vec::<String>::new());
    assert_eq!(list("b", Some("a"), 10).await, ["b"]);
    assert_eq!(list("", None, 0).await, Vec::<String>::new());
}

/// A tenant sees its own values only, whatever its job is called.
pub async fn tenants_have_their_own_values(bench: &Bench) {
    let (a, run_a, token_a) = running(bench, "acme/job").await;
    let (b, run_b, token_b) = running(bench, "acme-2/job").await;
    bench.write(&a, &run_a, token_a, 1, set("k", b"a")).await;
    assert_eq!(get(bench, &b.tenant, "k").await, None);
    assert_eq!(bench.store.kv_list(&b.tenant, "", None, 10).await.expect("keys"), Vec::<String>::new());
    bench.write(&b, &run_b, token_b, 1, set("k", b"b")).await;
    assert_eq!(get(bench, &a.tenant, "k").await, Some(b"a".to_vec()));
}

/// Names are no patterns and have no separators in them: tenants and jobs whose names begin alike, or that put together
/// read alike, are strangers in every verb.
pub async fn names_that_look_alike_share_nothing(bench: &Bench) {
    let names = ["a/b", "a/b.c", "a.b/c", "a/b-c", "a-b/c", "a_b/c", "ab/c", "a/bc", "a/kv", "kv/a", "a/job", "job/a"];
    let mut held = Vec::new();
    for name in names {
        let (key, run, token) = running(bench, name).await;
        bench.write(&key, &run, token, 1, Change::SaveState(name.as_bytes().to_vec())).await;
        bench.write(&key, &run, token, 2, set(name, name.as_bytes())).await;
        held.push((name, key, run, token));
    }
    let state = async |key: &JobKey, run: &RunId| {
        let key = RunKey { job: key.clone(), run: run.clone() };
        bench.store.load_state(&key).await.expect("an answer")
    };
    for (name, key, run, token) in &held {
        assert_eq!(state(key, run).await, Some(name.as_bytes().to_vec()));
        let mut own: Vec<&str> = names.into_iter().filter(|other| job(other).tenant == key.tenant).collect();
        own.sort_unstable();
        assert_eq!(bench.store.kv_list(&key.tenant, "", None, 100).await.expect("keys"), own, "{name}");
        for (_, other, other_run, _) in held.iter().filter(|(_, other, ..)| other != key) {
            let stolen = bench.write(other, other_run, *token, 9, Change::SaveState(b"stolen".to_vec())).await;
            assert_eq!(stolen, Written::Refused, "{name} writes to {other}");
        }
    }
    // What one of them ends is the others' no less than before.
    let (_, ended, run, token) = held.remove(0);
    bench.finish(&ended, &run, token, success()).await;
    for (name, key, run, _) in &held {
        assert_eq!(state(key, run).await, Some(name.as_bytes().to_vec()));
        let view = bench.look(key, run).await.expect("the run is known");
        assert!(view.run.ended_at.is_none(), "{name}");
    }
    let unfinished = bench.store.unfinished(&[ended.tenant], None, 100).await.expect("runs").answer;
    let mut found: Vec<String> = unfinished.iter().map(|standing| standing.key.job.to_string()).collect();
    found.sort();
    assert_eq!(found, ["a/b-c", "a/b.c", "a/bc", "a/job", "a/kv"]);
}

/// What is over the quota is not written, and what is freed can be used again: by all jobs of the tenant together.
pub async fn a_tenants_quota_holds_over_all_its_jobs(bench: &Bench) {
    let (a, run_a, token_a) = running(bench, "acme/a").await;
    let (b, run_b, token_b) = running(bench, "acme/b").await;
    let quota = Quota { value: 1_000, stored: 2 * (ENTRY + 101) };
    let write = async |job: &JobKey, run: &RunId, token, number, change| {
        let write = Write { run: run.clone(), token, number, quota, change };
        bench.store.write(job, &write).await.expect("an answer").answer
    };
    assert_eq!(write(&a, &run_a, token_a, 1, set("k", &[1; 100])).await, Written::Done);
    assert_eq!(write(&b, &run_b, token_b, 1, Change::SaveState(vec![1; 102])).await, Written::OverQuota);
    assert_eq!(write(&b, &run_b, token_b, 2, Change::SaveState(vec![1; 101])).await, Written::Done);
    assert_eq!(write(&a, &run_a, token_a, 2, set("l", b"")).await, Written::OverQuota);
    assert_eq!(write(&a, &run_a, token_a, 3, set("k", &[1; 99])).await, Written::Done, "it shrinks");
    assert_eq!(write(&a, &run_a, token_a, 4, set("k", &[1; 1_001])).await, Written::TooLarge);
    assert_eq!(write(&a, &run_a, token_a, 5, delete("k")).await, Written::Done);
    assert_eq!(write(&a, &run_a, token_a, 6, set("l", &[1; 100])).await, Written::Done);
    bench.finish(&b, &run_b, token_b, success()).await;
    // The checkpoint has gone, an output of two bytes has come.
    assert_eq!(write(&a, &run_a, token_a, 7, Change::SaveState(vec![1; 35])).await, Written::Done);
    assert_eq!(write(&a, &run_a, token_a, 8, Change::SaveState(vec![1; 36])).await, Written::OverQuota);
    // Another tenant has its own.
    let (c, run_c, token_c) = running(bench, "other/a").await;
    assert_eq!(write(&c, &run_c, token_c, 1, set("k", &[1; 100])).await, Written::Done);
}

/// A refused write is refused whatever it is, and creates nothing.
pub async fn writes_of_who_does_not_hold_the_run_are_refused(bench: &Bench) {
    let (job, run, token) = running(bench, "a").await;
    let changes = [set("k", b"v"), delete("k"), swap("k", None, b"v"), Change::SaveState(vec![1])];
    for change in &changes {
        assert_eq!(bench.write(&job, &run, bench.token(), 1, change.clone()).await, Written::Refused);
    }
    bench.release(&job, &run, token).await;
    for change in &changes {
        assert_eq!(bench.write(&job, &run, token, 1, change.clone()).await, Written::Refused);
    }
    assert_eq!(get(bench, &job.tenant, "k").await, None);
    assert_eq!(bench.revision(&job).await, 2, "a win and a release");
}
