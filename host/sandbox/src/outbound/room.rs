//! How many bytes of responses the host holds at a time: in all, and for each tenant.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of all tenants.
const HOST: usize = 256 << 20;
/// Bytes of one tenant: so much that two of its largest responses fit, so little that no tenant takes all.
const TENANT: usize = 64 << 20;

/// The room all responses share.
#[derive(Debug, Default)]
pub(super) struct Room(Mutex<Used>);

#[derive(Debug, Default)]
struct Used {
    all: usize,
    tenants: HashMap<String, usize>,
}

impl Room {
    /// One response's share of it, empty at first.
    pub(super) fn enter(room: &Arc<Room>, tenant: &str) -> Share {
        Share { room: room.clone(), tenant: tenant.to_owned(), held: 0 }
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes that one response holds; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    room: Arc<Room>,
    tenant: String,
    held: usize,
}

impl Share {
    /// Takes more. False, and nothing is taken, when there is no room.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let mut used = self.room.used();
        let of_tenant = used.tenants.get(&self.tenant).copied().unwrap_or(0);
        if used.all + bytes > HOST || of_tenant + bytes > TENANT {
            return false;
        }
        used.all += bytes;
        used.tenants.insert(self.tenant.clone(), of_tenant + bytes);
        self.held += bytes;
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut used = self.room.used();
        used.all -= self.held;
        if let Some(of_tenant) = used.tenants.get_mut(&self.tenant) {
            *of_tenant -= self.held;
            if *of_tenant == 0 {
                used.tenants.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_tenant_takes_another_s_room_and_all_of_it_comes_back() {
        let room = Arc::default();
        let mut greedy = Room::enter(&room, "a");
        assert!(greedy.take(TENANT) && !greedy.take(1));
        let mut other = Room::enter(&room, "b");
        assert!(other.take(TENANT));
        drop(greedy);
        assert!(Room::enter(&room, "a").take(TENANT));
        drop(other);
        assert!(room.used().all == 0 && room.used().tenants.is_empty());
    }
}
