//! From a name to addresses.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use crate::engine::LOOKUPS;
use crate::turns::Turns;

/// Looks names up. The host asks it once a request and connects to an address of that answer, so a name that leads
/// elsewhere a moment later leads nowhere.
pub trait Resolve: Send + Sync {
    /// All addresses of a name. It may block: it has the thread to itself.
    ///
    /// # Errors
    ///
    /// The name has none, or nobody knows.
    fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's resolver: its hosts file and name servers, as every other program of the machine uses them.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok((host, 0).to_socket_addrs()?.map(|found| found.ip()).collect())
    }
}

/// Lookups of one tenant at a time: name servers that hang, or a guest that asks and goes away, hold these and no more.
const LOOKUPS_OF_TENANT: usize = 4;

/// Looks names up for guests, fair between tenants.
pub(super) struct Lookups {
    resolver: Arc<dyn Resolve>,
    turns: Turns,
}

impl Lookups {
    pub(super) fn new(resolver: Arc<dyn Resolve>) -> Lookups {
        Lookups { resolver, turns: Turns::new(LOOKUPS, LOOKUPS_OF_TENANT) }
    }

    /// See [`Resolve::resolve`]. Dropping the future gives the place in the queue up, but a lookup that has begun keeps its
    /// thread and its turn to its end: nothing calls it off.
    pub(super) async fn resolve(&self, tenant: &str, host: String) -> io::Result<Vec<IpAddr>> {
        let turn = self.turns.take(tenant).await;
        let resolver = self.resolver.clone();
        let lookup = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            resolver.resolve(&host)
        });
        // The thread's own message was printed by the panic hook.
        lookup.await.map_err(|_| io::Error::other("looking it up failed inside the host"))?
    }
}
