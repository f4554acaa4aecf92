//! Leasehold runs scheduled jobs on a cluster of hosts, once. Each job's handler is a WebAssembly component.
//!
//! This package is the shell: it reads the configuration and the plugin directory, drives the agents of
//! [`leasehold_lease`], calls the store of [`leasehold_store`], and starts guests in [`leasehold_sandbox`].

pub mod bench;
pub mod causes;
pub mod clock;
pub mod config;
mod driver;
pub mod event;
pub mod fellows;
mod gate;
mod heartbeat;
mod host;
pub mod manifest;
pub mod memory;
pub mod outcome;
mod places;
pub mod plugins;
pub mod running;
pub mod status;
mod throttle;
pub mod zones;

pub use driver::guest_limits;
pub use host::{Host, HostParts, StartError, TenantQuota};
pub use leasehold_sandbox::regular_file;
