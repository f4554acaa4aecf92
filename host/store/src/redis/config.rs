//! Where the server is and which part of it is ours: what a URL and a namespace say.

use std::time::Duration;

use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{ConnectionInfo, IntoConnectionInfo, ProtocolVersion};

use super::error::ConnectError;
use crate::address::{is_namespace, redacted};

/// Data that was sent and is not acknowledged by the other machine for this long means that the connection is gone.
const UNACKNOWLEDGED: Duration = Duration::from_secs(5);

/// A connection on which nothing is said is looked after in this rhythm.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// A server and the namespace in it.
#[derive(Clone)]
pub(super) struct Config {
    /// How the crate connects.
    pub(super) info: ConnectionInfo,
    /// The URL as it may be shown.
    pub(super) server: String,
    /// The part of the server that belongs to this cluster of hosts.
    pub(super) namespace: String,
    /// Replicas that must have a change before it counts as done; 0: none.
    pub(super) wait: u32,
}

impl Config {
    /// Reads `redis://[user:password@]host[:port][/db][?wait=N]`, or `rediss://` for TLS.
    pub(super) fn new(url: &str, namespace: &str) -> Result<Config, ConnectError> {
        let server = redacted(url);
        let (address, wait) = options(url, &server)?;
        // The crate's own message may repeat parts of the URL, so its reason is told in our words.
        let info = address.as_str().into_connection_info().map_err(|error| ConnectError::Url {
            server: server.clone(),
            reason: error.detail().map_or_else(|| "it cannot be read".to_owned(), ToOwned::to_owned),
        })?;
        // RESP3, because only there the crate says at once that a connection has ended.
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(UNACKNOWLEDGED);
        let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
        #[cfg(target_os = "linux")]
        let tcp = tcp.set_user_timeout(UNACKNOWLEDGED);
        let info = info.set_redis_settings(settings).set_tcp_settings(tcp);
        Ok(Config { info, server, namespace: checked(namespace)?, wait })
    }

    /// The user that the server knows us as.
    pub(super) fn user(&self) -> String {
        self.info.redis_settings().username().unwrap_or("default").to_owned()
    }
}

/// Splits off our own options, which the crate would not know.
fn options(url: &str, server: &str) -> Result<(String, u32), ConnectError> {
    let refused = |reason: String| ConnectError::Url { server: server.to_owned(), reason };
    let (scheme, _) = url.split_once("://").ok_or_else(|| refused("it has no scheme".to_owned()))?;
    if !matches!(scheme, "redis" | "rediss" | "valkey" | "valkeys") {
        return Err(refused(format!("its scheme is {scheme:?}")));
    }
    let Some((address, query)) = url.split_once('?') else { return Ok((url.to_owned(), 0)) };
    let mut wait = 0;
    for option in query.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("wait", number)) => {
                wait = number.parse().map_err(|_| refused("wait must be a number of replicas".to_owned()))?;
            }
            // It is not shown: behind a `?` that was meant for the password, it would be a part of that.
            _ => {
                let reason = "it has another option than wait, and others are not known; in a password write ? as %3F";
                return Err(refused(reason.to_owned()));
            }
        }
    }
    Ok((address.to_owned(), wait))
}

fn checked(namespace: &str) -> Result<String, ConnectError> {
    let refused = || ConnectError::Namespace { namespace: namespace.chars().take(80).collect() };
    is_namespace(namespace).then(|| namespace.to_owned()).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for url in [
            "redis://u:secret@h:x",
            "u:secret@h",
            "http://u:secret@h",
            "redis://:secret@h?secret=1",
            "redis://u:a?secret@h",
        ] {
            let error = Config::new(url, "prod").err().expect("a wrong URL is refused");
            let told = format!("{error} {error:?}");
            assert!(!told.contains("secret@"), "{told}");
        }
    }

    #[test]
    fn options_are_known_or_refused() {
        assert_eq!(Config::new("redis://h?wait=2", "prod").expect("a URL").wait, 2);
        for url in ["redis://h?wait=x", "redis://h?color=red", "h:6379", "postgres://h"] {
            assert!(Config::new(url, "prod").is_err(), "{url}");
        }
    }

    #[test]
    fn a_namespace_is_a_name() {
        assert!(Config::new("redis://h", "{a}").is_err());
        assert!(Config::new("redis://h", "prod-1").is_ok());
    }
}
