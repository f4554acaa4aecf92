//! Calls to the store. Each has a deadline; waiting is given up at it, the call itself is not, so that a late answer
//! still counts and nothing is cut half-way.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_lease::agent::Input;
use leasehold_lease::id::{JobKey, RunKey, TenantName};
use leasehold_lease::time::{Millis, Mono};
use leasehold_sandbox::Plugin;
use leasehold_store::{HostAnswer, HostRecord, RunStanding, StoreError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::agreement::Compared;
use super::announcing::Announced;
use super::copies::Copies;
use super::reports::Reported;
use crate::causes::chain;
use crate::clock::{self, StoreClock};
use crate::plugins::OfferedJob;

/// What the driver's loop hears.
#[allow(clippy::large_enum_variant)] // Nearly every message is an input: boxing it would cost and save nothing.
pub(crate) enum News {
    /// For one job's agent.
    Input(JobKey, Input),
    /// The store was told of these jobs.
    Announced(Vec<Announced<OfferedJob<Plugin>>>),
    /// The store could not be told of these.
    NotAnnounced(Vec<JobKey>),
    /// That call is over, however it went.
    AnnouncementOver,
    /// A page of the poll for unfinished runs of these tenants, by the store's clock then.
    Found(Vec<RunStanding>, Millis, Arc<[TenantName]>),
    /// The poll for unfinished runs has ended before its last page.
    Polled,
    /// Tenants with unfinished runs.
    Tenants(BTreeSet<TenantName>),
    /// The store did not tell them.
    TenantsUnknown,
    /// When hosts last offered these jobs.
    LastOffered(Vec<(JobKey, Option<Millis>)>),
    /// A run that no host cared for is given up, for this reason.
    OrphanClosed(RunKey, String),
    /// An answer that people may ask for.
    Answered(HostAnswer),
    /// A batch of such answers is written, or lost.
    AnswersWritten,
    /// The store has heard of this host.
    Reported(Reported),
    /// What this host offers was told to the store, by this digest; none: it could not be.
    OffersTold(Option<String>),
    /// What other hosts offer was compared with what this one does.
    Compared(Vec<(String, Compared)>),
    /// All hosts, by the store's clock then.
    Hosts(Vec<HostRecord>, Millis),
    /// The store has answered, or has not in time.
    Store {
        /// What was asked of it.
        side: Side,
        /// When the call began.
        began: Mono,
        /// Why not, if it has not.
        trouble: Option<String>,
        /// Its disk is full.
        full: bool,
    },
}

/// What a call asks of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// To tell something.
    Reads,
    /// To change something.
    Changes,
    /// To renew leases, or to end a run: a store may take that which takes no other changes, one that is out of memory.
    Held,
    /// To change something that harms nobody, to see whether it does.
    Probe,
}

/// Calls take less. What took longer lay about while this process or its machine stood still, and tells a time gone by.
pub(crate) const CLOCK_TOLD_WITHIN: Duration = Duration::from_secs(5);

/// The way to the driver's loop.
#[derive(Clone)]
pub(crate) struct NewsSender(mpsc::UnboundedSender<News>);

impl NewsSender {
    /// The way, and its end. Unbounded, but every message answers a call or belongs to a running attempt.
    pub(crate) fn new() -> (NewsSender, mpsc::UnboundedReceiver<News>) {
        let (sender, inbox) = mpsc::unbounded_channel();
        (NewsSender(sender), inbox)
    }

    /// Tells it. Where the driver has ended, nobody is left to hear it.
    pub(crate) fn tell(&self, news: News) {
        drop(self.0.send(news));
    }
}

/// Spawns calls and owns their tasks.
pub(super) struct Calls {
    pub(super) clock: Arc<StoreClock>,
    pub(super) news: NewsSender,
    pub(super) tasks: JoinSet<()>,
    pub(super) copies: Copies,
    down: Down,
}

/// Whether the store is down, which was told once: calls that fail meanwhile are no news.
pub(crate) type Down = Arc<AtomicBool>;

impl Calls {
    pub(super) fn new(clock: Arc<StoreClock>, news: NewsSender, down: Down) -> Calls {
        Calls { clock, news, tasks: JoinSet::new(), copies: Copies::default(), down }
    }

    /// Whether calls that fail are logged for those only who look for everything.
    pub(super) fn quiet(&self, down: bool) {
        self.down.store(down, Ordering::Relaxed);
    }

    /// Sends what `call` answers, turned into news by `answered`. When the deadline passes, and when it fails, `unanswered`
    /// is sent: twice, if it fails after that. A late answer still follows. An answer carries the store's clock.
    pub(super) fn spawn<T: Send + 'static>(
        &mut self,
        what: &'static str,
        side: Side,
        deadline: Duration,
        call: impl Future<Output = Result<(Millis, T), StoreError>> + Send + 'static,
        answered: impl FnOnce(T, Millis) -> Vec<News> + Send + 'static,
        unanswered: impl Fn() -> Vec<News> + Send + 'static,
    ) {
        let (clock, news, down) = (self.clock.clone(), self.news.clone(), self.down.clone());
        let began = clock::mono();
        tracing::trace!(what, "a call to the store");
        let tell = move |all: Vec<News>| all.into_iter().for_each(|one| news.tell(one));
        self.tasks.spawn(async move {
            let mut call = std::pin::pin!(call);
            let mut is_late = false;
            let answer = match tokio::time::timeout(deadline, &mut call).await {
                Ok(answer) => answer,
                Err(_) => {
                    let why = format!("no answer within {deadline:?}");
                    log_failure(what, &why, &down);
                    tell(unanswered());
                    tell(vec![News::Store { side, began, trouble: Some(why), full: false }]);
                    is_late = true;
                    call.await
                }
            };
            match answer {
                Ok((now, answer)) => {
                    if clock::mono().since(began) <= CLOCK_TOLD_WITHIN {
                        clock.heard(now);
                    }
                    tell(vec![News::Store { side, began, trouble: None, full: false }]);
                    tell(answered(answer, now));
                }
                Err(error) => {
                    let why = chain(&error);
                    log_failure(what, &why, &down);
                    // First the input, so that what it gave up is caught up when the store is up again.
                    tell(unanswered());
                    // A store that refuses a call has answered it. One failure is told once.
                    let refused = matches!(error, StoreError::Rejected { .. });
                    let full = error.is_full();
                    if refused || full || !is_late {
                        tell(vec![News::Store { side, began, trouble: (!refused).then_some(why), full }]);
                    }
                }
            }
        });
    }
}

/// A call that has failed. In an outage every call does, which is said once.
pub(crate) fn log_failure(what: &str, why: &str, down: &AtomicBool) {
    if down.load(Ordering::Relaxed) {
        tracing::debug!(what, why, "a call to the store failed");
    } else {
        tracing::warn!(what, why, "a call to the store failed");
    }
}
