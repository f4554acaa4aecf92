//! Keeps the catalog up to date: looks when the operating system says that something happened, and every few seconds
//! besides, because such news can be lost.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use leasehold_lease::time::Millis;
use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::PluginLoader;
use super::catalog::Catalog;
use super::load::{Context, Outcome, load};
use super::look::look;
use super::state::State;

/// How long the watcher waits for what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Between two looks that must see the same: long enough for a copy to show that it goes on.
    pub(super) settle: Duration,
    /// From a sign of change to the look at it: a storm of signs becomes one look.
    pub(super) debounce: Duration,
    /// Between two looks without any sign of change.
    pub(super) rescan: Duration,
    /// For all plugins to load at start.
    pub(super) patience: Duration,
    /// Whether to ask the operating system for signs.
    pub(super) signs: bool,
}

impl Default for Pace {
    fn default() -> Pace {
        let ms = Duration::from_millis;
        Pace { settle: ms(300), debounce: ms(100), rescan: ms(10_000), patience: PATIENCE, signs: true }
    }
}

/// At start, files that nothing has touched for this long are taken at once.
const QUIET: Duration = Duration::from_secs(1);

/// At start, plugins that take longer than this to load come when they are ready: one that is slow to compile must not
/// keep the others from serving.
const PATIENCE: Duration = Duration::from_secs(5);

/// The watcher's own side of the catalog.
pub(super) struct Watch<L: PluginLoader> {
    context: Arc<Context<L>>,
    pace: Pace,
    state: State<L::Plugin>,
    loads: JoinSet<Outcome<L::Plugin>>,
    loads_max: usize,
    publish: watch::Sender<Arc<Catalog<L::Plugin>>>,
    signs: Arc<Notify>,
    watcher: Option<RecommendedWatcher>,
    /// The folders that are watched, with device and inode.
    watched: BTreeMap<PathBuf, (i128, i128)>,
}

