//! An initialised data folder, made once and copied for every server: initdb takes seconds, a copy a tenth.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{PASSWORD, USER};
use crate::ServerError;
use crate::account::Account;
use crate::folder::Folder;
use crate::program;
use crate::spawner::{self, DeathSignal};

/// Part of the name, and so to be counted up when [`init`] changes.
const FORMAT: u32 = 1;

/// Puts a data folder into `folder` and says where.
pub(super) fn copy_to(folder: &Folder, postgres: &Path, account: Option<Account>) -> Result<PathBuf, ServerError> {
    let cache = program::cache().join("test-servers");
    let template = cache.join(format!("postgres-{}-{FORMAT}", version(postgres)?));
    if template.is_dir() {
        let data = folder.create_data(account)?;
        copy_tree(&template, &data, account).map_err(ServerError::file("copy", &template))?;
        return Ok(data);
    }
    let data = init(folder, postgres, account)?;
    keep(&data, &cache, &template)?;
    Ok(data)
}

/// The version, as far as it makes a name: `15.14`.
fn version(postgres: &Path) -> Result<String, ServerError> {
    let program = postgres.display().to_string();
    let output = Command::new(postgres).arg("--version").output();
    let output = output.map_err(|source| ServerError::Run { program: program.clone(), source })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let number = text.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    match number {
        Some(number) if output.status.success() => Ok(number.replace('/', "_")),
        _ => Err(ServerError::Failed { program, status: output.status, output: text.into_owned() }),
    }
}

fn init(folder: &Folder, postgres: &Path, account: Option<Account>) -> Result<PathBuf, ServerError> {
    // PATH may hold a link to one of the two only.
    let postgres = postgres.canonicalize().map_err(ServerError::file("find", postgres))?;
    let initdb = postgres.with_file_name("initdb");
    let program = initdb.display().to_string();
    let data = folder.create_data(account)?;
    let password = folder.write("password", PASSWORD, account)?;
    let mut command = spawner::command(&initdb, account, DeathSignal::Kill);
    command.args(["--no-sync", "--encoding=UTF8", "--locale=C", "--auth=scram-sha-256", "--username", USER]);
    command.arg("--pgdata").arg(&data).arg("--pwfile").arg(&password);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = spawner::spawn(command).and_then(|child| child.wait_with_output());
    let output = output.map_err(|source| ServerError::Run { program: program.clone(), source })?;
    if !output.status.success() {
        let output_text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        return Err(ServerError::Failed { program, status: output.status, output: output_text.into_owned() });
    }
    Ok(data)
}

/// Keeps a copy for the servers to come. It gets its name when it is complete; of two that are made at once, one stays.
fn keep(data: &Path, cache: &Path, template: &Path) -> Result<(), ServerError> {
    fs::create_dir_all(cache).map_err(ServerError::file("create", cache))?;
    let work = tempfile::tempdir_in(cache).map_err(ServerError::file("create a folder in", cache))?;
    let copy = work.path().join("data");
    fs::create_dir(&copy).map_err(ServerError::file("create", &copy))?;
    copy_tree(data, &copy, None).map_err(ServerError::file("copy", data))?;
    match fs::rename(&copy, template) {
        Err(error) if !template.is_dir() => Err(ServerError::file("create", template)(error)),
        _ => Ok(()),
    }
}

/// Copies what is in `from` into the folder `to`, for `account`. Permissions are copied with each file.
fn copy_tree(from: &Path, to: &Path, account: Option<Account>) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            fs::set_permissions(&target, entry.metadata()?.permissions())?;
            copy_tree(&entry.path(), &target, account)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
        if let Some(account) = account {
            std::os::unix::fs::chown(&target, Some(account.uid), Some(account.gid))?;
        }
    }
    Ok(())
}
