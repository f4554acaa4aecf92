//! The verbs of the rules: what each script is given, and what its words mean.

use std::collections::BTreeSet;

use leasehold_lease::id::{JobKey, RunId, TenantName};
use leasehold_lease::op::{
    Accepted, Announce, Cancel, CancelAnswer, Claim, ClaimAnswer, Close, CloseAnswer, Finish, Heartbeat,
    HeartbeatAnswer, Release, Stamped, Trigger, TriggerAnswer, Unblock, UnblockAnswer,
};
use leasehold_lease::policy::CLOCK_GRACE;
use leasehold_lease::run::{DEMAND_ID_KEPT, Hold};
use leasehold_lease::time::Millis;
use redis::Value;

use super::RedisStore;
use super::answers::{accepted, claim_answer, each, maybe_hold, stamped};
use super::batch::{Piece, pieces};
use super::call::{Call, bounded, instant};
use super::decode::{Fields, unreadable};
use super::keys::{run_id, run_name};
use super::link::Limit;
use super::record::{claim_numbers, maybe_slot, millis, outcome_bytes, status, tail_of};
use super::scripts::Script;
use crate::error::StoreError;
use crate::view::{AnnounceAnswer, Each};
use crate::wire::{Meta, WireError, ms, to_json};

/// Heartbeats in one script, which holds up the server for about a millisecond.
const BEATS: usize = 100;

/// Announcements in one script.
const OFFERS: usize = 100;

/// Runs that one prune deletes at most; the next one goes on.
const PRUNED: usize = 1_000;

impl RedisStore {
    pub(super) async fn do_claim(&self, job: &JobKey, claim: &Claim) -> Result<Stamped<ClaimAnswer>, StoreError> {
        const DOING: &str = "claiming a run";
        let limit = Limit::of_a_call();
        self.register(limit, &job.tenant).await?;
        let terms = &claim.terms;
        let meta = to_json(&Meta::new(&claim.runner, claim.digest, terms));
        let call = self
            .about_run(&self.server.scripts.claim, job, &claim.run)
            .arg(&claim.token.0[..])
            .arg(claim_numbers(claim))
            .arg(tail_of(&meta));
        let answer = self.changes.change_by(limit, DOING, &call).await?;
        let answer = stamped(answer, claim_answer).map_err(unreadable(DOING))?;
        self.created(limit, job, answer.revision).await;
        Ok(answer)
    }

    pub(super) async fn do_heartbeats(
        &self,
        beats: &[(JobKey, Heartbeat)],
    ) -> Result<Vec<Each<HeartbeatAnswer>>, StoreError> {
        const DOING: &str = "renewing leases";
        let pieces = pieces(beats.iter().map(|(job, _)| &job.tenant), BEATS);
        let call_of = |piece: &Piece| {
            let mut call = Call::script(&self.server.scripts.heartbeats, &self.server.keys.tenant(&piece.tenant));
            for (job, beat) in piece.items.iter().map(|item| &beats[*item]) {
                let progress = beat.progress.as_ref().map_or_else(String::new, to_json);
                call = call.arg(job.name.as_str()).arg(run_name(&beat.run)).arg(&beat.token.0[..]).arg(progress);
            }
            call
        };
        let calls = pieces.iter().map(call_of).collect();
        let limit = Limit::of_a_call();
        each(DOING, limit, beats.len(), &self.beats, &pieces, calls, |fields| match fields.text()?.as_str() {
            "renewed" => Ok(HeartbeatAnswer::Renewed { lease_end: millis(fields)?, cancelled: fields.flag()? }),
            "refused" => Ok(HeartbeatAnswer::Refused),
            other => fields.unknown(other),
        })
        .await
    }

    pub(super) async fn do_finish(&self, job: &JobKey, finish: &Finish) -> Result<Stamped<Accepted>, StoreError> {
        const DOING: &str = "recording the end of a run";
        let call = self
            .about_run(&self.server.scripts.finish, job, &finish.run)
            .arg(&finish.token.0[..])
            .arg(finish.outcome.kept_size())
            .arg(outcome_bytes(&finish.outcome))
            .arg(to_json(&finish.usage));
        let answer = self.changes.change(DOING, &call).await?;
        stamped(answer, accepted).map_err(unreadable(DOING))
    }

    pub(super) async fn do_release(&self, job: &JobKey, release: &Release) -> Result<Stamped<Accepted>, StoreError> {
        const DOING: &str = "handing a run over";
        let call = self
            .about_run(&self.server.scripts.release, job, &release.run)
            .arg(&release.token.0[..])
            .arg(to_json(&release.usage))
            .arg(self.server.keys.channel())
            .arg(job.to_string());
        let answer = self.changes.change(DOING, &call).await?;
        stamped(answer, accepted).map_err(unreadable(DOING))
    }

