//! The verbs of the store, each in a transaction.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use async_trait::async_trait;
use leasehold_lease::id::{JobKey, RunId, RunKey, TenantName};
use leasehold_lease::op::{
    Accepted, Announce, Cancel, CancelAnswer, Claim, ClaimAnswer, Close, CloseAnswer, Finish, Heartbeat,
    HeartbeatAnswer, Release, Stamped, Trigger, TriggerAnswer, Unblock, UnblockAnswer,
};
use leasehold_lease::rules;
use leasehold_lease::run::{Hold, Job};
use leasehold_lease::time::Millis;
use leasehold_lease::write::{Write, Written};
use tokio::sync::broadcast;

use super::desk::Desk;
use super::error::Fault;
use super::load::{self, Need};
use super::{SqliteStore, beside, read, save, worker};
use crate::error::StoreError;
use crate::store::LeaseStore;
use crate::view::{
    AnnounceAnswer, Checked, Each, HistoryQuery, HostAnswer, HostOrders, HostRecord, HostReport, Identity, JobView,
    LogEntry, RunStanding, RunView,
};

#[async_trait]
impl LeaseStore for SqliteStore {
    async fn identity(&self) -> Result<Identity, StoreError> {
        Ok(self.identity.clone())
    }

    async fn now(&self) -> Result<Millis, StoreError> {
        Ok((self.clock)())
    }

    async fn claim(&self, job: &JobKey, claim: &Claim) -> Result<Stamped<ClaimAnswer>, StoreError> {
        let (key, claim) = (job.clone(), claim.clone());
        let rule = move |db: &Desk, now| on(db, &key, &Need::Claim(&claim.run), |job| rules::claim(job, now, &claim));
        self.changes.call("claiming a run", rule).await
    }

    async fn heartbeats(&self, beats: &[(JobKey, Heartbeat)]) -> Result<Vec<Each<HeartbeatAnswer>>, StoreError> {
        let beats = beats.to_vec();
        let work = move |db: &Desk, now| {
            let renew = |(key, beat): &(JobKey, Heartbeat)| {
                soundly(|| on(db, key, &Need::Run(&beat.run), |job| rules::heartbeat(job, now, beat)))
            };
            beats.iter().map(renew).collect::<Result<Vec<_>, Fault>>()
        };
        let doing = "renewing leases";
        Ok(self.each(doing, self.heartbeats.call(doing, work).await?))
    }

    async fn finish(&self, job: &JobKey, finish: &Finish) -> Result<Stamped<Accepted>, StoreError> {
        let (key, finish) = (job.clone(), finish.clone());
        let rule = move |db: &Desk, now| on(db, &key, &Need::Run(&finish.run), |job| rules::finish(job, now, &finish));
        self.changes.call("recording the end of a run", rule).await
    }

    async fn release(&self, job: &JobKey, release: &Release) -> Result<Stamped<Accepted>, StoreError> {
        let (key, release) = (job.clone(), release.clone());
        let rule =
            move |db: &Desk, now| on(db, &key, &Need::Run(&release.run), |job| rules::release(job, now, &release));
        let released = self.changes.call("handing a run over", rule).await?;
        if released.answer == Accepted::Done {
            self.wakeups.wake(job);
        }
        Ok(released)
    }

    async fn write(&self, job: &JobKey, write: &Write) -> Result<Stamped<Written>, StoreError> {
        let (key, write) = (job.clone(), write.clone());
        let work = move |db: &Desk, now| beside::write(db, &key, now, &write);
        self.changes.call("writing beside a run", work).await
    }

    async fn load_state(&self, run: &RunKey) -> Result<Option<Vec<u8>>, StoreError> {
        let key = run.clone();
        self.reads.call("reading a checkpoint", move |db, _| beside::state(db, &key.job, &key.run)).await
    }

    async fn kv_get(&self, tenant: &TenantName, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let (tenant, key) = (tenant.clone(), key.to_owned());
        self.reads.call("reading a value", move |db, _| beside::value(db, tenant.as_str(), &key)).await
    }

    async fn kv_list(
        &self,
        tenant: &TenantName,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let (tenant, prefix, after) = (tenant.clone(), prefix.to_owned(), after.map(str::to_owned));
        let work = move |db: &Desk, _| beside::keys(db, &tenant, &prefix, after.as_deref(), limit);
        self.reads.call("listing keys", work).await
    }

    async fn read_log(&self, run: &RunKey, after: u64, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        let key = run.clone();
        self.reads.call("reading a log", move |db, _| read::log(db, &key, after, limit)).await
    }

