//! Where the record is kept.

use std::fmt;
use std::path::{Path, PathBuf};

use super::reader::Wrong;

/// A store's address. Its text form hides passwords.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// An embedded SQLite database in this file: hosts of one machine share it.
    Sqlite(PathBuf),
    /// Kept in this process and gone with it.
    Memory,
}

impl StoreUrl {
    /// Reads `sqlite://path` (relative paths start at `folder`) or `memory:`.
    pub(super) fn read(text: &str, folder: &Path) -> Result<StoreUrl, Wrong> {
        if text == "memory:" {
            return Ok(StoreUrl::Memory);
        }
        let write = "write \"sqlite://path/to/leasehold.db\"";
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(Wrong::new("it is not the address of a store").hint(write));
        };
        match scheme {
            "sqlite" if rest.is_empty() => Err(Wrong::new("the path is missing").hint(write)),
            "sqlite" if rest.contains(['?', '#']) => {
                Err(Wrong::new("a SQLite address takes no options: nothing may follow the path").hint(write))
            }
            "sqlite" => Ok(StoreUrl::Sqlite(folder.join(rest))),
            "postgres" | "postgresql" | "redis" | "rediss" => {
                Err(Wrong::new(format!("a store of kind {scheme} is not in this version")).hint(write))
            }
            _ => Err(Wrong::new("there is no store of that kind").hint(write)),
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreUrl::Sqlite(path) => write!(f, "sqlite://{}", path.display()),
            StoreUrl::Memory => f.write_str("memory:"),
        }
    }
}

/// An address as it may be shown: everything between the scheme and the last `@`, and every option, is `***`.
pub(super) fn redacted(text: &str) -> String {
    let (text, options) = match text.split_once('?') {
        Some((text, _)) => (text, "?***"),
        None => (text, ""),
    };
    let shown = match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://***@{host}"),
        (None, Some((_, host))) => format!("***@{host}"),
        _ => text.to_owned(),
    };
    format!("{shown}{options}")
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
        assert!(reason("postgres://u:p@h/db").contains("postgres is not in this version"));
        assert!(reason("rediss://h").contains("rediss is not in this version"));
        assert!(reason("mysql://h").contains("no store of that kind"));
        assert!(reason("leasehold.db").contains("not the address of a store"));
        assert!(reason("sqlite://").contains("path is missing"));
        assert!(reason("sqlite://a.db?mode=ro").contains("no options"));
    }

    #[test]
    fn passwords_are_never_shown() {
        for url in ["postgres://u:hunter2@h/db", "redis://:p@hunter2@h", "u:hunter2@h", "x://h/?password=hunter2"] {
            assert!(!redacted(url).contains("hunter2"), "{url}: {}", redacted(url));
        }
        assert_eq!(redacted("postgres://u:p@h/db?a=b"), "postgres://***@h/db?***");
        assert_eq!(redacted("sqlite://a.db"), "sqlite://a.db");
    }
}
