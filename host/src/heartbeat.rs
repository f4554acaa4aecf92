//! Heartbeats of all running attempts, on a thread, runtime and store connection of their own: nothing that a guest or
//! the rest of the host does can delay them.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use leasehold_lease::agent::Input;
use leasehold_lease::holding::{Act, Holding, Sign};
use leasehold_lease::id::{JobKey, RunId, Token};
use leasehold_lease::op::{Heartbeat, HeartbeatAnswer, Stamped};
use leasehold_lease::policy::Policy;
use leasehold_lease::run::Progress;
use leasehold_lease::time::Mono;
use leasehold_sandbox::{Signal, StopReason};
use leasehold_store::{Each, LeaseStore};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinSet};

use crate::causes::chain;
use crate::clock::{self, StoreClock};
use crate::driver::{CLOCK_TOLD_WITHIN, Down, News, NewsSender, Side, log_failure};
use crate::gate::GateKeeper;

/// An attempt whose lease is to be kept.
pub(crate) struct Hold {
    /// Its job.
    pub(crate) job: JobKey,
    /// Its run.
    pub(crate) run: RunId,
    /// Its token.
    pub(crate) token: Token,
    /// The policy it was claimed with.
    pub(crate) policy: Policy,
    /// When its claim was first sent.
    pub(crate) first_sent: Mono,
    /// Its guest; none while the start waits for the first acknowledged heartbeat.
    pub(crate) guest: Option<Guest>,
}

/// What heartbeats do to a guest, and take from it.
pub(crate) struct Guest {
    /// Tells it that the run is lost.
    pub(crate) signal: Signal,
    /// Its newest progress rides on the heartbeat.
    pub(crate) progress: watch::Receiver<Option<leasehold_sandbox::Progress>>,
    /// Opens and closes the gate in front of its effects.
    pub(crate) gate: GateKeeper,
}

enum Order {
    Hold(Box<Hold>),
    Drop(Token),
    /// Renew the leases of this job no more.
    LetGo(JobKey),
    /// Send a heartbeat for it now, and answer when it is acknowledged.
    Confirm(Token, oneshot::Sender<()>),
}

/// Asks the store through the heartbeat thread whether an attempt holds its run. It does not keep that thread.
#[derive(Debug, Clone)]
pub(crate) struct Confirmer {
    orders: mpsc::WeakUnboundedSender<Order>,
    token: Token,
}

impl Confirmer {
    /// Returns once a heartbeat that was sent after this call is acknowledged. False when its lease is not kept: it is
    /// lost, given up, or not yet taken over by the thread.
    pub(crate) async fn confirmed(&self) -> bool {
        let (answer, answered) = oneshot::channel();
        let sent = self.orders.upgrade().is_some_and(|orders| orders.send(Order::Confirm(self.token, answer)).is_ok());
        sent && answered.await.is_ok()
    }
}

/// The way to the heartbeat thread. Dropping this ends the thread and waits for that, so that nobody has the store open
/// any more.
pub(crate) struct Heart {
    orders: Option<mpsc::UnboundedSender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl Heart {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread or no timer to give.
    pub(crate) fn start(
        store: Arc<dyn LeaseStore>,
        store_clock: Arc<StoreClock>,
        news: NewsSender,
        down: Down,
    ) -> io::Result<Heart> {
        Heart::start_watched(store, store_clock, news, down, None)
    }

    /// Likewise; `sent` is told of every heartbeat when it is sent.
    ///
    /// # Errors
    /// As for [`Heart::start`].
    pub(crate) fn start_watched(
        store: Arc<dyn LeaseStore>,
        store_clock: Arc<StoreClock>,
        news: NewsSender,
        down: Down,
        sent: Option<Sent>,
    ) -> io::Result<Heart> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().enable_io().build()?;
        // Unbounded, but every entry belongs to a running attempt, and those are bounded by the host's places.
        let (orders, inbox) = mpsc::unbounded_channel();
        let beating = Beating { store, store_clock, news, down, sent, held: HashMap::new(), calls: JoinSet::new() };
        let thread = std::thread::Builder::new()
            .name("lh-heartbeat".to_owned())
            .spawn(move || runtime.block_on(beating.run(inbox)))?;
        Ok(Heart { orders: Some(orders), thread: Some(thread) })
    }

