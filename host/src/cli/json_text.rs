//! A handler's JSON written anew without a change of its values: numbers keep every digit, keys their order.

use serde_json::Value;
use serde_json::value::RawValue;

/// Deeper levels are not indented further, so that brackets alone cannot make megabytes of blanks.
const INDENTED_LEVELS: usize = 40;

/// The text on one line, when these bytes are JSON that common readers can read (at most 128 levels deep).
pub(super) fn compact(bytes: &[u8]) -> Option<Box<RawValue>> {
    RawValue::from_string(reformat(valid(bytes)?, false)).ok()
}

/// The text indented, when these bytes are JSON.
pub(super) fn pretty(bytes: &[u8]) -> Option<String> {
    Some(reformat(valid(bytes)?, true))
}

fn valid(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    serde_json::from_str::<Value>(text).ok().map(|_| text)
}

/// `text` is valid JSON: only the blanks between its parts change.
fn reformat(text: &str, indent: bool) -> String {
    let mut new = String::with_capacity(text.len());
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if in_string {
            new.push(c);
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            ' ' | '\t' | '\n' | '\r' => {}
            '"' => {
                in_string = true;
                new.push(c);
            }
            '{' | '[' => {
                new.push(c);
                depth += 1;
                while chars.next_if(|c| c.is_ascii_whitespace()).is_some() {}
                if indent && !chars.peek().is_some_and(|c| matches!(c, '}' | ']')) {
                    break_line(&mut new, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                if indent && !new.ends_with(['{', '[']) {
                    break_line(&mut new, depth);
                }
                new.push(c);
            }
            ',' if indent => {
                new.push(c);
                break_line(&mut new, depth);
            }
            ':' if indent => new.push_str(": "),
            c => new.push(c),
        }
    }
    new
}

fn break_line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth.min(INDENTED_LEVELS)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_as_they_were_written() {
        let text = " { \"b\" : 12345678901234567890123.0 ,\n \"a\": [ ] , \"c\\\"{\": \"x , y\\\\\" ,\"d\":{}} ";
        let compact = compact(text.as_bytes()).unwrap();
        assert_eq!(compact.get(), r#"{"b":12345678901234567890123.0,"a":[],"c\"{":"x , y\\","d":{}}"#);
    }

    #[test]
    fn pretty_json_has_a_value_a_line() {
        let text = pretty(br#"{"a":[1,{"b":null}],"c":{},"d":[]}"#).unwrap();
        assert_eq!(text, "{\n  \"a\": [\n    1,\n    {\n      \"b\": null\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}");
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(read(&text), read(r#"{"a":[1,{"b":null}],"c":{},"d":[]}"#));
    }

    #[test]
    fn what_common_readers_refuse_is_no_json() {
        assert!(compact(b"plain text").is_none());
        assert!(compact(b"").is_none());
        assert!(compact(b"{\"a\":1} 2").is_none());
        assert!(compact(&[b'"', 0xff, b'"']).is_none());
        assert!(compact("[".repeat(500).as_bytes()).is_none());
        assert!(compact(format!("{}{}", "[".repeat(500), "]".repeat(500)).as_bytes()).is_none());
    }
}
