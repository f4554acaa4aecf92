//! Requests to the origins that the operator and the job's manifest both allow.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use leasehold_guest::{Result, Run, http::Request};
//!
//! fn charge(run: &Run) -> Result<()> {
//!     run.ensure_continue()?;
//!     let token = run.config("API_TOKEN").unwrap_or_default();
//!     let response = Request::post("https://api.example.com/charges")
//!         .header("authorization", &format!("Bearer {token}"))
//!         .header("idempotency-key", &run.idempotency_key("charge-42"))
//!         .json(&42)?
//!         .timeout(Duration::from_secs(10))
//!         .send(run)?;
//!     log::info!("charged: {}", response.status);
//!     Ok(())
//! }
//! ```

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};

use crate::{Error, ErrorKind, Result, Run, host};

/// A request. The host adds `x-leasehold-run`, `x-leasehold-attempt` and `x-leasehold-fence`, follows no redirect, and
/// sends a body of at most 1 MiB.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a request does nothing until it is sent"]
pub struct Request {
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) timeout: Option<Duration>,
}

/// A whole response, of at most 16 MiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The status code, whatever it says.
    pub status: u16,
    /// The headers, their names in lower case, without those whose value is not UTF-8.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// Why there is no response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpError {
    /// This attempt has lost the run, or may have; nothing was sent.
    Lost,
    /// It was sent, and then the lease came into doubt before an answer: it may or may not have had its effect.
    Uncertain,
    /// The origin is not granted, or leads to an address that is not.
    Denied(String),
    /// The request makes no sense.
    Invalid(String),
    /// There is no connection to the server.
    Unreachable(String),
    /// No whole response in time.
    Timeout,
    /// The request or the response is larger than this many bytes.
    TooLarge(u64),
    /// Anything else.
    Other(String),
}

impl Request {
    /// A request with any method.
    pub fn new(method: &str, url: &str) -> Self {
        Self { method: method.into(), url: url.into(), headers: Vec::new(), body: None, timeout: None }
    }

    /// A GET.
    pub fn get(url: &str) -> Self {
        Self::new("GET", url)
    }

    /// A POST.
    pub fn post(url: &str) -> Self {
        Self::new("POST", url)
    }

    /// A PUT.
    pub fn put(url: &str) -> Self {
        Self::new("PUT", url)
    }

    /// A PATCH.
    pub fn patch(url: &str) -> Self {
        Self::new("PATCH", url)
    }

    /// A DELETE.
    pub fn delete(url: &str) -> Self {
        Self::new("DELETE", url)
    }

    /// Adds a header; one of this name that is there already stays beside it.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Sets the body to a value's JSON, and says so in `content-type`, unless the request has one already.
    ///
    /// # Errors
    ///
    /// The value has no form in JSON (permanent `bad-request`).
    pub fn json<T: Serialize>(self, value: &T) -> Result<Self> {
        let bad = |error| Error::permanent("bad-request", format!("the request's body is not JSON: {error}"));
        let body = serde_json::to_vec(value).map_err(bad)?;
        let named = self.sent_header("content-type").is_some();
        let request = if named { self } else { self.header("content-type", "application/json") };
        Ok(request.body(body))
    }

    /// How long all of it may take, at most what remains of the attempt.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Its method; for tests.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The value of its first header of this name; for tests.
    #[must_use]
    pub fn sent_header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Where it goes; for tests.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The body it carries; for tests.
    #[must_use]
    pub fn sent_body(&self) -> Option<&[u8]> {
        self.body.as_deref()
    }

    /// Sends it for this run and waits for the whole response. While the lease is in doubt, it waits before it sends.
    ///
    /// # Errors
    ///
    /// See [`HttpError`]. Any status is a response.
    pub fn send(self, _run: &Run) -> Result<Response, HttpError> {
        host::send(self)
    }
}

