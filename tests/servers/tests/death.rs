//! A test process that is killed leaves no server behind.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // Helpers of tests are tests.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leasehold_test_servers::environment::{POSTGRES, REDIS, VALKEY};
use leasehold_test_servers::{Postgres, Redis, RedisKind, or_skip};

mod support;
use support::{Client, refuses};

/// Set in the process that is going to be killed, which is this program again, with one test.
const VICTIM: &str = "LEASEHOLD_TEST_VICTIM";

#[tokio::test]
async fn postgres_dies_with_its_test_process() {
    if is_victim() {
        let postgres = or_skip(Postgres::start().await);
        return wait_for_death(postgres.as_ref().map(Postgres::port)).await;
    }
    let Some((mut victim, port)) = start_victim("postgres_dies_with_its_test_process") else { return };
    let mut client = Client::connect(port).await;
    // Protocol 3.0, user postgres: now it has a backend of its own, which asks for the password.
    client.send_bytes(b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0").await;
    assert!(client.answer().await.starts_with('R'));
    kill(&mut victim);
    assert_eq!(client.answer().await, "", "its backend ended");
    wait_refused(port).await;
}

#[tokio::test]
async fn redis_dies_with_its_test_process() {
    if is_victim() {
        let redis = or_skip(Redis::start(RedisKind::Redis).await);
        return wait_for_death(redis.as_ref().map(Redis::port)).await;
    }
    let Some((mut victim, port)) = start_victim("redis_dies_with_its_test_process") else { return };
    assert_eq!(Client::connect(port).await.ask("PING").await, "+PONG");
    kill(&mut victim);
    wait_refused(port).await;
}

#[tokio::test]
async fn a_frozen_server_dies_with_its_test_process() {
    if is_victim() {
        let mut postgres = or_skip(Postgres::start().await);
        if let Some(postgres) = &mut postgres {
            postgres.freeze().await.unwrap();
        }
        return wait_for_death(postgres.as_ref().map(Postgres::port)).await;
    }
    let Some((mut victim, port)) = start_victim("a_frozen_server_dies_with_its_test_process") else { return };
    // The system takes the connection; the server does not know of it.
    assert!(!refuses(port).await);
    kill(&mut victim);
    wait_refused(port).await;
}

#[tokio::test]
async fn serving_for_all_tests_ends_when_the_input_ends() {
    let mut serve = Command::new(env!("CARGO_BIN_EXE_leasehold-test-servers"));
    // Where the environment names a server, it would start none.
    serve.env_remove(POSTGRES).env_remove(REDIS).env_remove(VALKEY);
    let mut serve = serve.arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(serve.stdout.take().unwrap()).lines().map(Result::unwrap);
    let urls: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    drop(serve.stdin.take());
    assert!(serve.wait().unwrap().success());
    if urls.is_empty() {
        eprintln!("skipped: no server is installed here that it could start; scripts/setup installs them");
    }
    for url in urls {
        let port = url.rsplit(':').next().unwrap().split('/').next().unwrap().parse().unwrap();
        assert!(refuses(port).await, "{url} is gone");
    }
}

fn is_victim() -> bool {
    env::var_os(VICTIM).is_some()
}

/// Tells the parent the port, and waits to be killed.
async fn wait_for_death(port: Option<u16>) {
    println!("\nport={}", port.unwrap_or(0));
    std::future::pending().await
}

/// Runs one test of this program as the victim; its server's port, or `None` where it could start none.
fn start_victim(test: &str) -> Option<(Child, u16)> {
    let mut victim = Command::new(env::current_exe().unwrap());
    victim.args([test, "--exact", "--nocapture"]).env(VICTIM, "1").stdout(Stdio::piped());
    let mut victim = victim.spawn().unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines().map(Result::unwrap);
    let port = lines.filter_map(|line| Some(line.strip_prefix("port=")?.parse().unwrap())).next();
    match port.expect("the victim tells its port") {
        0 => {
            kill(&mut victim);
            None
        }
        port => Some((victim, port)),
    }
}

fn kill(victim: &mut Child) {
    victim.kill().unwrap();
    victim.wait().unwrap();
}

async fn wait_refused(port: u16) {
    let gone = async {
        while !refuses(port).await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.expect("the server has ended");
}
