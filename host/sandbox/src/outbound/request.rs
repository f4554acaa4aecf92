//! From what a guest asks for to what is sent: checked, bounded, with the host's own headers and secrets in their place.

use std::time::Duration;

use http::header::{HOST, HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use http_body_util::Full;
use hyper::body::Bytes;
use url::Position;

use super::Sender;
use super::origin::Origin;
use crate::effects::Effects;
use crate::imports::bindings::leasehold::job::http::{HttpError, Request};
use crate::text;

/// Bytes of the largest body that is sent.
pub(super) const MAX_BODY: usize = 1 << 20;
/// Bytes of all headers of a request together.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// Headers of a request.
const MAX_HEADERS: usize = 100;
/// Bytes of a method.
const MAX_METHOD: usize = 32;

/// Headers that belong to the connection, which is the host's: what a guest says in them is left out.
const OF_THE_CONNECTION: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// What the host says of the run: what a guest says in such a header is left out.
const OF_THE_RUN: &str = "x-leasehold-";

/// A request that may be sent.
pub(super) struct Prepared {
    pub(super) origin: Origin,
    pub(super) request: http::Request<Full<Bytes>>,
    /// For the whole of it, waiting for the lease included.
    pub(super) timeout: Duration,
}

/// Whether only the host sets this header. `_` counts as `-`, because receivers exist that take them for the same.
pub fn header_is_the_hosts(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('_', "-");
    name.starts_with(OF_THE_RUN) || OF_THE_CONNECTION.contains(&name.as_str())
}

/// Whether a text can be sent as a header's value.
pub fn is_header_value(text: &str) -> bool {
    HeaderValue::from_str(text).is_ok()
}

/// # Errors
///
/// `invalid`, `denied` or `too-large`: nothing was sent.
pub(super) fn prepare(
    request: Request,
    effects: &Effects,
    sender: &Sender,
    remaining: Duration,
) -> Result<Prepared, HttpError> {
    let (origin, url) =
        Origin::of(&request.url).map_err(|error| HttpError::Invalid(format!("the URL cannot be used: {error}")))?;
    if !effects.http.allows(&origin) {
        return Err(HttpError::Denied(format!("{origin} is not granted to this job: {}", effects.http.denial())));
    }
    let body = request.body.unwrap_or_default();
    if body.len() > MAX_BODY {
        return Err(HttpError::TooLarge(MAX_BODY as u64));
    }
    let target = &url[Position::BeforePath..Position::AfterQuery];
    let mut prepared = http::Request::builder()
        .method(method(&request.method)?)
        .uri(target)
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| HttpError::Invalid(format!("the URL's path cannot be sent: {error}")))?;
    *prepared.headers_mut() = headers(request.headers, effects, sender, &origin)?;
    let timeout = request.timeout_ms.map_or(remaining, |ms| Duration::from_millis(ms).min(remaining));
    Ok(Prepared { origin, request: prepared, timeout })
}

fn method(name: &str) -> Result<Method, HttpError> {
    let refuse = |why: &str| {
        let name = text::bound(&text::escape(name), MAX_METHOD);
        Err(HttpError::Invalid(format!("the method {name:?} {why}")))
    };
    match Method::from_bytes(name.as_bytes()) {
        Ok(_) if name.len() > MAX_METHOD => refuse("is too long"),
        // One makes a tunnel of a connection, the other hands back what was sent, secrets among it.
        Ok(Method::CONNECT | Method::TRACE) => refuse("is not allowed"),
        // So begins HTTP/2, for who expects it.
        Ok(method) if method.as_str() == "PRI" => refuse("is not allowed"),
        Ok(method) => Ok(method),
        Err(_) => refuse("is no method"),
    }
}

fn headers(
    wanted: Vec<(String, String)>,
    effects: &Effects,
    sender: &Sender,
    origin: &Origin,
) -> Result<HeaderMap, HttpError> {
    if wanted.len() > MAX_HEADERS {
        return Err(HttpError::Invalid(format!("it has {} headers, more than {MAX_HEADERS}", wanted.len())));
    }
    let too_large = HttpError::TooLarge(MAX_HEADER_BYTES as u64);
    let bytes: usize = wanted.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > MAX_HEADER_BYTES {
        return Err(too_large);
    }
    // With secrets in the place of placeholders they may be longer.
    let mut room = MAX_HEADER_BYTES;
    let mut headers = HeaderMap::with_capacity(wanted.len() + 5);
    for (name, value) in wanted {
        let shown = || text::bound(&text::escape(&name), 64);
        let known = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| HttpError::Invalid(format!("{:?} is no header's name", shown())))?;
        if header_is_the_hosts(known.as_str()) {
            continue;
        }
        let Ok(revealed) = effects.settings.reveal(origin, &known, &value, room) else { return Err(too_large) };
        let is_secret = revealed.is_some();
        let value = revealed.unwrap_or(value);
        let Some(left) = room.checked_sub(name.len() + value.len()) else { return Err(too_large) };
        room = left;
        let mut value = HeaderValue::from_bytes(value.as_bytes())
            .map_err(|_| HttpError::Invalid(format!("the header {} has a value that cannot be sent", shown())))?;
        value.set_sensitive(is_secret);
        headers.append(known, value);
    }
    let mut own = |name: HeaderName, value: String| match HeaderValue::try_from(value) {
        Ok(value) => {
            headers.insert(name, value);
            Ok(())
        }
        Err(_) => Err(HttpError::Other(format!("the host cannot say {name} of this run"))),
    };
    own(HOST, origin.authority())?;
    own(http::header::CONNECTION, "close".to_owned())?;
    own(HeaderName::from_static("x-leasehold-run"), sender.run_id.clone())?;
    own(HeaderName::from_static("x-leasehold-attempt"), sender.attempt.to_string())?;
    own(HeaderName::from_static("x-leasehold-fence"), sender.fence.to_string())?;
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_s_headers_are_known_however_they_are_written() {
        for name in ["Host", "CONTENT-LENGTH", "content_length", "X-Leasehold-Run", "x_leasehold_fence", "x-leasehold-"]
        {
            assert!(header_is_the_hosts(name), "{name}");
        }
        for name in ["authorization", "x-leasehol", "x-request-id", "cookie"] {
            assert!(!header_is_the_hosts(name), "{name}");
        }
    }

    #[test]
    fn methods_are_tokens_and_neither_tunnel_nor_echo() {
        for good in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"] {
            assert!(method(good).is_ok(), "{good}");
        }
        for bad in ["", "CONNECT", "TRACE", "PRI", "GET /", "G\r\nX: y", "\u{fc}", &"A".repeat(33)] {
            assert!(matches!(method(bad), Err(HttpError::Invalid(_))), "{bad}");
        }
    }
}
