//! Reading what scripts answer.

use std::str::FromStr;

use redis::Value;

use crate::error::StoreError;
use crate::wire::WireError;

/// The fields of an answer, read one after the other.
pub(super) struct Fields {
    what: &'static str,
    rest: std::vec::IntoIter<Value>,
}

impl Fields {
    /// The fields of `value`; `what` is what an error calls it.
    pub(super) fn of(what: &'static str, value: Value) -> Result<Fields, WireError> {
        match value {
            Value::Array(fields) => Ok(Fields { what, rest: fields.into_iter() }),
            other => Err(odd(what, "a list", &other)),
        }
    }

    /// The next field, whatever it is. One that is missing is nothing: a server cuts a list at its end.
    pub(super) fn next(&mut self) -> Value {
        self.rest.next().unwrap_or(Value::Nil)
    }

    /// All that follow.
    pub(super) fn rest(self) -> std::vec::IntoIter<Value> {
        self.rest
    }

    /// A number, if there is one.
    pub(super) fn maybe_number<N: TryFrom<i64> + FromStr>(&mut self) -> Result<Option<N>, WireError> {
        let value = self.next();
        match &value {
            Value::Nil => Ok(None),
            Value::Int(number) => {
                N::try_from(*number).map(Some).map_err(|_| odd(self.what, "a number of this kind", &value))
            }
            Value::BulkString(digits) => {
                let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
                number.map(Some).ok_or_else(|| odd(self.what, "a number", &value))
            }
            _ => Err(odd(self.what, "a number", &value)),
        }
    }

    /// A number.
    pub(super) fn number<N: TryFrom<i64> + FromStr>(&mut self) -> Result<N, WireError> {
        self.maybe_number()?.ok_or_else(|| missing(self.what, "a number"))
    }

    /// Bytes, if there are any.
    pub(super) fn maybe_bytes(&mut self) -> Result<Option<Vec<u8>>, WireError> {
        match self.next() {
            Value::Nil => Ok(None),
            Value::BulkString(bytes) => Ok(Some(bytes)),
            other => Err(odd(self.what, "bytes", &other)),
        }
    }

    /// Bytes.
    pub(super) fn bytes(&mut self) -> Result<Vec<u8>, WireError> {
        self.maybe_bytes()?.ok_or_else(|| missing(self.what, "bytes"))
    }

    /// A text, if there is one.
    pub(super) fn maybe_text(&mut self) -> Result<Option<String>, WireError> {
        let text = self.maybe_bytes()?.map(String::from_utf8).transpose();
        text.map_err(|error| WireError::new(self.what, error))
    }

    /// A text.
    pub(super) fn text(&mut self) -> Result<String, WireError> {
        self.maybe_text()?.ok_or_else(|| missing(self.what, "a text"))
    }

    /// Yes or no: a script's `true` is 1, its `false` nothing.
    pub(super) fn flag(&mut self) -> Result<bool, WireError> {
        Ok(self.maybe_number::<i64>()?.is_some_and(|number| number != 0))
    }

    /// The fields of a list within.
    pub(super) fn list(&mut self, what: &'static str) -> Result<Fields, WireError> {
        Fields::of(what, self.next())
    }

    /// The fields of a list within, if there is one.
    pub(super) fn maybe_list(&mut self, what: &'static str) -> Result<Option<Fields>, WireError> {
        match self.next() {
            Value::Nil => Ok(None),
            value => Fields::of(what, value).map(Some),
        }
    }

    /// The fields of a list within that begins with 1; one that begins with nothing tells why its record cannot be read.
    pub(super) fn sound(&mut self, what: &'static str) -> Result<Fields, WireError> {
        sound(what, self.next())
    }

    /// What an unknown word is told as.
    pub(super) fn unknown<A>(&self, word: &str) -> Result<A, WireError> {
        Err(WireError::new(
            self.what,
            format!("it has the unknown word {:?}", word.chars().take(40).collect::<String>()),
        ))
    }
}

/// As [`Fields::sound`].
pub(super) fn sound(what: &'static str, value: Value) -> Result<Fields, WireError> {
    let mut fields = Fields::of(what, value)?;
    if fields.flag()? { Ok(fields) } else { Err(WireError::new("a record", fields.text()?)) }
}

/// What cannot be read was answered all the same, and sending the call again will not make it readable.
pub(super) fn unreadable(doing: &'static str) -> impl Fn(WireError) -> StoreError {
    move |error| StoreError::Rejected { doing, source: Box::new(error) }
}

fn missing(what: &'static str, wanted: &str) -> WireError {
    WireError::new(what, format!("{wanted} is missing"))
}

/// Says what kind of value was found, and nothing of its content.
fn odd(what: &'static str, wanted: &str, found: &Value) -> WireError {
    let found = match found {
        Value::Nil => "nothing",
        Value::Int(_) => "a number",
        Value::BulkString(_) | Value::SimpleString(_) | Value::Okay => "a text",
        Value::Array(_) => "a list",
        _ => "something else",
    };
    WireError::new(what, format!("{wanted} was expected, and {found} was found"))
}
