//! What the addresses of all servers have in common.

/// An address as it may be shown: everything between the scheme and the last `@`, and every option, is `***`.
///
/// Where a `?` or `#` stands before the last `@`, it cannot be told whether it belongs to a password or begins the
/// options, so that nothing but the scheme is shown.
pub fn redacted(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    let (user, place) = match rest.rsplit_once('@') {
        Some((user, place)) => (Some(user), place),
        None => (None, rest),
    };
    if user.is_some_and(|user| user.contains(['?', '#'])) {
        return format!("{scheme}***");
    }
    let user = user.map_or("", |_| "***@");
    match place.split_once(['?', '#']) {
        Some((place, _)) => format!("{scheme}{user}{place}?***"),
        None => format!("{scheme}{user}{place}"),
    }
}

/// Whether this can be a namespace: `[a-z0-9][a-z0-9._-]{0,63}`, so that keys can be taken apart again.
pub fn is_namespace(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.starts_with(plain) && text.len() <= 64 && text.chars().all(|c| plain(c) || "._-".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for url in [
            "postgres://u:hunter2@h/db",
            "redis://:p@hunter2@h",
            "u:hunter2@h",
            "x://h/?password=hunter2",
            "redis://u:pa?hunter2@h",
            "redis://u:pa#hunter2@h",
            "redis://h?password=x@hunter2",
        ] {
            assert!(!redacted(url).contains("hunter2"), "{url}: {}", redacted(url));
        }
        assert_eq!(redacted("redis://u:p@w@h:6379/2?wait=1"), "redis://***@h:6379/2?***");
        assert_eq!(redacted("sqlite://a.db"), "sqlite://a.db");
    }

    #[test]
    fn a_namespace_is_a_name() {
        for bad in ["", "A", "a b", ".a", "a/b", "{a}", &"x".repeat(65)] {
            assert!(!is_namespace(bad), "{bad:?}");
        }
        assert!(is_namespace("prod-2.eu_west"));
    }
}
