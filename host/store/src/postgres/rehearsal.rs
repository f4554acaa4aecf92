//! What a session does while nobody needs it: each frequent verb once, about a job that never was, in a transaction that is
//! taken back.
//!
//! A session reads a function and plans its statements when it calls them for the first time, which takes ten times as long as
//! the call. A host that backs others up claims seldom, and when it does, a run stands still meanwhile.

use std::time::Duration;

use leasehold_lease::id::{JobKey, RunId, Token};
use leasehold_lease::op::{Claim, ClaimKind, Finish, Release};
use leasehold_lease::policy::Policy;
use leasehold_lease::run::{Outcome, Usage};
use leasehold_lease::time::{Millis, Slot};
use sqlx::Connection;
use sqlx::postgres::PgConnection;

use super::address::Transport;
use super::call::{self, Row};
use super::{ask, lane};
use crate::view::CALL_LIMIT;

/// Claims a run, hands it over, takes it over, ends it and claims the next one, so that all of these are ready; nothing of it
/// stays. Answers what the functions did.
///
/// # Errors
///
/// What the server says. The connection may be in the midst of a transaction then, and must not be used again.
pub(super) async fn rehearse(db: &mut PgConnection) -> Result<Vec<Row>, sqlx::Error> {
    // No namespace has such a name, and two sessions that rehearse do not meet.
    let mut tokens = [[0; 16]; 3];
    getrandom::fill(tokens.as_flattened_mut()).map_err(|error| sqlx::Error::Io(error.into()))?;
    let namespace = format!("\u{1}{}", leasehold_lease::id::hex(&tokens[0]));
    let mut transaction = db.begin().await?;
    let time = call::document(&namespace, CALL_LIMIT, &ask::time());
    let rows = call::send(&mut transaction, Transport::Prepared, &call::TELL_TIME, &time).await?;
    let at = rows.first().map_or(0, |row: &Row| row.at);
    let requests = requests(Millis(at), tokens.map(Token));
    let document = call::document(&namespace, CALL_LIMIT, &lane::batch_of(&requests));
    let answers = call::send(&mut transaction, Transport::Prepared, &call::BATCH, &document).await?;
    transaction.rollback().await?;
    Ok(answers)
}

fn requests(at: Millis, [first, second, third]: [Token; 3]) -> [String; 5] {
    let job: JobKey = "rehearsal".parse().expect("it is a name");
    let run = RunId::Slot(Slot(at - Duration::from_millis(1)));
    // The claim that is frequent: of a new slot of a job that is known, while nothing else runs.
    let next = RunId::Slot(Slot(at));
    let terms = Policy::default().terms();
    let claim = |run: &RunId, kind, token| Claim {
        run: run.clone(),
        kind,
        token,
        runner: String::new(),
        digest: None,
        terms: terms.clone(),
        not_after: Millis(i64::MAX),
    };
    let usage = Usage::default();
    let release = Release { run: run.clone(), token: first, usage };
    let outcome = Outcome::Success { output: Vec::new(), cut: false };
    let finish = Finish { run: run.clone(), token: second, outcome, usage };
    [
        ask::claim(&job, &claim(&run, ClaimKind::Slot, first)),
        ask::release(&job, &release),
        ask::claim(&job, &claim(&run, ClaimKind::Takeover, second)),
        ask::finish(&job, &finish),
        ask::claim(&job, &claim(&next, ClaimKind::Slot, third)),
    ]
}
