//! The System V memory of a PostgreSQL that was killed.
//!
//! It is a few bytes that show whether a server of a data folder still runs. One that is shut down removes it; one that
//! is killed leaves it until it is started again, and the system has a limited number of them.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Removes what the server of a data folder left, which has ended for good. Best effort: what is not certain stays.
pub(crate) fn remove(data: &Path) {
    let Ok(lock) = fs::read_to_string(data.join("postmaster.pid")) else { return };
    let Ok(memory) = fs::read_to_string("/proc/sysvipc/shm") else { return };
    if let Some(id) = left_behind(&lock, &memory) {
        let _ = Command::new("ipcrm").args(["-m", id]).output();
    }
}

/// The number of the memory that the lock file names, if the system's list has it with the same key and without users.
fn left_behind<'a>(lock: &'a str, memory: &str) -> Option<&'a str> {
    let mut named = lock.lines().nth(6)?.split_whitespace();
    let (key, id) = (named.next()?, named.next()?);
    let unused = |line: &&str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        columns.first() == Some(&key) && columns.get(1) == Some(&id) && columns.get(6) == Some(&"0")
    };
    memory.lines().find(unused).map(|_| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "100\n/data\n1796\n5432\n\n127.0.0.1\n     13132        15\nready   \n";

    #[test]
    fn only_memory_of_the_same_key_and_number_that_nobody_uses_is_left_behind() {
        let line = |key, id, users| format!("  key shmid\n{key} {id}   600   56  200  201  {users} 105 111\n");
        assert_eq!(left_behind(LOCK, &line(13132, 15, 0)), Some("15"));
        assert_eq!(left_behind(LOCK, &line(13132, 15, 1)), None);
        assert_eq!(left_behind(LOCK, &line(13133, 15, 0)), None);
        assert_eq!(left_behind(LOCK, &line(13132, 16, 0)), None);
        assert_eq!(left_behind("100\n/data\n", &line(13132, 15, 0)), None);
    }
}
