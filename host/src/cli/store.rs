//! The store as a command reads it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold::config::StoreUrl;
use leasehold_store::LeaseStore;
use leasehold_store::memory::MemoryStore;
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
    }
}

/// Opens the store to read from it, whoever writes to it meanwhile.
///
/// # Errors
/// Besides those of [`open`]: there is none, and reading makes none.
pub(super) async fn open_existing(url: &StoreUrl) -> Result<Arc<dyn LeaseStore>, CliError> {
    match url {
        StoreUrl::Memory => Err(CliError::MemoryStore),
        StoreUrl::Sqlite(path) if !path.exists() => Err(CliError::NoStore { path: path.clone() }),
        StoreUrl::Sqlite(path) => open_sqlite(url, path.clone(), SqliteStore::open_for_reading).await,
    }
}

async fn open_sqlite(
    url: &StoreUrl,
    path: PathBuf,
    how: fn(&Path) -> Result<SqliteStore, OpenError>,
) -> Result<Arc<dyn LeaseStore>, CliError> {
    let failed = |source| CliError::OpenStore { url: url.clone(), source: Box::new(source) };
    let opened = tokio::task::spawn_blocking(move || how(&path)).await;
    let store = opened.map_err(|error| CliError::Runtime(error.into()))?.map_err(failed)?;
    Ok(Arc::new(store))
}
