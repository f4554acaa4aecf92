//! Keeps the catalog up to date: looks when the operating system says that something happened, and every few seconds
//! besides, because such news can be lost.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use leasehold_lease::time::{Millis, Mono};
use notify::{RecursiveMode, Watcher};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::PluginLoader;
use super::catalog::Catalog;
use super::load::{Context, Outcome, Step, load};
use super::look::look;
use super::standing::Survey;
use super::state::State;
use crate::clock;

mod signs;

use signs::{Floods, Signs};

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
    /// Where signs of change come from.
    pub(super) source: Source,
}

/// Where signs of change come from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source {
    /// The operating system.
    System,
    /// Nowhere.
    #[cfg(test)]
    Nowhere,
    /// An operating system that has no watch left to give.
    #[cfg(test)]
    Exhausted,
}

impl Default for Pace {
    fn default() -> Pace {
        let ms = Duration::from_millis;
        Pace { settle: ms(300), debounce: ms(100), rescan: ms(10_000), patience: PATIENCE, source: Source::System }
    }
}

/// At start, files that nothing has touched for this long are taken at once.
const QUIET: Duration = Duration::from_secs(1);

/// At start, plugins that take longer than this to load come when they are ready: one that is slow to compile must not
/// keep the others from serving.
const PATIENCE: Duration = Duration::from_secs(5);

/// While plugins are being loaded, how they stand is told no more often than this.
const SURVEY_PAUSE: Duration = Duration::from_millis(100);

/// Looking takes at most one part in this many of the time, however much there is to look at.
const LOOK_SHARE: u32 = 10;

/// The catalog, now and whenever it changes.
pub(super) type Catalogs<P> = watch::Receiver<Arc<Catalog<P>>>;

/// Where what is found is told.
pub(super) struct Publish<P> {
    catalog: watch::Sender<Arc<Catalog<P>>>,
    survey: watch::Sender<Arc<Survey>>,
}

impl<P> Publish<P> {
    pub(super) fn new() -> (Publish<P>, Catalogs<P>, watch::Receiver<Arc<Survey>>) {
        let (catalog, catalogs) = watch::channel(Arc::new(Catalog::default()));
        let (survey, surveys) = watch::channel(Arc::new(Survey::default()));
        (Publish { catalog, survey }, catalogs, surveys)
    }
}

/// The watcher's own side of the catalog.
pub(super) struct Watch<L: PluginLoader> {
    context: Arc<Context<L>>,
    pace: Pace,
    state: State<L::Plugin>,
    loads: JoinSet<Outcome<L::Plugin>>,
    /// How many may be in one step at a time.
    loads_max: usize,
    publish: Publish<L::Plugin>,
    signs: Arc<Signs>,
    floods: Floods,
    watcher: Option<Box<dyn Watcher + Send>>,
    /// The folders that are watched, with device and inode.
    watched: BTreeMap<PathBuf, (i128, i128)>,
    /// Folders that could not be watched: that is told once.
    unwatched: BTreeSet<PathBuf>,
    /// How long the last look took.
    looked: Duration,
    /// When it was told last how the files stand.
    surveyed: Mono,
}

impl<L: PluginLoader> Watch<L> {
    pub(super) fn new(context: Arc<Context<L>>, pace: Pace, publish: Publish<L::Plugin>) -> Watch<L> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Watch {
            context,
            pace,
            state: State::default(),
            loads: JoinSet::new(),
            loads_max: (cores / 2).max(2),
            publish,
            signs: Arc::default(),
            floods: Floods::default(),
            watcher: None,
            watched: BTreeMap::new(),
            unwatched: BTreeSet::new(),
            looked: Duration::ZERO,
            surveyed: Mono::default(),
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
        self.publish_survey();
    }

