//! One request and its response, from the name to the last byte.

use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1::{self, Connection};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::rustls::pki_types::ServerName;

use super::HttpClient;
use super::grants::HttpGrants;
use super::origin::Origin;
use super::request::Prepared;
use super::stream::{Stream, Traffic};
use crate::attempt::Attempt;
use crate::gate::{self, Gate, Lost};
use crate::imports::bindings::leasehold::job::http::{HttpError, Response};
use crate::memory::{MemoryFull, MemoryShare};
use crate::text;

/// Bytes of the largest body that is received.
pub(super) const MAX_BODY: usize = 16 << 20;
/// Headers of a response.
const MAX_HEADERS: usize = 100;
/// Bytes of a response's head.
pub(super) const MAX_HEAD: usize = 64 * 1024;
/// Addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;
/// Bytes of a request that the system takes before the network does: what lies there could not be called back for long.
const SEND_BUFFER: u32 = 64 * 1024;
/// How long one of several addresses is tried.
const CONNECT: Duration = Duration::from_secs(10);
/// Bytes of another party's words in an error.
const MAX_DETAIL: usize = 512;

/// Everything one request needs.
pub(super) struct Exchange {
    pub(super) client: Arc<HttpClient>,
    pub(super) tenant: String,
    pub(super) attempt: Arc<Attempt>,
    pub(super) gate: Arc<dyn Gate>,
    pub(super) grants: Arc<HttpGrants>,
    pub(super) request: Prepared,
    /// What the response holds of the memory of tenant and host.
    pub(super) held: MemoryShare,
}

type Wire = Connection<TokioIo<Stream>, Full<Bytes>>;

impl From<Lost> for HttpError {
    fn from(_: Lost) -> HttpError {
        HttpError::Lost
    }
}

impl Exchange {
    pub(super) async fn run(self) -> Result<(Response, MemoryShare), HttpError> {
        let traffic = Arc::new(Traffic::new(self.attempt.clone(), self.gate.clone()));
        let timeout = self.request.timeout;
        tokio::time::timeout(timeout, self.send(traffic)).await.unwrap_or(Err(HttpError::Timeout))
    }

    async fn send(self, traffic: Arc<Traffic>) -> Result<(Response, MemoryShare), HttpError> {
        let Exchange { client, tenant, attempt, gate, grants, request, mut held } = self;
        let Prepared { origin, request, .. } = request;
        let body_size = request.body().size_hint().exact().unwrap_or(u64::MAX);
        let addresses = checked_addresses(&client, &tenant, &attempt, &grants, &origin).await?;
        gate::pass(&attempt, &*gate).await?;
        let stream = connect(&client, &origin, &addresses, &traffic).await?;
        let (mut sender, wire) = http1::Builder::new()
            .max_headers(MAX_HEADERS)
            .max_header_size(MAX_HEAD)
            .max_buf_size(2 * MAX_HEAD)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| HttpError::Unreachable(told(&error)))?;
        let mut wire = Driven { wire: pin!(wire), ended: false };
        gate::pass(&attempt, &*gate).await?;
        let mut head = pin!(sender.send_request(request));
        let response = loop {
            let doubt = async {
                tokio::select! {
                    () = attempt.signal.lost() => {}
                    () = gate.in_doubt() => {}
                }
            };
            tokio::select! {
                // The doubt is looked at before every step: what has not been written by then is not written any more.
                biased;
                () = doubt => {
                    if traffic.sent() > 0 {
                        return Err(HttpError::Uncertain);
                    }
                    // It came before the first byte: held, as if the request had not been begun.
                    gate::pass(&attempt, &*gate).await?;
                }
                head = wire.drive(head.as_mut()) => break head.map_err(|error| broken(&error, &traffic))?,
            }
        };
        drop(traffic.take_response_head());
        let (head, body) = response.into_parts();
        // A server may answer before it has read the request. Only when that has been written it has had its effect, and what
        // remains is reading.
        let doubt = async {
            gate.in_doubt().await;
            if traffic.is_sent(body_size) {
                std::future::pending::<()>().await;
            }
        };
        let body = tokio::select! {
            biased;
            () = attempt.signal.lost() => return Err(HttpError::Uncertain),
            () = doubt => return Err(HttpError::Uncertain),
            body = receive(&mut wire, body, &attempt, &mut held) => body?,
        };
        traffic.finish();
        // The contract's headers are strings: one that is none would reach the guest as something that no server has said.
        let text = |value: &http::HeaderValue| std::str::from_utf8(value.as_bytes()).ok().map(str::to_owned);
        let headers = head.headers.iter().filter_map(|(name, value)| Some((name.to_string(), text(value)?))).collect();
        Ok((Response { status: head.status.as_u16(), headers, body }, held))
    }
}

