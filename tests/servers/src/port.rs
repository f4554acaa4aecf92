//! Ports on loopback that no other test takes, even while the server on one is down.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;

use crate::ServerError;
use crate::folder;

/// Below the range that Linux takes outgoing connections from, so that none takes a port while its server is down.
const FIRST: u16 = 20_000;
const LAST: u16 = 31_999;

/// A port of one server, kept until the value is dropped.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    /// Locked while the value lives; the system unlocks it when the process dies.
    reservation: PathBuf,
    _lock: File,
}

impl Port {
    pub(crate) fn reserve() -> Result<Port, ServerError> {
        let folder = folder::base(folder::Storage::Memory)?.join("ports");
        fs::create_dir_all(&folder).map_err(ServerError::file("create", &folder))?;
        let count = LAST - FIRST + 1;
        // Where to begin differs from process to process, so that they seldom try the same.
        let begin = std::process::id() as u16 % count;
        for step in 0..count {
            let number = FIRST + (begin + step) % count;
            let reservation = folder.join(number.to_string());
            let lock = File::create(&reservation).map_err(ServerError::file("create", &reservation))?;
            if lock.try_lock().is_ok() && is_free(number) {
                return Ok(Port { number, reservation, _lock: lock });
            }
        }
        Err(ServerError::NoPort { first: FIRST, last: LAST })
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // An empty file that stays behind does no harm: its lock is what counts.
        let _ = fs::remove_file(&self.reservation);
    }
}

fn is_free(number: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok()
}
