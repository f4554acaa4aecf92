//! `leasehold:job/http`: whole requests and responses.

use wasmtime::Result;

use super::bindings::leasehold::job::http::{Host, HttpError, Request, Response};
use crate::guest::Guest;

impl Host for Guest {
    async fn send(&mut self, request: Request) -> Result<Result<Response, HttpError>> {
        self.ensure_held()?;
        let outward = &self.outward;
        let sent = outward.http.send(self.attempt.clone(), &outward.effects, &outward.sender, request).await;
        Ok(sent.map(|(response, held)| {
            self.keep_until_next_call(held);
            response
        }))
    }
}
