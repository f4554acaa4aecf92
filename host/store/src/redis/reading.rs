//! Looking at runs and jobs. Nothing here decides or changes anything.

use leasehold_lease::id::{JobKey, RunKey, TenantName};
use leasehold_lease::policy::CLOCK_GRACE;
use leasehold_lease::time::Millis;
use redis::Value;
use tokio::time::timeout;

use super::RedisStore;
use super::answers::maybe_hold;
use super::batch::{Piece, pieces, side_by_side};
use super::call::Call;
use super::decode::{Fields, sound, unreadable};
use super::error::CallError;
use super::keys::run_name;
use super::record::{maybe_millis, maybe_slot, millis, standing, view};
use super::writing::texts;
use crate::error::StoreError;
use crate::view::{CALL_LIMIT, Checked, JobView, RunStanding, RunView};
use crate::wire::{WireError, ms};

/// Runs that one script checks.
const CHECKS: usize = 200;

/// Jobs that one script shows.
const JOBS: usize = 50;

/// Scripts that are sent side by side.
pub(super) const WAVE: usize = 32;

impl RedisStore {
    pub(super) async fn read_standings(&self, runs: &[RunKey]) -> Result<Checked<Vec<RunStanding>>, StoreError> {
        const DOING: &str = "looking at runs";
        let pieces = pieces(runs.iter().map(|run| &run.job.tenant), CHECKS);
        if pieces.is_empty() {
            return Ok(Checked { now: self.read_now().await?, answer: Vec::new() });
        }
        let call_of = |piece: &Piece| {
            let mut call = Call::script(&self.server.scripts.check, &self.server.keys.tenant(&piece.tenant));
            for run in piece.items.iter().map(|item| &runs[*item]) {
                call = call.arg(run.job.name.as_str()).arg(run_name(&run.run));
            }
            call
        };
        let answers = side_by_side(&self.calls, DOING, pieces.iter().map(call_of).collect()).await;
        let unknown =
            |key: &RunKey| RunStanding { key: key.clone(), standing: None, newest_started: None, newest_skipped: None };
        let mut found = Checked { now: Millis(0), answer: runs.iter().map(unknown).collect::<Vec<_>>() };
        for (piece, answer) in pieces.iter().zip(answers) {
            found.now = standings(answer?, piece, &mut found.answer).map_err(unreadable(DOING))?;
        }
        Ok(found)
    }

    pub(super) async fn read_run(&self, run: &RunKey) -> Result<Checked<Option<RunView>>, StoreError> {
        const DOING: &str = "reading a run";
        let call = self.about_run(&self.server.scripts.show, &run.job, &run.run);
        let answer = self.calls.call(DOING, &call).await?;
        let read = || {
            let mut fields = Fields::of("an answer", answer)?;
            let now = millis(&mut fields)?;
            let answer = match fields.next() {
                Value::Nil => None,
                value => Some(view(&run.job, value)?),
            };
            Ok(Checked { now, answer })
        };
        read().map_err(unreadable(DOING))
    }

    pub(super) async fn read_jobs(
        &self,
        after: Option<&JobKey>,
        limit: usize,
    ) -> Result<Checked<Vec<JobView>>, StoreError> {
        const DOING: &str = "listing jobs";
        let work = async {
            let mut found = Checked { now: self.read_now().await?, answer: Vec::new() };
            let mut jobs = self.all_jobs().await?;
            jobs.drain(..after.map_or(0, |after| jobs.partition_point(|job| job <= after)));
            jobs.truncate(limit);
            let pieces = pieces(jobs.iter().map(|job| &job.tenant), JOBS);
            for wave in pieces.chunks(WAVE) {
                let call_of = |piece: &Piece| {
                    let call = self.about_jobs(&piece.tenant);
                    piece.items.iter().fold(call, |call, item| call.arg(jobs[*item].name.as_str()))
                };
                let answers = side_by_side(&self.calls, DOING, wave.iter().map(call_of).collect()).await;
                for (piece, answer) in wave.iter().zip(answers) {
                    let asked: Vec<&JobKey> = piece.items.iter().map(|item| &jobs[*item]).collect();
                    let (now, views) = job_views(&asked, answer?).map_err(unreadable(DOING))?;
                    found.now = now;
                    found.answer.extend(views);
                }
            }
            found.answer.sort_by(|a, b| a.key.cmp(&b.key));
            Ok(found)
        };
        self.within_limit(DOING, work).await
    }

    pub(super) async fn read_job(&self, job: &JobKey) -> Result<Checked<Option<JobView>>, StoreError> {
        const DOING: &str = "reading a job";
        // Whether it is known is asked apart: the script answers for one that is not as for one that has no runs.
        let names = self.server.keys.tenant(&job.tenant) + "jobs";
        let known = self.calls.call(DOING, &Call::plain("ZSCORE").arg(names).arg(job.name.as_str())).await?;
        if known == Value::Nil {
            return Ok(Checked { now: self.read_now().await?, answer: None });
        }
        let answer = self.calls.call(DOING, &self.about_jobs(&job.tenant).arg(job.name.as_str())).await?;
        let (now, views) = job_views(&[job], answer).map_err(unreadable(DOING))?;
        let cannot_be_read = || WireError::new("a job", "its record cannot be read (above: why)");
        let view = views.into_iter().next().ok_or_else(cannot_be_read).map_err(unreadable(DOING))?;
        Ok(Checked { now, answer: Some(view) })
    }

