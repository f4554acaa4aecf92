//! How a handler fails.

use std::fmt;

use crate::http::HttpError;
use crate::storage::StorageError;

/// What a handler returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed run, as the host records it: whether another try is worth it, a short code, a message and details.
///
/// Every standard error converts into one, so `?` works on it: it becomes retryable with the code `error` and a message
/// that names its sources. What the host said keeps its meaning, also as a source of an error of yours:
///
/// | | |
/// |---|---|
/// | [`StorageError`] | cancelled when the run is lost; retryable `storage-unavailable`; permanent `storage-too-large`, `storage-over-quota`, `storage` |
/// | [`HttpError`] | cancelled when the run is lost; retryable `http-uncertain`, `http-unreachable`, `http-timeout`, `http`; permanent `http-denied`, `http-invalid`, `http-too-large` |
///
/// Say more where it matters:
///
/// ```
/// # use leasehold_guest::{Error, Result};
/// fn port(text: &str) -> Result<u16> {
///     text.parse().map_err(|error| Error::permanent("bad-port", error).with_detail("port", text))
/// }
/// assert_eq!(port("many").unwrap_err().code(), "bad-port");
/// ```
///
/// This type is deliberately no `std::error::Error` itself: that is what lets every other error convert into it.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    code: String,
    message: String,
    details: Vec<(String, String)>,
}

/// What the host is asked to do with a failed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Worth another try. Recorded as a hint: only dead runners are retried, a failure is final.
    Retryable,
    /// Never try this run again.
    Permanent,
    /// The handler saw that it must stop, and stopped.
    Cancelled,
}

impl Error {
    /// Something that may go better next time, such as an upstream that did not answer.
    ///
    /// `code` is short and stable, for people who count errors: `upstream-timeout`. The host keeps at most 64 bytes of
    /// it, 8 KiB of `message`, and 32 details of 1 KiB.
    pub fn retryable(code: impl Into<String>, message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Retryable, code, message)
    }

    /// Something that fails the same way every time, such as a payload that makes no sense. Bounds as in
    /// [`Error::retryable`].
    pub fn permanent(code: impl Into<String>, message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Permanent, code, message)
    }

    /// The handler stopped because the host asked it to. [`Run::ensure_continue`](crate::Run::ensure_continue) returns
    /// it when that is so.
    pub fn cancelled() -> Self {
        Self::new(ErrorKind::Cancelled, "cancelled", "the run was asked to stop")
    }

    /// Adds a detail that is kept with the run. (A cancelled handler's details go nowhere.)
    #[must_use]
    pub fn with_detail(mut self, key: impl Into<String>, value: impl fmt::Display) -> Self {
        self.details.push((key.into(), value.to_string()));
        self
    }

    /// What the host is asked to do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The short and stable code.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// What went wrong, for a person.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The details, in the order they were added.
    pub fn details(&self) -> &[(String, String)] {
        &self.details
    }

    #[cfg(target_family = "wasm")]
    pub(crate) fn into_parts(self) -> (ErrorKind, String, String, Vec<(String, String)>) {
        (self.kind, self.code, self.message, self.details)
    }

    fn new(kind: ErrorKind, code: impl Into<String>, message: impl fmt::Display) -> Self {
        Self { kind, code: code.into(), message: message.to_string(), details: Vec::new() }
    }
}

/// What `?` makes of it: see [`Error`].
impl<E: std::error::Error + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        let of_host = |cause: &(dyn std::error::Error + 'static)| {
            let storage = cause.downcast_ref().map(StorageError::meaning);
            storage.or_else(|| cause.downcast_ref().map(HttpError::meaning))
        };
        match causes(&error).find_map(of_host) {
            Some((ErrorKind::Cancelled, _)) => Self::cancelled(),
            Some((kind, code)) => Self::new(kind, code, chain(&error)),
            None => Self::retryable("error", chain(&error)),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {self}", self.kind)?;
        self.details.iter().try_for_each(|(key, value)| write!(f, ", {key} = {value:?}"))
    }
}

/// An error and its sources in one line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    causes(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// An error and its sources.
fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Outer(std::num::ParseIntError);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("cannot read the count")
        }
    }

    impl std::error::Error for Outer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn a_question_mark_turns_any_error_into_a_retryable_one_that_names_its_sources() {
        fn count(text: &str) -> Result<u32> {
            Ok(text.parse().map_err(Outer)?)
        }
        let error = count("many").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Retryable);
        assert_eq!(error.to_string(), "error: cannot read the count: invalid digit found in string");
    }

    #[derive(Debug)]
    enum Mine {
        Keeping(StorageError),
        Telling(HttpError),
    }

    impl fmt::Display for Mine {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(match self {
                Mine::Keeping(_) => "cannot keep it",
                Mine::Telling(_) => "cannot tell it",
            })
        }
    }

    impl std::error::Error for Mine {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            match self {
                Mine::Keeping(source) => Some(source),
                Mine::Telling(source) => Some(source),
            }
        }
    }

    #[test]
    fn what_the_host_said_keeps_its_meaning_inside_an_error_of_the_handlers_own() {
        let of = |error: Mine| Error::from(error);
        let denied = of(Mine::Telling(HttpError::Denied("no".into())));
        assert_eq!((denied.kind(), denied.code()), (ErrorKind::Permanent, "http-denied"));
        assert_eq!(denied.message(), "cannot tell it: denied: no");
        let away = of(Mine::Keeping(StorageError::Unavailable("it restarts".into())));
        assert_eq!((away.kind(), away.code()), (ErrorKind::Retryable, "storage-unavailable"));
        assert_eq!(of(Mine::Keeping(StorageError::Lost)).kind(), ErrorKind::Cancelled);
        assert_eq!(Error::from(HttpError::Timeout).code(), "http-timeout");
    }

    #[test]
    fn details_are_kept_in_order() {
        let error = Error::permanent("bad-port", "no such port").with_detail("port", 70000).with_detail("host", "a");
        assert_eq!(error.details(), [("port".into(), "70000".into()), ("host".into(), "a".into())]);
        assert_eq!(format!("{error:?}"), r#"Permanent bad-port: no such port, port = "70000", host = "a""#);
    }
}
