//! One line of the common or the combined log format:
//!
//! ```text
//! host ident user [time] "method path protocol" status bytes ["referer" "agent" …]
//! ```

use std::borrow::Cow;

/// What the report needs of a line.
#[derive(Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Without its query; `-` when the request is not of HTTP's form, as with probes that speak TLS to a plain port.
    pub path: Cow<'a, str>,
    pub status: u16,
    /// Size of the response without its head; the format's `-` means none.
    pub bytes: u64,
}

/// `None` when the line is not of this format.
pub fn parse(line: &[u8]) -> Option<Line<'_>> {
    let (_host, rest) = word(line)?;
    let (_ident, rest) = word(rest)?;
    let (_user, rest) = word(rest)?;
    let (_time, rest) = delimited(rest, b'[', b']')?;
    let (request, rest) = delimited(rest, b'"', b'"')?;
    let (status, rest) = word(rest)?;
    let (bytes, _) = word(rest)?;
    Some(Line {
        path: path(request),
        status: number(status).filter(|status| (100..1000).contains(status))?,
        bytes: if bytes == b"-" { 0 } else { number(bytes)? },
    })
}

/// The path of `GET /a?b HTTP/1.1`.
fn path(request: &[u8]) -> Cow<'_, str> {
    let mut parts = request.split(|&byte| byte == b' ');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(_method), Some(target), Some(_protocol), None) if !target.is_empty() => {
            let end = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
            String::from_utf8_lossy(&target[..end])
        }
        _ => Cow::Borrowed("-"),
    }
}

/// The next word and what follows it.
fn word(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii_start();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    (end > 0).then(|| line.split_at(end))
}

/// What stands between two delimiters, a backslash protecting the next byte, and what follows it.
fn delimited(line: &[u8], open: u8, close: u8) -> Option<(&[u8], &[u8])> {
    let inner = line.trim_ascii_start().strip_prefix(&[open])?;
    let mut escaped = false;
    let end = inner.iter().position(|&byte| {
        let ends = byte == close && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })?;
    Some((&inner[..end], &inner[end + 1..]))
}

fn number<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    let text = std::str::from_utf8(digits).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(request: &str, rest: &str) -> String {
        format!(r#"192.0.2.7 - ada [29/Nov/2026:10:00:00 +0000] "{request}" {rest}"#)
    }

    #[test]
    fn both_formats_are_read() {
        for rest in ["200 1234", r#"200 1234 "https://example.com/" "agent \"quoted\"""#] {
            let text = line("GET /a/b?c=1 HTTP/1.1", rest);
            assert_eq!(parse(text.as_bytes()), Some(Line { path: "/a/b".into(), status: 200, bytes: 1234 }), "{rest}");
        }
    }

    #[test]
    fn a_dash_means_no_bytes() {
        let text = line("HEAD / HTTP/1.1", "304 -");
        assert_eq!(parse(text.as_bytes()).map(|line| line.bytes), Some(0));
    }

    #[test]
    fn a_request_that_is_not_http_has_no_path() {
        for request in [r"\x16\x03\x01\x02", "-", "", "GET /no-protocol", r#"GET \"quoted\" path HTTP/1.1"#] {
            let text = line(request, "400 0");
            assert_eq!(parse(text.as_bytes()).map(|line| line.path.into_owned()), Some("-".into()), "{request}");
        }
    }

    #[test]
    fn broken_lines_are_told_apart() {
        let complete = line("GET / HTTP/1.1", "200 5");
        for text in [
            "",
            "nonsense",
            &complete[..complete.len() - 8],
            &line("GET / HTTP/1.1", "two-hundred 5"),
            &line("GET / HTTP/1.1", "99999 5"),
            &line("GET / HTTP/1.1", "200 +5"),
            &line("GET / HTTP/1.1", "200 99999999999999999999999"),
            r#"192.0.2.7 - - 29/Nov/2026 "GET / HTTP/1.1" 200 5"#,
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_do_not_stop_it() {
        let mut text = line("GET /caf? HTTP/1.1", "200 5").into_bytes();
        let at = text.iter().position(|&byte| byte == b'?').expect("a query");
        text[at] = 0xff;
        assert_eq!(parse(&text).map(|line| line.path.into_owned()), Some("/caf\u{fffd}".into()));
    }
}
