//! The fault run: real hosts on a real store, faults that are drawn from a seed, and judges who know only what can be
//! seen from outside: the events that hosts print, the requests that reach a witness, and the store's records.
//!
//! A [`Cluster`] is a folder with hosts, their store and the [`Witness`]. [`Fault`]s are done to it. All that is heard goes
//! into one [`Record`], by one clock that no host can change, and [`judge`] holds it against the invariants.
//!
//! The harness panics where it itself cannot go on; what it finds wrong with hosts is an answer.

mod board;
mod clock;
mod cluster;
mod draw;
mod fault;
mod host;
mod judge;
mod record;
mod store;
mod table;
mod witness;

pub mod parts;

pub use board::{Binary, LEASE, Policy, Setup};
pub use cluster::Cluster;
pub use draw::Draw;
pub use fault::{Aim, Fault, Way};
pub use judge::{Verdict, judge};
pub use record::{Effect, Outage, Record, Told, Whom};
pub use store::{Kind, Store};
pub use table::{Row, table};
pub use witness::Witness;
