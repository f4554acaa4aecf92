//! Strangers' texts made safe for people's eyes, and figures in people's words.

use leasehold_sandbox::escape;

/// A text on one line: everything that could steer a terminal or begin a line is written out.
pub(super) fn plain(text: &str) -> String {
    escape(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// The same, with at most `max` characters of the text.
pub(super) fn brief(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", plain(&text[..end])),
        None => plain(text),
    }
}

/// A text of several lines, each behind `indent`: nobody can forge a line that stands at the margin.
pub(super) fn block(text: &str, indent: &str) -> String {
    let escaped = escape(text.trim_end_matches('\n'));
    escaped.split('\n').map(|line| format!("{indent}{line}\n")).collect()
}

/// A detail of a failure, indented: on one line where its value has one.
pub(super) fn detail(key: &str, value: &str) -> String {
    let value = value.trim_end_matches('\n');
    if value.contains('\n') {
        return format!("  {}\n{}", plain(key), block(value, "    "));
    }
    format!("  {}: {}\n", plain(key), plain(value))
}

/// Bytes: `512 B`, `1.5 KiB`, `128.0 MiB`.
pub(super) fn bytes(n: u64) -> String {
    bytesize::ByteSize::b(n).display().iec().to_string()
}

/// A duration given in ms: `350 ms`, `12.3 s`, `5m 3s`.
pub(super) fn duration_ms(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => humantime::format_duration(std::time::Duration::from_secs(ms / 1_000)).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strangers_text_stays_on_its_line() {
        assert_eq!(plain("a\nb\tc\u{1b}[2J\r\u{2028}"), "a\\nb\\tc\\u{1b}[2J\\u{d}\\u{2028}");
        assert_eq!(brief("äöü", 2), "äö…");
        assert_eq!(brief("äö", 2), "äö");
    }

    #[test]
    fn a_block_is_indented_line_by_line() {
        assert_eq!(block("a\nb\u{7}\n", "  "), "  a\n  b\\u{7}\n");
        assert_eq!(block("", "  "), "  \n");
    }

    #[test]
    fn a_detail_of_one_line_stands_beside_its_key() {
        assert_eq!(detail("card", "42\n"), "  card: 42\n");
        assert_eq!(detail("a\nb", "one\n\u{7}two"), "  a\\nb\n    one\n    \\u{7}two\n");
    }

    #[test]
    fn figures_have_units() {
        assert_eq!([bytes(512), bytes(1536), bytes(128 << 20)], ["512 B", "1.5 KiB", "128.0 MiB"]);
        assert_eq!([duration_ms(350), duration_ms(12_345), duration_ms(303_000)], ["350 ms", "12.3 s", "5m 3s"]);
    }
}