/// The origin's addresses that a request may go to. The answer is used once and no other is asked for.
async fn checked_addresses(
    client: &HttpClient,
    tenant: &str,
    attempt: &Attempt,
    grants: &HttpGrants,
    origin: &Origin,
) -> Result<Vec<IpAddr>, HttpError> {
    let found = match origin.address() {
        Some(address) => vec![address],
        None => client.lookups.resolve(tenant, origin.host()).await.map_err(|error| {
            HttpError::Unreachable(format!("the name of {origin} cannot be resolved: {}", told(&error)))
        })?,
    };
    let allowed: Vec<IpAddr> =
        found.iter().copied().filter(|address| grants.allows_address(origin, *address)).take(MAX_ADDRESSES).collect();
    if allowed.is_empty() && !found.is_empty() {
        // Which one is for the operator: a guest must not learn the addresses of names inside. Nor may it fill the host's
        // log by asking again.
        let why = "a request was denied: no address of its origin is global or granted";
        if attempt.is_first_denial(origin) {
            let found = &found[..found.len().min(MAX_ADDRESSES)];
            tracing::warn!(%origin, ?found, "{why}");
        } else {
            tracing::debug!(%origin, "{why}");
        }
        let why = format!("{origin} leads to no address that is public or granted by the operator");
        return Err(HttpError::Denied(why));
    }
    Ok(allowed)
}

async fn connect(
    client: &HttpClient,
    origin: &Origin,
    addresses: &[IpAddr],
    traffic: &Arc<Traffic>,
) -> Result<Stream, HttpError> {
    let mut why = "its name has no address".to_owned();
    for address in addresses {
        match tokio::time::timeout(CONNECT, open(SocketAddr::new(*address, origin.port()))).await {
            Ok(Ok(tcp)) => return secure(client, origin, tcp, traffic).await,
            Ok(Err(error)) => why = told(&error),
            Err(_) => why = format!("no connection within {CONNECT:?}"),
        }
    }
    Err(HttpError::Unreachable(format!("{origin}: {why}")))
}

async fn open(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.connect(address).await
}

async fn secure(
    client: &HttpClient,
    origin: &Origin,
    tcp: TcpStream,
    traffic: &Arc<Traffic>,
) -> Result<Stream, HttpError> {
    let unreachable = |error: &dyn std::error::Error| HttpError::Unreachable(format!("{origin}: {}", told(error)));
    tcp.set_nodelay(true).map_err(|error| unreachable(&error))?;
    if !origin.is_https() {
        return Ok(Stream::plain(tcp, traffic.clone()));
    }
    let name = ServerName::try_from(origin.host()).map_err(|error| unreachable(&error))?;
    let connector = client.tls.connector().map_err(|error| unreachable(&error))?;
    let tls = connector.connect(name, tcp).await.map_err(|error| unreachable(&error))?;
    Ok(Stream::tls(tls, traffic.clone()))
}

/// A connection that moves only while something is waited for on it, in the same task.
struct Driven<'a> {
    wire: Pin<&'a mut Wire>,
    ended: bool,
}

impl Driven<'_> {
    async fn drive<F: Future>(&mut self, waited_for: F) -> F::Output {
        let mut waited_for = pin!(waited_for);
        poll_fn(|cx| {
            // How it ended is told to whoever waits for the response.
            if !self.ended && self.wire.as_mut().poll(cx).is_ready() {
                self.ended = true;
            }
            waited_for.as_mut().poll(cx)
        })
        .await
    }
}

