//! Where the programs of the servers are.

use std::env;
use std::path::{Path, PathBuf};

use crate::ServerError;

/// Finds `program` in PATH or in one of `folders`, of which the last that has it wins (the newest version).
pub(crate) fn find(server: &'static str, program: &'static str, folders: &[PathBuf]) -> Result<PathBuf, ServerError> {
    // Debian puts some of them where only root's PATH looks.
    let path = env::var_os("PATH").unwrap_or_default();
    let in_path = env::split_paths(&path).chain(["/usr/sbin".into()]).map(|folder| folder.join(program));
    let elsewhere = folders.iter().rev().map(|folder| folder.join(program));
    in_path.chain(elsewhere).find(|file| file.is_file()).ok_or_else(|| ServerError::Missing {
        server,
        program,
        elsewhere: folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", "),
    })
}

/// The project's cache folder, that of `scripts/lib.sh`.
pub(crate) fn cache() -> PathBuf {
    let named = env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let cache = named.or_else(|| env::home_dir().map(|home| home.join(".cache")));
    cache.unwrap_or_else(|| Path::new("/tmp").to_owned()).join("leasehold")
}
