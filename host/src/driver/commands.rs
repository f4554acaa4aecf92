//! Carrying out what an agent decides.

use std::collections::VecDeque;
use std::time::Duration;

use leasehold_lease::agent::{Command, Event, EventKind, Input, Start};
use leasehold_lease::id::{JobKey, RunId, RunKey, Token};
use leasehold_lease::op::{Accepted, Claim, Finish, Release, Stamped};
use leasehold_sandbox::StopReason;
use leasehold_store::StoreError;

use super::calls::{News, Side};
use super::copies::Question;
use super::{Driver, Entry, answers};
use crate::causes::chain;
use crate::clock;
use crate::event::HostEvent;
use crate::heartbeat::Hold;

/// Finished runs of a job after which its history is pruned.
const PRUNE_EVERY: u32 = 16;

impl Driver {
    /// What follows at once for an agent goes into `queue`.
    pub(super) fn carry_out(&mut self, job: &JobKey, command: Command, queue: &mut VecDeque<(JobKey, Input)>) {
        match command {
            Command::Reserve(run) => {
                let served = self.places.serve();
                queue.extend(served.into_iter().map(|key| (key.job, Input::Place(key.run))));
                let quota = (self.parts.tenant_quota)(&job.tenant);
                let reserved = self.places.reserve(RunKey { job: job.clone(), run: run.clone() }, quota);
                let answer = match reserved {
                    Ok(()) => Input::Place(run),
                    Err(full) => Input::NoPlace { run, why: full.as_str() },
                };
                queue.push_back((job.clone(), answer));
            }
            Command::Free(run) => {
                let served = self.places.free(&RunKey { job: job.clone(), run });
                queue.extend(served.into_iter().map(|key| (key.job, Input::Place(key.run))));
            }
            Command::Claim(claim) => self.send_claim(job, claim),
            Command::Check(run) => {
                let pause = self.check_pause(job);
                self.checks.add(RunKey { job: job.clone(), run }, pause);
            }
            Command::Start(start) => self.start(job, start, queue),
            Command::Confirm(start) => self.confirm(job, &start, queue),
            Command::Finish { run, token, outcome, usage } => {
                let finish = Finish { run: run.clone(), token, outcome, usage };
                let (store, key) = (self.parts.store.clone(), job.clone());
                self.send_close("recording the end of a run", job, run, token, async move {
                    store.finish(&key, &finish).await
                });
                self.prune_sometimes(job);
            }
            Command::Release { run, token, usage } => {
                if let Some(stopping) = &mut self.stopping {
                    stopping.hands_over = true;
                }
                let release = Release { run: run.clone(), token, usage };
                let (store, key) = (self.parts.store.clone(), job.clone());
                self.send_close(
                    "handing a run over",
                    job,
                    run,
                    token,
                    async move { store.release(&key, &release).await },
                );
            }
            Command::Drop(_, token) => {
                self.heart.drop_hold(token);
                self.guests.remove(&token.0);
            }
            Command::Signal(_, token) => {
                if let Some(signal) = self.guests.get(&token.0) {
                    signal.stop(StopReason::Stopping);
                }
            }
            Command::Force(_, token) => {
                if let Some(signal) = self.guests.get(&token.0) {
                    signal.force();
                }
            }
            Command::Poll => self.polls.soon(clock::mono()),
            // The host has said so for all jobs together.
            Command::Event(event) if event.kind == EventKind::StoreDown && !self.store.is_up() => {}
            Command::Event(event) => {
                self.keep_what_no_claim_tells(job, &event);
                self.tell(job, event);
            }
        }
    }

    pub(super) fn tell(&self, job: &JobKey, event: Event) {
        self.tell_of(Some(job.clone()), event);
    }

    /// Tells of the host as a whole.
    pub(super) fn tell_of_host(&self, kind: EventKind, detail: impl Into<String>) {
        self.tell_of(None, Event { kind, run: None, attempt: None, detail: detail.into() });
    }

    fn tell_of(&self, job: Option<JobKey>, event: Event) {
        let event = HostEvent { at: clock::wall(), host: self.parts.name.clone(), job, event };
        self.parts.events.event(&event);
    }

    fn send_claim(&mut self, job: &JobKey, mut claim: Claim) {
        let Some(copy) = self.calls.copies.begin(claim.token, Question::Claim) else { return };
        let deadline = self.deadline(job);
        claim.runner.clone_from(&self.parts.name);
        // Past its deadline nobody waits for this copy: it must not win then.
        claim.not_after = self.calls.clock.now() + deadline;
        let (store, key) = (self.parts.store.clone(), job.clone());
        let (run, token, kind) = (claim.run.clone(), claim.token, claim.kind);
        let (host, asked) = (self.parts.name.clone(), RunKey { job: job.clone(), run: run.clone() });
        let (job, other) = (job.clone(), (job.clone(), run.clone()));
        self.calls.spawn(
            "claiming a run",
            Side::Changes,
            deadline,
            async move {
                let claimed = store.claim(&key, &claim).await;
                drop(copy);
                claimed.map(|stamped| (stamped.now, stamped.answer))
            },
            move |answer, store_now| {
                let told = answers::of_claim(host, asked, kind, &answer, store_now);
                vec![News::Input(job, Input::Claimed { run, token, answer, store_now }), News::Answered(told)]
            },
            move || vec![News::Input(other.0.clone(), Input::ClaimUnanswered { run: other.1.clone(), token })],
        );
    }

