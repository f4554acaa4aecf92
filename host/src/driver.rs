//! The shell around the agents of all jobs: one task that feeds them what happened and carries out what they decide.

mod agreement;
mod announcing;
mod answers;
mod calls;
mod commands;
mod copies;
mod guests;
mod health;
mod hints;
mod logs;
mod orphans;
mod polls;
mod reports;
mod storage;
mod unserved;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use leasehold_lease::agent::{Agent, Chance, Input, Now};
use leasehold_lease::id::{JobKey, TenantName, Token, hex};
use leasehold_lease::policy::StopForce;
use leasehold_lease::time::Mono;
use leasehold_sandbox::{Plugin, Sandbox, Signal};
use leasehold_store::{Identity, LeaseStore};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinError;

use crate::clock::{self, Dice, StoreClock};
use crate::config::Secrets;
use crate::event::Events;
use crate::heartbeat::Heart;
use crate::places::Places;
use crate::plugins::{Catalog, OfferedJob};
use crate::running::Running;
use crate::throttle::Throttles;

use agreement::Agreement;
use answers::Answers;
use calls::Calls;
pub(crate) use calls::{CLOCK_TOLD_WITHIN, Down, News, NewsSender, Side, log_failure};
pub use guests::limits as guest_limits;
use health::StoreHealth;
use hints::{Hint, Hints};
use orphans::Orphans;
use polls::{Checks, Polls};
use reports::Reports;
use unserved::Unserved;

/// What a host is made of.
pub struct HostParts {
    /// Its name, shown to people.
    pub name: String,
    /// Where hosts meet.
    pub store: Arc<dyn LeaseStore>,
    /// Where guests run.
    pub sandbox: Arc<Sandbox>,
    /// What it offers.
    pub catalog: watch::Receiver<Arc<Catalog<Plugin>>>,
    /// Where it counts which versions running attempts use.
    pub running: Arc<Running>,
    /// Who is told what happens.
    pub events: Arc<dyn Events>,
    /// Guests at a time.
    pub concurrency: usize,
    /// How much of this host one tenant may take.
    pub tenant_quota: Box<dyn Fn(&TenantName) -> TenantQuota + Send + Sync>,
    /// The lease of a tenant's jobs by this host's configuration, also of those that it does not offer.
    pub tenant_lease: Box<dyn Fn(&TenantName) -> Duration + Send + Sync>,
    /// What jobs may send without seeing it.
    pub secrets: Secrets,
}

/// How much of a host one tenant may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantQuota {
    /// Guests at a time.
    pub concurrency: usize,
    /// Bytes of memory that they may hold together; none is a quarter of what all guests may hold.
    pub memory: Option<usize>,
}

/// How the host is asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopOrder {
    /// Hand over, then end.
    HandOver,
    /// End at once; backups take over when the leases run out.
    Now,
}

/// What a host has for one job.
#[derive(Default)]
struct Entry {
    agent: Agent,
    /// What the plugin directory offers now.
    wanted: Option<OfferedJob<Plugin>>,
    /// What the agent was told of, the newest last: a run starts with the version that its claim named.
    serving: VecDeque<OfferedJob<Plugin>>,
    wakeup: Option<Mono>,
    /// When the store was told last that this host offers the job as it is wanted now.
    announced: Option<Mono>,
    /// Runs that end before the history is pruned again.
    ends_until_prune: u32,
}

pub(crate) struct Driver {
    parts: HostParts,
    identity: Identity,
    heart: Heart,
    calls: Calls,
    dice: Dice,
    inbox: mpsc::UnboundedReceiver<News>,
    jobs: HashMap<JobKey, Entry>,
    timers: BTreeSet<(Mono, JobKey)>,
    places: Places,
    throttles: Throttles,
    /// The signals of running guests, by token.
    guests: HashMap<[u8; 16], Signal>,
    /// Runs to ask the store about, in one call.
    checks: Checks,
    polls: Polls,
    hints: Hints,
    /// When the store is to be told of jobs.
    next_announcement: Option<Mono>,
    announcing: bool,
    orphans: Orphans,
    unserved: Unserved,
    agreement: Agreement,
    answers: Answers,
    reports: Reports,
    /// Someone asked this host to take nothing new.
    draining: bool,
    store: StoreHealth,
    /// This process among all, for the record of hosts.
    instance: String,
    stopping: Option<Stopping>,
}