    async fn announce(&self, jobs: &[(JobKey, Announce)]) -> Result<Vec<Each<AnnounceAnswer>>, StoreError> {
        let offers = jobs.to_vec();
        let work = move |db: &Desk, now| {
            let tell = |(key, offer): &(JobKey, Announce)| {
                soundly(|| on(db, key, &Need::JobOnly, |job| announce(job, now, offer)))
            };
            offers.iter().map(tell).collect::<Result<Vec<_>, Fault>>()
        };
        let doing = "announcing jobs";
        Ok(self.each(doing, self.changes.call(doing, work).await?))
    }

    async fn trigger(&self, job: &JobKey, trigger: &Trigger) -> Result<Stamped<TriggerAnswer>, StoreError> {
        let (key, trigger) = (job.clone(), trigger.clone());
        let rule =
            move |db: &Desk, now| on(db, &key, &Need::Trigger(&trigger.id), |job| rules::trigger(job, now, &trigger));
        let triggered = self.changes.call("storing an on-demand run", rule).await?;
        if triggered.answer == TriggerAnswer::Stored {
            self.wakeups.wake(job);
        }
        Ok(triggered)
    }

    async fn cancel(&self, job: &JobKey, cancel: &Cancel) -> Result<Stamped<CancelAnswer>, StoreError> {
        let (key, cancel) = (job.clone(), cancel.clone());
        let rule = move |db: &Desk, now| on(db, &key, &Need::Run(&cancel.run), |job| rules::cancel(job, now, &cancel));
        self.changes.call("cancelling a run", rule).await
    }

    async fn close(&self, job: &JobKey, close: &Close) -> Result<Stamped<CloseAnswer>, StoreError> {
        let (key, close) = (job.clone(), close.clone());
        let rule = move |db: &Desk, now| on(db, &key, &Need::Run(&close.run), |job| rules::close(job, now, &close));
        self.changes.call("closing an orphaned run", rule).await
    }

    async fn unblock(&self, job: &JobKey, unblock: &Unblock) -> Result<Stamped<UnblockAnswer>, StoreError> {
        let (key, unblock) = (job.clone(), unblock.clone());
        let rule = move |db: &Desk, now| on(db, &key, &Need::Running, |job| rules::unblock(job, now, &unblock));
        self.changes.call("unblocking a job", rule).await
    }

    async fn hold(&self, job: &JobKey, hold: Option<&Hold>) -> Result<Stamped<()>, StoreError> {
        let (key, hold) = (job.clone(), hold.cloned());
        let rule = move |db: &Desk, now| on(db, &key, &Need::JobOnly, |job| rules::hold(job, now, hold.as_ref()));
        self.changes.call("pausing or resuming a job", rule).await
    }

    async fn unfinished(
        &self,
        tenants: &[TenantName],
        after: Option<&RunKey>,
        limit: usize,
    ) -> Result<Checked<Vec<RunStanding>>, StoreError> {
        let (tenants, after) = (tenants.to_vec(), after.cloned());
        let work =
            move |db: &Desk, now| Ok(Checked { now, answer: read::unfinished(db, &tenants, after.as_ref(), limit)? });
        self.reads.call("looking for unfinished runs", work).await
    }

    async fn check(&self, runs: &[RunKey]) -> Result<Checked<Vec<RunStanding>>, StoreError> {
        let runs = runs.to_vec();
        let work = move |db: &Desk, now| Ok(Checked { now, answer: read::check(db, &runs)? });
        self.reads.call("looking at runs", work).await
    }

    async fn show(&self, run: &RunKey) -> Result<Checked<Option<RunView>>, StoreError> {
        let key = run.clone();
        let work = move |db: &Desk, now| Ok(Checked { now, answer: read::show(db, &key)? });
        self.reads.call("reading a run", work).await
    }

    async fn history(&self, query: &HistoryQuery) -> Result<Checked<Vec<RunView>>, StoreError> {
        let query = query.clone();
        let work = move |db: &Desk, now| Ok(Checked { now, answer: read::history(db, &query, now)? });
        self.reads.call("reading the history", work).await
    }

    async fn jobs(&self, after: Option<&JobKey>, limit: usize) -> Result<Checked<Vec<JobView>>, StoreError> {
        let after = after.cloned();
        let work = move |db: &Desk, now| Ok(Checked { now, answer: read::jobs(db, after.as_ref(), limit, now)? });
        self.reads.call("listing jobs", work).await
    }

    async fn job(&self, job: &JobKey) -> Result<Checked<Option<JobView>>, StoreError> {
        let key = job.clone();
        let work = move |db: &Desk, now| Ok(Checked { now, answer: read::job(db, &key, now)? });
        self.reads.call("reading a job", work).await
    }

