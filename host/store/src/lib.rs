//! The lease store: where hosts meet.
//!
//! [`LeaseStore`] speaks the verbs of the contract. A driver does for each verb exactly what
//! [`leasehold_lease::rules`] does, atomically per job, on the store's own clock; one suite,
//! `conformance` (feature of the same name), holds every driver to that.

mod address;
mod aside;
pub mod bench;
pub mod clock;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod error;
pub mod memory;
pub mod postgres;
pub mod redis;
pub mod sqlite;
mod store;
#[cfg(test)]
mod test_support;
mod view;
mod wakeups;
mod wire;

pub use address::{is_namespace, redacted};
pub use error::StoreError;
pub use store::{LeaseStore, all_jobs};
pub use view::{
    ANSWERS_KEPT, AnnounceAnswer, CALL_LIMIT, Checked, Each, HOST_KEPT, HistoryQuery, HostAnswer, HostOrders,
    HostRecord, HostReport, Identity, JobView, LogEntry, RunStanding, RunView,
};
