//! Posts items to an HTTP endpoint, in their order. A host may die between a request and its answer, and then the next attempt
//! posts that item again: with the same idempotency key, by which the receiver knows that it has it already.

use leasehold_guest::{Error, Result, Run, handler, http::Request};
use serde::{Deserialize, Serialize};
use serde_json::Value;

handler!(post_all);

#[derive(Deserialize)]
struct Outbox {
    url: String,
    items: Vec<Value>,
}

#[derive(Serialize)]
struct Posted {
    items: usize,
    /// By this attempt.
    here: usize,
}

fn post_all(run: &Run, outbox: Outbox) -> Result<Posted> {
    // What earlier attempts know to have arrived. It may be one less than what has.
    let before: usize = run.load_state()?.unwrap_or(0);
    log::info!("{before} of {} items are posted already", outbox.items.len());
    for (n, item) in outbox.items.iter().enumerate().skip(before) {
        run.ensure_continue()?;
        post(run, &outbox.url, n, item)?;
        run.save_state(&(n + 1))?;
        run.progress(n as u64 + 1, Some(outbox.items.len() as u64), "posted");
    }
    Ok(Posted { items: outbox.items.len(), here: outbox.items.len().saturating_sub(before) })
}

fn post(run: &Run, url: &str, n: usize, item: &Value) -> Result<()> {
    let response = Request::post(url)
        // The same in every attempt of this run, another one in every other run.
        .header("idempotency-key", &run.idempotency_key(&format!("item-{n}")))
        .json(item)?
        .send(run)?;
    match response.status {
        // The receiver has seen this key: an earlier attempt posted it.
        409 => Ok(()),
        _ => response.ok().map(drop).map_err(|error: Error| error.with_detail("item", n)),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use leasehold_guest::http::{HttpError, Response};
    use leasehold_guest::{ErrorKind, testing};

    const PAYLOAD: &[u8] = br#"{"url": "https://api.example.com/inbox", "items": ["a", "b", "c"]}"#;

    /// A receiver that answers so many requests before it is gone.
    fn receiver(answers: usize) -> Rc<RefCell<Vec<Vec<u8>>>> {
        let got = Rc::<RefCell<Vec<Vec<u8>>>>::default();
        let ours = got.clone();
        testing::answer_requests(move |request| {
            let mut got = ours.borrow_mut();
            if got.len() == answers {
                return Err(HttpError::Unreachable("gone".into()));
            }
            got.push(request.sent_body().unwrap_or_default().to_vec());
            Ok(Response { status: 200, ..Response::default() })
        });
        got
    }

    #[test]
    fn items_are_posted_in_their_order() {
        let run = testing::run();
        let got = receiver(3);
        assert_eq!(testing::call(&run, PAYLOAD, post_all).expect("posted"), br#"{"items":3,"here":3}"#);
        assert_eq!(*got.borrow(), [b"\"a\"", b"\"b\"", b"\"c\""]);
    }

    #[test]
    fn the_next_attempt_goes_on_where_this_one_ended() {
        let run = testing::run();
        receiver(2);
        let error = testing::call(&run, PAYLOAD, post_all).expect_err("the receiver is gone");
        assert_eq!((error.kind(), error.code()), (ErrorKind::Retryable, "http-unreachable"));
        let got = receiver(3);
        assert_eq!(testing::call(&run, PAYLOAD, post_all).expect("posted"), br#"{"items":3,"here":1}"#);
        assert_eq!(*got.borrow(), [b"\"c\""]);
    }
}
