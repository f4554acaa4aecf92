//! Opens what people name as a file, and nothing else: a pipe without a writer must not block, nor a device flood.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file to read it.
///
/// # Errors
/// It cannot be opened, or is something else: a folder, a pipe, a device.
pub fn open(path: &Path) -> io::Result<File> {
    // Opening a pipe must not wait for a writer.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_without_a_writer_a_device_and_a_folder_are_refused_at_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
        for path in [&pipe, Path::new("/dev/zero"), dir.path()] {
            let error = open(path).expect_err("it is no file");
            assert_eq!(error.to_string(), "it is not a regular file", "{}", path.display());
        }
        std::fs::write(dir.path().join("file"), "x").expect("a file");
        assert!(open(&dir.path().join("file")).is_ok());
    }
}
