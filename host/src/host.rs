//! One host: it runs what its plugin directory offers until it is stopped.

use std::io;

use leasehold_store::StoreError;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::clock::Dice;
use crate::driver::{Driver, StopOrder};

pub use crate::driver::{HostParts, TenantQuota};

/// A running host. Dropping it ends it at once, without a hand-over.
#[derive(Debug)]
pub struct Host {
    orders: mpsc::Sender<StopOrder>,
    driver: JoinHandle<()>,
}

/// Why a host could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store did not say who it is.
    #[error("the store cannot be used")]
    Store(#[from] StoreError),
    /// The system gave no thread or timer for the heartbeats.
    #[error("the heartbeat thread could not be started")]
    Heartbeat(#[source] io::Error),
    /// The system has no random numbers.
    #[error("the system's random number generator does not work, so no token can be made")]
    Chance(#[from] getrandom::Error),
}

impl Host {
    /// Starts a host on the current runtime.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(parts: HostParts) -> Result<Host, StartError> {
        let identity = parts.store.identity().await?;
        let driver = Driver::new(parts, identity, Dice::new()?).map_err(StartError::Heartbeat)?;
        let (orders, inbox) = mpsc::channel(2);
        Ok(Host { orders, driver: tokio::spawn(driver.run(inbox)) })
    }

    /// Asks the host to hand over and end; [`Host::ended`] waits for it.
    pub async fn stop(&self) {
        // It has ended by itself when nobody listens.
        let _ = self.orders.send(StopOrder::HandOver).await;
    }

    /// Ends the host at once: backups take over when its leases run out.
    pub async fn end_now(&self) {
        let _ = self.orders.send(StopOrder::Now).await;
    }

    /// Waits until the host has ended.
    ///
    /// # Errors
    /// The host has failed; the message says how.
    pub async fn ended(&mut self) -> Result<(), String> {
        (&mut self.driver).await.map_err(|error| format!("the host has failed: {error}"))
    }
}
