//! The lease store: where hosts meet.
//!
//! [`LeaseStore`] speaks the verbs of the contract. A driver does for each verb exactly what
//! [`leasehold_lease::rules`] does, atomically per job, on the store's own clock; one suite,
//! `conformance` (feature of the same name), holds every driver to that.

pub mod clock;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod memory;
pub mod sqlite;
mod store;

pub use store::{
    AnnounceAnswer, Checked, HistoryQuery, Identity, JobView, LeaseStore, LogEntry, LogLevel, LogLine, RunView,
    StoreError,
};
