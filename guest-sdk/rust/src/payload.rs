//! What goes into a handler and what comes out of it.

use serde::{Serialize, de::DeserializeOwned};

use crate::{Error, Result, Run};

/// A payload as it is, for handlers whose input or output is not JSON.
///
/// ```
/// use leasehold_guest::{Bytes, Result, Run, handler};
///
/// handler!(upper);
///
/// fn upper(_run: &Run, input: Bytes) -> Result<Bytes> {
///     Ok(Bytes(input.0.to_ascii_uppercase()))
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

/// What a handler can take: everything that serde reads from JSON, and [`Bytes`].
pub trait Input: Sized {
    /// Reads a payload.
    ///
    /// # Errors
    ///
    /// A permanent `bad-input` when the payload does not fit.
    fn from_payload(payload: Vec<u8>) -> Result<Self>;
}

/// What a handler can return: everything that serde writes as JSON, and [`Bytes`].
pub trait Output {
    /// Writes a payload.
    ///
    /// # Errors
    ///
    /// A permanent `bad-output` when the value has no form in JSON, such as a map whose keys are not strings.
    fn into_payload(self) -> Result<Vec<u8>>;
}

impl<T: DeserializeOwned> Input for T {
    fn from_payload(payload: Vec<u8>) -> Result<Self> {
        // An on-demand run without a payload has an empty one.
        let json: &[u8] = if payload.is_empty() { b"null" } else { &payload };
        serde_json::from_slice(json)
            .map_err(|error| Error::permanent("bad-input", format!("the payload does not fit this handler: {error}")))
    }
}

impl<T: Serialize> Output for T {
    fn into_payload(self) -> Result<Vec<u8>> {
        serde_json::to_vec(&self)
            .map_err(|error| Error::permanent("bad-output", format!("the output is not JSON: {error}")))
    }
}

impl Input for Bytes {
    fn from_payload(payload: Vec<u8>) -> Result<Self> {
        Ok(Self(payload))
    }
}

impl Output for Bytes {
    fn into_payload(self) -> Result<Vec<u8>> {
        Ok(self.0)
    }
}

/// The whole way of one run: payload in, handler, payload out.
pub(crate) fn call<I, O, E>(run: &Run, input: Vec<u8>, handler: impl FnOnce(&Run, I) -> Result<O, E>) -> Result<Vec<u8>>
where
    I: Input,
    O: Output,
    E: Into<Error>,
{
    handler(run, I::from_payload(input)?).map_err(Into::into)?.into_payload()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::{ErrorKind, testing};

    fn echo(_run: &Run, input: Value) -> Result<Value> {
        Ok(input)
    }

    #[test]
    fn json_goes_in_and_out() {
        let output = call(&testing::run(), br#"{ "a": [1, 2] }"#.to_vec(), echo).unwrap();
        assert_eq!(output, json!({ "a": [1, 2] }).to_string().into_bytes());
    }

    #[test]
    fn an_empty_payload_reads_as_null() {
        assert_eq!(call(&testing::run(), Vec::new(), echo).unwrap(), b"null");
        assert_eq!(Option::<u32>::from_payload(Vec::new()).unwrap(), None);
        <()>::from_payload(Vec::new()).unwrap();
    }

    #[test]
    fn a_payload_that_does_not_fit_is_a_permanent_error_and_the_handler_is_not_called() {
        let handler = |_: &Run, _: Vec<u32>| -> Result<()> { panic!("called with bad input") };
        let error = call(&testing::run(), br#"{"a": 1}"#.to_vec(), handler).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Permanent, "bad-input"));
        assert!(error.message().contains("invalid type: map"), "{}", error.message());
    }

    #[test]
    fn an_output_without_a_form_in_json_is_a_permanent_error() {
        let handler = |_: &Run, (): ()| Ok::<_, Error>(HashMap::from([(vec![1], 1)]));
        let error = call(&testing::run(), Vec::new(), handler).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Permanent, "bad-output"));
    }

    #[test]
    fn bytes_pass_untouched() {
        let raw = vec![0, 255, b'{'];
        let handler = |_: &Run, input: Bytes| Ok::<_, Error>(input);
        assert_eq!(call(&testing::run(), raw.clone(), handler).unwrap(), raw);
    }

    #[test]
    fn a_handler_may_return_an_error_type_of_its_own() {
        let handler = |_: &Run, (): ()| "x".parse::<u32>();
        let error = call(&testing::run(), Vec::new(), handler).unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::Retryable, "error"));
    }
}
