//! Heartbeats: many in one call, and none held up by another's job.

use std::collections::HashMap;
use std::time::Duration;

use leasehold_lease::id::{JobKey, RunId};
use leasehold_lease::op::{Heartbeat, HeartbeatAnswer, Stamped};
use tokio::time::Instant;

use super::answer;
use super::ask;
use super::call::{HEARTBEATS, Row};
use super::error::Fault;
use super::lane::{Lane, deadline};
use crate::error::StoreError;
use crate::view::Each;

/// Heartbeats of one call, so that a claim waits only so long for the rows that it locks.
const TOGETHER: usize = 2_500;

/// How long jobs that others hold are waited for together, and then each alone.
const PATIENCE: (Duration, Duration) = (Duration::from_millis(400), Duration::from_millis(50));

/// What callers of heartbeats want.
const DOING: &str = "renewing leases";

type Beat = (JobKey, Heartbeat);

/// Sends all heartbeats. Fails as a whole only when nothing was done.
pub(super) async fn send(lane: &Lane, beats: &[Beat]) -> Result<Vec<Each<HeartbeatAnswer>>, StoreError> {
    let mut sending = Sending { lane, beats, deadline: deadline(), answers: beats.iter().map(|_| None).collect() };
    for (nth, call) in calls(beats).into_iter().enumerate() {
        match sending.first(&call).await {
            Ok(locked) if locked.is_empty() => {}
            Ok(locked) => sending.locked(&locked).await,
            Err(fault) if nth == 0 => return Err(fault.told(DOING)),
            Err(fault) => sending.failed(&call, &fault),
        }
    }
    let unanswered = || Err(lane.unreadable(DOING, "a heartbeat was not answered"));
    Ok(sending.answers.into_iter().map(|answer| answer.unwrap_or_else(unanswered)).collect())
}

/// Places of heartbeats by the call they go with: a run is in each call once, at most.
fn calls(beats: &[Beat]) -> Vec<Vec<usize>> {
    let mut rounds: Vec<Vec<usize>> = Vec::new();
    let mut seen: HashMap<(&JobKey, &RunId), usize> = HashMap::new();
    for (place, (job, beat)) in beats.iter().enumerate() {
        let round = seen.entry((job, &beat.run)).and_modify(|round| *round += 1).or_insert(0);
        if *round == rounds.len() {
            rounds.push(Vec::new());
        }
        rounds[*round].push(place);
    }
    rounds.iter().flat_map(|round| round.chunks(TOGETHER).map(<[usize]>::to_vec)).collect()
}

/// Heartbeats under way.
struct Sending<'a> {
    lane: &'a Lane,
    beats: &'a [Beat],
    deadline: Instant,
    answers: Vec<Option<Each<HeartbeatAnswer>>>,
}

impl Sending<'_> {
    /// Renews what nobody holds. Answers the places of those whose job another session holds.
    async fn first(&mut self, places: &[usize]) -> Result<Vec<usize>, Fault> {
        self.call(false, places, PATIENCE.0).await
    }

    /// Waits for jobs that others hold: together, and if that takes long each alone, so that a job that is stuck costs
    /// no other its lease (S14).
    async fn locked(&mut self, places: &[usize]) {
        match self.call(true, places, PATIENCE.0).await {
            Ok(_) => {}
            Err(Fault::Locked(_) | Fault::Conflict(_)) => {
                for place in places {
                    if let Err(fault) = self.call(true, &[*place], PATIENCE.1).await {
                        self.failed(&[*place], &fault);
                    }
                }
            }
            Err(fault) => self.failed(places, &fault),
        }
    }

    async fn call(&mut self, wait: bool, places: &[usize], patience: Duration) -> Result<Vec<usize>, Fault> {
        let ask = ask::heartbeats(wait, places.iter().map(|place| (*place, &self.beats[*place])));
        let rows = self.lane.call_until(&HEARTBEATS, ask, patience, self.deadline).await?;
        Ok(rows.iter().filter_map(|row| self.take(row)).collect())
    }

    /// Puts an answer in its place; answers the place when the job is held.
    fn take(&mut self, row: &Row) -> Option<usize> {
        let place = usize::try_from(row.ordinal).ok().filter(|place| *place < self.answers.len())?;
        let answer = match answer::stamped(row, answer::heartbeat) {
            Ok(Stamped { answer: None, .. }) => return Some(place),
            Ok(Stamped { now, revision, answer: Some(answer) }) => Ok(Stamped { now, revision, answer }),
            Err(error) => Err(self.lane.unreadable(DOING, error)),
        };
        self.answers[place] = Some(answer);
        None
    }

    fn failed(&mut self, places: &[usize], fault: &Fault) {
        for place in places {
            self.answers[*place] = Some(Err(fault.clone().told(DOING)));
        }
    }
}