    /// Keeps this attempt's lease from now on; for one that is kept already, takes its guest.
    pub(crate) fn hold(&self, hold: Hold) {
        self.order(Order::Hold(Box::new(hold)));
    }

    /// Keeps it no more.
    pub(crate) fn drop_hold(&self, token: Token) {
        self.order(Order::Drop(token));
    }

    /// Renews the leases of this job's attempts no more.
    pub(crate) fn let_go(&self, job: JobKey) {
        self.order(Order::LetGo(job));
    }

    /// What asks for this attempt.
    pub(crate) fn confirmer(&self, token: Token) -> Confirmer {
        let orders = self.orders.as_ref().expect("only dropping this takes it away");
        Confirmer { orders: orders.downgrade(), token }
    }

    fn order(&self, order: Order) {
        // The thread ends only after this handle is gone.
        let sent = self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok());
        assert!(sent, "the heartbeat thread has ended: leases can no longer be kept");
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.orders = None;
        let Some(thread) = self.thread.take() else { return };
        if thread.join().is_err() {
            tracing::error!("the heartbeat thread panicked");
        }
    }
}

/// Told of heartbeats that are sent.
pub(crate) type Sent = Arc<dyn Fn(&[(JobKey, Heartbeat)]) + Send + Sync>;

/// What one call to the store came to: the tokens it spoke for, when it was sent, and the answers, if any.
struct Beaten {
    tokens: Vec<Token>,
    sent: Mono,
    answers: Option<Vec<Option<HeartbeatAnswer>>>,
}

struct Held {
    job: JobKey,
    run: RunId,
    lease: Holding,
    deadline: Duration,
    guest: Option<Guest>,
    confirmed: bool,
    /// Who waits for a heartbeat that is sent after it asked, and when that was.
    asked: Vec<(Mono, oneshot::Sender<()>)>,
    /// From the word that it was cancelled to force.
    cancel_grace: Duration,
    cancelled: Option<Mono>,
    sent: Gaps,
}

/// How far apart an attempt's heartbeats were when they were sent.
struct Gaps {
    last: Mono,
    beats: u64,
    longest: Duration,
}

impl Gaps {
    fn beat(&mut self, now: Mono) {
        self.longest = self.longest.max(now.since(self.last));
        self.last = now;
        self.beats += 1;
    }
}

struct Beating {
    store: Arc<dyn LeaseStore>,
    store_clock: Arc<StoreClock>,
    news: NewsSender,
    down: Down,
    sent: Option<Sent>,
    held: HashMap<[u8; 16], Held>,
    /// Calls on their way.
    calls: JoinSet<()>,
}

