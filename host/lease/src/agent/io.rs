//! What goes into an agent and what comes out.

use std::time::Duration;

use crate::id::{Attempt, Digest, Fence, RunId, Token};
use crate::op::{Claim, ClaimAnswer};
use crate::policy::Policy;
use crate::run::{Outcome, Standing, Usage};
use crate::schedule::Schedule;
use crate::time::{Millis, Mono, Slot};

/// The clocks at the moment of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The host's wall clock. It only computes when slots are due.
    pub wall: Millis,
    /// The host's own timer.
    pub mono: Mono,
    /// The store's clock as the host estimates it from the last answer.
    pub store: Millis,
}

/// The one door through which chance comes in: a host draws for real, a simulator from its seed.
pub trait Chance {
    /// 128 unpredictable bits.
    fn token(&mut self) -> Token;
    /// A time in `[0, limit]`.
    fn up_to(&mut self, limit: Duration) -> Duration;
}

/// What an instance can run: a job as its plugin directory has it.
#[derive(Debug, Clone)]
pub struct Offer {
    /// When slots are due; none for a job that runs on demand only.
    pub schedule: Option<Schedule>,
    /// The job's policy.
    pub policy: Policy,
    /// The plugin it would start.
    pub digest: Digest,
}

/// What the store knows about runs of a job, as far as backups need it.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Where each of them stands; none when the store knows no such run.
    pub runs: Vec<(RunId, Option<Standing>)>,
    /// The store's clock when it answered.
    pub store_now: Millis,
    /// The job's newest started slot.
    pub newest_started: Option<Slot>,
    /// The job's newest skipped slot.
    pub newest_skipped: Option<Slot>,
}

/// How an attempt's guest ended, judged by the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is recorded as this.
    Finish(Outcome),
    /// It is handed over: the host is stopping.
    Release,
    /// Nothing that it says is recorded: it has lost the run.
    Nothing,
}

/// Something happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// The plugin directory offers the job, new or changed, and the store was told.
    Offered {
        /// What is offered.
        offer: Offer,
        /// Slots before this are not caught up.
        since: Millis,
        /// The job's newest started slot.
        newest_started: Option<Slot>,
        /// The job's newest skipped slot.
        newest_skipped: Option<Slot>,
    },
    /// The plugin directory offers the job no more. What runs goes on.
    Withdrawn,
    /// Someone asked this host to take nothing new, or to go on. What runs goes on.
    Drain(bool),
    /// A hint: something of this job was released or triggered just now. It may come late, twice or never.
    Woken,
    /// It is [`crate::agent::Agent::next_wakeup`], or later.
    Wake,
    /// A place is reserved for this run.
    Place(RunId),
    /// No place is free; one will be given when there is.
    NoPlace {
        /// Which one.
        run: RunId,
        /// What is full, for people.
        why: &'static str,
    },
    /// A claim was answered.
    Claimed {
        /// Which run.
        run: RunId,
        /// The claim's token.
        token: Token,
        /// The answer.
        answer: ClaimAnswer,
        /// The store's clock when it answered.
        store_now: Millis,
    },
    /// A claim was not answered in time.
    ClaimUnanswered {
        /// Which run.
        run: RunId,
        /// The claim's token.
        token: Token,
    },
    /// The store was asked about runs, by a check or a poll for unfinished runs. What was found together comes together:
    /// with each input the agent looks at everything it does.
    Seen(Seen),
    /// The store did not answer a check.
    CheckUnanswered(RunId),
    /// The store answers again after it did not.
    StoreUp,
    /// A heartbeat of a running attempt was acknowledged for the first time.
    Confirmed(RunId, Token),
    /// The host lacks the resources to start the handler, or to let it go on; another host may have them.
    StartRefused {
        /// Which run.
        run: RunId,
        /// The attempt's token.
        token: Token,
        /// What it lacks.
        why: String,
    },
    /// The guest has ended.
    Ended {
        /// Which run.
        run: RunId,
        /// The attempt's token.
        token: Token,
        /// What follows.
        verdict: Verdict,
        /// What it used.
        usage: Usage,
    },
    /// The heartbeat of a running attempt was refused. The guest has been signalled.
    Lost(RunId, Token),
    /// The lease of a running attempt may have ended: the store cannot be reached.
    Uncertain(RunId, Token),
    /// A finish or release was accepted or refused.
    Closed {
        /// Which run.
        run: RunId,
        /// The attempt's token.
        token: Token,
        /// Accepted; otherwise the attempt had lost the run.
        accepted: bool,
    },
    /// A finish or release was not answered in time.
    CloseUnanswered {
        /// Which run.
        run: RunId,
        /// The attempt's token.
        token: Token,
    },
    /// The host stops: nothing new is started, what runs is asked to end.
    Stop,
    /// The time to end by itself is over.
    StopForce,
}

