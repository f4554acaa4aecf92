//! SQLite, beside itself with one commit a call.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use tokio::sync::Mutex;

use super::disk::{self, Folder};
use super::error::BenchError;
use super::load::Load;
use super::place::{FULL, Missing, Place, Subject};
use super::report::{Target, median, number};
use crate::sqlite::{OpenError, SqliteStore};

/// A SQLite store in this folder.
pub(super) async fn subject(folder: &Folder) -> Result<Subject, BenchError> {
    let (file, disk) = (folder.file("store.db"), folder.file("disk"));
    let (path, unshared) = (file.clone(), folder.file("unshared.db"));
    let open = move || Ok((SqliteStore::open(&path)?, SqliteStore::open_unshared(&unshared)?));
    let opened: Result<_, OpenError> = tokio::task::spawn_blocking(open).await.map_err(BenchError::Ended)?;
    let (store, unshared) = opened?;
    let unshared = Load::new(Arc::new(unshared)).await?;
    Ok(Subject {
        name: format!("sqlite {}", rusqlite::version()),
        store: Arc::new(store),
        place: Box::new(Sqlite { file, disk, unshared, flushes: Mutex::default() }),
        in_flight: 50,
        pairs: Some(Target::TimesOr { times: 10.0, figure: 10_000.0 }),
        heartbeats: None,
        full: Some(FULL),
    })
}

struct Sqlite {
    file: PathBuf,
    /// Where the disk is measured.
    disk: PathBuf,
    /// The same code with one commit a call.
    unshared: Load,
    flushes: Mutex<Vec<f64>>,
}

#[async_trait]
impl Place for Sqlite {
    fn yardstick(&self) -> Option<&'static str> {
        Some("pairs/s unshared")
    }

    async fn turn(&self, in_flight: usize, round: Duration) -> Result<f64, Missing> {
        let disk = self.disk.clone();
        let flushes = tokio::task::spawn_blocking(move || disk::flushes(&disk, round / 2)).await;
        let flushes = flushes.map_err(|error| missing(&error))?.map_err(|error| missing(&error))?;
        self.flushes.lock().await.push(flushes);
        self.unshared.pairs(in_flight, round).await.map_err(|error| missing(&error))
    }

    fn medium(&self) -> &'static str {
        "on disk"
    }

    async fn bytes(&self) -> Result<u64, Missing> {
        let file = self.file.clone();
        tokio::task::spawn_blocking(move || {
            // What is still in the log is put into the file first.
            let db = Connection::open(&file).map_err(|error| missing(&error))?;
            db.busy_timeout(Duration::from_secs(10)).map_err(|error| missing(&error))?;
            db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(|error| missing(&error))?;
            let found = std::fs::metadata(&file).map_err(|error| missing(&error))?;
            Ok(found.len())
        })
        .await
        .map_err(|error| missing(&error))?
    }

    async fn facts(&self) -> Vec<String> {
        let flushes = self.flushes.lock().await;
        if flushes.is_empty() {
            return Vec::new();
        }
        vec![format!(
            "synchronous=FULL; the disk does {} flushes/s (write of 4 KiB + fdatasync)",
            number(median(&flushes))
        )]
    }
}

fn missing(why: &dyn std::error::Error) -> Missing {
    Missing(why.to_string())
}
