//! Where the record is kept.

use std::fmt;
use std::path::{Path, PathBuf};

use leasehold_store::{is_namespace, postgres, redacted, redis};

use super::reader::Wrong;

/// A store's address. Its text form hides passwords.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// An embedded SQLite database in this file: hosts of one machine share it.
    Sqlite(PathBuf),
    /// A PostgreSQL database.
    Postgres(ServerUrl),
    /// A Redis or Valkey server, or a cluster of them.
    Redis(ServerUrl),
    /// Kept in this process and gone with it.
    Memory,
}

/// The address of a server, and which part of it is ours.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl {
    /// As it was written: it may hold a password.
    pub url: String,
    /// Systems of different namespaces in one server know nothing of each other.
    pub namespace: String,
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in namespace {:?}", redacted(&self.url), self.namespace)
    }
}

/// The namespace where none is configured.
pub(super) const NAMESPACE: &str = "leasehold";

impl StoreUrl {
    /// Reads `sqlite://path` (relative paths start at `folder`), `postgres://…`, `redis://…`, `rediss://…`, `valkey://…`,
    /// `valkeys://…` or `memory:`.
    pub(super) fn read(text: &str, folder: &Path) -> Result<StoreUrl, Wrong> {
        if text == "memory:" {
            return Ok(StoreUrl::Memory);
        }
        let write = "write \"sqlite://path/to/leasehold.db\"";
        let Some((scheme, rest)) = text.split_once("://") else {
            let write = "write \"sqlite://path/to/leasehold.db\", or \"postgres://…\" or \"redis://…\" for a server";
            return Err(Wrong::new("it is not the address of a store").hint(write));
        };
        let server = || ServerUrl { url: text.to_owned(), namespace: NAMESPACE.to_owned() };
        match scheme {
            "sqlite" if rest.is_empty() => Err(Wrong::new("the path is missing").hint(write)),
            "sqlite" if rest.contains(['?', '#']) => {
                Err(Wrong::new("a SQLite address takes no options: nothing may follow the path").hint(write))
            }
            "sqlite" => Ok(StoreUrl::Sqlite(folder.join(rest))),
            "postgres" | "postgresql" | "redis" | "rediss" | "valkey" | "valkeys" if rest.is_empty() => {
                Err(Wrong::new("the server is missing").hint(format!("write \"{scheme}://user:password@host\"")))
            }
            "postgres" | "postgresql" => match postgres::check_address(text) {
                Ok(()) => Ok(StoreUrl::Postgres(server())),
                Err(postgres::ConnectError::Url { reason, .. }) => Err(Wrong::new(reason)),
                Err(other) => Err(Wrong::new(other.to_string())),
            },
            "redis" | "rediss" | "valkey" | "valkeys" => match redis::check_address(text) {
                Ok(()) => Ok(StoreUrl::Redis(server())),
                Err(redis::ConnectError::Url { reason, .. }) => Err(Wrong::new(reason)),
                Err(other) => Err(Wrong::new(other.to_string())),
            },
            _ => Err(Wrong::new("there is no store of that kind")
                .hint("write an address that begins with sqlite://, postgres://, redis:// or rediss://")),
        }
    }

    /// The same store in this namespace.
    pub(super) fn within(self, namespace: String) -> Result<StoreUrl, Wrong> {
        let within = |server: ServerUrl| ServerUrl { namespace: namespace.clone(), ..server };
        match self {
            StoreUrl::Postgres(server) => Ok(StoreUrl::Postgres(within(server))),
            StoreUrl::Redis(server) => Ok(StoreUrl::Redis(within(server))),
            StoreUrl::Sqlite(_) | StoreUrl::Memory => {
                Err(Wrong::new("only a database server has namespaces").hint("name another file in store.url"))
            }
        }
    }
}

/// Reads a namespace: `[a-z0-9][a-z0-9._-]{0,63}`.
pub(super) fn namespace(text: &str) -> Result<String, Wrong> {
    let hint = "use 1 to 64 of a-z 0-9 . _ - and begin with a letter or digit";
    if is_namespace(text) { Ok(text.to_owned()) } else { Err(Wrong::new("it is not a namespace").hint(hint)) }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreUrl::Sqlite(path) => write!(f, "sqlite://{}", path.display()),
            StoreUrl::Postgres(server) | StoreUrl::Redis(server) => f.write_str(&redacted(&server.url)),
            StoreUrl::Memory => f.write_str("memory:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlite_paths_are_relative_to_the_folder_or_absolute() {
        let read = |text| StoreUrl::read(text, Path::new("/etc/leasehold")).ok();
        assert_eq!(read("sqlite://a/b.db"), Some(StoreUrl::Sqlite("/etc/leasehold/a/b.db".into())));
        assert_eq!(read("sqlite:///var/b.db"), Some(StoreUrl::Sqlite("/var/b.db".into())));
        assert_eq!(read("memory:"), Some(StoreUrl::Memory));
        assert_eq!(StoreUrl::Sqlite("/var/b.db".into()).to_string(), "sqlite:///var/b.db");
    }

    #[test]
    fn other_addresses_are_refused_each_with_its_reason() {
        let reason = |text| StoreUrl::read(text, Path::new("/")).err().map(|wrong| wrong.reason).unwrap_or_default();
        assert!(reason("postgres://").contains("server is missing"));
        assert!(reason("mysql://h").contains("no store of that kind"));
        assert!(reason("leasehold.db").contains("not the address of a store"));
        assert!(reason("sqlite://").contains("path is missing"));
        assert!(reason("sqlite://a.db?mode=ro").contains("no options"));
        for url in ["postgres://h:99999/x", "postgres://[::1/x", "postgres://h/x?sslmode=bogus", "postgres://h/x?a=b"] {
            assert!(!reason(url).is_empty(), "{url}");
        }
        for url in ["redis://h/abc", "redis://h?wait=x", "redis://h?wiat=1", "redis://h:99999"] {
            assert!(!reason(url).is_empty(), "{url}");
        }
    }

    #[test]
    fn servers_have_namespaces_and_files_have_none() {
        let read = |text| StoreUrl::read(text, Path::new("/")).unwrap_or_else(|wrong| panic!("{}", wrong.reason));
        let server = |url: &str, namespace: &str| ServerUrl { url: url.into(), namespace: namespace.into() };
        assert_eq!(read("postgres://u:p@h/db"), StoreUrl::Postgres(server("postgres://u:p@h/db", "leasehold")));
        let staging = read("rediss://h").within("staging".into()).ok();
        assert_eq!(staging, Some(StoreUrl::Redis(server("rediss://h", "staging"))));
        assert!(read("sqlite://a.db").within("staging".into()).is_err());
        for bad in ["", "A", "a b", ".a", "a/b", &"x".repeat(65)] {
            assert!(namespace(bad).is_err(), "{bad:?}");
        }
        assert_eq!(namespace("prod-2.eu_west").ok().as_deref(), Some("prod-2.eu_west"));
    }

    #[test]
    fn passwords_are_never_shown() {
        let url = StoreUrl::read("postgres://u:hunter2@h/db", Path::new("/")).ok();
        assert!(!format!("{url:?} {}", url.clone().expect("an address")).contains("hunter2"));
    }
}