impl<L: PluginLoader> Watch<L> {
    pub(super) fn new(
        context: Arc<Context<L>>,
        pace: Pace,
        publish: watch::Sender<Arc<Catalog<L::Plugin>>>,
    ) -> Watch<L> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Watch {
            context,
            pace,
            state: State::default(),
            loads: JoinSet::new(),
            loads_max: (cores / 2).max(2),
            publish,
            signs: Arc::new(Notify::new()),
            watcher: None,
            watched: BTreeMap::new(),
        }
    }

    /// Reads the directory once, whole. What is still being written is left to [`Watch::run`], or to a second look
    /// when that finds it at rest.
    pub(super) async fn first_scan(&mut self, now: Millis) {
        let quiet_since = (i128::from(now.0) - QUIET.as_millis() as i128) * 1_000_000;
        self.look(Some(quiet_since)).await;
        if self.state.is_unsettled() {
            tokio::time::sleep(self.pace.settle).await;
            self.look(None).await;
        }
        let mut patience = pin!(tokio::time::sleep(self.pace.patience));
        while self.start_loads() {
            tokio::select! {
                Some(outcome) = self.loads.join_next() => self.take(outcome),
                () = &mut patience => {
                    tracing::warn!("some plugins are still being compiled; the others serve meanwhile");
                    break;
                }
            }
        }
        self.publish();
    }

    /// Follows the directory until `stop` is asked for or its owner is gone.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        if self.pace.signs {
            self.start_watching();
        }
        let mut timer = Box::pin(tokio::time::sleep(Duration::ZERO));
        let mut resting = true;
        loop {
            tokio::select! {
                _ = stop.changed() => break,
                () = self.signs.notified(), if resting => {
                    timer.set(tokio::time::sleep(self.pace.debounce));
                    // Two looks at something that changes keep their distance, whatever signs come between.
                    resting = false;
                }
                () = &mut timer => {
                    // What happens in a folder before it is watched leaves no sign, so a new watch asks for a look.
                    let new_watches = self.look(None).await;
                    self.publish();
                    resting = !self.state.is_unsettled() && !new_watches;
                    timer.set(tokio::time::sleep(if resting { self.pace.rescan } else { self.pace.settle }));
                    self.start_loads();
                }
                Some(outcome) = self.loads.join_next(), if !self.loads.is_empty() => {
                    self.take(outcome);
                    self.publish();
                    self.start_loads();
                    if resting && self.state.is_unsettled() {
                        resting = false;
                        timer.set(tokio::time::sleep(self.pace.settle));
                    }
                }
            }
        }
        self.loads.shutdown().await;
    }

    /// True when a folder is watched that was not before.
    async fn look(&mut self, quiet_since: Option<i128>) -> bool {
        let (root, payloads) = (self.context.root().to_owned(), self.state.payloads());
        match tokio::task::spawn_blocking(move || look(&root, &payloads)).await {
            Ok(sighting) => {
                let new_watches = self.watch_folders(&sighting.folders);
                self.state.look(sighting, quiet_since, &self.context.config);
                new_watches
            }
            Err(error) => {
                // The next look may go better; what serves goes on serving.
                tracing::error!(%error, "looking at the plugin directory failed");
                false
            }
        }
    }

    /// Starts loading as much as may be loaded at once. False when nothing is being loaded.
    fn start_loads(&mut self) -> bool {
        while self.loads.len() < self.loads_max {
            let Some(request) = self.state.next_load() else { break };
            self.loads.spawn(load(Arc::clone(&self.context), request));
        }
        !self.loads.is_empty()
    }

    fn take(&mut self, outcome: Result<Outcome<L::Plugin>, tokio::task::JoinError>) {
        match outcome {
            Ok(outcome) => self.state.loaded(outcome),
            Err(error) => tracing::error!(%error, "a plugin's loading ended without a result"),
        }
    }

    /// Tells the catalog, if it has changed.
    fn publish(&mut self) {
        let now = Arc::new(self.state.catalog(&self.context.config));
        let known = Arc::clone(&self.publish.borrow());
        if now.is_same(&known) {
            return;
        }
        self.publish.send_replace(Arc::clone(&now));
        for refused in now.refused.iter().filter(|refused| !known.refused.contains(refused)) {
            tracing::warn!("refused: {refused}");
        }
        for stale in now.stale.iter().filter(|stale| !known.stale.contains(stale)) {
            tracing::warn!("the older version goes on serving: {stale}");
        }
    }

    fn start_watching(&mut self) {
        let signs = Arc::clone(&self.signs);
        let tell = move |event: notify::Result<notify::Event>| {
            if event.as_ref().map_or(true, is_sign) {
                signs.notify_one();
            }
        };
        match notify::recommended_watcher(tell) {
            Ok(watcher) => self.watcher = Some(watcher),
            Err(error) => {
                tracing::warn!(%error, "changes of plugins are noticed late: the directory cannot be watched")
            }
        }
    }

    /// Watches each folder by itself: a recursive watch would follow what a tenant nests or links into its own.
    /// True when one is watched that was not before.
    fn watch_folders(&mut self, folders: &BTreeMap<PathBuf, (i128, i128)>) -> bool {
        let Some(watcher) = &mut self.watcher else { return false };
        let mut new = false;
        for (path, id) in std::mem::take(&mut self.watched) {
            if folders.get(&path) == Some(&id) {
                self.watched.insert(path, id);
            } else if let Err(error) = watcher.unwatch(&path) {
                // A folder that is gone has taken its watch along.
                tracing::debug!(%error, path = %path.display(), "a watch had ended");
            }
        }
        for (path, id) in folders {
            if self.watched.contains_key(path) {
                continue;
            }
            match watcher.watch(path, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(path.clone(), *id);
                    new = true;
                }
                Err(error) => warn_unwatched(path, &error),
            }
        }
        new
    }
}

fn warn_unwatched(path: &Path, error: &notify::Error) {
    tracing::warn!(%error, path = %path.display(), "changes in this folder are noticed late: it cannot be watched");
}

/// Reading is no sign of change, and looking at a folder is reading.
fn is_sign(event: &notify::Event) -> bool {
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests;
