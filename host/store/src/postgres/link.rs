//! A connection that comes back by itself.

use std::sync::Arc;
use std::time::Duration;

use sqlx::Connection;
use sqlx::postgres::PgConnection;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::address::{Address, Transport};
use super::call::{self, Function, Row};
use super::error::{ConnectError, Fault, PostgresError, Shared};
use super::{answer, ask, connect, rehearsal};
use crate::view::{CALL_LIMIT, Identity};

/// A connection that was idle for this long is asked whether it is still there before it is trusted with a call: then a
/// call is known not to have been sent, instead of perhaps.
pub(super) const TRUSTED: Duration = Duration::from_millis(500);

/// How long a connection that is asked may take to answer. A new one is made then, while there is still time for the
/// call.
const PING_LIMIT: Duration = Duration::from_millis(500);

/// A connection is made anew after this long, and a part of [`SPREAD`]: its plans were made for the tables as they were,
/// and its name may lead to another server by now.
const LIFETIME: Duration = Duration::from_secs(15 * 60);

/// So that not all connections of all hosts are made anew at once, as they were made at once when the server came back.
const SPREAD: Duration = Duration::from_secs(5 * 60);

/// How long the successor of a connection that still works may take, and after how long it is tried again.
const SUCCESSION: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

/// How long a connection is used before it is asked again who the store is.
const LOOK: Duration = Duration::from_secs(5);

/// From one attempt to connect to the next, after the first and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// After how long an idle connection that could not be made is looked after again, and any other one. One that could not
/// rehearse is among these: what forbids that seldom passes within seconds.
const CARE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));

/// Between the time at which the server gives a lock up and the deadline, so that the caller learns what became of it.
pub(super) const MARGIN: Duration = Duration::from_millis(200);

/// The time of the tasks that serve connections. It measures how long calls take and decides about no lease.
#[allow(clippy::disallowed_methods, reason = "deadlines of calls in this process; this is their door")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// The store that connections lead to.
pub(super) struct Place {
    pub(super) address: Address,
    pub(super) namespace: String,
    /// Who the store is; none until that is known.
    pub(super) identity: Option<Identity>,
}

/// A connection, or the next attempt at one.
pub(super) struct Link {
    place: Arc<Place>,
    db: Option<PgConnection>,
    /// When this connection was asked last who the store is; none: not yet.
    looked: Option<Instant>,
    used: Instant,
    /// The session has called what it will be asked for.
    rehearsed: bool,
    /// When the connection is to be made anew.
    pub(super) renew_at: Instant,
    failures: u32,
    not_before: Instant,
}

impl Link {
    /// Connects with the first call.
    pub(super) fn new(place: Arc<Place>) -> Link {
        let now = now();
        Link { place, db: None, looked: None, used: now, rehearsed: false, renew_at: now, failures: 0, not_before: now }
    }

    pub(super) fn server(&self) -> &str {
        &self.place.address.shown
    }

    /// Calls a function. `patience` is how long it may wait for a lock, at most: never so long that the caller gives up
    /// first.
    pub(super) async fn call(
        &mut self,
        function: &Function,
        ask: &str,
        patience: Duration,
        deadline: Instant,
    ) -> Result<Vec<Row>, Fault> {
        if deadline <= now() {
            return Err(Fault::NotSent(self.late()));
        }
        let db = self.connected(deadline).await?;
        let mut db = self.recognized(db, deadline).await?;
        let left = deadline.saturating_duration_since(now()).saturating_sub(MARGIN);
        if left.is_zero() {
            // It would be sent all the same, and then nobody would know.
            self.db = Some(db);
            return Err(Fault::NotSent(self.late()));
        }
        // A row that somebody holds and somebody else waits for is waited for twice: for one's turn, and for the row.
        let document = call::document(&self.place.namespace, patience.min(left / 2), ask);
        let sent = call::send(&mut db, self.place.address.transport, function, &document);
        let answer = timeout_at(deadline, sent).await;
        self.used = now();
        match answer {
            Ok(Ok(rows)) => {
                self.db = Some(db);
                Ok(rows)
            }
            Ok(Err(error)) => {
                let fault = Fault::of_call(self.server(), error);
                if fault.leaves_the_connection() {
                    self.db = Some(db);
                }
                Err(fault)
            }
            // The answer may still come: the connection is given up with it.
            Err(_) => Err(Fault::Unknown(PostgresError::Late { server: self.server().to_owned() }.into())),
        }
    }

    /// Connects now rather than with the first call.
    pub(super) async fn connect(&mut self) -> Result<(), ConnectError> {
        self.db = Some(connect::open(&self.place.address).await?);
        self.begins();
        Ok(())
    }

    /// Whether it is ready for a call that is to be quick: see [`Link::care`].
    pub(super) fn is_ready(&self) -> bool {
        self.db.is_some() && self.rehearsed
    }

