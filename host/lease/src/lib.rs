//! The rules of Leasehold: who wins a run, who keeps it, and when it is due.
//!
//! Everything here is a plain function of state, time and message. Nothing awaits, reads a clock, draws a random number
//! or touches a file, so that the same code serves the store drivers, the host and the simulator.
//!
//! Comments and tests name the invariants that they keep (S4, H2, L1): they are listed in `INVARIANTS.md` beside this
//! package.
//!
//! - [`rules`] decides what the store answers: claims, heartbeats, finishes and the rest, one job at a time.
//! - [`agent`] decides what one host does about one job: when to claim, whom to back up, what to do when refused.
//! - [`holding`] decides when a running attempt sends heartbeats and when it has lost its lease.
//! - [`order`] is the order in which people look at runs.
//! - [`orphans`] decides when a host gives up runs of jobs that it does not offer.
//! - [`schedule`] turns cron expressions and intervals into due slots.

pub mod agent;
#[cfg(any(test, feature = "check"))]
pub mod check;
#[cfg(any(test, feature = "check"))]
pub mod dice;
pub mod holding;
pub mod id;
pub mod log;
pub mod op;
pub mod order;
pub mod orphans;
pub mod policy;
pub mod rules;
pub mod run;
pub mod schedule;
pub mod time;
pub mod write;
