//! The account that servers run as which refuse root.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;

use crate::ServerError;

/// An account of this machine, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Account {
    /// Whom `server` runs as: `None` is whoever runs the tests; root's tests run it as `postgres` or `nobody`.
    pub(crate) fn other_than_root(server: &'static str) -> Result<Option<Account>, ServerError> {
        if !rustix::process::getuid().is_root() {
            return Ok(None);
        }
        let accounts = fs::read_to_string("/etc/passwd").map_err(ServerError::file("read", "/etc/passwd"))?;
        let found = ["postgres", "nobody"].iter().find_map(|name| find(&accounts, name));
        found.map(Some).ok_or(ServerError::NoAccount { server })
    }

    /// Gives it a file or folder of ours.
    pub(crate) fn own(self, path: &Path) -> Result<(), ServerError> {
        chown(path, Some(self.uid), Some(self.gid)).map_err(ServerError::file("change the owner of", path))
    }
}

/// A line is `name:password:uid:gid:…`.
fn find(accounts: &str, name: &str) -> Option<Account> {
    let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut numbers = line.split(':').skip(2);
    Some(Account { uid: numbers.next()?.parse().ok()?, gid: numbers.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let accounts = "postgres2:x:5:6::/:\npostgres:x:105:111:,,,:/var/lib/postgresql:/bin/bash\n";
        assert_eq!(find(accounts, "postgres"), Some(Account { uid: 105, gid: 111 }));
        assert_eq!(find(accounts, "nobody"), None);
    }
}