    /// Makes the connection ready for a call that is to be quick, while there is none: connects, where it was lost or its
    /// time is over, and has the session read the functions. Answers when it is to be looked after again.
    pub(super) async fn care(&mut self) -> Instant {
        let deadline = now() + CALL_LIMIT;
        let db = match self.connected(deadline).await {
            Ok(db) => self.recognized(db, deadline).await,
            Err(fault) => Err(fault),
        };
        let mut db = match db {
            Ok(db) => db,
            Err(fault) => {
                tracing::debug!(server = self.server(), ?fault, "an idle connection is not ready yet");
                return now() + CARE.0;
            }
        };
        // A pooler's sessions are not ours.
        if !self.rehearsed && self.place.address.transport == Transport::Prepared {
            // Whatever it is, a call will meet it and tell; this one had nothing to do.
            match timeout_at(now() + CALL_LIMIT, rehearsal::rehearse(&mut db)).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    tracing::debug!(server = self.server(), %error, "a session could not rehearse");
                    return now() + CARE.1;
                }
                Err(_) => {
                    tracing::debug!(server = self.server(), "a session could not rehearse in time");
                    return now() + CARE.0;
                }
            }
        }
        self.rehearsed = true;
        self.used = now();
        self.db = Some(db);
        self.renew_at.min(now() + CARE.1)
    }

    /// The connection: the one there is, if it still answers, or a new one.
    async fn connected(&mut self, deadline: Instant) -> Result<PgConnection, Fault> {
        self.succeed(deadline).await;
        if let Some(mut db) = self.db.take() {
            if now().saturating_duration_since(self.used) < TRUSTED {
                return Ok(db);
            }
            match timeout_at(deadline.min(now() + PING_LIMIT), db.ping()).await {
                Ok(Ok(())) => return Ok(db),
                Ok(Err(error)) => tracing::info!(server = self.server(), %error, "a connection was lost"),
                Err(_) => tracing::info!(server = self.server(), "a connection has fallen silent"),
            }
        }
        if timeout_at(deadline, sleep_until(self.not_before)).await.is_err() {
            return Err(Fault::NotSent(self.late()));
        }
        let opened = match timeout_at(deadline, connect::open(&self.place.address)).await {
            Ok(opened) => opened,
            Err(_) => return Err(Fault::NotSent(self.late())),
        };
        opened.inspect(|_| self.begins()).map_err(|source| {
            let (first, most) = BACKOFF;
            self.not_before = now() + first.saturating_mul(1 << self.failures.min(10)).min(most);
            self.failures += 1;
            Fault::NotSent(PostgresError::NotConnected { server: self.server().to_owned(), source }.into())
        })
    }

    /// The connection, once it is known to lead to the store that this process began with. A store that was emptied is
    /// told again who it is, before a host that starts now makes up something else.
    async fn recognized(&mut self, mut db: PgConnection, deadline: Instant) -> Result<PgConnection, Fault> {
        let Some(identity) = &self.place.identity else { return Ok(db) };
        if self.looked.is_some_and(|looked| now().saturating_duration_since(looked) < LOOK) {
            return Ok(db);
        }
        let document = call::document(&self.place.namespace, CALL_LIMIT, &ask::identity(identity));
        let asked = call::send(&mut db, self.place.address.transport, &call::IDENTITY, &document);
        let fault = match timeout_at(deadline, asked).await {
            Ok(Ok(rows)) => match answer::identity(&rows) {
                Ok(found) if found == *identity => {
                    self.looked = Some(now());
                    return Ok(db);
                }
                // An operator can put it right; what this process holds is not in that store.
                Ok(_) => Fault::Hindered(self.another()),
                Err(error) => {
                    let (server, reason) = (self.server().to_owned(), error.to_string());
                    Fault::Hindered(PostgresError::Unreadable { server, reason }.into())
                }
            },
            Ok(Err(error)) => Fault::of_call(self.server(), error),
            Err(_) => return Err(Fault::NotSent(self.late())),
        };
        if fault.leaves_the_connection() {
            self.db = Some(db);
        }
        // Whatever became of the question: what was to be called was not.
        Err(match fault {
            Fault::Unknown(error) => Fault::NotSent(error),
            fault => fault,
        })
    }

    fn another(&self) -> Shared {
        let (server, namespace) = (self.server().to_owned(), self.place.namespace.clone());
        PostgresError::Another { server, namespace }.into()
    }

    /// A connection that has served its time gets a successor. As long as none can be made it serves on.
    async fn succeed(&mut self, deadline: Instant) {
        if self.db.is_none() || now() < self.renew_at {
            return;
        }
        let (limit, pause) = SUCCESSION;
        match timeout_at(deadline.min(now() + limit), connect::open(&self.place.address)).await {
            Ok(Ok(db)) => {
                // Nothing is under way on the old one.
                self.db = Some(db);
                self.begins();
            }
            failed => {
                self.renew_at = now() + pause;
                tracing::info!(server = self.server(), ?failed, "a connection serves on: it has no successor yet");
            }
        }
    }

    /// There is a new connection.
    fn begins(&mut self) {
        self.looked = None;
        self.rehearsed = false;
        self.used = now();
        self.renew_at = self.used + LIFETIME + spread();
        self.failures = 0;
    }

    fn late(&self) -> Shared {
        PostgresError::Late { server: self.server().to_owned() }.into()
    }
}

/// Some part of [`SPREAD`].
fn spread() -> Duration {
    let mut part = [0];
    // Without random bits connections are only made anew at the same time.
    let _ = getrandom::fill(&mut part);
    SPREAD * u32::from(part[0]) / 256
}
