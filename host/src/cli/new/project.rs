//! Writes a project: the template with its name put in, the language's SDK as `sdk/`, the contract as `wit/`.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::Path;

use crate::cli::error::CliError;

/// A file that is part of this program.
#[derive(Debug)]
pub(super) struct Embedded {
    /// Where it lies in its folder.
    pub(super) path: &'static str,
    pub(super) content: &'static [u8],
}

/// What a project is made of.
pub(super) struct Contents {
    pub(super) template: &'static [Embedded],
    pub(super) sdk: &'static [Embedded],
    pub(super) wit: &'static [Embedded],
    /// The SDK looks for the contract in its own folder.
    pub(super) link_wit: bool,
}

/// A project's name, as it stands in file names and as an identifier of a programming language.
pub(super) struct Name {
    name: String,
    identifier: String,
}

/// What a template has in their places.
const NAME: &str = "plugin-name";
const IDENTIFIER: &str = "plugin_name";

impl Name {
    pub(super) fn new(name: &str) -> Name {
        let identifier: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let starts_well = !identifier.starts_with(|c: char| c.is_ascii_digit());
        let identifier = if starts_well { identifier } else { format!("_{identifier}") };
        Name { name: name.to_owned(), identifier }
    }

    /// Puts it into a template's text. What is put in is not looked at again: a name may hold what templates have.
    pub(super) fn put_into(&self, text: &str) -> String {
        let between: Vec<String> = text.split(NAME).map(|part| part.replace(IDENTIFIER, &self.identifier)).collect();
        between.join(&self.name)
    }
}

/// Makes the folder, which must not be there yet, and all that is in it. Answers what it has written.
///
/// # Errors
///
/// [`CliError::NewThere`], or [`CliError::NewWrite`]; what was written by then stays.
pub(super) fn write(folder: &Path, name: &Name, contents: &Contents) -> Result<Vec<String>, CliError> {
    fs::create_dir(folder).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => CliError::NewThere { path: folder.to_owned() },
        _ => CliError::NewWrite { path: folder.to_owned(), source },
    })?;
    let mut written = Vec::new();
    for Embedded { path, content } in contents.template {
        let path = name.put_into(path);
        match std::str::from_utf8(content) {
            Ok(text) => put(folder, &path, name.put_into(text).as_bytes())?,
            Err(_) => put(folder, &path, content)?,
        }
        written.push(path);
    }
    for (beneath, files) in [("sdk", contents.sdk), ("wit", contents.wit)] {
        for Embedded { path, content } in files {
            let path = format!("{beneath}/{path}");
            put(folder, &path, content)?;
            written.push(path);
        }
    }
    if contents.link_wit {
        let path = folder.join("sdk/wit");
        symlink("../wit", &path).map_err(|source| CliError::NewWrite { path, source })?;
    }
    Ok(written)
}

fn put(folder: &Path, path: &str, content: &[u8]) -> Result<(), CliError> {
    let path = folder.join(path);
    // What names its interpreter is to be started.
    let mode = if content.starts_with(b"#!") { 0o777 } else { 0o666 };
    let write = || {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        OpenOptions::new().write(true).create_new(true).mode(mode).open(&path)?.write_all(content)
    };
    write().map_err(|source| CliError::NewWrite { path: path.clone(), source })
}