    /// Follows the directory until `stop` is asked for or its owner is gone.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        self.start_watching();
        let mut timer = Box::pin(tokio::time::sleep(Duration::ZERO));
        let mut resting = true;
        loop {
            tokio::select! {
                _ = stop.changed() => break,
                () = self.signs.changed(), if resting => {
                    timer.set(tokio::time::sleep(self.pace.debounce));
                    // Two looks at something that changes keep their distance, whatever signs come between.
                    resting = false;
                }
                () = &mut timer => {
                    // What happens in a folder before it is watched leaves no sign, so a new watch asks for a look.
                    let (moved, new_watches) = self.look(None).await;
                    if moved {
                        self.publish();
                    }
                    resting = !self.state.is_unsettled() && !new_watches;
                    let pause = if resting { self.pace.rescan } else { self.pace.settle };
                    let share = (self.looked * (LOOK_SHARE - 1)).min(self.pace.rescan);
                    timer.set(tokio::time::sleep(pause.max(share)));
                    if self.start_loads() || moved {
                        self.publish_survey();
                    }
                }
                Some(outcome) = self.loads.join_next(), if !self.loads.is_empty() => {
                    self.take(outcome);
                    self.publish();
                    if !self.start_loads() || clock::mono().since(self.surveyed) > SURVEY_PAUSE {
                        self.publish_survey();
                    }
                    if resting && self.state.is_unsettled() {
                        resting = false;
                        timer.set(tokio::time::sleep(self.pace.settle));
                    }
                }
            }
        }
        self.loads.shutdown().await;
    }

    /// Whether anything stands otherwise than before, and whether a folder is watched that was not.
    async fn look(&mut self, quiet_since: Option<i128>) -> (bool, bool) {
        let (root, known) = (self.context.root().to_owned(), self.state.known());
        let began = clock::mono();
        let looked = tokio::task::spawn_blocking(move || look(&root, &known)).await;
        self.looked = clock::mono().since(began);
        match looked {
            Ok(sighting) => {
                let new_watches = self.watch_folders(&sighting.folders);
                (self.state.look(sighting, quiet_since, &self.context.config), new_watches)
            }
            Err(error) => {
                // The next look may go better; what serves goes on serving.
                tracing::error!(%error, "looking at the plugin directory failed");
                (false, false)
            }
        }
    }

    /// Starts loading as much as may be loaded at once. False when nothing is being loaded.
    fn start_loads(&mut self) -> bool {
        for step in Step::ALL {
            while self.state.loading(step) < self.loads_max {
                let Some(request) = self.state.next_load(step) else { break };
                self.loads.spawn(load(Arc::clone(&self.context), request));
            }
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
        let known = Arc::clone(&self.publish.catalog.borrow());
        if now.is_same(&known) {
            return;
        }
        self.publish.catalog.send_replace(Arc::clone(&now));
        for refused in now.refused.iter().filter(|refused| !known.refused.contains(refused)) {
            tracing::warn!("refused: {refused}");
        }
        for stale in now.stale.iter().filter(|stale| !known.stale.contains(stale)) {
            tracing::warn!("the older version goes on serving: {stale}");
        }
    }

    /// Tells how the files stand, if that has changed.
    fn publish_survey(&mut self) {
        let catalog = Arc::clone(&self.publish.catalog.borrow());
        let now = self.state.survey(&self.context.config, &catalog);
        self.surveyed = clock::mono();
        self.publish.survey.send_if_modified(|known| {
            let is_new = **known != now;
            if is_new {
                *known = Arc::new(now);
            }
            is_new
        });
    }

    fn start_watching(&mut self) {
        match self.pace.source {
            Source::System => {}
            #[cfg(test)]
            Source::Nowhere => return,
            #[cfg(test)]
            Source::Exhausted => {
                self.watcher = Some(Box::new(tests::NoWatchLeft));
                return;
            }
        }
        match notify::recommended_watcher(self.signs.told()) {
            Ok(watcher) => self.watcher = Some(Box::new(watcher)),
            Err(error) => {
                tracing::warn!(%error, "changes of plugins are noticed late: the directory cannot be watched")
            }
        }
    }

    /// Watches each folder by itself: a recursive watch would follow what a tenant nests or links into its own.
    /// True when one is watched that was not before.
    fn watch_folders(&mut self, folders: &BTreeMap<PathBuf, (i128, i128)>) -> bool {
        let Some(watcher) = &mut self.watcher else { return false };
        let (mut new, now) = (false, clock::mono());
        for path in self.floods.judge(&self.signs, now) {
            tracing::warn!(
                path = %path.display(),
                "more happens in this folder than is worth listening to: it is looked at every few seconds until that ends"
            );
        }
        self.unwatched.retain(|path| folders.contains_key(path));
        for (path, id) in std::mem::take(&mut self.watched) {
            if folders.get(&path) == Some(&id) && !self.floods.cover(&path, now) {
                self.watched.insert(path, id);
            } else if let Err(error) = watcher.unwatch(&path) {
                // A folder that is gone has taken its watch along.
                tracing::debug!(%error, path = %path.display(), "a watch had ended");
            }
        }
        for (path, id) in folders {
            if self.watched.contains_key(path) || self.floods.cover(path, now) {
                continue;
            }
            match watcher.watch(path, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.watched.insert(path.clone(), *id);
                    self.unwatched.remove(path);
                    new = true;
                }
                // It is tried again at every look, and told once.
                Err(error) if self.unwatched.insert(path.clone()) => warn_unwatched(path, &error),
                Err(_) => {}
            }
        }
        new
    }
}

fn warn_unwatched(path: &Path, error: &notify::Error) {
    let hint = match error.kind {
        notify::ErrorKind::MaxFilesWatch => "; raise fs.inotify.max_user_watches or max_user_instances",
        _ => "",
    };
    tracing::warn!(
        %error,
        path = %path.display(),
        "changes in this folder are noticed late, as it cannot be watched: it is looked at every few seconds{hint}"
    );
}

#[cfg(test)]
mod tests;
