//! What claims were answered, kept in the store for people who ask why: written in batches, behind everything that matters.

use std::time::Duration;

use leasehold_lease::agent::{Event, EventKind};
use leasehold_lease::id::{JobKey, RunId, RunKey};
use leasehold_lease::op::{ClaimAnswer, ClaimKind};
use leasehold_lease::time::{Millis, Mono};
use leasehold_store::HostAnswer;

use super::Driver;
use super::calls::News;
use crate::clock;

/// How long an answer waits for others to go along.
const REST: Duration = Duration::from_secs(1);

/// Answers in one call.
const BATCH: usize = 500;

/// Answers that wait; while the store is away or slow, newer ones are dropped.
const WAITING: usize = 5_000;

/// Characters of a detail that are kept.
const DETAIL: usize = 300;

/// Answers on their way to the store.
#[derive(Default)]
pub(super) struct Answers {
    waiting: Vec<HostAnswer>,
    dropped: u64,
    next: Option<Mono>,
    writing: bool,
}

impl Answers {
    /// When the next batch is due.
    pub(super) fn next(&self) -> Option<Mono> {
        self.next.filter(|_| !self.writing)
    }

    fn keep(&mut self, told: HostAnswer, now: Mono) {
        if self.waiting.len() == WAITING {
            self.dropped += 1;
            return;
        }
        self.waiting.push(told);
        self.next.get_or_insert(now + REST);
    }

    fn batch(&mut self, now: Mono) -> Vec<HostAnswer> {
        let rest = self.waiting.split_off(self.waiting.len().min(BATCH));
        self.next = (!rest.is_empty()).then_some(now);
        if self.dropped > 0 {
            tracing::warn!(dropped = self.dropped, "answers for `leasehold why` came faster than the store takes them");
            self.dropped = 0;
        }
        std::mem::replace(&mut self.waiting, rest)
    }
}

impl Driver {
    pub(super) fn keep_answer(&mut self, told: HostAnswer) {
        self.answers.keep(told, clock::mono());
    }

    /// What keeps a slot from being claimed at all is an answer, too.
    pub(super) fn keep_what_no_claim_tells(&mut self, job: &JobKey, event: &Event) {
        use EventKind::{Late, Missed, NoPlace, NoPlugin};
        let (Some(run), NoPlace | Missed | Late | NoPlugin) = (&event.run, event.kind) else { return };
        self.keep_answer(HostAnswer {
            run: RunKey { job: job.clone(), run: run.clone() },
            host: self.parts.name.clone(),
            at: self.calls.clock.now(),
            asked: if run.slot().is_some() { "slot" } else { "on-demand" }.to_owned(),
            answer: event.kind.word().to_owned(),
            detail: event.detail.chars().take(DETAIL).collect(),
        });
    }

    /// Writes a batch. One that fails is lost: it is for people, and must not pile up.
    pub(super) fn write_answers(&mut self) {
        let batch = self.answers.batch(clock::mono());
        if batch.is_empty() {
            return;
        }
        self.answers.writing = true;
        let (store, news) = (self.parts.store.clone(), self.calls.news.clone());
        self.calls.tasks.spawn(async move {
            if let Err(error) = store.keep_answers(&batch).await {
                let error = &error as &dyn std::error::Error;
                tracing::debug!(answers = batch.len(), error, "answers for `leasehold why` are lost");
            }
            news.tell(News::AnswersWritten);
        });
    }

    pub(super) fn answers_written(&mut self) {
        self.answers.writing = false;
    }

    /// What has not been written when the host ends, in batches.
    pub(super) fn last_answers(&mut self) -> Vec<Vec<HostAnswer>> {
        let now = clock::mono();
        std::iter::from_fn(|| Some(self.answers.batch(now)).filter(|batch| !batch.is_empty())).collect()
    }
}

/// The answer to a claim in the words of the record.
pub(super) fn of_claim(host: String, run: RunKey, kind: ClaimKind, answer: &ClaimAnswer, at: Millis) -> HostAnswer {
    let (asked, word) = (kind.word().to_owned(), answer.word().to_owned());
    let detail = detail(&run.run, answer);
    HostAnswer { run, host, at, asked, answer: word, detail }
}

/// What the answer says beside its word.
fn detail(run: &RunId, answer: &ClaimAnswer) -> String {
    match answer {
        ClaimAnswer::Won { attempt, fence, .. } => format!("attempt {attempt}, fence {}", fence.0),
        ClaimAnswer::Ended(status) => format!("as {status}"),
        ClaimAnswer::Running { attempt, lease_end } => format!("attempt {attempt}, its lease lasts until {lease_end}"),
        ClaimAnswer::Overlap { with } => format!("{with} was still running"),
        ClaimAnswer::Held { until: Some(until) } => format!("the job is paused until {until}"),
        ClaimAnswer::Held { until: None } => "the job is paused until it is resumed".to_owned(),
        // An older one does not stand in the way of a slot.
        ClaimAnswer::Superseded { newest_started } if *newest_started < run.slot() => {
            "it was skipped, or catching up begins later".to_owned()
        }
        ClaimAnswer::None { newest_started: Some(newest) }
        | ClaimAnswer::Superseded { newest_started: Some(newest) } => {
            format!("slot {newest} had started")
        }
        ClaimAnswer::None { newest_started: None } | ClaimAnswer::Superseded { newest_started: None } => String::new(),
        ClaimAnswer::Stale | ClaimAnswer::Late | ClaimAnswer::Early | ClaimAnswer::Old => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use leasehold_lease::id::RunId;
    use leasehold_lease::time::Slot;

    use super::*;

    fn told() -> HostAnswer {
        let run = RunKey { job: "a/x".parse().expect("a job"), run: RunId::Slot(Slot(Millis(0))) };
        let word = String::new;
        HostAnswer { run, host: word(), at: Millis(0), asked: word(), answer: word(), detail: word() }
    }

    #[test]
    fn answers_wait_for_others_and_what_is_too_many_is_dropped() {
        let (mut answers, start) = (Answers::default(), Mono::default());
        answers.keep(told(), start);
        assert_eq!(answers.next(), Some(start + REST));
        for _ in 0..2 * WAITING {
            answers.keep(told(), start);
        }
        assert_eq!((answers.waiting.len(), answers.dropped), (WAITING, WAITING as u64 + 1));
        let now = start + REST;
        assert_eq!((answers.batch(now).len(), answers.next()), (BATCH, Some(now)), "the rest follows at once");
        while !answers.batch(now).is_empty() {}
        assert_eq!(answers.next(), None);
    }
}
