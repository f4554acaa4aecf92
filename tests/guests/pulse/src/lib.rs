//! Acts on the world at a steady pace, as long as it may: it asks before each act, and gives each a key of its own that is
//! the same in every attempt.

use std::time::Duration;

use leasehold_guest::http::{HttpError, Request};
use leasehold_guest::{Result, Run, handler};
use serde::Deserialize;

handler!(act);

#[derive(Deserialize)]
struct Pace {
    /// Whom it tells of each act: the number of the act is appended.
    url: String,
    /// How many acts.
    times: u32,
    /// Between two of them.
    ms: u64,
}

fn act(run: &Run, pace: Pace) -> Result<u32> {
    for n in 0..pace.times {
        if n > 0 {
            run.sleep(Duration::from_millis(pace.ms))?;
        }
        run.ensure_continue()?;
        let key = run.idempotency_key(&format!("act-{n}"));
        let sent = Request::post(&format!("{}{n}", pace.url)).header("idempotency-key", &key).send(run);
        match sent {
            // It may have arrived. Whether to go on is asked before the next one.
            Ok(_) | Err(HttpError::Uncertain) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(pace.times)
}
