//! A host's way to the store: calls fail before or after their effect, hang and come late, and at any place where one waits it
//! can be held until its host has ended.

use std::collections::HashMap;
use std::future::{Future, pending};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use leasehold::clock;
use leasehold_lease::id::{JobKey, RunId, RunKey, TenantName, Token};
use leasehold_lease::op::{
    Accepted, Announce, Answer, Cancel, CancelAnswer, Claim, ClaimAnswer, Close, CloseAnswer, Finish, Heartbeat,
    HeartbeatAnswer, Op, Release, Stamped, Trigger, TriggerAnswer, Unblock, UnblockAnswer,
};
use leasehold_lease::run::{Hold, Job};
use leasehold_lease::time::Millis;
use leasehold_lease::write::{Write, Written};
use leasehold_store::{
    AnnounceAnswer, Checked, Each, HistoryQuery, HostAnswer, HostOrders, HostRecord, HostReport, Identity, JobView,
    LeaseStore, LogEntry, RunStanding, RunView, StoreError,
};
use tokio::sync::{broadcast, watch};

use super::LEASE;
use super::judged::Judged;
use super::weather::{Fate, Lost, Sky};

/// What is asked of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Verb {
    Announce,
    Check,
    Claim,
    Finish,
    Heartbeats,
    HostOffers,
    Hosts,
    Jobs,
    KeepOffers,
    KeepAnswers,
    KvGet,
    LoadState,
    Prune,
    Release,
    Report,
    Unfinished,
    Write,
    /// What people ask, and hosts do not.
    Other,
}

/// Where a call waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// For its effect.
    There,
    /// For its answer.
    Back,
}

/// See the module.
pub(crate) struct FaultyStore {
    pub(crate) judged: Arc<Judged>,
    pub(crate) sky: Arc<Sky>,
    /// Which host's it is.
    pub(crate) host: usize,
    trap: Mutex<Option<(Verb, Side)>>,
    sprung: watch::Sender<bool>,
    flights: Flights,
}

impl FaultyStore {
    pub(crate) fn new(judged: Arc<Judged>, sky: Arc<Sky>, host: usize) -> FaultyStore {
        let (trap, flights) = (Mutex::default(), Flights::default());
        FaultyStore { judged, sky, host, trap, sprung: watch::Sender::new(false), flights }
    }

    /// The next call of this verb that waits there waits for ever.
    pub(crate) fn trap(&self, verb: Verb, side: Side) {
        *self.trap.lock().expect("nobody panics with it") = Some((verb, side));
    }

    /// Waits until one does.
    pub(crate) async fn sprung(&self) {
        let mut sprung = self.sprung.subscribe();
        sprung.wait_for(|sprung| *sprung).await.expect("the sender lives as long as the store");
    }

    /// The most calls that were on their way at once: of one verb with one token, of one verb, of all.
    pub(crate) fn most(&self) -> Most {
        self.flights.0.lock().expect("nobody panics with it").most.clone()
    }

    /// One call, as the weather has it.
    async fn call<T>(
        &self,
        verb: Verb,
        of: Option<Token>,
        effect: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let _on_its_way = self.flights.begin(verb, of);
        let Fate { there, back, lost } = self.sky.fate(self.host);
        self.pass(verb, Side::There).await;
        tokio::time::sleep(there).await;
        let (doing, source) = ("a call in bad weather", "the weather".into());
        match lost {
            Some(Lost::Unsent) => return Err(StoreError::NotSent { doing, source }),
            Some(Lost::Request) => return Err(StoreError::Unknown { doing, source }),
            Some(Lost::Answer) | None => {}
        }
        let answer = effect.await;
        self.pass(verb, Side::Back).await;
        tokio::time::sleep(back).await;
        if lost.is_some() { Err(StoreError::Unknown { doing, source }) } else { answer }
    }

    async fn pass(&self, verb: Verb, side: Side) {
        let is_trap = self.trap.lock().expect("nobody panics with it").take_if(|trap| *trap == (verb, side)).is_some();
        if is_trap {
            self.sprung.send_replace(true);
            pending::<()>().await;
        }
    }
}

/// Calls on their way.
#[derive(Clone, Default)]
struct Flights(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    now: HashMap<(Verb, Option<[u8; 16]>), usize>,
    most: Most,
}

/// See [`FaultyStore::most`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Most {
    pub(crate) of_token: HashMap<Verb, usize>,
    pub(crate) of_verb: HashMap<Verb, usize>,
    pub(crate) all: usize,
}

/// One call, on its way until this is dropped.
struct Flight {
    all: Flights,
    of: (Verb, Option<[u8; 16]>),
}

