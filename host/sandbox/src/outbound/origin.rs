//! An origin: scheme, host and port, in one normal form, so that two ways to write the same are the same.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use url::{Host, Url};

/// Bytes of the longest URL that is looked at.
pub(crate) const MAX_URL: usize = 8 * 1024;

/// Where a request may go: scheme, host and port.
///
/// Written as `https://api.example.com` or `http://10.0.0.7:8080`. Names are lower case and in their ASCII form; an address
/// stands in its normal form, however it was written (`0x7f.1`, `2130706433`), and the port is always there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    tls: bool,
    host: OriginHost,
    port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum OriginHost {
    Name(String),
    Address(IpAddr),
}

/// Why a text is no origin or no URL that a request can be sent to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// Longer than any honest one.
    #[error("it is longer than {MAX_URL} bytes")]
    TooLong,
    /// Spaces, line breaks and the like, which parsers disagree about.
    #[error("it contains a space or a control character")]
    Unsafe,
    /// It is no URL.
    #[error("it is not a URL: {0}")]
    NotUrl(String),
    /// Another scheme.
    #[error("its scheme is neither https nor http")]
    Scheme,
    /// A user or a password.
    #[error("it contains a user or a password")]
    Userinfo,
    /// A host that ends with a dot, or port 0.
    #[error("its host ends with a dot, or its port is 0")]
    Host,
    /// More than an origin.
    #[error("it has a path, a query or a fragment behind the host")]
    NotBare,
}

impl Origin {
    /// The origin of a whole URL, and the URL as it was understood.
    ///
    /// # Errors
    ///
    /// [`OriginError`]: the URL cannot be sent to.
    pub(crate) fn of(text: &str) -> Result<(Origin, Url), OriginError> {
        if text.len() > MAX_URL {
            return Err(OriginError::TooLong);
        }
        // The URL standard strips some of them: what people read would not be what is sent.
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(OriginError::Unsafe);
        }
        let url = Url::parse(text).map_err(|error| OriginError::NotUrl(error.to_string()))?;
        let tls = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(OriginError::Scheme),
        };
        if !url.username().is_empty() || url.password().is_some() || text.contains('@') && has_userinfo(text) {
            return Err(OriginError::Userinfo);
        }
        let host = match url.host() {
            Some(Host::Domain(name)) if name.ends_with('.') => return Err(OriginError::Host),
            Some(Host::Domain(name)) => OriginHost::Name(name.to_owned()),
            Some(Host::Ipv4(address)) => OriginHost::Address(address.into()),
            Some(Host::Ipv6(address)) => OriginHost::Address(address.into()),
            None => return Err(OriginError::Host),
        };
        let port = url.port_or_known_default().filter(|port| *port != 0).ok_or(OriginError::Host)?;
        Ok((Origin { tls, host, port }, url))
    }

    /// Whether requests to it are encrypted.
    pub fn is_https(&self) -> bool {
        self.tls
    }

    /// The address, where it names one instead of a host.
    pub fn address(&self) -> Option<IpAddr> {
        match self.host {
            OriginHost::Address(address) => Some(address),
            OriginHost::Name(_) => None,
        }
    }

    /// The host as a name server or a certificate knows it.
    pub(crate) fn host(&self) -> String {
        match &self.host {
            OriginHost::Name(name) => name.clone(),
            OriginHost::Address(address) => address.to_string(),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// What stands in the `host` header: without the port where it is the scheme's own.
    pub(crate) fn authority(&self) -> String {
        let host = match &self.host {
            OriginHost::Address(IpAddr::V6(address)) => format!("[{address}]"),
            _ => self.host(),
        };
        if self.port == default_port(self.tls) { host } else { format!("{host}:{}", self.port) }
    }
}

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Origin, OriginError> {
        let (origin, url) = Origin::of(text)?;
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(OriginError::NotBare);
        }
        Ok(origin)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.authority())
    }
}

fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

