//! A store that is measured, and what surrounds it: its yardstick, and what it takes of memory or disk.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::error::BenchError;
use super::report::Target;
use super::{postgres, redis};
use crate::store::LeaseStore;

/// What a claim may take in a full store: this many times what it takes in an empty one.
pub(super) const FULL: Target = Target::AtMostTimes(1.5);

/// A store that is measured.
pub(super) struct Subject {
    /// What people call it, with its version.
    pub(super) name: String,
    /// The store, empty.
    pub(super) store: Arc<dyn LeaseStore>,
    /// What surrounds it.
    pub(super) place: Box<dyn Place>,
    /// Calls in flight at the same time.
    pub(super) in_flight: usize,
    /// What is asked of its pairs a second.
    pub(super) pairs: Option<Target>,
    /// What is asked of ten thousand heartbeats.
    pub(super) heartbeats: Option<Target>,
    /// What is asked of a claim in a full store.
    pub(super) full: Option<Target>,
}

/// A figure that there is not: why, and how to get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Missing(pub(super) String);

/// What surrounds a store.
#[async_trait]
pub(super) trait Place: Send + Sync {
    /// What pairs a second are measured by; `None` where there is nothing to compare with.
    fn yardstick(&self) -> Option<&'static str>;

    /// One round of the yardstick, in its own units a second.
    async fn turn(&self, in_flight: usize, round: Duration) -> Result<f64, Missing>;

    /// Where what is stored takes its room: "in memory" or "on disk".
    fn medium(&self) -> &'static str;

    /// Bytes that the store takes now, or the whole server it is in.
    async fn bytes(&self) -> Result<u64, Missing>;

    /// What one should know to read the figures: settings of the server, speed of the disk.
    async fn facts(&self) -> Vec<String> {
        Vec::new()
    }

    /// Takes away what only the yardstick needed.
    async fn clear(&self) {}

    /// What stays behind when everything is measured, and how to remove it.
    fn left_behind(&self) -> Option<String> {
        None
    }
}

/// Meets the server that a URL names.
pub(super) async fn server(url: &str, namespace: &str) -> Result<Subject, BenchError> {
    match url.split_once("://").map_or("", |(scheme, _)| scheme) {
        "redis" | "rediss" | "valkey" | "valkeys" => redis::subject(url, namespace).await,
        "postgres" | "postgresql" => postgres::subject(url, namespace).await,
        scheme => Err(BenchError::Url { scheme: scheme.chars().take(20).collect() }),
    }
}
