//! Calls in a queue, and the tasks that serve it, each with a connection of its own.
//!
//! A task takes what has arrived. Requests about jobs that arrived together travel in one call and share its commit;
//! nobody waits for company. The task owns its connection, so a caller that gives up never cuts a call.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::Instant;

use super::call::{BATCH, Function, Row, join};
use super::error::{ConnectError, Fault, PostgresError, Shared};
use super::link::{Link, MARGIN, Place, now};
use crate::error::StoreError;
use crate::view::CALL_LIMIT;

/// Calls that may wait. Callers beyond that wait to put theirs in.
const QUEUE: usize = 1_024;

/// Requests that share a call at most, so that none waits long for the others.
const TOGETHER: usize = 64;

/// How long the text of requests that share a call may be, in bytes: one is read as a whole, and takes as much memory
/// several times over. A longer request goes alone.
const TOGETHER_BYTES: usize = 1024 * 1024;

/// How long a call waits for a lock. Who holds one for longer than that is stuck, and so would be the connection that
/// waits: the caller is told, and sends again (S14).
const PATIENCE: Duration = Duration::from_millis(700);

/// How long a call of many waits for one job's lock, before each goes alone. Meanwhile it holds the rows of the others,
/// whose heartbeats wait a little longer than that.
pub(super) const SHORT: Duration = Duration::from_millis(250);

/// How long each then waits, as long as all that did so have not waited for [`SHORT`] in sum.
const SHORTEST: Duration = Duration::from_millis(50);

/// How long those after them do: only whoever takes a lock for a moment lets them through.
const A_MOMENT: Duration = Duration::from_millis(2);

/// How long a call waits for a lock on a connection that has met a job that is stuck.
const WARY: Duration = Duration::from_millis(200);

/// For how long a connection remembers that. Who holds a job that long is asked about by its host again and again.
const WARY_FOR: Duration = Duration::from_secs(3);

/// When a connection of a lane that is to be quick is made ready, as soon as no call waits; the next one after twice as long,
/// so that there is always one that serves. Who came for one call is gone by then.
const IDLE: Duration = Duration::from_secs(1);

/// How often a call that met others is repeated.
const REPEATS: u32 = 5;

/// Where calls wait. Dropping it serves what is in the queue and closes the connections.
#[derive(Clone)]
pub(super) struct Lane {
    queue: mpsc::Sender<Work>,
    server: Arc<str>,
}

/// Rows, or what became of the call.
pub(super) type Answer = Result<Vec<Row>, Fault>;

/// One call in the queue.
struct Work {
    ask: Ask,
    /// How long it may wait for a lock.
    patience: Duration,
    deadline: Instant,
    reply: oneshot::Sender<Answer>,
}

impl Work {
    /// How long its text is.
    fn bytes(&self) -> usize {
        match &self.ask {
            Ask::Request(text) | Ask::Call(_, text) => text.len(),
        }
    }
}

enum Ask {
    /// About a job: may share a call.
    Request(String),
    /// A call of its own.
    Call(&'static Function, String),
}

impl Lane {
    /// Starts this many tasks. Each connects with its first call.
    pub(super) fn start(place: &Arc<Place>, connections: usize) -> Lane {
        let links = (0..connections).map(|_| (Link::new(place.clone()), None)).collect();
        Lane::serve(place, links, &Handle::current())
    }

    /// The same for calls that something waits for while it stands still: an idle connection is kept ready.
    pub(super) fn start_quick(place: &Arc<Place>, connections: usize) -> Lane {
        let links = (1..).take(connections).map(|nth| (Link::new(place.clone()), Some(IDLE * nth))).collect();
        Lane::serve(place, links, &Handle::current())
    }

    /// The same on another runtime, once all are connected: no call has to wait for that.
    pub(super) async fn connect(
        place: &Arc<Place>,
        connections: usize,
        runtime: &Handle,
    ) -> Result<Lane, ConnectError> {
        let mut links = Vec::with_capacity(connections);
        for _ in 0..connections {
            let mut link = Link::new(place.clone());
            // A connection belongs to the runtime that it was made on.
            let connected = runtime.spawn(async move { link.connect().await.map(|()| link) });
            links.push((connected.await.map_err(|error| ConnectError::Thread(error.into()))??, None));
        }
        Ok(Lane::serve(place, links, runtime))
    }

