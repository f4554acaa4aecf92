//! Servers that start, end, stand still and come back.

use std::time::Duration;

use leasehold_test_servers::{
    PASSWORD, PgBouncer, PoolMode, Postgres, PostgresOptions, Redis, RedisCluster, RedisKind, RedisOptions, Storage,
    or_skip,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

mod support;
use support::{Psql, RedisClient};

#[tokio::test]
async fn postgres_keeps_what_was_committed_when_it_is_killed_and_restarted() {
    let Some(mut postgres) = or_skip(Postgres::start().await) else { return };
    let psql = Psql::new(postgres.url());
    psql.run("CREATE TABLE t AS SELECT 42 AS answer").await;
    postgres.kill().await.unwrap();
    assert!(TcpStream::connect(("127.0.0.1", postgres.port())).await.is_err(), "a killed server has no port");
    postgres.restart().await.unwrap();
    assert_eq!(psql.run("SELECT answer FROM t").await, "42");
    postgres.stop().await.unwrap();
    postgres.restart().await.unwrap();
    assert_eq!(psql.run("SELECT answer FROM t").await, "42");
}
