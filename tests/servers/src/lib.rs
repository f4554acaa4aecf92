//! Private database servers for tests, and a network between them that fails on demand.
//!
//! Every server has a free port on loopback and a folder of its own, and is gone when its value is dropped or the test
//! process dies, however it dies. It can be stopped, killed, frozen and started again on the same port and data.
//!
//! ```no_run
//! # async fn test() -> Result<(), leasehold_test_servers::ServerError> {
//! use leasehold_test_servers::{Postgres, Proxy, or_skip};
//!
//! let Some(mut postgres) = or_skip(Postgres::start().await) else { return Ok(()) };
//! let proxy = Proxy::start(postgres.port()).await?;
//! let url = proxy.url(&postgres.url()); // what the store under test is given
//! proxy.blackhole(); // silence, as when a cable is pulled
//! proxy.heal();
//! postgres.kill().await?;
//! postgres.restart().await?;
//! # Ok(()) }
//! ```
//!
//! A [`Watchdog`] tells whether the machine gave a test its time. Tests that share a server take [`shared_postgres`], [`shared_redis`] or [`shared_valkey`].
//! Linux only: it takes `setpriv` of util-linux and `/proc`.

mod account;
mod cost;
mod error;
mod folder;
mod pgbouncer;
mod port;
mod postgres;
mod process;
mod program;
mod proxy;
mod redis;
mod shared;
mod spawner;
mod tarpit;
mod tree;
mod watchdog;

pub use cost::{memory, processor_time};
pub use error::ServerError;
pub use folder::Storage;
pub use pgbouncer::{PgBouncer, PoolMode};
pub use postgres::{PASSWORD, Postgres, PostgresOptions, USER};
pub use proxy::{Direction, Proxy};
pub use redis::{Redis, RedisCluster, RedisKind, RedisOptions};
pub use shared::{environment, or_skip, shared_postgres, shared_redis, shared_valkey};
pub use tarpit::Tarpit;
pub use watchdog::{IN_TIME, Watchdog, since_boot};