    fn serve(place: &Place, links: Vec<(Link, Option<Duration>)>, runtime: &Handle) -> Lane {
        let (queue, requests) = mpsc::channel(QUEUE);
        let queued = Arc::new(Mutex::new(Queued { requests, next: None }));
        for (link, idle) in links {
            runtime.spawn(serve(link, queued.clone(), idle));
        }
        Lane { queue, server: place.address.shown.as_str().into() }
    }

    /// Carries out one request about a job. Answers its row.
    pub(super) async fn request(&self, doing: &'static str, ask: String) -> Result<Row, StoreError> {
        let entered = self.enter_request(ask, deadline()).await;
        self.row(doing, entered.answer().await)
    }

    /// Puts a request about a job into the queue.
    pub(super) async fn enter_request(&self, ask: String, deadline: Instant) -> Entered {
        self.enter(Ask::Request(ask), PATIENCE, deadline).await
    }

    /// The one row of a request.
    pub(super) fn row(&self, doing: &'static str, answer: Answer) -> Result<Row, StoreError> {
        let rows = answer.map_err(|fault| fault.told(doing))?;
        rows.into_iter().next().ok_or_else(|| self.done_or_not(doing, "a request was not answered"))
    }

    /// Puts a call of its own into the queue; it waits for a lock as long as `patience` says.
    pub(super) async fn enter_call(
        &self,
        function: &'static Function,
        ask: String,
        patience: Duration,
        deadline: Instant,
    ) -> Entered {
        self.enter(Ask::Call(function, ask), patience, deadline).await
    }

    /// Calls a function on its own.
    pub(super) async fn call(
        &self,
        doing: &'static str,
        function: &'static Function,
        ask: String,
    ) -> Result<Vec<Row>, StoreError> {
        let entered = self.enter_call(function, ask, PATIENCE, deadline()).await;
        entered.answer().await.map_err(|fault| fault.told(doing))
    }

    /// Of an answer to a question that is not understood.
    pub(super) fn unreadable(&self, doing: &'static str, reason: impl ToString) -> StoreError {
        StoreError::Rejected { doing, source: Box::new(self.not_understood(reason)) }
    }

    /// Of an answer that is not understood, where what it answers may have been done.
    pub(super) fn done_or_not(&self, doing: &'static str, reason: impl ToString) -> StoreError {
        StoreError::Unknown { doing, source: Box::new(self.not_understood(reason)) }
    }

    fn not_understood(&self, reason: impl ToString) -> PostgresError {
        PostgresError::Unreadable { server: self.server.to_string(), reason: reason.to_string() }
    }

