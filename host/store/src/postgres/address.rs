//! Where the server is, and how it is spoken to.

use std::str::FromStr;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

use super::error::ConnectError;
use crate::view::CALL_LIMIT;

/// How long a session may sit inside an open transaction. Only the migration of the schema opens one.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(10);

/// How calls travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    /// A prepared statement of the session, its argument bound.
    Prepared,
    /// One simple query, its argument in hexadecimal: nothing of the session outlives it.
    Simple,
}

/// A server's address. (Without Debug, which would show the password.)
#[derive(Clone)]
pub(super) struct Address {
    /// For connecting.
    pub(super) options: PgConnectOptions,
    /// For people: without the password.
    pub(super) shown: String,
    /// How calls travel.
    pub(super) transport: Transport,
}

impl Address {
    /// Reads a URL. `pooler=transaction` among its parameters is ours, the others are the client's.
    pub(super) fn parse(url: &str) -> Result<Address, ConnectError> {
        let shown = masked(url);
        let refuse = |reason: String| ConnectError::Url { url: shown.clone(), reason };
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(refuse("it does not begin with postgres:// or postgresql://".into()));
        }
        let (plain, pooler) = split_pooler(url);
        let transport = match pooler.as_deref() {
            None => Transport::Prepared,
            Some("transaction") => Transport::Simple,
            Some(other) => return Err(refuse(format!("pooler can be \"transaction\" only, not {other:?}"))),
        };
        // The client would pass over what it does not know, and write the value into the log.
        if let Some(unknown) = parameters(&plain).find(|name| !is_known(name)) {
            let is_word = unknown.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte == b'-');
            let unknown = if is_word { unknown } else { "(not shown: it may be a part of a password)" };
            let escapes = "in a password write ? as %3F, / as %2F and # as %23";
            return Err(refuse(format!("it has the option {unknown}, which is not known; {escapes}")));
        }
        let options = PgConnectOptions::from_str(&plain).map_err(|error| refuse(error.to_string()))?;
        let options = options.application_name("leasehold").disable_statement_logging();
        // A pooler refuses session settings that it does not know.
        let options = match transport {
            Transport::Prepared => options.options(settings()),
            Transport::Simple => options.extra_float_digits(None).statement_cache_capacity(0),
        };
        Ok(Address { options, shown, transport })
    }
}

/// The names of a URL's parameters.
fn parameters(url: &str) -> impl Iterator<Item = &str> {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split('=').next().unwrap_or_default())
}

/// Whether the client knows a parameter of this name.
fn is_known(name: &str) -> bool {
    const KNOWN: [&str; 18] = [
        "sslmode",
        "ssl-mode",
        "sslrootcert",
        "ssl-root-cert",
        "ssl-ca",
        "sslcert",
        "ssl-cert",
        "sslkey",
        "ssl-key",
        "statement-cache-capacity",
        "host",
        "hostaddr",
        "port",
        "dbname",
        "user",
        "password",
        "application_name",
        "options",
    ];
    KNOWN.contains(&name) || name.starts_with("options[")
}

