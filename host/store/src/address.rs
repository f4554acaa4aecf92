//! What the addresses of all servers have in common.

/// An address as it may be shown: everything between the scheme and the last `@`, and every option, is `***`.
///
/// Where it cannot be told what is a password, nothing but the scheme is shown: where a `?` or `#` stands before the last
/// `@`, where a colon is followed by no port, and where there is no scheme.
pub fn redacted(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        let is_plain = !url.contains([':', '@', '=', '?', ' ']);
        return if is_plain { url.to_owned() } else { "***".to_owned() };
    };
    let (user, place) = match rest.rsplit_once('@') {
        Some((user, place)) => (Some(user), place),
        None => (None, rest),
    };
    let (place, options) = match place.split_once(['?', '#']) {
        Some((place, _)) => (place, "?***"),
        None => (place, ""),
    };
    let hidden = match user {
        Some(user) => user.contains(['?', '#']),
        None => !ends_in_a_port(place),
    };
    if hidden {
        return format!("{scheme}://***");
    }
    let user = user.map_or("", |_| "***@");
    format!("{scheme}://{user}{place}{options}")
}

/// Whether what follows the last colon of the host, if there is one, is a port: `host:1`, `[::1]`, `[::1]:1`.
fn ends_in_a_port(place: &str) -> bool {
    let host = place.split('/').next().unwrap_or_default();
    let port = host.rsplit_once(']').map_or(host, |(_, port)| port).split_once(':');
    port.is_none_or(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
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
            "postgres://u:hunter2",
            "redis:u:hunter2",
            "host=127.0.0.1 password=hunter2",
        ] {
            assert!(!redacted(url).contains("hunter2"), "{url}: {}", redacted(url));
        }
        assert_eq!(redacted("redis://u:p@w@h:6379/2?wait=1"), "redis://***@h:6379/2?***");
        for plain in ["sqlite://a.db", "redis://h:6379/2", "postgres://[::1]:5432/db", "redis://[::1]", "leasehold.db"]
        {
            assert_eq!(redacted(plain), plain);
        }
    }

    #[test]
    fn a_namespace_is_a_name() {
        for bad in ["", "A", "a b", ".a", "a/b", "{a}", &"x".repeat(65)] {
            assert!(!is_namespace(bad), "{bad:?}");
        }
        assert!(is_namespace("prod-2.eu_west"));
    }
}
