//! From a name to addresses.

use std::io;
use std::net::IpAddr;

use async_trait::async_trait;

/// Looks names up. The host asks it once a request and connects to an address of that answer, so a name that leads
/// elsewhere a moment later leads nowhere.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// All addresses of a name.
    ///
    /// # Errors
    ///
    /// The name has none, or nobody knows.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's resolver: its hosts file and name servers, as every other program of the machine uses them.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        // On a thread of the runtime's bounded pool: the caller gives up waiting at its own timeout.
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|found| found.ip()).collect())
    }
}