impl Flights {
    fn begin(&self, verb: Verb, token: Option<Token>) -> Flight {
        let of = (verb, token.map(|token| token.0));
        let mut counts = self.0.lock().expect("nobody panics with it");
        let Counts { now, most } = &mut *counts;
        let count = now.entry(of).or_default();
        *count += 1;
        let raise = |most: &mut usize, to: usize| *most = (*most).max(to);
        raise(most.of_token.entry(verb).or_default(), *count);
        raise(most.of_verb.entry(verb).or_default(), now.iter().filter(|((v, _), _)| *v == verb).map(|(_, n)| n).sum());
        raise(&mut most.all, now.values().sum());
        Flight { all: self.clone(), of }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut counts = self.all.0.lock().expect("nobody panics with it");
        if let Some(count) = counts.now.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                counts.now.remove(&self.of);
            }
        }
    }
}

fn accepted(answer: &Accepted, _: &Job, _: &Job) -> Answer {
    Answer::Accepted(*answer)
}

#[async_trait]
impl LeaseStore for FaultyStore {
    async fn identity(&self) -> Result<Identity, StoreError> {
        self.judged.memory.identity().await
    }

    async fn now(&self) -> Result<Millis, StoreError> {
        self.call(Verb::Other, None, self.judged.memory.now()).await
    }

    async fn claim(&self, job: &JobKey, claim: &Claim) -> Result<Stamped<ClaimAnswer>, StoreError> {
        self.judged.claims(claim.token);
        let asked = self.judged.memory.claim(job, claim);
        let judged =
            self.judged.judge(job, Op::Claim(claim.clone()), asked, |answer, _, _| Answer::Claim(answer.clone()));
        let answered = self.call(Verb::Claim, Some(claim.token), judged).await?;
        if let ClaimAnswer::Won { fence, .. } = answered.answer {
            self.judged.won(job, claim.token, fence, LEASE);
        }
        Ok(answered)
    }

    async fn heartbeats(&self, beats: &[(JobKey, Heartbeat)]) -> Result<Vec<Each<HeartbeatAnswer>>, StoreError> {
        let sent = clock::mono();
        let all = async {
            let mut answers = Vec::new();
            for one in beats {
                let (job, beat) = one;
                let asked = async {
                    let mut answers = self.judged.memory.heartbeats(std::slice::from_ref(one)).await?;
                    answers.pop().expect("each heartbeat has an answer")
                };
                let answer = |answer: &HeartbeatAnswer, _: &Job, _: &Job| Answer::Heartbeat(*answer);
                answers.push(self.judged.judge(job, Op::Heartbeat(beat.clone()), asked, answer).await);
            }
            Ok(answers)
        };
        let answers = self.call(Verb::Heartbeats, None, all).await?;
        for ((_, beat), answer) in beats.iter().zip(&answers) {
            if let Ok(Stamped { answer: HeartbeatAnswer::Renewed { .. }, .. }) = answer {
                self.judged.renewed(beat.token, sent, LEASE);
            }
        }
        Ok(answers)
    }

    async fn finish(&self, job: &JobKey, finish: &Finish) -> Result<Stamped<Accepted>, StoreError> {
        let asked = self.judged.memory.finish(job, finish);
        let judged = self.judged.judge(job, Op::Finish(finish.clone()), asked, accepted);
        self.call(Verb::Finish, Some(finish.token), judged).await
    }

    async fn release(&self, job: &JobKey, release: &Release) -> Result<Stamped<Accepted>, StoreError> {
        let asked = self.judged.memory.release(job, release);
        let judged = self.judged.judge(job, Op::Release(release.clone()), asked, accepted);
        self.call(Verb::Release, Some(release.token), judged).await
    }

    async fn write(&self, job: &JobKey, write: &Write) -> Result<Stamped<Written>, StoreError> {
        self.call(Verb::Write, None, self.judged.aside(self.judged.memory.write(job, write))).await
    }

    async fn load_state(&self, run: &RunKey) -> Result<Option<Vec<u8>>, StoreError> {
        self.call(Verb::LoadState, None, self.judged.memory.load_state(run)).await
    }

    async fn kv_get(&self, tenant: &TenantName, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.call(Verb::KvGet, None, self.judged.memory.kv_get(tenant, key)).await
    }

    async fn kv_list(
        &self,
        tenant: &TenantName,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        self.call(Verb::Other, None, self.judged.memory.kv_list(tenant, prefix, after, limit)).await
    }

    async fn read_log(&self, run: &RunKey, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        self.call(Verb::Other, None, self.judged.memory.read_log(run, after, limit)).await
    }

    async fn announce(&self, jobs: &[(JobKey, Announce)]) -> Result<Vec<Each<AnnounceAnswer>>, StoreError> {
        let all = async {
            let mut answers = Vec::new();
            for one in jobs {
                let (job, announce) = one;
                let asked = async {
                    let mut answers = self.judged.memory.announce(std::slice::from_ref(one)).await?;
                    answers.pop().expect("each job has an answer")
                };
                let answer = |told: &AnnounceAnswer, _: &Job, _: &Job| {
                    let AnnounceAnswer { since, newest_started, newest_skipped, hold } = told.clone();
                    Answer::Announced { since, newest_started, newest_skipped, hold }
                };
                answers.push(self.judged.judge(job, Op::Announce(announce.clone()), asked, answer).await);
            }
            Ok(answers)
        };
        self.call(Verb::Announce, None, all).await
    }