impl Beating {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let (back, mut beaten) = mpsc::unbounded_channel();
        loop {
            self.act(&back);
            let next = self.held.values().filter_map(|held| held.lease.next_wakeup()).min();
            let idle = clock::mono() + Duration::from_secs(60);
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::Hold(hold)) => self.hold(*hold),
                    Some(Order::Drop(token)) => self.drop_hold(token),
                    Some(Order::LetGo(job)) => self.let_go(&job),
                    Some(Order::Confirm(token, answer)) => self.confirm(token, answer),
                    None => return,
                },
                Some(beaten) = beaten.recv() => self.answered(beaten),
                Some(ended) = self.calls.join_next() => {
                    // A call that can no longer be answered would leave its leases without a heartbeat, and nobody
                    // would know: the thread ends, and with it the host.
                    if let Err(panic) = ended.map_err(JoinError::into_panic) {
                        std::panic::resume_unwind(panic);
                    }
                },
                () = clock::sleep_until(next.unwrap_or(idle).min(idle)) => {}
            }
        }
    }

    fn hold(&mut self, hold: Hold) {
        let Hold { job, run, token, policy, first_sent, guest } = hold;
        let held = self.held.entry(token.0).or_insert_with(|| Held {
            job,
            run,
            deadline: policy.store_deadline(),
            lease: Holding::new(&policy, first_sent, clock::mono()),
            guest: None,
            confirmed: false,
            asked: Vec::new(),
            cancel_grace: policy.stop_timeout,
            cancelled: None,
            sent: Gaps { last: first_sent, beats: 0, longest: Duration::ZERO },
        });
        held.guest = guest;
        let Some(guest) = &held.guest else { return };
        if held.lease.holds() {
            guest.gate.lasts_until(held.lease.local_lease_end());
        } else {
            // Lost between the first acknowledged heartbeat and the start.
            guest.signal.stop(StopReason::Lost);
            guest.gate.lose();
            guest.signal.force();
        }
    }

    fn confirm(&mut self, token: Token, answer: oneshot::Sender<()>) {
        // Dropping the answer says that the lease is not kept.
        let Some(held) = self.held.get_mut(&token.0).filter(|held| held.lease.holds()) else { return };
        // Whoever has gone is forgotten, so that a guest that asks and leaves collects nothing while the store is away.
        held.asked.retain(|(_, answer)| !answer.is_closed());
        let now = clock::mono();
        held.asked.push((now, answer));
        held.lease.hurry(now);
    }

    fn drop_hold(&mut self, token: Token) {
        let Some(Held { job, run, sent, .. }) = self.held.remove(&token.0) else { return };
        // Counted from the claim, and the end counts like one more heartbeat: none is missing at either end.
        let longest_gap_ms = sent.longest.max(clock::mono().since(sent.last)).as_millis();
        tracing::debug!(%job, %run, heartbeats = sent.beats, longest_gap_ms, "the lease is kept no more");
    }

    fn let_go(&mut self, job: &JobKey) {
        let of_job = self.held.values_mut().filter(|held| held.job == *job);
        of_job.for_each(|held| held.lease.let_go());
    }

    /// Lets every lease act on the time; heartbeats that are due together share a call.
    fn act(&mut self, back: &mpsc::UnboundedSender<Beaten>) {
        let now = clock::mono();
        let mut beats = Vec::new();
        let mut deadline = Duration::MAX;
        for (token, held) in &mut self.held {
            if held.lease.next_wakeup().is_none_or(|at| at > now) {
                continue;
            }
            for act in held.lease.handle(now, Sign::Wake) {
                if act == Act::Beat {
                    beats.push(held.beat(Token(*token), now));
                    deadline = deadline.min(held.deadline);
                } else {
                    act_on(held, Token(*token), act, &self.news);
                }
            }
        }
        if beats.is_empty() {
            return;
        }
        for (token, held) in &mut self.held {
            if held.lease.goes_along(now) {
                beats.push(held.beat(Token(*token), now));
                deadline = deadline.min(held.deadline);
            }
        }
        self.send(beats, deadline, now, back.clone());
    }

    fn send(
        &mut self,
        beats: Vec<(JobKey, Heartbeat)>,
        deadline: Duration,
        sent: Mono,
        back: mpsc::UnboundedSender<Beaten>,
    ) {
        let (store, store_clock, told) = (self.store.clone(), self.store_clock.clone(), self.sent.clone());
        let tokens: Vec<Token> = beats.iter().map(|(_, beat)| beat.token).collect();
        let again = tokens.clone();
        let (news, down) = (self.news.clone(), self.down.clone());
        let failed = move |why: String| {
            log_failure("renewing leases", &why, &down);
            news.tell(News::Store { side: Side::Held, began: sent, trouble: Some(why), full: false });
        };
        let tell = move |tokens, answers| {
            // The thread has ended: nobody is left to act on it.
            let _ = back.send(Beaten { tokens, sent, answers });
        };
        self.calls.spawn(async move {
            if let Some(told) = told {
                told(&beats);
            }
            let mut call = std::pin::pin!(store.heartbeats(&beats));
            let answered = match tokio::time::timeout(deadline, &mut call).await {
                Ok(answered) => answered,
                Err(_) => {
                    // Waiting is given up, the call is not: a late answer still counts.
                    failed(format!("no answer within {deadline:?}"));
                    tell(again, None);
                    call.await
                }
            };
            match answered {
                Ok(answers) => {
                    if let Some(Stamped { now, .. }) = answers.iter().flatten().next()
                        && clock::mono().since(sent) <= CLOCK_TOLD_WITHIN
                    {
                        store_clock.heard(*now);
                    }
                    tell(tokens, Some(answers.into_iter().map(sound).collect()));
                }
                Err(error) => {
                    failed(chain(&error));
                    tell(tokens, None);
                }
            }
        });
    }

    fn answered(&mut self, beaten: Beaten) {
        let now = clock::mono();
        let answers = beaten.answers;
        assert!(answers.as_ref().is_none_or(|all| all.len() == beaten.tokens.len()), "every heartbeat has an answer");
        for (at, token) in beaten.tokens.into_iter().enumerate() {
            let Some(held) = self.held.get_mut(&token.0) else { continue };
            let sign = match answers.as_ref().and_then(|answers| answers[at]) {
                None => Sign::Unanswered,
                Some(HeartbeatAnswer::Refused) => Sign::Refused,
                Some(HeartbeatAnswer::Renewed { cancelled, .. }) => {
                    if cancelled {
                        held.cancel(now);
                    }
                    Sign::Acknowledged(beaten.sent)
                }
            };
            if matches!(sign, Sign::Acknowledged(_)) && !std::mem::replace(&mut held.confirmed, true) {
                tell(&self.news, held, Input::Confirmed(held.run.clone(), token));
            }
            for act in held.lease.handle(now, sign) {
                act_on(held, token, act, &self.news);
            }
            if let (Sign::Acknowledged(_), true, Some(guest)) = (sign, held.lease.holds(), &held.guest) {
                guest.gate.lasts_until(held.lease.local_lease_end());
            }
            if let (Sign::Acknowledged(sent), true) = (sign, held.lease.holds()) {
                for (_, answer) in held.asked.extract_if(.., |(at, _)| *at <= sent) {
                    // It may have gone meanwhile.
                    let _ = answer.send(());
                }
            }
        }
    }
}

