//! Heartbeats: many in one call, and none held up by another's job.

use std::collections::HashMap;
use std::time::Duration;

use leasehold_lease::id::{JobKey, RunId};
use leasehold_lease::op::{Heartbeat, HeartbeatAnswer, Stamped};
use tokio::time::Instant;

use super::answer;
use super::call::{HEARTBEATS, Row};
use super::error::Fault;
use super::lane::{Entered, Lane, SHORT, deadline};
use super::{HOT, ask};
use crate::error::StoreError;
use crate::view::Each;

/// Heartbeats of one call, so that a claim waits only so long for the rows that it locks.
const TOGETHER: usize = 2_500;

/// How long jobs that others hold are waited for together, and then each alone. Together: until each connection for claims
/// has given up a call of many that holds their rows, one after the other.
const PATIENCE: (Duration, Duration) = (Duration::from_millis(600), Duration::from_millis(50));

const _: () = assert!(PATIENCE.0.as_millis() > SHORT.as_millis() * HOT as u128);

/// What callers of heartbeats want.
const DOING: &str = "renewing leases";

type Beat = (JobKey, Heartbeat);

/// Sends all heartbeats, in several calls at once where they are many. Where the server does not answer the only call,
/// that is an error as a whole; where there are several, each heartbeat is answered for itself.
pub(super) async fn send(lane: &Lane, beats: &[Beat]) -> Result<Vec<Each<HeartbeatAnswer>>, StoreError> {
    let rounds = rounds(beats);
    let is_one_call = beats.len() <= TOGETHER && rounds.len() == 1;
    let mut sending = Sending { lane, beats, deadline: deadline(), answers: beats.iter().map(|_| None).collect() };
    for round in &rounds {
        let mut calls = Vec::new();
        for places in round.chunks(TOGETHER) {
            calls.push((places, sending.enter(false, places, PATIENCE.0).await));
        }
        let mut locked = Vec::new();
        for (places, call) in calls {
            match call.answer().await {
                Ok(rows) => locked.extend(sending.take(&rows)),
                Err(fault) if !fault.concerns_all() && places.len() > 1 => locked.extend(sending.halved(places).await),
                Err(fault) if is_one_call => return Err(fault.told(DOING)),
                Err(fault) => sending.failed(places, &fault),
            }
        }
        if !locked.is_empty() {
            sending.locked(&locked).await;
        }
    }
    let unanswered = || Err(lane.done_or_not(DOING, "a heartbeat was not answered"));
    Ok(sending.answers.into_iter().map(|answer| answer.unwrap_or_else(unanswered)).collect())
}

/// Places of heartbeats by the round they go with: a run is in each round once, at most.
fn rounds(beats: &[Beat]) -> Vec<Vec<usize>> {
    let mut rounds: Vec<Vec<usize>> = Vec::new();
    let mut seen: HashMap<(&JobKey, &RunId), usize> = HashMap::new();
    for (place, (job, beat)) in beats.iter().enumerate() {
        let round = seen.entry((job, &beat.run)).and_modify(|round| *round += 1).or_insert(0);
        if *round == rounds.len() {
            rounds.push(Vec::new());
        }
        rounds[*round].push(place);
    }
    rounds
}

/// Heartbeats under way.
struct Sending<'a> {
    lane: &'a Lane,
    beats: &'a [Beat],
    deadline: Instant,
    answers: Vec<Option<Each<HeartbeatAnswer>>>,
}

impl Sending<'_> {
    /// Sends heartbeats again one of which the server refuses: in halves, and those again, until all others are renewed
    /// (S14). Answers the places of those whose job another session holds.
    async fn halved(&mut self, places: &[usize]) -> Vec<usize> {
        let mut locked = Vec::new();
        let (first, second) = places.split_at(places.len() / 2);
        let mut parts = vec![second, first];
        while let Some(part) = parts.pop() {
            match self.enter(false, part, PATIENCE.0).await.answer().await {
                Ok(rows) => locked.extend(self.take(&rows)),
                Err(fault) if !fault.concerns_all() && part.len() > 1 => {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second, first]);
                }
                Err(fault) => self.failed(part, &fault),
            }
        }
        locked
    }

    /// Waits for jobs that others hold: together, and if that takes long each alone, so that a job that is stuck costs
    /// no other its lease (S14).
    async fn locked(&mut self, places: &[usize]) {
        match self.enter(true, places, PATIENCE.0).await.answer().await {
            Ok(rows) => {
                self.take(&rows);
            }
            Err(fault) if !fault.concerns_all() => {
                for place in places {
                    match self.enter(true, &[*place], PATIENCE.1).await.answer().await {
                        Ok(rows) => {
                            self.take(&rows);
                        }
                        Err(fault) => self.failed(&[*place], &fault),
                    }
                }
            }
            Err(fault) => self.failed(places, &fault),
        }
    }

    async fn enter(&self, wait: bool, places: &[usize], patience: Duration) -> Entered {
        let ask = ask::heartbeats(wait, places.iter().map(|place| (*place, &self.beats[*place])));
        self.lane.enter_call(&HEARTBEATS, ask, patience, self.deadline).await
    }

    /// Puts answers in their places; answers the places of those whose job another session holds.
    fn take(&mut self, rows: &[Row]) -> Vec<usize> {
        let mut locked = Vec::new();
        for row in rows {
            let place = usize::try_from(row.ordinal).ok().filter(|place| *place < self.answers.len());
            let Some(place) = place else { continue };
            self.answers[place] = match answer::stamped(row, answer::heartbeat) {
                Ok(Stamped { answer: None, .. }) => {
                    locked.push(place);
                    continue;
                }
                Ok(Stamped { now, revision, answer: Some(answer) }) => Some(Ok(Stamped { now, revision, answer })),
                Err(error) => Some(Err(self.lane.done_or_not(DOING, error))),
            };
        }
        locked
    }

    fn failed(&mut self, places: &[usize], fault: &Fault) {
        for place in places {
            self.answers[*place] = Some(Err(fault.clone().told(DOING)));
        }
    }
}