async fn receive(
    wire: &mut Driven<'_>,
    mut body: Incoming,
    attempt: &Attempt,
    held: &mut MemoryShare,
) -> Result<Vec<u8>, HttpError> {
    let too_large = || HttpError::TooLarge(MAX_BODY as u64);
    // A length that is said before is believed only in that it is too much.
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(too_large());
    }
    let most = body.size_hint().exact().and_then(|said| usize::try_from(said).ok()).unwrap_or(MAX_BODY);
    let mut received = Vec::new();
    while let Some(frame) = wire.drive(body.frame()).await {
        let frame = frame.map_err(|error| HttpError::Other(format!("the response broke off: {}", told(&error))))?;
        // Trailers are not part of the contract.
        let Ok(data) = frame.into_data() else { continue };
        if received.len() + data.len() > MAX_BODY {
            return Err(too_large());
        }
        let needed = received.len() + data.len();
        if needed > received.capacity() {
            // It grows by our own steps, so that what is charged is what it takes.
            let capacity = needed.max((received.capacity() * 2).min(most));
            charge(attempt, held, capacity).map_err(|full| HttpError::Other(full.to_string()))?;
            received.reserve_exact(capacity - received.len());
        }
        received.extend_from_slice(&data);
    }
    Ok(received)
}

/// Charges a response of this many bytes, as long as the host holds it, like memory of the guest, which waits meanwhile. What
/// the guest may hold no more could not be given to it either.
fn charge(attempt: &Attempt, held: &mut MemoryShare, bytes: usize) -> Result<(), NoRoom> {
    if attempt.peak_memory().saturating_add(bytes) > attempt.limits.memory {
        return Err(NoRoom(MemoryFull::Attempt));
    }
    held.grow_to(bytes).map_err(NoRoom)
}

/// A response is more than may be held.
#[derive(Debug, thiserror::Error)]
#[error("there is no memory for the response: {}", match .0 {
    MemoryFull::Attempt => "it and what the attempt holds already are more than it may have (memory)",
    MemoryFull::Tenant(_) => "the attempts of this tenant hold all that they may on this host (tenant_memory)",
    MemoryFull::Host(_) => "the guests of this host hold all that they may ([host] memory)",
})]
struct NoRoom(MemoryFull);

/// The connection failed before the response's head had arrived.
fn broken(error: &hyper::Error, traffic: &Traffic) -> HttpError {
    if error.is_parse() && says_too_much(&traffic.take_response_head()) {
        return HttpError::TooLarge(MAX_BODY as u64);
    }
    // What it means has no other sign in a client.
    if error.is_parse() && error.to_string().contains("too large") {
        return HttpError::TooLarge(MAX_HEAD as u64);
    }
    let why = told(error);
    if traffic.sent() == 0 {
        return HttpError::Unreachable(why);
    }
    HttpError::Other(format!("no proper response; the request may or may not have had its effect: {why}"))
}

/// Whether this beginning of a response tells of a body larger than is received: of a length that no number holds, the head
/// is refused already.
fn says_too_much(head: &[u8]) -> bool {
    const NAME: &[u8] = b"content-length:";
    head.split(|byte| *byte == b'\n').any(|line| {
        let Some((name, value)) = line.split_at_checked(NAME.len()) else { return false };
        let digits = value.trim_ascii();
        let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u64>().ok());
        name.eq_ignore_ascii_case(NAME) && is_number && number.is_none_or(|number| number > MAX_BODY as u64)
    })
}

/// An error with its sources, as a guest may read it.
fn told(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    let words = chain.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    text::bound(&text::escape(&words), MAX_DETAIL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_beyond_every_number_is_too_much_and_one_that_is_none_is_not() {
        let says = |length: &str| says_too_much(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n").as_bytes());
        for much in ["16777217", "18446744073709551615", "99999999999999999999999999"] {
            assert!(says(much), "{much}");
        }
        for other in ["16777216", "0", "", "-1", "many"] {
            assert!(!says(other), "{other}");
        }
        assert!(!says_too_much(b"HTTP/1.1 200 OK\r\nx-content-length: 99999999999\r\n"));
    }
}
