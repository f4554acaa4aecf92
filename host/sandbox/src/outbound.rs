//! Whole HTTP requests on behalf of guests: to granted origins only, at addresses that were checked, behind the gate.
//!
//! The host speaks HTTP/1.1 over a connection of its own for each request, because it must connect to the very address it
//! has checked, and ask the gate before it connects and again before the head, in the task that sends. It follows no
//! redirect and knows nothing of proxies.

mod address;
mod exchange;
mod grants;
mod origin;
mod request;
mod resolve;
mod stream;
mod tls;

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::JoinSet;

pub use grants::HttpGrants;
pub use origin::{Origin, OriginError};
pub use request::{header_is_the_hosts, is_header_value};
pub use resolve::Resolve;
pub(crate) use resolve::SystemResolver;

use crate::attempt::Attempt;
use crate::effects::Effects;
use crate::imports::bindings::leasehold::job::http::{HttpError, Request, Response};
use crate::memory::{MemoryLedger, MemoryShare};
use exchange::Exchange;
use resolve::Lookups;
use tls::Tls;

/// What a request says of the run it is sent for.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    pub(crate) run_id: String,
    pub(crate) tenant: String,
    pub(crate) attempt: u32,
    pub(crate) fence: u64,
    /// As in [`Invocation`](crate::Invocation).
    pub(crate) tenant_memory: Option<usize>,
}

/// Sends requests, on threads that no guest can hold up.
pub(crate) struct HttpClient {
    runtime: Handle,
    lookups: Lookups,
    tls: Tls,
    /// What responses are charged to while the host holds them.
    memory: Arc<MemoryLedger>,
}

impl HttpClient {
    pub(crate) fn new(
        runtime: Handle,
        resolver: Arc<dyn Resolve>,
        more_roots: Vec<Vec<u8>>,
        memory: Arc<MemoryLedger>,
    ) -> HttpClient {
        HttpClient { runtime, lookups: Lookups::new(resolver), tls: Tls::new(more_roots), memory }
    }

    /// Sends a request and waits for the whole response. Dropping this resets the connection. What the response holds of
    /// the memory of tenant and host comes with it: it is to be kept as long as the response.
    ///
    /// A guest waits for its call, so an attempt has one request in flight; the contract's cap of eight holds by that.
    ///
    /// # Errors
    ///
    /// See the contract; texts name nothing that the guest did not write itself, no address and no secret among them.
    pub(crate) async fn send(
        self: &Arc<Self>,
        attempt: Arc<Attempt>,
        effects: &Effects,
        sender: &Sender,
        request: Request,
    ) -> Result<(Response, MemoryShare), HttpError> {
        let request = request::prepare(request, effects, sender, attempt.remaining())?;
        let held = MemoryShare::new(self.memory.clone(), sender.tenant.clone(), sender.tenant_memory);
        let exchange = Exchange {
            client: self.clone(),
            tenant: sender.tenant.clone(),
            attempt,
            gate: effects.gate.clone(),
            grants: effects.http.clone(),
            request,
            held,
        };
        // The set ends its task when it is dropped.
        let mut task = JoinSet::new();
        task.spawn_on(exchange.run(), &self.runtime);
        match task.join_next().await {
            Some(Ok(answered)) => answered,
            // H6: a fault of the host's own costs this request only.
            Some(Err(error)) if error.is_panic() => {
                tracing::error!("sending a request failed inside the host");
                Err(HttpError::Other("sending it failed inside the host".to_owned()))
            }
            Some(Err(_)) | None => Err(HttpError::Other("the host is ending".to_owned())),
        }
    }
}