    /// The script that shows jobs of a tenant, which are its further arguments.
    fn about_jobs(&self, tenant: &TenantName) -> Call {
        Call::script(&self.server.scripts.jobs, &self.server.keys.tenant(tenant)).arg(ms(CLOCK_GRACE))
    }

    /// Every job of every tenant, in order.
    pub(super) async fn all_jobs(&self) -> Result<Vec<JobKey>, StoreError> {
        const DOING: &str = "listing jobs";
        let members = self.calls.call(DOING, &Call::plain("SMEMBERS").arg(self.server.keys.tenants())).await?;
        let tenants = texts("the tenants", members).map_err(unreadable(DOING))?;
        let names_of =
            |tenant: &TenantName| Call::plain("ZRANGE").arg(self.server.keys.tenant(tenant) + "jobs").arg(0).arg(-1);
        let mut jobs = Vec::new();
        let tenant_of = |name: &String| name.parse().map_err(|error| WireError::new("a tenant", error));
        let tenants =
            tenants.iter().map(tenant_of).collect::<Result<Vec<TenantName>, _>>().map_err(unreadable(DOING))?;
        for wave in tenants.chunks(WAVE) {
            let answers = side_by_side(&self.calls, DOING, wave.iter().map(names_of).collect()).await;
            for (tenant, answer) in wave.iter().zip(answers) {
                for name in texts("the jobs", answer?).map_err(unreadable(DOING))? {
                    jobs.push(job_key(tenant, &name).map_err(unreadable(DOING))?);
                }
            }
        }
        jobs.sort();
        Ok(jobs)
    }

    /// Bounds what takes several calls as one call is bounded. Nothing was changed by it.
    pub(super) async fn within_limit<A>(
        &self,
        doing: &'static str,
        work: impl Future<Output = Result<A, StoreError>>,
    ) -> Result<A, StoreError> {
        let (server, limit_ms) = (self.server.config.server.clone(), CALL_LIMIT.as_millis());
        let silent = || CallError::Unread { server, limit_ms }.not_sent(doing);
        timeout(CALL_LIMIT, work).await.unwrap_or_else(|_| Err(silent()))
    }
}

/// Tells of a job whose record cannot be read and is left out, so that it does not spoil the others.
pub(super) fn left_out(doing: &str, job: &JobKey, error: &WireError) {
    let error = error as &dyn std::error::Error;
    tracing::warn!(%job, error, "a record cannot be read and is left out while {doing}; see what its keys hold");
}

pub(super) fn job_key(tenant: &TenantName, name: &str) -> Result<JobKey, WireError> {
    let name = name.parse().map_err(|error| WireError::new("a job's name", error))?;
    Ok(JobKey { tenant: tenant.clone(), name })
}

/// Puts the answers to a piece in the places of its items.
fn standings(answer: Value, piece: &Piece, found: &mut [RunStanding]) -> Result<Millis, WireError> {
    let mut fields = Fields::of("an answer", answer)?;
    let now = millis(&mut fields)?;
    let values = fields.list("the answers")?.rest();
    if values.len() != piece.items.len() {
        return Err(WireError::new("the answers", "some are missing"));
    }
    for (item, value) in piece.items.iter().zip(values) {
        let place = &mut found[*item];
        // One that cannot be read is left as it is, unknown: no claim for it is answered either.
        match stands(&place.key, value) {
            Ok(stands) => *place = stands,
            Err(error) => left_out("looking at runs", &place.key.job, &error),
        }
    }
    Ok(now)
}

fn stands(key: &RunKey, value: Value) -> Result<RunStanding, WireError> {
    let mut fields = sound("an answer", value)?;
    let (newest_started, newest_skipped) = (maybe_slot(&mut fields)?, maybe_slot(&mut fields)?);
    let standing = fields.maybe_list("a run")?.map(|mut fields| standing(&mut fields)).transpose()?;
    Ok(RunStanding { key: key.clone(), standing, newest_started, newest_skipped })
}

fn job_views(jobs: &[&JobKey], answer: Value) -> Result<(Millis, Vec<JobView>), WireError> {
    let mut fields = Fields::of("an answer", answer)?;
    let (now, mut views) = (millis(&mut fields)?, Vec::new());
    let values = fields.list("the jobs")?.rest();
    if values.len() != jobs.len() {
        return Err(WireError::new("the jobs", "some are missing"));
    }
    for (job, value) in jobs.iter().zip(values) {
        match job_view(job, value) {
            Ok(view) => views.push(view),
            Err(error) => left_out("listing jobs", job, &error),
        }
    }
    Ok((now, views))
}

fn job_view(job: &JobKey, value: Value) -> Result<JobView, WireError> {
    let mut fields = sound("a job", value)?;
    let revision = fields.number()?;
    let (newest_started, newest_skipped) = (maybe_slot(&mut fields)?, maybe_slot(&mut fields)?);
    let (since, fingerprint, last_offered) = match fields.maybe_list("a job's offer")? {
        Some(mut offer) => (maybe_millis(&mut offer)?, offer.text()?, maybe_millis(&mut offer)?),
        None => (None, String::new(), None),
    };
    let hold = maybe_hold(&mut fields)?;
    let (stored, unfinished) = (fields.number()?, fields.number()?);
    let last = match fields.next() {
        Value::Nil => None,
        value => Some(view(job, value)?),
    };
    Ok(JobView {
        key: job.clone(),
        revision,
        newest_started,
        newest_skipped,
        since,
        fingerprint,
        last_offered,
        hold,
        stored,
        unfinished,
        last,
    })
}