    pub(super) async fn do_announce(
        &self,
        offers: &[(JobKey, Announce)],
    ) -> Result<Vec<Each<AnnounceAnswer>>, StoreError> {
        const DOING: &str = "announcing jobs";
        let pieces = pieces(offers.iter().map(|(job, _)| &job.tenant), OFFERS);
        let limit = Limit::of_a_call();
        // Every time, so that a registry that was lost with the server's memory is made again.
        let tenants: BTreeSet<&TenantName> = pieces.iter().map(|piece| &piece.tenant).collect();
        self.put_into_registry(limit, &tenants.into_iter().collect::<Vec<_>>()).await?;
        let call_of = |piece: &Piece| {
            let mut call = Call::script(&self.server.scripts.announce, &self.server.keys.tenant(&piece.tenant));
            for (job, offer) in piece.items.iter().map(|item| &offers[*item]) {
                call = call.arg(job.name.as_str()).arg(&offer.fingerprint);
            }
            call
        };
        let calls = pieces.iter().map(call_of).collect();
        each(DOING, limit, offers.len(), &self.calls, &pieces, calls, |fields| {
            Ok(AnnounceAnswer {
                since: millis(fields)?,
                newest_started: maybe_slot(fields)?,
                newest_skipped: maybe_slot(fields)?,
                hold: maybe_hold(fields)?,
            })
        })
        .await
    }

    pub(super) async fn do_trigger(
        &self,
        job: &JobKey,
        trigger: &Trigger,
    ) -> Result<Stamped<TriggerAnswer>, StoreError> {
        const DOING: &str = "triggering a run";
        let limit = Limit::of_a_call();
        self.register(limit, &job.tenant).await?;
        let call = self
            .about_run(&self.server.scripts.trigger, job, &RunId::OnDemand(trigger.id.clone()))
            .arg(trigger.pending_max)
            .arg(u8::from(trigger.payload.is_some()))
            .arg(trigger.payload.as_deref().unwrap_or_default())
            .arg(self.server.keys.channel())
            .arg(job.to_string());
        let answer = self.changes.change_by(limit, DOING, &call).await?;
        let answer = stamped(answer, |fields| match fields.text()?.as_str() {
            "stored" => Ok(TriggerAnswer::Stored),
            "exists" => Ok(TriggerAnswer::Exists(status(&fields.text()?)?)),
            "ended" => Ok(TriggerAnswer::Ended),
            "full" => Ok(TriggerAnswer::Full),
            other => fields.unknown(other),
        });
        let answer = answer.map_err(unreadable(DOING))?;
        self.created(limit, job, answer.revision).await;
        Ok(answer)
    }

    pub(super) async fn do_cancel(&self, job: &JobKey, cancel: &Cancel) -> Result<Stamped<CancelAnswer>, StoreError> {
        const DOING: &str = "cancelling a run";
        let call = self.about_run(&self.server.scripts.cancel, job, &cancel.run).arg(&cancel.reason);
        let answer = self.changes.change(DOING, &call).await?;
        let answer = stamped(answer, |fields| match fields.text()?.as_str() {
            "interrupted" => Ok(CancelAnswer::Interrupted),
            "told" => Ok(CancelAnswer::Told),
            "ended" => Ok(CancelAnswer::Ended(status(&fields.text()?)?)),
            "none" => Ok(CancelAnswer::None),
            other => fields.unknown(other),
        });
        answer.map_err(unreadable(DOING))
    }

    pub(super) async fn do_close(&self, job: &JobKey, close: &Close) -> Result<Stamped<CloseAnswer>, StoreError> {
        const DOING: &str = "closing an orphaned run";
        let call = self
            .about_run(&self.server.scripts.close, job, &close.run)
            .arg(bounded(ms(close.unoffered_for)))
            .arg(&close.reason);
        let answer = self.changes.change(DOING, &call).await?;
        let answer = stamped(answer, |fields| match fields.text()?.as_str() {
            "closed" => Ok(CloseAnswer::Closed),
            "live" => Ok(CloseAnswer::Live),
            "offered" => Ok(CloseAnswer::Offered),
            "ended" => Ok(CloseAnswer::Ended(status(&fields.text()?)?)),
            "none" => Ok(CloseAnswer::None),
            other => fields.unknown(other),
        });
        answer.map_err(unreadable(DOING))
    }

