//! What can go wrong with a PostgreSQL server, in words for the person who reads them at night.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgDatabaseError, PgSeverity};

use crate::error::StoreError;

/// Why a store on PostgreSQL could not be opened. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The URL is not one of PostgreSQL.
    #[error("{url} is not a PostgreSQL URL: {reason}; write postgres://USER:PASSWORD@HOST:PORT/DATABASE")]
    Url {
        /// The URL, without its password.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The namespace cannot be kept.
    #[error("the namespace {namespace:?} cannot be used: {reason}")]
    Namespace {
        /// What was given.
        namespace: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Nothing answers there.
    #[error(
        "{server} cannot be reached; see whether the server runs there, and whether host, port and sslmode are right"
    )]
    Unreachable {
        /// The server, without the password.
        server: String,
        /// What the network said.
        #[source]
        source: sqlx::Error,
    },
    /// It accepted the connection and said nothing.
    #[error("{server} did not answer within {} s; see whether a PostgreSQL server listens there, and its load", after.as_secs_f64())]
    Silent {
        /// The server, without the password.
        server: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// User or password are wrong.
    #[error("{server} does not let this user in; see user and password in the URL, and pg_hba.conf on the server")]
    Login {
        /// The server, without the password.
        server: String,
        /// What it said.
        #[source]
        source: sqlx::Error,
    },
    /// There is no such database.
    #[error("{server} has no such database; create it (CREATE DATABASE …), or name another one in the URL")]
    NoDatabase {
        /// The server, without the password.
        server: String,
        /// What it said.
        #[source]
        source: sqlx::Error,
    },
    /// The user may not do what the store needs.
    #[error(
        "the user of {server} lacks rights; GRANT CREATE ON DATABASE … TO the user, or, where the schema leasehold \
         exists, let the user own it"
    )]
    NoRights {
        /// The server, without the password.
        server: String,
        /// What it said.
        #[source]
        source: sqlx::Error,
    },
    /// It is a standby, or set to read only.
    #[error("{server} only reads: {reason}; name the primary server in the URL")]
    ReadOnly {
        /// The server, without the password.
        server: String,
        /// How that was seen.
        reason: &'static str,
    },
    /// Its disk is full.
    #[error("the disk of {server} is full; free some space")]
    DiskFull {
        /// The server, without the password.
        server: String,
        /// What it said.
        #[source]
        source: sqlx::Error,
    },
    /// It has no connection left.
    #[error(
        "{server} takes no more connections; raise max_connections, or let a pooler share them (a host opens up to {needed})"
    )]
    Full {
        /// The server, without the password.
        server: String,
        /// Connections that one host opens at most.
        needed: usize,
        /// What it said.
        #[source]
        source: sqlx::Error,
    },
    /// It is too old.
    #[error("{server} is version {found}; Leasehold needs PostgreSQL 13 or later")]
    TooOld {
        /// The server, without the password.
        server: String,
        /// Its version.
        found: String,
    },
    /// A pooler shares server connections between clients, and the URL does not say so.
    #[error("{server} is a pooler; add ?pooler=transaction to the URL, or name the server itself")]
    Pooler {
        /// The server, without the password.
        server: String,
    },
    /// A newer Leasehold has brought the database to a schema that this one does not know.
    #[error("{server} is at schema {found}, and this version knows {known}; update this host")]
    NewerSchema {
        /// The server, without the password.
        server: String,
        /// The schema found.
        found: i32,
        /// The newest schema this version knows.
        known: i32,
    },
    /// The schema could not be made or brought up to date.
    #[error("the tables of {server} could not be prepared; nothing was changed")]
    Schema {
        /// The server, without the password.
        server: String,
        /// What the server said.
        #[source]
        source: sqlx::Error,
    },
    /// The server refused for another reason.
    #[error("{server} refused the connection or a first look")]
    Refused {
        /// The server, without the password.
        server: String,
        /// What it said.
        #[source]
        source: sqlx::Error,
    },
    /// The table that says which schema this is has lost its row.
    #[error(
        "the table leasehold.schema_version of {server} is empty, so nobody knows what its other tables are; put it back \
         (INSERT INTO leasehold.schema_version VALUES ({known}), if this version of Leasehold made them), or DROP SCHEMA \
         leasehold CASCADE to begin anew"
    )]
    NoVersion {
        /// The server, without the password.
        server: String,
        /// The schema of this version.
        known: i32,
    },
    /// The operating system gave no random bits for the store's identity.
    #[error("no random bits for the identity of a new store")]
    Random(#[source] getrandom::Error),
    /// The operating system gave no thread for the connections of heartbeats.
    #[error("cannot start the thread for heartbeats")]
    Thread(#[source] std::io::Error),
    /// The store was opened and its identity could not be read.
    #[error("the identity of the store at {server} cannot be read")]
    Identity {
        /// The server, without the password.
        server: String,
        /// Why.
        #[source]
        source: StoreError,
    },
}

impl ConnectError {
    /// What a server's refusal means while connecting and looking around.
    pub(super) fn from_server(server: &str, source: sqlx::Error) -> ConnectError {
        let server = server.to_owned();
        if super::connect::unsupported_parameter(&source) {
            return ConnectError::Pooler { server };
        }
        let code = code(&source).unwrap_or_default().to_owned();
        match code.as_str() {
            "28P01" | "28000" => ConnectError::Login { server, source },
            "3D000" => ConnectError::NoDatabase { server, source },
            "42501" => ConnectError::NoRights { server, source },
            "53100" => ConnectError::DiskFull { server, source },
            "53300" => ConnectError::Full { server, needed: super::CONNECTIONS, source },
            "25006" => ConnectError::ReadOnly { server, reason: "it refuses to write" },
            "26000" | "42P05" => ConnectError::Pooler { server },
            "" if matches!(source, sqlx::Error::Io(_) | sqlx::Error::Tls(_)) => {
                ConnectError::Unreachable { server, source }
            }
            _ => ConnectError::Refused { server, source },
        }
    }
}

/// A call that a server did not carry out, or not in time.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    /// There is no connection.
    #[error("there is no connection to {server}")]
    NotConnected {
        /// The server, without the password.
        server: String,
        /// Why.
        #[source]
        source: ConnectError,
    },
    /// All connections were busy for as long as the call may take.
    #[error("all connections to {server} were busy; it is slow or overloaded, see its load and its disk")]
    Busy {
        /// The server, without the password.
        server: String,
    },
    /// The answer did not come in time. The connection was given up.
    #[error("{server} did not answer in time; see its load, its disk and the network")]
    Late {
        /// The server, without the password.
        server: String,
    },
    /// The connection broke while the answer was waited for.
    #[error("the connection to {server} broke")]
    Lost {
        /// The server, without the password.
        server: String,
        /// How.
        #[source]
        source: sqlx::Error,
    },
    /// The server refused the statement, and nothing of it was done.
    #[error("{server} refused (SQLSTATE {code}){}", advice(code))]
    Refused {
        /// The server, without the password.
        server: String,
        /// Five letters and digits that tell the kind of the error.
        code: String,
        /// What it said.
        #[source]
        source: sqlx::Error,
    },
    /// The schema was changed under a running host.
    #[error("the tables of {server} belong to another version of Leasehold; update this host and restart it")]
    Outdated {
        /// The server, without the password.
        server: String,
        /// What it said.
        #[source]
        source: sqlx::Error,
    },
    /// A pooler shares server connections between clients, and the URL does not say so.
    #[error("{server} is a pooler; add ?pooler=transaction to the URL, or name the server itself")]
    Pooler {
        /// The server, without the password.
        server: String,
        /// What it said.
        #[source]
        source: sqlx::Error,
    },
    /// The tables were emptied, and another host has made up who the store is.
    #[error(
        "namespace {namespace:?} of {server} was emptied and made anew by another host, so the attempts of one run would \
         not share their idempotency keys; restart this host"
    )]
    Another {
        /// The server, without the password.
        server: String,
        /// The namespace.
        namespace: String,
    },
    /// An answer or a record that cannot be understood.
    #[error("what {server} keeps or answers cannot be read: {reason}")]
    Unreadable {
        /// The server, without the password.
        server: String,
        /// What and why.
        reason: String,
    },
    /// The task that serves this connection has ended.
    #[error("the task that serves {server} has ended with its runtime; restart this process")]
    Ended {
        /// The server, without the password.
        server: String,
    },
}