/// What a session is set to: no call outlives its caller by much, and a peer that is gone is noticed.
fn settings() -> [(&'static str, String); 15] {
    let ms = |duration: Duration| duration.as_millis().to_string();
    [
        // On an old server everyone may create functions in the schema public: ours use none but the server's own.
        ("search_path", "pg_catalog".into()),
        // Statements are planned when the tables may be empty or their statistics old, and the plans are kept. Each has
        // an index made for it, which is to be used whatever the planner believes. (See also call.rs.)
        ("enable_seqscan", "off".into()),
        ("enable_bitmapscan", "off".into()),
        ("enable_hashjoin", "off".into()),
        ("enable_mergejoin", "off".into()),
        ("jit", "off".into()),
        // Left alone, the server plans each statement anew for its first five calls: half of a hand-over was planning.
        ("plan_cache_mode", "force_generic_plan".into()),
        // The functions lock a job and then read it: that must be the newest, whatever the database's default is.
        ("default_transaction_isolation", "read committed".into()),
        ("statement_timeout", ms(CALL_LIMIT)),
        ("lock_timeout", ms(CALL_LIMIT)),
        ("idle_in_transaction_session_timeout", ms(IDLE_IN_TRANSACTION)),
        ("tcp_keepalives_idle", "10".into()),
        ("tcp_keepalives_interval", "5".into()),
        ("tcp_keepalives_count", "3".into()),
        ("tcp_user_timeout", "20000".into()),
    ]
}

/// Takes our own parameter out of a URL.
fn split_pooler(url: &str) -> (String, Option<String>) {
    let Some((base, query)) = url.split_once('?') else { return (url.to_owned(), None) };
    let mut pooler = None;
    let mut kept: Vec<&str> = Vec::new();
    for parameter in query.split('&') {
        match parameter.strip_prefix("pooler=") {
            Some(value) => pooler = Some(value.to_owned()),
            None => kept.push(parameter),
        }
    }
    let query = kept.join("&");
    (if query.is_empty() { base.to_owned() } else { [base, &query].join("?") }, pooler)
}

/// The URL as people may see it: what stands between the user's name and the host is a password, and so may be any
/// parameter. Where a `?` stands before an `@`, it cannot be told which is which; nor where a `:` is followed by
/// something that is no port, as when somebody has left out the `@` and the host.
fn masked(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "***".into() };
    let hidden = [scheme, "://***"].concat();
    let Some((user, host)) = rest.rsplit_once('@') else {
        let host = rest.split('?').next().unwrap_or_default();
        return if ends_in_a_port(host) { [scheme, "://", host].concat() } else { hidden };
    };
    if user.contains('?') {
        return hidden;
    }
    let host = host.split('?').next().unwrap_or_default();
    match user.split_once(':') {
        Some((user, _)) => [scheme, "://", user, ":***@", host].concat(),
        None => [scheme, "://", user, "@", host].concat(),
    }
}

/// Whether this is a host, with a port or without, and behind it a path without any colon.
fn ends_in_a_port(host: &str) -> bool {
    // An address of IP version 6 has colons of its own, in brackets.
    let behind = host.rsplit_once(']').map_or(host, |(_, behind)| behind);
    let Some((_, port)) = behind.split_once(':') else { return true };
    port.split('/').next().unwrap_or_default().parse::<u16>().is_ok() && !port.contains(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown_wherever_it_stands() {
        for url in [
            "postgres://u:p@s3cret:w@h:1/d",
            "postgres://u:s3cret@h/d?sslmode=disable",
            "postgres://h/d?password=s3cret",
            "postgres://h/d?password=x@s3cret",
            "postgres://u:a?s3cret@h/d",
            "postgres://u:s3cret",
            "postgres://u:1s3cret/d",
            "postgres://u:1/s3cret:h",
        ] {
            assert!(!masked(url).contains("s3cret"), "{}", masked(url));
        }
        assert_eq!(masked("postgres://u:s3cret@h:5/d?x=y"), "postgres://u:***@h:5/d");
        assert_eq!(masked("postgres://u@h/d"), "postgres://u@h/d");
        assert_eq!(masked("postgres://h/d"), "postgres://h/d");
        assert_eq!(masked("postgres://h:5/d?x=y"), "postgres://h:5/d");
        assert_eq!(masked("postgres://[::1]:5/d"), "postgres://[::1]:5/d");
        assert_eq!(masked("rubbish"), "***");
    }

    #[test]
    fn the_pooler_is_ours_and_the_rest_is_the_clients() {
        let (url, pooler) = split_pooler("postgres://h/d?sslmode=disable&pooler=transaction&host=x");
        assert_eq!((url.as_str(), pooler.as_deref()), ("postgres://h/d?sslmode=disable&host=x", Some("transaction")));
        assert_eq!(split_pooler("postgres://h/d?pooler=transaction").0, "postgres://h/d");
        for url in ["postgres://u:a?s3cret@h/d", "postgres://h/d?pasword=s3cret"] {
            let error = Address::parse(url).err().expect("it is refused").to_string();
            assert!(error.contains("not known") && !error.contains("s3cret"), "{error}");
        }
        let error = Address::parse("postgres://u:s3cret@h/d?pooler=session").err().expect("refused").to_string();
        assert!(error.contains("session") && !error.contains("s3cret"), "{error}");
    }
}