impl Response {
    /// The first header of this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The body as text; what is not UTF-8 in it becomes U+FFFD.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    /// The body as JSON.
    ///
    /// # Errors
    ///
    /// It does not fit `T` (retryable `bad-response`).
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        let bad = |error| Error::retryable("bad-response", format!("the response does not fit: {error}"));
        serde_json::from_slice(&self.body).map_err(bad)
    }

    /// For `?`: itself when the status is 2xx.
    ///
    /// # Errors
    ///
    /// `http-status`, with the status as a detail: retryable for 5xx, 408 and 429, permanent for all others.
    pub fn ok(self) -> Result<Self> {
        let message = format!("the server answered {}", self.status);
        match self.status {
            200..=299 => Ok(self),
            408 | 429 | 500..=599 => Err(Error::retryable("http-status", message).with_detail("status", self.status)),
            _ => Err(Error::permanent("http-status", message).with_detail("status", self.status)),
        }
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost => f.write_str("this attempt has lost its run; nothing was sent"),
            Self::Uncertain => {
                f.write_str("the lease came into doubt before an answer: it may or may not have had its effect")
            }
            Self::Denied(why) => write!(f, "denied: {why}"),
            Self::Invalid(why) => write!(f, "invalid: {why}"),
            Self::Unreachable(why) => write!(f, "unreachable: {why}"),
            Self::Timeout => f.write_str("no whole response in time"),
            Self::TooLarge(limit) => write!(f, "larger than the {limit} bytes allowed"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for HttpError {}

impl HttpError {
    /// What `?` makes of it: see [`Error`].
    pub(crate) fn meaning(&self) -> (ErrorKind, &'static str) {
        match self {
            Self::Lost => (ErrorKind::Cancelled, "cancelled"),
            Self::Uncertain => (ErrorKind::Retryable, "http-uncertain"),
            Self::Denied(_) => (ErrorKind::Permanent, "http-denied"),
            Self::Invalid(_) => (ErrorKind::Permanent, "http-invalid"),
            Self::Unreachable(_) => (ErrorKind::Retryable, "http-unreachable"),
            Self::Timeout => (ErrorKind::Retryable, "http-timeout"),
            Self::TooLarge(_) => (ErrorKind::Permanent, "http-too-large"),
            Self::Other(_) => (ErrorKind::Retryable, "http"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, testing};

    fn fetch(run: &Run) -> Result<Vec<u32>> {
        Request::post("https://api.example.com/x").json(&1)?.send(run)?.ok()?.json()
    }

    #[test]
    fn a_test_answers_requests_itself() {
        let run = testing::run();
        testing::answer_requests(|request| {
            assert_eq!((request.url(), request.sent_body()), ("https://api.example.com/x", Some(&b"1"[..])));
            Ok(Response { status: 200, body: b"[1, 2]".to_vec(), ..Response::default() })
        });
        assert_eq!(fetch(&run).unwrap(), [1, 2]);
        testing::answer_requests(|_| Ok(Response { status: 503, ..Response::default() }));
        let error = fetch(&run).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Retryable, "http-status"));
        testing::answer_requests(|_| Err(HttpError::Lost));
        assert_eq!(fetch(&run).unwrap_err().kind(), ErrorKind::Cancelled);
    }

    #[test]
    fn every_method_has_its_request_and_an_answer_its_text() {
        let run = testing::run();
        testing::answer_requests(|request| {
            let text = format!("{} {:?}", request.method(), request.sent_header("X-Key"));
            Ok(Response { status: 200, body: text.into_bytes(), ..Response::default() })
        });
        for (request, method) in [
            (Request::get as fn(&str) -> Request, "GET"),
            (Request::post, "POST"),
            (Request::put, "PUT"),
            (Request::patch, "PATCH"),
            (Request::delete, "DELETE"),
        ] {
            let answer = request("https://api.example.com/x").header("x-key", "k").send(&run).unwrap();
            assert_eq!(answer.text(), format!("{method} Some(\"k\")"));
        }
    }

    #[test]
    fn json_names_its_type_unless_the_request_did() {
        let types = |request: Request| -> Vec<String> {
            request.json(&1).unwrap().headers.into_iter().map(|(_, value)| value).collect()
        };
        let request = Request::post("https://api.example.com/x");
        assert_eq!(types(request.clone()), ["application/json"]);
        assert_eq!(types(request.header("Content-Type", "application/problem+json")), ["application/problem+json"]);
    }

    #[test]
    fn without_an_answer_nothing_is_granted() {
        assert_eq!(fetch(&testing::run()).unwrap_err().code(), "http-denied");
    }
}