/// What to do about it, where that is known.
fn advice(code: &str) -> &'static str {
    match code {
        "40P01" | "40001" => "; it was repeated and met others each time: see what else works on these tables",
        "55P03" => "; another session holds the job's row: look in pg_locks for who does",
        "57014" => "; the statement took too long or was cancelled: see the server's load",
        "53100" => "; the disk is full: free some space",
        "53200" => "; the server has no memory left",
        "53300" => "; raise max_connections, or let a pooler share them",
        "25006" => "; the server only reads now: name the primary in the URL",
        "42501" => "; the user lacks rights on the schema leasehold",
        "3F000" | "42P01" | "42883" => {
            "; a table or function of the schema leasehold is gone: restore it, or DROP SCHEMA leasehold CASCADE and restart \
             the hosts, which make it anew"
        }
        _ => "",
    }
}

/// An error that may have to be told to many callers.
#[derive(Clone)]
pub(super) struct Shared(Arc<PostgresError>);

impl From<PostgresError> for Shared {
    fn from(error: PostgresError) -> Shared {
        Shared(Arc::new(error))
    }
}

impl Shared {
    /// See [`Fault::leaves_the_connection`].
    fn spoils_the_connection(&self) -> bool {
        match &*self.0 {
            PostgresError::Refused { code, .. } => code == "25006",
            PostgresError::Pooler { .. } => true,
            _ => false,
        }
    }

