//! The System V memory of a PostgreSQL that was killed.
//!
//! It is a few bytes that show whether a server of a data folder still runs. One that is shut down removes it; one that
//! is killed leaves it until it is started again, and the system has a limited number of them.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Removes what the server of a data folder left, which has ended for good. False while it still has users: the server's
/// processes are dying, and it is to be tried again.
pub(crate) fn remove(data: &Path) -> bool {
    let Ok(lock) = fs::read_to_string(data.join("postmaster.pid")) else { return true };
    let Ok(memory) = fs::read_to_string("/proc/sysvipc/shm") else { return true };
    match find(&lock, &memory) {
        Some(Found { users: 0, id }) => {
            // Should it fail, the memory stays; nobody could do more about it.
            let _ = Command::new("ipcrm").args(["-m", id]).output();
            true
        }
        Some(_) => false,
        None => true,
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Found<'a> {
    id: &'a str,
    users: u32,
}

/// The memory that the lock file names, where the system's list has it with the same key.
fn find<'a>(lock: &'a str, memory: &str) -> Option<Found<'a>> {
    let mut named = lock.lines().nth(6)?.split_whitespace();
    let (key, id) = (named.next()?, named.next()?);
    memory.lines().find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let same = columns.first() == Some(&key) && columns.get(1) == Some(&id);
        same.then(|| columns.get(6)?.parse().ok()).flatten().map(|users| Found { id, users })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "100\n/data\n1796\n5432\n\n127.0.0.1\n     13132        15\nready   \n";

    #[test]
    fn memory_is_found_by_key_and_number() {
        let line = |key, id, users| format!("  key shmid\n{key} {id}   600   56  200  201  {users} 105 111\n");
        assert_eq!(find(LOCK, &line(13132, 15, 0)), Some(Found { id: "15", users: 0 }));
        assert_eq!(find(LOCK, &line(13132, 15, 6)), Some(Found { id: "15", users: 6 }));
        assert_eq!(find(LOCK, &line(13133, 15, 0)), None);
        assert_eq!(find(LOCK, &line(13132, 16, 0)), None);
        assert_eq!(find("100\n/data\n", &line(13132, 15, 0)), None);
    }
}
