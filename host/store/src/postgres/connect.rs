//! Opening a connection, and the first look at a server.

use std::time::Duration;

use sqlx::postgres::PgConnection;
use sqlx::{Connection, Executor, Row};
use tokio::time::timeout;

use super::address::{Address, Transport};
use super::error::{self, ConnectError};
use super::schema;

/// The oldest version of PostgreSQL that the statements are written for.
const OLDEST: i32 = 130_000;

/// How long a server may take to let a client in.
pub(super) const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// How long the first look and the migration may take, hosts that start together included.
const PREPARE_LIMIT: Duration = Duration::from_secs(60);

/// How often two clients are asked whom they meet.
const POOLER_ROUNDS: usize = 3;

/// Opens a connection.
pub(super) async fn open(address: &Address) -> Result<PgConnection, ConnectError> {
    match timeout(CONNECT_LIMIT, PgConnection::connect_with(&address.options)).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(source)) => Err(ConnectError::from_server(&address.shown, source)),
        Err(_) => Err(ConnectError::Silent { server: address.shown.clone(), after: CONNECT_LIMIT }),
    }
}

/// Whether a server refuses a setting that every PostgreSQL knows: then it is a pooler.
pub(super) fn unsupported_parameter(error: &sqlx::Error) -> bool {
    error::database_error(error)
        .is_some_and(|error| error.code() == "08P01" && error.message().contains("unsupported startup parameter"))
}

/// Looks at a server for the first time and prepares its schema.
pub(super) async fn prepare(address: &Address) -> Result<(), ConnectError> {
    let work = async {
        let mut db = open(address).await?;
        look(&mut db, &address.shown).await?;
        if address.transport == Transport::Prepared {
            no_pooler(address, &mut db).await?;
        }
        schema::prepare(&mut db, &address.shown).await?;
        // Nothing is open any more: how the goodbye ends does not matter.
        let _ = db.close().await;
        Ok(())
    };
    let late = |_| ConnectError::Silent { server: address.shown.clone(), after: PREPARE_LIMIT };
    timeout(PREPARE_LIMIT, work).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
}

/// Whether the namespace is there.
pub(super) async fn exists(address: &Address, namespace: &str) -> Result<bool, ConnectError> {
    let work = async {
        let mut db = open(address).await?;
        let known = schema::namespaces(&mut db).await;
        let known = known.map_err(|source| ConnectError::from_server(&address.shown, source))?;
        let _ = db.close().await;
        Ok(known.iter().any(|known| known == namespace))
    };
    let late = |_| ConnectError::Silent { server: address.shown.clone(), after: PREPARE_LIMIT };
    timeout(PREPARE_LIMIT, work).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
}

/// Refuses a server that cannot serve, and warns of one that may forget.
async fn look(db: &mut PgConnection, server: &str) -> Result<(), ConnectError> {
    let failed = |source| ConnectError::from_server(server, source);
    let row = db.fetch_one(sqlx::raw_sql(include_str!("schema/look.sql"))).await.map_err(failed)?;
    let number: i32 = row.try_get(0).map_err(failed)?;
    if number < OLDEST {
        let found = row.try_get(1).map_err(failed)?;
        return Err(ConnectError::TooOld { server: server.to_owned(), found });
    }
    if row.try_get(2).map_err(failed)? {
        return Err(ConnectError::ReadOnly { server: server.to_owned(), reason: "it is a standby" });
    }
    if row.try_get(3).map_err(failed)? {
        return Err(ConnectError::ReadOnly { server: server.to_owned(), reason: "its transactions are read-only" });
    }
    let (commit, fsync): (String, String) = (row.try_get(4).map_err(failed)?, row.try_get(5).map_err(failed)?);
    if commit == "off" || fsync == "off" {
        tracing::warn!(
            server,
            synchronous_commit = commit,
            fsync,
            "the server may forget what it has acknowledged when it crashes: runs may start twice; turn both on"
        );
    }
    Ok(())
}

/// Refuses a pooler that shares its server connections between transactions: with it two idle clients meet the same
/// process of the server, or one meets several in turn, which never happens without.
async fn no_pooler(address: &Address, first: &mut PgConnection) -> Result<(), ConnectError> {
    let mut second = open(address).await?;
    let met = (backend(address, first).await?, backend(address, &mut second).await?);
    // Every other time alone, so that a pooler that gives out its connections in turn is found out, too.
    for _ in 0..POOLER_ROUNDS {
        let again = (backend(address, first).await?, backend(address, first).await?);
        let other = backend(address, &mut second).await?;
        if met.0 == met.1 || again != (met.0, met.0) || other != met.1 {
            return Err(ConnectError::Pooler { server: address.shown.clone() });
        }
    }
    let _ = second.close().await;
    Ok(())
}

async fn backend(address: &Address, db: &mut PgConnection) -> Result<i32, ConnectError> {
    let failed = |source| ConnectError::from_server(&address.shown, source);
    let row = db.fetch_one(sqlx::raw_sql(include_str!("schema/backend.sql"))).await.map_err(failed)?;
    row.try_get(0).map_err(failed)
}