    /// See [`Fault::concerns_all`].
    fn concerns_all(&self) -> bool {
        match &*self.0 {
            PostgresError::Refused { code, .. } => {
                matches!(code.as_str(), "25006" | "42501" | "3F000" | "42P01" | "42883") || code.starts_with("53")
            }
            PostgresError::Pooler { .. } | PostgresError::Outdated { .. } => true,
            _ => false,
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Shared {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// What became of a call that failed.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// It was never sent.
    NotSent(Shared),
    /// It was sent, and nobody knows.
    Unknown(Shared),
    /// The server rolled it back: another session was in the way, and a repetition may succeed at once.
    Conflict(Shared),
    /// The server rolled it back: another session holds a job's row for long.
    Locked(Shared),
    /// The server rolled it back, and may be able to do it later.
    Hindered(Shared),
    /// The server rolled it back, and will again.
    Rejected(Shared),
}

impl Fault {
    /// Of an error while an answer was waited for.
    pub(super) fn of_call(server: &str, source: sqlx::Error) -> Fault {
        let server = server.to_owned();
        let Some(database) = database_error(&source) else {
            return match source {
                sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => {
                    Fault::Unknown(PostgresError::Lost { server, source }.into())
                }
                // It may have been done; that its answer is not understood is for certain.
                other => Fault::Unknown(PostgresError::Unreadable { server, reason: other.to_string() }.into()),
            };
        };
        let code = database.code().to_owned();
        // A session that is ended may have committed: only an error of the statement itself says that it was undone.
        // An error of a connection does not: so a pooler says that it lost the server after it had passed the call on.
        if !matches!(database.severity(), PgSeverity::Error) || code.starts_with("08") {
            return Fault::Unknown(PostgresError::Lost { server, source }.into());
        }
        match code.as_str() {
            "LH001" => Fault::Rejected(PostgresError::Outdated { server, source }.into()),
            "26000" | "42P05" => Fault::Hindered(PostgresError::Pooler { server, source }.into()),
            "40P01" | "40001" => Fault::Conflict(refused(server, code, source)),
            "55P03" => Fault::Locked(refused(server, code, source)),
            // A value that is not what it should be, a constraint that does not hold: the record is damaged and stays so.
            _ if ["22", "23", "P0"].iter().any(|class| code.starts_with(class)) => {
                Fault::Rejected(refused(server, code, source))
            }
            // Rights, room, a setting, the schema: an operator can put it right, and then what was refused is still
            // worth doing. A finish that was thrown away instead would let the run start again.
            _ => Fault::Hindered(refused(server, code, source)),
        }
    }

    /// Whether the connection is as good as before: the server has rolled back and waits for the next call. One that
    /// only reads now is a server to leave, and so is a pooler.
    pub(super) fn leaves_the_connection(&self) -> bool {
        match self {
            Fault::NotSent(_) | Fault::Unknown(_) => false,
            Fault::Conflict(_) | Fault::Locked(_) => true,
            Fault::Hindered(error) | Fault::Rejected(error) => !error.spoils_the_connection(),
        }
    }

    /// Whether any other call would have met the same: it is the connection's, the server's or the schema's, and not
    /// one job's. Where it is not, calls that were made together are made again one by one (S14).
    pub(super) fn concerns_all(&self) -> bool {
        match self {
            Fault::NotSent(_) | Fault::Unknown(_) => true,
            Fault::Conflict(_) | Fault::Locked(_) => false,
            Fault::Hindered(error) | Fault::Rejected(error) => error.concerns_all(),
        }
    }

    /// What the caller is told.
    pub(super) fn told(self, doing: &'static str) -> StoreError {
        match self {
            Fault::Unknown(error) => StoreError::Unknown { doing, source: Box::new(error) },
            Fault::Rejected(error) => StoreError::Rejected { doing, source: Box::new(error) },
            Fault::NotSent(error) | Fault::Conflict(error) | Fault::Locked(error) | Fault::Hindered(error) => {
                StoreError::NotSent { doing, source: Box::new(error) }
            }
        }
    }
}

fn refused(server: String, code: String, source: sqlx::Error) -> Shared {
    PostgresError::Refused { server, code, source }.into()
}

/// The server's own error in an error of the client.
pub(super) fn database_error(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    error.as_database_error()?.try_downcast_ref::<PgDatabaseError>()
}

/// The SQLSTATE of an error, if the server gave one.
pub(super) fn code(error: &sqlx::Error) -> Option<&str> {
    database_error(error).map(PgDatabaseError::code)
}
