//! What an error says about what has happened, and what to do about it.

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// What an error of the crate says about what has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The connection broke: what was sent may have been done.
    Connection,
    /// The server follows another one now, or does not know what it knows. Nothing was done; another may help.
    Demoted,
    /// The server is starting. Nothing was done.
    Loading,
    /// The server can do nothing at the moment: out of memory, no disk, busy, too few replicas. Nothing was done.
    NotNow,
    /// The server wants a password.
    NoPassword,
    /// The server does not take this password.
    WrongPassword,
    /// The user may not do this.
    NotPermitted,
    /// The script or what it found is wrong.
    Script,
}

impl Trouble {
    pub(super) fn of(error: &RedisError) -> Trouble {
        use ServerErrorKind as S;
        match error.kind() {
            ErrorKind::Server(S::ReadOnly | S::MasterDown | S::ClusterDown | S::Moved | S::Ask) => Trouble::Demoted,
            ErrorKind::Server(S::BusyLoading) => Trouble::Loading,
            ErrorKind::Server(S::NoScript | S::TryAgain) => Trouble::NotNow,
            ErrorKind::Server(S::NoPerm) => Trouble::NotPermitted,
            ErrorKind::AuthenticationFailed => by_code("WRONGPASS", error.detail().unwrap_or_default()),
            ErrorKind::Client | ErrorKind::InvalidClientConfig | ErrorKind::ClusterConnectionNotFound => {
                Trouble::NotNow
            }
            ErrorKind::Server(_) | ErrorKind::Extension => {
                by_code(error.code().unwrap_or_default(), error.detail().unwrap_or_default())
            }
            ErrorKind::UnexpectedReturnType | ErrorKind::RESP3NotSupported => Trouble::Script,
            _ => Trouble::Connection,
        }
    }

    /// Whether the effect may have happened. Rights that are taken away may stop a script half-way.
    pub(super) fn may_have_happened(self) -> bool {
        matches!(self, Trouble::Connection | Trouble::NotPermitted)
    }

    /// Whether sending the same again may help, once something else has changed.
    pub(super) fn passes(self) -> bool {
        self != Trouble::Script
    }

    /// Whether the connection is of no further use.
    pub(super) fn needs_another_connection(self) -> bool {
        matches!(self, Trouble::Connection | Trouble::Demoted | Trouble::Loading)
            || matches!(self, Trouble::NoPassword | Trouble::WrongPassword)
    }
}

/// What the server's word for an error means. Before version 7 an error inside a script comes as ERR, and the word
/// stands in the text.
fn by_code(code: &str, detail: &str) -> Trouble {
    match code {
        "OOM" | "MISCONF" | "NOREPLICAS" | "BUSY" => Trouble::NotNow,
        "READONLY" | "MASTERDOWN" | "CLUSTERDOWN" => Trouble::Demoted,
        "LOADING" => Trouble::Loading,
        "NOAUTH" => Trouble::NoPassword,
        "WRONGPASS" if detail.contains("NOAUTH") => Trouble::NoPassword,
        "WRONGPASS" => Trouble::WrongPassword,
        "NOPERM" => Trouble::NotPermitted,
        // So say Redis 7.0 and Valkey 8.
        "ERR" if detail.contains("The user executing the script can't") => Trouble::NotPermitted,
        "ERR" if detail.contains("ACL failure in script") => Trouble::NotPermitted,
        "ERR" if detail.contains("running script") => {
            let word = detail.rsplit(": -").next().and_then(|rest| rest.split(' ').next()).unwrap_or_default();
            if word == "ERR" { Trouble::Script } else { by_code(word, "") }
        }
        _ => Trouble::Script,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(line: &str) -> Trouble {
        let value = redis::parse_redis_value(line.as_bytes()).expect("an answer");
        Trouble::of(&value.extract_error().expect_err("an error"))
    }

    #[test]
    fn a_refusal_of_the_server_says_that_nothing_was_done() {
        for line in [
            "-OOM command not allowed when used memory > 'maxmemory'. script: 1, on @user_script:1.\r\n",
            "-ERR Error running script (call to f_1): @user_script:9: @user_script: 9: -OOM command not allowed\r\n",
            "-MISCONF Redis is configured to save RDB snapshots, but\r\n",
            "-NOREPLICAS Not enough good replicas to write.\r\n",
            "-BUSY Redis is busy running a script.\r\n",
            "-NOSCRIPT No matching script.\r\n",
        ] {
            assert_eq!(trouble(line), Trouble::NotNow, "{line}");
        }
        assert_eq!(trouble("-LOADING Redis is loading the dataset in memory\r\n"), Trouble::Loading);
        for line in [
            "-READONLY You can't write against a read only replica.\r\n",
            "-ERR Error running script (call to f_1): @user_script:9: @user_script: 9: -READONLY You can't write\r\n",
            "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n",
        ] {
            assert_eq!(trouble(line), Trouble::Demoted, "{line}");
        }
    }

    #[test]
    fn a_script_that_fails_is_not_sent_again() {
        for line in [
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
            "-ERR Error running script (call to f_1): @user_script:9: attempt to index a nil value\r\n",
            "-ERR unknown command 'EVALSHA'\r\n",
        ] {
            assert_eq!(trouble(line), Trouble::Script, "{line}");
            assert!(!trouble(line).passes());
        }
        assert_eq!(trouble("-NOAUTH Authentication required.\r\n"), Trouble::NoPassword);
        for line in [
            "-NOPERM this user has no permissions\r\n",
            "-ERR ACL failure in script: User lim has no permissions to run the 'hset' command\r\n",
            "-ERR The user executing the script can't run this command or subcommand script: f, on @user_script:1.\r\n",
        ] {
            assert_eq!(trouble(line), Trouble::NotPermitted, "{line}");
        }
    }
}
