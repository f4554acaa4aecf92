//! Signs of change, as the operating system gives them: any number becomes one look, and a folder in which more happens than
//! is worth listening to is passed over for a while.
//!
//! Each event costs the host about a microsecond before anything here can decide on it, so a flood is ended at its source:
//! the folder is no longer watched, and looked at every few seconds like one that cannot be watched.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_lease::time::Mono;
use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind};
use tokio::sync::Notify;

/// Events a second in one folder that are listened to: copying hundreds of plugins at once makes a few thousand.
const MOST: u32 = 10_000;
/// Over how much time they are counted at least, so that a short burst is none.
const SPAN: Duration = Duration::from_millis(500);
/// How long a flooded folder is passed over.
const PASSED_OVER: Duration = Duration::from_secs(10);

/// What the operating system has told, shared with the thread on which it tells.
#[derive(Debug, Default)]
pub(super) struct Signs {
    changed: Notify,
    counts: Mutex<BTreeMap<PathBuf, u32>>,
}

impl Signs {
    /// What the operating system calls.
    pub(super) fn told(self: &Arc<Self>) -> impl Fn(notify::Result<Event>) + Send + 'static {
        let signs = Arc::clone(self);
        move |event| {
            if let Some(folder) = event.as_ref().ok().and_then(|event| event.paths.first()?.parent()) {
                signs.count(folder);
            }
            if event.as_ref().map_or(true, is_sign) {
                signs.changed.notify_one();
            }
        }
    }

    /// Waits for a sign of change, unless there was one since the last time.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn count(&self, folder: &Path) {
        let mut counts = self.counts();
        match counts.get_mut(folder) {
            Some(count) => *count = count.saturating_add(1),
            None => drop(counts.insert(folder.to_owned(), 1)),
        }
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<PathBuf, u32>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which folders are flooded.
#[derive(Debug, Default)]
pub(super) struct Floods {
    counted_from: Mono,
    /// Until when a folder is passed over.
    until: BTreeMap<PathBuf, Mono>,
}

impl Floods {
    /// Looks at what was counted. Answers the folders in which more happens than is listened to, from now on.
    pub(super) fn judge(&mut self, signs: &Signs, now: Mono) -> Vec<PathBuf> {
        // Whoever floods for long is told of once.
        self.until.retain(|_, until| now < *until + PASSED_OVER);
        let span = now.since(self.counted_from);
        if span < SPAN {
            return Vec::new();
        }
        self.counted_from = now;
        let most = f64::from(MOST) * span.as_secs_f64();
        let counts = std::mem::take(&mut *signs.counts());
        let flooded = counts.into_iter().filter(|(_, count)| f64::from(*count) > most).map(|(folder, _)| folder);
        let is_new = |folder: &PathBuf| self.until.insert(folder.clone(), now + PASSED_OVER).is_none();
        flooded.filter(is_new).collect()
    }

    /// Whether the folder is passed over now.
    pub(super) fn cover(&self, folder: &Path, now: Mono) -> bool {
        self.until.get(folder).is_some_and(|until| now < *until)
    }
}

/// Reading is no sign of change, and looking at a folder is reading.
fn is_sign(event: &Event) -> bool {
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Mono {
        Mono(Duration::from_millis(ms))
    }

    fn events(signs: &Signs, folder: &str, count: u32) {
        (0..count).for_each(|_| signs.count(Path::new(folder)));
    }

    #[test]
    fn a_flooded_folder_is_passed_over_for_a_while_and_told_of_once() {
        let (signs, mut floods) = (Signs::default(), Floods::default());
        let acme = Path::new("acme");
        events(&signs, "acme", MOST + 1);
        events(&signs, "calm", 100);
        assert_eq!(floods.judge(&signs, at(1_000)), [acme]);
        assert!(floods.cover(acme, at(1_000)) && !floods.cover(Path::new("calm"), at(1_000)));
        let back = 1_000 + PASSED_OVER.as_millis() as u64;
        assert!(floods.judge(&signs, at(back)).is_empty() && !floods.cover(acme, at(back)), "it is listened to again");
        // It goes on.
        events(&signs, "acme", MOST + 1);
        assert!(floods.judge(&signs, at(back + 1_000)).is_empty() && floods.cover(acme, at(back + 1_000)));
        let calm = at(back + 60_000);
        assert!(floods.judge(&signs, calm).is_empty() && floods.until.is_empty());
        assert!(signs.counts().is_empty());
    }

    #[test]
    fn a_short_burst_is_no_flood() {
        let (signs, mut floods) = (Signs::default(), Floods { counted_from: at(1_000), ..Floods::default() });
        events(&signs, "acme", 3_000);
        assert!(floods.judge(&signs, at(1_100)).is_empty(), "a burst is counted for longer");
        events(&signs, "acme", 1_000);
        assert!(floods.judge(&signs, at(1_500)).is_empty(), "4 000 in half a second");
    }

    #[test]
    fn reading_a_file_is_no_sign_of_change() {
        let event = |kind| notify::Event::new(kind);
        assert!(!is_sign(&event(EventKind::Access(AccessKind::Open(AccessMode::Any)))));
        assert!(!is_sign(&event(EventKind::Access(AccessKind::Close(AccessMode::Read)))));
        assert!(is_sign(&event(EventKind::Access(AccessKind::Close(AccessMode::Write)))));
        assert!(is_sign(&event(EventKind::Any)));
        // So says the system that it has lost events.
        assert!(is_sign(&event(EventKind::Other).set_flag(notify::event::Flag::Rescan)));
    }
}
