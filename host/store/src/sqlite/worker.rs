//! A connection on a thread of its own.
//!
//! A call becomes a request in a bounded queue. The thread takes all requests that arrive, runs them in one transaction
//! and commits; they are answered once that is on the disk. A caller that gives up never cuts a statement, and calls that
//! come together share what a commit costs. Nobody waits for company.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use leasehold_lease::time::Millis;
use tokio::sync::{mpsc, oneshot};

use super::desk::Desk;
use super::error::{Fault, OpenError, SqliteError, described};
use super::flushes::Flushes;
use super::guard::FileGuard;
use super::turnstile::Turnstile;
use crate::clock::Clock;
use crate::error::StoreError;
use crate::view::CALL_LIMIT;

/// Requests that may wait. Callers beyond that wait to put theirs in.
pub(super) const QUEUE: usize = 1_024;

/// Requests that share a transaction at most, so that none waits long for the others.
pub(super) const BATCH: usize = 128;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// As `Write`, and before all other writers of this process.
    Heartbeat,
    /// Takes the write lock at the start: a read that turns into a write would fail at once instead of waiting.
    Write,
    /// Only looks.
    Read,
}

/// A thread with a connection. Dropping it serves what is in the queue, closes the connection and waits for that.
pub(super) struct Worker {
    queue: Option<mpsc::Sender<Box<dyn Request>>>,
    thread: Option<JoinHandle<()>>,
    path: Arc<Path>,
}

