//! What can go wrong with a server, in words for the person who has to mend it.

use std::sync::Arc;

use redis::RedisError;

use super::trouble::Trouble;
use crate::error::StoreError;

/// A server that cannot be used as a store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ConnectError {
    /// The URL is not one of a Redis or Valkey server.
    #[error(
        "{server} is not the URL of a Redis or Valkey server: {reason}; write \
         redis://[user:password@]host[:port][/db][?wait=N], or rediss:// for TLS"
    )]
    Url {
        /// The URL without its secrets.
        server: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The namespace is not a name.
    #[error("{namespace:?} is not a namespace; use 1 to 64 of a-z 0-9 . _ - and begin with a letter or digit")]
    Namespace {
        /// What was given.
        namespace: String,
    },
    /// No connection could be made.
    #[error("cannot connect to {server}; is the server running there, and do host, port and TLS fit")]
    Unreachable {
        /// The URL without its secrets.
        server: String,
        /// Why.
        #[source]
        source: RedisError,
    },
    /// A connection was made, or not even that, and no answer came.
    #[error(
        "{server} did not answer within {limit_ms} ms; the server is frozen or overloaded, or something else listens \
         there, or a firewall swallows what is sent"
    )]
    Silent {
        /// The URL without its secrets.
        server: String,
        /// How long was waited.
        limit_ms: u128,
    },
    /// User and password do not fit.
    #[error("{server} does not know user {user:?} with this password; correct user and password in the URL")]
    WrongPassword {
        /// The URL without its secrets.
        server: String,
        /// The user.
        user: String,
        /// What the server said.
        #[source]
        source: RedisError,
    },
    /// The server wants a password and the URL has none.
    #[error("{server} wants a password, and the URL has none; write redis://user:password@host")]
    NoPassword {
        /// The URL without its secrets.
        server: String,
    },
    /// The user may not do what a store needs.
    #[error(
        "user {user:?} of {server} may not do what the store needs; allow it: ACL SETUSER {user} on ~leasehold:* \
         &leasehold:* +@all -@dangerous +info"
    )]
    NotPermitted {
        /// The URL without its secrets.
        server: String,
        /// The user.
        user: String,
        /// What the server said.
        #[source]
        source: RedisError,
    },
    /// The server is too old.
    #[error("{server} runs version {version}, and the store needs Redis 6.2 or later, or Valkey")]
    TooOld {
        /// The URL without its secrets.
        server: String,
        /// What it runs.
        version: String,
    },
    /// The server only follows another one.
    #[error("{server} is a replica{} and takes no writes; name the primary in the URL", of(.primary))]
    Replica {
        /// The URL without its secrets.
        server: String,
        /// The one it follows, where it says so.
        primary: Option<String>,
    },
    /// The server may delete what the store keeps.
    #[error(
        "{server} may delete runs when its memory is full (maxmemory-policy {policy}), and a deleted run runs again; \
         set maxmemory-policy noeviction"
    )]
    Evicts {
        /// The URL without its secrets.
        server: String,
        /// Its policy.
        policy: String,
    },
    /// The records were written by a newer version.
    #[error(
        "namespace {namespace:?} of {server} has layout {found}, and this version of Leasehold knows layouts up to \
         {known}; nothing was changed; run a newer Leasehold, or use another namespace"
    )]
    Newer {
        /// The URL without its secrets.
        server: String,
        /// The namespace.
        namespace: String,
        /// What was found.
        found: u64,
        /// The newest layout that this version knows.
        known: u64,
    },
    /// The namespace was emptied, and a host that started since has made a new one of it.
    #[error(
        "namespace {namespace:?} of {server} was emptied and made anew by another host, so the attempts of one run would \
         not share their idempotency keys; restart this host"
    )]
    Another {
        /// The URL without its secrets.
        server: String,
        /// The namespace.
        namespace: String,
    },
    /// WAIT goes to one server, and a cluster has several.
    #[error(
        "{server} is part of a cluster, where ?wait is not offered; remove it, and set min-replicas-to-write on the \
         servers instead"
    )]
    WaitInCluster {
        /// The URL without its secrets.
        server: String,
    },
    /// The server is starting.
    #[error("{server} is loading its data; it will be used when it is ready")]
    Loading {
        /// The URL without its secrets.
        server: String,
    },
    /// The server was starting all the time that a start may take.
    #[error("{server} was still loading its data after {limit_ms} ms; start this host again when it is ready")]
    StillLoading {
        /// The URL without its secrets.
        server: String,
        /// How long was waited.
        limit_ms: u128,
    },
    /// The server has refused for another reason.
    #[error("{server} refused the store's first questions")]
    Refused {
        /// The URL without its secrets.
        server: String,
        /// What it said.
        #[source]
        source: RedisError,
    },
    /// What the server keeps is not what the store wrote.
    #[error("the record of namespace {namespace:?} of {server} cannot be read: {reason}; use another namespace")]
    Foreign {
        /// The URL without its secrets.
        server: String,
        /// The namespace.
        namespace: String,
        /// What is wrong.
        reason: String,
    },
    /// The operating system gave no random bits.
    #[error("cannot draw random numbers")]
    Random(#[source] Arc<getrandom::Error>),
    /// The operating system gave no thread for the connection of heartbeats.
    #[error("cannot start the thread for heartbeats")]
    Thread(#[source] Arc<std::io::Error>),
}

fn of(primary: &Option<String>) -> String {
    primary.as_ref().map_or_else(String::new, |primary| format!(" of {primary}"))
}

impl ConnectError {
    /// What an error of the crate means while a connection is made.
    pub(super) fn from_redis(server: &str, user: &str, source: RedisError) -> ConnectError {
        let (server, user) = (server.to_owned(), user.to_owned());
        match Trouble::of(&source) {
            Trouble::NoPassword => ConnectError::NoPassword { server },
            Trouble::WrongPassword => ConnectError::WrongPassword { server, user, source },
            Trouble::NotPermitted => ConnectError::NotPermitted { server, user, source },
            Trouble::Demoted => ConnectError::Replica { server, primary: None },
            Trouble::Loading => ConnectError::Loading { server },
            Trouble::Connection => ConnectError::Unreachable { server, source },
            Trouble::NotNow | Trouble::Script => ConnectError::Refused { server, source },
        }
    }
}

/// Why a call on a connection was not answered.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    /// There is no connection.
    #[error("there is no connection to the server")]
    Down(#[source] Arc<ConnectError>),
    /// No connection could be made in time.
    #[error("no connection to {server} was made within {limit_ms} ms")]
    NoConnection { server: String, limit_ms: u128 },
    /// The server did not answer in time.
    #[error("{server} did not answer within {limit_ms} ms; the connection is given up and made anew")]
    Silent { server: String, limit_ms: u128 },
    /// Reading took too long.
    #[error("{server} was not done with all of it within {limit_ms} ms; ask for less")]
    Unread { server: String, limit_ms: u128 },
    /// The connection ended before the answer, or the server refused.
    #[error("{server} did not do it")]
    Redis {
        server: String,
        #[source]
        source: RedisError,
    },
    /// Too few replicas have the change.
    #[error(
        "{server} did it, and {acknowledged} of the {wanted} replicas that ?wait asks for have said that they know"
    )]
    TooFewReplicas { server: String, acknowledged: i64, wanted: u32 },
}

impl CallError {
    pub(super) fn not_sent(self, doing: &'static str) -> StoreError {
        StoreError::NotSent { doing, source: Box::new(self) }
    }

    pub(super) fn unknown(self, doing: &'static str) -> StoreError {
        StoreError::Unknown { doing, source: Box::new(self) }
    }
}

/// The same error for another item of a batch.
pub(super) fn another(error: &Arc<StoreError>) -> StoreError {
    let source = Box::new(Shared(error.clone()));
    match **error {
        StoreError::NotSent { doing, .. } => StoreError::NotSent { doing, source },
        StoreError::Unknown { doing, .. } => StoreError::Unknown { doing, source },
        StoreError::Rejected { doing, .. } => StoreError::Rejected { doing, source },
    }
}

/// The cause of an error that several items have.
#[derive(Debug)]
struct Shared(Arc<StoreError>);

impl Shared {
    fn cause(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        let (StoreError::NotSent { source, .. }
        | StoreError::Unknown { source, .. }
        | StoreError::Rejected { source, .. }) = &*self.0;
        &**source
    }
}

impl std::fmt::Display for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.cause())
    }
}

impl std::error::Error for Shared {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause().source()
    }
}
