//! Hosts on database servers: runs from slot to record, an outage and the way back, and addresses that are wrong.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

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

/// Waits for what a host tells of itself.
fn of_host(host: &mut HostProcess, kind: &str) -> Value {
    host.wait_until(kind, |event| event["event"] == kind && event["job"].is_null())
}

/// Waits until this host has heard of a slot that was due after this instant.
fn a_slot_after(host: &mut HostProcess, instant: &str) {
    // Instants of one form: the later one is the greater text.
    host.wait_until("a claim after the outage", |event| {
        text(event, "at").as_str() > instant
            && ["claimed", "backup", "superseded"].iter().any(|kind| event["event"] == *kind)
    });
}

/// S1: over all hosts, no run's first attempt was claimed twice.
fn each_slot_was_claimed_once(hosts: &mut [HostProcess]) {
    let mut claimed = BTreeSet::new();
    for event in hosts.iter_mut().flat_map(|host| host.events().to_vec()) {
        if event["event"] == "claimed" && event["attempt"] == 1 {
            assert!(claimed.insert(text(&event, "run")), "claimed twice: {event}");
        }
    }
    assert!(!claimed.is_empty(), "they ran something");
}

/// Three hosts run each slot once; all see the store go and come back, and without a restart slots run again.
async fn outlives_an_outage(mut server: Server) {
    let w = on(&server.url());
    let mut hosts = [w.serve(), w.serve(), w.serve()];
    hosts[0].wait_for("success", "default/hello");
    server.kill().await.expect("it is killed");
    hosts.iter_mut().for_each(|host| drop(of_host(host, "store-down")));
    server.restart().await.expect("it is back");
    let up = hosts.iter_mut().map(|host| text(&of_host(host, "store-up"), "at")).max().expect("three hosts");
    a_slot_after(&mut hosts[0], &up);
    // Each look starts a process: these are several minutes.
    let is_done =
        (0..2_000).any(|_| w.runs("hello").iter().any(|run| text(run, "due") > up && run["status"] == "success"));
    assert!(is_done, "no run since {up}: {:?}", w.runs("hello"));
    each_slot_was_claimed_once(&mut hosts);
    for host in hosts {
        host.terminate();
        let (status, stderr) = host.ended();
        assert!(status.success(), "{stderr}");
    }
    let runs = w.runs("hello");
    let undisturbed = runs.iter().filter(|run| text(run, "due") > up && run["hand_overs"] == 0);
    undisturbed.for_each(|run| assert_eq!(run["starts"], 1, "{run}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_on_postgresql_outlive_an_outage_of_it() {
    if let Some(server) = or_skip(Postgres::start().await) {
        outlives_an_outage(Server::Postgres(server)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_on_redis_outlive_an_outage_of_it() {
    if let Some(server) = or_skip(Redis::start_with(RedisKind::Redis, keeping()).await) {
        outlives_an_outage(Server::Redis(server)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_on_valkey_outlive_an_outage_of_it() {
    if let Some(server) = or_skip(Redis::start_with(RedisKind::Valkey, keeping()).await) {
        outlives_an_outage(Server::Redis(server)).await;
    }
}

/// A server that has on its disk what it has acknowledged.
fn keeping() -> RedisOptions {
    RedisOptions { persistent: true, ..RedisOptions::default() }
}

/// A server that answers questions and takes no changes is down, too: the host says why, once, and comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_only_reads_is_told_with_the_reason_and_used_again() {
    let Some(server) = or_skip(Redis::start(RedisKind::Redis).await) else { return };
    let w = on(&server.url());
    let mut host = w.serve();
    host.wait_for("success", "default/hello");
    ask(&server, "CONFIG SET maxmemory 1");
    let down = of_host(&mut host, "store-down");
    assert!(text(&down, "detail").contains("maxmemory"), "{down}");
    // It reads all the while, and is tried again and again.
    assert_eq!(w.leasehold(&["jobs"]).code, Some(0));
    let tried_by = |host: &mut HostProcess| host.events().iter().filter(|event| event["event"] == "store-up").count();
    assert_eq!(tried_by(&mut host), 0);
    ask(&server, "CONFIG SET maxmemory 0");
    let up = text(&of_host(&mut host, "store-up"), "at");
    a_slot_after(&mut host, &up);
    let downs = host.events().iter().filter(|event| event["event"] == "store-down").count();
    assert_eq!(downs, 1, "it is told once");
}

/// Sends a command to the server as an operator does.
fn ask(server: &Redis, command: &str) {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("the server listens");
    stream.write_all(format!("{command}\r\n").as_bytes()).expect("it is sent");
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).expect("an answer");
    assert_eq!(answer.trim(), "+OK", "{command}");
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
    let settings = [("maxmemory", "100mb"), ("maxmemory-policy", "allkeys-lru")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    if let Some(server) = or_skip(Redis::start_with(RedisKind::Redis, RedisOptions { settings, ..keeping() }).await) {
        let evicts = refused(&server.url());
        assert!(evicts.contains("maxmemory-policy noeviction"), "{evicts}");
    }
    for url in ["redis://u:a?hunter2@127.0.0.1:1", "postgres://u:a?hunter2@127.0.0.1:1/db"] {
        let question_mark = on(url).leasehold(&["serve"]);
        assert!(question_mark.code == Some(2) && question_mark.stderr.contains("%3F"), "{question_mark:?}");
        assert!(
            !question_mark.stderr.contains("hunter2") && question_mark.stderr.lines().count() == 1,
            "{question_mark:?}"
        );
    }
    let w = Workplace::new("[store]\nurl = \"sqlite:///etc/passwd\"\n");
    let foreign = w.leasehold(&["serve"]);
    assert!(foreign.code == Some(1) && foreign.stderr.contains("/etc/passwd"), "{foreign:?}");
}