struct Stopping {
    /// When guests of a job are interrupted.
    force: Vec<(Mono, JobKey)>,
    /// When leases of a job are renewed no more.
    let_go: Vec<(Mono, JobKey)>,
    /// When the host ends in any case: the last of these.
    end: Mono,
    /// How often the store has taken no change since, because its disk is full.
    refused_for_room: u32,
    /// Others are told of something to take over.
    hands_over: bool,
}

/// After this many refusals no more changes are tried: what is to be handed over cannot be.
const REFUSED_FOR_ROOM: u32 = 3;

/// How long a host that has handed something over keeps its connections: a server needs some milliseconds of a processor to
/// end each (4 ms, on PostgreSQL), at the very moment at which others take over.
const WAY: Duration = Duration::from_millis(100);

impl Driver {
    /// A driver that has not begun.
    pub(crate) fn new(parts: HostParts, identity: Identity, mut dice: Dice) -> std::io::Result<Driver> {
        let instance = hex(&dice.token().0);
        let (news, inbox) = NewsSender::new();
        let clock = Arc::new(StoreClock::new());
        let down = Down::default();
        let heart = Heart::start(parts.store.clone(), clock.clone(), news.clone(), down.clone())?;
        Ok(Driver {
            identity,
            heart,
            calls: Calls::new(clock, news, down),
            dice,
            inbox,
            jobs: HashMap::new(),
            timers: BTreeSet::new(),
            places: Places::new(parts.concurrency, parts.sandbox.memory().clone()),
            throttles: Throttles::default(),
            guests: HashMap::new(),
            checks: Checks::default(),
            polls: Polls::new(),
            hints: Hints::new(parts.store.wakeups()),
            next_announcement: None,
            announcing: false,
            orphans: Orphans::new(),
            unserved: Unserved::default(),
            agreement: Agreement::default(),
            answers: Answers::default(),
            reports: Reports::new(),
            draining: false,
            store: StoreHealth::new(),
            instance,
            stopping: None,
            parts,
        })
    }

