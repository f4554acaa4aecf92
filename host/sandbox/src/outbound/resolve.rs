//! From a name to addresses.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use crate::engine::LOOKUPS;
use crate::turns::Turns;

/// How long a guest waits for a name: its turn, and the answer.
const DEADLINE: Duration = Duration::from_secs(10);

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
pub(crate) struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok((host, 0).to_socket_addrs()?.map(|found| found.ip()).collect())
    }
}

/// Lookups of one tenant at a time: name servers that hang, or a guest that asks and goes away, hold these and no more.
const LOOKUPS_OF_TENANT: usize = 4;

/// Lookups that are kept for tenants that have none under way, so that a few tenants whose names hang leave others theirs.
const LOOKUPS_KEPT: usize = 24;

/// Looks names up for guests, fair between tenants.
pub(super) struct Lookups {
    resolver: Arc<dyn Resolve>,
    turns: Turns,
    deadline: Duration,
}

impl Lookups {
    pub(super) fn new(resolver: Arc<dyn Resolve>) -> Lookups {
        let turns = Turns::new(LOOKUPS, LOOKUPS_OF_TENANT).keeping(LOOKUPS_KEPT);
        Lookups { resolver, turns, deadline: DEADLINE }
    }

    /// See [`Resolve::resolve`]. Dropping the future gives the place in the queue up, but a lookup that has begun keeps its
    /// thread and its turn to its end: nothing calls it off.
    ///
    /// # Errors
    ///
    /// As there; or it took too long.
    pub(super) async fn resolve(&self, tenant: &str, host: String) -> io::Result<Vec<IpAddr>> {
        let deadline = self.deadline;
        tokio::time::timeout(deadline, self.look_up(tenant, host)).await.unwrap_or_else(|_| {
            Err(io::Error::new(io::ErrorKind::TimedOut, format!("there is no answer within {deadline:?}")))
        })
    }

    async fn look_up(&self, tenant: &str, host: String) -> io::Result<Vec<IpAddr>> {
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::{Condvar, Mutex, PoisonError};

    use super::*;

    /// Answers names that begin with `stuck` only when it is told to.
    #[derive(Default)]
    struct Stuck {
        told: Mutex<bool>,
        changed: Condvar,
    }

    impl Resolve for Stuck {
        fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
            if host.starts_with("stuck") {
                let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
                drop(self.changed.wait_while(told, |told| !*told).unwrap_or_else(PoisonError::into_inner));
            }
            Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)])
        }
    }

    #[tokio::test]
    async fn eight_tenants_whose_names_hang_leave_others_theirs_and_wait_no_longer_than_the_deadline() {
        let resolver = Arc::new(Stuck::default());
        let lookups = Lookups { deadline: Duration::from_millis(300), ..Lookups::new(resolver.clone()) };
        let tenants: Vec<String> = (0..8).map(|n| format!("greedy-{n}")).collect();
        let greedy = async {
            for tenant in &tenants {
                for _ in 0..LOOKUPS_OF_TENANT {
                    let asked = lookups.resolve(tenant, "stuck.example".to_owned());
                    // A guest that asks and goes away.
                    let _ = tokio::time::timeout(Duration::from_millis(1), asked).await;
                }
            }
            lookups.resolve(&tenants[0], "stuck.example".to_owned()).await
        };
        let ended = greedy.await.expect_err("nobody answers");
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut, "{ended}");
        for tenant in ["modest", "another"] {
            let found = lookups.resolve(tenant, "name.example".to_owned()).await.expect("it has its turn");
            assert_eq!(found, [IpAddr::V4(Ipv4Addr::LOCALHOST)]);
        }
        *resolver.told.lock().unwrap_or_else(PoisonError::into_inner) = true;
        resolver.changed.notify_all();
    }
}
