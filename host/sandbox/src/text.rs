//! Strings that come from guests: bounded before they are kept, escaped before they are shown.

use std::any::Any;
use std::borrow::Cow;

/// Makes a guest's text safe to show on a terminal or in a report: control characters, lone carriage returns, Unicode line
/// and paragraph separators and the characters that reorder text are written as `\u{…}`; newlines and tabs stay.
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\r' && chars.peek() == Some(&'\n') {
            continue;
        }
        if is_unsafe(c) {
            escaped.extend(c.escape_unicode());
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// At most `max` bytes of `text`, cut between characters; a cut is marked by `…` where that fits.
pub(crate) fn bound(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let mark = if max >= MARK.len() { MARK } else { "" };
    let end = text.floor_char_boundary(max - mark.len());
    format!("{}{mark}", &text[..end])
}

/// Bytes in the largest unit that says them exactly: `128 MiB`, `1000 bytes`.
pub(crate) fn size(bytes: usize) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{bytes} bytes"), |(unit, name)| format!("{} {name}", bytes / unit))
}

/// What a panic said.
pub(crate) fn of_panic(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

const MARK: &str = "…";

fn is_unsafe(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{2028}' | '\u{2029}' => true,
        // Bidirectional controls make text look like other text.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_lines_stay() {
        assert_eq!(escape("a\x1b[31mb\nc\td"), "a\\u{1b}[31mb\nc\td");
        assert_eq!(escape("one\r\ntwo\rthree\u{2028}four"), "one\ntwo\\u{d}three\\u{2028}four");
        assert!(matches!(escape("plain ü"), Cow::Borrowed(_)));
    }

    #[test]
    fn every_character_that_reorders_text_is_escaped() {
        // All that have the Unicode property Bidi_Control.
        for c in
            "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}".chars()
        {
            assert_eq!(escape(&c.to_string()), c.escape_unicode().to_string());
        }
    }

    #[test]
    fn a_cut_falls_between_characters_and_keeps_the_bound() {
        assert_eq!(bound("short", 8), "short");
        assert_eq!(bound("äöüß", 7), "äö…");
        for max in 0..12 {
            assert!(bound("äöüß€€", max).len() <= max);
        }
    }

    #[test]
    fn sizes_are_told_in_units_that_say_them_exactly() {
        assert_eq!([0, 1_000, 64 << 10, 128 << 20].map(size), ["0 bytes", "1000 bytes", "64 KiB", "128 MiB"]);
    }
}
