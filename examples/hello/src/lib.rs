//! The smallest plugin: it greets.

use leasehold_guest::{Result, Run, handler};
use serde::{Deserialize, Serialize};

handler!(greet);

#[derive(Deserialize)]
struct Greeting {
    name: String,
}

#[derive(Serialize)]
struct Reply {
    text: String,
}

fn greet(run: &Run, input: Greeting) -> Result<Reply> {
    log::info!(attempt = run.attempt(); "greeting {}", input.name);
    run.ensure_continue()?; // before every side effect
    Ok(Reply { text: format!("Hello, {}!", input.name) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_guest::{ErrorKind, StopReason, testing};

    #[test]
    fn it_greets_by_name() {
        let output = testing::call(&testing::run(), br#"{ "name": "Ada" }"#, greet).expect("a greeting");
        assert_eq!(output, br#"{"text":"Hello, Ada!"}"#);
    }

    #[test]
    fn it_greets_nobody_once_the_run_is_lost() {
        let run = testing::run();
        testing::stop(StopReason::Lost);
        let error = testing::call(&run, br#"{ "name": "Ada" }"#, greet).expect_err("a stopped run");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    }
}