/// An empty user (`https://@host`) leaves no trace in the parsed URL.
fn has_userinfo(text: &str) -> bool {
    let after = text.split_once(':').map_or(text, |(_, after)| after).trim_start_matches(['/', '\\']);
    after.split(['/', '\\', '?', '#']).next().is_some_and(|authority| authority.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(text: &str) -> String {
        match text.parse::<Origin>() {
            Ok(origin) => origin.to_string(),
            Err(error) => panic!("{text}: {error}"),
        }
    }

    #[test]
    fn two_ways_to_write_an_origin_are_the_same() {
        for (written, expected) in [
            ("https://API.Example.com", "https://api.example.com"),
            ("https://api.example.com:443/", "https://api.example.com"),
            ("HTTP://example.com:80", "http://example.com"),
            ("http:\\\\example.com", "http://example.com"),
            ("https://example.com:0443", "https://example.com"),
            ("https://b\u{fc}cher.example", "https://xn--bcher-kva.example"),
            ("https://ex%61mple.com", "https://example.com"),
            ("https://e\u{ff58}ample.com", "https://example.com"),
            ("https://exam\u{ad}ple.com", "https://example.com"),
        ] {
            assert_eq!(normal(written), expected, "{written}");
        }
    }

    #[test]
    fn every_form_of_an_address_is_that_address() {
        for loopback in [
            "http://127.0.0.1",
            "http://127.1",
            "http://127.0.1",
            "http://2130706433",
            "http://0x7f000001",
            "http://0x7f.0.0.1",
            "http://0177.0.0.1",
            "http://017700000001",
            "http://127.0.0.1.",
            "http://1%327.0.0.1",
            "http://\u{ff11}27.0.0.1",
            "http://127\u{3002}0\u{3002}0\u{3002}1",
            "http://\u{2460}27.0.0.1",
        ] {
            assert_eq!(normal(loopback), "http://127.0.0.1", "{loopback}");
        }
        for (written, expected) in [
            ("http://[0:0:0:0:0:0:0:1]", "http://[::1]"),
            ("http://[::ffff:169.254.169.254]", "http://[::ffff:169.254.169.254]"),
            ("http://[::FFFF:A9FE:A9FE]:8080", "http://[::ffff:169.254.169.254]:8080"),
        ] {
            assert_eq!(normal(written), expected, "{written}");
            assert!(written.parse::<Origin>().is_ok_and(|origin| origin.address().is_some()));
        }
    }

    #[test]
    fn what_parsers_disagree_about_is_refused() {
        for (written, expected) in [
            ("https://user@example.com", OriginError::Userinfo),
            ("https://user:secret@example.com", OriginError::Userinfo),
            ("https://@example.com", OriginError::Userinfo),
            ("https://example.com:x@evil.example", OriginError::Userinfo),
            ("https://example.com.", OriginError::Host),
            ("https://example.com:0", OriginError::Host),
            ("https://exa mple.com", OriginError::Unsafe),
            ("https://exam\nple.com", OriginError::Unsafe),
            ("https://example.com\t", OriginError::Unsafe),
            ("ftp://example.com", OriginError::Scheme),
            ("file:///etc/passwd", OriginError::Scheme),
            ("https://example.com/path", OriginError::NotBare),
            ("https://example.com?q", OriginError::NotBare),
            ("https://example.com#f", OriginError::NotBare),
        ] {
            assert_eq!(written.parse::<Origin>(), Err(expected), "{written}");
        }
        for written in [
            "",
            "example.com",
            "https://",
            "http://[fe80::1%25eth0]",
            "http://[fe80::1%eth0]",
            "http://256.0.0.1",
            "http://1.2.3.4.5",
            "http://0x100000000",
            "http://127.0.0.1:99999",
            "http://[::1",
            "http://a..b:x",
            "http://exam<ple.com",
            "http://0x7f.0.0.0.1",
            "http://09.0.0.1",
        ] {
            assert!(
                matches!(written.parse::<Origin>(), Err(OriginError::NotUrl(_))),
                "{written}: {:?}",
                written.parse::<Origin>()
            );
        }
        assert_eq!(format!("https://{}.com", "a".repeat(MAX_URL)).parse::<Origin>(), Err(OriginError::TooLong));
    }
}
