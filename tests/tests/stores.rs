//! Hosts on database servers: runs from slot to record, an outage and the way back, and addresses that are wrong.

use std::collections::BTreeSet;

use leasehold_test_servers::{Postgres, Redis, RedisKind, RedisOptions, ServerError, or_skip};
use leasehold_tests::{HostProcess, Workplace};
use serde_json::Value;

/// A lease that a test can wait for.
const SHORT_LEASE: &str = "lease = \"3s\"\nheartbeat = \"500ms\"\nmin_interval = \"1s\"\n";

/// A server that tests bring down.
enum Server {
    Postgres(Postgres),
    Redis(Redis),
}

impl Server {
    fn url(&self) -> String {
        match self {
            Server::Postgres(server) => server.url(),
            Server::Redis(server) => server.url(),
        }
    }

    async fn kill(&mut self) -> Result<(), ServerError> {
        match self {
            Server::Postgres(server) => server.kill().await,
            Server::Redis(server) => server.kill().await,
        }
    }

    async fn restart(&mut self) -> Result<(), ServerError> {
        match self {
            Server::Postgres(server) => server.restart().await,
            Server::Redis(server) => server.restart().await,
        }
    }
}

/// A folder whose hosts use this store, with a job due every two seconds.
fn on(url: &str) -> Workplace {
    let w = Workplace::new(&format!("[store]\nurl = \"{url}\"\nnamespace = \"test\"\n[defaults]\n{SHORT_LEASE}"));
    w.install("hello", "hello.wasm");
    w.write("plugins/hello.toml", "[[jobs]]\nname = \"hello\"\nevery = \"2s\"\npayload = { name = \"world\" }\n");
    w
}

fn text(record: &Value, key: &str) -> String {
    record[key].as_str().expect("a text").to_owned()
}

/// Two hosts run each slot once; both see the store go and come back, and without a restart slots run again.
async fn outlives_an_outage(mut server: Server) {
    let w = on(&server.url());
    let mut hosts = [w.serve(), w.serve()];
    hosts[0].wait_for("success", "default/hello");
    server.kill().await.expect("it is killed");
    let of_host = |host: &mut HostProcess, kind: &str| {
        host.wait_until(kind, |event| event["event"] == kind && event["job"].is_null())
    };
    hosts.iter_mut().for_each(|host| drop(of_host(host, "store-down")));
    server.restart().await.expect("it is back");
    let up = hosts.iter_mut().map(|host| text(&of_host(host, "store-up"), "at")).max().expect("two hosts");
    // Instants of one form: the later one is the greater text.
    hosts[0].wait_until("a claim after the outage", |event| {
        text(event, "at") > up && ["claimed", "backup", "superseded"].iter().any(|kind| event["event"] == *kind)
    });
    for host in hosts {
        host.terminate();
        let (status, stderr) = host.ended();
        assert!(status.success(), "{stderr}");
    }
    let runs = w.runs("hello");
    assert!(runs.iter().any(|run| text(run, "due") > up && run["status"] == "success"), "{up:?} {runs:?}");
    let slots: BTreeSet<String> = runs.iter().map(|run| text(run, "run")).collect();
    assert_eq!(slots.len(), runs.len(), "a slot has one run: {runs:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_on_postgresql_outlive_an_outage_of_it() {
    if let Some(server) = or_skip(Postgres::start().await) {
        outlives_an_outage(Server::Postgres(server)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_on_redis_outlive_an_outage_of_it() {
    let options = RedisOptions { persistent: true, ..RedisOptions::default() };
    if let Some(server) = or_skip(Redis::start_with(RedisKind::Redis, options).await) {
        outlives_an_outage(Server::Redis(server)).await;
    }
}

/// What a host says when it cannot use its store: one message, and the exit code.
fn refused(url: &str) -> String {
    let w = on(url);
    let answer = w.leasehold(&["serve"]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(!answer.stderr.contains("hunter2"), "a password is told: {answer:?}");
    answer.stderr
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_does_not_work_is_told_with_what_to_do() {
    let nobody = refused("postgres://u:hunter2@127.0.0.1:1/db");
    assert!(nobody.contains("127.0.0.1"), "{nobody}");
    let nobody = refused("redis://:hunter2@127.0.0.1:1");
    assert!(nobody.contains("127.0.0.1"), "{nobody}");
    if let Some(server) = or_skip(Postgres::start().await) {
        let missing = refused(&format!("{}-missing", server.url()));
        assert!(missing.contains("-missing") && missing.to_lowercase().contains("create"), "{missing}");
        let url = server.url();
        let (_, place) = url.split_once('@').expect("user and password stand before it");
        let wrong = refused(&format!("postgres://postgres:hunter2@{place}"));
        assert!(wrong.to_lowercase().contains("password"), "{wrong}");
    }
    let options = RedisOptions { password: Some("secret".into()), ..RedisOptions::default() };
    if let Some(server) = or_skip(Redis::start_with(RedisKind::Redis, options).await) {
        let wrong = refused(&server.url().replace("secret", "hunter2"));
        assert!(wrong.to_lowercase().contains("password"), "{wrong}");
    }
}