impl Held {
    /// The heartbeat that is sent now.
    fn beat(&mut self, token: Token, now: Mono) -> (JobKey, Heartbeat) {
        self.sent.beat(now);
        let progress = self.guest.as_mut().and_then(new_progress);
        (self.job.clone(), Heartbeat { run: self.run.clone(), token, progress })
    }

    /// Someone asked for the run to be cancelled: the guest is told, and stopped by force when it goes on for long. It
    /// is told with every heartbeat, so it hears of it however late it was started.
    fn cancel(&mut self, now: Mono) {
        let Some(guest) = &self.guest else { return };
        guest.signal.stop(StopReason::Cancelled);
        if now.since(*self.cancelled.get_or_insert(now)) >= self.cancel_grace {
            guest.signal.force();
        }
    }
}

/// The answer for one run; none when its record cannot be read: its lease is as if nothing had been answered.
fn sound(each: Each<HeartbeatAnswer>) -> Option<HeartbeatAnswer> {
    let told = |error: &leasehold_store::StoreError| {
        tracing::error!(error = error as &dyn std::error::Error, "a run's lease cannot be renewed");
    };
    each.inspect_err(told).ok().map(|stamped| stamped.answer)
}

/// Everything but a beat.
fn act_on(held: &mut Held, token: Token, act: Act, news: &NewsSender) {
    match act {
        Act::Beat => unreachable!("a heartbeat is due by time alone"),
        // The gate knows by itself when the lease ends, and opens with its new end.
        Act::Hold => tell(news, held, Input::Uncertain(held.run.clone(), token)),
        Act::Resume => tracing::info!(job = %held.job, run = %held.run, "the lease is certain again"),
        Act::Lose => {
            // H2: first the signal, then the word about it.
            held.asked.clear();
            if let Some(guest) = &held.guest {
                guest.signal.stop(StopReason::Lost);
                guest.gate.lose();
            }
            tell(news, held, Input::Lost(held.run.clone(), token));
        }
        Act::Force => {
            if let Some(guest) = &held.guest {
                guest.signal.force();
            }
        }
    }
}

fn tell(news: &NewsSender, held: &Held, input: Input) {
    news.tell(News::Input(held.job.clone(), input));
}

fn new_progress(guest: &mut Guest) -> Option<Progress> {
    if !guest.progress.has_changed().unwrap_or(false) {
        return None;
    }
    let progress = guest.progress.borrow_and_update().clone()?;
    Some(Progress { done: progress.done, total: progress.total, message: progress.message })
}