    async fn enter(&self, ask: Ask, patience: Duration, deadline: Instant) -> Entered {
        let (reply, answer) = oneshot::channel();
        let ended: Shared = PostgresError::Ended { server: self.server.to_string() }.into();
        let work = Work { ask, patience, deadline, reply };
        match tokio::time::timeout_at(deadline, self.queue.send(work)).await {
            Ok(Ok(())) => Entered::Waits(answer, ended),
            Ok(Err(_)) => Entered::Failed(Fault::NotSent(ended)),
            Err(_) => Entered::Failed(Fault::NotSent(PostgresError::Busy { server: self.server.to_string() }.into())),
        }
    }
}

/// A call that was put into the queue, or not.
pub(super) enum Entered {
    /// Its answer comes here; the other is what to say when the task ends before.
    Waits(oneshot::Receiver<Answer>, Shared),
    Failed(Fault),
}

impl Entered {
    /// Waits for the answer.
    pub(super) async fn answer(self) -> Answer {
        match self {
            Entered::Waits(answer, ended) => answer.await.unwrap_or(Err(Fault::Unknown(ended))),
            Entered::Failed(fault) => Err(fault),
        }
    }
}

/// Until when a call that begins now may take.
pub(super) fn deadline() -> Instant {
    now() + CALL_LIMIT
}

/// Whether a call that is sent now may still be answered in time: with less than the margin left the server would not
/// wait for any lock.
pub(super) fn has_time(deadline: Instant) -> bool {
    now() + MARGIN < deadline
}

/// What waits for any of the tasks of a lane.
struct Queued {
    requests: mpsc::Receiver<Work>,
    /// Taken out and put back.
    next: Option<Work>,
}

impl Queued {
    /// The next call with the requests that may share it; none when the lane is gone.
    async fn take(&mut self) -> Option<Vec<Work>> {
        let first = match self.next.take() {
            Some(work) => work,
            None => self.requests.recv().await?,
        };
        let mut together = vec![first];
        let mut bytes = together[0].bytes();
        while matches!(together[0].ask, Ask::Request(_)) && together.len() < TOGETHER {
            let Ok(work) = self.requests.try_recv() else { break };
            bytes += work.bytes();
            if !matches!(work.ask, Ask::Request(_)) || bytes > TOGETHER_BYTES {
                self.next = Some(work);
                break;
            }
            together.push(work);
        }
        Some(together)
    }
}

/// How long the calls of a connection wait for locks: less after one was not given, so that others have the connection
/// (S14).
struct Patience {
    wary_until: Instant,
}

impl Patience {
    fn of_many(&self) -> Duration {
        if now() < self.wary_until { SHORTEST } else { SHORT }
    }

    fn of_one(&self, work: &Work) -> Duration {
        if now() < self.wary_until { work.patience.min(WARY) } else { work.patience }
    }

    fn learn(&mut self, answer: &Answer) {
        if matches!(answer, Err(Fault::Locked(_))) {
            self.wary_until = now() + WARY_FOR;
        }
    }
}

/// Serves with one connection. `idle`: after how long it is made ready for calls, if it is.
async fn serve(mut link: Link, queued: Arc<Mutex<Queued>>, idle: Option<Duration>) {
    let mut patience = Patience { wary_until: now() };
    let mut care_at = idle.map(|idle| now() + idle);
    loop {
        // Those who were just answered come first: what they ask for next then shares the next call. This takes no time
        // where nobody else wants to run.
        tokio::task::yield_now().await;
        let taking = async { queued.lock().await.take().await };
        let taken = tokio::select! {
            biased;
            taken = taking => taken,
            () = reached(care_at) => {
                care_at = Some(link.care().await);
                continue;
            }
        };
        let Some(mut works) = taken else { return };
        // Nobody waits for these any more, and they have not begun.
        works.retain(|work| !work.reply.is_closed());
        let mut in_time = Vec::with_capacity(works.len());
        for work in works {
            if !has_time(work.deadline) {
                let busy = PostgresError::Busy { server: link.server().to_owned() };
                tell(work, Err(Fault::NotSent(busy.into())));
            } else {
                in_time.push(work);
            }
        }
        let was_ready = link.is_ready();
        match in_time.len() {
            0 => {}
            1 => alone(&mut link, &mut patience, in_time.remove(0)).await,
            _ => together(&mut link, &mut patience, in_time).await,
        }
        // A call has made it anew, or lost it.
        if was_ready && !link.is_ready() {
            care_at = idle.map(|idle| now() + idle);
        }
    }
}

/// Waits for an instant; for ever where there is none.
async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Sends many requests in one call. If one spoils it, each goes alone.
async fn together(link: &mut Link, patience: &mut Patience, works: Vec<Work>) {
    let ask = batch(works.iter().map(|work| &work.ask));
    let deadline = works.iter().map(|work| work.deadline).min().unwrap_or_else(deadline);
    let fault = match repeated(link, &BATCH, &ask, patience.of_many(), deadline).await {
        Ok(rows) => return hand_out(link, works, rows),
        Err(fault) => fault,
    };
    if fault.concerns_all() {
        return works.into_iter().for_each(|work| tell(work, Err(fault.clone())));
    }
    // S14: a job whose row is held, or whose record is damaged, stands in nobody's way but its own.
    let mut waited = Duration::ZERO;
    for work in works {
        let began = now();
        let waits = if waited < SHORT { SHORTEST } else { A_MOMENT };
        let answer = repeated_alone(link, &work, waits).await;
        patience.learn(&answer);
        if matches!(answer, Err(Fault::Locked(_))) {
            waited += now() - began;
        }
        tell(work, answer);
    }
}

/// Sends one call.
async fn alone(link: &mut Link, patience: &mut Patience, work: Work) {
    let answer = repeated_alone(link, &work, patience.of_one(&work)).await;
    patience.learn(&answer);
    tell(work, answer);
}

async fn repeated_alone(link: &mut Link, work: &Work, patience: Duration) -> Answer {
    match &work.ask {
        Ask::Request(request) => repeated(link, &BATCH, &batch_of(&[request]), patience, work.deadline).await,
        Ask::Call(function, ask) => repeated(link, function, ask, patience, work.deadline).await,
    }
}

/// Sends a call, and at once again when it met others and was rolled back.
async fn repeated(link: &mut Link, function: &Function, ask: &str, patience: Duration, deadline: Instant) -> Answer {
    let mut repeats = 0;
    loop {
        match link.call(function, ask, patience, deadline).await {
            Err(Fault::Conflict(_)) if repeats < REPEATS => repeats += 1,
            answer => return answer,
        }
    }
}

/// The fields of a batch of these requests.
fn batch<'a>(asks: impl Iterator<Item = &'a Ask>) -> String {
    let requests: Vec<&str> = asks
        .filter_map(|ask| match ask {
            Ask::Request(request) => Some(request.as_str()),
            Ask::Call(..) => None,
        })
        .collect();
    batch_of(&requests)
}