    async fn trigger(&self, job: &JobKey, trigger: &Trigger) -> Result<Stamped<TriggerAnswer>, StoreError> {
        self.call(Verb::Other, None, self.judged.aside(self.judged.memory.trigger(job, trigger))).await
    }

    async fn cancel(&self, job: &JobKey, cancel: &Cancel) -> Result<Stamped<CancelAnswer>, StoreError> {
        self.call(Verb::Other, None, self.judged.aside(self.judged.memory.cancel(job, cancel))).await
    }

    async fn close(&self, job: &JobKey, close: &Close) -> Result<Stamped<CloseAnswer>, StoreError> {
        let asked = self.judged.memory.close(job, close);
        let judged = self.judged.judge(job, Op::Close(close.clone()), asked, |answer, _, _| Answer::Close(*answer));
        self.call(Verb::Other, None, judged).await
    }

    async fn unblock(&self, job: &JobKey, unblock: &Unblock) -> Result<Stamped<UnblockAnswer>, StoreError> {
        self.call(Verb::Other, None, self.judged.aside(self.judged.memory.unblock(job, unblock))).await
    }

    async fn hold(&self, job: &JobKey, hold: Option<&Hold>) -> Result<Stamped<()>, StoreError> {
        self.call(Verb::Other, None, self.judged.aside(self.judged.memory.hold(job, hold))).await
    }

    async fn unfinished(
        &self,
        tenants: &[TenantName],
        after: Option<&RunKey>,
        limit: usize,
    ) -> Result<Checked<Vec<RunStanding>>, StoreError> {
        self.call(Verb::Unfinished, None, self.judged.memory.unfinished(tenants, after, limit)).await
    }

    async fn check(&self, runs: &[RunKey]) -> Result<Checked<Vec<RunStanding>>, StoreError> {
        self.call(Verb::Check, None, self.judged.memory.check(runs)).await
    }

    async fn show(&self, run: &RunKey) -> Result<Checked<Option<RunView>>, StoreError> {
        self.call(Verb::Other, None, self.judged.memory.show(run)).await
    }

    async fn history(&self, query: &HistoryQuery) -> Result<Checked<Vec<RunView>>, StoreError> {
        self.call(Verb::Other, None, self.judged.memory.history(query)).await
    }

    async fn jobs(&self, after: Option<&JobKey>, limit: usize) -> Result<Checked<Vec<JobView>>, StoreError> {
        self.call(Verb::Jobs, None, self.judged.memory.jobs(after, limit)).await
    }

    async fn job(&self, job: &JobKey) -> Result<Checked<Option<JobView>>, StoreError> {
        self.call(Verb::Other, None, self.judged.memory.job(job)).await
    }

    async fn prune(&self, job: &JobKey, history_size: u32) -> Result<Stamped<usize>, StoreError> {
        let asked = self.judged.memory.prune(job, history_size);
        let pruned = |_: &usize, before: &Job, after: &Job| {
            Answer::Pruned(before.runs.keys().filter(|run| !after.runs.contains_key(run)).cloned().collect())
        };
        let judged = self.judged.judge(job, Op::Prune { history_size }, asked, pruned);
        self.call(Verb::Prune, None, judged).await
    }

    async fn keep_answers(&self, told: &[HostAnswer]) -> Result<(), StoreError> {
        self.call(Verb::KeepAnswers, None, self.judged.memory.keep_answers(told)).await
    }

    async fn answers(&self, job: &JobKey, run: Option<&RunId>, limit: usize) -> Result<Vec<HostAnswer>, StoreError> {
        self.call(Verb::Other, None, self.judged.memory.answers(job, run, limit)).await
    }

    async fn report_host(&self, report: &HostReport) -> Result<Checked<HostOrders>, StoreError> {
        self.call(Verb::Report, None, self.judged.memory.report_host(report)).await
    }

    async fn keep_offers(&self, name: &str, instance: &str, offers: &str) -> Result<(), StoreError> {
        self.call(Verb::KeepOffers, None, self.judged.memory.keep_offers(name, instance, offers)).await
    }

    async fn host_offers(&self, name: &str, instance: &str) -> Result<Option<String>, StoreError> {
        self.call(Verb::HostOffers, None, self.judged.memory.host_offers(name, instance)).await
    }

    async fn hosts(&self) -> Result<Checked<Vec<HostRecord>>, StoreError> {
        self.call(Verb::Hosts, None, self.judged.memory.hosts()).await
    }

    async fn drain(&self, host: &str, drain: bool) -> Result<usize, StoreError> {
        self.call(Verb::Other, None, self.judged.memory.drain(host, drain)).await
    }

    fn wakeups(&self) -> Option<broadcast::Receiver<JobKey>> {
        self.judged.memory.wakeups()
    }
}