    pub(super) async fn do_unblock(
        &self,
        job: &JobKey,
        unblock: &Unblock,
    ) -> Result<Stamped<UnblockAnswer>, StoreError> {
        const DOING: &str = "unblocking a job";
        let call = self.about_job(&self.server.scripts.unblock, job).arg(instant(unblock.newest_due.0.0));
        let answer = self.changes.change(DOING, &call).await?;
        let answer = stamped(answer, |fields| match fields.text()?.as_str() {
            "unblocked" => Ok(UnblockAnswer::Unblocked),
            "not-blocked" => Ok(UnblockAnswer::NotBlocked),
            "live" => Ok(UnblockAnswer::Live { run: run_id(&fields.text()?)? }),
            other => fields.unknown(other),
        });
        answer.map_err(unreadable(DOING))
    }

    pub(super) async fn do_hold(&self, job: &JobKey, hold: Option<&Hold>) -> Result<Stamped<()>, StoreError> {
        const DOING: &str = "pausing or resuming a job";
        let limit = Limit::of_a_call();
        self.register(limit, &job.tenant).await?;
        let text = |at: Option<Millis>| at.map_or_else(String::new, |at| at.0.to_string());
        let call = self
            .about_job(&self.server.scripts.hold, job)
            .arg(if hold.is_some() { "hold" } else { "let-go" })
            .arg(text(hold.and_then(|hold| hold.until)))
            .arg(hold.map_or("", |hold| hold.note.as_str()))
            .arg(text(hold.and_then(|hold| hold.since)));
        let answer = self.changes.change_by(limit, DOING, &call).await?;
        let answer = stamped(answer, |_| Ok(())).map_err(unreadable(DOING))?;
        self.created(limit, job, answer.revision).await;
        Ok(answer)
    }

    pub(super) async fn do_prune(&self, job: &JobKey, history_size: u32) -> Result<Stamped<usize>, StoreError> {
        const DOING: &str = "pruning old runs";
        let call = self
            .about_job(&self.server.scripts.prune, job)
            .arg(history_size)
            .arg(ms(CLOCK_GRACE))
            .arg(ms(DEMAND_ID_KEPT))
            .arg(PRUNED);
        let answer = self.changes.change(DOING, &call).await?;
        stamped(answer, Fields::number).map_err(unreadable(DOING))
    }

    pub(super) async fn read_now(&self) -> Result<Millis, StoreError> {
        const DOING: &str = "asking for the time";
        let call = Call::script(&self.server.scripts.now, &self.server.keys.all());
        match self.calls.call(DOING, &call).await? {
            Value::Int(now) => Ok(Millis(now)),
            _ => Err(unreadable(DOING)(WireError::new("the time", "it is not a number"))),
        }
    }

    /// A script about a job.
    pub(super) fn about_job(&self, script: &'static Script, job: &JobKey) -> Call {
        Call::script(script, &self.server.keys.tenant(&job.tenant)).arg(job.name.as_str())
    }

    /// A script about a run.
    pub(super) fn about_run(&self, script: &'static Script, job: &JobKey, run: &RunId) -> Call {
        self.about_job(script, job).arg(run_name(run))
    }

    /// Puts a tenant into the registry before its first job is made, for the registry may lie on another server.
    async fn register(&self, limit: Limit, tenant: &TenantName) -> Result<(), StoreError> {
        let known = self.registered.lock().expect("nothing panics under this lock").contains(tenant);
        if known { Ok(()) } else { self.put_into_registry(limit, &[tenant]).await }
    }

    async fn put_into_registry(&self, limit: Limit, tenants: &[&TenantName]) -> Result<(), StoreError> {
        if tenants.is_empty() {
            return Ok(());
        }
        let call = Call::plain("SADD").arg(self.server.keys.tenants());
        let call = tenants.iter().fold(call, |call, tenant| call.arg(tenant.as_str()));
        self.calls.call_by(limit, "registering tenants", &call).await?;
        let mut registered = self.registered.lock().expect("nothing panics under this lock");
        registered.extend(tenants.iter().map(|tenant| (*tenant).clone()));
        Ok(())
    }

    /// A job that is new may be so because the server was emptied, and the registry with it.
    async fn created(&self, limit: Limit, job: &JobKey, revision: u64) {
        if revision == 1 && self.put_into_registry(limit, &[&job.tenant]).await.is_err() {
            // Whoever makes or announces the tenant's next job tries again.
            self.registered.lock().expect("nothing panics under this lock").remove(&job.tenant);
        }
    }
}