pub(super) fn batch_of<S: AsRef<str>>(requests: &[S]) -> String {
    let mut text = String::from("{\"requests\":[");
    for (ordinal, request) in requests.iter().enumerate() {
        if ordinal > 0 {
            text.push(',');
        }
        let ordinal = ["{\"ordinal\":", &ordinal.to_string(), "}"].concat();
        text.push_str(&join(&ordinal, request.as_ref()));
    }
    text.push_str("]}");
    text
}

/// Gives each request its row.
fn hand_out(link: &Link, works: Vec<Work>, rows: Vec<Row>) {
    let mut slots: Vec<Option<Row>> = works.iter().map(|_| None).collect();
    for row in rows {
        if let Some(slot) = usize::try_from(row.ordinal).ok().and_then(|ordinal| slots.get_mut(ordinal)) {
            *slot = Some(row);
        }
    }
    for (work, row) in works.into_iter().zip(slots) {
        let missing = || {
            let reason = "a request was not answered".to_owned();
            Fault::Unknown(PostgresError::Unreadable { server: link.server().to_owned(), reason }.into())
        };
        tell(work, row.map(|row| vec![row]).ok_or_else(missing));
    }
}

/// A caller that has given up meanwhile sends the same again (S13).
fn tell(work: Work, answer: Answer) {
    let _ = work.reply.send(answer);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A payload is up to a mebibyte: sixty-four of them are not one call.
    #[tokio::test]
    async fn long_requests_do_not_travel_together() {
        let (queue, requests) = mpsc::channel(QUEUE);
        let mut queued = Queued { requests, next: None };
        for bytes in [10, 2 * TOGETHER_BYTES, TOGETHER_BYTES / 2, TOGETHER_BYTES / 2, 1, 1] {
            let (reply, _) = oneshot::channel();
            let work = Work { ask: Ask::Request("x".repeat(bytes)), patience: PATIENCE, deadline: deadline(), reply };
            queue.try_send(work).unwrap_or_else(|_| panic!("there is room"));
        }
        drop(queue);
        let mut calls = Vec::new();
        while let Some(works) = queued.take().await {
            calls.push(works.len());
        }
        assert_eq!(calls, [1, 1, 2, 2], "all go, in their order");
    }
}
