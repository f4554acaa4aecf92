//! A payload written as TOML, given to the handler as JSON.

use serde_json::{Map, Number, Value as Json};

use crate::config::reader::Wrong;
use crate::config::tree::{Node, Value};

/// The value as JSON text. Dates and times become strings in TOML's form, which for instants is RFC 3339.
pub(super) fn bytes(node: &Node) -> Result<Vec<u8>, Wrong> {
    let json = value(node)?;
    serde_json::to_vec(&json).map_err(|error| Wrong::new(format!("it cannot be written as JSON: {error}")))
}

fn value(node: &Node) -> Result<Json, Wrong> {
    Ok(match &node.value {
        Value::Text(text) | Value::Datetime(text) => Json::String(text.clone()),
        Value::Integer(n) => Json::Number((*n).into()),
        Value::HugeInteger(_) => {
            return Err(Wrong::new("a whole number in it does not fit 64 bits").hint("write it as text"));
        }
        Value::Float(n) => match Number::from_f64(*n) {
            Some(number) => Json::Number(number),
            None => return Err(Wrong::new("JSON has no inf and no nan").hint("write it as text")),
        },
        Value::Boolean(b) => Json::Bool(*b),
        Value::Array(items) => Json::Array(items.iter().map(value).collect::<Result<_, _>>()?),
        Value::Table(table) => {
            let entry = |(key, node): (&String, &Node)| Ok((key.clone(), value(node)?));
            Json::Object(table.iter().map(entry).collect::<Result<Map<_, _>, Wrong>>()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::tree::parse;

    fn json(text: &str) -> Result<String, String> {
        let root = parse(Path::new("f.toml"), text).unwrap();
        bytes(&root["p"]).map(|bytes| String::from_utf8(bytes).unwrap()).map_err(|wrong| wrong.reason)
    }

    #[test]
    fn every_kind_of_value_has_its_json_form() {
        let text = "p = { b = true, a = [1, -2.5, \"x\\u2028\"], t = 2026-11-29T10:00:00Z, d = 2026-11-29, o = {} }";
        let expected =
            "{\"a\":[1,-2.5,\"x\u{2028}\"],\"b\":true,\"d\":\"2026-11-29\",\"o\":{},\"t\":\"2026-11-29T10:00:00Z\"}";
        assert_eq!(json(text).unwrap(), expected);
        assert_eq!(json("p = 0xff").unwrap(), "255");
        assert_eq!(json("[p]\nx = 1").unwrap(), "{\"x\":1}");
    }

    #[test]
    fn what_json_cannot_say_is_refused() {
        assert!(json("p = [inf]").unwrap_err().contains("no inf"));
        assert!(json("p = nan").unwrap_err().contains("nan"));
        assert!(json("p = 99999999999999999999").unwrap_err().contains("64 bits"));
    }
}