    /// Runs until the host has stopped.
    pub(crate) async fn run(mut self, mut orders: mpsc::Receiver<StopOrder>) {
        self.take_catalog();
        loop {
            self.act_on_time();
            self.send_checks();
            if self.has_ended() {
                self.let_go();
                self.last_words().await;
                return self.make_way().await;
            }
            if self.stopping.is_some() && self.store.is_up() {
                self.report_on_time(clock::mono());
            }
            let next = self.next_wakeup();
            tokio::select! {
                order = orders.recv() => match order {
                    Some(StopOrder::HandOver) => self.stop(),
                    Some(StopOrder::Now) | None => return,
                },
                Some(news) = self.inbox.recv() => {
                    self.hear(news);
                    // What has come meanwhile goes along, so that checks share a call.
                    for _ in 0..self.inbox.len() {
                        if let Ok(news) = self.inbox.try_recv() {
                            self.hear(news);
                        }
                    }
                },
                hint = self.hints.next(), if self.stopping.is_none() => self.take_hint(hint),
                Ok(()) = self.parts.catalog.changed(), if self.stopping.is_none() => self.take_catalog(),
                Some(ended) = self.calls.tasks.join_next() => {
                    sound(ended);
                    // As many may have ended as there is news.
                    while let Some(ended) = self.calls.tasks.try_join_next() {
                        sound(ended);
                    }
                },
                () = clock::sleep_until(next) => {}
            }
        }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Input(job, input) => self.feed(job, input),
            News::Announced(answers) => self.announced(answers),
            News::NotAnnounced(jobs) => self.not_announced(&jobs),
            News::AnnouncementOver => self.announcement_over(),
            News::Found(runs, now, tenants) => self.found(runs, now, tenants),
            News::Polled => self.polls.over(clock::mono()),
            News::Tenants(tenants) => self.orphans.tenants = tenants,
            News::TenantsUnknown => self.look_at_all_jobs_soon(),
            News::LastOffered(told) => self.last_offered(told),
            News::OrphanClosed(run, reason) => self.orphan_closed(run, reason),
            News::Answered(told) => self.keep_answer(told),
            News::AnswersWritten => self.answers_written(),
            News::Reported(reported) => self.reported(reported),
            News::OffersTold(digest) => self.offers_told(digest),
            News::Compared(found) => self.compared(found),
            News::Hosts(hosts, now) => self.compare(hosts, now),
            News::Store { side, began, trouble, full } => {
                if full && let Some(stopping) = &mut self.stopping {
                    stopping.refused_for_room += 1;
                }
                self.store_heard(side, began, trouble);
            }
        }
    }

    /// Hands an input to a job's agent, and what follows from it at once to whoever it concerns.
    fn feed(&mut self, job: JobKey, input: Input) {
        let mut queue = VecDeque::from([(job, input)]);
        while let Some((job, input)) = queue.pop_front() {
            let now = self.now();
            let Some(entry) = self.jobs.get_mut(&job) else { continue };
            let commands = entry.agent.handle(now, input, &mut self.dice);
            let wakeup = entry.agent.next_wakeup(now);
            if wakeup != entry.wakeup {
                if let Some(old) = std::mem::replace(&mut entry.wakeup, wakeup) {
                    self.timers.remove(&(old, job.clone()));
                }
                self.timers.extend(wakeup.map(|at| (at, job.clone())));
            }
            for command in commands {
                self.carry_out(&job, command, &mut queue);
            }
            self.drop_old_versions(&job);
            self.forget_if_gone(&job);
        }
    }

    fn now(&self) -> Now {
        Now { wall: clock::wall(), mono: clock::mono(), store: self.calls.clock.now() }
    }

    /// Wakes agents whose time has come, polls, and keeps the times of a stop.
    fn act_on_time(&mut self) {
        let now = clock::mono();
        while let Some((at, _)) = self.timers.first()
            && *at <= now
        {
            let (_, job) = self.timers.pop_first().expect("it was looked at a moment ago");
            if let Some(entry) = self.jobs.get_mut(&job) {
                entry.wakeup = None;
            }
            self.feed(job, Input::Wake);
        }
        if self.stopping.is_none() {
            self.look_around(now);
        }
        let Some(Stopping { force, let_go, .. }) = &mut self.stopping else { return };
        let due = |(at, _): &mut (Mono, JobKey)| *at <= now;
        let let_go: Vec<_> = let_go.extract_if(.., due).collect();
        for (_, job) in force.extract_if(.., due).collect::<Vec<_>>() {
            self.feed(job, Input::StopForce);
        }
        for (_, job) in let_go {
            self.heart.let_go(job);
        }
    }

    /// Everything that concerns the host as a whole and is due.
    fn look_around(&mut self, now: Mono) {
        self.orphans.goes_on(now);
        self.tell_unserved();
        let due = |at: Option<Mono>| at.is_some_and(|at| at <= now);
        if due(self.polls.next()) {
            self.poll();
        }
        if due(self.next_announcement.filter(|_| !self.announcing)) {
            self.announce();
        }
        if due(self.store.next_probe()) {
            self.probe();
        }
        if !self.store.is_up() {
            return;
        }
        if due(self.answers.next()) {
            self.write_answers();
        }
        if due(Some(self.orphans.next())) {
            self.look_at_all_jobs();
        }
        self.report_on_time(now);
    }

    fn next_wakeup(&self) -> Mono {
        let timer = self.timers.first().map(|(at, _)| *at);
        let of_jobs = |s: &Stopping| s.force.iter().chain(&s.let_go).map(|(at, _)| *at).min();
        let stop = self.stopping.iter().flat_map(|s| of_jobs(s).into_iter().chain([s.end])).min();
        let announcement = self.next_announcement.filter(|_| !self.announcing);
        let unserved = self.unserved.next().map(|slot| clock::mono() + slot.0.since(clock::wall()));
        let around = [self.polls.next(), announcement, self.store.next_probe(), self.checks.due(), unserved];
        let while_up = [self.answers.next(), Some(self.orphans.next())];
        let while_up = while_up.into_iter().filter(|_| self.store.is_up());
        let around = around.into_iter().chain(while_up).filter(|_| self.stopping.is_none());
        let reports = Some(self.reports.next()).filter(|_| self.store.is_up());
        let around = around.chain([reports]).flatten().min();
        let idle = clock::mono() + Duration::from_secs(60);
        [timer, around, stop, Some(idle)].into_iter().flatten().min().unwrap_or(idle)
    }

    /// What was released or triggered is looked for at once.
    fn take_hint(&mut self, hint: Hint) {
        match hint {
            Hint::Jobs(jobs) => {
                jobs.into_iter().for_each(|job| self.feed(job, Input::Woken));
                self.checks.hurry();
            }
            Hint::Missed => self.polls.soon(clock::mono()),
        }
    }

    /// Nothing new is started; what runs is asked to end and handed over.
    fn stop(&mut self) {
        if self.stopping.is_some() {
            return;
        }
        tracing::info!(running = self.guests.len(), "stopping: no new runs; what runs is asked to end and handed over");
        let now = clock::mono();
        let (force, let_go) = (Vec::new(), Vec::new());
        self.stopping = Some(Stopping { force, let_go, end: now, refused_for_room: 0, hands_over: false });
        self.places.close();
        for job in self.jobs.keys().cloned().collect::<Vec<_>>() {
            self.feed(job, Input::Stop);
        }
        let Some(plan) = &mut self.stopping else { return };
        for (job, entry) in self.jobs.iter().filter(|(_, entry)| !entry.agent.is_idle()) {
            let Some(policy) = entry.serving.back().map(|offered| &offered.spec.policy) else { continue };
            plan.end = plan.end.max(now + policy.stop_timeout);
            plan.let_go.push((now + policy.stop_timeout, job.clone()));
            if let StopForce::After(after) = policy.stop_force {
                plan.force.push((now + after, job.clone()));
            }
        }
    }

    /// H5: when all is handed over, or the stop timeout has passed; what still runs then is left to its lease. Sooner, when
    /// nothing runs any more and the store has no room to be told so.
    fn has_ended(&self) -> bool {
        let Some(stopping) = &self.stopping else { return false };
        let idle = self.jobs.values().all(|entry| entry.agent.is_idle());
        if !idle && clock::mono() >= stopping.end {
            tracing::warn!("the stop timeout has passed; backups take over what is left when its leases run out");
            return true;
        }
        if !idle && self.guests.is_empty() && stopping.refused_for_room >= REFUSED_FOR_ROOM {
            tracing::warn!(
                "the store's disk is full, so that nothing can be handed over; backups take over what is left when its leases \
                 run out"
            );
            return true;
        }
        if idle {
            tracing::info!("stopped: nothing is left running here");
        }
        idle
    }

    /// What still runs is left to its lease, which is renewed no more.
    fn let_go(&self) {
        for token in self.guests.keys() {
            self.heart.drop_hold(Token(*token));
        }
    }

    /// Those who take over come first.
    async fn make_way(&self) {
        if self.stopping.as_ref().is_some_and(|stopping| stopping.hands_over) {
            tokio::time::sleep(WAY).await;
        }
    }
}

/// A task has ended. A fault of the host itself ends the host: its leases run out, and others take over. To go on would
/// be to keep a lease for something that no longer happens.
fn sound(ended: Result<(), JoinError>) {
    if let Err(panic) = ended.map_err(JoinError::into_panic) {
        std::panic::resume_unwind(panic);
    }
}
