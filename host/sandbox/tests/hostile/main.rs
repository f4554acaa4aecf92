//! Guests that mean harm, one for each thing that a guest could do to a host: what is recorded of each, and that the host's
//! memory stays flat meanwhile.

#[path = "../support/mod.rs"]
mod support;

mod calls;
mod floods;
mod loops;
mod memory;
mod results;
mod stops;
mod structure;
mod traps;
mod waits;
mod watch;
