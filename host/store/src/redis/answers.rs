//! What the words of the scripts mean.

use std::sync::Arc;

use leasehold_lease::id::{Attempt, Fence};
use leasehold_lease::op::{Accepted, ClaimAnswer, Stamped};
use leasehold_lease::run::Hold;
use redis::Value;

use super::batch::{Piece, side_by_side_by};
use super::call::Call;
use super::decode::{Fields, unreadable};
use super::error::another;
use super::keys::run_id;
use super::link::{Limit, Link};
use super::record::{maybe_millis, maybe_slot, millis, status};
use crate::error::StoreError;
use crate::view::Each;
use crate::wire::WireError;

/// Reads an answer with its stamp.
pub(super) fn stamped<A>(
    answer: Value,
    read: impl FnOnce(&mut Fields) -> Result<A, WireError>,
) -> Result<Stamped<A>, WireError> {
    let mut fields = Fields::of("an answer", answer)?;
    let (now, revision) = (millis(&mut fields)?, fields.number()?);
    Ok(Stamped { now, revision, answer: read(&mut fields)? })
}

/// Sends the pieces of a batch and reads the answers, each in the place of its item.
pub(super) async fn each<A>(
    doing: &'static str,
    limit: Limit,
    many: usize,
    link: &Arc<Link>,
    pieces: &[Piece],
    calls: Vec<Call>,
    read: impl Fn(&mut Fields) -> Result<A, WireError>,
) -> Result<Vec<Each<A>>, StoreError> {
    let mut answers: Vec<Option<Each<A>>> = (0..many).map(|_| None).collect();
    let mut failed = None;
    for (piece, answer) in pieces.iter().zip(side_by_side_by(limit, link, doing, calls).await) {
        let values = answer.and_then(|answer| {
            let values = Fields::of("the answers", answer).map(|fields| fields.rest()).map_err(unreadable(doing))?;
            let complete = values.len() == piece.items.len();
            complete
                .then_some(values)
                .ok_or_else(|| unreadable(doing)(WireError::new("the answers", "some are missing")))
        });
        match values {
            Ok(values) => {
                for (item, value) in piece.items.iter().zip(values) {
                    answers[*item] = Some(one(doing, value, &read));
                }
            }
            Err(error) => failed = Some(error),
        }
    }
    // A piece without an answer leaves the others theirs; where nothing was answered the call has failed.
    match failed {
        Some(error) if answers.iter().all(Option::is_none) => Err(error),
        failed => {
            let failed = failed.map(Arc::new);
            let missing = || match &failed {
                Some(error) => Err(another(error)),
                None => Err(unreadable(doing)(WireError::new("the answers", "one is missing"))),
            };
            Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect())
        }
    }
}

/// The answer for one item, or why its record cannot be read.
fn one<A>(doing: &'static str, value: Value, read: impl Fn(&mut Fields) -> Result<A, WireError>) -> Each<A> {
    let mut fields = Fields::of("an answer", value).map_err(unreadable(doing))?;
    let now = maybe_millis(&mut fields).map_err(unreadable(doing))?;
    let answer = match now {
        Some(now) => fields.number().and_then(|revision| Ok(Stamped { now, revision, answer: read(&mut fields)? })),
        None => fields.text().and_then(|reason| Err(WireError::new("a record", reason))),
    };
    answer.map_err(unreadable(doing))
}

pub(super) fn claim_answer(fields: &mut Fields) -> Result<ClaimAnswer, WireError> {
    Ok(match fields.text()?.as_str() {
        "won" => ClaimAnswer::Won {
            attempt: Attempt(fields.number()?),
            fence: Fence(fields.number()?),
            payload: fields.maybe_bytes()?,
        },
        "ended" => ClaimAnswer::Ended(status(&fields.text()?)?),
        "running" => ClaimAnswer::Running { attempt: Attempt(fields.number()?), lease_end: millis(fields)? },
        "overlap" => ClaimAnswer::Overlap { with: run_id(&fields.text()?)? },
        "stale" => ClaimAnswer::Stale,
        "none" => ClaimAnswer::None { newest_started: maybe_slot(fields)? },
        "late" => ClaimAnswer::Late,
        "early" => ClaimAnswer::Early,
        "superseded" => ClaimAnswer::Superseded { newest_started: maybe_slot(fields)? },
        "held" => ClaimAnswer::Held { until: maybe_millis(fields)? },
        "old" => ClaimAnswer::Old,
        other => return fields.unknown(other),
    })
}

pub(super) fn accepted(fields: &mut Fields) -> Result<Accepted, WireError> {
    match fields.text()?.as_str() {
        "done" => Ok(Accepted::Done),
        "refused" => Ok(Accepted::Refused),
        other => fields.unknown(other),
    }
}

/// A hold, as scripts answer it.
pub(super) fn maybe_hold(fields: &mut Fields) -> Result<Option<Hold>, WireError> {
    let Some(mut hold) = fields.maybe_list("a hold")? else { return Ok(None) };
    let (until, note, since) = (maybe_millis(&mut hold)?, hold.text()?, maybe_millis(&mut hold)?);
    Ok(Some(Hold { since, until, note }))
}
