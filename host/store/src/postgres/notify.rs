//! Telling other hosts that a job was released or triggered: only a hint, after the fact, and on connections of its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use leasehold_lease::id::JobKey;
use serde::{Deserialize, Serialize};
use sqlx::Executor;
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::address::Address;
use super::call::WAKE;
use super::connect::CONNECT_LIMIT;
use super::error::ConnectError;
use super::lane::deadline;
use super::link::{Link, Place};
use crate::view::CALL_LIMIT;
use crate::wakeups::Wakeups;
use crate::wire::{from_json, to_json};

/// The channel of all namespaces; each hint says which it is for.
const CHANNEL: &str = "leasehold";

/// Hints that may wait to be sent; what is beyond is left to polling.
const QUEUE: usize = 256;

/// How long a release or a trigger waits for its hint to be sent.
const PATIENCE: Duration = Duration::from_millis(50);

/// A connection that heard nothing for this long is asked whether it is still there.
const QUIET: Duration = Duration::from_secs(30);

/// From one attempt to listen to the next.
const PAUSE: Duration = Duration::from_secs(1);

/// How often the connection for hints is used though there is none, so that it is there for the next one, made anew in
/// time, and knows the function: a host that hands over is gone a moment after it.
const KEPT_READY: Duration = Duration::from_secs(60);

/// Sends hints to other hosts and hears theirs. Dropping it ends both.
pub(super) struct Hints {
    queue: mpsc::Sender<Hint>,
    listening: JoinHandle<()>,
}

impl Hints {
    /// Begins to listen, and answers once it does.
    pub(super) async fn start(place: &Arc<Place>, wakeups: Arc<Wakeups>) -> Result<Hints, ConnectError> {
        let listener = listen(&place.address).await?;
        let listening = tokio::spawn(hear(listener, place.clone(), wakeups));
        let (queue, hints) = mpsc::channel(QUEUE);
        tokio::spawn(send(hints, Link::new(place.clone())));
        Ok(Hints { queue, listening })
    }

    /// Tells other hosts, and returns when they are told, or after [`PATIENCE`] at most: a process that has released or
    /// triggered something may end right after.
    pub(super) async fn send(&self, job: &JobKey) {
        let (told, done) = oneshot::channel();
        // A full queue means that hosts are told about many jobs already; this one they find by polling.
        if self.queue.try_send(Hint { job: job.clone(), told }).is_ok() {
            // Polling is what is promised.
            let _ = timeout(PATIENCE, done).await;
        }
    }
}

/// A job to tell of; whoever waits for that is told by the other end's drop.
struct Hint {
    job: JobKey,
    told: oneshot::Sender<()>,
}

impl Drop for Hints {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

#[derive(Serialize)]
struct WakeAsk {
    jobs: BTreeSet<String>,
}

/// Sends what has gathered while the last message was under way, in one transaction.
async fn send(mut hints: mpsc::Receiver<Hint>, mut link: Link) {
    let mut quiet = Duration::ZERO;
    loop {
        let gathered = match timeout(quiet, hints.recv()).await {
            Ok(None) => return,
            Ok(Some(first)) => [first].into_iter().chain(std::iter::from_fn(|| hints.try_recv().ok())).collect(),
            Err(_) => Vec::new(),
        };
        quiet = KEPT_READY;
        let (jobs, waiting): (BTreeSet<String>, Vec<_>) =
            gathered.into_iter().map(|hint| (hint.job.to_string(), hint.told)).unzip();
        if let Err(fault) = link.call(&WAKE, &to_json(&WakeAsk { jobs }), CALL_LIMIT, deadline()).await {
            tracing::debug!(server = link.server(), ?fault, "other hosts were not told, and will find out by polling");
        }
        drop(waiting);
    }
}

/// Connects and listens, or says within [`CONNECT_LIMIT`] why not.
async fn listen(address: &Address) -> Result<PgListener, ConnectError> {
    let listening = async {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(CONNECT_LIMIT)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_lazy_with(address.options.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        // A lost connection is seen as such, and this module decides when to try again.
        listener.eager_reconnect(false);
        listener.listen(CHANNEL).await?;
        Ok(listener)
    };
    let server = || address.shown.clone();
    match timeout(CONNECT_LIMIT, listening).await {
        Ok(listening) => listening.map_err(|error| ConnectError::from_server(&server(), error)),
        Err(_) => Err(ConnectError::Silent { server: server(), after: CONNECT_LIMIT }),
    }
}

/// Listens for ever, again and again where the connection is lost.
async fn hear(first: PgListener, place: Arc<Place>, wakeups: Arc<Wakeups>) {
    let server = &place.address.shown;
    let mut listener = Some(first);
    loop {
        if let Some(listener) = listener.take() {
            hear_until_lost(listener, &place.namespace, &wakeups).await;
            tracing::info!(server, "the connection that hears of releases was lost");
        }
        sleep(PAUSE).await;
        match listen(&place.address).await {
            Ok(again) => listener = Some(again),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::debug!(server, error, "releases are not heard of yet");
            }
        }
    }
}

async fn hear_until_lost(mut listener: PgListener, namespace: &str, wakeups: &Wakeups) {
    loop {
        match timeout(QUIET, listener.try_recv()).await {
            Ok(Ok(Some(hint))) => wake(hint.payload(), namespace, wakeups),
            Ok(Ok(None) | Err(_)) => return,
            Err(_) => {
                // A peer that vanished without a word is found out by asking.
                let asked = timeout(CALL_LIMIT, listener.execute(sqlx::raw_sql(include_str!("schema/backend.sql"))));
                if !matches!(asked.await, Ok(Ok(_))) {
                    return;
                }
            }
        }
    }
}

fn wake(payload: &str, namespace: &str, wakeups: &Wakeups) {
    #[derive(Deserialize)]
    struct Heard {
        namespace: String,
        job: String,
    }
    // The channel is open to everyone in the database: what is not a hint of ours is left alone.
    let Ok(hint) = from_json::<Heard>("a hint", payload) else { return };
    if hint.namespace == namespace
        && let Ok(job) = hint.job.parse()
    {
        wakeups.wake(&job);
    }
}
