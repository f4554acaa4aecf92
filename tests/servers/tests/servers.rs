//! Servers that start, end, stand still and come back.

use std::time::Duration;

use leasehold_test_servers::{
    PASSWORD, PgBouncer, PoolMode, Postgres, PostgresOptions, Redis, RedisCluster, RedisKind, RedisOptions,
    ServerError, Storage, or_skip, shared_postgres, shared_redis,
};
use tokio::time::timeout;

mod support;
use support::{Client, psql, refuses, sql};

/// Long enough for an answer that comes, short enough to wait for one that does not.
const SILENCE: Duration = Duration::from_millis(200);

#[tokio::test]
async fn postgres_keeps_what_was_committed_when_it_is_stopped_or_killed() {
    let Some(mut postgres) = or_skip(Postgres::start().await) else { return };
    let url = postgres.url();
    sql(&url, "CREATE TABLE t AS SELECT 42 AS answer").await;
    postgres.kill().await.unwrap();
    assert!(refuses(postgres.port()).await, "a killed server has no port");
    postgres.restart().await.unwrap();
    assert_eq!(sql(&url, "SELECT answer FROM t").await, "42");
    postgres.stop().await.unwrap();
    assert!(refuses(postgres.port()).await, "a stopped server has no port");
    postgres.restart().await.unwrap();
    assert_eq!(sql(&url, "SELECT answer FROM t").await, "42");
}

#[tokio::test]
async fn postgres_does_not_answer_while_it_is_frozen_not_even_those_who_are_connected() {
    let Some(mut postgres) = or_skip(Postgres::start().await) else { return };
    let url = postgres.url();
    sql(&url, "CREATE TABLE ticks (n int)").await;
    let busy = "DO $$ BEGIN FOR n IN 1..100000 LOOP INSERT INTO ticks VALUES (n); COMMIT; END LOOP; END $$";
    let mut work = tokio::spawn({
        let url = url.clone();
        async move { psql(&url, busy).await }
    });
    let count = "SELECT count(*) FROM ticks";
    while sql(&url, count).await == "0" {}
    postgres.freeze().await.unwrap();
    assert!(timeout(SILENCE, &mut work).await.is_err(), "the backend stands still");
    assert!(timeout(SILENCE, psql(&url, "SELECT 1")).await.is_err(), "nobody new is served");
    postgres.thaw().unwrap();
    assert_eq!(sql(&url, "SELECT 1").await, "1");
    // Killed while it stands still, and gone all the same.
    postgres.freeze().await.unwrap();
    postgres.kill().await.unwrap();
    assert!(!work.await.unwrap().status.success(), "its server was killed");
}

#[tokio::test]
async fn postgres_refuses_a_wrong_password() {
    let Some(postgres) = or_skip(Postgres::start().await) else { return };
    let output = psql(&postgres.url().replace(PASSWORD, "wrong"), "SELECT 1").await;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("password authentication failed"), "{told}");
    assert!(postgres.log_tail().contains("password authentication failed"), "{}", postgres.log_tail());
}

#[tokio::test]
async fn postgres_takes_settings_and_writes_to_the_disk_as_in_earnest() {
    let settings = vec![("application_name".to_owned(), "it's mine".to_owned())];
    let options = PostgresOptions { storage: Storage::Disk, settings };
    let Some(postgres) = or_skip(Postgres::start_with(options).await) else { return };
    assert_eq!(sql(&postgres.url(), "SELECT current_setting('fsync')").await, "on");
    let boot = "SELECT boot_val IS DISTINCT FROM reset_val FROM pg_settings WHERE name = 'max_connections'";
    assert_eq!(sql(&postgres.url(), boot).await, "t");
    let line = "SELECT setting FROM pg_file_settings WHERE name = 'application_name'";
    assert_eq!(sql(&postgres.url(), line).await, "it's mine");
}

#[tokio::test]
async fn a_server_that_cannot_start_shows_the_end_of_its_log() {
    let settings = vec![("max_connections".to_owned(), "none".to_owned())];
    let started = Postgres::start_with(PostgresOptions { settings, ..PostgresOptions::default() }).await;
    match started {
        Err(ServerError::Ended { log, .. }) => assert!(log.contains("max_connections"), "{log}"),
        other => assert!(or_skip(other).is_none(), "it started with a setting that it cannot read"),
    }
}

