//! How the parts of a record that no rule looks at travel to a database server: as JSON, bytes in hexadecimal.
//!
//! The text of a value is always the same, so that a server may compare two of them by their bytes (S13: the same
//! outcome again).

use std::time::Duration;

use leasehold_lease::id::{Digest, Token, hex};
use leasehold_lease::policy::{Overlap, Terms};
use leasehold_lease::run::{Failure, Outcome};
use serde::{Deserialize, Serialize};

/// A text of a server that is not what was written there.
#[derive(Debug, thiserror::Error)]
#[error("{what} cannot be read: {reason}")]
pub(crate) struct WireError {
    /// Of what.
    pub(crate) what: &'static str,
    /// Why.
    pub(crate) reason: String,
}

impl WireError {
    pub(crate) fn new(what: &'static str, reason: impl ToString) -> WireError {
        WireError { what, reason: reason.to_string() }
    }
}

/// Reads a value from JSON.
pub(crate) fn from_json<'a, A: Deserialize<'a>>(what: &'static str, text: &'a str) -> Result<A, WireError> {
    serde_json::from_str(text).map_err(|error| WireError::new(what, error))
}

/// Writes a value as JSON.
pub(crate) fn to_json<A: Serialize>(value: &A) -> String {
    serde_json::to_string(value).expect("a record has text keys and no failing value")
}

/// What a claim says of its attempt besides token and lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Meta {
    runner: String,
    digest: Option<String>,
    lease_ms: u64,
    max_attempts: u32,
    overlap: Overlap,
    catch_up_ms: u64,
    max_late_ms: u64,
    history_size: u32,
}

impl Meta {
    pub(crate) fn new(runner: &str, digest: Option<Digest>, terms: &Terms) -> Meta {
        Meta {
            runner: runner.to_owned(),
            digest: digest.map(|digest| hex(&digest.0)),
            lease_ms: ms(terms.lease),
            max_attempts: terms.max_attempts,
            overlap: terms.overlap,
            catch_up_ms: ms(terms.catch_up),
            max_late_ms: ms(terms.max_late),
            history_size: terms.history_size,
        }
    }

    /// The runner's name, the plugin's digest and the policy.
    pub(crate) fn parts(self) -> Result<(String, Option<Digest>, Terms), WireError> {
        let digest = self.digest.map(|text| array("a plugin's digest", &text)).transpose()?.map(Digest);
        let terms = Terms {
            lease: Duration::from_millis(self.lease_ms),
            max_attempts: self.max_attempts,
            overlap: self.overlap,
            catch_up: Duration::from_millis(self.catch_up_ms),
            max_late: Duration::from_millis(self.max_late_ms),
            history_size: self.history_size,
        };
        Ok((self.runner, digest, terms))
    }
}

/// How a run ended. The order of the fields is part of the text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum WireOutcome {
    Success { output: String, cut: bool },
    Failed(Failure),
    Interrupted { reason: String },
}

impl From<&Outcome> for WireOutcome {
    fn from(outcome: &Outcome) -> WireOutcome {
        match outcome {
            Outcome::Success { output, cut } => WireOutcome::Success { output: hex(output), cut: *cut },
            Outcome::Failed(failure) => WireOutcome::Failed(failure.clone()),
            Outcome::Interrupted { reason } => WireOutcome::Interrupted { reason: reason.clone() },
        }
    }
}

impl WireOutcome {
    pub(crate) fn outcome(self) -> Result<Outcome, WireError> {
        Ok(match self {
            WireOutcome::Success { output, cut } => Outcome::Success { output: bytes("an output", &output)?, cut },
            WireOutcome::Failed(failure) => Outcome::Failed(failure),
            WireOutcome::Interrupted { reason } => Outcome::Interrupted { reason },
        })
    }
}

/// Whole milliseconds, as far as a server's signed number can hold them.
pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).min(i64::MAX.cast_unsigned())
}

/// A token as 32 hexadecimal digits.
pub(crate) fn token_hex(token: &Token) -> String {
    hex(&token.0)
}

/// Reads what [`token_hex`] wrote.
pub(crate) fn token(text: &str) -> Result<Token, WireError> {
    array("a token", text).map(Token)
}

/// Reads what [`hex`] wrote.
pub(crate) fn bytes(what: &'static str, text: &str) -> Result<Vec<u8>, WireError> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let byte = |pair: &[u8; 2]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
    let all: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    all.filter(|_| rest.is_empty()).ok_or_else(|| WireError::new(what, "it is not hexadecimal"))
}

fn array<const N: usize>(what: &'static str, text: &str) -> Result<[u8; N], WireError> {
    bytes(what, text)?.try_into().map_err(|_| WireError::new(what, format!("it has not {N} bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_back_from_their_digits() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(bytes("all", &hex(&all)).expect("digits"), all);
        for bad in ["0", "0g", "ä"] {
            assert!(bytes("bad", bad).is_err(), "{bad}");
        }
        assert!(token("00").is_err());
    }

    #[test]
    fn an_outcome_is_read_back_as_it_was_written() {
        let outcome = Outcome::Success { output: vec![0, 255], cut: true };
        let text = to_json(&WireOutcome::from(&outcome));
        let back: WireOutcome = from_json("an outcome", &text).expect("JSON");
        assert_eq!(back.outcome().expect("an outcome"), outcome);
    }
}
