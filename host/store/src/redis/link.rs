//! A connection that comes back.
//!
//! A keeper, a task of each link, makes the connection and makes it anew when it is lost. Calls take what is there;
//! while there is none and the last try has failed they fail at once. A call that gets no answer in time gives the
//! connection up, for the ones after it; those that are under way on it still get their answers.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::{AsyncConnectionConfig, Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::call::Call;
use super::error::{CallError, ConnectError};
use super::server::Server;
use super::trouble::Trouble;
use super::waiting::Together;
use crate::error::StoreError;
use crate::view::CALL_LIMIT;

/// How long making a connection may take.
pub(super) const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// How long the keeper rests after a failure: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// How long it rests when the server has said that the user may not listen, which polling stands in for.
const FORBIDDEN_PAUSE: Duration = Duration::from_secs(60);

/// How often the keeper asks whether the store is still the one it was: see [`Server::meet`].
const LOOK: Duration = Duration::from_secs(5);

/// By when a call has to end.
#[derive(Clone, Copy)]
pub(super) struct Limit(Instant);

impl Limit {
    /// That of a call which begins now.
    pub(super) fn of_a_call() -> Limit {
        Limit(sleep(CALL_LIMIT).deadline())
    }
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Calls.
    Calls,
    /// Hearing what other hosts say on the channel.
    Listening,
}

/// A connection that comes back.
pub(super) struct Link {
    server: Arc<Server>,
    state: watch::Receiver<State>,
    lost: watch::Sender<u64>,
    keeper: JoinHandle<()>,
    together: Together,
}

/// What calls find.
#[derive(Clone)]
enum State {
    /// The keeper is making a connection, for the first time or after a loss.
    Connecting,
    /// There is one.
    Up(Line),
    /// The last try has failed.
    Down(Arc<ConnectError>),
}

/// One connection, as long as it lasts.
#[derive(Clone)]
pub(super) struct Line {
    number: u64,
    connection: Connection,
}