    async fn prune(&self, job: &JobKey, history_size: u32) -> Result<Stamped<usize>, StoreError> {
        let key = job.clone();
        let rule = move |db: &Desk, now| on(db, &key, &Need::Prune(now), |job| rules::prune(job, now, history_size));
        let pruned = self.changes.call("pruning old runs", rule).await?;
        Ok(pruned.map(|runs| runs.len()))
    }

    async fn keep_answers(&self, told: &[HostAnswer]) -> Result<(), StoreError> {
        let told = told.to_vec();
        self.changes.call("keeping what hosts were told", move |db, _| beside::keep_answers(db, &told)).await
    }

    async fn answers(&self, job: &JobKey, run: Option<&RunId>, limit: usize) -> Result<Vec<HostAnswer>, StoreError> {
        let (key, run) = (job.clone(), run.cloned());
        self.reads
            .call("reading what hosts were told", move |db, _| beside::answers(db, &key, run.as_ref(), limit))
            .await
    }

    async fn report_host(&self, report: &HostReport) -> Result<Checked<HostOrders>, StoreError> {
        let report = report.clone();
        let work = move |db: &Desk, now| Ok(Checked { now, answer: beside::report_host(db, now, &report)? });
        self.changes.call("reporting this host", work).await
    }

    async fn hosts(&self) -> Result<Checked<Vec<HostRecord>>, StoreError> {
        let work = move |db: &Desk, now| Ok(Checked { now, answer: beside::hosts(db)? });
        self.reads.call("listing hosts", work).await
    }

    async fn keep_offers(&self, name: &str, instance: &str, offers: &str) -> Result<(), StoreError> {
        let (name, instance, offers) = (name.to_owned(), instance.to_owned(), offers.to_owned());
        let work = move |db: &Desk, _| beside::keep_offers(db, &name, &instance, &offers);
        self.changes.call("keeping what this host offers", work).await
    }

    async fn host_offers(&self, name: &str, instance: &str) -> Result<Option<String>, StoreError> {
        let (name, instance) = (name.to_owned(), instance.to_owned());
        let work = move |db: &Desk, _| beside::host_offers(db, &name, &instance);
        self.reads.call("reading what a host offers", work).await
    }

    async fn drain(&self, host: &str, drain: bool) -> Result<usize, StoreError> {
        let host = host.to_owned();
        self.changes.call("draining a host", move |db, _| beside::drain(db, &host, drain)).await
    }

    /// Of this process only: other processes on the file poll.
    fn wakeups(&self) -> Option<broadcast::Receiver<JobKey>> {
        Some(self.wakeups.subscribe())
    }
}

impl SqliteStore {
    /// The answers of a batch, each for itself.
    fn each<A>(&self, doing: &'static str, answers: Vec<Result<Stamped<A>, Fault>>) -> Vec<Each<A>> {
        let told = |fault: Fault| fault.rolled_back(&self.path, doing);
        answers.into_iter().map(|answer| answer.map_err(told)).collect()
    }
}

/// Carries out one rule on one job: loads what it needs, and writes what it changed.
pub(super) fn on<A>(
    desk: &Desk,
    key: &JobKey,
    need: &Need<'_>,
    rule: impl FnOnce(&mut Job) -> Stamped<A>,
) -> Result<Stamped<A>, Fault> {
    let loaded = load::job(desk, key, need)?;
    let mut job = loaded.job.clone();
    let answer = rule(&mut job);
    save::difference(desk, key, &loaded, job)?;
    Ok(answer)
}

/// One of a batch: a record that cannot be read, or that breaks a rule, is found before anything of it is written, and
/// concerns nobody else (S14). Any other fault is one of the whole transaction.
fn soundly<A>(one: impl FnOnce() -> Result<A, Fault>) -> Result<Result<A, Fault>, Fault> {
    let broken = |panic: Box<dyn Any + Send>| Err(Fault::RuleBroken(worker::said(&*panic).to_owned()));
    match catch_unwind(AssertUnwindSafe(one)).unwrap_or_else(broken) {
        Err(fault @ (Fault::Damaged { .. } | Fault::RuleBroken(_))) => Ok(Err(fault)),
        Err(fault) => Err(fault),
        Ok(answer) => Ok(Ok(answer)),
    }
}

fn announce(job: &mut Job, now: Millis, offer: &Announce) -> Stamped<AnnounceAnswer> {
    let announced = rules::announce(job, now, offer);
    let Job { newest_started, newest_skipped, hold, .. } = job;
    let (newest_started, newest_skipped, hold) = (*newest_started, *newest_skipped, hold.clone());
    announced.map(|since| AnnounceAnswer { since, newest_started, newest_skipped, hold })
}