    /// A finish or release: the answers are alike.
    fn send_close(
        &mut self,
        what: &'static str,
        job: &JobKey,
        run: RunId,
        token: Token,
        call: impl Future<Output = Result<Stamped<Accepted>, StoreError>> + Send + 'static,
    ) {
        let Some(copy) = self.calls.copies.begin(token, Question::Close) else { return };
        let (job, other) = (job.clone(), (job.clone(), run.clone()));
        let clock = self.calls.clock.clone();
        let call = async move {
            let closed = call.await;
            drop(copy);
            match closed {
                Ok(stamped) => Ok((stamped.now, stamped.answer == Accepted::Done)),
                // It will be refused however often it is sent: the lease runs out, and the next attempt may fare better.
                Err(error @ StoreError::Rejected { .. }) => {
                    tracing::error!(
                        what,
                        error = &error as &dyn std::error::Error,
                        "the run is left to its next attempt"
                    );
                    Ok((clock.now(), false))
                }
                Err(error) => Err(error),
            }
        };
        self.calls.spawn(
            what,
            Side::Held,
            self.deadline(&job),
            call,
            move |accepted, _| vec![News::Input(job, Input::Closed { run, token, accepted })],
            move || vec![News::Input(other.0.clone(), Input::CloseUnanswered { run: other.1.clone(), token })],
        );
    }

    fn start(&mut self, job: &JobKey, start: Start, queue: &mut VecDeque<(JobKey, Input)>) {
        let version = self.jobs.get(job).and_then(|entry| entry.version(&start));
        if let Some(offered) = version {
            self.start_guest(&offered, start);
            return;
        }
        // The version was replaced twice between claim and answer: another attempt takes the newest.
        queue.push_back((job.clone(), replaced(start)));
    }

    /// Heartbeats without a guest, until one is acknowledged.
    fn confirm(&mut self, job: &JobKey, start: &Start, queue: &mut VecDeque<(JobKey, Input)>) {
        let Some(offered) = self.jobs.get(job).and_then(|entry| entry.version(start)) else {
            queue.push_back((job.clone(), replaced(start.clone())));
            return;
        };
        self.heart.hold(Hold {
            job: job.clone(),
            run: start.run.clone(),
            token: start.token,
            policy: offered.spec.policy.clone(),
            first_sent: start.first_sent,
            guest: None,
        });
    }

    fn prune_sometimes(&mut self, job: &JobKey) {
        let Some(entry) = self.jobs.get_mut(job) else { return };
        let Some(offered) = entry.serving.back() else { return };
        // The first finish prunes too: a host that is restarted often would never come to the sixteenth.
        let now = entry.ends_until_prune == 0;
        entry.ends_until_prune = if now { PRUNE_EVERY - 1 } else { entry.ends_until_prune - 1 };
        if !now {
            return;
        }
        let history_size = offered.spec.policy.history_size;
        let (store, key) = (self.parts.store.clone(), job.clone());
        self.calls.tasks.spawn(async move {
            match store.prune(&key, history_size).await {
                Ok(pruned) => tracing::debug!(job = %key, deleted = pruned.answer, "pruned the history"),
                // The next one makes up for it.
                Err(error @ StoreError::Rejected { .. }) => {
                    tracing::warn!(job = %key, why = chain(&error), "the history was not pruned");
                }
                // An outage is told once, and not for each job.
                Err(error) => tracing::debug!(job = %key, why = chain(&error), "the history was not pruned"),
            }
        });
    }

    /// How long one call for this job may take.
    pub(super) fn deadline(&self, job: &JobKey) -> Duration {
        let policy = self.jobs.get(job).and_then(|entry| entry.serving.back()).map(|offered| &offered.spec.policy);
        policy.map_or(Duration::from_secs(2), |policy| policy.store_deadline())
    }
}

fn replaced(start: Start) -> Input {
    let why = "the plugin was replaced while the run was claimed".to_owned();
    Input::StartRefused { run: start.run, token: start.token, why }
}

impl Entry {
    /// The version that the run's claim named.
    fn version(&self, start: &Start) -> Option<crate::plugins::OfferedJob<leasehold_sandbox::Plugin>> {
        let named = |offered: &&crate::plugins::OfferedJob<_>| Some(super::polls::digest(offered)) == start.digest;
        self.serving.iter().rev().find(named).cloned()
    }
}