/// To one server, or to all of a cluster.
#[derive(Clone)]
pub(super) enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Link {
    /// Starts the keeper on this runtime, where its connections then live.
    pub(super) fn new(server: Arc<Server>, purpose: Purpose, runtime: &Handle) -> Link {
        let (set, state) = watch::channel(State::Connecting);
        let lost = watch::Sender::new(0);
        let keeper = runtime.spawn(keep(server.clone(), purpose, set, lost.clone()));
        Link { server, state, lost, keeper, together: Together::default() }
    }

    /// Waits until a connection was made, or one could not be.
    pub(super) async fn settled(&self) {
        // An error is told by the calls.
        let _ = self.line().await;
    }

    /// Asks, within the limit of a call.
    pub(super) async fn call(&self, doing: &'static str, call: &Call) -> Result<Value, StoreError> {
        self.call_by(Limit::of_a_call(), doing, call).await
    }

    /// The same, by this limit: of a verb that takes several calls.
    pub(super) async fn call_by(&self, limit: Limit, doing: &'static str, call: &Call) -> Result<Value, StoreError> {
        self.bounded(limit, doing, call, 0).await
    }

    /// The same for a change, which must reach replicas where the URL asks for that.
    pub(super) async fn change(&self, doing: &'static str, call: &Call) -> Result<Value, StoreError> {
        self.change_by(Limit::of_a_call(), doing, call).await
    }

    /// The same, by this limit.
    pub(super) async fn change_by(&self, limit: Limit, doing: &'static str, call: &Call) -> Result<Value, StoreError> {
        self.bounded(limit, doing, call, self.server.config.wait).await
    }

    async fn bounded(
        &self,
        limit: Limit,
        doing: &'static str,
        call: &Call,
        replicas: u32,
    ) -> Result<Value, StoreError> {
        let (server, limit_ms) = (self.server.config.server.clone(), CALL_LIMIT.as_millis());
        let mut sent_on = None;
        let work = async {
            let mut line = self.line().await.map_err(|error| CallError::Down(error).not_sent(doing))?;
            sent_on = Some(line.number);
            let answer = line.connection.run(call).await.map_err(|error| self.failed(doing, line.number, error))?;
            self.replicated(doing, &mut line, replicas).await?;
            Ok(answer)
        };
        match timeout_at(limit.0, work).await {
            Ok(answer) => answer,
            Err(_) => match sent_on {
                None => Err(CallError::NoConnection { server, limit_ms }.not_sent(doing)),
                Some(number) => {
                    self.give_up(number);
                    Err(CallError::Silent { server, limit_ms }.unknown(doing))
                }
            },
        }
    }

    /// The connection, once there is one.
    async fn line(&self) -> Result<Line, Arc<ConnectError>> {
        let mut state = self.state.clone();
        loop {
            match &*state.borrow_and_update() {
                // One that was given up a moment ago is not used again, though the keeper has not seen it yet.
                State::Up(line) if line.number > *self.lost.borrow() => return Ok(line.clone()),
                State::Up(_) => {}
                State::Down(error) => return Err(error.clone()),
                State::Connecting => {}
            }
            // The keeper ends with the link, so it is there while somebody waits.
            if state.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until enough replicas know what was done on this connection.
    async fn replicated(&self, doing: &'static str, line: &mut Line, wanted: u32) -> Result<(), StoreError> {
        if wanted == 0 {
            return Ok(());
        }
        let server = self.server.config.server.clone();
        // Whatever goes wrong from here on: the change has been made.
        match self.together.wait(line.number, &mut line.connection, wanted).await {
            Ok(acknowledged) if acknowledged >= i64::from(wanted) => Ok(()),
            Ok(acknowledged) => Err(CallError::TooFewReplicas { server, acknowledged, wanted }.unknown(doing)),
            Err(source) => {
                self.give_up(line.number);
                Err(CallError::Redis { server, source }.unknown(doing))
            }
        }
    }

    /// What an error says about the effect, and about the connection.
    fn failed(&self, doing: &'static str, number: u64, source: RedisError) -> StoreError {
        let trouble = Trouble::of(&source);
        if trouble.needs_another_connection() {
            self.give_up(number);
        }
        let error = CallError::Redis { server: self.server.config.server.clone(), source };
        // In a cluster the crate may have sent it before, to one that did not answer: this is the last answer only.
        let sent_before = self.server.facts.cluster && trouble.passes();
        if trouble.may_have_happened() || sent_before {
            error.unknown(doing)
        } else if trouble.passes() {
            error.not_sent(doing)
        } else {
            StoreError::Rejected { doing, source: Box::new(error) }
        }
    }

    /// Lets the keeper make a new connection instead of this one. The crate looks after those of a cluster.
    fn give_up(&self, number: u64) {
        if !self.server.facts.cluster {
            lose(&self.lost, number);
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

fn lose(lost: &watch::Sender<u64>, number: u64) {
    lost.send_if_modified(|newest| {
        let news = number > *newest;
        *newest = number.max(*newest);
        news
    });
}

/// Makes connections, one after the other, as long as the link lives.
async fn keep(server: Arc<Server>, purpose: Purpose, state: watch::Sender<State>, lost: watch::Sender<u64>) {
    let mut pause = PAUSE.0;
    for number in 1.. {
        let told = lost.clone();
        let mut rest = None;
        match server.connect(purpose, move || lose(&told, number)).await {
            Ok(connection) => {
                tracing::debug!(server = %server.config.server, ?purpose, number, "connected");
                state.send_replace(State::Up(Line { number, connection: connection.clone() }));
                let ended = until_lost(&server, purpose, connection, lost.subscribe(), number).await;
                tracing::debug!(server = %server.config.server, ?purpose, number, "connection lost");
                state.send_replace(State::Connecting);
                match ended {
                    Ended::Lost { steady: true } => pause = PAUSE.0,
                    // Whatever ends connections as soon as they are made must not keep us and the server busy.
                    Ended::Lost { steady: false } => rest = Some(pause),
                    Ended::Unfit(error) => {
                        down(&server, purpose, &state, error);
                        rest = Some(pause);
                    }
                }
            }
            Err(error) => {
                let forbidden = matches!(error, ConnectError::NotPermitted { .. }) && purpose == Purpose::Listening;
                down(&server, purpose, &state, error);
                rest = Some(if forbidden { FORBIDDEN_PAUSE } else { pause });
            }
        }
        if let Some(rest) = rest {
            sleep(rest).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }
}

/// How a connection ended.
enum Ended {
    /// It was lost. A steady one had lasted until it was looked at once.
    Lost { steady: bool },
    /// The store is not the one it was, or does not tell.
    Unfit(ConnectError),
}

/// Waits until the connection is lost, and looks now and then whether the store is still the one it was.
async fn until_lost(
    server: &Server,
    purpose: Purpose,
    mut connection: Connection,
    mut lost: watch::Receiver<u64>,
    number: u64,
) -> Ended {
    let mut steady = false;
    loop {
        // The sender lives as long as the keeper, so the wait ends only when the connection is lost.
        if timeout(LOOK, lost.wait_for(|newest| *newest >= number)).await.is_ok() {
            return Ended::Lost { steady };
        }
        if purpose == Purpose::Calls
            && let Err(error) = server.look(&mut connection).await
        {
            return Ended::Unfit(error);
        }
        steady = true;
    }
}

/// Lets calls fail with this error from now on. What is said once is not said again until there was a connection.
fn down(server: &Server, purpose: Purpose, state: &watch::Sender<State>, error: ConnectError) {
    if matches!(*state.borrow(), State::Connecting) {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(server = %server.config.server, ?purpose, error, "no connection to the store");
    }
    state.send_replace(State::Down(Arc::new(error)));
}

impl Connection {
    /// Asks. A script that the server has lost is sent in full; it has not run, so this is no second effect.
    pub(super) async fn run(&mut self, call: &Call) -> RedisResult<Value> {
        match self.send(call.cmd()).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => match call.in_full() {
                Some(full) => self.send(&full).await,
                None => Err(error),
            },
            answer => answer,
        }
    }

    async fn send(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        let answer = match self {
            Connection::Single(connection) => connection.req_packed_command(cmd).await,
            Connection::Cluster(connection) => connection.req_packed_command(cmd).await,
        };
        answer.and_then(Value::extract_error)
    }
}

/// How connections to one server are made: the limits are ours, the crate's own are shorter than a call may take.
pub(super) fn settings() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None)
}
