//! A connection that comes back by itself.

use std::time::Duration;

use sqlx::Connection;
use sqlx::postgres::PgConnection;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::address::Address;
use super::call::{self, Function, Row};
use super::connect;
use super::error::{Fault, PostgresError};

/// A connection that was idle for so long is asked whether it is still there before it is trusted with a call: then a
/// call is known not to have been sent, instead of perhaps.
pub(super) const TRUSTED: Duration = Duration::from_millis(500);

/// A connection is made anew after so long: its plans were made for the tables as they were, and its name may lead to
/// another server by now.
const LIFETIME: Duration = Duration::from_secs(15 * 60);

/// From one attempt to connect to the next, after the first and at most.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Between the time at which the server gives a lock up and the deadline, so that the caller learns what became of it.
pub(super) const MARGIN: Duration = Duration::from_millis(200);

/// The time of the tasks that serve connections. It measures how long calls take and decides about no lease.
#[allow(clippy::disallowed_methods, reason = "deadlines of calls in this process; this is their door")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// A connection, or the next attempt at one.
pub(super) struct Link {
    address: Address,
    namespace: String,
    db: Option<PgConnection>,
    opened: Instant,
    used: Instant,
    failures: u32,
    not_before: Instant,
}

impl Link {
    /// Connects with the first call.
    pub(super) fn new(address: Address, namespace: String) -> Link {
        let now = now();
        Link { address, namespace, db: None, opened: now, used: now, failures: 0, not_before: now }
    }

    pub(super) fn server(&self) -> &str {
        &self.address.shown
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
        let mut db = self.connected(deadline).await?;
        let left = deadline.saturating_duration_since(now()).saturating_sub(MARGIN);
        // A row that somebody holds and somebody else waits for is waited for twice: for one's turn, and for the row.
        let document = call::document(&self.namespace, patience.min(left / 2), ask);
        let sent = call::send(&mut db, self.address.transport, function, &document);
        let answer = timeout_at(deadline, sent).await;
        self.used = now();
        match answer {
            Ok(Ok(rows)) => {
                self.db = Some(db);
                Ok(rows)
            }
            Ok(Err(error)) => {
                let fault = Fault::of_call(&self.address.shown, error);
                if fault.leaves_the_connection() {
                    self.db = Some(db);
                }
                Err(fault)
            }
            // The answer may still come: the connection is given up with it.
            Err(_) => Err(Fault::Unknown(PostgresError::Late { server: self.address.shown.clone() }.into())),
        }
    }

    /// The connection: the one there is, if it still answers, or a new one.
    async fn connected(&mut self, deadline: Instant) -> Result<PgConnection, Fault> {
        if now().saturating_duration_since(self.opened) > LIFETIME {
            // Nothing is under way on it.
            self.db = None;
        }
        if let Some(mut db) = self.db.take() {
            if now().saturating_duration_since(self.used) < TRUSTED {
                return Ok(db);
            }
            match timeout_at(deadline, db.ping()).await {
                Ok(Ok(())) => return Ok(db),
                Ok(Err(error)) => tracing::info!(server = self.address.shown, %error, "a connection was lost"),
                Err(_) => return Err(Fault::NotSent(self.late())),
            }
        }
        if timeout_at(deadline, sleep_until(self.not_before)).await.is_err() {
            return Err(Fault::NotSent(self.late()));
        }
        let opened = match timeout_at(deadline, connect::open(&self.address)).await {
            Ok(opened) => opened,
            Err(_) => return Err(Fault::NotSent(self.late())),
        };
        self.opened = now();
        opened.inspect(|_| self.failures = 0).map_err(|source| {
            let (first, most) = BACKOFF;
            self.not_before = now() + first.saturating_mul(1 << self.failures.min(10)).min(most);
            self.failures += 1;
            Fault::NotSent(PostgresError::NotConnected { server: self.address.shown.clone(), source }.into())
        })
    }

    fn late(&self) -> super::error::Shared {
        PostgresError::Late { server: self.address.shown.clone() }.into()
    }
}