/// What the host is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Reserve a place, or wait for one. Answered by [`Input::Place`] or [`Input::NoPlace`].
    Reserve(RunId),
    /// Give the place back, or stop waiting for one.
    Free(RunId),
    /// Send a claim. The driver sets `runner` and `not_after`.
    Claim(Claim),
    /// Ask the store about a run.
    Check(RunId),
    /// Start the handler and its heartbeats.
    Start(Start),
    /// Send heartbeats for an attempt that is not started before one is acknowledged.
    Confirm(Start),
    /// Record how the run ended.
    Finish {
        /// Which run.
        run: RunId,
        /// The attempt's token.
        token: Token,
        /// How it ended.
        outcome: Outcome,
        /// What it used.
        usage: Usage,
    },
    /// Hand the run over.
    Release {
        /// Which run.
        run: RunId,
        /// The attempt's token.
        token: Token,
        /// What it used.
        usage: Usage,
    },
    /// End this attempt's heartbeats.
    Drop(RunId, Token),
    /// Tell the guest to stop: the host is stopping.
    Signal(RunId, Token),
    /// Interrupt the guest.
    Force(RunId, Token),
    /// Ask the store for unfinished runs soon.
    Poll,
    /// Tell people.
    Event(Event),
}

/// What a handler is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Which run.
    pub run: RunId,
    /// The attempt's token.
    pub token: Token,
    /// The attempt's number.
    pub attempt: Attempt,
    /// The attempt's fence.
    pub fence: Fence,
    /// "schedule", "catch-up", "takeover" or "on-demand".
    pub reason: &'static str,
    /// The slot; for an on-demand run, when it was asked for. The same in every attempt.
    pub due: Millis,
    /// The plugin that the claim named.
    pub digest: Option<Digest>,
    /// When its claim was first sent: the lease is counted from here.
    pub first_sent: Mono,
    /// What an on-demand run works on.
    pub payload: Option<Vec<u8>>,
}

/// Something that people want to know, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// Which run, where there is one.
    pub run: Option<RunId>,
    /// Which attempt, where there is one.
    pub attempt: Option<Attempt>,
    /// More, in words; empty where the kind says all.
    pub detail: String,
}

/// The kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// This host won a run.
    Claimed,
    /// A slot was skipped: another run was live.
    Skip,
    /// A slot was too long ago.
    Late,
    /// A slot is still ahead by the store's clock.
    Early,
    /// A newer slot has started.
    Superseded,
    /// No place is free on this host.
    NoPlace,
    /// A slot was skipped: someone holds the job back.
    Held,
    /// Slots passed while this host could not look.
    Missed,
    /// This host is a backup of a run.
    Backup,
    /// This host took a run over.
    Takeover,
    /// The lease may have ended: the store cannot be reached.
    Uncertain,
    /// The attempt has lost the run.
    Lost,
    /// The handler returned well.
    Success,
    /// The handler failed.
    Failed,
    /// The attempt was handed over, or the run given up.
    Interrupted,
    /// The run was cancelled, and its handler has ended.
    Cancelled,
    /// An on-demand run waits for the job to be free.
    Pending,
    /// The newest started slot lies in the store's future: a clock was wrong, and no slot starts before it.
    Blocked,
    /// This host has no plugin that serves the job: it neither starts nor backs up its runs.
    NoPlugin,
    /// Hosts differ in what they must agree on: a job's lease, its slots, the time.
    PolicyDiffers,
    /// A missed slot is run after all.
    CatchUp,
    /// The store does not answer, or a claim was given up because it did not; once until it answers again.
    StoreDown,
    /// The store answers again.
    StoreUp,
}

impl EventKind {
    /// The word that people and files use.
    pub fn word(self) -> &'static str {
        match self {
            EventKind::Claimed => "claimed",
            EventKind::Skip => "skip",
            EventKind::Late => "late",
            EventKind::Early => "early",
            EventKind::Superseded => "superseded",
            EventKind::NoPlace => "no-place",
            EventKind::Missed => "missed",
            EventKind::Held => "held",
            EventKind::Backup => "backup",
            EventKind::Takeover => "takeover",
            EventKind::Uncertain => "uncertain",
            EventKind::Lost => "lost",
            EventKind::Success => "success",
            EventKind::Failed => "failed",
            EventKind::Interrupted => "interrupted",
            EventKind::Cancelled => "cancelled",
            EventKind::Pending => "pending",
            EventKind::Blocked => "blocked",
            EventKind::NoPlugin => "no-plugin",
            EventKind::PolicyDiffers => "policy-differs",
            EventKind::CatchUp => "catch-up",
            EventKind::StoreDown => "store-down",
            EventKind::StoreUp => "store-up",
        }
    }
}
