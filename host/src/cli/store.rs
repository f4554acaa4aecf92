//! The store as a command reads it.

use std::path::PathBuf;
use std::sync::Arc;

use leasehold::config::StoreUrl;
use leasehold_store::LeaseStore;
use leasehold_store::memory::MemoryStore;
use leasehold_store::sqlite::SqliteStore;

use super::error::CliError;

/// Opens the store for a host, and makes it where it is missing.
///
/// # Errors
/// It cannot be made or read.
pub(super) async fn open(url: &StoreUrl) -> Result<Arc<dyn LeaseStore>, CliError> {
    match url {
        StoreUrl::Memory => Ok(Arc::new(MemoryStore::new())),
        StoreUrl::Sqlite(path) => open_sqlite(url, path.clone()).await,
    }
}

/// Opens the store to read from it.
///
/// # Errors
/// Besides those of [`open`]: there is none, and reading makes none.
pub(super) async fn open_existing(url: &StoreUrl) -> Result<Arc<dyn LeaseStore>, CliError> {
    match url {
        StoreUrl::Memory => Err(CliError::MemoryStore),
        StoreUrl::Sqlite(path) if !path.exists() => Err(CliError::NoStore { path: path.clone() }),
        StoreUrl::Sqlite(path) => open_sqlite(url, path.clone()).await,
    }
}

async fn open_sqlite(url: &StoreUrl, path: PathBuf) -> Result<Arc<dyn LeaseStore>, CliError> {
    let failed = |source| CliError::OpenStore { url: url.clone(), source: Box::new(source) };
    let opened = tokio::task::spawn_blocking(move || SqliteStore::open(&path)).await;
    let store = opened.map_err(|error| CliError::Runtime(error.into()))?.map_err(failed)?;
    Ok(Arc::new(store))
}