#[tokio::test]
async fn redis_forgets_everything_when_it_ends() {
    let Some(mut redis) = or_skip(Redis::start(RedisKind::Redis).await) else { return };
    assert_eq!(Client::connect(redis.port()).await.ask("SET a 1").await, "+OK");
    redis.kill().await.unwrap();
    assert!(refuses(redis.port()).await, "a killed server has no port");
    redis.restart().await.unwrap();
    assert_eq!(Client::connect(redis.port()).await.ask("GET a").await, "$-1");
}

#[tokio::test]
async fn a_persistent_redis_keeps_what_it_acknowledged() {
    let options = RedisOptions { persistent: true, password: Some("secret".into()), ..RedisOptions::default() };
    let Some(mut redis) = or_skip(Redis::start_with(RedisKind::Redis, options).await) else { return };
    assert!(redis.url().contains(":secret@"), "{}", redis.url());
    let mut client = Client::connect(redis.port()).await;
    assert!(client.ask("SET a 1").await.starts_with("-NOAUTH"));
    assert_eq!(client.ask("AUTH secret").await, "+OK");
    assert_eq!(client.ask("SET a 1").await, "+OK");
    redis.kill().await.unwrap();
    assert_eq!(client.answer().await, "", "the connection ended");
    redis.restart().await.unwrap();
    let mut client = Client::connect(redis.port()).await;
    assert_eq!(client.ask("AUTH secret").await, "+OK");
    assert_eq!(client.ask("GET a").await, "$1\r\n1");
}

#[tokio::test]
async fn redis_answers_late_what_it_was_asked_while_it_was_frozen() {
    let Some(mut redis) = or_skip(Redis::start(RedisKind::Redis).await) else { return };
    let mut client = Client::connect(redis.port()).await;
    redis.freeze().await.unwrap();
    client.send("INCR a").await;
    assert!(timeout(SILENCE, client.answer()).await.is_err());
    redis.thaw().unwrap();
    assert_eq!(client.answer().await, ":1");
}

#[tokio::test]
async fn valkey_is_not_redis() {
    let Some(valkey) = or_skip(Redis::start(RedisKind::Valkey).await) else { return };
    let info = Client::connect(valkey.port()).await.ask("INFO server").await;
    assert!(info.contains("server_name:valkey"), "{info}");
}

#[tokio::test]
async fn three_masters_share_the_slots_of_a_cluster() {
    let Some(mut cluster) = or_skip(RedisCluster::start(RedisKind::Redis).await) else { return };
    assert_eq!(cluster.urls().len(), 3);
    let mut served = 0;
    for node in cluster.nodes() {
        let answer = Client::connect(node.port()).await.ask("SET {tenant}a 1").await;
        assert!(answer == "+OK" || answer.starts_with("-MOVED"), "{answer}");
        served += usize::from(answer == "+OK");
    }
    assert_eq!(served, 1, "one of them serves a key");
    cluster.nodes()[1].kill().await.unwrap();
    cluster.nodes()[1].restart().await.unwrap();
    cluster.wait_complete().await.unwrap();
}

#[tokio::test]
async fn pgbouncer_passes_statements_on_in_its_mode() {
    let Some(postgres) = or_skip(Postgres::start().await) else { return };
    let Some(mut pooler) = or_skip(PgBouncer::start(&postgres, PoolMode::Transaction).await) else { return };
    assert_eq!(sql(&pooler.url(), "SHOW server_version_num").await.len(), 6);
    let admin = pooler.url().trim_end_matches("postgres").to_owned() + "pgbouncer";
    let config = sql(&admin, "SHOW CONFIG").await;
    assert!(config.lines().any(|line| line.starts_with("pool_mode|transaction|")), "{config}");
    pooler.kill().await.unwrap();
    assert!(refuses(pooler.port()).await);
    pooler.restart().await.unwrap();
    assert_eq!(sql(&pooler.url(), "SELECT 1").await, "1");
}

#[tokio::test]
async fn tests_share_one_server() {
    let (Some(postgres), Some(redis)) = (or_skip(shared_postgres().await), or_skip(shared_redis().await)) else {
        return;
    };
    assert_eq!(shared_postgres().await.unwrap(), postgres);
    assert_eq!(shared_redis().await.unwrap(), redis);
    assert_eq!(sql(&postgres, "SELECT 1").await, "1");
}

#[test]
fn a_server_outlives_the_thread_that_started_it() {
    let start = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Redis::start(RedisKind::Redis))
    };
    let Some(redis) = or_skip(std::thread::spawn(start).join().unwrap()) else { return };
    let ping = async { Client::connect(redis.port()).await.ask("PING").await };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(runtime.block_on(ping), "+PONG");
}