impl Worker {
    /// Starts the thread.
    pub(super) fn start(name: &str, path: &Arc<Path>, station: Station) -> Result<Worker, OpenError> {
        let (queue, requests) = mpsc::channel(QUEUE);
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || serve(&station, requests))
            .map_err(|source| OpenError::Thread { path: PathBuf::from(&**path), source })?;
        Ok(Worker { queue: Some(queue), thread: Some(thread), path: path.clone() })
    }

    /// Runs `work` inside a transaction and answers once it is committed and on the disk.
    ///
    /// `work` may run again after a transaction that was rolled back, so it must not consume its arguments.
    pub(super) async fn call<A: Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnMut(&Desk, Millis) -> Result<A, Fault> + Send + 'static,
    ) -> Result<A, StoreError> {
        let (reply, answer) = oneshot::channel();
        let call = Call { doing, path: self.path.clone(), work, done: None, reply };
        let ended = || Box::new(SqliteError::Ended { path: self.path.to_path_buf() });
        let queue = self.queue.as_ref().expect("the queue is closed only by drop");
        let mut queued = false;
        let asked = async {
            if queue.send(Box::new(call)).await.is_err() {
                return Err(StoreError::NotSent { doing, source: ended() });
            }
            queued = true;
            answer.await.unwrap_or_else(|_| Err(StoreError::Unknown { doing, source: ended() }))
        };
        match tokio::time::timeout(CALL_LIMIT, asked).await {
            Ok(answered) => answered,
            Err(_) => {
                let source = Box::new(SqliteError::slow(&self.path));
                // Once it is in the queue, whether it has begun is not known here.
                Err(if queued { StoreError::Unknown { doing, source } } else { StoreError::NotSent { doing, source } })
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.queue = None;
        let Some(thread) = self.thread.take() else { return };
        if let Err(panic) = thread.join() {
            tracing::error!(path = %self.path.display(), panic = said(&*panic), "a thread of the store panicked");
        }
    }
}

/// What became of a transaction.
pub(super) enum Fate<'a> {
    Committed,
    /// It was rolled back, because of this.
    RolledBack(&'a Fault),
    /// The commit, or putting it on the disk, failed: it may be in the file or not.
    Uncertain(&'a Fault),
}

/// One call in the queue.
pub(super) trait Request: Send {
    /// Whether anybody still waits for the answer.
    fn wanted(&self) -> bool;
    /// Runs it; on `false` the transaction is to be rolled back.
    fn run(&mut self, desk: &Desk, now: Millis) -> bool;
    /// Tells the caller.
    fn answer(self: Box<Self>, fate: &Fate<'_>);
}

struct Call<A, W> {
    doing: &'static str,
    path: Arc<Path>,
    work: W,
    done: Option<Result<A, Fault>>,
    reply: oneshot::Sender<Result<A, StoreError>>,
}

impl<A: Send, W: FnMut(&Desk, Millis) -> Result<A, Fault> + Send> Request for Call<A, W> {
    fn wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn run(&mut self, desk: &Desk, now: Millis) -> bool {
        // A rule that finds a record which cannot be stops this request and no other (S14).
        let result = catch_unwind(AssertUnwindSafe(|| (self.work)(desk, now)))
            .unwrap_or_else(|panic| Err(Fault::RuleBroken(said(&*panic).to_owned())));
        self.done.insert(result).is_ok()
    }

    fn answer(self: Box<Self>, fate: &Fate<'_>) {
        let (path, doing) = (&self.path, self.doing);
        let answer = match (self.done, fate) {
            // Its own fault says more than what that did to the transaction.
            (Some(Err(fault)), _) => Err(fault.rolled_back(path, doing)),
            (_, Fate::RolledBack(fault)) => Err(fault.rolled_back(path, doing)),
            (_, Fate::Uncertain(fault)) => Err(fault.uncommitted(path, doing)),
            (Some(Ok(answer)), Fate::Committed) => Ok(answer),
            (None, Fate::Committed) => unreachable!("a request is run before its transaction is committed"),
        };
        // A caller that has given up meanwhile sends the same again (S13).
        let _ = self.reply.send(answer);
    }
}

/// What a thread works with.
pub(super) struct Station {
    pub(super) desk: Desk,
    pub(super) file: FileGuard,
    pub(super) access: Access,
    pub(super) turnstile: Arc<Turnstile>,
    /// None where nothing of this process writes.
    pub(super) flushes: Option<Arc<Flushes>>,
    pub(super) clock: Clock,
    /// Requests that share a transaction at most.
    pub(super) batch: usize,
}

/// Requests that share a transaction.
pub(super) type Batch = Vec<Box<dyn Request>>;

/// Requests that were carried out, and the number of commits that took.
type Carried = (Batch, u64);

fn serve(station: &Station, mut requests: mpsc::Receiver<Box<dyn Request>>) {
    while let Some(first) = requests.blocking_recv() {
        let mut arrived = std::iter::once(first)
            .chain(std::iter::from_fn(|| requests.try_recv().ok()))
            .take(station.batch)
            // Nobody waits for the others any more, and they have not begun.
            .filter(|request| request.wanted());
        if station.access == Access::Read {
            // S12: a look that begins later must not see less, so all of a batch are here before it sees anything.
            station.look(arrived.collect());
        } else {
            station.change(&mut arrived);
        }
    }
}

impl Station {
    /// Carries out changes. While the disk is busy with the commit before, those that arrive are part of the transaction:
    /// it could not be flushed yet. Once the disk is free it is committed at once, or all callers would soon wait for the
    /// same flush, and the writer with them: measured with 50 callers, it stood still for 40 % of the time.
    fn change(&self, arriving: &mut dyn Iterator<Item = Box<dyn Request>>) {
        let (batch, commits) = {
            let _turn = self.turnstile.enter(self.access == Access::Heartbeat);
            self.transact(arriving.collect(), arriving)
        };
        match &self.flushes {
            Some(flushes) if commits > 0 => flushes.answer(batch, commits),
            // Without a commit nothing is left to answer.
            _ => tell(batch, &Fate::Committed),
        }
    }

    /// Answers looks. Those who only look wait for nobody: they see what was committed last.
    fn look(&self, batch: Batch) {
        let (batch, _) = self.transact(batch, &mut std::iter::empty());
        match &self.flushes {
            Some(flushes) => flushes.answer_looks(batch),
            None => tell(batch, &Fate::Committed),
        }
    }

    /// Runs requests in one transaction. Answers those whose transaction failed, and returns the others.
    fn transact(&self, mut batch: Batch, arriving: &mut dyn Iterator<Item = Box<dyn Request>>) -> Carried {
        if batch.is_empty() {
            return (batch, 0);
        }
        // A look that sees what was committed by now is answered with this time. Later, after a slow look of the same
        // batch, leases would seem to have run out that were renewed meanwhile.
        let looked_at = (self.access == Access::Read).then(|| (self.clock)());
        if let Err(fault) = self.begin() {
            return self.failed(batch, &Fate::RolledBack(&fault));
        }
        let mut next = 0;
        while next < batch.len() {
            // The time of a change is read once the lock is held: before that it may stand still for as long as others
            // write.
            let done = batch[next].run(&self.desk, looked_at.unwrap_or_else(|| (self.clock)()));
            // On a full disk or a failed read SQLite may have rolled everything back by itself.
            if !done || self.desk.is_autocommit() {
                return self.apart(batch);
            }
            next += 1;
            if self.is_disk_busy() {
                batch.extend(&mut *arriving);
            }
        }
        match self.commit() {
            Ok(()) => (batch, 1),
            Err(fault) => self.failed(batch, &Fate::Uncertain(&fault)),
        }
    }

    fn is_disk_busy(&self) -> bool {
        self.flushes.as_ref().is_none_or(|flushes| flushes.are_owed())
    }

    fn begin(&self) -> Result<(), Fault> {
        self.file.check()?;
        self.step(match self.access {
            Access::Heartbeat | Access::Write => "BEGIN IMMEDIATE",
            Access::Read => "BEGIN",
        })?;
        self.desk.begun()
    }

    fn commit(&self) -> Result<(), Fault> {
        match (&self.flushes, self.access) {
            (Some(flushes), Access::Heartbeat | Access::Write) => flushes.commit(|| self.step("COMMIT")),
            _ => self.step("COMMIT"),
        }
    }

    /// One of these requests failed, which undoes what the others of its transaction did: each gets one of its own.
    fn apart(&self, batch: Batch) -> Carried {
        if batch.len() == 1 {
            let fault = Fault::Sql(described("the transaction was rolled back".into()));
            return self.failed(batch, &Fate::RolledBack(&fault));
        }
        self.roll_back();
        let (mut carried, mut commits) = (Vec::new(), 0);
        for request in batch {
            let (one, more) = self.transact(vec![request], &mut std::iter::empty());
            carried.extend(one);
            commits += more;
        }
        (carried, commits)
    }

    fn failed(&self, batch: Batch, fate: &Fate<'_>) -> Carried {
        self.roll_back();
        tell(batch, fate);
        (Vec::new(), 0)
    }

    fn step(&self, sql: &'static str) -> Result<(), Fault> {
        self.desk.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    /// Leaves no transaction open.
    fn roll_back(&self) {
        self.desk.forget();
        if !self.desk.is_autocommit()
            && let Err(fault) = self.step("ROLLBACK")
        {
            tracing::error!(?fault, "the store could not roll a transaction back");
        }
    }
}

/// Tells each what became of its request.
pub(super) fn tell(batch: Batch, fate: &Fate<'_>) {
    batch.into_iter().for_each(|request| request.answer(fate));
}

/// The words of a panic.
pub(super) fn said(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}
