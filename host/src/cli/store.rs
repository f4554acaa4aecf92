//! The store as a command reads it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold::config::StoreUrl;
use leasehold_store::LeaseStore;
use leasehold_store::memory::MemoryStore;
use leasehold_store::postgres::PostgresStore;
use leasehold_store::redis::RedisStore;
use leasehold_store::sqlite::{OpenError, SqliteStore};

use super::error::CliError;

/// Opens the store for a host, and makes it where it is missing.
///
/// # Errors
/// It cannot be made or read.
pub(super) async fn open(url: &StoreUrl) -> Result<Arc<dyn LeaseStore>, CliError> {
    match url {
        StoreUrl::Memory => Ok(Arc::new(MemoryStore::new())),
        StoreUrl::Sqlite(path) => open_sqlite(url, path.clone(), SqliteStore::open).await,
        StoreUrl::Postgres(_) => connect(url).await,
        StoreUrl::Redis(server) => {
            let connected = RedisStore::connect(&server.url, &server.namespace).await;
            let store = connected.map_err(|error| CliError::OpenStore { url: url.clone(), source: error.into() })?;
            for warning in store.warnings() {
                tracing::warn!("{url}: {warning}");
            }
            Ok(Arc::new(store))
        }
    }
}

/// Opens the store to read from it, whoever writes to it meanwhile. Reading makes neither file nor namespace: a store that
/// was emptied under running hosts would get a new identity, and they would refuse it.
///
/// # Errors
/// Besides those of [`open`]: there is none.
pub(super) async fn open_existing(url: &StoreUrl) -> Result<Arc<dyn LeaseStore>, CliError> {
    match url {
        StoreUrl::Memory => Err(CliError::MemoryStore),
        StoreUrl::Sqlite(path) if !path.exists() => Err(CliError::NoStore { path: path.clone() }),
        StoreUrl::Sqlite(path) => open_sqlite(url, path.clone(), SqliteStore::open_for_reading).await,
        StoreUrl::Postgres(server) => {
            let found = PostgresStore::exists(&server.url, &server.namespace).await;
            existing(url, &server.namespace, found.map_err(Into::into)).await
        }
        StoreUrl::Redis(server) => {
            let found = RedisStore::exists(&server.url, &server.namespace).await;
            existing(url, &server.namespace, found.map_err(Into::into)).await
        }
    }
}

/// Opens the store to change something in it, whoever works on it meanwhile. As for reading, nothing is made.
///
/// # Errors
/// As for [`open_existing`].
pub(super) async fn open_to_change(url: &StoreUrl) -> Result<Arc<dyn LeaseStore>, CliError> {
    let found = open_existing(url).await?;
    match url {
        // What was opened to read only has shown that the file is one, and of this version: hosts bring older ones up.
        StoreUrl::Sqlite(path) => open_sqlite(url, path.clone(), SqliteStore::open).await,
        StoreUrl::Memory | StoreUrl::Postgres(_) | StoreUrl::Redis(_) => Ok(found),
    }
}

async fn existing(
    url: &StoreUrl,
    namespace: &str,
    found: Result<bool, Box<dyn std::error::Error + Send + Sync>>,
) -> Result<Arc<dyn LeaseStore>, CliError> {
    match found {
        Ok(true) => connect(url).await,
        Ok(false) => Err(CliError::NoNamespace { url: url.clone(), namespace: namespace.to_owned() }),
        Err(source) => Err(CliError::OpenStore { url: url.clone(), source }),
    }
}

/// Connects to a database server.
async fn connect(url: &StoreUrl) -> Result<Arc<dyn LeaseStore>, CliError> {
    let failed = |source| CliError::OpenStore { url: url.clone(), source };
    match url {
        StoreUrl::Postgres(server) => match PostgresStore::connect(&server.url, &server.namespace).await {
            Ok(store) => Ok(Arc::new(store)),
            Err(error) => Err(failed(error.into())),
        },
        StoreUrl::Redis(server) => match RedisStore::connect(&server.url, &server.namespace).await {
            Ok(store) => Ok(Arc::new(store)),
            Err(error) => Err(failed(error.into())),
        },
        StoreUrl::Sqlite(_) | StoreUrl::Memory => unreachable!("these are no servers"),
    }
}

async fn open_sqlite(
    url: &StoreUrl,
    path: PathBuf,
    how: fn(&Path) -> Result<SqliteStore, OpenError>,
) -> Result<Arc<dyn LeaseStore>, CliError> {
    let failed = |source: OpenError| CliError::OpenStore { url: url.clone(), source: source.into() };
    let opened = tokio::task::spawn_blocking(move || how(&path)).await;
    let store = opened.map_err(|error| CliError::Runtime(error.into()))?.map_err(failed)?;
    Ok(Arc::new(store))
}
